"""Documents to passages, and passages back to documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from hippo_core import InputError, Passage, ScoredPassage

OF_A_RETRIEVAL = {
    "hipporag_score": float,
    "hipporag_rank": int,
    "hipporag_triples": list,
    "hipporag_explanation": dict,
    "hipporag_step": int,
}
"""What is said of one retrieval among the metadata, and not kept where that is added again."""

MetadataEncoder = Callable[[Any], Any]


def to_passages(
    documents: Iterable[Document],
    ids: Sequence[str] | None = None,
    *,
    title_key: str | None = "title",
    metadata_encoder: MetadataEncoder | None = None,
) -> list[Passage]:
    """Give a passage for each document; the documents stay as they are.

    Args:
        documents: Documents; one without an id gets it from its content.
        ids: Ids to use in place of the documents' own, one for each.
        title_key: The metadata key whose text is read and embedded before the content.
        metadata_encoder: Gives something made of JSON for a metadata value that is not.

    Raises:
        InputError: There are not as many ids as documents.
        TypeError: Something is not a Document.
    """
    found = list(documents)
    for document in found:
        if not isinstance(document, Document):
            raise TypeError(
                f"documents must be a list of Document, got {type(document).__name__} in it; "
                "for bare texts there is from_texts"
            )
    if ids is not None and len(ids) != len(found):
        raise InputError(f"there must be one id for each document: {len(ids)} for {len(found)}")
    return [
        _to_passage(document, id_, title_key, metadata_encoder)
        for document, id_ in zip(found, [d.id for d in found] if ids is None else ids, strict=True)
    ]


def to_document(passage: Passage) -> Document:
    """Give the document that a passage was made of."""
    own = passage.copy()
    return Document(id=own.id, page_content=own.text, metadata=dict(own.metadata))


def to_scored_document(
    hit: ScoredPassage, *, include_scores: bool, include_triples: bool
) -> Document:
    """Give a found passage's document, and what is asked for among its metadata."""
    document = to_document(hit.passage)
    if include_scores:
        document.metadata["hipporag_score"] = hit.score
        document.metadata["hipporag_rank"] = hit.rank
    if include_triples:
        document.metadata["hipporag_triples"] = [list(triple) for triple in hit.triples]
    if hit.explanation is not None:
        document.metadata["hipporag_explanation"] = hit.explanation.as_dict()
    return document


def _to_passage(
    document: Document, id_: str | None, title_key: str | None, encoder: MetadataEncoder | None
) -> Passage:
    own = _lasting(document.metadata)
    metadata = own if encoder is None else _encoded(own, encoder)
    source = metadata.get("source")
    title = None if title_key is None else metadata.get(title_key)
    return Passage(
        text=document.page_content,
        id=id_ or "",
        title=title if isinstance(title, str) and title.strip() else "",
        source_id=source if isinstance(source, str) else None,
        metadata=metadata,
    )


def _lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a retrieval said."""
    return {k: v for k, v in metadata.items() if type(v) is not OF_A_RETRIEVAL.get(k)}


def _encoded(value: Any, encoder: MetadataEncoder) -> Any:
    kind = type(value)  # exact, as the core asks: a subclass does not come back as one
    if kind is dict:
        return {key: _encoded(item, encoder) for key, item in value.items()}
    if kind is list:
        return [_encoded(item, encoder) for item in value]
    if value is None or kind in (str, int, bool) or (kind is float and math.isfinite(value)):
        return value
    encoded = encoder(value)
    return _encoded(encoded, encoder) if type(encoded) in (dict, list) else encoded

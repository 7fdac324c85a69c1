"""Documents as they come, their nodes on the way in, and what the memory holds of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llama_index.core.schema import BaseNode, Document

from hippo_core import HippoRAG
from llama_index_hipporag._convert import document_hash


def listed(documents: Iterable[Document]) -> list[Document]:
    """List documents, which a loader may give one by one.

    Raises:
        TypeError: Something is no document.
    """
    found = list(documents)
    for document in found:
        if not isinstance(document, BaseNode):
            raise TypeError(
                f"documents must be a list of Document, got {type(document).__name__} in it"
            )
    return found


def ids_of(documents: Iterable[Document]) -> set[str]:
    """Give the documents' ids."""
    return {document.id_ for document in documents}


@dataclass(frozen=True)
class Batch:
    """Nodes of one insert, and the hashes of the documents that they were made of."""

    nodes: Sequence[BaseNode]
    hashes: Mapping[str, str] = field(default_factory=dict)


class Known:
    """What the memory holds of documents."""

    def __init__(self, hippo: HippoRAG, document_ids: Collection[str] | None = None) -> None:
        self._hippo = hippo
        self.passages = [
            passage
            for passage in hippo
            if document_ids is None or passage.source_id in document_ids
        ]

    def hashes(self) -> dict[str, str]:
        """Give the hash of each document that is there in one state, and read in full."""
        found: dict[str, set[str | None]] = {}
        unfinished = {
            id_
            for id_, extraction in self._hippo.extractions([p.id for p in self.passages]).items()
            if not extraction.status.finished
        }
        for passage in self.passages:
            if passage.source_id is not None:
                hash_ = None if passage.id in unfinished else document_hash(passage)
                found.setdefault(passage.source_id, set()).add(hash_)
        single = {id_: hashes.pop() for id_, hashes in found.items() if len(hashes) == 1}
        return {id_: hash_ for id_, hash_ in single.items() if hash_ is not None}

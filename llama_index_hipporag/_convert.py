"""Nodes to passages, and passages back to nodes.

The memory is where a node's truth lives: what LlamaIndex needs to build it again stands beside its
metadata in the passage, under one key. So a commit holds a node whole or not at all, a retrieval
needs no docstore, and a memory that is opened alone gives back what was put in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import (
    BaseNode,
    Document,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore.utils import json_to_doc

from hippo_core import InputError, Passage, ScoredPassage
from llama_index_hipporag._node_graph import without_graph
from llama_index_hipporag._order import in_order, order_of

MetadataEncoder = Callable[[Any], Any]

NODE = "_node"  # the key, among a passage's metadata, of what its node has beside them
OF_A_RETRIEVAL = {
    "hipporag_score": float,
    "hipporag_rank": int,
    "hipporag_triples": list,
    "hipporag_explanation": dict,
    "hipporag_step": int,
}
"""What is said of one retrieval among the metadata, and not kept where that is added again."""
_DOCUMENT_HASH = "document_hash"
_ORDER = "order"


@dataclass(frozen=True, slots=True)
class Reading:
    """How nodes become passages."""

    extract: MetadataMode = MetadataMode.NONE
    """Which metadata stand in the text that is read."""
    embed: MetadataMode = MetadataMode.EMBED
    """Which metadata stand in the text that is embedded."""
    encoder: MetadataEncoder | None = field(default=None, repr=False)

    def passages(
        self, nodes: Iterable[BaseNode], document_hashes: Mapping[str, str] | None = None
    ) -> list[Passage]:
        """Give a passage for each node; the nodes stay as they are.

        Args:
            nodes: What a node parser makes of documents.
            document_hashes: Of the documents that the nodes were made of, by their ids.

        Raises:
            InputError: A node's metadata has the key under which we keep the node.
            TypeError: Something is not a node.
        """
        return [self._passage(node, document_hashes or {}) for node in nodes]

    def _passage(self, node: BaseNode, hashes: Mapping[str, str]) -> Passage:
        if not isinstance(node, BaseNode):
            raise TypeError(f"nodes must be a list of BaseNode, got {type(node).__name__} in it")
        if NODE in node.metadata:
            raise InputError(
                f"node {node.node_id!r} has the metadata key {NODE!r}, under which the memory "
                "keeps the node itself; rename it"
            )
        own = _lasting(without_graph(node.metadata))
        node = node.model_copy(update={"metadata": own})
        text = node.get_content(self.extract)
        embedded = node.get_content(self.embed)
        source_id = _source_id(node)
        metadata = _encoded(node.metadata, self.encoder)
        return Passage(
            text=text,
            id=node.node_id,
            source_id=source_id,
            metadata={
                **metadata,
                NODE: {
                    **_beside(node, text, hashes.get(source_id or ""), self.encoder),
                    **_order(metadata),
                },
            },
            embed_text="" if embedded == text else embedded,
        )


def to_node(passage: Passage) -> BaseNode:
    """Give the node that a passage was made of, without its embedding.

    A passage that was not made of a node becomes a TextNode.
    """
    own = passage.copy()
    metadata = dict(own.metadata)
    kept = metadata.pop(NODE, None)
    if not isinstance(kept, dict):
        node = TextNode(id_=own.id, text=own.text, metadata=metadata)
        if own.source_id is not None:
            source = RelatedNodeInfo(node_id=own.source_id)
            node.relationships = {NodeRelationship.SOURCE: source}
        return node
    metadata = in_order(metadata, kept.get(_ORDER))
    data = {"text": own.text, **kept[DATA_KEY], "id_": own.id, "metadata": metadata}
    return json_to_doc({TYPE_KEY: kept[TYPE_KEY], DATA_KEY: data})


def document_hash(passage: Passage) -> str | None:
    """Give the hash that the passage's document had when it was indexed, where it is known."""
    kept = passage.metadata.get(NODE)
    found = kept.get(_DOCUMENT_HASH) if isinstance(kept, Mapping) else None
    return found if isinstance(found, str) else None


def to_scored_node(
    hit: ScoredPassage, *, include_scores: bool, include_triples: bool
) -> NodeWithScore:
    """Give a found passage's node, and what is asked for among its metadata, for no model to read.

    By what it has among its metadata a node's hash is another one at each query.
    """
    node = to_node(hit.passage)
    found: dict[str, Any] = {}
    if include_scores:
        found |= {"hipporag_score": hit.score, "hipporag_rank": hit.rank}
    if include_triples:
        found["hipporag_triples"] = [list(triple) for triple in hit.triples]
    if hit.explanation is not None:
        found["hipporag_explanation"] = hit.explanation.as_dict()
    node.metadata = {**node.metadata, **found}
    node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, *found]
    node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, *found]
    return NodeWithScore(node=node, score=hit.score)


def _source_id(node: BaseNode) -> str | None:
    """Give the id of the node's document, which may be the node itself."""
    return node.ref_doc_id or (node.node_id if isinstance(node, Document) else None)


def _beside(
    node: BaseNode, text: str, hash_: str | None, encoder: MetadataEncoder | None
) -> dict[str, Any]:
    """Give what a node has beside id, metadata and the text that was read, as JSON."""
    kept = _as_json(node, encoder, without={"id_", "metadata", "embedding"})
    if kept[DATA_KEY].get("text") == text:
        del kept[DATA_KEY]["text"]
    return kept if hash_ is None else {**kept, _DOCUMENT_HASH: hash_}


def _order(metadata: Any) -> dict[str, Any]:
    order = order_of(metadata)
    return {} if order is None else {_ORDER: order}


def _as_json(node: BaseNode, encoder: MetadataEncoder | None, without: set[str]) -> dict[str, Any]:
    """Write a node as LlamaIndex's docstore does, with no more than differs from the defaults."""
    data = node.model_dump(
        mode="json",
        exclude=without,
        exclude_defaults=True,
        # Relationships hold metadata too, of other nodes: these are looked at, never asked for.
        fallback=encoder or str,
    )
    if isinstance(node, Document):
        del data["text"]  # which stands in its text_resource too
    if isinstance(node, IndexNode) and isinstance(node.obj, BaseNode):
        data["obj"] = _as_json(node.obj, encoder, without={"embedding"})
    kind = node.get_type()
    return {TYPE_KEY: str(getattr(kind, "value", kind)), DATA_KEY: data}


def _lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a retrieval said."""
    return {k: v for k, v in metadata.items() if type(v) is not OF_A_RETRIEVAL.get(k)}


def _encoded(value: Any, encoder: MetadataEncoder | None) -> Any:
    if encoder is None:
        return value
    kind = type(value)  # exact, as the core asks: a subclass does not come back as one
    if kind is dict:
        return {key: _encoded(item, encoder) for key, item in value.items()}
    if kind is list:
        return [_encoded(item, encoder) for item in value]
    if value is None or kind in (str, int, bool) or (kind is float and math.isfinite(value)):
        return value
    encoded = encoder(value)
    return _encoded(encoded, encoder) if type(encoded) in (dict, list) else encoded

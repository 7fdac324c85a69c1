"""A PropertyGraphStore's nodes, with the triples that were read out of each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
)
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from hippo_core import Extraction, InputError, Passage, Triple

_AT_ONCE = 100  # names in one question to a store
_SHOWN = 3  # lost triples in a line of the log

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PropertyGraphReport:
    """What became of what a property graph store holds."""

    nodes: int
    """Nodes that are in the index, those without a triple among them."""
    triples: int
    """Triples that are in the index, each with its node."""
    structural: int
    """Relations between nodes and documents, such as source and next: these are no triples."""
    without_source: tuple[Triple, ...]
    """Triples that do not say which node they were read out of: left out."""
    without_node: Mapping[str, tuple[Triple, ...]]
    """Triples by their node, which the store does not have, or not with text: left out."""


@dataclass(frozen=True)
class StoredGraph:
    """What a store holds, by node."""

    nodes: Sequence[BaseNode]
    triples: Mapping[str, Sequence[Triple]]
    structural: int
    without_source: tuple[Triple, ...]

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of the documents that the nodes were made of, where they agree."""
        found: dict[str, set[str | None]] = {}
        for node in self.nodes:
            source = node.relationships.get(NodeRelationship.SOURCE)
            if isinstance(source, RelatedNodeInfo):
                found.setdefault(source.node_id, set()).add(source.hash)
        single = {id_: hashes.pop() for id_, hashes in found.items() if len(hashes) == 1}
        return {id_: hash_ for id_, hash_ in single.items() if hash_ is not None}

    def extracted(self, passages: Iterable[Passage]) -> list[tuple[Passage, Extraction]]:
        """Give each passage that has text what is known of it; those of one text share that."""
        filled = [passage for passage in passages if passage.full_text.strip()]
        by_text: dict[str, list[Triple]] = {}
        for passage in filled:
            by_text.setdefault(passage.full_text, []).extend(self.triples.get(passage.id, ()))
        return [
            (passage, Extraction(triples=tuple(dict.fromkeys(by_text[passage.full_text]))))
            for passage in filled
        ]

    def report(self, items: Sequence[tuple[Passage, Extraction]]) -> PropertyGraphReport:
        """Say what became of it, given the passages that it has become; log what was lost.

        Raises:
            InputError: There are triples, and a node for none of them.
        """
        there = {passage.id for passage, _ in items}
        lost = {id_: tuple(of) for id_, of in self.triples.items() if id_ not in there}
        strays = [*self.without_source, *(triple for of in lost.values() for triple in of)]
        triples = sum(len(extraction.triples) for _, extraction in items)
        told = (
            f"{len(self.without_source)} triples of the property graph store do not say which node "
            f"they were read out of, and {len(strays) - len(self.without_source)} name one that "
            f"the store does not have, or not with text, such as {strays[:_SHOWN]}"
        )
        if strays and not items:
            raise InputError(
                f"{told}; a memory ranks nodes, so there is nothing to import: keep the nodes in "
                "the store, as PropertyGraphIndex and upsert_llama_nodes do"
            )
        if strays:
            _logger.warning("%s; these were left out", told)
        return PropertyGraphReport(len(items), triples, self.structural, self.without_source, lost)


def read_store(store: PropertyGraphStore) -> StoredGraph:
    """Read all of a store.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(store, PropertyGraphStore):
        raise TypeError(
            f"store must be a PropertyGraphStore, got {type(store).__name__}; that of a "
            "PropertyGraphIndex is index.property_graph_store"
        )
    held = store.get()
    chunks = {node.id: node for node in held if isinstance(node, ChunkNode)}
    triples: dict[str, dict[Triple, None]] = {}
    without_source: dict[Triple, None] = {}
    structural: set[tuple[str, str, str]] = set()
    for subject, relation, object_ in _relations(store, held):
        source = _source_of(relation, subject, object_)
        ends = (relation.source_id, relation.target_id)
        if any(end == source or end in chunks for end in ends):
            structural.add((ends[0], relation.label, ends[1]))
            continue
        triple = Triple(_name(subject, ends[0]), relation.label, _name(object_, ends[1]))
        (without_source if source is None else triples.setdefault(source, {}))[triple] = None
    return StoredGraph(
        nodes=[
            *(_node_of(chunk) for chunk in chunks.values()),
            *_nodes(store, [id_ for id_ in triples if id_ not in chunks]),
        ],
        triples={id_: list(of) for id_, of in triples.items()},
        structural=len(structural),
        without_source=tuple(without_source),
    )


_Stated = tuple[LabelledNode | None, Relation, LabelledNode | None]


def _relations(store: PropertyGraphStore, held: Sequence[LabelledNode]) -> Iterator[_Stated]:
    """Give all relations with their ends; some stores give one twice."""
    if isinstance(store, SimplePropertyGraphStore):
        # It looks each name up by going through all relations, and fails at a deleted end.
        by_id = {node.id: node for node in held}
        for relation in store.graph.get_all_relations():
            yield by_id.get(relation.source_id), relation, by_id.get(relation.target_id)
        return
    found = store.get_triplets()
    if found:
        yield from map(_stated, found)
        return
    names = [node.id for node in held if not isinstance(node, ChunkNode)]
    for some in _parts(names):  # the store gives nothing to who asks for nothing
        yield from map(_stated, store.get_triplets(ids=list(some)))


def _stated(triplet: Sequence[LabelledNode | Relation]) -> _Stated:
    subject, relation, object_ = triplet  # some stores give lists
    if not isinstance(relation, Relation):
        raise TypeError(f"the store gave a {type(relation).__name__} for a relation")
    ends = [end if isinstance(end, LabelledNode) else None for end in (subject, object_)]
    return ends[0], relation, ends[1]


def _source_of(relation: Relation, *ends: LabelledNode | None) -> str | None:
    """Give the node of a triple; where a store keeps no properties of relations, an end's.

    The subject's before the object's, as LlamaIndex's own retrievers do.
    """
    for part in (relation, *ends):
        if part is not None and (source := part.properties.get(TRIPLET_SOURCE_KEY)):
            return str(source)
    return None


def _name(node: LabelledNode | None, id_: str) -> str:
    return str(getattr(node, "name", id_))


def _node_of(chunk: ChunkNode) -> BaseNode:
    """Give the node that a chunk was made of; one that never was one becomes a TextNode."""
    try:
        node = metadata_dict_to_node(chunk.properties)
    except ValueError:
        return TextNode(id_=chunk.id, text=chunk.text, metadata=dict(chunk.properties))
    node.set_content(chunk.text)
    return node


def _nodes(store: PropertyGraphStore, ids: Sequence[str]) -> Iterator[BaseNode]:
    for some in _parts(ids):
        yield from store.get_llama_nodes(list(some))


def _parts(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[i : i + _AT_ONCE] for i in range(0, len(items), _AT_ONCE))

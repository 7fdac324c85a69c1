"""What was read out of a node, as LlamaIndex's entities and relations among its metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    ChunkNode,
    EntityNode,
    LabelledNode,
    Relation,
)
from llama_index.core.schema import BaseNode, MetadataMode

from hippo_core import InputError, Triple, normalise_phrase

_KEYS = (KG_NODES_KEY, KG_RELATIONS_KEY)


def graph_name(phrase: str) -> str:
    """Give the one name of all spellings of a phrase; empty if nothing of it counts.

    It is the phrase's key, the first letter large and the others small, as LlamaIndex writes the
    names of its own extractors and of the keywords that it looks up.

    >>> [graph_name(phrase) for phrase in ("The Nile", "the  Nile", "Süd-Korea", "C++", "!!!")]
    ['The nile', 'The nile', 'Süd korea', 'C++', '']
    """
    key = normalise_phrase(phrase)
    name = key.capitalize()
    return name if normalise_phrase(name) == key else key  # a Turkish dotless i has no large one


def text_of(node: BaseNode, mode: MetadataMode) -> str:
    """Give a node's text, of whose metadata the graph is no part."""
    return node.model_copy(update={"metadata": _own_metadata(node)}).get_content(mode)


def with_graph(node: BaseNode, triples: Iterable[Triple]) -> BaseNode:
    """Give a copy of a node to whose entities and relations those of triples are added.

    What is there is not added again. What a cache wrote as JSON becomes entities and relations
    again. No model reads either of them: the text with metadata stays as it was.

    Raises:
        InputError: The node has other metadata under the keys of the graph.
    """
    own = _own_metadata(node)
    entities: list[LabelledNode] = _found(node, KG_NODES_KEY, _entity_of)
    relations: list[Relation] = _found(node, KG_RELATIONS_KEY, _relation_of)
    named = {entity.id for entity in entities}
    stated = {_ends(relation) for relation in relations}
    for triple in triples:
        subject, label, object_ = map(graph_name, triple)
        if not subject or not object_:  # as in a memory, which has no key for it
            continue
        relation = Relation(
            label=label or triple.relation,
            source_id=subject,
            target_id=object_,
            properties=dict(own),
        )
        for name in (subject, object_):
            if name not in named:
                named.add(name)
                entities.append(EntityNode(name=name, properties=dict(own)))
        if _ends(relation) not in stated:
            stated.add(_ends(relation))
            relations.append(relation)
    return node.model_copy(
        update={
            "metadata": {**own, KG_NODES_KEY: entities, KG_RELATIONS_KEY: relations},
            "excluded_llm_metadata_keys": _with_keys(node.excluded_llm_metadata_keys),
            "excluded_embed_metadata_keys": _with_keys(node.excluded_embed_metadata_keys),
        }
    )


def _own_metadata(node: BaseNode) -> dict[str, Any]:
    return {key: value for key, value in node.metadata.items() if key not in _KEYS}


def without_graph(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Give metadata without a graph, of objects or as a cache wrote them; other values stay."""
    if not all(_is_graph(metadata.get(key)) for key in _KEYS):
        return dict(metadata)
    return {key: value for key, value in metadata.items() if key not in _KEYS}


def _is_graph(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, LabelledNode | Relation)
        or (isinstance(item, Mapping) and {"label", "properties"} <= item.keys())
        for item in value
    )


def _with_keys(excluded: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*excluded, *_KEYS]))


def _ends(relation: Relation) -> tuple[str, str, str]:
    return relation.source_id, relation.label, relation.target_id


def _found(node: BaseNode, key: str, read: Any) -> list[Any]:
    found = node.metadata.get(key)
    try:
        return [read(item) for item in ([] if found is None else found)]
    except (TypeError, ValidationError) as error:
        raise InputError(
            f"node {node.node_id!r} has the metadata key {key!r}, under which LlamaIndex keeps "
            f"a graph, and it is none: rename yours ({error})"
        ) from error


def _entity_of(item: object) -> LabelledNode:
    if isinstance(item, LabelledNode):
        return item
    if not isinstance(item, Mapping):
        raise TypeError(f"an entity cannot be a {type(item).__name__}")
    return (EntityNode if "name" in item else ChunkNode).model_validate(item)


def _relation_of(item: object) -> Relation:
    return item if isinstance(item, Relation) else Relation.model_validate(item)

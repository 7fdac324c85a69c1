"""Documents to nodes, by transformations most of which have no async way of their own."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.utils import get_tqdm_iterable

from llama_index_hipporag._threads import in_thread


async def atransformed(
    nodes: Sequence[BaseNode], transformations: Sequence[TransformComponent], *, show: bool
) -> Sequence[BaseNode]:
    """Do what LlamaIndex's `arun_transformations` does, without blocking the event loop."""
    for transformation in get_tqdm_iterable(transformations, show, "Applying transformations"):
        if _blocks(type(transformation)):
            nodes = await in_thread(transformation, nodes)
        else:
            nodes = await transformation.acall(nodes)
    return nodes


def _blocks(kind: type[TransformComponent]) -> bool:
    """Say whether a transformation's async way is LlamaIndex's own, which calls the sync one."""
    if kind.acall is TransformComponent.acall:
        return True
    return (
        issubclass(kind, NodeParser)
        and kind.acall is NodeParser.acall
        and kind.aget_nodes_from_documents is NodeParser.aget_nodes_from_documents
        and kind._aparse_nodes is NodeParser._aparse_nodes
    )

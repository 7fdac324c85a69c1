"""Documents to nodes, by transformations most of which have no async way of their own."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.settings import Settings
from llama_index.core.utils import get_tqdm_iterable

from llama_index_hipporag._threads import in_thread
from llama_index_hipporag._turns import Turns

# On the event loop one transformation would run at a time, and not all can do with more: the
# tokenizers of LlamaIndex's splitters are loaded at their first use, by whoever comes.
_turns = Turns()
_PARSING = "parsing"


async def atransformed(
    nodes: Sequence[BaseNode], transformations: Sequence[TransformComponent], *, show: bool
) -> Sequence[BaseNode]:
    """Do what LlamaIndex's `arun_transformations` does, without blocking the event loop."""
    for transformation in get_tqdm_iterable(transformations, show, "Applying transformations"):
        if _blocks(type(transformation)):
            async with _turns.aat({_PARSING}):
                nodes = await in_thread(transformation, nodes)
        else:
            nodes = await transformation.acall(nodes)
    return nodes


async def default_transformations() -> list[TransformComponent]:
    """Give `Settings.transformations`, which are made when they are first asked for."""
    async with _turns.aat({_PARSING}):
        return await in_thread(lambda: Settings.transformations)


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

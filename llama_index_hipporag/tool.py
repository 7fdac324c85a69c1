"""A tool with which an agent looks things up."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool

DESCRIPTION = (
    "Search the documents for passages that together answer a question, also where no single one "
    "does. Ask one full question in plain words."
)


def hipporag_tool(
    retriever: BaseRetriever, *, name: str = "search_documents", description: str = DESCRIPTION
) -> FunctionTool:
    """Make a tool whose query reaches the retriever as the agent wrote it.

    A query that cannot be used, such as a blank one, is an error of the call: LlamaIndex's agents
    are told of it, as of any other, and can ask another.

    Args:
        retriever: `index.as_retriever(...)`, or another one around it.
        name: What the agent calls it.
        description: When the agent is to use it.

    Returns:
        A tool that says each passage's id and text, best first; its output's `raw_output` has the
        nodes.
    """

    # A bundle, as LlamaIndex's own check of a query that is no text says much and explains little.
    def search(query: str) -> list[NodeWithScore]:
        return retriever.retrieve(QueryBundle(query))

    async def asearch(query: str) -> list[NodeWithScore]:
        return await retriever.aretrieve(QueryBundle(query))

    async def awritten(nodes: Sequence[NodeWithScore]) -> str:
        return _written(nodes)

    return FunctionTool.from_defaults(
        fn=search,
        async_fn=asearch,
        name=name,
        description=description,
        callback=_written,
        async_callback=awritten,
    )


def _written(nodes: Sequence[NodeWithScore]) -> str:
    if not nodes:
        return "Nothing was found."
    return "\n\n".join(
        f"[{found.node.node_id}]\n{found.node.get_content(MetadataMode.LLM)}" for found in nodes
    )

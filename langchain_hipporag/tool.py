"""A tool with which an agent looks things up."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.tools import StructuredTool, ToolException

from hippo_core import ContextTooLongError, InputError

DESCRIPTION = (
    "Search the documents for passages that together answer a question, also where no single one "
    "does. Ask one full question in plain words."
)


def hipporag_tool(
    retriever: RetrieverLike,
    *,
    name: str = "search_documents",
    description: str = DESCRIPTION,
    title_key: str | None = "title",
) -> StructuredTool:
    """Make a tool whose query reaches the retriever as the agent wrote it.

    A query that cannot be used, such as a blank one, is told to the agent, which can ask another.
    Any other error is raised, as of any tool of LangChain.

    Args:
        retriever: A HippoRAGRetriever, or another one, also bound or with a configuration.
        name: What the agent calls it.
        description: When the agent is to use it.
        title_key: The metadata key whose text is said before a document's own; None for none.

    Returns:
        A tool that says each document's id and text, best first; its message's `artifact` has the
        documents.
    """

    # The tool's run is in the context, where the retriever finds its parent.
    def search(query: str) -> tuple[str, list[Document]]:
        try:
            found = retriever.invoke(query)
        except (InputError, ContextTooLongError) as error:
            raise ToolException(str(error)) from error
        return _written(found, title_key), found

    async def asearch(query: str) -> tuple[str, list[Document]]:
        try:
            found = await retriever.ainvoke(query)
        except (InputError, ContextTooLongError) as error:
            raise ToolException(str(error)) from error
        return _written(found, title_key), found

    return StructuredTool.from_function(
        func=search,
        coroutine=asearch,
        name=name,
        description=description,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _written(documents: Sequence[Document], title_key: str | None) -> str:
    if not documents:
        return "Nothing was found."
    return "\n\n".join(_passage(document, title_key) for document in documents)


def _passage(document: Document, title_key: str | None) -> str:
    id_ = f"[{document.id}]\n" if document.id else ""
    title = document.metadata.get(title_key) if title_key else None
    # As LlamaIndex writes metadata for its models.
    heading = f"{title_key}: {title}\n\n" if title else ""
    return f"{id_}{heading}{document.page_content}"

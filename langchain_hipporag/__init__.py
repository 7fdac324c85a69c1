"""HippoRAG and HippoRAG 2 as a LangChain retriever."""

from hippo_core import MissingDependencyError as _MissingDependencyError

try:
    import langchain_core as _langchain_core  # noqa: F401
except ImportError as error:
    raise _MissingDependencyError("langchain-core", "langchain") from error

from langchain_hipporag._models import LangChainChatModel, LangChainEmbedder
from langchain_hipporag.document_index import HippoRAGDocumentIndex
from langchain_hipporag.ircot import IRCoTRetriever
from langchain_hipporag.retriever import HippoRAGRetriever
from langchain_hipporag.tool import hipporag_tool

__all__ = [
    "HippoRAGDocumentIndex",
    "HippoRAGRetriever",
    "IRCoTRetriever",
    "LangChainChatModel",
    "LangChainEmbedder",
    "hipporag_tool",
]

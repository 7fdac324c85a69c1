"""HippoRAG and HippoRAG 2 as a LlamaIndex index and retriever."""

from hippo_core import MissingDependencyError as _MissingDependencyError

try:
    import llama_index.core as _llama_index_core  # noqa: F401
except ImportError as error:
    raise _MissingDependencyError("llama-index-core", "llama-index") from error

from llama_index_hipporag._events import (
    HippoRAGIRCoTEvent,
    HippoRAGProgressEvent,
    HippoRAGRetrievalEvent,
)
from llama_index_hipporag._graph_store import PropertyGraphReport
from llama_index_hipporag._models import LlamaIndexChatModel, LlamaIndexEmbedder
from llama_index_hipporag.extractor import HippoRAGExtractor
from llama_index_hipporag.index import HippoRAGIndex
from llama_index_hipporag.ircot import IRCoTRetriever
from llama_index_hipporag.retriever import HippoRAGRetriever
from llama_index_hipporag.tool import hipporag_tool

__all__ = [
    "HippoRAGExtractor",
    "HippoRAGIRCoTEvent",
    "HippoRAGIndex",
    "HippoRAGProgressEvent",
    "HippoRAGRetrievalEvent",
    "HippoRAGRetriever",
    "IRCoTRetriever",
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
    "PropertyGraphReport",
    "hipporag_tool",
]

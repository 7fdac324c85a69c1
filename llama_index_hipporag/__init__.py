"""HippoRAG and HippoRAG 2 with LlamaIndex's models."""

from hippo_core import MissingDependencyError as _MissingDependencyError

try:
    import llama_index.core as _llama_index_core  # noqa: F401
except ImportError as error:
    raise _MissingDependencyError("llama-index-core", "llama-index") from error

from llama_index_hipporag._models import LlamaIndexChatModel, LlamaIndexEmbedder

__all__ = [
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
]

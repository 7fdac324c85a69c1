"""Parts that run on this machine, without key, network or torch; imported when first named."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hippo_core.local.minilm import MiniLM
    from hippo_core.local.sentence_transformer import SentenceTransformerEmbedder
    from hippo_core.local.spacy_openie import SpacyOpenIE

__all__ = ["MiniLM", "SentenceTransformerEmbedder", "SpacyOpenIE"]

_MODULES = {
    "MiniLM": "minilm",
    "SentenceTransformerEmbedder": "sentence_transformer",
    "SpacyOpenIE": "spacy_openie",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

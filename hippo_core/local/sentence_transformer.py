"""Any model of sentence-transformers as an embedder."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.types import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from sentence_transformers import SentenceTransformer

EXTRA = "sentence-transformers"


class SentenceTransformerEmbedder:
    """An `Embedder` over a model of sentence-transformers, by name, path or as an object.

    Queries go through the model's query encoding where it has one (`encode_query`, or a prompt
    named "query"), everything else through its document encoding.
    """

    one_query_encoding = True

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        """Load the model, or wrap the one given.

        Args:
            model: A name on the hub, a folder, or a loaded model.
            device: Where a model given by name or folder runs, such as "cpu" or "cuda".
            batch_size: Texts that the model encodes at once.
        """
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        if isinstance(model, (str, os.PathLike)):
            self._model: Any = _load(os.fspath(model), device)
            self.name = _short_name(os.fspath(model))
        else:
            self._model = model
            self.name = _name_of(model)
        self._batch_size = batch_size
        self._encode_query = _encoder(self._model, "encode_query", ("query",))
        self._encode_document = _encoder(
            self._model, "encode_document", ("document", "passage", "corpus")
        )
        # A fast tokenizer that two threads use at once raises "Already borrowed".
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Give one row per text, shape (n, d), as the model gives it."""
        encode = self._encode_query if kind.startswith("query") else self._encode_document
        with self._lock:
            if not texts:
                return np.zeros((0, self._dimension()), dtype=np.float32)
            vectors = encode(
                list(texts),
                batch_size=self._batch_size,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32)

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Give one row per text, shape (n, d), computed in a thread."""
        return await asyncio.to_thread(self.embed, texts, kind)

    def _dimension(self) -> int:
        for method in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
            if hasattr(self._model, method):
                return int(getattr(self._model, method)() or 0)
        return 0


def _load(name: str, device: str | None) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingDependencyError("sentence-transformers", EXTRA) from error
    return SentenceTransformer(name, device=device)


def _name_of(model: object) -> str:
    card = getattr(model, "model_card_data", None)
    for name in (getattr(card, "base_model", None), getattr(model, "model_name_or_path", None)):
        if isinstance(name, str) and name:
            return _short_name(name)
    return type(model).__name__


def _short_name(name: str) -> str:
    """Keep a hub's name, and of a folder its last part, which survives a move."""
    return os.path.basename(os.path.normpath(name)) if os.path.isdir(name) else name


def _encoder(
    model: SentenceTransformer, method: str, prompts: tuple[str, ...]
) -> Callable[..., Any]:
    """Choose a model's own method, else `encode` with its prompt, else plain `encode`."""
    own = getattr(model, method, None)
    if callable(own):
        return own  # type: ignore[no-any-return]
    defined = getattr(model, "prompts", None) or {}
    for prompt in prompts:
        if defined.get(prompt):
            return lambda texts, **options: model.encode(texts, prompt_name=prompt, **options)
    return model.encode  # type: ignore[no-any-return]

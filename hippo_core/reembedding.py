"""Reembedding: give an index another embedder, without reading any passage again.

Every vector is kept as soon as it is made, so that what a crash interrupts goes on where it was;
the old vectors serve until all of the new ones are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hippo_core.embedding import PROBE, SAME_MODEL, unit
from hippo_core.errors import PermanentModelError
from hippo_core.flows import Each, Embed, Flow
from hippo_core.index import HippoIndex
from hippo_core.records import EmbedderRecord, text_key
from hippo_core.types import Kind

Missing = dict[Kind, list[str]]


def reembed(index: HippoIndex, name: str, batch: int) -> Flow[int]:
    """Embed all texts with the flow's embedder and make it the index's; say how many it embedded.

    Args:
        index: Whose embedder is replaced.
        name: The new embedder's.
        batch: Texts in one call.

    Raises:
        PermanentModelError: The embedder gives no vector to tell it from others by.
        ModelError: A call failed; what was embedded is kept, and calling again goes on.
    """
    probe = unit((yield Embed([PROBE], "passage")), [PROBE])[0]
    if not probe.any():
        raise PermanentModelError(f"embedder {name!r} gives no vector for the sentence {PROBE!r}")
    generation = _generation(index, name, probe)
    if generation is None:
        return 0
    done: Missing = {}
    while missing := _missing_or_switch(index, generation, done):
        batches = [
            (kind, texts[start : start + batch])
            for kind, texts in missing.items()
            for start in range(0, len(texts), batch)
        ]
        yield Each([_embed(index, kind, texts, generation) for kind, texts in batches])
        for kind, texts in missing.items():
            done.setdefault(kind, []).extend(texts)
    index.refresh()
    index.erase()
    return sum(map(len, done.values()))


def _generation(index: HippoIndex, name: str, probe: NDArray[np.float32]) -> int | None:
    """Give the generation to fill: one that was begun, or a new one; None if it is current."""
    with index.store.write() as writer:
        current = writer.embedder(index.namespace)
        if current is not None and _is_same(current, name, probe):
            return None
        begun = [
            e.generation
            for e in writer.pending_embedders(index.namespace)
            if _is_same(e, name, probe)
        ]
        return begun[0] if begun else writer.new_embedder(index.namespace, name, probe)


def _is_same(record: EmbedderRecord, name: str, probe: NDArray[np.float32]) -> bool:
    return (
        record.name == name
        and record.dimension == len(probe)
        and float(record.probe.astype(np.float64) @ probe) >= SAME_MODEL
    )


def _missing_or_switch(index: HippoIndex, generation: int, done: Missing) -> Missing:
    """Give the texts that lack a vector; if none does, make the new embedder the current one.

    Of what is `done`, that which was deleted meanwhile goes.
    """
    with index.committing, index.store.write() as writer:
        index.catch_up(writer)
        missing: Missing = {}
        for kind, texts in index.texts_in_use().items():
            there = writer.vector_keys(index.namespace, kind, generation)
            lacking = sorted(text for text in texts if text_key(text) not in there)
            if lacking:
                missing[kind] = lacking
            gone = [text for text in done.get(kind, ()) if text not in texts]
            writer.purge_vectors(index.namespace, kind, gone)
        if not missing:
            writer.switch_embedder(index.namespace, generation)
        return missing


def _embed(index: HippoIndex, kind: Kind, texts: Sequence[str], generation: int) -> Flow[None]:
    rows = unit((yield Embed(texts, kind)), texts)
    if not rows.any():
        raise PermanentModelError(
            f"the embedder gave only zeros for a batch beginning {texts[0][:80]!r}; the old "
            "vectors stay"
        )
    by_text: Mapping[str, NDArray[np.float32]] = dict(zip(texts, rows, strict=True))
    with index.store.write() as writer:
        writer.save_vectors(index.namespace, kind, by_text, generation)

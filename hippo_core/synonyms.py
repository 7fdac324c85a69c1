"""Synonyms: the pairs of phrases whose cosine reaches the threshold, as phrases come and go.

Exact: new phrases are compared with all, and only accepted pairs are kept, so that no history of
the same phrases gives other pairs (HippoRAG, section 2.2; HippoRAG 2, section 3.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import SynonymyError
from hippo_core.keys import Keys
from hippo_core.similarity import Pairs, pairs_above, pairs_of_few, tail_lengths
from hippo_core.vectors import BLOCK, VectorView

Pair = tuple[str, str, float]

FEW = 64  # new phrases that are compared by their first third first


class SynonymPairs(NamedTuple):
    """Accepted pairs: two phrases by number, the lesser first where they are in order; cosine."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    cosine: NDArray[np.float64]


NO_PAIRS = SynonymPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class SynonymPlan(NamedTuple):
    """The synonyms that a set of new phrases will have."""

    phrases: frozenset[str]
    pairs: tuple[Pair, ...]
    generation: int
    """How often phrases had been added when it was made."""


class Synonyms:
    """Accepted synonym pairs of a set of phrases, by slot; with no threshold there are none."""

    def __init__(
        self, threshold: float | None, limit: float, pairs: SynonymPairs = NO_PAIRS
    ) -> None:
        self._threshold = threshold
        self._limit = limit
        self.pairs = pairs
        """Each pair once."""
        self._generation = 0
        self._tails: dict[int, tuple[ref[NDArray[np.float32]], NDArray[np.float32]]] = {}

    def plan(
        self,
        new: Mapping[str, NDArray[np.float32]],
        known: Keys[str],
        vectors: VectorView,
        *,
        limited: bool = True,
    ) -> SynonymPlan:
        """Compare new phrases with the known ones and with each other.

        Raises:
            SynonymyError: `limited`, and more pairs than the limit per phrase would be accepted.
        """
        if not new or self._threshold is None:
            return SynonymPlan(frozenset(new), (), self._generation)
        texts, rows = list(new), np.stack(list(new.values()))
        allowed = int(self._limit * (len(texts) + len(known))) if limited else None
        room = None if allowed is None else max(0, allowed - len(self.pairs.left))
        inner = pairs_above(rows, None, self._threshold, limit=room)
        pairs = [(texts[i], texts[j], c) for i, j, c in _each(inner)]
        complete = inner.complete
        for number, block in enumerate(vectors.blocks):
            if not complete or (room is not None and len(pairs) > room):
                complete = False
                break
            if len(rows) <= FEW:
                outer = pairs_of_few(rows, block, self._tails_of(number, block), self._threshold)
            else:
                outer = pairs_above(rows, block, self._threshold, limit=room)
            complete = outer.complete
            first = number * BLOCK
            pairs += [(texts[i], known.items[first + j], c) for i, j, c in _each(outer)]
        if room is not None and (not complete or len(pairs) > room):
            raise SynonymyError(
                f"more than {self._limit:g} synonyms per phrase reach synonymy_threshold="
                f"{self._threshold:g} (over {allowed} pairs): this embedder gives unlike phrases "
                "high cosines; raise the threshold, or switch synonymy off"
            )
        return SynonymPlan(frozenset(texts), tuple(pairs), self._generation)

    def _tails_of(self, number: int, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give the lengths of a block's tails, measured once: what a view shows never changes."""
        known = self._tails.get(number)
        if known is None or known[0]() is not block:
            known = self._tails[number] = (ref(block), tail_lengths(block))
        return known[1]

    def fits(self, plan: SynonymPlan, new: Collection[str]) -> bool:
        """Whether a plan was made for these new phrases and no others came since."""
        return plan.generation == self._generation and plan.phrases == frozenset(new)

    def add(self, plan: SynonymPlan, known: Keys[str]) -> None:
        """Take the pairs of a plan, but for phrases that have gone since."""
        slots = [(known.get(a), known.get(b), c) for a, b, c in plan.pairs]
        there = [(a, b, c) for a, b, c in slots if a is not None and b is not None]
        if there:
            left, right, cosine = zip(*there, strict=True)
            self.pairs = SynonymPairs(
                np.concatenate([self.pairs.left, np.array(left, dtype=np.int64)]),
                np.concatenate([self.pairs.right, np.array(right, dtype=np.int64)]),
                np.concatenate([self.pairs.cosine, np.array(cosine, dtype=np.float64)]),
            )
        self._generation += bool(plan.phrases)

    def remove(self, slots: Iterable[int], capacity: int) -> None:
        """Forget the pairs of phrases at these slots, all below `capacity`."""
        gone = np.zeros(capacity, dtype=bool)
        gone[list(slots)] = True
        stay = ~(gone[self.pairs.left] | gone[self.pairs.right])
        if not stay.all():
            left, right, cosine = self.pairs
            self.pairs = SynonymPairs(left[stay], right[stay], cosine[stay])


def _each(pairs: Pairs) -> Iterator[tuple[int, int, float]]:
    return zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.cosines.tolist(), strict=True)

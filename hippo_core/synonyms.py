"""Synonyms: the pairs of phrases whose cosine reaches the threshold, as phrases come and go.

Exact: new phrases are compared with all, and only accepted pairs are kept, so that no history of
the same phrases gives other pairs (HippoRAG, section 2.2; HippoRAG 2, section 3.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import SynonymyError
from hippo_core.similarity import Pairs, pairs_above
from hippo_core.vectors import VectorTable

Pair = tuple[str, str, float]


class SynonymPlan(NamedTuple):
    """The synonyms that a set of new phrases will have."""

    phrases: frozenset[str]
    pairs: tuple[Pair, ...]
    generation: int
    """How often phrases had been added when it was made."""


class Synonyms:
    """Accepted synonym pairs of a set of phrases; with no threshold there are none."""

    def __init__(self, threshold: float | None, limit: float) -> None:
        self._threshold = threshold
        self._limit = limit
        self._of: dict[str, dict[str, float]] = {}
        self._pairs = 0
        self._generation = 0

    def __len__(self) -> int:
        return self._pairs

    def __iter__(self) -> Iterator[Pair]:
        """Give each pair once, the lesser key first."""
        return ((a, b, cosine) for a, of in self._of.items() for b, cosine in of.items() if a < b)

    def plan(
        self, new: Mapping[str, NDArray[np.float32]], known: VectorTable, *, limited: bool = True
    ) -> SynonymPlan:
        """Compare new phrases with the known ones and with each other.

        Raises:
            SynonymyError: `limited`, and more pairs than the limit per phrase would be accepted.
        """
        if not new or self._threshold is None:
            return SynonymPlan(frozenset(new), (), self._generation)
        texts, rows = list(new), np.stack(list(new.values()))
        others = list(known)
        allowed = int(self._limit * (len(texts) + len(others))) if limited else None
        inner = pairs_above(rows, None, self._threshold, limit=allowed)
        pairs = [(texts[i], texts[j], c) for i, j, c in _each(inner)]
        complete = inner.complete
        if others and complete:
            outer = pairs_above(rows, known.rows(others), self._threshold, limit=allowed)
            pairs += [(texts[i], others[j], c) for i, j, c in _each(outer)]
            complete = outer.complete
        if allowed is not None and (not complete or self._pairs + len(pairs) > allowed):
            raise SynonymyError(
                f"more than {self._limit:g} synonyms per phrase reach synonymy_threshold="
                f"{self._threshold:g} (over {allowed} pairs): this embedder gives unlike phrases "
                "high cosines; raise the threshold, or switch synonymy off"
            )
        ordered = tuple((min(a, b), max(a, b), c) for a, b, c in pairs)
        return SynonymPlan(frozenset(texts), ordered, self._generation)

    def fits(self, plan: SynonymPlan, new: Collection[str]) -> bool:
        """Whether a plan was made for these new phrases and no others came since."""
        return plan.generation == self._generation and plan.phrases == frozenset(new)

    def add(self, plan: SynonymPlan, known: VectorTable) -> None:
        """Take the pairs of a plan, but for phrases that have gone since."""
        for a, b, cosine in plan.pairs:
            if all(p in plan.phrases or p in known for p in (a, b)):
                self._of.setdefault(a, {})[b] = cosine
                self._of.setdefault(b, {})[a] = cosine
                self._pairs += 1
        self._generation += bool(plan.phrases)

    def remove(self, phrases: Iterable[str]) -> None:
        """Forget phrases and their pairs."""
        for phrase in phrases:
            partners = self._of.pop(phrase, {})
            self._pairs -= len(partners)
            for partner in partners:
                del self._of[partner][phrase]


def _each(pairs: Pairs) -> Iterator[tuple[int, int, float]]:
    return zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.cosines.tolist(), strict=True)

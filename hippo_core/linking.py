"""Linking: query to triples (HippoRAG 2, 3.3), or query entities to phrases (HippoRAG, 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.similarity import min_max, top_k


class TripleLinks(NamedTuple):
    """The triples nearest to a query, best first."""

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    """Cosine, min-max scaled over all triples: the best is 1."""


class PhraseLinks(NamedTuple):
    """The phrase nearest to each query entity."""

    positions: NDArray[np.int64]
    cosines: NDArray[np.float64]


def link_triples(near: NDArray[np.float64], k: int) -> TripleLinks:
    """Give the k triples with the highest cosine to the query; `near` has that of each triple."""
    scores = min_max(near)
    best = top_k(scores, k)
    return TripleLinks(best, scores[best])


def link_entities(near: Sequence[NDArray[np.float64]]) -> PhraseLinks:
    """Give each entity's nearest phrase, however far; `near` has each phrase's cosine to each."""
    best = [int(top_k(cosines, 1)[0]) for cosines in near]
    found = [cosines[position] for cosines, position in zip(near, best, strict=True)]
    return PhraseLinks(np.array(best, dtype=np.int64), np.array(found, dtype=np.float64))

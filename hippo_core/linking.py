"""Linking: query to triples (HippoRAG 2, 3.3), or query entities to phrases (HippoRAG, 2.3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.similarity import cosines, min_max, top_k


class TripleLinks(NamedTuple):
    """The triples nearest to a query, best first."""

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    """Cosine, min-max scaled over all triples: the best is 1."""


class PhraseLinks(NamedTuple):
    """The phrase nearest to each query entity."""

    positions: NDArray[np.int64]
    cosines: NDArray[np.float64]


def link_triples(
    triple_vectors: NDArray[np.float32], query: NDArray[np.float32], k: int
) -> TripleLinks:
    """Give the k triples with the highest cosine to the query."""
    scores = min_max(cosines(triple_vectors, query))
    best = top_k(scores, k)
    return TripleLinks(best, scores[best])


def link_entities(
    phrase_vectors: NDArray[np.float32], entities: NDArray[np.float32]
) -> PhraseLinks:
    """Give each entity's nearest phrase, however far; shape of `entities` (m, d), m >= 0."""
    links = []
    for entity in entities:
        near = cosines(phrase_vectors, entity)
        best = int(top_k(near, 1)[0])
        links.append((best, near[best]))
    positions, found = zip(*links, strict=True) if links else ((), ())
    return PhraseLinks(np.array(positions, dtype=np.int64), np.array(found, dtype=np.float64))

"""Seeds: where the walk restarts. Arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hippo_core.similarity import min_max, top_k

Scores = NDArray[np.float64]
Positions = NDArray[np.int64]


def triple_seeds(
    triple_phrases: Positions, scores: Scores, specificity: Scores, *, top: int
) -> Scores:
    """Weigh the phrases of the kept triples: mean triple score x node specificity.

    HippoRAG 2, section 3.4, with the reference's division by |C(p)|. Kept triples that all scale to
    0 count alike.

    Args:
        triple_phrases: (m, 2), subject and object of each kept triple.
        scores: (m,), their min-max scaled scores.
        specificity: (n_phrases,), 1 / |C(p)|, or ones to leave it out.
        top: How many phrases get a weight, the best.
    """
    weights = np.zeros(len(specificity))
    if not len(scores):
        return weights
    if not scores.any():
        scores = np.ones_like(scores)
    ends = triple_phrases.reshape(-1)
    total = np.bincount(ends, weights=np.repeat(scores, 2), minlength=len(specificity))
    uses = np.bincount(ends, minlength=len(specificity))
    weighed = total / np.maximum(uses, 1) * specificity
    best = top_k(weighed, top)
    weights[best] = weighed[best]
    return weights


def hop_seeds(seeds: Scores, further: Scores, weight: float) -> Scores:
    """Join the seeds of the linked triples and of a second hop: the larger counts of each phrase.

    Args:
        seeds: (n_phrases,), of the triples that the query is linked to.
        further: (n_phrases,), of those that lead on from them, by themselves.
        weight: Of the further ones.
    """
    return np.maximum(seeds, weight * further)


def passage_seeds(dense: Scores, weight: float) -> Scores:
    """Weigh all passages: `weight` x min-max scaled dense score (HippoRAG 2, section 3.4)."""
    return weight * min_max(dense)


def entity_seeds(linked: Positions, specificity: Scores) -> Scores:
    """Weigh the linked phrases: node specificity each, once (HippoRAG, section 2.3)."""
    weights = np.zeros(len(specificity))
    weights[linked] = specificity[linked]
    return weights

"""Personalized PageRank by power iteration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from hippo_core.errors import InputError

_SLACK = 10  # iterations beyond those that suffice without rounding


class Transition(NamedTuple):
    """Where a walker on the graph goes next; prepared once, used by every query."""

    walk: csr_array[np.float64, tuple[int, int]]
    """(n, n); column u holds the probabilities of leaving u for each node, and sums to 1 or 0."""
    dangling: NDArray[np.intp]
    """The nodes without an edge, where the walker restarts."""


class PageRank(NamedTuple):
    """The mass of each node, and how far it may be from the exact one."""

    scores: NDArray[np.float64]
    bound: float
    """At least the L1 distance to the exact scores, up to rounding (some 1e-15)."""
    iterations: int


def transition_matrix(
    adjacency: csr_array[np.float64, tuple[int, int]],
    *,
    out_weight: NDArray[np.float64] | None = None,
) -> Transition:
    """Turn edge weights into the probabilities of following an edge.

    Args:
        adjacency: (n, n), symmetric, weights at least 0. A self-loop counts once. Index arrays
            are shared with the result, not copied.
        out_weight: (n,), the row sums where the caller keeps them.

    Raises:
        InputError: The matrix is not square, or a weight is negative or not finite.
    """
    n = adjacency.shape[0]
    if adjacency.shape != (n, n):
        raise InputError(f"adjacency must be square, got shape {adjacency.shape}")
    weights = np.asarray(adjacency.data, dtype=np.float64)
    if weights.size and not (weights.min() >= 0 and weights.max() < math.inf):
        raise InputError("edge weights must be finite and at least 0")
    degree = _row_sums(adjacency) if out_weight is None else out_weight
    if degree.shape != (n,):
        raise InputError(f"out_weight must have shape {(n,)}, got {degree.shape}")
    if n and not degree.max() < math.inf:
        raise InputError("the edge weights of a node must have a finite sum")
    # Symmetric: row v lists the edges into v. A division by a tiny degree is exact where the
    # multiplication by its reciprocal would overflow.
    degree_of_origin = degree[adjacency.indices]
    steps = np.divide(
        weights, degree_of_origin, out=np.zeros_like(weights), where=degree_of_origin > 0
    )
    walk = csr_array((steps, adjacency.indices, adjacency.indptr), shape=(n, n))
    return Transition(walk, np.flatnonzero(degree == 0))


def _row_sums(adjacency: csr_array[np.float64, tuple[int, int]]) -> NDArray[np.float64]:
    return np.asarray(adjacency @ np.ones(adjacency.shape[0]), dtype=np.float64)


def personalized_pagerank(
    transition: Transition,
    reset: ArrayLike,
    *,
    damping: float = 0.5,
    tolerance: float = 1e-12,
) -> PageRank:
    """Give the mass of each node under a walk that restarts at the seeds.

    The scores are the fixed point p = (1-d) r + d (T'p + z(p) r) with r the reset vector scaled to
    sum 1 and z(p) the mass on nodes without an edge. They sum to 1, or are all 0 where no seed is
    positive: then there is nowhere to restart.

    Args:
        transition: From `transition_matrix`.
        reset: (n,), any scale; a negative entry counts as 0.
        damping: Probability d of following an edge, at least 0 and below 1.
        tolerance: The walk ends once `bound` is at most this, or where rounding forbids it; then
            `bound` says what was reached.

    Raises:
        InputError: The reset vector has another shape or is not finite, or a number is out of
            range.

    >>> path = csr_array(np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> personalized_pagerank(transition_matrix(path), [1, 0, 0]).scores.round(6)
    array([0.583333, 0.333333, 0.083333])
    """
    if not 0 <= damping < 1:
        raise InputError(f"damping must be at least 0 and below 1, got {damping}")
    if not 0 < tolerance < math.inf:
        raise InputError(f"tolerance must be above 0 and finite, got {tolerance}")
    seeds = _distribution(reset, transition.walk.shape[0])
    if not seeds.any():
        return PageRank(seeds, 0.0, 0)
    walk, dangling = transition
    scores = seeds
    bound = math.inf
    iterations = 0
    enough = _enough_iterations(damping, tolerance)
    while bound > tolerance and iterations < enough:
        # Mass of isolated nodes returns to the seeds, as igraph does.
        restart = 1 - damping + damping * scores[dangling].sum()
        following = damping * (walk @ scores) + restart * seeds
        # A step shrinks L1 distances by d, so the last change bounds all changes to come.
        bound = float(damping / (1 - damping) * np.abs(following - scores).sum())
        scores = following
        iterations += 1
    return PageRank(scores, bound, iterations)


def _distribution(reset: ArrayLike, n: int) -> NDArray[np.float64]:
    seeds = np.array(reset, dtype=np.float64)
    if seeds.shape != (n,):
        raise InputError(f"reset must have shape {(n,)}, got {seeds.shape}")
    if not np.isfinite(seeds).all():
        raise InputError(f"reset must be finite, got {seeds[~np.isfinite(seeds)][0]}")
    np.maximum(seeds, 0, out=seeds)
    if seeds.any():
        seeds /= seeds.max()  # first, or the sum of huge seeds overflows
        seeds /= seeds.sum()
    return seeds


def _enough_iterations(damping: float, tolerance: float) -> int:
    """Count the iterations that suffice in exact arithmetic: a change is at most 2 d^k."""
    if damping == 0:
        return 1
    # The least k with 2 d^k d/(1-d) <= tolerance, by logarithms, as the quotient may overflow.
    wanted = math.log(tolerance) + math.log(1 - damping) - math.log(2) - math.log(damping)
    return max(0, math.ceil(wanted / math.log(damping))) + _SLACK

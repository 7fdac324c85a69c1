"""How sure a difference between two systems is, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import InputError

EXACT = 16  # questions that differ up to which all assignments of sides are counted
_CHUNK = 500  # assignments in memory at once


class Difference(NamedTuple):
    """How much better one system is than another, and the 95% interval of that."""

    mean: float
    low: float
    high: float


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> Difference:
    """Give the mean of ours minus theirs over the same questions, with its 95% interval.

    The questions are drawn anew, with replacement; the interval holds the middle 95% of the means
    (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).

    Args:
        ours: One value per question.
        theirs: The other system's, in the same order.
        resamples: How often the questions are drawn.
        seed: The same one gives the same interval.

    Raises:
        InputError: There are no questions or resamples, not the same number of questions on both
            sides, or a value that is not finite.

    >>> paired_bootstrap([1.0, 0.5, 1.0], [0.5, 0.0, 0.5])
    Difference(mean=0.5, low=0.5, high=0.5)
    """
    differences = _differences(ours, theirs)
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}")
    random, n = np.random.default_rng(seed), len(differences)
    means = [differences[random.integers(n, size=n)].mean() for _ in range(resamples)]
    low, high = np.percentile(means, (2.5, 97.5))
    return Difference(float(differences.mean()), float(low), float(high))


def permutation_test(
    ours: Sequence[float], theirs: Sequence[float], *, samples: int = 10_000, seed: int = 0
) -> float:
    """Give the two-sided p of the mean difference if each question's two values could be swapped.

    Fisher's randomisation test, which information retrieval prefers to the t-test (Smucker, Allan
    and Carterette, CIKM 2007). Up to 16 questions that differ it is exact; beyond, swaps are
    drawn at random, and p is at least 1 / (samples + 1). It says nothing of how many pairs of
    systems were tried: with n of them, hold p against 0.05 / n.

    Args:
        ours: One value per question.
        theirs: The other system's, in the same order.
        samples: How many swaps are drawn.
        seed: The same one gives the same p.

    Raises:
        InputError: There are no questions or samples, not the same number of questions on both
            sides, or a value that is not finite.

    >>> permutation_test([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0] * 6)
    0.0625
    """
    differences = _differences(ours, theirs)
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    moved = differences[differences != 0]
    # Sums of the same numbers differ in their last bits by the order of addition.
    least = abs(moved.sum()) - 1e-9 * np.abs(moved).sum()
    if len(moved) <= EXACT:
        return float((np.abs(_all_sums(moved)) >= least).mean())
    random, reached = np.random.default_rng(seed), 0
    for start in range(0, samples, _CHUNK):
        size = min(_CHUNK, samples - start), len(moved)
        signs = random.integers(2, size=size, dtype=np.int8) * 2.0 - 1.0
        reached += int((np.abs(signs @ moved) >= least).sum())
    return (reached + 1) / (samples + 1)


def _all_sums(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the sums over all assignments of signs, shape (2 ** n,)."""
    sums = np.zeros(1)
    for number in numbers:
        sums = np.concatenate([sums + number, sums - number])
    return sums


def _differences(ours: Sequence[float], theirs: Sequence[float]) -> NDArray[np.float64]:
    if len(ours) != len(theirs):
        raise InputError(f"both need the same questions, got {len(ours)} and {len(theirs)}")
    if not len(ours):
        raise InputError("there are no questions to compare on")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)  # (n,)
    if not np.isfinite(differences).all():
        raise InputError("each value must be finite")
    return differences

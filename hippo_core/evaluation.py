"""Evaluation as the papers do it, recall@k and all-recall@k, and how sure a difference is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hippo_core.errors import InputError


class Difference(NamedTuple):
    """How much better one system is than another, and the 95% interval of that."""

    mean: float
    low: float
    high: float


def recall_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Give the share of the gold passages among the first k (HippoRAG, section 3).

    >>> recall_at_k(["a", "b", "c"], {"a", "c"}, 2)
    0.5
    """
    wanted = set(gold)
    return len(wanted & set(ranked[:k])) / len(wanted) if wanted else 0.0


def all_recall_at_k(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Give 1 if there are gold passages and all are among the first k (HippoRAG, table 6).

    >>> all_recall_at_k(["a", "b", "c"], {"a", "c"}, 3)
    1.0
    """
    wanted = set(gold)
    return float(bool(wanted) and wanted <= set(ranked[:k]))


def recall_table(
    runs: Mapping[str, Sequence[str]],
    gold: Mapping[str, Collection[str]],
    *,
    recall: Sequence[int] = (1, 2, 5, 10, 20),
    all_recall: Sequence[int] = (2, 5),
) -> dict[str, float]:
    """Average over questions, in percent.

    Args:
        runs: Ranked passage ids by question; one that is missing counts as nothing found.
        gold: Gold passage ids by question.
        recall: The k of recall@k.
        all_recall: The k of all-recall@k.

    Raises:
        InputError: There are no questions.
    """
    if not gold:
        raise InputError("there are no questions to average over")
    table = {}
    for name, measure, cuts in (
        ("recall", recall_at_k, recall),
        ("all-recall", all_recall_at_k, all_recall),
    ):
        for k in cuts:
            found = [measure(runs.get(q, ()), wanted, k) for q, wanted in gold.items()]
            table[f"{name}@{k}"] = 100 * sum(found) / len(found)
    return table


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
    if len(ours) != len(theirs):
        raise InputError(f"both need the same questions, got {len(ours)} and {len(theirs)}")
    if not len(ours):
        raise InputError("there are no questions to compare on")
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)  # (n,)
    if not np.isfinite(differences).all():
        raise InputError("each value must be finite")
    random, n = np.random.default_rng(seed), len(differences)
    means = [differences[random.integers(n, size=n)].mean() for _ in range(resamples)]
    low, high = np.percentile(means, (2.5, 97.5))
    return Difference(float(differences.mean()), float(low), float(high))

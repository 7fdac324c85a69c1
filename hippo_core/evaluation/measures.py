"""Measures of retrieval as the papers have them: recall@k and all-recall@k."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hippo_core.errors import InputError


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

"""How well predicted triples match gold ones, word by word, in the manner of CaRB.

Bhardwaj, Aggarwal and Mausam, "CaRB: A Crowdsourced Benchmark for Open IE", EMNLP 2019: a pair of
triples whose relations share a word is scored by the words that its subjects, its relations and its
objects share. Recall lets each gold triple take the prediction that covers most of it, whichever
others take the same; precision pairs predictions with gold triples one to one, the best match
first, and a prediction without a partner counts as 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Words = tuple["Counter[str]", ...]
"""The words of subject, relation and object."""

_ARTICLES = frozenset(("a", "an", "the"))


class Tally(NamedTuple):
    """Sums over passages, of which precision and recall are means."""

    precise: float = 0.0
    predicted: int = 0
    recalled: float = 0.0
    gold: int = 0

    def plus(self, other: Tally) -> Tally:
        """Add another passage's."""
        return Tally(*(mine + its for mine, its in zip(self, other, strict=True)))

    def scores(self) -> dict[str, float]:
        """Give precision, recall and F1 in percent."""
        precision = self.precise / self.predicted if self.predicted else 0.0
        recall = self.recalled / self.gold if self.gold else 0.0
        both = precision + recall
        f1 = 2 * precision * recall / both if both else 0.0
        return {
            "precision": round(100 * precision, 1),
            "recall": round(100 * recall, 1),
            "f1": round(100 * f1, 1),
        }


def score(predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]) -> Tally:
    """Match the triples of one passage.

    >>> gold = [("Ada", "met Bob in", "Lyon"), ("Ada", "met", "Bob")]
    >>> score([("Ada", "met", "Bob")], gold).scores()
    {'precision': 100.0, 'recall': 70.0, 'f1': 82.4}
    """
    ours, theirs = [_words(t) for t in predicted], [_words(t) for t in gold]
    shared = [[_shared(our, their) for their in theirs] for our in ours]
    recalled = sum(
        max((row[g] for row in shared), default=0) / _size(their) for g, their in enumerate(theirs)
    )
    matches = sorted(
        (
            (-2 * common / (_size(ours[p]) + _size(theirs[g])), p, g)
            for p, row in enumerate(shared)
            for g, common in enumerate(row)
            if common
        ),
    )
    precise = 0.0
    free_ours, free_theirs = set(range(len(ours))), set(range(len(theirs)))
    for _, p, g in matches:
        if p in free_ours and g in free_theirs:
            precise += shared[p][g] / _size(ours[p])
            free_ours.remove(p)
            free_theirs.remove(g)
    return Tally(precise, len(ours), recalled, len(theirs))


def _words(triple: Sequence[str]) -> Words:
    return tuple(
        Counter(w for w in re.findall(r"\w+", part.casefold()) if w not in _ARTICLES)
        for part in triple
    )


def _size(words: Words) -> int:
    return max(1, sum(part.total() for part in words))


def _shared(one: Words, other: Words) -> int:
    """Count the words in common, part by part; none if the relations have none."""
    if not one[1] & other[1]:
        return 0
    return sum((mine & its).total() for mine, its in zip(one, other, strict=True))

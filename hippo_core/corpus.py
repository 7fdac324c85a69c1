"""Corpus: the live passages of one state and what they state, as columns in canonical order.

Passages stand by id, phrases and triples by key, so that any history of the same passages gives the
same columns. Everything that retrieval needs is a function of them; a smaller corpus is a `Corpus`
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import KeyedTriple
from hippo_core.segments import distinct
from hippo_core.synonyms import SynonymPairs
from hippo_core.types import Passage, Status
from hippo_core.user_edges import UserEdges
from hippo_core.vectors import VectorRows

Positions = NDArray[np.int64]
T = TypeVar("T")

TRIPLE, SUBJECT, RELATION, OBJECT = range(4)
"""Columns of `Corpus.occurrences`: a triple, and the spellings that it has there."""


class Selection(Sequence[T]):
    """Some of many items, by number: a sequence that is not copied.

    >>> Selection(["a", "b", "c"], np.array([2, 0]))[0]
    'c'
    """

    def __init__(self, items: Sequence[T], numbers: Positions) -> None:
        self._items = items
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> Selection[T]: ...
    def __getitem__(self, position: int | slice) -> T | Selection[T]:
        if isinstance(position, slice):
            return Selection(self._items, self._numbers[position])
        return self._items[int(self._numbers[position])]

    def __iter__(self) -> Iterator[T]:
        return map(self._items.__getitem__, self._numbers.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def at(self, positions: Positions) -> Selection[T]:
        """Give some of them."""
        return Selection(self._items, self._numbers[positions])


class Live(NamedTuple):
    """A live passage."""

    passage: Passage
    status: Status


@dataclass(frozen=True, slots=True)
class Corpus:
    """Columns over n passages, n phrases, n triples and n occurrences of triples in passages.

    Attributes:
        passages: By id.
        phrases: Phrase keys, sorted.
        lengths: Letters and digits of each phrase, (n_phrases,).
        checksums: By which a phrase is found, (n_phrases,).
        triples: Distinct keyed triples, sorted.
        triple_phrases: Positions of subject and object, (n_triples, 2).
        starts: Where each passage's occurrences begin, and the end, (n_passages + 1,).
        occurrences: By passage: a triple's position and its three spellings, (n_occurrences, 4).
        spellings: The texts that `occurrences` points into; some may be of no use here.
        synonyms: Accepted pairs of phrases, left < right, sorted.
        edges: The user's edges, of which some may be pending.
        passage_vectors: Unit rows, by passage.
        phrase_vectors: By phrase.
        triple_vectors: By triple.
    """

    passages: Selection[Live]
    phrases: Selection[str]
    lengths: NDArray[np.int64]
    checksums: NDArray[np.int64]
    triples: Selection[KeyedTriple]
    triple_phrases: Positions
    starts: Positions
    occurrences: Positions
    spellings: Sequence[str]
    synonyms: SynonymPairs
    edges: UserEdges
    passage_vectors: VectorRows
    phrase_vectors: VectorRows
    triple_vectors: VectorRows

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def stated_by(self) -> Positions:
        """Give each occurrence's passage, (n_occurrences,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def triples_of(self, passage: int) -> Positions:
        """Give the positions of the triples that a passage states, each once."""
        rows = self.occurrences[self.starts[passage] : self.starts[passage + 1], TRIPLE]
        return distinct(rows)

    def restricted(self, allowed: NDArray[np.bool_]) -> Corpus:
        """Give the corpus of the allowed passages alone, (n_passages,)."""
        kept, passage_at = _present(np.flatnonzero(allowed), len(self))
        counts = np.diff(self.starts)
        rows = self.occurrences[np.repeat(allowed, counts)]
        triples, triple_at = _present(rows[:, TRIPLE], len(self.triples))
        phrases, phrase_at = _present(self.triple_phrases[triples].reshape(-1), len(self.phrases))
        return Corpus(
            passages=self.passages.at(kept),
            phrases=self.phrases.at(phrases),
            lengths=self.lengths[phrases],
            checksums=self.checksums[phrases],
            triples=self.triples.at(triples),
            triple_phrases=phrase_at[self.triple_phrases[triples]],
            starts=np.concatenate([[0], np.cumsum(counts[kept])]),
            occurrences=np.column_stack([triple_at[rows[:, TRIPLE]], rows[:, SUBJECT:]]),
            spellings=self.spellings,
            synonyms=_between(self.synonyms, phrase_at),
            edges=self.edges.restricted(allowed, passage_at, phrase_at),
            passage_vectors=self.passage_vectors.at(kept),
            phrase_vectors=self.phrase_vectors.at(phrases),
            triple_vectors=self.triple_vectors.at(triples),
        )


def _present(positions: Positions, n: int) -> tuple[Positions, Positions]:
    """Give the distinct positions, sorted, and where each of n stands among them, or -1."""
    there = np.zeros(n, dtype=bool)
    there[positions] = True
    kept = np.flatnonzero(there)
    at = np.full(n, -1, dtype=np.int64)
    at[kept] = np.arange(len(kept))
    return kept, at


def _between(synonyms: SynonymPairs, phrase_at: Positions) -> SynonymPairs:
    """Give the pairs of which both ends are present."""
    left, right = phrase_at[synonyms.left], phrase_at[synonyms.right]
    both = (left >= 0) & (right >= 0)
    return SynonymPairs(left[both], right[both], synonyms.cosine[both])

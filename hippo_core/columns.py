"""Columns: what the live passages state, as passages come and go.

Passages, phrases, triples, spellings and targets of edges have slots that they keep while they are
used; the `Corpus` of one moment is made from them by array operations alone.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import Contribution, KeyedTriple, Target
from hippo_core.corpus import TRIPLE, Corpus, Live, Selection
from hippo_core.keys import Keys
from hippo_core.segments import Segments, distinct
from hippo_core.synonyms import SynonymPairs
from hippo_core.text import checksum, letters_and_digits
from hippo_core.types import Kind, Passage, Status, Triple
from hippo_core.user_edges import EdgesBySlot
from hippo_core.vectors import VectorRows, VectorView

Slots = NDArray[np.int64]

NOBODY = Live(Passage(""), Status.EMPTY)
"""What stands where a passage was dropped."""


class Columns:
    """The live passages by slot.

    Attributes:
        texts: Embedded texts, used by passages; a slot is the row of its vector.
        phrases: Phrase keys, used by triples; likewise.
        rendered: Texts of triples, used by triples, of which two may render alike; likewise.
    """

    def __init__(self, render: Callable[[KeyedTriple], str]) -> None:
        self._render = render
        self.texts = Keys[str]()
        self.phrases = Keys[str]()
        self.rendered = Keys[str]()
        self._ids = Keys[str]()
        self._live: list[Live] = []  # by slot of the id, as are the next two
        self._text_of = array("q")
        self._occurrences = Segments()
        self._spellings = Keys[str]()  # used by occurrences
        self._triples = Keys[KeyedTriple]()  # used by passages
        self._ends = array("q")  # by slot of the triple: its subject, object and text
        self._lengths = array("q")  # by slot of the phrase, as is the next
        self._checksums = array("q")
        self._edges = EdgesBySlot()

    @classmethod
    def of(cls, corpus: Corpus, render: Callable[[KeyedTriple], str]) -> Columns:
        """Give the columns of a corpus, with its own rows of vectors."""
        new = cls(render)
        n_triples = len(corpus.triples)
        new._live = list(corpus.passages)
        ends, rows = corpus.triple_phrases, corpus.triple_vectors.rows
        text_rows = corpus.passage_vectors.rows.tolist()
        stated = distinct(corpus.stated_by * n_triples + corpus.occurrences[:, TRIPLE])
        spelled = corpus.occurrences[:, TRIPLE + 1 :].reshape(-1)
        new.texts = _by_row(text_rows, (live.passage.embedded_text for live in new._live))
        counts = _counts(ends.reshape(-1), len(corpus.phrases))
        new.phrases = Keys(corpus.phrases, counts, in_order=True)
        new.rendered = _by_row(rows.tolist(), map(render, corpus.triples))
        ids = (live.passage.id for live in new._live)
        new._ids = Keys(ids, [1] * len(corpus), in_order=True)
        new._text_of = array("q", text_rows)
        new._occurrences = Segments(corpus.starts, corpus.occurrences)
        new._spellings = Keys(corpus.spellings, _counts(spelled, len(corpus.spellings)))
        counts = _counts(stated % max(n_triples, 1), n_triples)
        new._triples = Keys(corpus.triples, counts, in_order=True)
        new._ends = array("q", np.column_stack([ends, rows]).reshape(-1).tobytes())
        new._lengths = array("q", corpus.lengths.tobytes())
        new._checksums = array("q", corpus.checksums.tobytes())
        new._edges = EdgesBySlot.of(corpus.edges, (live.passage for live in new._live))
        return new

    # -- change -------------------------------------------------------------------------------

    def put(self, contribution: Contribution) -> None:
        """Take a passage that is not there."""
        rows = []
        for keyed, spellings in contribution.triples.items():
            triple = self._triple(keyed)
            rows += [(triple, *map(self._spellings.take, spelling)) for spelling in spellings]
        passage = contribution.passage
        occurrences = np.array(rows, dtype=np.int64).reshape(-1, 4)
        slot = self._ids.take(passage.id)
        self._live[slot : slot + 1] = [Live(passage, contribution.status)]
        self._text_of[slot : slot + 1] = array("q", [self.texts.take(passage.embedded_text)])
        self._occurrences.put(slot, occurrences)
        self._edges.put(slot, passage, contribution.edges, self.phrases, self._ids)

    def drop(self, id_: str) -> None:
        """Forget a passage, if it is there; what nothing else uses goes with the next `sweep`."""
        slot = self._ids.get(id_)
        if slot is None or not self._ids.uses(id_):
            return
        occurrences = self._occurrences.take(slot)
        self._edges.drop(slot)
        self._live[slot] = NOBODY
        self._ids.release(slot)
        self.texts.release(self._text_of[slot])
        for triple in distinct(occurrences[:, TRIPLE]).tolist():
            self._triples.release(triple)
        for spelling in occurrences[:, TRIPLE + 1 :].reshape(-1).tolist():
            self._spellings.release(spelling)

    def sweep(self) -> dict[Kind, list[int]]:
        """Free what nothing uses; give the rows of vectors that are free."""
        ids = self._ids.sweep()
        self._spellings.sweep()
        for triple in self._triples.sweep():
            subject, object_, text = self._ends[3 * triple : 3 * triple + 3]
            self.phrases.release(subject)
            self.phrases.release(object_)
            self.rendered.release(text)
        phrases = self.phrases.sweep()
        self._edges.sweep(ids, phrases)
        return {
            "passage": self.texts.sweep(),
            "phrase": phrases,
            "triple": self.rendered.sweep(),
        }

    def _triple(self, keyed: KeyedTriple) -> int:
        is_new = keyed not in self._triples
        slot = self._triples.take(keyed)
        if is_new:
            subject, object_ = self.phrases.take(keyed.subject), self.phrases.take(keyed.object)
            ends = array("q", (subject, object_, self.rendered.take(self._render(keyed))))
            self._ends[3 * slot : 3 * slot + 3] = ends
            self._note(subject, keyed.subject)
            self._note(object_, keyed.object)
        return slot

    def _note(self, slot: int, phrase: str) -> None:
        self._lengths[slot : slot + 1] = array("q", (letters_and_digits(phrase),))
        self._checksums[slot : slot + 1] = array("q", (checksum(phrase),))
        self._edges.came("phrase", phrase, slot)

    # -- look ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._ids

    @property
    def ids(self) -> Collection[str]:
        """The live passages' ids."""
        return self._ids

    def contribution(self, id_: str) -> Contribution | None:
        """Give what a live passage contributes."""
        slot = self._ids.get(id_)
        if slot is None or not self._ids.uses(id_):
            return None
        triples: dict[KeyedTriple, tuple[Triple, ...]] = {}
        for triple, *spelling in self._occurrences.of(slot).tolist():
            keyed = self._triples.items[triple]
            spelled = Triple(*(self._spellings.items[s] for s in spelling))
            triples[keyed] = (*triples.get(keyed, ()), spelled)
        return Contribution(*self._live[slot], triples, self._edges.of_slot(slot))

    def pending(self, id_: str) -> list[Target]:
        """Give the targets of a live passage's edges that are not there."""
        slot = self._ids.get(id_)
        return [] if slot is None or not self._ids.uses(id_) else self._edges.pending(slot)

    def orphans(
        self, gone: Iterable[Contribution], coming: Iterable[Contribution]
    ) -> dict[Kind, list[str]]:
        """Give the texts whose vectors nothing uses once passages are replaced."""
        gone, coming = list(gone), list(coming)
        embedded = Counter(c.passage.embedded_text for c in coming)
        embedded.subtract(c.passage.embedded_text for c in gone)
        triples = _change((c.triples for c in gone), (c.triples for c in coming))
        phrases: Counter[str] = Counter()
        texts: Counter[str] = Counter()
        for keyed, change in triples.items():
            before = self._triples.uses(keyed)
            step = (before + change > 0) - (before > 0)
            if step:
                phrases.update({keyed.subject: step})
                phrases.update({keyed.object: step})
                texts.update({self._render(keyed): step})
        return {
            "passage": _unused(self.texts, embedded),
            "phrase": _unused(self.phrases, phrases),
            "triple": _unused(self.rendered, texts),
        }

    def corpus(self, vectors: Mapping[Kind, VectorView], synonyms: SynonymPairs) -> Corpus:
        """Give what is there now, in canonical order, with the vectors by row."""
        passage_order = self._ids.order()
        phrase_order, triple_order = self.phrases.order(), self._triples.order()
        passage_at = _places(passage_order, self._ids.capacity)
        phrase_at = _places(phrase_order, self.phrases.capacity)
        triple_at = _places(triple_order, self._triples.capacity)
        ends = np.array(self._ends, dtype=np.int64).reshape(-1, 3)[triple_order]
        starts, occurrences = self._occurrences.gather(passage_order)
        occurrences[:, TRIPLE] = triple_at[occurrences[:, TRIPLE]]
        text_rows = np.array(self._text_of, dtype=np.int64)[passage_order]
        return Corpus(
            passages=Selection(list(self._live), passage_order),
            phrases=Selection(list(self.phrases.items), phrase_order),
            lengths=np.array(self._lengths, dtype=np.int64)[phrase_order],
            checksums=np.array(self._checksums, dtype=np.int64)[phrase_order],
            triples=Selection(list(self._triples.items), triple_order),
            triple_phrases=phrase_at[ends[:, :2]],
            starts=starts,
            occurrences=occurrences,
            spellings=list(self._spellings.items),
            synonyms=_in_order(synonyms, phrase_at),
            edges=self._edges.columns(passage_order, passage_at, phrase_at),
            passage_vectors=VectorRows(vectors["passage"], text_rows),
            phrase_vectors=VectorRows(vectors["phrase"], phrase_order),
            triple_vectors=VectorRows(vectors["triple"], ends[:, 2]),
        )


def _by_row(rows: Iterable[int], texts: Iterable[str]) -> Keys[str]:
    """Give the texts of rows that are numbered from 0; those of one row are alike."""
    of_row: dict[int, str] = {}
    uses: Counter[int] = Counter()
    for row, text in zip(rows, texts, strict=True):
        of_row[row] = text
        uses[row] += 1
    return Keys((of_row[row] for row in range(len(of_row))), (uses[r] for r in range(len(of_row))))


def _counts(positions: Slots, n: int) -> list[int]:
    counts: list[int] = np.bincount(positions, minlength=n).tolist()
    return counts


def _change(
    gone: Iterable[Iterable[KeyedTriple]], coming: Iterable[Iterable[KeyedTriple]]
) -> Counter[KeyedTriple]:
    change: Counter[KeyedTriple] = Counter()
    for triples in gone:
        change.subtract(dict.fromkeys(triples, 1))
    for triples in coming:
        change.update(dict.fromkeys(triples, 1))
    return change


def _unused(keys: Keys[str], change: Counter[str]) -> list[str]:
    return [item for item, step in change.items() if step < 0 and keys.uses(item) + step <= 0]


def _places(order: Slots, capacity: int) -> Slots:
    """Give the place in the order of each slot; of a free one, anything."""
    places = np.zeros(capacity, dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def _in_order(synonyms: SynonymPairs, places: Slots) -> SynonymPairs:
    one, other = places[synonyms.left], places[synonyms.right]
    left, right = np.minimum(one, other), np.maximum(one, other)
    order = np.argsort(left * len(places) + right)
    return SynonymPairs(left[order], right[order], synonyms.cosine[order])

"""HippoIndex: one namespace's state in memory, derived from the store and kept up with it.

Readers take a `Snapshot`: an immutable view of one whole state. The index follows the store's
change log, so a commit of this handle, another handle or another process is applied by the same
code, passage by passage.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hippo_core.config import HippoConfig
from hippo_core.contributions import (
    Contribution,
    KeyedTriple,
    contribution,
    phrases_of,
    render_triple,
)
from hippo_core.errors import StoreCorruptError
from hippo_core.graph import KnowledgeGraph, SynonymPairs, sorted_phrases
from hippo_core.records import Reader, text_key
from hippo_core.store import Store
from hippo_core.synonyms import SynonymPlan, Synonyms
from hippo_core.types import Kind, Stats, Triple
from hippo_core.vectors import VectorTable


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the corpus, in canonical order: passages by id, phrases and triples by key."""

    version: int
    contributions: tuple[Contribution, ...]
    graph: KnowledgeGraph
    passage_vectors: NDArray[np.float32]  # (n_passages, d), unit rows
    phrase_vectors: NDArray[np.float32]  # (n_phrases, d)
    triple_vectors: NDArray[np.float32]  # (n_triples, d)
    _forms: dict[int, str] = field(default_factory=dict)  # display forms asked for so far

    def display_triple(self, position: int) -> Triple:
        """Give a triple as users see it: phrases in display form, the relation as most often."""
        relation = Counter(
            spelling.relation
            for column in self.stating(position)
            for spelling in self.contributions[column].triples[self.graph.triples[position]]
        )
        subject, object_ = self.graph.triple_phrases[position]
        return Triple(self.display_form(subject), _commonest(relation), self.display_form(object_))

    def display_form(self, phrase: int) -> str:
        """Give a phrase's most frequent spelling over the live passages; ties go by order."""
        form = self._forms.get(phrase)
        if form is None:
            form = self._forms[phrase] = _commonest(self._spellings(phrase))
        return form

    def stating(self, triple: int) -> NDArray[np.int32]:
        """Give the positions of the passages that state a triple."""
        stated = self.graph.triple_passages
        return stated.indices[stated.indptr[triple] : stated.indptr[triple + 1]]

    def _spellings(self, phrase: int) -> Counter[str]:
        key = self.graph.phrases[phrase]
        held = self.graph.phrase_passages
        columns = held.indices[held.indptr[phrase] : held.indptr[phrase + 1]]
        return Counter(
            surface
            for column in columns
            for keyed, occurrences in self.contributions[column].triples.items()
            for triple in occurrences
            for part, surface in (
                (keyed.subject, triple.subject),
                (keyed.object, triple.object),
            )
            if part == key
        )


class HippoIndex:
    """The state of one namespace. Any thread may ask for its snapshot."""

    def __init__(self, store: Store, namespace: str, config: HippoConfig) -> None:
        self.store = store
        self.namespace = namespace
        self.config = config
        self.committing = threading.Lock()
        """Held by who adds or deletes through this index, so that planned synonyms stay right."""
        self._lock = threading.RLock()
        self._start_over()

    def _start_over(self) -> None:
        """Hold nothing: the next `catch_up` takes everything from the store."""
        self._version = 0
        self._contributions: dict[str, Contribution] = {}
        self._triple_uses: Counter[str] = Counter()  # by rendered text: two may render alike
        self._phrase_uses: Counter[str] = Counter()
        self._text_uses: Counter[str] = Counter()
        self._vectors: dict[Kind, VectorTable] = {
            "passage": VectorTable(),
            "phrase": VectorTable(),
            "triple": VectorTable(),
        }
        self._synonyms = Synonyms(
            self.config.synonymy_threshold if self.config.synonymy else None,
            self.config.synonymy_limit,
        )
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Give the store's present state; derive it first if something was committed."""
        self.refresh()
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._derive()
            return self._snapshot

    def refresh(self) -> None:
        """Apply what was committed; nothing is derived yet."""
        # The store's lock before the index's, as a commit takes them: otherwise both could wait.
        with self.store.read() as reader:
            self.catch_up(reader)

    def catch_up(self, reader: Reader, plan: SynonymPlan | None = None) -> None:
        """Apply what was committed since the last time."""
        with self._lock:
            version = reader.version(self.namespace)
            if version == self._version:
                return
            changed, deleted = reader.changed_since(self.namespace, self._version)
            gone = [i for i in self._contributions if text_key(i) in deleted] if deleted else []
            everything = not self._contributions
            stored = reader.passages(self.namespace, None if everything else changed)
            try:
                self._remove([*changed, *gone])
                self._add(reader, [contribution(s.passage, s.extraction) for s in stored], plan)
            except BaseException:  # an interrupt too: half of a change is no state
                self._start_over()
                raise
            self._version = version
            self._snapshot = None

    def live(self) -> Mapping[str, Contribution]:
        """Give the live passages by id, as of the last `catch_up`."""
        return self._contributions

    def texts_in_use(self) -> dict[Kind, set[str]]:
        """Give the texts whose vectors the live passages need, by kind."""
        with self._lock:
            return {kind: set(table) for kind, table in self._vectors.items()}

    def plan_synonyms(self, phrases: Mapping[str, NDArray[np.float32]]) -> SynonymPlan:
        """Find the synonyms of phrases that are about to be added.

        Raises:
            SynonymyError: More pairs would be accepted than `synonymy_limit` allows.
        """
        with self._lock:
            new = {p: v for p, v in phrases.items() if p not in self._vectors["phrase"]}
            return self._synonyms.plan(new, self._vectors["phrase"])

    def orphans(
        self, removed: Collection[str], added: Iterable[Contribution]
    ) -> dict[Kind, list[str]]:
        """Give the texts of phrases and triples that nothing uses once passages are replaced."""
        with self._lock:
            gone = [self._contributions[i] for i in removed if i in self._contributions]
            staying = list(added)
            triples = _left_over(
                self._triple_uses,
                [self._rendered(c) for c in gone],
                [self._rendered(c) for c in staying],
            )
            phrases = _left_over(
                self._phrase_uses, [c.phrases for c in gone], [c.phrases for c in staying]
            )
            return {"phrase": phrases, "triple": triples}

    def render(self, triple: KeyedTriple) -> str:
        """Give a triple's text for embedding."""
        return render_triple(triple, self.config.triple_rendering)

    def _rendered(self, contribution_: Contribution) -> list[str]:
        return [self.render(triple) for triple in contribution_.triples]

    def _remove(self, ids: Iterable[str]) -> None:
        gone = [c for i in ids if (c := self._contributions.pop(i, None)) is not None]
        self._text_uses.subtract(c.passage.full_text for c in gone)
        self._triple_uses.subtract(text for c in gone for text in self._rendered(c))
        self._phrase_uses.subtract(p for c in gone for p in c.phrases)

    def _add(self, reader: Reader, new: Sequence[Contribution], plan: SynonymPlan | None) -> None:
        for c in new:
            self._contributions[c.passage.id] = c
        self._text_uses.update(c.passage.full_text for c in new)
        self._triple_uses.update(text for c in new for text in self._rendered(c))
        self._phrase_uses.update(p for c in new for p in c.phrases)
        unused_phrases = _drop_unused(self._phrase_uses)
        self._synonyms.remove(p for p in unused_phrases if p in self._vectors["phrase"])
        self._forget("phrase", unused_phrases)
        self._forget("triple", _drop_unused(self._triple_uses))
        self._forget("passage", _drop_unused(self._text_uses))
        phrases = phrases_of(t for c in new for t in c.triples)
        new_phrases = self._missing_vectors(reader, "phrase", phrases)
        known = self._vectors["phrase"]
        if plan is None or not self._synonyms.fits(plan, new_phrases):
            plan = self._synonyms.plan(new_phrases, known, limited=False)
        self._synonyms.add(plan, known)
        self._remember("phrase", new_phrases)
        triples = {text for c in new for text in self._rendered(c)}
        self._remember("triple", self._missing_vectors(reader, "triple", triples))
        texts = {c.passage.full_text for c in new}
        self._remember("passage", self._missing_vectors(reader, "passage", texts))

    def _missing_vectors(
        self, reader: Reader, kind: Kind, texts: Iterable[str]
    ) -> dict[str, NDArray[np.float32]]:
        wanted = sorted(text for text in texts if text not in self._vectors[kind])
        found = reader.vectors(self.namespace, kind, wanted)
        lost = [text for text in wanted if text not in found]
        if lost:
            raise StoreCorruptError(
                f"{len(lost)} {kind} vectors are missing from the store (first: {lost[0]!r}): "
                "it was written with another triple_rendering: open it with that; "
                "or it is damaged: index the passages again in another folder"
            )
        return found

    def _remember(self, kind: Kind, by_text: Mapping[str, NDArray[np.float32]]) -> None:
        if by_text:
            self._vectors[kind].add(list(by_text), np.stack(list(by_text.values())))

    def _forget(self, kind: Kind, texts: Iterable[str]) -> None:
        table = self._vectors[kind]
        table.remove([text for text in texts if text in table])

    def _derive(self) -> Snapshot:
        ordered = tuple(self._contributions[i] for i in sorted(self._contributions))
        phrases = sorted_phrases(ordered)
        graph = KnowledgeGraph(ordered, phrases, _positions(self._synonyms, phrases))
        return Snapshot(
            version=self._version,
            contributions=ordered,
            graph=graph,
            passage_vectors=self._vectors["passage"].rows([c.passage.full_text for c in ordered]),
            phrase_vectors=self._vectors["phrase"].rows(phrases),
            triple_vectors=self._vectors["triple"].rows([self.render(t) for t in graph.triples]),
        )


def stats(snapshot: Snapshot) -> Stats:
    """Count what a snapshot holds."""
    graph = snapshot.graph
    by_status = Counter(c.status.value for c in snapshot.contributions)
    return Stats(
        passages=graph.n_passages,
        phrases=graph.n_phrases,
        triples=len(graph.triples),
        relation_edges=len(graph.relations(every_occurrence=False).left),
        synonymy_edges=len(graph.synonyms.left),
        context_edges=int(graph.phrase_passages.nnz),
        by_status=dict(sorted(by_status.items())),
    )


def _commonest(spellings: Counter[str]) -> str:
    return min(spellings, key=lambda s: (-spellings[s], s))


def _drop_unused(uses: Counter[str]) -> list[str]:
    unused = [item for item, n in uses.items() if n <= 0]
    for item in unused:
        del uses[item]
    return unused


def _left_over(
    uses: Counter[str], going: Iterable[Iterable[str]], coming: Iterable[Iterable[str]]
) -> list[str]:
    change: Counter[str] = Counter()
    for items in going:
        change.subtract(items)
    for items in coming:
        change.update(items)
    return [item for item, n in change.items() if n < 0 and uses[item] + n <= 0]


def _positions(synonyms: Synonyms, phrases: Sequence[str]) -> SynonymPairs:
    position = {phrase: i for i, phrase in enumerate(phrases)}
    rows = sorted((position[a], position[b], cosine) for a, b, cosine in synonyms)
    left, right, cosine = zip(*rows, strict=True) if rows else ((), (), ())
    return SynonymPairs(
        np.array(left, dtype=np.int64),
        np.array(right, dtype=np.int64),
        np.array(cosine, dtype=np.float64),
    )

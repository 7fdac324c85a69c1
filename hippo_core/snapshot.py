"""Snapshot: one whole state, immutable, as readers see it."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hippo_core.anchors import PhraseLookup, find_anchors
from hippo_core.config import HippoConfig
from hippo_core.corpus import OBJECT, RELATION, SUBJECT, TRIPLE, Corpus
from hippo_core.curation import Curation, curated
from hippo_core.derived import State
from hippo_core.graph import KnowledgeGraph
from hippo_core.segments import distinct, ranges
from hippo_core.similarity import top_k
from hippo_core.types import Edge, Stats, SynonymEdge, Triple
from hippo_core.where import Filter

FILTERS = 16  # restricted snapshots that one snapshot keeps


class Snapshot:
    """A corpus of one moment, the graph over it, and how its phrases are shown.

    Attributes:
        state: Which state it is.
        whole: The corpus as it was read, before the user's aliases.
        corpus: What is searched.
        graph: The graph over `corpus`.
    """

    def __init__(self, whole: Corpus, curation: Curation, state: State) -> None:
        self.state = state
        self.whole = whole
        self.corpus = curated(whole, curation)
        self.graph = KnowledgeGraph(self.corpus)
        self._curation = curation
        self._lock = threading.Lock()
        self._forms: dict[int, str] = {}  # display forms asked for so far
        self._restricted: OrderedDict[str, Snapshot] = OrderedDict()

    def restricted(self, where: Filter) -> Snapshot:
        """Give the snapshot of an index of only the passages that a filter allows.

        Those of the last filters are kept, but for callables: what they say may change.
        """
        if where.key is None:
            return self._restrict(where)
        with self._lock:
            found = self._restricted.get(where.key)
            if found is not None:
                self._restricted.move_to_end(where.key)
                return found
        made = self._restrict(where)
        with self._lock:
            self._restricted[where.key] = made
            if len(self._restricted) > FILTERS:
                self._restricted.popitem(last=False)
        return made

    def anchors(self, query: str) -> NDArray[np.int64]:
        """Give the positions of the phrases that stand in a query, see `find_anchors`."""
        return np.array(find_anchors(query, self._lookup), dtype=np.int64)

    def display_triple(self, position: int) -> Triple:
        """Give a triple as users see it: phrases in display form, the relation as most often."""
        rows = self._occurrences(np.array([position]))
        subject, object_ = self.graph.triple_phrases[position].tolist()
        relation = self._commonest(self.corpus.occurrences[rows, RELATION])
        return Triple(self.display_form(subject), relation, self.display_form(object_))

    def display_form(self, phrase: int) -> str:
        """Give a phrase's most frequent spelling over the live passages; ties go by order."""
        form = self._forms.get(phrase)
        if form is None:
            held = self.graph.phrase_triples
            triples = held.indices[held.indptr[phrase] : held.indptr[phrase + 1]]
            occurrences = self.corpus.occurrences[self._occurrences(triples)]
            ends = self.graph.triple_phrases[occurrences[:, TRIPLE]]
            spelled = [
                occurrences[ends[:, side] == phrase, column]
                for side, column in enumerate((SUBJECT, OBJECT))
            ]
            form = self._forms[phrase] = self._commonest(np.concatenate(spelled))
        return form

    def stating(self, triple: int) -> NDArray[np.int32]:
        """Give the positions of the passages that state a triple."""
        stated = self.graph.triple_passages
        return stated.indices[stated.indptr[triple] : stated.indptr[triple + 1]]

    def bringing(
        self, passage: int, mass: NDArray[np.float64], config: HippoConfig, n: int
    ) -> tuple[Edge, ...]:
        """Give the n edges of the user's over which most of a walk's mass came to a passage."""
        edges, flow = self.graph.flow_over_edges(passage, mass, config)
        return tuple(self.edge(int(edges[i])) for i in top_k(flow, n).tolist() if flow[i] > 0)

    def edge(self, position: int) -> Edge:
        """Give one of the user's edges as they see it: a phrase in display form."""
        edges, ends = self.corpus.edges, self.graph.ends
        owner = int(np.searchsorted(edges.starts, position, side="right")) - 1
        kind, name = edges.names[int(edges.targets[position])]
        if kind == "phrase":
            name = self.display_form(int(ends.node[np.searchsorted(ends.edge, position)]))
        targets = {f"to_{kind}": name}
        weight = float(edges.weights[position])
        return Edge(self.corpus.passages[owner].passage.id, **targets, weight=weight)

    def strongest_synonyms(self, n: int) -> list[SynonymEdge]:
        """Give the synonymy edges of the n highest cosines, highest first."""
        left, right, cosine = self.graph.synonyms
        return [
            SynonymEdge(
                self.display_form(int(left[i])), self.display_form(int(right[i])), float(cosine[i])
            )
            for i in top_k(cosine, n).tolist()
        ]

    def stats(self) -> Stats:
        """Count what is there."""
        graph = self.graph
        user_edges = len(distinct(graph.ends.edge))
        by_status = Counter(live.status.value for live in self.corpus.passages)
        return Stats(
            passages=graph.n_passages,
            phrases=graph.n_phrases,
            triples=len(graph.triples),
            relation_edges=len(graph.relations(every_occurrence=False).left),
            synonymy_edges=len(graph.synonyms.left),
            context_edges=int(graph.phrase_passages.nnz),
            by_status=dict(sorted(by_status.items())),
            user_edges=user_edges,
            pending_edges=len(self.corpus.edges) - user_edges,
        )

    def _restrict(self, where: Filter) -> Snapshot:
        allowed = np.array([where.allows(p.passage.metadata) for p in self.whole.passages], bool)
        if allowed.all():
            return self
        return Snapshot(self.whole.restricted(allowed), self._curation, self.state)

    def _occurrences(self, triples: NDArray[np.integer]) -> NDArray[np.int64]:
        """Give the rows of the occurrences of some triples."""
        order, starts = self._by_triple
        return order[ranges(starts[triples], starts[triples + 1] - starts[triples])]

    @cached_property
    def _lookup(self) -> PhraseLookup:
        corpus = self.corpus
        return PhraseLookup(corpus.phrases, corpus.checksums, self._curation.aliases)

    @cached_property
    def _by_triple(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the rows of the occurrences by triple, and where each triple's begin."""
        order = np.argsort(self.corpus.occurrences[:, TRIPLE])
        return order, np.concatenate([[0], np.cumsum(self.graph.times_stated)])

    def _commonest(self, spellings: NDArray[np.int64]) -> str:
        numbers, counts = np.unique(spellings, return_counts=True)
        best = numbers[counts == counts.max()]
        texts: list[str] = [self.corpus.spellings[number] for number in best.tolist()]
        return min(texts)

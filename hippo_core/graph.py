"""KnowledgeGraph: phrase and passage nodes, four edge kinds, node specificity, CSR.

A pure function of a corpus, in its canonical order: passages by id, phrases and triples by key. So
any history of the same passages gives the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hippo_core.config import HippoConfig, RelatedSynonymy
from hippo_core.corpus import TRIPLE, Corpus
from hippo_core.pagerank import Transition, transition_matrix
from hippo_core.segments import distinct, ranges
from hippo_core.synonyms import SynonymPairs
from hippo_core.user_edges import Ends


class Edges(NamedTuple):
    """Undirected weighted edges, one entry per pair, left < right."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    weight: NDArray[np.float64]


class KnowledgeGraph:
    """The graph over one state of the corpus. Nodes are phrases, then passages.

    Attributes:
        phrases: Phrase keys, sorted; node i is phrase i.
        triples: Distinct keyed triples, sorted.
        triple_phrases: Positions of subject and object, shape (n_triples, 2).
        times_stated: In how many occurrences a triple is stated, shape (n_triples,).
        triple_passages: Which passages state a triple, CSR (n_triples, n_passages).
        phrase_triples: Which triples a phrase is an end of, CSR (n_phrases, n_triples).
        phrase_passages: Number of a passage's distinct triples that hold a phrase, CSR (n_phrases,
            n_passages): HippoRAG's matrix P. A triple whose subject is its object counts once.
        passage_counts: |C(p)|, the number of passages that hold a phrase, shape (n_phrases,).
        relations: Pairs of distinct phrases joined by triples, weighted by the number of triples.
        synonyms: Accepted synonym pairs.
        ends: The ends of the user's edges.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.n_passages = len(corpus)
        self.phrases = corpus.phrases
        self.triples = corpus.triples
        self.triple_phrases = corpus.triple_phrases
        self.synonyms = corpus.synonyms
        self._lengths = corpus.lengths
        stated = corpus.occurrences[:, TRIPLE]
        self.times_stated = np.bincount(stated, minlength=len(self.triples))
        self.triple_passages = self._stated_by(stated, corpus.stated_by)
        self.phrase_triples = self._ends()
        self.phrase_passages = self._held_by()
        self.passage_counts: NDArray[np.int64] = np.diff(self.phrase_passages.indptr).astype(
            np.int64
        )
        self._edges = corpus.edges
        self._transitions: dict[tuple[object, ...], tuple[Transition, NDArray[np.float64]]] = {}

    @property
    def n_phrases(self) -> int:
        """Number of phrase nodes."""
        return len(self.phrases)

    def touching(self, phrases: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the positions of the triples of which one of these phrases is an end, sorted."""
        held = self.phrase_triples
        starts = held.indptr[phrases]
        return distinct(held.indices[ranges(starts, held.indptr[phrases + 1] - starts)])

    def node_specificity(self) -> NDArray[np.float64]:
        """Give 1 / |C(p)| per phrase (HippoRAG, section 2.3), shape (n_phrases,)."""
        return 1.0 / np.maximum(self.passage_counts, 1)

    def relations(self, *, every_occurrence: bool) -> Edges:
        """Give the number of triples that join each pair of distinct phrases.

        A triple repeated inside one passage counts once, or with `every_occurrence` each time.
        """
        per_triple = self.times_stated if every_occurrence else np.diff(self.triple_passages.indptr)
        subjects, objects = self.triple_phrases.T
        left, right = np.minimum(subjects, objects), np.maximum(subjects, objects)
        joins = left != right  # self-loops carry no walk
        pair = left[joins] * self.n_phrases + right[joins]
        order = np.argsort(pair)
        pair, counts = pair[order], per_triple[joins][order]
        first = np.flatnonzero(np.diff(pair, prepend=-1))
        summed = np.add.reduceat(counts, first) if len(first) else counts
        pair = pair[first]
        n = max(self.n_phrases, 1)
        return Edges(pair // n, pair % n, summed.astype(np.float64))

    def phrase_edges(self, config: HippoConfig) -> Edges:
        """Give the edges among phrases: relation and synonymy edges, by the design's weights.

        A relation edge weighs twice its triples. A synonym pair adds, or puts in place of each
        direction's count, its cosine (or 1), if that direction's phrase is long enough to look for
        synonyms.
        """
        relation = self.relations(every_occurrence=config.relation_count == "occurrence")
        if not config.synonymy:
            return Edges(relation.left, relation.right, 2 * relation.weight)
        synonyms = self.synonyms
        if config.synonymy_weight == "one":
            synonyms = synonyms._replace(cosine=np.ones_like(synonyms.cosine))
        is_long = self._lengths >= config.synonymy_min_length
        return _join(relation, synonyms, is_long, config.synonymy_on_related, self.n_phrases)

    def context_edges(self) -> Edges:
        """Give the edges between phrases and passages, weight 1; passages follow the phrases."""
        held = self.phrase_passages.tocoo()
        phrase, passage = held.row, held.col  # `coords` came with scipy 1.13
        ones = np.ones(len(phrase), dtype=np.float64)
        return Edges(phrase.astype(np.int64), passage.astype(np.int64) + self.n_phrases, ones)

    @cached_property
    def ends(self) -> Ends:
        """Give the ends of the user's edges, of which a pending one has none."""
        return self._edges.ends(self.n_phrases)

    def passage_edges(self, config: HippoConfig) -> Edges:
        """Give the edges of passages: context edges and the user's, summed where both join a pair.

        So do two of the user's, such as one from each passage to the other.
        """
        context, ends = self.context_edges(), self.ends
        if not config.user_edges or not len(ends.edge):
            return context
        left = np.concatenate([context.left, np.minimum(ends.owner, ends.node)])
        right = np.concatenate([context.right, np.maximum(ends.owner, ends.node)])
        weight = np.concatenate([context.weight, self._edges.weights[ends.edge]])
        size = self.n_phrases + self.n_passages
        pair, which = np.unique(left * size + right, return_inverse=True)
        summed = np.bincount(which, weights=weight)
        return Edges(pair // size, pair % size, summed.astype(np.float64))

    def transition(self, config: HippoConfig, *, with_passages: bool) -> Transition:
        """Give the walk's matrix over phrases (HippoRAG) or phrases and passages (HippoRAG 2)."""
        return self._walked(config, with_passages=with_passages)[0]

    def strength(self, config: HippoConfig) -> NDArray[np.float64]:
        """Give the summed weights of each node's edges, over phrases and passages."""
        return self._walked(config, with_passages=True)[1]

    def flow_over_edges(
        self, passage: int, mass: NDArray[np.float64], config: HippoConfig
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Give the user's edges that touch a passage, and how much of the mass they bring it.

        `mass` is a walk's over phrases and passages, (n_phrases + n_passages,).
        """
        starts, edge, other = self._touching
        near = slice(starts[passage], starts[passage + 1])
        _, strength = self._walked(config, with_passages=True)
        edges, which = np.unique(edge[near], return_inverse=True)
        share = self._edges.weights[edge[near]] / strength[other[near]]
        flow = np.bincount(which, weights=mass[other[near]] * share, minlength=len(edges))
        return edges, flow.astype(np.float64, copy=False)

    @cached_property
    def _touching(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Give where each passage's part begins, and in it the user's edges and their far nodes."""
        edge, owner, node = self.ends
        near, far = np.concatenate([owner, node]), np.concatenate([node, owner])
        order = np.argsort(near, kind="stable")
        nodes = np.arange(self.n_phrases, self.n_phrases + self.n_passages + 1)
        starts = np.searchsorted(near[order], nodes)
        return starts, np.concatenate([edge, edge])[order], far[order]

    def _walked(
        self, config: HippoConfig, *, with_passages: bool
    ) -> tuple[Transition, NDArray[np.float64]]:
        """Give the walk's matrix and the summed weights of each node's edges, made once."""
        key = (
            with_passages,
            config.synonymy,
            config.synonymy_weight,
            config.synonymy_min_length,
            config.synonymy_on_related,
            config.relation_count,
            config.user_edges,
        )
        found = self._transitions.get(key)
        if found is None:
            edges = [self.phrase_edges(config)]
            if with_passages:
                edges.append(self.passage_edges(config))
            size = self.n_phrases + (self.n_passages if with_passages else 0)
            weights = _symmetric(edges, size)
            strength = np.asarray(weights @ np.ones(size), dtype=np.float64)
            transition = transition_matrix(weights, out_weight=strength)
            found = self._transitions[key] = transition, strength
        return found

    def neighbours(self, config: HippoConfig) -> sp.csr_array:
        """Give the phrase adjacency, symmetric CSR (n_phrases, n_phrases)."""
        return _symmetric([self.phrase_edges(config)], self.n_phrases)

    def _stated_by(self, triples: NDArray[np.int64], passages: NDArray[np.int64]) -> sp.csr_array:
        shape = (len(self.triples), self.n_passages)
        stated = sp.coo_array((np.ones(len(triples)), (triples, passages)), shape=shape).tocsr()
        stated.data[:] = 1
        return stated

    def _ends(self) -> sp.csr_array:
        n = len(self.triples)
        subjects, objects = self.triple_phrases[:, 0], self.triple_phrases[:, 1]
        both = objects != subjects
        rows = np.concatenate([subjects, objects[both]])
        columns = np.concatenate([np.arange(n), np.flatnonzero(both)])
        return _distinct_entries(np.ones(len(rows)), rows, columns, (self.n_phrases, n))

    def _held_by(self) -> sp.csr_array:
        held: sp.csr_array = (self.phrase_triples @ self.triple_passages).tocsr()
        return held


def _join(
    relation: Edges,
    synonyms: SynonymPairs,
    is_long: NDArray[np.bool_],
    on_related: RelatedSynonymy,
    n: int,
) -> Edges:
    """Sum both directions of each pair: the count of triples or, from a long phrase, the cosine.

    `relation` is sorted.
    """
    related, linked = relation.left * n + relation.right, synonyms.left * n + synonyms.right
    place = np.searchsorted(related, linked)
    is_related = np.zeros(len(linked), dtype=bool)
    inside = place < len(related)
    is_related[inside] = related[place[inside]] == linked[inside]
    longs = is_long[synonyms.left].astype(float) + is_long[synonyms.right]
    weight = 2 * relation.weight
    if on_related == "replace":
        weight[place[is_related]] -= longs[is_related] * relation.weight[place[is_related]]
    weight[place[is_related]] += (longs * synonyms.cosine)[is_related]
    alone = ~is_related & (longs > 0)
    return Edges(
        np.concatenate([relation.left, synonyms.left[alone]]),
        np.concatenate([relation.right, synonyms.right[alone]]),
        np.concatenate([weight, (longs * synonyms.cosine)[alone]]),
    )


def _symmetric(edges: Sequence[Edges], size: int) -> sp.csr_array:
    left = np.concatenate([e.left for e in edges])
    right = np.concatenate([e.right for e in edges])
    weight = np.concatenate([e.weight for e in edges])
    rows, columns = np.concatenate([left, right]), np.concatenate([right, left])
    return _distinct_entries(np.concatenate([weight, weight]), rows, columns, (size, size))


def _distinct_entries(
    weights: NDArray[np.float64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    shape: tuple[int, int],
) -> sp.csr_array:
    """Give a matrix of which each entry is given once."""
    place = (rows.astype(np.int32), columns.astype(np.int32))
    matrix = sp.coo_array((weights, place), shape=shape)
    matrix.has_canonical_format = True  # nothing is to be summed, so nothing has to be sorted
    return matrix.tocsr()

"""The graphs that the ablations walk on: other synonyms, other weights, more edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from ablations_setups import Positions, Scores, Setup
from numpy.typing import NDArray

from hippo_core import HippoConfig
from hippo_core.graph import Edges, KnowledgeGraph, _symmetric
from hippo_core.pagerank import Transition, transition_matrix
from hippo_core.similarity import Pairs, pairs_above
from hippo_core.synonyms import NO_PAIRS, SynonymPairs

WEIGHTS = HippoConfig.hipporag2()  # of relation and synonymy edges
LOWEST = 0.7  # cosine from which pairs are looked for
NEIGHBOURS = 5
RARE = (2, 5)  # passages that hold a string, at least and at most


def transition(setup: Setup, graph: str) -> Transition:
    """Give the walk's matrix of a graph by name, made once."""
    if graph not in setup.transitions:
        setup.transitions[graph] = GRAPHS[graph](setup)
    return setup.transitions[graph]


def _with_synonyms(setup: Setup, pairs: SynonymPairs) -> Transition:
    graph = KnowledgeGraph(replace(setup.corpus, synonyms=pairs))
    return transition_matrix(
        _symmetric([graph.phrase_edges(WEIGHTS), graph.context_edges()], _size(setup))
    )


def _above(threshold: float) -> Callable[[Setup], Transition]:
    def made(setup: Setup) -> Transition:
        rows, columns, cosines, _ = _pairs(setup)
        near = cosines >= threshold
        return _with_synonyms(setup, SynonymPairs(rows[near], columns[near], cosines[near]))

    return made


def _mutual(threshold: float) -> Callable[[Setup], Transition]:
    """Keep the pairs of which each is among the nearest neighbours of the other."""

    def made(setup: Setup) -> Transition:
        rows, columns, cosines, _ = _pairs(setup)
        near = (cosines >= threshold) & _are_mutual(rows, columns, cosines)
        return _with_synonyms(setup, SynonymPairs(rows[near], columns[near], cosines[near]))

    return made


def _are_mutual(rows: Positions, columns: Positions, cosines: Scores) -> NDArray[np.bool_]:
    ends, n = np.concatenate([rows, columns]), len(rows)
    order = np.lexsort((-np.concatenate([cosines, cosines]), ends))
    first = np.searchsorted(ends[order], ends[order])
    rank = np.empty(2 * n, dtype=np.int64)
    rank[order] = np.arange(2 * n) - first
    return (rank[:n] < NEIGHBOURS) & (rank[n:] < NEIGHBOURS)


_found: dict[int, Pairs] = {}


def _pairs(setup: Setup) -> Pairs:
    if id(setup) not in _found:
        _found[id(setup)] = pairs_above(np.asarray(setup.corpus.phrase_vectors), None, LOWEST)
    return _found[id(setup)]


def _context_weighed(weight: Callable[[Scores, int], Scores]) -> Callable[[Setup], Transition]:
    def made(setup: Setup) -> Transition:
        edges = setup.graph.context_edges()
        counts = setup.graph.passage_counts[edges.left].astype(np.float64)
        weighed = edges._replace(weight=weight(counts, len(setup.corpus)))
        return transition_matrix(
            _symmetric([setup.graph.phrase_edges(WEIGHTS), weighed], _size(setup))
        )

    return made


def _inverse_frequency(counts: Scores, n: int) -> Scores:
    """Give log(1 + N/|C|), 1 on average."""
    weights: Scores = np.log(1 + n / counts)
    weights /= weights.mean()
    return weights


def _specificity(counts: Scores, n: int) -> Scores:
    return 1 / counts


def _phrases_held(setup: Setup) -> sp.csr_array:
    return (setup.graph.phrase_passages.tocsr() > 0).astype(np.float64)


def _words_held(setup: Setup) -> sp.csr_array:
    numbers: dict[str, int] = {}
    pairs = [
        (numbers.setdefault(word, len(numbers)), passage)
        for passage, words in enumerate(setup.words)
        for word in set(words)
    ]
    rows, columns = np.array(pairs).T
    shape = (len(numbers), len(setup.corpus))
    return sp.coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()


def _shared(held_by: Callable[[Setup], sp.csr_array], weight: float) -> Callable[..., Transition]:
    """Join the passages that share a rare string, by its log(1 + N/df), `weight` on average."""

    def made(setup: Setup) -> Transition:
        held = held_by(setup)
        counts = np.diff(held.indptr)
        rare = np.flatnonzero((counts >= RARE[0]) & (counts <= RARE[1]))
        weights = weight * _inverse_frequency(counts[rare].astype(float), len(setup.corpus))
        pairs = sp.triu((held[rare].T @ sp.diags_array(weights) @ held[rare]).tocsr(), k=1).tocoo()
        n = setup.graph.n_phrases
        edges = Edges(pairs.row + n, pairs.col + n, pairs.data)
        kinds = [setup.graph.phrase_edges(WEIGHTS), setup.graph.context_edges(), edges]
        return transition_matrix(_symmetric(kinds, _size(setup)))

    return made


def _size(setup: Setup) -> int:
    return setup.graph.n_phrases + len(setup.corpus)


GRAPHS: dict[str, Callable[[Setup], Transition]] = {
    "default": lambda setup: _with_synonyms(setup, setup.corpus.synonyms),
    "no synonymy edges": lambda setup: _with_synonyms(setup, NO_PAIRS),
    "synonymy from 0.7": _above(0.7),
    "synonymy from 0.85": _above(0.85),
    "synonymy from 0.9": _above(0.9),
    "synonymy from 0.8, mutual 5 nearest": _mutual(0.8),
    "synonymy from 0.7, mutual 5 nearest": _mutual(0.7),
    "context edges by inverse frequency": _context_weighed(_inverse_frequency),
    "context edges by 1/C": _context_weighed(_specificity),
    "edges by shared rare phrases, 1": _shared(_phrases_held, 1.0),
    "edges by shared rare phrases, 0.2": _shared(_phrases_held, 0.2),
    "edges by shared rare words, 1": _shared(_words_held, 1.0),
    "edges by shared rare words, 0.2": _shared(_words_held, 0.2),
}

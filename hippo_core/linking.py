"""Linking: query to triples (HippoRAG 2, 3.3, and ours), or query entities to phrases (HippoRAG).

A triple's score is a weighted sum of parts, each a function of the `Evidence` and each from 0 to 1,
so that a weight means the same with every encoder. HippoRAG 2 has one part, the similarity of the
triple. Then `choose` says how many triples are taken, and `neighbouring` where a second hop looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.config import HippoConfig
from hippo_core.graph import KnowledgeGraph
from hippo_core.segments import distinct
from hippo_core.similarity import DIGITS, min_max, top_k

Scores = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a query is linked by.

    Attributes:
        near: Cosine of the query and each triple, (n_triples,).
        dense: Cosine of the query and each passage, (n_passages,).
        anchors: Positions of the phrases that stand in the query.
        graph: Which passages state a triple, and where its phrases stand.
    """

    near: Scores
    dense: Scores
    anchors: Positions
    graph: KnowledgeGraph


class TripleLinks(NamedTuple):
    """The triples that a query is linked to, best first."""

    positions: Positions
    scores: Scores
    """Sums of the weighted parts."""
    scaled: Scores
    """Min-max scaled over all triples: the best is 1."""


class PhraseLinks(NamedTuple):
    """The phrase nearest to each query entity."""

    positions: Positions
    cosines: Scores


# -- parts of a triple's score ---------------------------------------------------------------------


def similarity(evidence: Evidence) -> Scores:
    """Judge a triple by itself: c(t), its cosine with the query, min-max scaled over all triples.

    HippoRAG 2, section 3.3. Shape (n_triples,), as of all parts.
    """
    return min_max(evidence.near)


def context(evidence: Evidence) -> Scores:
    """Judge a triple by where it is stated: max over the passages p that state it of d(p).

    d is the cosine of query and passage, min-max scaled over all passages. A triple out of its
    context is ambiguous; its passage is not.
    """
    stated = evidence.graph.triple_passages
    return np.maximum.reduceat(min_max(evidence.dense)[stated.indices], stated.indptr[:-1])


def anchoring(evidence: Evidence) -> Scores:
    """Judge a triple by its anchors: max over the anchors v that it holds of 1 / |C(v)|.

    |C(v)| is the number of passages that hold v: the node specificity of the first paper (section
    2.3). Without an anchor it is 0.
    """
    graph = evidence.graph
    specificity = np.zeros(graph.n_phrases)
    specificity[evidence.anchors] = graph.node_specificity()[evidence.anchors]
    scores = np.zeros(len(graph.triples))
    held = graph.touching(evidence.anchors)
    scores[held] = specificity[graph.triple_phrases[held]].max(axis=1)
    return scores


def meeting(evidence: Evidence) -> Scores:
    """Judge a triple by where anchors meet: 1 if it joins an anchor to a meeting point, else 0.

    A meeting point is a phrase, itself no anchor, that triples join to two anchors or more. So a
    question that names two things finds what is between them: a path-finding question of the first
    paper (section 5.3), such as one that names a university and a disease and asks for a person.
    """
    graph = evidence.graph
    scores = np.zeros(len(graph.triples))
    if len(evidence.anchors) < 2:
        return scores
    is_anchor = np.zeros(graph.n_phrases, dtype=bool)
    is_anchor[evidence.anchors] = True
    held = graph.touching(evidence.anchors)
    ends = graph.triple_phrases[held]
    mixed = is_anchor[ends].sum(axis=1) == 1
    held, ends = held[mixed], ends[mixed]
    first = is_anchor[ends[:, 0]]
    anchors, others = np.where(first[:, np.newaxis], ends, ends[:, ::-1]).T
    joined = distinct(others * graph.n_phrases + anchors) // graph.n_phrases
    points, times = np.unique(joined, return_counts=True)
    scores[held[np.isin(others, points[times > 1])]] = 1.0
    return scores


Part = Callable[[Evidence], Scores]


def parts(config: HippoConfig) -> tuple[tuple[Part, float], ...]:
    """Give the parts of a triple's score that count, with their weights."""
    weighted: tuple[tuple[Part, float], ...] = (
        (similarity, 1.0),
        (context, config.context_weight),
        (anchoring, config.anchor_weight),
        (meeting, config.meeting_weight),
    )
    return tuple((part, weight) for part, weight in weighted if weight)


def link_triples(evidence: Evidence, weighted: Sequence[tuple[Part, float]], k: int) -> TripleLinks:
    """Give the k triples of the highest score: the weighted sum of the parts."""
    scores = np.zeros(len(evidence.near))
    for part, weight in weighted:
        scores += weight * part(evidence)
    best = top_k(scores, k)
    return TripleLinks(best, scores[best], min_max(scores)[best])


# -- how many --------------------------------------------------------------------------------------


def choose(links: TripleLinks, k: int, margin: float | None) -> tuple[int, ...]:
    """Give which of the links to take without a judge: the best k, as far as they are good.

    A link is taken if its score is at least that of the best, less the margin. HippoRAG 2 takes k.
    """
    taken = len(links.scores[:k])
    if margin is not None and taken:
        border = links.scores[0] - margin
        # Scores tie in 10 significant digits: a last bit must not decide.
        taken = int(np.count_nonzero(links.scores[:k] >= border - 10.0**-DIGITS))
    return tuple(range(taken))


# -- second hop ------------------------------------------------------------------------------------


def neighbouring(triple: int, graph: KnowledgeGraph, *, synonymy: bool = True) -> Positions:
    """Give the triples that hold a phrase of this one, or a synonym of one, sorted."""
    ends = alike = distinct(graph.triple_phrases[triple])
    if synonymy:
        left, right, _ = graph.synonyms
        alike = np.concatenate([right[np.isin(left, ends)], left[np.isin(right, ends)], ends])
    near = graph.touching(distinct(alike))
    return np.setdiff1d(near, [triple], assume_unique=True)


def hop(
    candidates: Sequence[Positions], cosines: Sequence[Scores], seen: Positions, k: int
) -> TripleLinks:
    """Give the k triples that lead on best from those that are taken.

    s(t) = max over the taken triples u beside t of cos(q + u, t), where q + u is the text of the
    query followed by that of u: what was found says what to look for next. Scaled by the best.

    Args:
        candidates: The triples beside each taken one.
        cosines: Of each candidate with the text of the query and that taken triple.
        seen: Those that were taken, or judged and not taken, are no candidates.
        k: How many, those with a positive cosine at the most.
    """
    near, which = np.unique(np.concatenate([*candidates]), return_inverse=True)
    scores = np.full(len(near), -1.0)
    np.maximum.at(scores, which, np.concatenate([*cosines]))
    usable = ~np.isin(near, seen) & (scores > 0)
    near, scores = near[usable], scores[usable]
    best = top_k(scores, k)
    return TripleLinks(
        near[best], scores[best], scores[best] / (scores[best[:1]] if len(best) else 1.0)
    )


# -- HippoRAG --------------------------------------------------------------------------------------


def link_entities(near: Sequence[Scores]) -> PhraseLinks:
    """Give each entity's nearest phrase, however far; `near` has each phrase's cosine to each."""
    best = [int(top_k(cosines, 1)[0]) for cosines in near]
    found = [cosines[position] for cosines, position in zip(near, best, strict=True)]
    return PhraseLinks(np.array(best, dtype=np.int64), np.array(found, dtype=np.float64))

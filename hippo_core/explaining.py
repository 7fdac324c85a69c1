"""Explaining: how the mass of a walk became a passage's score, split exactly.

The walk is linear in its reset (HippoRAG 2, section 3.4): p = c (I - d T)^-1 r, where T holds the
probabilities of following an edge, r the seeds, and c what restarts, the mass of nodes without an
edge among it. So w = (I - d T')^-1 e of a passage's own e says what each seed brings it: c r w.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.config import HippoConfig
from hippo_core.explanations import Explanation, Part, SeedPath, Step
from hippo_core.pagerank import Transition
from hippo_core.segments import distinct
from hippo_core.similarity import top_k
from hippo_core.snapshot import Snapshot
from hippo_core.types import Edge, Triple

TRIPLES = 3  # shown with every passage
EDGES = 3  # of the user's
PATHS = 3  # shown where an explanation is asked for
LEAST = 1e-3  # of the score, that a path must bring

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Where a ranking's mass began, and what became of it."""

    seeds: Scores
    """(n,), over phrases, or phrases and passages: the reset vector."""
    mass: Scores
    """(n,)"""
    transition: Transition | None
    """None where the seeds stayed where they were."""
    with_passages: bool
    """Whether a passage's score is its own node's mass; else it is that of its phrases, scaled."""
    scale: float = 1.0
    """What a unit of that mass counts in the score."""
    dense: Scores | None = None
    """(n_passages,), what the cosine of query and passage adds to the score."""


def bringing_triples(passage: int, spread: Spread | None, snapshot: Snapshot) -> tuple[Triple, ...]:
    """Give the triples over which most of the walk came to a passage: both ends hold mass."""
    if spread is None:
        return ()
    graph = snapshot.graph
    own = graph.triple_phrases[snapshot.corpus.triples_of(passage)]
    near = graph.touching(distinct(own.reshape(-1)))
    flow = spread.mass[graph.triple_phrases[near]].prod(axis=1)
    best = [i for i in top_k(flow, TRIPLES) if flow[i] > 0]
    return tuple(snapshot.display_triple(int(near[i])) for i in best)


def bringing_edges(
    passage: int, spread: Spread | None, snapshot: Snapshot, config: HippoConfig
) -> tuple[Edge, ...]:
    """Give the user's edges over which most of the walk came to a passage."""
    if spread is None or not spread.with_passages or not config.user_edges:
        return ()
    if not len(snapshot.graph.ends.edge):
        return ()
    return snapshot.bringing(passage, spread.mass, config, EDGES)


def explain(
    passages: NDArray[np.int64],
    ranked: Scores,
    shown: Sequence[float],
    spread: Spread | None,
    snapshot: Snapshot,
    config: HippoConfig,
) -> list[Explanation]:
    """Explain the scores of some passages.

    Args:
        passages: Their positions.
        ranked: (len(passages),), their scores as the ranking has them.
        shown: The same, as the user sees them.
        spread: None where the ranking is by cosine alone.
        snapshot: What was searched.
        config: How.
    """
    if spread is None:
        return [_dense(score, float(cosine)) for score, cosine in zip(shown, ranked, strict=True)]
    how = _Explainer(spread, snapshot, config)
    brought = how.brought(passages)
    return [
        how.explanation(int(passage), brought[:, column], float(ranked[column]), score)
        for column, (passage, score) in enumerate(zip(passages, shown, strict=True))
    ]


class _Explainer:
    """Explains one ranking."""

    def __init__(self, spread: Spread, snapshot: Snapshot, config: HippoConfig) -> None:
        self._spread = spread
        self._snapshot = snapshot
        self._graph = snapshot.graph
        self._config = config
        self._n_phrases = snapshot.graph.n_phrases
        if spread.transition is None:
            self._restart, self._reset = 1.0, spread.mass
        else:
            isolated = spread.mass[spread.transition.dangling].sum()
            self._restart = 1 - config.damping + config.damping * float(isolated)
            total = spread.seeds.sum()
            self._reset = spread.seeds / total if total > 0 else spread.seeds

    def brought(self, passages: NDArray[np.int64]) -> Scores:
        """Give what a unit of each seed brings each passage, shape (n, len(passages))."""
        own = np.zeros((len(self._reset), len(passages)))
        if self._spread.with_passages:
            own[self._n_phrases + passages, np.arange(len(passages))] = 1
        else:
            own = np.asarray(self._graph.phrase_passages.tocsc()[:, passages].todense(), float)
        if self._spread.transition is None:
            return own
        damping, back = self._config.damping, self._spread.transition.walk.T.tocsr()
        found, change = own, math.inf
        while damping * change > (1 - damping) * self._config.ppr_tolerance:
            following = own + damping * (back @ found)
            shift = float(np.abs(following - found).max(initial=0))
            if shift >= change:
                break  # rounding is all that moves it
            found, change = following, shift
        return found

    def explanation(
        self, passage: int, brought: Scores, ranked: float, shown: float
    ) -> Explanation:
        by_best = shown / ranked if ranked > 0 else 1.0  # `relative` divides by the best
        unit = self._spread.scale * by_best
        dense = 0.0 if self._spread.dense is None else float(self._spread.dense[passage]) * by_best
        seeds = _largest(self._by_seed(unit * self._restart * self._reset * brought))
        edges = _largest(self._by_edge(passage, unit))
        paths = self._paths(passage, unit, shown)
        return Explanation(
            shown,
            (*seeds, *self._rest(seeds, dense, ranked, shown)),
            (*edges, *self._rest(edges, dense, ranked, shown)),
            tuple(paths),
        )

    def _rest(
        self, parts: Sequence[Part], dense: float, ranked: float, shown: float
    ) -> Iterator[Part]:
        """Give what is not of the walk."""
        if dense:
            yield Part("dense", "", dense)
        if not self._spread.with_passages or ranked <= 0:
            left = shown - dense - sum(part.amount for part in parts)
            if left:
                yield Part("scaling", "", left)

    # -- splits -------------------------------------------------------------------------------

    def _by_seed(self, amounts: Scores) -> Iterator[Part]:
        for phrase in np.flatnonzero(amounts[: self._n_phrases]).tolist():
            name = self._snapshot.display_form(phrase)
            yield Part("phrase", name, float(amounts[phrase]))
        of_passages = float(amounts[self._n_phrases :].sum())
        if of_passages:
            yield Part("passages", "", of_passages)

    def _by_edge(self, passage: int, unit: float) -> Iterator[Part]:
        mass, graph = self._spread.mass, self._graph
        column = graph.phrase_passages[:, [passage]].tocoo()
        if not self._spread.with_passages:
            for phrase, times in zip(column.row.tolist(), column.data.tolist(), strict=True):
                yield self._of_phrase(phrase, unit * times * float(mass[phrase]))
            return
        if restart := unit * self._restart * float(self._reset[self._n_phrases + passage]):
            yield Part("restart", "", restart)
        follows = unit * self._config.damping
        strength = graph.strength(self._config)
        for phrase in column.row.tolist():
            yield self._of_phrase(phrase, follows * float(mass[phrase] / strength[phrase]))
        if self._config.user_edges and len(graph.ends.edge):
            edges, flow = graph.flow_over_edges(passage, mass, self._config)
            for edge, came in zip(edges.tolist(), flow.tolist(), strict=True):
                yield Part("edge", _ends(self._snapshot.edge(edge)), follows * came)

    def _of_phrase(self, phrase: int, amount: float) -> Part:
        return Part("context", self._snapshot.display_form(phrase), amount)

    # -- paths --------------------------------------------------------------------------------

    def _paths(self, passage: int, unit: float, shown: float) -> list[SeedPath]:
        """Give the strongest path from each seed, of the strongest seeds."""
        unit *= self._restart
        least = LEAST * shown / unit if unit > 0 else math.inf
        top = float(self._reset.max(initial=0))
        found: list[SeedPath] = []
        amounts: list[float] = []
        for reached in self._backwards(passage):
            worst = sorted(amounts)[-PATHS] if len(amounts) >= PATHS else least
            if top * reached.share <= max(worst, least):
                break
            amount = float(self._reset[reached.node]) * reached.share
            if reached.steps and amount >= least:
                amounts.append(amount)
                found.append(SeedPath(self._name(reached.node), reached.steps, unit * amount))
        return sorted(found, key=lambda path: -path.amount)[:PATHS]

    def _backwards(self, passage: int) -> Iterator[_Reached]:
        """Go from a passage to the nodes that bring it most along one path, in that order."""
        n, damping = self._n_phrases, self._config.damping
        walk = None if self._spread.transition is None else self._spread.transition.walk
        if self._spread.with_passages:
            heads = [_Reached(1.0, n + passage, ())]
        else:
            column = self._graph.phrase_passages[:, [passage]].tocoo()
            end = (Step("context", self._name(n + passage)),)
            heads = [
                _Reached(times, phrase, end)
                for phrase, times in zip(column.row.tolist(), column.data.tolist(), strict=True)
            ]
        heap = [(-head.share, head.node, head.node, head) for head in heads]
        heapq.heapify(heap)
        seen: set[int] = set()
        while heap:
            _, node, _, reached = heapq.heappop(heap)
            if node in seen:
                continue
            seen.add(node)
            if reached.onward is not None:
                step = self._step(node, reached.onward)
                reached = reached._replace(steps=(step, *reached.steps))
            yield reached
            if walk is None:
                continue
            row = slice(walk.indptr[node], walk.indptr[node + 1])
            for other, share in zip(
                walk.indices[row].tolist(), walk.data[row].tolist(), strict=True
            ):
                if other not in seen:
                    further = reached._replace(
                        share=reached.share * damping * share, node=other, onward=node
                    )
                    heapq.heappush(heap, (-further.share, other, node, further))

    def _step(self, origin: int, to: int) -> Step:
        """Say what joins two nodes."""
        n, graph = self._n_phrases, self._graph
        if origin < n and to < n:
            joining = np.intersect1d(self._triples_of(origin), self._triples_of(to))
            if not len(joining):
                return Step("synonymy", self._name(to))
            most = joining[np.argmax(graph.times_stated[joining])]
            return Step("relation", self._name(to), self._snapshot.display_triple(int(most)))
        phrase, passage = min(origin, to), max(origin, to) - n
        if phrase < n and graph.phrase_passages[phrase, passage]:
            return Step("context", self._name(to))
        return Step("edge", self._name(to))

    def _triples_of(self, phrase: int) -> NDArray[np.int64]:
        return self._graph.touching(np.array([phrase]))

    def _name(self, node: int) -> str:
        if node < self._n_phrases:
            return self._snapshot.display_form(node)
        return self._snapshot.corpus.passages[node - self._n_phrases].passage.id


class _Reached(NamedTuple):
    """A node, what a unit that starts there brings along its best path, and the path's steps."""

    share: float
    node: int
    steps: tuple[Step, ...]
    onward: int | None = None
    """The next node of the path, whose step is not among the steps yet."""


def _dense(shown: float, cosine: float) -> Explanation:
    parts = [Part("dense", "", shown if cosine > 0 else cosine)]
    if shown != parts[0].amount:
        parts.append(Part("scaling", "", shown - cosine))
    return Explanation(shown, tuple(parts), tuple(parts), ())


def _ends(edge: Edge) -> str:
    target = edge.to_passage or edge.to_source or edge.to_phrase
    return f"{edge.passage} -> {target}"


def _largest(parts: Iterator[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: -part.amount)

"""The user's edges: as columns over a corpus, and by slot while passages come and go.

An edge belongs to a passage and names a target, which may be there or not. It has as many ends as
there are passages or phrases that bear the name: none while it is pending.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import TARGET_KINDS, Target, TargetKind
from hippo_core.keys import Keys
from hippo_core.segments import Segments, ranges
from hippo_core.types import Passage

Positions = NDArray[np.int64]

NOWHERE = -1
_NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class UserEdges:
    """Columns over the edges of n passages, in canonical order.

    Attributes:
        starts: Where each passage's edges begin, and the end, (n + 1,).
        targets: By passage, then target: which target an edge goes to, (n_edges,).
        weights: (n_edges,).
        names: The targets, sorted; some may be of no use here.
        passages: Pairs of a target and a passage that bears its name, sorted, (m, 2).
        phrases: Pairs of a target and the phrase that does, sorted, (m, 2).
    """

    starts: Positions
    targets: Positions
    weights: NDArray[np.float64]
    names: Sequence[Target]
    passages: Positions
    phrases: Positions

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def owners(self) -> Positions:
        """Give each edge's passage, (n_edges,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def position(self, target: Target) -> int | None:
        """Give a target's position among the names."""
        place = bisect_left(self.names, target)
        return place if place < len(self.names) and self.names[place] == target else None

    def ends(self, n_phrases: int) -> Ends:
        """Give each edge's ends as nodes, which are phrases, then passages; none is its passage."""
        owner = self.owners + n_phrases
        found = [
            _joined(self.targets, self.phrases, 0),
            _joined(self.targets, self.passages, n_phrases),
        ]
        edge, node = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(edge, kind="stable")
        edge, node = edge[order], node[order]
        apart = owner[edge] != node  # self-loops carry no walk
        return Ends(edge[apart], owner[edge[apart]], node[apart])

    def restricted(
        self, allowed: NDArray[np.bool_], passage_at: Positions, phrase_at: Positions
    ) -> UserEdges:
        """Give the edges of the allowed passages, with the ends that are among what stays.

        `passage_at` and `phrase_at` say where each stands there, or -1.
        """
        counts = np.diff(self.starts)
        kept = np.repeat(allowed, counts)
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum(counts[allowed])]),
            targets=self.targets[kept],
            weights=self.weights[kept],
            passages=_moved(self.passages, passage_at),
            phrases=_moved(self.phrases, phrase_at),
        )

    def with_phrases(self, standing: Mapping[str, int], phrase_at: Positions) -> UserEdges:
        """Give the edges where some phrases stand for others, by position.

        `standing` says which one stands for each phrase of the user's aliases, `phrase_at` where
        each phrase is then. Of a passage's edges to phrases that count as one the heaviest stays.
        """
        first: dict[int, int] = {}  # by the phrase that stands, the target that is kept
        same = np.arange(len(self.names))
        for name in sorted(standing):
            target = self.position(Target("phrase", name))
            if target is not None:
                same[target] = first.setdefault(standing[name], target)
        if not first:
            return replace(self, phrases=_moved(self.phrases, phrase_at))
        merged = np.flatnonzero(np.isin(same, list(first.values())))
        others = self.phrases[~np.isin(self.phrases[:, 0], merged)]
        pairs = np.array([(target, phrase) for phrase, target in first.items()], dtype=np.int64)
        pairs = np.concatenate([others, pairs])
        edges = np.lexsort((-self.weights, same[self.targets], self.owners))
        owners, targets = self.owners[edges], same[self.targets][edges]
        fresh = (np.diff(owners, prepend=-1) != 0) | (np.diff(targets, prepend=-1) != 0)
        counts = np.bincount(owners[fresh], minlength=len(self.starts) - 1)
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum(counts)]),
            targets=targets[fresh],
            weights=self.weights[edges][fresh],
            phrases=_moved(pairs[np.argsort(pairs[:, 0])], phrase_at),
        )


class Ends(NamedTuple):
    """One row per edge and end, by edge: the edge, the node of its passage, that of the end."""

    edge: Positions
    owner: Positions
    node: Positions


def no_edges(n_passages: int) -> UserEdges:
    """Give the columns of passages without edges."""
    none = np.zeros(0, dtype=np.int64)
    starts = np.zeros(n_passages + 1, dtype=np.int64)
    return UserEdges(starts, none, none.astype(np.float64), (), _NO_PAIRS, _NO_PAIRS)


def _joined(targets: Positions, pairs: Positions, first: int) -> tuple[Positions, Positions]:
    """Give (edge, node) for each edge and thing that bears its target's name."""
    starts = np.searchsorted(pairs[:, 0], targets)
    counts = np.searchsorted(pairs[:, 0], targets, side="right") - starts
    return np.repeat(np.arange(len(targets)), counts), pairs[ranges(starts, counts), 1] + first


def _moved(pairs: Positions, places: Positions) -> Positions:
    """Give the pairs whose second part has a place, with that."""
    at = places[pairs[:, 1]]
    moved: Positions = np.column_stack([pairs[:, 0], at])[at != NOWHERE]
    return moved


class EdgesBySlot:
    """The edges of passages by slot, and the slots of what bears their targets' names.

    Passages, phrases and sources are told as they come and go, so that no edge but those of a
    change is looked at.
    """

    def __init__(self) -> None:
        self._edges = Segments(width=2)  # by slot of the passage: a target, the bits of a weight
        self._targets = Keys[Target]()  # used by edges
        self._kinds = array("b")  # by slot of the target
        self._at = array("q")  # likewise: the slot of what bears its name, or NOWHERE
        self._sources = Keys[str]()  # used by passages
        self._source_of = array("q")  # by slot of the passage, or NOWHERE

    @classmethod
    def of(cls, edges: UserEdges, passages: Iterable[Passage]) -> EdgesBySlot:
        """Give the edges of passages whose slots are their places, as are those of the phrases."""
        new = cls()
        for slot, passage in enumerate(passages):
            new._come(slot, passage)
        counts = np.bincount(edges.targets, minlength=len(edges.names)).tolist()
        new._targets = Keys(edges.names, counts, in_order=True)
        kinds = [TARGET_KINDS.index(kind) for kind, _ in edges.names]
        at = np.full(len(kinds), NOWHERE, dtype=np.int64)
        at[edges.phrases[:, 0]] = edges.phrases[:, 1]
        at[edges.passages[:, 0]] = edges.passages[:, 1]
        for target, (kind, name) in enumerate(edges.names):
            if kind == "source":
                source = new._sources.get(name)
                at[target] = NOWHERE if source is None else source
        new._kinds, new._at = array("b", kinds), array("q", at.tobytes())
        rows = np.column_stack([edges.targets, edges.weights.view(np.int64)])
        new._edges = Segments(edges.starts, rows, width=2)
        return new

    # -- change -------------------------------------------------------------------------------

    def put(
        self,
        slot: int,
        passage: Passage,
        edges: Mapping[Target, float],
        phrases: Keys[str],
        ids: Keys[str],
    ) -> None:
        """Take a passage that is not there, with its edges; `phrases` and `ids` have slots."""
        self._come(slot, passage)
        known: dict[TargetKind, Keys[str]] = {
            "passage": ids,
            "phrase": phrases,
            "source": self._sources,
        }
        rows = np.zeros((len(edges), 2), dtype=np.int64)
        for row, (target, weight) in zip(rows, sorted(edges.items()), strict=True):
            is_new = target not in self._targets
            place = self._targets.take(target)
            if is_new:
                at = known[target.kind].get(target.name)
                self._kinds[place : place + 1] = array("b", [TARGET_KINDS.index(target.kind)])
                self._at[place : place + 1] = array("q", [NOWHERE if at is None else at])
            row[0], row[1:] = place, np.array([weight]).view(np.int64)
        self._edges.put(slot, rows)

    def drop(self, slot: int) -> None:
        """Forget a passage's edges."""
        for target in self._edges.take(slot)[:, 0].tolist():
            self._targets.release(target)
        if self._source_of[slot] != NOWHERE:
            self._sources.release(self._source_of[slot])

    def came(self, kind: TargetKind, name: str, slot: int) -> None:
        """Take note of what bears a name now."""
        if self._targets:
            target = self._targets.get(Target(kind, name))
            if target is not None:
                self._at[target] = slot

    def sweep(self, ids: Sequence[int], phrases: Sequence[int]) -> None:
        """Free what nothing uses, once the slots of these passages and phrases are free."""
        self._targets.sweep()
        for kind, freed in (
            ("passage", ids),
            ("phrase", phrases),
            ("source", self._sources.sweep()),
        ):
            if freed and self._at:
                at = np.frombuffer(self._at, dtype=np.int64)
                of_kind = np.frombuffer(self._kinds, dtype=np.int8) == TARGET_KINDS.index(kind)
                at[of_kind & np.isin(at, freed)] = NOWHERE

    def _come(self, slot: int, passage: Passage) -> None:
        self.came("passage", passage.id, slot)
        source = NOWHERE
        if passage.source_id is not None:
            source = self._sources.take(passage.source_id)
            self.came("source", passage.source_id, source)
        self._source_of[slot : slot + 1] = array("q", [source])

    # -- look ---------------------------------------------------------------------------------

    def of_slot(self, slot: int) -> dict[Target, float]:
        """Give a passage's edges."""
        rows = self._edges.of(slot)
        weights = np.ascontiguousarray(rows[:, 1]).view(np.float64).tolist()
        return {
            self._targets.items[target]: weight
            for target, weight in zip(rows[:, 0].tolist(), weights, strict=True)
        }

    def pending(self, slot: int) -> list[Target]:
        """Give the targets of a passage's edges that nothing else bears the name of."""
        return [
            self._targets.items[target]
            for target in self._edges.of(slot)[:, 0].tolist()
            if not self._is_there(target, slot)
        ]

    def _is_there(self, target: int, slot: int) -> bool:
        kind, name = self._targets.items[target]
        if kind != "source":
            return self._at[target] != NOWHERE
        return self._sources.uses(name) > (self._source_of[slot] == self._at[target])

    def columns(
        self, passages: Positions, passage_at: Positions, phrase_at: Positions
    ) -> UserEdges:
        """Give the edges of the passages in this order; where each slot stands is given, too."""
        if not self._targets:
            return no_edges(len(passages))
        starts, rows = self._edges.gather(passages)
        targets = self._targets.order()
        place = np.zeros(self._targets.capacity, dtype=np.int64)
        place[targets] = np.arange(len(targets))
        kinds = np.array(self._kinds, dtype=np.int64)[targets]
        at = np.array(self._at, dtype=np.int64)[targets]
        is_there = at != NOWHERE
        of = {k: np.flatnonzero((kinds == i) & is_there) for i, k in enumerate(TARGET_KINDS)}
        sources = np.array(self._source_of, dtype=np.int64)[passages]
        by_source = np.argsort(sources, kind="stable")
        of_source = np.column_stack([sources[by_source], by_source])
        number, members = _joined(at[of["source"]], of_source, 0)
        return UserEdges(
            starts=starts,
            targets=place[rows[:, 0]],
            weights=np.ascontiguousarray(rows[:, 1]).view(np.float64),
            names=[self._targets.items[i] for i in targets.tolist()],
            passages=np.concatenate(  # as passages are sorted before sources
                [
                    np.column_stack([of["passage"], passage_at[at[of["passage"]]]]),
                    np.column_stack([of["source"][number], members]),
                ]
            ),
            phrases=np.column_stack([of["phrase"], phrase_at[at[of["phrase"]]]]),
        )

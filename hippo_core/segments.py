"""Segments: rows of numbers by slot, as slots come and go, gathered in any order at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def ranges(starts: NDArray[np.integer], counts: NDArray[np.integer]) -> Numbers:
    """Give the numbers of several ranges, one after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Numbers = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return numbers


def distinct(numbers: NDArray[np.integer]) -> Numbers:
    """Give the distinct numbers, sorted: `np.unique` takes a millisecond for a handful."""
    ordered = np.sort(numbers).astype(np.int64, copy=False)
    return ordered[np.append(True, np.diff(ordered) != 0)] if len(ordered) else ordered


class Segments:
    """For each slot some rows of numbers, four by default, in one growing array.

    >>> segments = Segments()
    >>> segments.put(0, np.ones((2, 4), dtype=np.int64))
    >>> segments.put(1, np.zeros((1, 4), dtype=np.int64))
    >>> starts, rows = segments.gather(np.array([1, 0]))
    >>> starts.tolist(), rows[:, 0].tolist()
    ([0, 1, 3], [0, 1, 1])
    """

    def __init__(
        self, starts: Numbers | None = None, rows: Numbers | None = None, *, width: int = 4
    ) -> None:
        """Begin empty, or with the rows from starts[i] to starts[i + 1] at slot i."""
        bounds = np.zeros(1, dtype=np.int64) if starts is None else starts
        self._starts = bounds[:-1].copy()
        self._counts = np.diff(bounds)
        self._rows = np.zeros((0, width), dtype=np.int64) if rows is None else np.array(rows)
        self._end = len(self._rows)  # of what is used

    def put(self, slot: int, rows: Numbers) -> None:
        """Write the rows of a slot that has none."""
        if slot >= len(self._starts):
            more = max(slot + 1, 2 * len(self._starts)) - len(self._starts)
            self._starts = np.concatenate([self._starts, np.zeros(more, dtype=np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
        self._make_room(len(rows))
        self._rows[self._end : self._end + len(rows)] = rows
        self._starts[slot], self._counts[slot] = self._end, len(rows)
        self._end += len(rows)

    def of(self, slot: int) -> Numbers:
        """Give the rows of a slot."""
        start = self._starts[slot]
        return self._rows[start : start + self._counts[slot]]

    def take(self, slot: int) -> Numbers:
        """Give the rows of a slot and forget them."""
        rows = self.of(slot).copy()
        self._counts[slot] = 0
        return rows

    def gather(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """Copy the rows of slots, one after the other.

        Returns:
            Where each slot's rows begin, and the end, (n + 1,); the rows, (m, width).
        """
        counts = self._counts[slots]
        starts = np.concatenate([[0], np.cumsum(counts)])
        return starts, self._rows[ranges(self._starts[slots], counts)]

    def _make_room(self, count: int) -> None:
        if self._end + count <= len(self._rows):
            return
        used = np.flatnonzero(self._counts)
        starts, rows = self.gather(used)  # without what was taken
        self._starts[used] = starts[:-1]
        self._end = len(rows)
        size = max(self._end + count, 2 * self._end, 64)
        room = np.zeros((size, self._rows.shape[1]), dtype=np.int64)
        room[: self._end] = rows
        self._rows = room

"""VectorTable: unit vectors by row, in blocks that are copied before they change.

What a reader holds therefore stays as it was, and a change costs a block, not the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippo_core.similarity import cosines

BLOCK = 1024  # rows that are copied together

Rows = NDArray[np.int64]


class VectorTable:
    """Vectors by row number; a row that was never put, or was cleared, is zero.

    >>> table = VectorTable()
    >>> table.put(np.array([0, 1]), np.eye(2, dtype=np.float32))
    >>> before = table.view()
    >>> table.clear(np.array([1]))
    >>> before.take(np.array([1])).tolist(), table.view().take(np.array([1])).tolist()
    ([[0.0, 1.0]], [[0.0, 0.0]])
    """

    def __init__(self, view: VectorView | None = None) -> None:
        """Begin empty, or with what a view shows."""
        self._blocks = [] if view is None else list(view.blocks)
        self._dimension = 0 if view is None else view.dimension
        self._shared = set(range(len(self._blocks)))  # blocks that someone else may read

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 before the first one."""
        return self._dimension

    def put(self, rows: Rows, vectors: NDArray[np.float32]) -> None:
        """Write vectors, shape (n, d), to rows that are zero.

        Raises:
            ValueError: They are not as long as those that are there.
        """
        if not len(rows):
            return
        if not self._blocks:
            self._dimension = vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise ValueError(
                f"vectors of {vectors.shape[1]} numbers in a table of {self._dimension}"
            )
        for block, inside, chosen in _by_block(rows):
            self._own(block)[inside] = vectors[chosen]

    def clear(self, rows: Rows) -> None:
        """Write zeros to rows."""
        for block, inside, _chosen in _by_block(rows):
            self._own(block)[inside] = 0

    def view(self) -> VectorView:
        """Give what is there now; it does not change."""
        self._shared.update(range(len(self._blocks)))
        return VectorView(tuple(self._blocks), self._dimension)

    def _own(self, block: int) -> NDArray[np.float32]:
        while len(self._blocks) <= block:
            self._blocks.append(np.zeros((BLOCK, self._dimension), dtype=np.float32))
        found = self._blocks[block]
        if block in self._shared or len(found) < BLOCK:
            mine = np.zeros((BLOCK, self._dimension), dtype=np.float32)
            mine[: len(found)] = found
            self._blocks[block] = found = mine
            self._shared.discard(block)
        return found


@dataclass(frozen=True, slots=True)
class VectorView:
    """A table as it was at one moment."""

    blocks: tuple[NDArray[np.float32], ...]
    dimension: int

    @classmethod
    def of(cls, matrix: NDArray[np.float32]) -> VectorView:
        """Give a matrix (n, d), such as a mapped file, as a view."""
        blocks = (matrix[start : start + BLOCK] for start in range(0, len(matrix), BLOCK))
        return cls(tuple(blocks), matrix.shape[1])

    def take(self, rows: Rows) -> NDArray[np.float32]:
        """Copy rows, shape (n, d)."""
        taken = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for block, inside, chosen in _by_block(rows):
            taken[chosen] = self.blocks[block][inside]
        return taken

    def cosines(self, query: NDArray[np.floating]) -> NDArray[np.float64]:
        """Give each row's product with a query (d,), in float64, shape (capacity,)."""
        scores = np.zeros(BLOCK * len(self.blocks))
        for i, block in enumerate(self.blocks):
            scores[BLOCK * i : BLOCK * i + len(block)] = cosines(block, query)
        return scores


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Some rows of a view, in an order of their own: a matrix (n, d) that is not copied."""

    view: VectorView
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.view.take(self.rows).astype(dtype or np.float32, copy=False)

    def cosines(self, query: NDArray[np.floating]) -> NDArray[np.float64]:
        """Give each row's product with a query (d,), in float64, shape (n,)."""
        if len(self.rows) * 4 < BLOCK * len(self.view.blocks):  # few of them
            return cosines(self.view.take(self.rows), query)
        return self.view.cosines(query)[self.rows]

    def at(self, positions: Rows) -> VectorRows:
        """Give some of them."""
        return VectorRows(self.view, self.rows[positions])


def _by_block(rows: Rows) -> list[tuple[int, Rows, Rows]]:
    """Group rows by block: the block, the places inside it, the positions in `rows`."""
    blocks, inside = np.divmod(np.asarray(rows, dtype=np.int64), BLOCK)
    if not len(blocks):
        return []
    order = np.argsort(blocks, kind="stable")
    numbers, starts = np.unique(blocks[order], return_index=True)
    return [
        (int(number), inside[chosen], chosen)
        for number, chosen in zip(numbers, np.split(order, starts[1:]), strict=True)
    ]

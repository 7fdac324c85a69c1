"""VectorTable: texts <-> rows of one contiguous matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class VectorTable:
    """Unit vectors by text, added and removed in any order.

    >>> table = VectorTable()
    >>> table.add(["a", "b"], np.eye(2, dtype=np.float32))
    >>> table.remove(["a"])
    >>> table.rows(["b"]).tolist(), len(table)
    ([[0.0, 1.0]], 1)
    """

    def __init__(self) -> None:
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._matrix: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, text: str) -> bool:
        return text in self._row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 before the first one."""
        return int(self._matrix.shape[1])

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Take vectors, shape (n, d), for texts that are not in the table yet."""
        if len(texts) != len(vectors):
            raise ValueError(f"{len(texts)} texts and {len(vectors)} vectors")
        if not len(texts):
            return
        self._reserve(len(texts), vectors.shape[1])
        for text, vector in zip(texts, vectors, strict=True):
            row = self._free.pop()
            self._row_of[text] = row
            self._matrix[row] = vector

    def remove(self, texts: Iterable[str]) -> None:
        """Forget texts; their rows are cleared and used again."""
        for text in texts:
            row = self._row_of.pop(text)
            self._matrix[row] = 0
            self._free.append(row)

    def rows(self, texts: Collection[str]) -> NDArray[np.float32]:
        """Copy the vectors of texts, in their order, shape (n, d)."""
        return self._matrix[[self._row_of[text] for text in texts]]

    def _reserve(self, count: int, dimension: int) -> None:
        if self._row_of and dimension != self.dimension:
            raise ValueError(f"vectors of {dimension} numbers in a table of {self.dimension}")
        if dimension != self.dimension:  # and so empty
            self._matrix, self._free = np.zeros((0, dimension), dtype=np.float32), []
        missing = count - len(self._free)
        if missing <= 0:
            return
        old = self._matrix
        size = max(len(old) + missing, 2 * len(old), 16)
        grown = np.zeros((size, dimension), dtype=np.float32)
        grown[: len(old)] = old
        self._free += range(size - 1, len(old) - 1, -1)
        self._matrix = grown

"""Cosines of unit vectors, and the best of many scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hippo_core.errors import InputError

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

DIGITS = 10  # scores that agree in so many significant digits tie
_SLACK = 1e-4  # a float32 product of unit vectors of usual length is closer than this
_UNIT_ROUNDOFF = 2.0**-24  # of float32
_BLOCK_ENTRIES = 1 << 16  # float64 entries of a block that stays in a core's cache
_PAIR_ENTRIES = 1 << 20  # float64 entries of a chunk of pairs


class Pairs(NamedTuple):
    """Pairs of rows that are close, by row, then column."""

    rows: Positions
    columns: Positions
    cosines: Floats
    complete: bool = True
    """False where the search stopped at its limit."""


def unit_rows(matrix: ArrayLike) -> NDArray[np.float32]:
    """Scale each row to length 1, computed in float64; a row of zeros stays as it is.

    Raises:
        InputError: It is no matrix, or a row is not finite.

    >>> unit_rows([[3, 4], [0, 0]])
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    given = np.asarray(matrix)
    if given.ndim != 2:
        raise InputError(f"vectors must have shape (n, d), got {given.shape}")
    scaled = np.empty(given.shape, dtype=np.float32)
    for start, stop in _blocks(*given.shape):
        rows = given[start:stop].astype(np.float64)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            raise InputError(f"vector {start + int(np.argmin(finite))} is not finite")
        rows /= _or_one(np.abs(rows).max(axis=1, initial=0.0))  # first, or a square may overflow
        rows /= _or_one(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
        scaled[start:stop] = rows
    return scaled


def _or_one(lengths: Floats) -> Floats:
    return np.where(lengths > 0, lengths, 1.0)[:, np.newaxis]


def _blocks(n: int, d: int) -> Iterator[tuple[int, int]]:
    step = max(1, _BLOCK_ENTRIES // max(1, d))
    for start in range(0, n, step):
        yield start, min(n, start + step)


def cosines(matrix: NDArray[np.float32], query: NDArray[np.floating]) -> Floats:
    """Give the dot product of each row with the query, in float64 arithmetic.

    With unit rows and a unit query these are cosines. A row's result depends on the other rows and
    on its place by rounding of float64 only, below 1e-12.

    Args:
        matrix: (n, d).
        query: (d,).

    Raises:
        InputError: The dimensions differ.
    """
    n, d = matrix.shape
    if query.shape != (d,):
        raise InputError(f"query must have shape {(d,)} like the rows, got {query.shape}")
    exact_query = query.astype(np.float64)
    products = np.empty(n)
    for start, stop in _blocks(n, d):
        products[start:stop] = matrix[start:stop].astype(np.float64) @ exact_query
    return products


def min_max(scores: ArrayLike) -> Floats:
    """Scale scores so that the worst is 0 and the best 1; where all are equal, all are 1.

    They are equal if they agree in 10 significant digits: one vector's score at two places may
    differ in its last bit, and that must not become the whole range.

    >>> min_max([0.9, 0.3, 0.6]).round(6)
    array([1. , 0. , 0.5])
    >>> min_max([0.2, 0.2])
    array([1., 1.])
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.size == 0:
        return values.copy()
    worst, best = values.min(), values.max()
    if best - worst <= 10.0**-DIGITS * max(abs(worst), abs(best)):
        return np.ones_like(values)
    scaled: Floats = (values - worst) / (best - worst)
    return scaled


def round_significant(values: ArrayLike, digits: int = DIGITS) -> Floats:
    """Round to a number of significant decimal digits; monotone, and infinities stay.

    >>> round_significant([1 / 3, -20.0, 0.0, 99999.999999, 2e-310 / 3], 4).tolist()
    [0.3333, -20.0, 0.0, 100000.0, 6.667e-311]
    """
    if not 1 <= digits <= 15:
        raise InputError(f"digits must be from 1 to 15, got {digits}")
    numbers = np.asarray(values, dtype=np.float64)
    usual = np.isfinite(numbers) & (numbers != 0)
    sizes = np.where(usual, np.abs(numbers), 1.0)
    shifts = digits - 1 - np.floor(np.log10(sizes)).astype(np.int64)
    whole = np.rint(_times_ten_to(sizes, shifts))
    # 9999.9 and 10000 must end as one float, so both as 1000 times a power of ten.
    carried = whole == 10.0**digits
    whole = np.where(carried, 10.0 ** (digits - 1), whole)
    rounded = _times_ten_to(whole, np.where(carried, 1, 0) - shifts)
    return np.where(usual, np.copysign(rounded, numbers), numbers)


_TEN_TO = np.array([float(f"1e{k}") for k in range(301)])


def _times_ten_to(values: Floats, exponents: Positions) -> Floats:
    """Shift decimal points. 10^-k is no float, so it divides by 10^k: one rounding, not two."""
    lowest, highest = exponents.min(initial=0), exponents.max(initial=0)
    with np.errstate(over="ignore"):
        if highest > 0:
            values = values * _TEN_TO[np.clip(exponents, 0, 300)]
        if highest > 300:  # near the smallest floats the power itself overflows
            values = values * _TEN_TO[np.clip(exponents - 300, 0, 300)]
        if lowest < 0:
            values = values / _TEN_TO[np.clip(-exponents, 0, 300)]
        if lowest < -300:
            values = values / _TEN_TO[np.clip(-exponents - 300, 0, 300)]
    return values


def top_k(scores: ArrayLike, k: int) -> Positions:
    """Give the positions of the k best scores, best first.

    Scores that agree in 10 significant digits tie, and the lower position comes first.

    Raises:
        InputError: k is negative, or a score is not a number.

    >>> top_k([0.1, 0.7, 0.3, 0.7 + 1e-12], 3)
    array([1, 3, 2])
    """
    values = np.asarray(scores, dtype=np.float64)
    if k < 0:
        raise InputError(f"k must be at least 0, got {k}")
    if np.isnan(values).any():
        raise InputError(f"score {int(np.argmax(np.isnan(values)))} is not a number")
    n = len(values)
    if k == 0 or n == 0:
        return np.empty(0, dtype=np.int64)
    if k >= n:
        chosen = np.arange(n)
        rounded = round_significant(values)
    else:
        kth_best = np.partition(values, n - k)[n - k]
        border = round_significant(kth_best).item()
        slack = 10.0 ** (1 - DIGITS) * abs(border) if np.isfinite(border) else 0.0
        # Rounding is monotone: all that can tie with the k-th best is less than the slack below it.
        near = np.flatnonzero(values >= min(kth_best, border - slack))
        near_rounded = round_significant(values[near])
        better = near_rounded > border
        tied = np.flatnonzero(near_rounded == border)[: k - np.count_nonzero(better)]
        places = np.concatenate([np.flatnonzero(better), tied])
        chosen, rounded = near[places], near_rounded[places]
    return chosen[np.lexsort((chosen, -rounded))].astype(np.int64, copy=False)


def pairs_above(
    left: NDArray[np.float32],
    right: NDArray[np.float32] | None,
    threshold: float,
    *,
    block: int = 1024,
    limit: int | None = None,
) -> Pairs:
    """Find all pairs of rows whose cosine is at least the threshold.

    A float32 product of blocks proposes pairs, the float64 dot product of the two rows decides and
    is the cosine. So a pair's answer does not depend on the other rows, nor on the block size.

    Args:
        left: (m, d), unit rows.
        right: (n, d), unit rows; None for the pairs i < j inside `left`.
        threshold: A cosine.
        block: Rows of one block; memory holds block x block products beside what was found.
        limit: Stop when more pairs than this were found; the result then is not `complete`.

    Raises:
        InputError: The dimensions differ.

    >>> pairs_above(unit_rows([[1, 0], [0, 1], [2, 0]]), None, 0.8)
    Pairs(rows=array([0]), columns=array([2]), cosines=array([1.]), complete=True)
    """
    if block < 1:
        raise InputError(f"block must be at least 1, got {block}")
    others = left if right is None else right
    if left.shape[1] != others.shape[1]:
        raise InputError(f"rows have {left.shape[1]} and {others.shape[1]} dimensions")
    found = [_NO_PAIRS]
    count = 0
    complete = True
    for rows, columns in _proposals(left, others, float(threshold), block, within=right is None):
        dots = _dots(left[rows], others[columns])
        close = dots >= threshold
        found.append(Pairs(rows[close], columns[close], dots[close]))
        count += int(np.count_nonzero(close))
        if limit is not None and count > limit:
            complete = False
            break
    rows = np.concatenate([pairs.rows for pairs in found])
    columns = np.concatenate([pairs.columns for pairs in found])
    dots = np.concatenate([pairs.cosines for pairs in found])
    order = np.lexsort((columns, rows))
    return Pairs(rows[order], columns[order], dots[order], complete)


HEAD = 3  # the first third of a vector is compared first


def tail_lengths(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give the length of each row without its first third, shape (n,)."""
    tail = matrix[:, matrix.shape[1] // HEAD :]
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", tail, tail))
    return lengths


def pairs_of_few(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    tails: NDArray[np.float32],
    threshold: float,
) -> Pairs:
    """Find what `pairs_above` finds, for a few rows against many whose tails were measured.

    a.b = head + tail, and |tail| is at most the product of the tails' lengths (Cauchy-Schwarz): so
    a third of each row is read, and all of it only where that leaves the threshold in reach.

    Args:
        left: (m, d), unit rows, few.
        right: (n, d), unit rows.
        tails: (n,), the `tail_lengths` of `right`.
        threshold: A cosine.
    """
    head = left.shape[1] // HEAD
    reach = right[:, :head] @ left[:, :head].T
    reach += tails[:, np.newaxis] * tail_lengths(left)
    near = np.flatnonzero(reach.max(axis=1, initial=-1.0) >= threshold - _SLACK)
    found = pairs_above(left, right[near], threshold)
    return found._replace(columns=near[found.columns])


_NO_PAIRS = Pairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


def _proposals(
    left: NDArray[np.float32],
    others: NDArray[np.float32],
    threshold: float,
    block: int,
    *,
    within: bool,
) -> Iterator[tuple[Positions, Positions]]:
    """Give, in bounded chunks, every pair that may reach the threshold, and few that do not."""
    d = left.shape[1]
    floor = threshold - max(_SLACK, 2 * d * _UNIT_ROUNDOFF)
    chunk = max(1, _PAIR_ENTRIES // max(1, d))
    for top in range(0, len(left), block):
        rows = left[top : top + block]
        for side in range(top if within else 0, len(others), block):
            products = others[side : side + block] @ rows.T  # the faster way round for few rows
            flat = np.flatnonzero(products >= floor)
            for start in range(0, len(flat), chunk):
                j, i = np.unravel_index(flat[start : start + chunk], products.shape)
                i, j = i + top, j + side
                if within and top == side:
                    i, j = i[i < j], j[i < j]
                yield i, j


def _dots(left: NDArray[np.float32], right: NDArray[np.float32]) -> Floats:
    """Give the float64 dot product of each pair of rows, the same in any batch."""
    products: Floats = np.einsum("ij,ij->i", left.astype(np.float64), right.astype(np.float64))
    return products

"""Keys: items <-> slots, counted by use and kept in canonical order."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Any)  # hashable, and ordered among its like

_FEW = 64  # items that are put in order one by one
_RUN = 10_000  # items that are sorted at once


def _sorted_by_runs(items: list[K]) -> list[K]:
    """Sort without holding the interpreter for long: other threads go on between runs."""
    if len(items) <= _RUN:
        return sorted(items)
    runs = [sorted(items[start : start + _RUN]) for start in range(0, len(items), _RUN)]
    return list(merge(*runs))


class Keys(Generic[K]):
    """Items that other things use, each at a slot that it keeps while anything does.

    A slot that `sweep` freed is given to a later item.

    >>> keys = Keys[str]()
    >>> keys.take("b"), keys.take("a"), keys.take("b")
    (0, 1, 0)
    >>> keys.order().tolist()
    [1, 0]
    >>> keys.release(1)
    >>> keys.sweep(), "a" in keys
    ([1], False)
    """

    def __init__(
        self, items: Iterable[K] = (), uses: Iterable[int] = (), *, in_order: bool = False
    ) -> None:
        """Begin with distinct items at slots 0, 1, ..., each used so often; sorted, `in_order`."""
        self.items: list[K] = list(items)
        """By slot; None at a freed one."""
        self._slot_of: dict[K, int] = {item: slot for slot, item in enumerate(self.items)}
        self._uses: list[int] = list(uses)
        self._free: list[int] = []
        self._unused: set[int] = set()
        self._sorted = list(self.items) if in_order else None  # None until `order` is asked for
        self._order = array("q", range(len(self.items)) if in_order else ())
        self._coming: dict[K, int] = {}  # not in order yet
        self._going: set[K] = set()  # in order still

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, item: object) -> bool:
        return item in self._slot_of

    def __iter__(self) -> Iterator[K]:
        return iter(self._slot_of)

    @property
    def capacity(self) -> int:
        """One more than the highest slot."""
        return len(self.items)

    def get(self, item: K) -> int | None:
        """Give an item's slot."""
        return self._slot_of.get(item)

    def uses(self, item: K) -> int:
        """Count an item's uses."""
        slot = self._slot_of.get(item)
        return 0 if slot is None else self._uses[slot]

    def take(self, item: K) -> int:
        """Count one use more, and give the item's slot."""
        slot = self._slot_of.get(item)
        if slot is None:
            slot = self._new(item)
        elif self._uses[slot] == 0:
            self._unused.discard(slot)
        self._uses[slot] += 1
        return slot

    def release(self, slot: int) -> None:
        """Count one use less."""
        self._uses[slot] -= 1
        if self._uses[slot] == 0:
            self._unused.add(slot)

    def sweep(self) -> list[int]:
        """Free the slots of items that nothing uses; give those slots."""
        freed = sorted(self._unused)
        self._unused.clear()
        for slot in freed:
            item: Any = self.items[slot]
            self.items[slot] = cast(K, None)
            del self._slot_of[item]
            if self._sorted is not None and self._coming.pop(item, None) is None:
                self._going.add(item)
        self._free += freed
        return freed

    def order(self) -> NDArray[np.int64]:
        """Give the slots of all items, sorted by item, shape (n,)."""
        if self._sorted is None:
            self._sorted = _sorted_by_runs(list(self._slot_of))
            self._order = self._slots_of(self._sorted)
        elif len(self._going) + len(self._coming) <= _FEW:
            for item in self._going:
                place = bisect_left(self._sorted, item)
                del self._sorted[place], self._order[place]
            for item, slot in self._coming.items():
                place = bisect_left(self._sorted, item)
                self._sorted.insert(place, item)
                self._order.insert(place, slot)
        else:
            stay = [item for item in self._sorted if item not in self._going]
            self._sorted = list(merge(stay, _sorted_by_runs(list(self._coming))))
            self._order = self._slots_of(self._sorted)
        self._going.clear()
        self._coming.clear()
        return np.array(self._order, dtype=np.int64)

    def _slots_of(self, items: Iterable[K]) -> array[int]:
        return array("q", map(self._slot_of.__getitem__, items))

    def _new(self, item: K) -> int:
        if self._free:
            slot = self._free.pop()
            self.items[slot] = item
        else:
            slot = len(self.items)
            self.items.append(item)
            self._uses.append(0)
        self._slot_of[item] = slot
        if self._sorted is not None:
            self._coming[item] = slot
        return slot

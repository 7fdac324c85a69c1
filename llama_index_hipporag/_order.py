"""The order of keys in metadata, which a store does not keep.

LlamaIndex hashes and writes metadata in their order: a node whose keys came back in another one
would be another node to what fuses the results of several retrievers.
"""

from __future__ import annotations

from typing import Any

_DEPTH = 20  # what is deeper comes back sorted, and what holds itself is for the memory to refuse


def order_of(value: Any, depth: int = _DEPTH) -> Any:
    """Give the order of keys in dicts, and dicts in these and in lists; None for the sorted one.

    What is no JSON has none.

    >>> order_of({"b": 1, "a": {"y": 1, "x": 2}})
    [['b', None], ['a', [['y', None], ['x', None]]]]
    >>> order_of({"a": 1, "b": [2]})
    """
    if depth == 0:
        return None
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        pairs = [[key, order_of(item, depth - 1)] for key, item in value.items()]
        is_sorted = list(value) == sorted(value)
        return None if is_sorted and all(inner is None for _, inner in pairs) else pairs
    if isinstance(value, list):
        inner = [order_of(item, depth - 1) for item in value]
        return inner if any(order is not None for order in inner) else None
    return None


def in_order(value: Any, order: Any) -> Any:
    """Give what `order_of` saw in its order again; what it did not see comes last, as it is.

    >>> in_order({"a": {"x": 2, "y": 1}, "b": 1}, [["b", None], ["a", [["y", None], ["x", None]]]])
    {'b': 1, 'a': {'y': 1, 'x': 2}}
    """
    if order is None:
        return value
    if isinstance(value, dict):
        seen = {key: in_order(value[key], inner) for key, inner in order if key in value}
        return seen | {key: item for key, item in value.items() if key not in seen}
    if isinstance(value, list) and len(value) == len(order):
        return [in_order(item, inner) for item, inner in zip(value, order, strict=True)]
    return value

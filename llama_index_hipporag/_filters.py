"""MetadataFilters to the core's `where`, operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from hippo_core import InputError, Where, checked_where

_COMPARED_BY = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}


def to_where(filters: MetadataFilters | None) -> Where | None:
    """Give the filter of the core that allows the same; None stays None.

    `docs/filters.md` has the table.

    Raises:
        InputError: An operator has no counterpart, or its value does not fit it.
        TypeError: It is no MetadataFilters.

    >>> from llama_index.core.vector_stores import MetadataFilter
    >>> since = MetadataFilter(key="year", operator=FilterOperator.GTE, value=2020)
    >>> to_where(MetadataFilters(filters=[since]))
    {'year': {'$gte': 2020}}
    """
    if filters is None:
        return None
    if not isinstance(filters, MetadataFilters):
        raise TypeError(
            f"filters must be MetadataFilters, got {type(filters).__name__}; a dict or a function "
            "goes to the memory itself: index.hippo.retrieve(query, where=...)"
        )
    where = _group(filters)
    checked_where(where)  # now, and not at the first query
    return where


def _group(filters: MetadataFilters) -> dict[str, Any]:
    parts = [
        _group(part) if isinstance(part, MetadataFilters) else _single(part)
        for part in filters.filters
    ]
    if not parts:  # as LlamaIndex has it, whatever the condition
        return {}
    match filters.condition or FilterCondition.AND:
        case FilterCondition.AND:
            return parts[0] if len(parts) == 1 else {"$and": parts}
        case FilterCondition.OR:
            return parts[0] if len(parts) == 1 else {"$or": parts}
        case FilterCondition.NOT:  # none of them holds
            return {"$not": {"$or": parts}}
        case other:
            raise InputError(f"filters have the unknown condition {other!r}")


def _single(part: MetadataFilter) -> dict[str, Any]:
    if part.operator in _COMPARED_BY:
        return {part.key: {_COMPARED_BY[part.operator]: part.value}}
    if part.operator in _OTHERS:
        return _OTHERS[part.operator](part)
    known = ", ".join(operator.value for operator in (*_COMPARED_BY, *_OTHERS))
    raise InputError(
        f"the filter of {part.key!r} has the operator {part.operator.value!r}, which the memory "
        f"does not have; it has {known}; a function can do it: "
        "index.hippo.retrieve(query, where=lambda metadata: ...)"
    )


def _each_contained(part: MetadataFilter, joined: str) -> dict[str, Any]:
    if not isinstance(part.value, list) or not part.value:
        raise InputError(
            f"the filter of {part.key!r} by {part.operator.value!r} needs a list of at least one "
            f"value, got {part.value!r}"
        )
    return {joined: [{part.key: {"$contains": value}} for value in part.value]}


def _text_contained(part: MetadataFilter) -> dict[str, Any]:
    if not isinstance(part.value, str):
        raise InputError(
            f"the filter of {part.key!r} by {part.operator.value!r} needs a str, got {part.value!r}"
        )
    return {part.key: {"$contains": part.value}}


def _empty(part: MetadataFilter) -> dict[str, Any]:
    return {"$or": [{part.key: {"$exists": False}}, {part.key: {"$in": [None, "", []]}}]}


_OTHERS: dict[FilterOperator, Callable[[MetadataFilter], dict[str, Any]]] = {
    FilterOperator.ANY: lambda part: _each_contained(part, "$or"),
    FilterOperator.ALL: lambda part: _each_contained(part, "$and"),
    FilterOperator.TEXT_MATCH: _text_contained,
    FilterOperator.IS_EMPTY: _empty,
}

"""Metadata filters: which passages `where=` allows."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from hippo_core.errors import InputError
from hippo_core.text import canonical_json

Predicate = Callable[[dict[str, Any]], bool]
Where = Mapping[str, Any] | Predicate

MAX_NESTING = 32  # filters within filters

# True, False, or None for unknown: of a passage's metadata, or of one value in it.
_Test = Callable[[Any], bool | None]


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A filter that was checked; a later change of the dict it was made of does not reach it.

    Attributes:
        key: Canonical JSON: filters with one key allow the same passages. None for a callable,
            whose answers must not be cached.
    """

    key: str | None
    _test: _Test = field(repr=False)

    def allows(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a passage with this metadata is part of the smaller corpus."""
        return self._test(metadata) is True


def checked_where(where: Where | None) -> Filter | None:
    """Check a filter, before anything is evaluated; None stays None.

    A dict maps metadata keys to a value, which means equality, or to operators, all of which must
    hold. Several keys must all hold; `{}` allows everything. A key is taken literally: "a.b" is
    the key "a.b", no path.

    - `$eq`, `$ne`: JSON equality, deep. 1 equals 1.0, true is no number, and null is a value like
      any other. Values of different types are unequal.
    - `$gt`, `$gte`, `$lt`, `$lte`: numbers by value, texts by code point (so ISO dates by date).
      Of any other pair of types the answer is unknown.
    - `$in`, `$nin`: equal to one, or to none, of a list.
    - `$contains`: a list holds the element, or a text the part. Of any other type: unknown.
    - `$exists`: true or false; a stored null exists.
    - `{"$and": [...]}`, `{"$or": [...]}`, `{"$not": {...}}` join filters, in Kleene's logic: what
      a passage lacks is unknown, `$not` of unknown is unknown, and unknown is not allowed.

    A dict without operators is a value too, `{}` included. `{"$eq": ...}` takes any value as it
    stands, with keys that look like operators.

    A callable gets a copy of the metadata and returns a bool. What it raises passes through.

    Raises:
        InputError: It is no filter; the message names the place and the way out. From `allows`:
            the callable returned no bool.

    >>> recent = checked_where({"year": {"$gte": 2020}})
    >>> [recent.allows(metadata) for metadata in ({"year": 2024}, {"year": 1999}, {})]
    [True, False, False]
    >>> checked_where({"year": {"$gtr": 2020}})
    Traceback (most recent call last):
        ...
    hippo_core.errors.InputError: where['year'] has the unknown operator '$gtr', perhaps for \
'$gt'; a key takes $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $exists; \
$and, $or and $not go around it, as in {'$not': {'year': ...}}
    """
    if where is None:
        return None
    if isinstance(where, Mapping):
        key = canonical_json(dict(where), name="where")
        # Of what the key says, not of the caller's dict, which another thread may be changing.
        return Filter(key, _filter(json.loads(key), "where", MAX_NESTING))
    if callable(where):
        return Filter(None, _called(where))
    raise InputError(
        "where must be a dict such as {'year': {'$gte': 2020}}, or a callable that takes a "
        f"passage's metadata and returns a bool, got {type(where).__name__}"
    )


def _called(predicate: Predicate) -> _Test:
    def test(metadata: Mapping[str, Any]) -> bool:
        answer: object = predicate(deepcopy(dict(metadata)))
        if not isinstance(answer, bool):
            raise InputError(
                f"where must return a bool, got {type(answer).__name__}; wrap it in bool(...)"
            )
        return answer

    return test


# -- the grammar -----------------------------------------------------------------------------------


def _filter(where: object, path: str, depth: int) -> _Test:
    if not isinstance(where, dict):
        raise InputError(
            f"{path} must be a filter, a dict such as {{'year': 2024}}, got {type(where).__name__}"
        )
    if depth == 0:
        raise InputError(
            f"{path[:80]}... nests filters more than {MAX_NESTING} deep; pass a callable instead"
        )
    return _joined(
        [
            _connective(name, operand, path, depth)
            if name.startswith("$")
            else _condition(name, operand, f"{path}[{name!r}]")
            for name, operand in where.items()
        ],
        decisive=False,
    )


def _connective(name: str, operand: object, path: str, depth: int) -> _Test:
    inner = f"{path}[{name!r}]"
    if name == "$not":
        return _not(_filter(operand, inner, depth - 1))
    if name not in _CONNECTIVES:
        raise InputError(
            f"{_unknown(name, path, _CONNECTIVES)}; a filter takes metadata keys, "
            f"{', '.join(_CONNECTIVES)}; what compares goes inside a key, as in "
            "{'year': {'$gte': 2020}}; a metadata key that begins with '$' cannot be named: "
            "pass a callable"
        )
    if not isinstance(operand, list) or not operand:
        got = "an empty one" if operand == [] else type(operand).__name__
        raise InputError(f"{inner} must be a list of at least one filter, got {got}")
    parts = [_filter(part, f"{inner}[{i}]", depth - 1) for i, part in enumerate(operand)]
    return _joined(parts, decisive=name == "$or")


def _condition(key: str, operand: object, path: str) -> _Test:
    names = list(operand) if isinstance(operand, dict) else []
    plain = [name for name in names if not name.startswith("$")]
    if names and all(f"${name}" in _OPERATORS for name in names):
        raise InputError(
            f"{path} has operators without their '$'; write {f'${names[0]}'!r}, or to compare with "
            "this dict as it stands {'$eq': {...}}"
        )
    if not isinstance(operand, dict) or plain == names:
        _refuse_operators(operand, path, path)
        return _stored(key, _equal(operand, path))
    for name in names:
        if name.startswith("$") and name not in _OPERATORS:
            raise InputError(
                f"{_unknown(name, path, _OPERATORS)}; a key takes {', '.join(_OPERATORS)}; "
                f"$and, $or and $not go around it, as in {{'$not': {{{key!r}: ...}}}}"
            )
    if plain:
        raise InputError(
            f"{path} mixes operators with the plain key {plain[0]!r}; to compare with this dict "
            "as it stands, write {'$eq': {...}}"
        )
    return _joined(
        [_operation(key, name, item, f"{path}[{name!r}]") for name, item in operand.items()],
        decisive=False,
    )


def _operation(key: str, name: str, operand: object, path: str) -> _Test:
    if name == "$exists":
        return _exists(key, operand, path)
    return _stored(key, _COMPARISONS[name](operand, path))


def _refuse_operators(value: object, path: str, start: str) -> None:
    """Refuse `{"a": {"b": {"$gt": 3}}}`: it reads as a path, and would equal nothing stored."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name.startswith("$"):
                raise InputError(
                    f"{path} has the operator {name!r} inside a value, where none can reach; to "
                    f"compare {start} with the value as it stands, write {{'$eq': ...}}; to look "
                    "inside it, pass a callable"
                )
            _refuse_operators(item, f"{path}[{name!r}]", start)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _refuse_operators(item, f"{path}[{i}]", start)


def _unknown(name: str, path: str, known: Collection[str]) -> str:
    near = get_close_matches(name[:20].lower(), known, n=1)
    perhaps = f", perhaps for {near[0]!r}" if near else ""
    return f"{path} has the unknown operator {name!r:.40}{perhaps}"


# -- Kleene's logic --------------------------------------------------------------------------------


def _joined(tests: list[_Test], *, decisive: bool) -> _Test:
    """Join tests: one False decides a conjunction, one True a disjunction, whatever is unknown."""
    if len(tests) == 1:
        return tests[0]

    def test(metadata: Any) -> bool | None:
        unknown = False
        for part in tests:
            answer = part(metadata)
            if answer is decisive:
                return decisive
            unknown = unknown or answer is None
        return None if unknown else not decisive

    return test


def _not(test: _Test) -> _Test:
    def negated(subject: Any) -> bool | None:
        answer = test(subject)
        return None if answer is None else not answer

    return negated


# -- what a key holds ------------------------------------------------------------------------------

_MISSING = object()


def _stored(key: str, test: _Test) -> _Test:
    def of_key(metadata: Mapping[str, Any]) -> bool | None:
        value = metadata.get(key, _MISSING)
        return None if value is _MISSING else test(value)

    return of_key


def _exists(key: str, operand: object, path: str) -> _Test:
    if not isinstance(operand, bool):
        raise InputError(f"{path} must be True or False, got {operand!r:.40}")
    return lambda metadata: (key in metadata) is operand


def _equal(operand: object, path: str) -> _Test:
    wanted = _identity(operand)
    return lambda value: _identity(value) == wanted


def _among(operand: object, path: str) -> _Test:
    if not isinstance(operand, list):
        raise InputError(f"{path} must be a list, got {type(operand).__name__}; put it in one")
    wanted = frozenset(map(_identity, operand))
    return lambda value: _identity(value) in wanted


def _contains(operand: object, path: str) -> _Test:
    wanted = _identity(operand)

    def test(value: Any) -> bool | None:
        if type(value) is list:
            return any(_identity(item) == wanted for item in value)
        if type(value) is str and isinstance(operand, str):
            return operand in value
        return None

    return test


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[object, str], _Test]:
    def against(operand: object, path: str) -> _Test:
        if type(operand) not in (int, float, str):
            raise InputError(
                f"{path} must be a number or a str, got {type(operand).__name__}; "
                "for no limit, leave the operator out"
            )
        kinds = (str,) if isinstance(operand, str) else (int, float)
        return lambda value: compare(value, operand) if type(value) in kinds else None

    return against


def _identity(value: Any) -> Any:
    """Give a hashable that equals another's exactly if the two JSON values are equal."""
    kind = type(value)
    if kind is bool:
        return bool, value  # since Python holds that True == 1
    if kind is list:
        return list, tuple(map(_identity, value))
    if kind is dict:
        return dict, frozenset((key, _identity(item)) for key, item in value.items())
    return value


_CONNECTIVES = ("$and", "$or", "$not")
_COMPARISONS: dict[str, Callable[[object, str], _Test]] = {
    "$eq": _equal,
    "$ne": lambda operand, path: _not(_equal(operand, path)),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": _among,
    "$nin": lambda operand, path: _not(_among(operand, path)),
    "$contains": _contains,
}
_OPERATORS = (*_COMPARISONS, "$exists")

"""The JSON values in a model's reply: found, decoded and, where need be, repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, SupportsIndex

CUT = "\x00cut"
"""Stands in a value where the reply ended too early: whatever holds it is not whole."""

_MAX_DEPTH = 50
_MAX_VALUES = 1_000  # JSON values that are looked at in one reply
# json-repair is quadratic on some texts, and worse on a few.
_MAX_REPAIR = 50_000  # characters of one value
_LOOKS = 500_000  # at characters of one reply; two to five at each are common

_OPENING = re.compile(r"[\[{]")
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]', re.DOTALL)
# A quotation mark, a key or another bracket comes first, not [a note] as in prose.
_LIKE_JSON = re.compile(r"""[\[{,]\s*+["'“\[{]|\{[\w\s]++:""")
_CLOSER = {"[": "]", "{": "}"}


class Number(str):
    """A number in its own spelling, so that no digit is lost and none is too many."""

    __slots__ = ()


class Found(NamedTuple):
    """One JSON value of a reply."""

    value: object
    repaired: bool


class TooMuchError(ValueError):
    """More brackets than in any reply of use."""


def json_values(reply: str, *, truncated: bool = False) -> Iterator[Found]:
    """Give the arrays and objects of a reply: first what is JSON, then what can be repaired.

    The text around them, such as a Markdown fence, does not matter. A value that the end of the
    reply cuts is closed, with `CUT` in place of what is not whole.

    Args:
        reply: Any text.
        truncated: Whether the token limit cut the reply, so that its last word may be half a word.

    Raises:
        TooMuchError: Brackets nested over 50 deep, or over 1,000 values.
    """
    broken: list[str] = []
    for number, text in enumerate(_spans(reply, truncated), 1):
        if number > _MAX_VALUES:
            raise TooMuchError(f"over {_MAX_VALUES:,} JSON values")
        try:
            yield Found(decode(text), repaired=False)
        except ValueError:
            broken.append(text)
    meter = _Meter(_LOOKS)
    for text in filter(_LIKE_JSON.search, broken):
        try:
            yield Found(_repair(text, meter), repaired=True)
        except ValueError:
            continue


def decode(text: str) -> object:
    """Decode JSON; numbers keep their spelling, raw line breaks in strings are allowed.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _spans(reply: str, truncated: bool) -> Iterator[str]:
    """Give the text of each outermost array and object; one without an end is closed."""
    opening = _OPENING.search(reply)
    while opening:
        text, end = _span(reply, opening.start(), truncated)
        yield text
        opening = _OPENING.search(reply, end)


def _span(reply: str, start: int, truncated: bool) -> tuple[str, int]:
    closers: list[str] = []
    last = start
    for token in _TOKEN.finditer(reply, start):
        mark = reply[token.start()]
        if mark in _CLOSER:
            closers.append(_CLOSER[mark])
            if len(closers) > _MAX_DEPTH:
                raise TooMuchError(f"brackets nested over {_MAX_DEPTH} deep")
        elif mark in closers:
            while closers.pop() != mark:  # closers that the model forgot
                pass
            if not closers:
                return reply[start : token.end()], token.end()
        elif mark not in ",:":
            continue  # a string, or a closer too many
        last = token.start()
    text = reply[start:].rstrip("`~ \t\r\n")
    if text[-1] in "]}" and start + len(text) > last + 1 and not truncated:
        return text, len(reply)  # not cut: a quotation mark too many has swallowed the end
    ending = _ending(reply[last], reply[last + 1 :], closers[-1], truncated)
    return reply[start:last] + ending + "".join(reversed(closers)), len(reply)


def _ending(mark: str, rest: str, closer: str, truncated: bool) -> str:
    """Give the last mark before the end, and after it what may stand, or `CUT`."""
    if mark in "]}":
        if not truncated:
            return mark
        mark += ","
    if closer == "}" and mark != ":":
        return f'{mark}{json.dumps(CUT)}:""'
    if not truncated and _is_json(rest):
        return mark + rest
    return mark + json.dumps(CUT)


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Join the lists of a repeated key, which JSON would let the last one win."""
    value: dict[str, object] = {}
    for key, item in pairs:
        known = value.setdefault(key, item)
        if known is not item and isinstance(known, list) and isinstance(item, list):
            known.extend(item)
    return value


def _no_number(name: str) -> None:
    """Read NaN and Infinity as null."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_no_number,
    strict=False,
)


def _repair(text: str, meter: _Meter) -> object:
    if len(text) > _MAX_REPAIR:
        raise ValueError("too long to repair")
    import json_repair

    metered = _Metered.of(text, meter)
    try:
        return json_repair.repair_json(metered, return_objects=True, skip_json_loads=True)
    except _REPAIR_ERRORS as error:
        raise ValueError("cannot be repaired") from error


_REPAIR_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
)


class _Meter:
    """Counts down."""

    def __init__(self, budget: int) -> None:
        self._left = budget

    def spend(self, looks: int) -> None:
        self._left -= looks
        if self._left < 0:
            raise _WorkError


class _WorkError(RuntimeError):
    """Repairing takes too long."""


class _Metered(str):
    """A text that can be looked at only so often."""

    meter: _Meter

    @classmethod
    def of(cls, text: str, meter: _Meter) -> _Metered:
        metered = cls(text)
        metered.meter = meter
        return metered

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        piece = super().__getitem__(key)
        self.meter.spend(len(piece))
        return _Metered.of(piece, self.meter) if isinstance(key, slice) else piece

    def __add__(self, other: str) -> str:
        return _Metered.of(super().__add__(other), self.meter)

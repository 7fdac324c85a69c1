"""The list in a model's reply that is meant, and what of it can be used."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from hippo_core._json_scan import CUT, Found, Number, TooMuchError, decode, json_values
from hippo_core.errors import ParseError

T = TypeVar("T")

LIMIT = 200
"""Entities, and triples, that one reply may give; the rest is dropped and counted."""
OVER_THE_LIMIT = "over the limit"
CUT_OFF = "cut off"
"""Of an item that the end of the reply cut."""

PLACEHOLDERS = frozenset(
    ("none", "n/a", "null", "unknown", "not applicable", "not specified", "no relation")
)
ECHO = "echo of the shape"
"""Of an item: it repeats how a reply should look, and says nothing of the passage."""
_ELLIPSES = frozenset(("...", "…"))
_HARMLESS = frozenset(("blank", "placeholder"))  # says "nothing", and says it well

_THINKING = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_PAIRS = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")  # json-repair does not join them
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")


class Parsed(NamedTuple, Generic[T]):
    """What a reply says."""

    value: T
    dropped: dict[str, int]
    """Items that could not be used, by kind; see `CUT_OFF` and `ECHO`."""
    repaired: bool
    """Whether it was JSON only after a repair."""


class Harvest(Generic[T]):
    """What of a list can be used, in order and once, and how many items cannot, by kind."""

    def __init__(self) -> None:
        self.items: dict[T, None] = {}
        self.dropped: Counter[str] = Counter()

    def add(self, item: T) -> None:
        if item in self.items:
            self.dropped["repeated"] += 1
        elif self.full:
            self.dropped[OVER_THE_LIMIT] += 1
        else:
            self.items[item] = None

    def drop(self, kind: str, times: int = 1) -> None:
        self.dropped[kind] += times

    @property
    def full(self) -> bool:
        return len(self.items) >= LIMIT

    @property
    def usable(self) -> bool:
        return bool(self.items) or self.dropped.keys() <= _HARMLESS


class Shape(NamedTuple, Generic[T]):
    """What is looked for in a reply."""

    keys: Sequence[str]
    noun: str
    bare: Callable[[list[object]], Iterator[Sequence[object]]]
    """Gives the lists that may be meant where no key says so, the likeliest first."""
    read: Callable[[object, Harvest[T]], None]


def parse_list(reply: str, shape: Shape[T], truncated: bool) -> Parsed[tuple[T, ...]]:
    text = without_thinking(reply)
    if not text.strip():
        raise ParseError("it is empty", reply)
    seen: list[Found] = []
    failed: Harvest[T] | None = None
    try:
        for found in json_values(text, truncated=truncated):
            keyed = _under_key(found.value, shape.keys)
            if keyed is not None:
                return _parsed(_harvest(keyed, shape), found.repaired, shape, reply)
            seen.append(found)
    except TooMuchError as error:
        raise ParseError(f"it has {error}", reply) from error
    for repaired in (False, True):
        # What is JSON as it stands goes first: a repair makes a value of much that is none.
        for items in shape.bare([f.value for f in seen if repaired or not f.repaired]):
            harvest = _harvest(items, shape)
            if harvest.usable:
                return _parsed(harvest, repaired, shape, reply)
            failed = failed or harvest
    if failed is not None:
        return _parsed(failed, False, shape, reply)
    raise ParseError(f"it holds no JSON list of {shape.noun}", reply)


def _harvest(items: Sequence[object], shape: Shape[T]) -> Harvest[T]:
    harvest: Harvest[T] = Harvest()
    for item in items:
        shape.read(item, harvest)
    return harvest


def _parsed(
    harvest: Harvest[T], repaired: bool, shape: Shape[T], reply: str
) -> Parsed[tuple[T, ...]]:
    if not harvest.usable:
        kinds = ", ".join(f"{kind}: {times}" for kind, times in harvest.dropped.items())
        raise ParseError(f"none of its {shape.noun} can be used ({kinds})", reply)
    return Parsed(tuple(harvest.items), dict(harvest.dropped), repaired)


def without_thinking(reply: str) -> str:
    """Take out what the model thought aloud; some replies have the closing tag only."""
    if _is_json(reply):
        return reply  # so a tag in it is data
    kept: list[str] = []
    position, inside = 0, False
    for tag in _THINKING.finditer(reply):
        if not tag[1]:
            if not inside:
                kept.append(reply[position : tag.start()])
            inside = True
        else:
            if not inside:
                kept.clear()
            position, inside = tag.end(), False
    if inside:
        raise ParseError("it ends inside its thinking", reply)
    return "".join([*kept, reply[position:]])


def _is_json(text: str) -> bool:
    try:
        decode(text.strip())
    except ValueError:
        return False
    return True


def _under_key(value: object, keys: Sequence[str], wrappers: int = 2) -> list[object] | None:
    """Give the items under the first of the keys, in wrappers that hold nothing else."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    found = field(value, keys)
    if found is not None:
        return _listed(found[0])
    inner = [part for key, part in value.items() if key != CUT]
    return _under_key(inner[0], keys, wrappers - 1) if len(inner) == 1 and wrappers else None


def _listed(value: object) -> list[object] | None:
    """Give the items under a key; an object is one item, or lists by type: people, places."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        groups = list(value.values())
        return groups if groups and all(isinstance(g, list) for g in groups) else [value]
    return [] if emptiness(value) in _HARMLESS else None


def field(record: dict[str, object], names: Sequence[str]) -> tuple[object] | None:
    plain = {re.sub(r"[\W_]", "", str(key)).casefold(): value for key, value in record.items()}
    return next(((plain[name],) for name in names if name in plain), None)


def emptiness(item: object) -> str | None:
    """Say in which way an item says nothing, if it does."""
    if item == CUT:
        return CUT_OFF
    text = "" if item is None else text_of(item)
    if text == "":
        return "blank"
    if text is not None and text.casefold() in PLACEHOLDERS:
        return "placeholder"
    return ECHO if text in _ELLIPSES else None


def bare_lists(values: list[object]) -> Iterator[list[object]]:
    return (value for value in values if isinstance(value, list))


def holds_cut(value: object) -> bool:
    if isinstance(value, dict):
        return CUT in value or any(holds_cut(part) for part in value.values())
    if isinstance(value, list):
        return any(holds_cut(part) for part in value)
    return value == CUT


def is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def text_of(value: object) -> str | None:
    """Give a string or a number as clean text; None for anything else."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    return None


def _clean(text: str) -> str:
    """Take out control characters and lone surrogates; make white space single spaces."""
    text = _PAIRS.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return " ".join(_CONTROLS.sub("", text).split())

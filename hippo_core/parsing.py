"""Model text to values, or ParseError: text is decoded as JSON and never evaluated."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Generic, NamedTuple, TypeVar

from hippo_core._json_scan import CUT, Found, Number, TooMuchError, decode, json_values
from hippo_core.errors import ParseError
from hippo_core.types import Triple

T = TypeVar("T")

LIMIT = 200
"""Entities, and triples, that one reply may give; the rest is dropped and counted."""
OVER_THE_LIMIT = "over the limit"

_ENTITY_KEYS = ("namedentities", "namedentity", "entities", "entity")
_TRIPLE_KEYS = ("triples", "triple", "facts", "fact", "relations", "relationships")
_CHOICE_KEYS = ("keep", "kept", "selected", "numbers", "facts", "fact")

_NAME = ("name", "entity", "text")
_SUBJECT = ("subject", "head", "source", "start", "from")
_RELATION = ("relation", "predicate", "relationship", "type", "label")
_OBJECT = ("object", "tail", "target", "end", "to")
_NUMBER = ("number", "index", "id")

_PLACEHOLDERS = frozenset(
    ("none", "n/a", "null", "unknown", "not applicable", "not specified", "no relation", "...", "…")
)
_NO_RELATION = _PLACEHOLDERS | {"has no relation to", "no relation to", "no relationship"}
_ECHOES = frozenset((("subject", "relation", "object"), ("subject", "predicate", "object")))

_FIELDS = {0: "0 fields", 1: "1 field"} | {n: f"{n} fields" for n in range(2, 10)}
_HARMLESS = frozenset(("blank", "placeholder"))  # says "nothing", and says it well

_THINKING = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_ANSWER = re.compile(r"\banswer\s*+(?:\*\*)?\s*+[:：]\s*+(?:\*\*)?", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")
# 3, "3", "#3", "(3)", "3.", "3. Ada wrote Notes"; 3.0 too
_CHOSEN = re.compile(r"[#(\[]?(-?\d{1,9})(?:\.0+|[.):\]](?:\s.*)?)?", re.DOTALL)


class Parsed(NamedTuple, Generic[T]):
    """What a reply says."""

    value: T
    dropped: dict[str, int]
    """Items that could not be used, by kind; "cut off" is an item that the end of the reply cut."""
    repaired: bool
    """Whether it was JSON only after a repair."""


def parse_entities(reply: str, *, truncated: bool = False) -> Parsed[tuple[str, ...]]:
    r"""Read the named entities of a reply, each once, in its order.

    >>> parse_entities('```json\n{"named_entities": ["Ada", {"name": "Notes"}, null]}').value
    ('Ada', 'Notes')

    Args:
        reply: What the model said.
        truncated: Whether the token limit cut it.

    Raises:
        ParseError: There is no list of entities, or it has items and none can be used.
    """
    return _parse(reply, _Shape(_ENTITY_KEYS, "entities", _bare_entities, _read_entity), truncated)


def parse_triples(reply: str, *, truncated: bool = False) -> Parsed[tuple[Triple, ...]]:
    """Read the triples of a reply, each once, in its order.

    A triple is a list of three, or an object with subject, relation and object under one of their
    usual names. A list as subject or object stands for one triple each. Fields are never shifted:
    an item with two or four of them is dropped.

    >>> reply = '{"triples": [["Ada", "visited", ["Paris", "Rome"]], ["Ada", "wrote"]]}'
    >>> parsed = parse_triples(reply)
    >>> [triple.object for triple in parsed.value], parsed.dropped
    (['Paris', 'Rome'], {'2 fields': 1})

    Args:
        reply: What the model said.
        truncated: Whether the token limit cut it; only what is whole is kept.

    Raises:
        ParseError: There is no list of triples, or it has items and none can be used, unless all
            say that there is nothing, such as `["none", "none", "none"]`.
    """
    return _parse(reply, _Shape(_TRIPLE_KEYS, "triples", _bare_triples, _read_triple), truncated)


def parse_choice(
    reply: str, candidates: int, *, truncated: bool = False
) -> Parsed[tuple[int, ...]]:
    """Read which of the candidates, numbered from 1, a reply chose; give their positions from 0.

    An empty list, null and "none" are a choice of nothing.

    >>> parse_choice('{"keep": [3, 1, 9]}', candidates=3)
    Parsed(value=(2, 0), dropped={'unknown number': 1}, repaired=False)

    Args:
        reply: What the model said.
        candidates: How many were offered.
        truncated: Whether the token limit cut it.

    Raises:
        ParseError: There is no list of numbers, or it has only such as were not offered.
    """
    if _without_thinking(reply).strip(" \r\n\"'`.").casefold() in ("none", "null"):
        return Parsed((), {}, repaired=False)

    def read(item: object, harvest: _Harvest[int]) -> None:
        for number in item if isinstance(item, list) else [item]:
            _read_number(number, candidates, harvest)

    return _parse(reply, _Shape(_CHOICE_KEYS, "numbers", _bare_lists, read), truncated)


def parse_answer(reply: str) -> str:
    r"""Read the answer: what follows the last "Answer:", or else the whole reply.

    >>> parse_answer("Vasa sank in 1628.\n**Answer:** 1628")
    '1628'

    Raises:
        ParseError: There is no answer.
    """
    text = _without_thinking(reply)
    labels = list(_ANSWER.finditer(text))
    answer = (text[labels[-1].end() :] if labels else text).strip().removesuffix("**").rstrip()
    if not answer:
        raise ParseError("it holds no answer", reply)
    return answer


class _Harvest(Generic[T]):
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


class _Shape(NamedTuple, Generic[T]):
    """What is looked for in a reply."""

    keys: Sequence[str]
    noun: str
    bare: Callable[[list[object]], Iterator[Sequence[object]]]
    """Gives the lists that may be meant where no key says so, the likeliest first."""
    read: Callable[[object, _Harvest[T]], None]


def _parse(reply: str, shape: _Shape[T], truncated: bool) -> Parsed[tuple[T, ...]]:
    text = _without_thinking(reply)
    if not text.strip():
        raise ParseError("it is empty", reply)
    seen: list[Found] = []
    failed: _Harvest[T] | None = None
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


def _harvest(items: Sequence[object], shape: _Shape[T]) -> _Harvest[T]:
    harvest: _Harvest[T] = _Harvest()
    for item in items:
        shape.read(item, harvest)
    return harvest


def _parsed(
    harvest: _Harvest[T], repaired: bool, shape: _Shape[T], reply: str
) -> Parsed[tuple[T, ...]]:
    if not harvest.usable:
        kinds = ", ".join(f"{kind}: {times}" for kind, times in harvest.dropped.items())
        raise ParseError(f"none of its {shape.noun} can be used ({kinds})", reply)
    return Parsed(tuple(harvest.items), dict(harvest.dropped), repaired)


def _without_thinking(reply: str) -> str:
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
    found = _field(value, keys)
    if found is not None:
        return _listed(found[0])
    inner = [part for key, part in value.items() if key != CUT]
    return _under_key(inner[0], keys, wrappers - 1) if len(inner) == 1 and wrappers else None


def _field(record: dict[str, object], names: Sequence[str]) -> tuple[object] | None:
    plain = {re.sub(r"[\W_]", "", str(key)).casefold(): value for key, value in record.items()}
    return next(((plain[name],) for name in names if name in plain), None)


def _listed(value: object) -> list[object] | None:
    """Give the items under a key; an object is one item, or lists by type: people, places."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        groups = list(value.values())
        return groups if groups and all(isinstance(g, list) for g in groups) else [value]
    return [] if _emptiness(value) in _HARMLESS else None


def _emptiness(item: object) -> str | None:
    """Say in which way an item says nothing, if it does."""
    if item == CUT:
        return "cut off"
    text = "" if item is None else _text(item)
    if text == "":
        return "blank"
    if text is not None and text.casefold() in _PLACEHOLDERS:
        return "placeholder"
    return None


def _bare_entities(values: list[object]) -> Iterator[Sequence[object]]:
    for items in _bare_lists(values):
        # A list of nothing but numbers is a citation in prose.
        if any(isinstance(item, dict | list) or _is_text(item) for item in items):
            yield items
    records = [v for v in values if isinstance(v, dict) and _field(v, _NAME)]
    if records:
        yield records
    if [] in values:
        yield []


def _read_entity(item: object, harvest: _Harvest[str]) -> None:
    for name in _names(item, harvest):
        harvest.add(name)


def _names(value: object, harvest: _Harvest[T]) -> list[str]:
    """Give the names in a field, which may be a list or an object with a name; count the rest."""
    names: dict[str, None] = {}
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            part = (_field(part, _NAME) or (part,))[0]
        text = _text(part)
        if (kind := _emptiness(part)) is not None:
            harvest.drop(kind)
        elif text is None:
            harvest.drop("not text")
        elif text in names:
            harvest.drop("repeated")
        else:
            names[text] = None
    return list(names)


def _bare_triples(values: list[object]) -> Iterator[Sequence[object]]:
    lines: list[object] = []
    for value in values:
        if _is_record(value) or _is_flat(value):
            lines.append(value)
        elif value:
            yield value if isinstance(value, list) else [value]
    # One triple a line; a lone list of three strings may be anything.
    if any(isinstance(line, dict) for line in lines) or len(lines) > 1:
        yield lines
    if [] in values:
        yield []


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and None not in _fields(value)


def _is_flat(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(v, str) for v in value)


def _fields(record: dict[str, object]) -> list[tuple[object] | None]:
    return [_field(record, names) for names in (_SUBJECT, _RELATION, _OBJECT)]


def _read_triple(item: object, harvest: _Harvest[Triple], wrappers: int = 2) -> None:
    if isinstance(item, list) and wrappers and _is_list_of_triples(item):
        for inner in item:
            _read_triple(inner, harvest, wrappers - 1)
    elif _holds_cut(item):
        harvest.drop("cut off")
    elif isinstance(item, list):
        if len(item) == 3:
            _add_triples(item, harvest)
        else:
            harvest.drop(_FIELDS.get(len(item), "many fields"))
    elif isinstance(item, dict):
        _read_record(item, harvest, wrappers)
    else:
        harvest.drop(_emptiness(item) or "not a triple")


def _is_list_of_triples(item: list[object]) -> bool:
    inner = [part for part in item if part != CUT]
    return bool(inner) and all(isinstance(part, list | dict) for part in inner)


def _read_record(record: dict[str, object], harvest: _Harvest[Triple], wrappers: int) -> None:
    fields = [field[0] for field in _fields(record) if field is not None]
    only = next(iter(record.values())) if len(record) == 1 else None
    if len(fields) == 3:
        _add_triples(fields, harvest)
    elif wrappers and isinstance(only, list | dict):
        _read_triple(only, harvest, wrappers - 1)
    else:
        harvest.drop("missing field")


def _add_triples(fields: list[object], harvest: _Harvest[Triple]) -> None:
    # One reason per item: the first field that is of no use.
    subjects = _names(fields[0], harvest)
    if not subjects:
        return
    relation = _text(fields[1]) if _is_text(fields[1]) else None
    if not relation or relation.casefold() in _NO_RELATION:
        harvest.drop("placeholder" if relation else "no relation")
        return
    objects = _names(fields[2], harvest)
    for done, (subject, object_) in enumerate(product(subjects, objects)):
        if harvest.full:
            harvest.drop(OVER_THE_LIMIT, len(subjects) * len(objects) - done)
            return
        if (subject.casefold(), relation.casefold(), object_.casefold()) in _ECHOES:
            harvest.drop("placeholder")
        else:
            harvest.add(Triple(subject, relation, object_))


def _holds_cut(value: object) -> bool:
    if isinstance(value, dict):
        return CUT in value or any(_holds_cut(part) for part in value.values())
    if isinstance(value, list):
        return any(_holds_cut(part) for part in value)
    return value == CUT


def _bare_lists(values: list[object]) -> Iterator[list[object]]:
    return (value for value in values if isinstance(value, list))


def _read_number(item: object, candidates: int, harvest: _Harvest[int]) -> None:
    if isinstance(item, dict):
        item = (_field(item, _NUMBER) or (item,))[0]
    chosen = _CHOSEN.fullmatch(_text(item) or "")
    if (kind := _emptiness(item)) is not None:
        harvest.drop(kind)
    elif chosen is None:
        harvest.drop("not a number")
    elif 1 <= int(chosen[1]) <= candidates:
        harvest.add(int(chosen[1]) - 1)
    else:
        harvest.drop("unknown number")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _text(value: object) -> str | None:
    """Give a string or a number as clean text; None for anything else."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    return None


def _clean(text: str) -> str:
    """Take out control characters and lone surrogates; make white space single spaces."""
    return " ".join(_CONTROLS.sub("", text).split())

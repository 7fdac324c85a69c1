"""Model text to values, or ParseError: text is decoded as JSON and never evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from hippo_core._json_scan import CUT
from hippo_core._reply_lists import (
    CUT_OFF,
    ECHO,
    OVER_THE_LIMIT,
    PLACEHOLDERS,
    Harvest,
    Parsed,
    Shape,
    bare_lists,
    emptiness,
    field,
    holds_cut,
    is_text,
    parse_list,
    text_of,
    without_thinking,
)
from hippo_core.errors import ParseError
from hippo_core.text import normalise_phrase
from hippo_core.types import Triple

T = TypeVar("T")

_ENTITY_KEYS = ("namedentities", "namedentity", "entities", "entity")
_TRIPLE_KEYS = ("triples", "triple", "facts", "fact", "relations", "relationships")
_CHOICE_KEYS = ("keep", "kept", "selected", "numbers", "facts", "fact")

_NAME = ("name", "entity", "text", "entityname")
_SUBJECT = (
    "subject",
    "head",
    "source",
    "start",
    "from",
    "subj",
    "headentity",
    "sourceentity",
    "s",
    "h",
)
_RELATION = (
    "relation",
    "predicate",
    "relationship",
    "relationtype",
    "type",
    "label",
    "pred",
    "rel",
    "p",
    "r",
)
_OBJECT = ("object", "tail", "target", "end", "to", "obj", "tailentity", "targetentity", "o", "t")
_NUMBER = ("number", "index", "id")

_NO_RELATION = PLACEHOLDERS | {"has no relation to", "no relation to", "no relationship"}
_ECHOES = frozenset((("subject", "relation", "object"), ("subject", "predicate", "object")))

_MARKS = " \t*#>_-"  # of Markdown, that may stand before a label
_THOUGHT = 1000  # characters of a thought; what is beyond them is no one thought

_FIELDS = {0: "0 fields", 1: "1 field"} | {n: f"{n} fields" for n in range(2, 10)}

# 3, "3", "#3", "(3)", "3.", "3. Ada wrote Notes"; 3.0 too
_CHOSEN = re.compile(r"[#(\[]?(-?\d{1,9})(?:\.0+|[.):\]](?:\s.*)?)?", re.DOTALL)
_CITATION = re.compile(r"[\[【]\s*+\d{1,6}(?:\s*+[,;]\s*+\d{1,6})*+\s*+[\]】]")
_DIGITS = re.compile(r"\d+")
_NEAR = 80  # characters of marks before a label, at the most
_BLANK_LINE = re.compile(r"\r?\n[ \t]*+\r?\n")


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
    return parse_list(
        reply, Shape(_ENTITY_KEYS, "entities", _bare_entities, _read_entity), truncated
    )


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
    return parse_list(reply, Shape(_TRIPLE_KEYS, "triples", _bare_triples, _read_triple), truncated)


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
    if without_thinking(reply).strip(" \r\n\"'`.").casefold() in ("none", "null"):
        return Parsed((), {}, repaired=False)

    def read(item: object, harvest: Harvest[int]) -> None:
        for number in item if isinstance(item, list) else [item]:
            _read_number(number, candidates, harvest)

    return parse_list(reply, Shape(_CHOICE_KEYS, "numbers", bare_lists, read), truncated)


class Reading(NamedTuple):
    """An answer, and what was written before it."""

    answer: str
    """Without citations."""
    thought: str
    cited: tuple[int, ...]
    """Numbers of passages, from 1, each once, in the order of their first mention."""


def parse_reading(
    reply: str, passages: int, *, label: str = "Answer", passage_label: str = "Passage"
) -> Reading:
    r"""Read the answer: what follows the last "Answer:", or else the whole reply.

    >>> parse_reading("Vasa sank in 1628 [2].\n**Answer:** 1628 [2]", 5)
    Reading(answer='1628', thought='Vasa sank in 1628 [2].', cited=(2,))

    Args:
        reply: What the model said.
        passages: How many it was shown: what cites another one is passed over.
        label: What stands before the colon, in any case; the colon may be a full-width one.
        passage_label: What a passage is called, before its number.

    Raises:
        ParseError: There is no answer.
    """
    text = without_thinking(reply)
    found = list(_label(label).finditer(text))
    labels = [each for each in found if _begins(text, each.start())] or found
    answer = text[labels[-1].end() :] if labels else text
    thought = text[: labels[-1].start()].strip(" *\n\t\r") if labels else ""
    if labels:  # what stands behind it, after a blank line, is another remark
        answer = _BLANK_LINE.split(answer.strip(), maxsplit=1)[0]
    answer = _without_citations(answer, passages).strip().removesuffix("```").strip()
    answer = answer.removeprefix("**").removesuffix("**").strip()
    if not answer:
        raise ParseError("it holds no answer", reply)
    return Reading(answer, thought, _cited(text, passages, passage_label))


def _without_citations(answer: str, passages: int) -> str:
    """Take out the citations of passages that were shown, and the space before each."""
    parts: list[str] = []
    end = 0
    for found in _CITATION.finditer(answer):
        if any(1 <= int(number) <= passages for number in _DIGITS.findall(found[0])):
            parts.append(answer[end : found.start()].rstrip())
            end = found.end()
    return "".join([*parts, answer[end:]])


def parse_answer(reply: str, *, label: str = "Answer") -> str:
    r"""Read the answer of `parse_reading` alone.

    >>> parse_answer("Vasa sank in 1628.\n**Answer:** 1628")
    '1628'
    """
    return parse_reading(reply, 0, label=label).answer


def _cited(text: str, passages: int, label: str) -> tuple[int, ...]:
    named = re.compile(rf"{re.escape(label.strip())}\s++(\d{{1,6}})(?!\d)", re.IGNORECASE)
    found = [(m.start(), int(n)) for m in _CITATION.finditer(text) for n in _DIGITS.findall(m[0])]
    found += [(m.start(), int(m[1])) for m in named.finditer(text)]
    return tuple(dict.fromkeys(n for _, n in sorted(found, key=_first) if 1 <= n <= passages))


def _first(found: tuple[int, int]) -> int:
    return found[0]


class Thought(NamedTuple):
    """One step of thinking, or its end."""

    text: str
    """Empty where the reply is the answer alone."""
    answer: str | None
    """None where there is no answer yet."""


def parse_thought(reply: str, *, label: str = "Answer", thought_label: str = "Thought") -> Thought:
    r"""Read a thought as one line, and the answer where a line or a sentence begins with its label.

    A label inside of a sentence is no marker: a thought may quote a passage that has one.

    >>> parse_thought("Thought 2: Vasa is in Stockholm.")
    Thought(text='Vasa is in Stockholm.', answer=None)
    >>> parse_thought("Vasa is in Stockholm.\n**Answer:** Stockholm")
    Thought(text='Vasa is in Stockholm.', answer='Stockholm')
    >>> parse_thought('The note says "Answer: 42" and no more.').answer

    Args:
        reply: What the model said.
        label: What stands before the answer and a colon, in any case.
        thought_label: What may stand before the thought, a number and a colon; it is left out.

    Raises:
        ParseError: There is neither a thought nor an answer.
    """
    text = without_thinking(reply)
    labels = [found for found in _label(label).finditer(text) if _begins(text, found.start())]
    told = text[: labels[0].start()].rstrip(_MARKS + "\r\n") if labels else text
    prefix = rf"\W*{re.escape(thought_label.strip())}\s*\d*\s*[:：]"
    if named := re.match(prefix, told, re.IGNORECASE):
        told = told[named.end() :]
    thought = _cut(" ".join(told.split()).strip("`*_# "))
    if labels:
        return Thought(thought, parse_answer(text[labels[-1].start() :], label=label))
    if not normalise_phrase(thought):
        raise ParseError("it holds no thought", reply)
    return Thought(thought, None)


def _cut(thought: str) -> str:
    """Cut a thought that is too long, between words where there are any."""
    if len(thought) <= _THOUGHT:
        return thought
    return thought[:_THOUGHT].rsplit(" ", 1)[0]


def _begins(text: str, position: int) -> bool:
    """Whether a line or a sentence begins here, but for Markdown's marks."""
    near = max(0, position - _NEAR)
    before = text[near:position].rstrip(_MARKS)
    return before[-1] in "\r\n.!?…。！？" if before else not near


def _label(label: str) -> re.Pattern[str]:
    """Find a label; only a script that has two cases can be expected to put a space before it."""
    label = label.strip()
    begins = r"\b" if label[0].lower() != label[0].upper() else ""
    words = r"\s+".join(map(re.escape, label.split()))
    pattern = rf"{begins}{words}\s*+(?:\*\*)?\s*+[:：]\s*+(?:\*\*)?"
    return re.compile(pattern, re.IGNORECASE)


def _bare_entities(values: list[object]) -> Iterator[Sequence[object]]:
    for items in bare_lists(values):
        # A list of nothing but numbers is a citation in prose.
        if any(isinstance(item, dict | list) or is_text(item) for item in items):
            yield items
    records = [v for v in values if isinstance(v, dict) and field(v, _NAME)]
    if records:
        yield records
    if [] in values:
        yield []


def _read_entity(item: object, harvest: Harvest[str]) -> None:
    for name in _names(item, harvest):
        harvest.add(name)


def _names(value: object, harvest: Harvest[T]) -> list[str]:
    """Give the names in a field, which may be a list or an object with a name; count the rest."""
    names: dict[str, None] = {}
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            part = (field(part, _NAME) or (part,))[0]
        text = text_of(part)
        if (kind := emptiness(part)) is not None:
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
    return [field(record, names) for names in (_SUBJECT, _RELATION, _OBJECT)]


def _read_triple(item: object, harvest: Harvest[Triple], wrappers: int = 2) -> None:
    if isinstance(item, list) and wrappers and _is_list_of_triples(item):
        for inner in item:
            _read_triple(inner, harvest, wrappers - 1)
    elif holds_cut(item):
        harvest.drop(CUT_OFF)
    elif isinstance(item, list):
        if len(item) == 3:
            _add_triples(item, harvest)
        else:
            harvest.drop(_FIELDS.get(len(item), "many fields"))
    elif isinstance(item, dict):
        _read_record(item, harvest, wrappers)
    else:
        harvest.drop(emptiness(item) or "not a triple")


def _is_list_of_triples(item: list[object]) -> bool:
    inner = [part for part in item if part != CUT]
    return bool(inner) and all(isinstance(part, list | dict) for part in inner)


def _read_record(record: dict[str, object], harvest: Harvest[Triple], wrappers: int) -> None:
    fields = [field[0] for field in _fields(record) if field is not None]
    only = next(iter(record.values())) if len(record) == 1 else None
    if len(fields) == 3:
        _add_triples(fields, harvest)
    elif wrappers and isinstance(only, list | dict):
        _read_triple(only, harvest, wrappers - 1)
    else:
        harvest.drop("missing field")


def _add_triples(fields: list[object], harvest: Harvest[Triple]) -> None:
    # One reason per item: the first field that is of no use.
    subjects = _names(fields[0], harvest)
    if not subjects:
        return
    said = fields[1]
    if isinstance(said, dict):
        said = (field(said, _NAME) or (said,))[0]
    relation = text_of(said) if is_text(said) else None
    if not relation or relation.casefold() in _NO_RELATION:
        harvest.drop("placeholder" if relation else "no relation")
        return
    objects = _names(fields[2], harvest)
    for done, (subject, object_) in enumerate(product(subjects, objects)):
        if harvest.full:
            harvest.drop(OVER_THE_LIMIT, len(subjects) * len(objects) - done)
            return
        if (subject.casefold(), relation.casefold(), object_.casefold()) in _ECHOES:
            harvest.drop(ECHO)
        else:
            harvest.add(Triple(subject, relation, object_))


def _read_number(item: object, candidates: int, harvest: Harvest[int]) -> None:
    if isinstance(item, dict):
        item = (field(item, _NUMBER) or (item,))[0]
    chosen = _CHOSEN.fullmatch(text_of(item) or "")
    if (kind := emptiness(item)) is not None:
        harvest.drop(kind)
    elif chosen is None:
        harvest.drop("not a number")
    elif 1 <= int(chosen[1]) <= candidates:
        harvest.add(int(chosen[1]) - 1)
    else:
        harvest.drop("unknown number")

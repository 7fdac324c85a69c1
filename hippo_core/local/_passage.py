"""A passage as a parser wants it: its title apart, its typography tidied, its asides lifted out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

BLOCK = 10_000  # characters parsed at once: the parser's memory grows with them
LONGEST_WORD = 200  # characters; a longer run is no word, and the tokenizer is quadratic in it
LONGEST_TITLE = 100
LONGEST_ASIDE = 200

_ABBREVIATION_AT_END = re.compile(r"\b(?:[A-Z][a-z]{0,3}|[A-Z](?:\.[A-Z])+)\.$")
_FUNCTION_WORD = (
    r"(?:an?|the|and|or|but|which|who|whose|that|this|it|its|he|she|his|her|they|their|in|on|at|of"
    r"|to|by|for|from|with|as|is|was|were|are|had|has|have|not|where|when|while|also|including)\b"
)
# Tokenised corpora write "peer - reviewed"; a dash is mostly followed by a function word.
_SPACED_HYPHEN = re.compile(
    rf"(?P<left>\b[a-z]+|\b[A-Z]\w*(?= - \w+(?:ed|ing|like|style|born|wide|type|old|free)\b))"
    rf" - (?=[a-z])(?!{_FUNCTION_WORD})"
)
# "He served Charles V. He died ..." reads as a name with an initial.
_NUMERAL_AT_END = re.compile(
    r"(\b[A-Z]\w{2,} [IVX])(?=\.(?:\s*$|\s+(?:He|She|It|They|His|Her|Its|Their|The|This|In|On|At"
    r"|An?|After|When|Under|From|By|As)\s))"
)
_TIDYING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=\w)(?=``)"), " "),
    (re.compile(r"``\s*([^`\n]{1,300}?)\s*''(?=\w)"), r'"\1" '),
    (re.compile(r"``\s*([^`\n]{1,300}?)\s*''"), r'"\1"'),
    (re.compile(r"``|''|[“”„«»]"), '"'),
    (re.compile(r"[‘’`]"), "'"),
    (re.compile(r"[‐‑]"), "-"),
    (re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\xa0\u200b-\u200f\u2028\u2029\ufeff]"), " "),
    (re.compile(r"\[[^\[\]\n]{0,20}\]"), ""),  # marks of footnotes
    (re.compile(r" +(?=[,;:.)](?:\s|$)|'s\b)"), ""),
    (re.compile(r"(?<=\() +"), ""),
    (_NUMERAL_AT_END, r"\1 "),
    (_SPACED_HYPHEN, r"\g<left>-"),
    (re.compile(rf"(\S{{{LONGEST_WORD}}})(?=\S)"), r"\1 "),
    (re.compile(r" {2,}"), " "),
)
_SENTENCE_END = re.compile(r'[.!?]["\')]*\s+')


class Aside(NamedTuple):
    """A remark that stood in brackets."""

    position: int
    """Characters of the block before it."""
    text: str


class Block(NamedTuple):
    """A stretch of text that is parsed at once."""

    text: str
    asides: tuple[Aside, ...]


def split_title(text: str) -> tuple[str, str]:
    """Split off the first line where it is a title: short, no sentence, and a text follows."""
    first, newline, rest = text.strip().partition("\n")
    first = first.strip()
    is_title = (
        bool(newline and rest.strip())
        and 0 < len(first) <= LONGEST_TITLE
        and (first[-1] not in ".:;," or bool(_ABBREVIATION_AT_END.search(first)))
    )
    return (first, rest.strip()) if is_title else ("", text.strip())


def tidy(text: str) -> str:
    """Undo what tokenised corpora and typesetting do to quotes, hyphens and spaces."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    for pattern, replacement in _TIDYING:
        text = pattern.sub(replacement, text)
    return text.strip()


def blocks(body: str) -> Iterator[Block]:
    """Cut a body at paragraphs and, where one is long, at sentences; lift the asides out."""
    for paragraph in _paragraphs(body):
        start = 0
        while start < len(paragraph):
            stop = _last_sentence_end(paragraph, start)
            block = _lift_asides(paragraph[start:stop].strip())
            if block.text:
                yield block
            start = stop


def _paragraphs(body: str) -> Iterator[str]:
    """Join wrapped lines; a short line or one that ends a sentence ends a paragraph."""
    lines: list[str] = []
    for line in body.split("\n"):
        lines.append(line.strip())
        if len(lines[-1]) < 50 or lines[-1][-1] in ".!?:":
            yield " ".join(lines)
            lines = []
    yield " ".join(lines)


def _last_sentence_end(text: str, start: int) -> int:
    if len(text) - start <= BLOCK:
        return len(text)
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, start + BLOCK)]
    return ends[-1] if ends else start + BLOCK


def _lift_asides(text: str) -> Block:
    kept: list[str] = []
    asides: list[Aside] = []
    length = position = 0
    while position < len(text):
        opening = text.find("(", position)
        closing = _closing(text, opening) if opening >= 0 else -1
        if opening < 0:
            kept.append(text[position:])
            break
        if closing < 0:
            kept.append(text[position : opening + 1])
            length += opening + 1 - position
            position = opening + 1
            continue
        before = text[position:opening].rstrip()
        kept.append(before)
        length += len(before)
        asides.append(Aside(length, text[opening + 1 : closing]))
        position = closing + 1
    return Block("".join(kept), tuple(asides))


def _closing(text: str, opening: int) -> int:
    """Find the bracket that closes the one at `opening`, or -1 if it is far or missing."""
    depth = 0
    for position in range(opening, min(len(text), opening + LONGEST_ASIDE)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    return -1

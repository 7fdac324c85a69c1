"""Where a name begins and ends: what the entity recogniser cuts off or overlooks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hippo_core.local._epithets import ROLES
from hippo_core.local._kinds import is_calling

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_RANKS = frozenset("editor executive officer vice deputy assistant head of".split())
# Capitalised nouns that make one name with "of" and what follows.
_BODIES = frozenset(
    "university college institute institution academy school faculty department ministry bank house"
    " church cathedral abbey museum library gallery bay gulf strait cape isle island sea lake river"
    " mount battle siege treaty war order kingdom republic duchy county province state commonwealth"
    " federation union association society league council board court journal history book art arts"
    " bureau office court parliament hall tower palace temple city town port isles islands empire"
    " archdiocese diocese centre center club army knights".split()
)
_PREFIXES = frozenset(
    "saint st st. hms uss rms ss mount mt mt. lake fort port cape san santa santo são".split()
)
"""Words that are part of the name after them."""
_PARTICLES = frozenset(
    "de la le du des da di del della von van der den den ter ten zu af al bin ibn & y".split()
)
_LISTED = ("PERSON", "GPE", "LOC", "NORP", "ORG")  # sorts of which commas make a list
HYPHENS = ("-", "–")


def _single(doc: Doc) -> Iterator[Span]:
    """Give the recognised entities, those that are lists item by item."""
    for entity in doc.ents:
        start = entity.start
        for token in entity if entity.label_ in _LISTED and " and " not in entity.text else ():
            is_cut = token.text in (",", "-", "–") and bool(token.whitespace_) and start < token.i
            after = doc[token.i + 1].lower_.strip(".") if token.i + 1 < entity.end else ""
            if is_cut and after not in ("inc", "ltd", "llc", "jr", "sr", "iii"):
                yield _labelled(doc, start, token.i, entity.label_)
                start = token.i + 1
        if start < entity.end:
            yield _labelled(doc, start, entity.end, entity.label_)


def _labelled(doc: Doc, start: int, end: int, label: str) -> Span:
    from spacy.tokens import Span

    return Span(doc, start, end, label)


def joined_people(doc: Doc) -> Iterator[Span]:
    """Give the recognised entities; a person's name in two pieces is one."""
    waiting: Span | None = None
    for entity in _single(doc):
        if waiting is not None and _continues(waiting, entity):
            waiting = _labelled(doc, waiting.start, entity.end, "PERSON")
            continue
        if waiting is not None:
            yield waiting
        waiting = entity
    if waiting is not None:
        yield waiting


def _continues(person: Span, entity: Span) -> bool:
    return (
        person.label_ == "PERSON"
        and person.end == entity.start
        and not entity[0].is_sent_start
        and is_capitalised_name(entity[0])
        and (entity.label_ == "PERSON" or entity.start <= person.root.head.i < entity.end)
    )


def date_span(entity: Span) -> Span | None:
    """Keep dates that name a point in time; "monthly" and "each year" do not."""
    text = entity.text.casefold()
    if re.search(r"\b(?:years?|months?|weeks?|days?|hours?|age[ds]?)\b", text):
        return None
    if not re.search(r"\d{3,4}|\d+(?:st|nd|rd|th)?\s+centur", text) and not any(
        month in text.split() for month in _MONTHS
    ):
        return None
    start = entity.start + (entity[0].lower_ in ("the", "early", "about", "around") and 1)
    while start < entity.end - 1 and (
        entity.doc[start].lower_ in ("the", "late") or entity.doc[start].pos_ == "ADP"
    ):
        start += 1
    return entity.doc[start : entity.end]


def whole_name(entity: Span, labels: Mapping[int, str]) -> Span:
    """Drop articles, roles and 's from a recognised entity, and add the parts it misses."""
    doc, start, end = entity.doc, entity.start, entity.end
    end = next((token.i for token in entity[1:] if token.text == "at"), end)
    while end - start > 1 and (
        doc[end - 1].tag_ == "POS"
        or doc[end - 1].is_punct
        or doc[end - 1].lower_ in ("of", "the", "and", "for", "in")
    ):
        if doc[end - 1].text == ".":
            break
        end -= 1
    while start < end - 1 and (
        doc[start].is_punct
        or doc[start].lower_ in ("the", "a", "an", "its", "his", "her", "their")
        or (entity.label_ == "PERSON" and doc[start].lower_.rstrip(".s") in ROLES)
        or (entity.label_ == "PERSON" and doc[start].pos_ in ("NOUN", "ADJ", "ADP"))
        or (entity.label_ == "PERSON" and _is_calling(doc[start], end))
    ):
        start += 1
    first = doc[start].head if doc[start].dep_ == "conj" else doc[start]
    is_predicate = first.dep_ in ("attr", "oprd", "appos")
    if is_predicate and start + 2 < end and doc[start].lower_ in ROLES:
        start += 2 * (doc[start + 1].lower_ == "of")  # "was King of Poland" names Poland
    start, end = with_hyphens(doc, start, end)
    start, end = _with_neighbours(doc, start, end, labels)
    return _with_of(doc, start, end, labels)


def _is_calling(word: Token, end: int) -> bool:
    """Whether a sentence opens with what the person does: "Composer John Williams"."""
    is_first = word.is_sent_start or word.nbor(-1).text in ('"', ",")
    return bool(is_first and end - word.i > 2 and is_calling(word.lower_))


def _with_neighbours(doc: Doc, start: int, end: int, labels: Mapping[int, str]) -> tuple[int, int]:
    """Widen a span over the capitalised words beside it that belong to it."""
    sentence = doc[start].sent
    while start > sentence.start:
        left = doc[start - 1]
        if not (
            _is_its_first_word(left, start, end, labels)
            or _is_its_year(left, start, end)
            or (left.lower_ in _PREFIXES and left.text[0].isupper() and left.i + 1 == start)
        ):
            break
        start -= 1
    while end < sentence.end:
        right = doc[end]
        if not (
            is_capitalised_name(right)
            and labels.get(right.i) not in ("DATE", "PERSON", "GPE")
            and (start <= right.head.i < end or doc[end - 1].head.i == right.i)
        ):
            break
        end += 1
    return start, end


def _is_its_first_word(left: Token, start: int, end: int, labels: Mapping[int, str]) -> bool:
    return bool(
        is_capitalised_name(left)
        and left.i not in labels
        and left.dep_ in ("compound", "nmod")
        and start <= left.head.i < end
        and left.lower_.rstrip(".") not in ROLES
    )


def _is_its_year(token: Token, start: int, end: int) -> bool:
    """Whether a year belongs to the name after it: "2012 Summer Olympics"."""
    return bool(
        re.fullmatch(r"[12]\d{3}", token.text)
        and token.i == start - 1
        and start <= token.head.i < end
        and token.dep_ in ("nummod", "compound", "nmod")
    )


def with_hyphens(doc: Doc, start: int, end: int) -> tuple[int, int]:
    """Widen a span to whole hyphenated words, and over recognised names that hang on them."""
    while start >= 2 and doc[start - 1].text in HYPHENS and touch(doc[start - 2], doc[start - 1]):
        if not touch(doc[start - 1], doc[start]) or not doc[start - 2].text[-1].isalnum():
            break
        start -= 2
        while start and doc[start].ent_iob_ == "I":
            start -= 1
    while end + 1 < len(doc) and doc[end].text in HYPHENS and touch(doc[end - 1], doc[end]):
        if not touch(doc[end], doc[end + 1]) or not doc[end + 1].text[0].isalnum():
            break
        end += 2
        while end < len(doc) and doc[end].ent_iob_ == "I" and doc[end - 1].ent_iob_ != "O":
            end += 1
    return start, end


def _with_of(doc: Doc, start: int, end: int, labels: Mapping[int, str]) -> Span:
    """Take in "of X" after the name of a body: "University" + "of Copenhagen"."""
    if end + 1 < len(doc) and doc[end].lower_ in ("of", "for") and not doc[end].is_sent_start:
        head, stop = doc[end - 1], end + 1
        if doc[stop].lower_ == "the" and stop + 1 < len(doc):
            stop += 1
        first = stop
        while stop < len(doc) and (
            is_capitalised_name(doc[stop])
            or (
                stop > first
                and doc[stop].lower_ in ("and", "of", "de", "&")
                and stop + 1 < len(doc)
                and is_capitalised_name(doc[stop + 1])
                and doc[stop + 1].i in labels
                and doc[stop].i in labels
            )
        ):
            stop += 1
        if stop > first and head.text[0].isupper() and head.lower_ in _BODIES:
            return doc[start:stop]
    return doc[start:end]


def is_capitalised_name(token: Token) -> bool:
    """Say whether a word is a capitalised proper noun."""
    return bool(token.pos_ == "PROPN" and token.text[0].isupper())


def capitalised_runs(doc: Doc, labels: Mapping[int, str]) -> Iterator[Span]:
    """Find names that the entity recogniser missed: runs of capitalised proper nouns."""
    position = 0
    while position < len(doc):
        token = doc[position]
        if not is_capitalised_name(token) or token.i in labels:
            position += 1
            continue
        end = position + 1
        while (
            end < len(doc)
            and not doc[end].is_sent_start
            and (
                (is_capitalised_name(doc[end]) and doc[end].i not in labels)
                or (
                    doc[end].lower_ in _PARTICLES
                    and end + 1 < len(doc)
                    and is_capitalised_name(doc[end + 1])
                )
            )
        ):
            end += 1
        start, end = with_hyphens(doc, position, end)
        start -= start > 0 and _is_its_year(doc[start - 1], start, end)
        words = doc[start:end]
        is_role = all(word.lower_ in ROLES or word.lower_ in _RANKS for word in words)
        is_owned = any(word.tag_ == "PRP$" for word in words.root.lefts)  # "its Impact Factor"
        if not (is_role or is_owned):
            yield _with_of(doc, start, end, labels)
        position = max(end, position + 1)


def touch(left: Token, right: Token) -> bool:
    """Say whether no space stands between two words."""
    return not left.whitespace_ and left.i + 1 == right.i

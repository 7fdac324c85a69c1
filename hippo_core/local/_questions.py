"""What a question is about: its names, else its noun phrases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hippo_core.local._epithets import ROLES
from hippo_core.local._grammar import VAGUE
from hippo_core.local._kinds import is_person_noun, is_place_noun, is_thing_noun
from hippo_core.local._names import clean_name

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

_QUOTED = re.compile(r'"([^"]{2,80})"')
_CAPITALISED = re.compile(
    r"(?<![\w'-])[A-Z][\w'.-]*(?:\s+(?:(?:of|the|de|la|von|van|&)\s+)*[A-Z0-9][\w'.-]*)*"
)
_QUESTION_WORDS = frozenset(
    "who whom whose what which where when why how is are was were do does did can could has have"
    " had in on at of the a an name tell give list if during for from to by and or after before"
    " will would should i there besides his her its their this that these those".split()
)
_NUMBERS = ("CARDINAL", "ORDINAL", "PERCENT", "QUANTITY", "TIME")


def entities_of(doc: Doc) -> list[str]:
    """Name what a question is about; where it is all in lower case, by its noun phrases as well."""
    found = [match[1] for match in _QUOTED.finditer(doc.text)]
    names = [entity.text for entity in doc.ents if entity.label_ not in _NUMBERS]
    names += [name for name in _capitalised(doc.text) if name.casefold() not in ROLES]
    found += _longest(names + list(_with_nouns(doc)))
    if found and not doc.text.islower():
        return [clean_name(name) for name in found]
    phrases = [phrase for chunk in doc.noun_chunks if (phrase := _phrase(chunk))]
    telling = [phrase for phrase in phrases if not _is_kind(phrase)]
    return _longest([*found, *(telling or phrases)])


def _capitalised(query: str) -> Iterator[str]:
    for match in _CAPITALISED.finditer(query):
        words = match[0].split()
        while words and words[0].casefold() in _QUESTION_WORDS:
            words.pop(0)
        if words:
            yield " ".join(words)


def _with_nouns(doc: Doc) -> Iterator[str]:
    """Give names with the common noun that they are part of: "Gila monsters"."""
    for entity in doc.ents:
        head = entity.root.head
        is_part = entity.root.dep_ == "compound" and head.i == entity.end and head.pos_ == "NOUN"
        if is_part and entity.label_ not in _NUMBERS and not is_person_noun(head.lemma_):
            yield f"{entity.text} {head.text}"


def _phrase(chunk: Span) -> str:
    if chunk.root.pos_ == "PRON":
        return ""
    words = chunk.text.split()
    while words and words[0].casefold() in _QUESTION_WORDS:
        words.pop(0)
    return clean_name(" ".join(words))


def _is_kind(phrase: str) -> bool:
    """Whether a phrase says but what is asked for: "state", "director"."""
    word = phrase.casefold()
    return word in VAGUE or any(is_kind(word) for is_kind in _KINDS)


_KINDS = (is_person_noun, is_place_noun, is_thing_noun)


def _longest(texts: Iterable[str]) -> list[str]:
    """Drop what is part of a longer one: "Curie" beside "Marie Curie"."""
    cleaned = list(dict.fromkeys(clean_name(text) for text in texts))
    return [
        text
        for text in cleaned
        if not any(text != other and f" {text} " in f" {other} " for other in cleaned)
    ]

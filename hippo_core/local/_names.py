"""What a name is: its sort, its clean form, and how a text may write its title."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple


class Sort(Enum):
    """What a name is a name of, as far as the rules care."""

    PERSON = auto()
    PLACE = auto()
    OTHER = auto()
    DATE = auto()
    NUMBER = auto()


class Name(NamedTuple):
    """A name as nodes and entities show it."""

    text: str
    sort: Sort


# "Robert Downey Jr." keeps its stop; "Albert I." has that of its sentence.
_ABBREVIATED = re.compile(r"(?<![a-z] )\b[A-Z][a-z]{0,2}\.$|\b(?![IVX]\.)[A-Z][a-z]{0,2}\.$")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?:'s|(?<=s)')$")
_EDGES = " \"',.;:!?-–—()[]*_/\\"


def clean_name(text: str) -> str:
    """Strip quotes, possessive 's and a leading article, which a name of one word keeps.

    >>> clean_name("the University of Warsaw's"), clean_name("The Who")
    ('University of Warsaw', 'The Who')
    """
    text = " ".join(text.split()).strip(' "*_')
    text = _POSSESSIVE.sub("", text)
    abbreviated = text.endswith(".") and bool(_ABBREVIATED.search(text))
    text = text.strip(_EDGES) + ("." if abbreviated else "")
    bare = _ARTICLE.sub("", text)
    keeps_article = text[:3] == "The" and " " not in bare and not bare.isupper()
    return text if keeps_article else bare


def title_names(title: str, body: str) -> list[str]:
    """List the ways in which a text may write its title; the first is the node.

    >>> title_names("The Hurt Locker (film)", "The Hurt Locker is a film.")
    ['Hurt Locker']
    >>> title_names("Montebello, New York", "Montebello is a village.")
    ['Montebello', 'Montebello, New York']
    """
    plain = re.sub(r"\s*\([^()]*\)\s*$", "", title).strip()
    names = [clean_name(plain or title)]
    head, _, tail = plain.partition(", ")
    is_place = re.fullmatch(r"(?!(?:Jr|Sr|Inc|Ltd|Co)\b)(?:[A-Z][\w.'-]*(?:,? |$))+", tail)
    if is_place and head in body and plain not in body:
        names.insert(0, clean_name(head))
    return [name for name in names if re.search(r"\w", name)]

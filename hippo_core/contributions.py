"""What one passage contributes to the graph: its triples, by phrase key, and the user's edges."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hippo_core.config import TripleRendering
from hippo_core.text import normalise_phrase
from hippo_core.types import Extraction, Passage, Status, Triple


class KeyedTriple(NamedTuple):
    """A triple whose three fields are phrase keys."""

    subject: str
    relation: str
    object: str


TargetKind = Literal["passage", "phrase", "source"]
TARGET_KINDS: tuple[TargetKind, ...] = ("passage", "phrase", "source")
"""In the order in which targets are sorted."""


class Target(NamedTuple):
    """What an edge of the user's goes to: a passage's id, a phrase key or a source."""

    kind: TargetKind
    name: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """A live passage, the distinct keyed triples that it states, and its edges.

    `triples` gives, for each, the passage's own spellings, one per occurrence; `edges` the weight
    of the edge to each target.
    """

    passage: Passage
    status: Status
    triples: Mapping[KeyedTriple, tuple[Triple, ...]]
    edges: Mapping[Target, float] = field(default_factory=dict)

    @property
    def phrases(self) -> set[str]:
        """The distinct phrase keys of its triples."""
        return phrases_of(self.triples)


def contribution(
    passage: Passage, extraction: Extraction, edges: Mapping[Target, float] | None = None
) -> Contribution:
    """Key a passage's triples; one whose subject or object holds nothing to key by is left out."""
    keyed: dict[KeyedTriple, tuple[Triple, ...]] = {}
    for triple in extraction.triples:
        key = KeyedTriple(*(normalise_phrase(field) for field in triple))
        if key.subject and key.object:
            keyed[key] = (*keyed.get(key, ()), triple)
    return Contribution(passage, extraction.status, keyed, edges or {})


def unkeyed(extraction: Extraction) -> int:
    """Count the triples that have no key."""
    return sum(
        not (normalise_phrase(t.subject) and normalise_phrase(t.object)) for t in extraction.triples
    )


def phrases_of(triples: Iterable[KeyedTriple]) -> set[str]:
    """Give the distinct subjects and objects."""
    return {phrase for t in triples for phrase in (t.subject, t.object)}


def render_triple(triple: KeyedTriple, rendering: TripleRendering) -> str:
    """Give a triple's text for embedding.

    As a tuple, without ASCII punctuation inside the fields: the text that the reference embeds.

    >>> render_triple(KeyedTriple("o'brien", "wrote", "notes"), "tuple")
    "('o brien', 'wrote', 'notes')"
    >>> render_triple(KeyedTriple("o'brien", "wrote", "notes"), "words")
    "o'brien wrote notes"
    """
    if rendering == "words":
        return " ".join(field for field in triple if field)
    return str(tuple(" ".join(_ASCII_PUNCTUATION.sub(" ", field).split()) for field in triple))


_ASCII_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")

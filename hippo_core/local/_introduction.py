"""What a passage calls its topic before anything else: "Bern is a city"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hippo_core.local._epithets import ROLES
from hippo_core.local._grammar import COPULAS, SUBJECTS, TRANSPARENT, find, objects, prepositions
from hippo_core.local._kinds import is_person_noun, is_thing_noun
from hippo_core.local._names import Name

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_SHIPS = frozenset("hms uss rms ss hmas hmcs".split())
_SHARES = ("part", "member", "piece")  # what a part is of is something else
_LIFE = frozenset("bear marry".split())  # of people, mostly


def nouns_of_title(title: str, called: Sequence[str]) -> list[str]:
    """Give, in lower case, the noun in brackets after a title or the role before its name.

    Args:
        title: As the passage has it.
        called: What its first sentence calls it; without a role there, "Saint" is part of a church.

    >>> nouns_of_title("Mercury (1990 film)", []), nouns_of_title("HMS Beagle", [])
    (['film'], ['ship'])
    >>> nouns_of_title("Saint Odran", ["monk"]), nouns_of_title("Saint Odran's", ["church"])
    (['saint'], [])
    """
    match = re.search(r"([^\W\d_]+)\)$", title)
    first = title.split()[0].casefold() if len(title.split()) > 1 else ""
    if match or first in _SHIPS:
        return [match[1].casefold() if match else "ship"]
    is_role = first in ("saint", *ROLES) and any(map(is_person_noun, called))
    return [first] if is_role and is_person_noun(first) else []


def is_named(doc: Doc, names: Mapping[int, Name], title: str, called: Collection[str]) -> bool:
    """Judge whether a title is a name, not a common noun: "Mount Ardel", not "Canal locks".

    A word that only ever opens a sentence is one if the text calls it what things with names are.
    """
    if any(word[0].isupper() or word[0].isdigit() for word in title.split()[1:]):
        return True
    mentions = [t for t in doc if t.idx in names and names[t.idx].text == title]
    return any(
        token.text[0].isupper() and (not token.is_sent_start or bool(token.ent_type_))
        for token in mentions
    ) or any(is_person_noun(noun) or is_thing_noun(noun) for noun in called)


def nouns_of_topic(doc: Doc, names: Mapping[int, Name], topic: str) -> list[str]:
    """Give the nouns by which the first sentence says what the topic is, in lower case."""
    sentence = next(iter(doc.sents), None)
    subject = find(sentence.root, SUBJECTS) if sentence is not None else None
    if sentence is None or subject is None or not _is_topic(subject, names, topic):
        return []
    root = sentence.root
    heads = [child for child in root.children if child.dep_ == "attr"]
    heads = heads if root.lemma_ in COPULAS else []
    heads += [child for child in subject.children if child.dep_ == "appos"]
    nouns = [noun.lemma_.casefold() for head in heads for noun in _heads(head, 0)]
    nouns = [noun.rsplit("-", 1)[-1] for noun in nouns]
    return nouns + (["person"] if root.lemma_ in _LIFE else [])


def _is_topic(subject: Token, names: Mapping[int, Name], topic: str) -> bool:
    """Whether the first subject is the topic, by another form of its name or a pronoun."""
    name = names.get(subject.idx)
    if name is None:
        return subject.lower_ in ("he", "she", "it", "they")
    own, other = topic.casefold().split(), name.text.casefold().split()
    return own[-1] == other[-1] or set(other) <= set(own)


def _heads(noun: Token, depth: int) -> Iterator[Token]:
    """Give a noun, what is joined to it, and what it is one of."""
    if noun.lemma_ in _SHARES:
        return
    if noun.lemma_ in TRANSPARENT and depth < 3:
        for preposition in prepositions(noun):
            for inner in objects(preposition) if preposition.lower_ == "of" else ():
                yield from _heads(inner, depth + 1)
        return
    if noun.pos_ in ("NOUN", "PROPN"):
        yield noun
    for child in noun.rights:
        if child.dep_ == "conj" and depth < 3:
            yield from _heads(child, depth + 1)

"""The arguments of a verb or noun, each with the words that lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hippo_core.local._grammar import (
    COPULAS,
    HERE,
    PARTICIPIAL,
    PLACING,
    RELATIVES,
    SUBJECTS,
    TRANSPARENT,
    directed,
    ends_in_preposition,
    find,
    is_counted,
    is_object,
    objects,
    prepositions,
    verb_words,
)
from hippo_core.local._names import Sort
from hippo_core.local._subjects import Subjects

if TYPE_CHECKING:
    from spacy.tokens import Token


class Arguments(Subjects):
    """Finds what a clause says of its subject: relations and what they lead to."""

    def _arguments(self, verb: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        """Give each argument of a verb with the words that lead to it."""
        long = self._with_object(verb, words)
        for child in self._objects(verb):
            if verb.lemma_ not in COPULAS or depth:
                yield words, child
                yield from self._beside_object(child, words, depth)
        for child in verb.children:
            yield from self._adjunct(child, words, long, depth)
        for place in verb.subtree if long != words and depth == 0 else ():
            governor = place.head.head.head  # the verb, or its object
            is_its = place.dep_ == "conj" and verb in (governor, governor.head)
            if is_its and self._is_gapped(place):
                yield words, place
                for preposition in (*prepositions(place), *prepositions(verb)):
                    if preposition.i > place.i and preposition.lower_ in PLACING:
                        yield from self._prepositional(preposition, f"{words} {place.text}", depth)

    def _with_object(self, verb: Token, words: str) -> str:
        """Add to a verb's words its object or adjective: what is said of it goes on from there."""
        for child in self._objects(verb):
            if child.dep_ != "oprd":
                return f"{words} {self._as_words(child)}"
        for child in verb.children:
            if child.dep_ == "acomp" and verb.lemma_ in COPULAS and child.i > verb.i:
                return f"{words} {child.text}"
        return words

    def _objects(self, verb: Token) -> list[Token]:
        """Give a verb's objects, also a name that was taken for an adverb: "met Bob"."""
        found = [child for child in verb.children if is_object(child)]
        return (
            found
            or [
                child
                for child in verb.rights
                if child.dep_ == "npadvmod"
                and self._name(child) is not None
                and not self._is_date(child)
            ][:1]
        )

    def _beside_object(self, noun: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        """Give what hangs on a named object, but belongs to the verb: "won the Lion in Venice"."""
        if self._name(noun) is None or self._has_sort(noun, Sort.PLACE) or self._is_date(noun):
            return
        for preposition in prepositions(noun):
            if preposition.lower_ != "of":
                yield from self._prepositional(preposition, f"{words} {noun.text}", depth)

    def _as_words(self, noun: Token) -> str:
        """Give an object as words of a relation, by its name where it has one."""
        if noun.pos_ == "PRON":
            return next(iter(self._nodes(noun)), "")
        return self._short(self._named_apposition(noun) or noun)

    def _adjunct(
        self, child: Token, words: str, long: str, depth: int
    ) -> Iterator[tuple[str, Token]]:
        """Give what a verb's prepositions, adverbs, adjectives and infinitives lead to.

        Args:
            child: A dependent of the verb.
            words: The verb's own words.
            long: The same with its object.
            depth: Verbs that govern this one.
        """
        if child.dep_ in ("prep", "agent", "dative") and child.pos_ in ("ADP", "SCONJ", "VERB"):
            yield from self._prepositional(child, words if child.dep_ == "agent" else long, depth)
        elif child.dep_ == "dative":
            yield f"{long} to", child
        elif child.dep_ == "npadvmod" and (self._is_date(child) or is_counted(child)):
            yield (long if self._is_date(child) else words), child
        elif child.dep_ == "advmod" and child.pos_ == "ADV":
            for preposition in prepositions(child):
                adverb = "" if child.lower_ in HERE else f" {child.text}"
                yield from self._prepositional(preposition, f"{long}{adverb}", depth)
        elif child.dep_ == "acomp":
            yield from self._adjectival(child, f"{words} {child.text}", depth)
        elif child.dep_ == "xcomp" and depth < 2 and not _has_own_subject(child):
            if child.pos_ in ("NOUN", "PROPN"):
                yield words, child
            yield from self._arguments(child, f"{words} {verb_words(child)}", depth + 1)

    def _adjectival(self, adjective: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        for measure in adjective.lefts:
            if measure.dep_ == "npadvmod" and is_counted(measure):
                yield words, measure  # "is 18 kilometres long"
        for preposition in prepositions(adjective):
            yield from self._prepositional(preposition, words, depth)
        for other in adjective.conjuncts:
            if other.i > adjective.i and other.dep_ == "conj" and other.pos_ in ("ADJ", "VERB"):
                stem = words.rsplit(" ", 1)[0]
                for preposition in prepositions(other):
                    yield from self._prepositional(preposition, f"{stem} {other.text}", depth)

    def _prepositional(
        self, preposition: Token, words: str, depth: int
    ) -> Iterator[tuple[str, Token]]:
        led = f"{words} {preposition.lower_}"
        for child in preposition.children:
            if child.dep_ == "pobj":
                if child.lower_ not in (*RELATIVES, "whom"):
                    yield led, child
            elif child.dep_ == "prep":
                yield from self._prepositional(child, led, depth)
            elif child.lower_ in PARTICIPIAL and find(child, ("dobj",)) is not None:
                yield from ((led, noun) for noun in child.children if noun.dep_ == "dobj")
            elif child.dep_ == "pcomp" and child.pos_ == "VERB" and depth < 2:
                yield from self._arguments(child, f"{led} {verb_words(child)}", depth + 1)
            elif child.dep_ == "conj" and child.pos_ == "ADP":
                yield from self._prepositional(child, words, depth)

    def _values(
        self, noun: Token, relation: str, depth: int, is_attribute: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Give what an argument comes to: its node, and what is said of it on the way."""
        nodes = self._nodes(noun)
        if nodes:
            yield from ((relation, node) for node in nodes)
            if not self._is_date(noun):
                yield from self._dates(noun, relation)
        elif noun.pos_ in ("NOUN", "PROPN", "NUM", "ADJ", "X", "SYM", "VERB"):
            if noun.lemma_ in TRANSPARENT and depth < 4:
                through = f"{relation} {noun.text} of"
                meant = [
                    value
                    for inner in self._of(noun)
                    for value in self._values(inner, through, depth + 1, is_attribute)
                ]
                if meant:
                    yield from meant
                    return
            yield from self._described_values(noun, relation, depth, is_attribute)

    def _described_values(
        self, noun: Token, relation: str, depth: int, is_attribute: bool
    ) -> Iterator[tuple[str, str]]:
        through = f"{relation} {self._short(noun)}"
        owned = [(f"{through} of", owner) for owner in self._owner(noun)]
        tails = list(self._tails(noun, through, depth)) if depth < 2 else []
        phrase = self._phrase(noun)
        if phrase:
            yield relation, phrase
        elif not owned and self._may_stand_bare(noun, is_attribute):
            yield relation, self._bare(noun)
        yield from owned
        yield from tails

    def _tails(self, noun: Token, words: str, depth: int) -> Iterator[tuple[str, str]]:
        for preposition in prepositions(noun):
            for led, inner in self._prepositional(preposition, words, 1):
                for each in self._coordinated(inner):
                    yield from self._values(each, led, depth + 1)

    def _dates(self, name: Token, relation: str) -> Iterator[tuple[str, str]]:
        """Give a verb the date that the parser hung on its object: "at Göttingen in 1854"."""
        stem = " ".join(relation.split()[:-1]) if ends_in_preposition(relation) else relation
        for preposition in prepositions(name):
            for inner in objects(preposition):
                if self._has_sort(inner, Sort.DATE):
                    for each in self._coordinated(inner):
                        yield f"{stem} {preposition.lower_}", self._text(each)


def _has_own_subject(verb: Token) -> bool:
    return find(verb, SUBJECTS) is not None or directed(verb) is not None

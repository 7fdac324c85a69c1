"""Triples out of a dependency tree: one rule per construction of English."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hippo_core.local._discourse import Discourse
from hippo_core.local._grammar import (
    COPULAS,
    HERE,
    NAMING,
    NO_CLAUSES,
    NOT_IN_ROLE,
    PARTICIPIAL,
    PLACING,
    RELATIVES,
    SUBJECTS,
    TRANSPARENT,
    ends_in_preposition,
    find,
    is_definite,
    is_impersonal,
    is_object,
    is_office,
    joined,
    leads_to_place,
    objects,
    prepositions,
    verb_words,
)
from hippo_core.local._kinds import is_person_noun
from hippo_core.local._names import Name, Sort, clean_name
from hippo_core.local._nodes import LONGEST_PHRASE
from hippo_core.local._subjects import Subject, Subjects
from hippo_core.types import Triple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

LONGEST_SENTENCE = 150  # words; a longer one is a table, and its tree as deep as it likes
LONGEST_RELATION = 80


class TreeReader(Subjects):
    """Reads one parsed block, sentence by sentence, with what the passage said before."""

    def __init__(self, doc: Doc, names: Mapping[int, Name], discourse: Discourse) -> None:
        """Prepare to read `doc`."""
        super().__init__(doc, names, discourse)
        self._triples: list[Triple] = []

    def read(self) -> list[Triple]:
        """Give the triples in the order of reading, repeats included."""
        for sentence in self._doc.sents:
            self._discourse.begin_sentence()
            for token in sentence if len(sentence) <= LONGEST_SENTENCE else ():
                name = self._name(token)
                if name is not None:
                    self._discourse.mention(name, as_place=leads_to_place(token))
                    self._read_name(token)
                elif token.pos_ in ("NOUN", "PROPN"):
                    self._read_named_by_apposition(token)
                if token.pos_ in ("VERB", "AUX"):
                    self._read_clause(token)
        return self._triples

    # Clauses

    def _read_clause(self, verb: Token) -> None:
        if verb.dep_ in NO_CLAUSES or is_impersonal(verb):
            return
        subject = self._subject(verb)
        if not subject.names:
            return
        self._read_attributes(subject, verb)
        for relation, argument in self._arguments(verb, verb_words(verb), 0):
            self._state(subject, relation, argument)
        for relation, place in self._places(verb):
            for name in subject.names:
                self._add(name, f"{subject.part} {relation}", place)
        self._read_complement(verb, subject)

    def _read_attributes(self, subject: Subject, verb: Token) -> None:
        for attribute in verb.children:
            if attribute.dep_ not in ("attr", "oprd") or attribute.pos_ == "VERB":
                continue
            if verb.lemma_ in COPULAS:
                self._read_attribute(subject, verb, attribute)
            elif not subject.part and is_person_noun(attribute.lemma_):
                self._describe(subject.names[0], attribute)  # "was crowned king"

    def _places(self, verb: Token) -> Iterator[tuple[str, str]]:
        """Give what "there", "where" and "in which" lead to, and the object "that" or "which"."""
        words = verb_words(verb)
        long = self._with_object(verb, words)
        of = self._antecedent(verb.head).names if verb.dep_ == "relcl" else ()
        for child in verb.children:
            if child.lower_ in HERE and child.dep_ == "advmod":
                yield from ((f"{long} in", place) for place in self._discourse.place())
            elif child.lower_ == "where" and child.dep_ == "advmod":
                yield from ((f"{long} in", place) for place in of)
            elif child.lower_ in RELATIVES and child.dep_ == "dobj":
                yield from ((words, thing) for thing in of)
            elif child.lower_ in PLACING and any(o.lower_ == "which" for o in objects(child)):
                yield from ((f"{long} {child.lower_}", thing) for thing in of)

    def _read_complement(self, verb: Token, subject: Subject) -> None:
        """Read "declared the castle a monument", which is parsed like a clause."""
        for complement in verb.rights if verb.lemma_ in NAMING else ():
            named = find(complement, SUBJECTS)
            is_noun = complement.dep_ == "ccomp" and complement.pos_ in ("NOUN", "PROPN")
            if not is_noun or named is None:
                continue
            self._state(subject, verb_words(verb), named)
            names = self._nodes(named)
            if names and verb.tag_ in ("VBD", "VBN"):
                self._state(Subject(names), f"was {verb.lower_}", complement, is_attribute=True)

    def _read_attribute(self, subject: Subject, verb: Token, attribute: Token) -> None:
        """Read "X is Y": what X is, or, where X is "its editor", whose editor Y is."""
        is_ = verb_words(verb)
        for noun in self._coordinated(attribute):
            name = self._name(noun)
            if subject.part and name is not None and name.sort not in (Sort.DATE, Sort.NUMBER):
                for whole in subject.names:
                    self._add(self._discourse.name(name), f"{is_} {subject.part} of", whole)
                continue
            if not subject.part:
                for whole in subject.names[:1]:
                    if name is None and len(subject.names) == 1:
                        self._describe(whole, noun)
            self._state(subject, is_, noun, is_attribute=True)

    # Arguments

    def _arguments(self, verb: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        """Give each argument of a verb with the words that lead to it."""
        long = self._with_object(verb, words)
        for child in verb.children:
            if is_object(child) and (verb.lemma_ not in COPULAS or depth):
                yield words, child
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
        for child in verb.children:
            if child.dep_ != "oprd" and is_object(child):
                return f"{words} {self._short(child)}"
            if child.dep_ == "acomp" and verb.lemma_ in COPULAS and child.i > verb.i:
                return f"{words} {child.text}"
        return words

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
            yield from self._prepositional(child, long if child.dep_ == "prep" else words, depth)
        elif child.dep_ == "npadvmod" and self._is_date(child):
            yield long, child
        elif child.dep_ == "advmod" and child.pos_ == "ADV":
            for preposition in prepositions(child):
                adverb = "" if child.lower_ in HERE else f" {child.text}"
                yield from self._prepositional(preposition, f"{long}{adverb}", depth)
        elif child.dep_ == "acomp":
            yield from self._adjectival(child, f"{words} {child.text}", depth)
        elif child.dep_ == "xcomp" and depth < 2 and find(child, SUBJECTS) is None:
            if child.pos_ in ("NOUN", "PROPN"):
                yield words, child
            yield from self._arguments(child, f"{words} {verb_words(child)}", depth + 1)

    def _adjectival(self, adjective: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
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

    # Statements

    def _state(
        self, subject: Subject, relation: str, argument: Token, *, is_attribute: bool = False
    ) -> None:
        if subject.part:
            relation = f"{subject.part} {relation}"
        is_attribute = is_attribute or relation.endswith(" as")
        for noun in self._coordinated(argument):
            for words, node in self._values(noun, relation, 0, is_attribute):
                for name in subject.names:
                    self._add(name, words, node)

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
        elif not (owned or tails) and self._may_stand_bare(noun, is_attribute):
            yield relation, noun.text
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

    # What is said around a name

    def _read_name(self, token: Token) -> None:
        """Read what stands beside a name: roles before it, appositions and places after it."""
        if self._is_date(token) or self._has_sort(token, Sort.NUMBER):
            return
        for name in self._nodes(token, acts=token.dep_ in SUBJECTS):
            self._read_role(name, token)
            for apposed in token.children:
                is_place = apposed.dep_ == "npadvmod" and self._has_sort(apposed, Sort.PLACE)
                if apposed.dep_ == "appos" or is_place:
                    for each in self._coordinated(apposed):
                        self._read_apposition(name, token, each)
            self._read_tails(name, token)
            for owner in self._owner(token) if self._role(token) is None else ():
                self._add(name, "is of", owner)

    def _read_tails(self, name: str, token: Token) -> None:
        """Read "the Loghouse Museum in Alki"."""
        for preposition in prepositions(token):
            # "including X" is a preposition too, and says what it says without "is".
            is_ = "" if preposition.tag_ == "VBG" else "is"
            for led, inner in self._prepositional(preposition, is_, 1):
                for each in self._coordinated(inner):
                    if self._name(each) is not None and not self._is_date(each):
                        for node in self._nodes(each):
                            self._add(name, led, node)

    def _read_apposition(self, name: str, token: Token, apposed: Token) -> None:
        if self._is_date(apposed):
            return
        if self._name(apposed) is not None:
            both = self._has_sort(token, Sort.PLACE) and self._has_sort(apposed, Sort.PLACE)
            both = both and not self._is_listed(token, apposed)
            for node in self._nodes(apposed) if both else ():
                self._add(name, "is in", node)
        elif apposed.pos_ in ("NOUN", "PROPN"):
            self._describe(name, apposed)
            for words, node in self._values(apposed, "is", 0, is_attribute=True):
                self._add(name, words, node)

    def _read_role(self, name: str, token: Token) -> None:
        """Read "the Polish physicist Marie Curie" and "his wife Marie"."""
        role = self._role(token)
        if role is None:
            return
        self._describe(name, role)
        words = [
            left
            for left in self._doc[role.left_edge.i : role.i + 1]
            if left.dep_ not in NOT_IN_ROLE or left.i == role.i
        ]
        words = [
            left
            for left in token.lefts
            if left.i < role.i and left.dep_ in ("amod", "compound", "nmod")
        ] + words
        ordered = sorted({left.i: left for left in words}.values(), key=lambda left: left.i)
        text = joined(ordered)
        owners = self._owner(token) or self._owner(role)
        for owner in owners:
            self._add(name, f"is {text} of", owner)
        if not owners and text and len(text) <= LONGEST_PHRASE:
            self._add(name, "is", text)

    def _role(self, token: Token) -> Token | None:
        left = self._doc[token.i - 1] if token.i > token.sent.start else None
        is_role = (
            left is not None
            and left.pos_ == "NOUN"
            and left.dep_ in ("compound", "nmod", "amod")
            and left.head.i == token.i
            and left.text.islower()
            and self._name(left) is None
        )
        return left if is_role else None

    def _read_named_by_apposition(self, noun: Token) -> None:
        """Read "his wife, Marie": the noun describes the name."""
        named = self._named_apposition(noun)
        if named is None:
            return
        for name in self._nodes(named):
            self._describe(name, noun)
            owners = self._owner(noun)
            topic = self._discourse.topic
            if topic and not owners and is_definite(noun) and is_office(noun):
                owners = () if list(self._of(noun)) else (topic,)
            for owner in owners:
                self._add(name, f"is {self._short(noun)} of", owner)
            for words, node in self._own_values(noun):
                self._add(name, words, node)

    def _own_values(self, noun: Token) -> Iterator[tuple[str, str]]:
        phrase = self._phrase(noun)
        if phrase:
            yield "is", phrase
        yield from self._tails(noun, f"is {self._short(noun)}", 0)

    def _describe(self, name: str, noun: Token) -> None:
        if noun.pos_ == "NOUN":
            self._discourse.describe(name, noun.lemma_.casefold())
            tail = noun.text.rsplit("-", 1)[-1]
            if tail != noun.text:
                self._discourse.describe(name, tail.casefold())

    def _add(self, subject: str, relation: str, object_: str) -> None:
        subject, object_ = clean_name(subject), clean_name(object_)
        relation = " ".join(relation.split()).strip(" ,;:.\"'")
        if (
            re.search(r"\w", subject)
            and re.search(r"\w", object_)
            and re.search(r"\w", relation)
            and len(relation) <= LONGEST_RELATION
            and subject.casefold() != object_.casefold()
        ):
            self._triples.append(Triple(subject, relation, object_))

"""Triples out of a dependency tree: one rule per construction of English."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hippo_core.local._arguments import Arguments
from hippo_core.local._discourse import Discourse
from hippo_core.local._grammar import (
    COPULAS,
    HERE,
    NAMING,
    NO_CLAUSES,
    NOT_IN_ROLE,
    PLACING,
    RELATIVES,
    SUBJECTS,
    directed,
    find,
    is_definite,
    is_impersonal,
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
from hippo_core.local._subjects import Subject
from hippo_core.types import Triple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

LONGEST_SENTENCE = 150  # words; a longer one is a table, and its tree as deep as it likes
LONGEST_RELATION = 80


class TreeReader(Arguments):
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
        is_directed = directed(verb) is not None
        if (verb.dep_ in NO_CLAUSES and not is_directed) or is_impersonal(verb):
            return
        subject = self._subject(verb)
        if not subject.names:
            return
        before = len(self._triples)
        self._read_attributes(subject, verb)
        words = verb_words(verb)
        if is_directed:
            words = words.removeprefix("to ")
        for relation, argument in self._arguments(verb, words, 0):
            self._state(subject, relation, argument)
        for relation, place in self._places(verb):
            for name in subject.names:
                self._add(name, f"{subject.part} {relation}", place)
        self._read_complement(verb, subject)
        if self._discourse.anchor() is not None:
            self._triples[before:] = _without_hubs(self._triples[before:])

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
            values = list(self._own_values(noun))
            if not values and not owners and is_person_noun(noun.lemma_):
                values = [("is", noun.text)]
            for words, node in values:
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


def _without_hubs(triples: Sequence[Triple]) -> list[Triple]:
    """Drop what a clause says of lone common nouns, unless that is all that it says.

    A node "flood" joins every text with a flood in it; a list of objects is kept whole.
    """
    telling = {triple.relation for triple in triples if not _is_lone(triple.object)}
    return [
        triple
        for triple in triples
        if not (telling and _is_lone(triple.object)) or triple.relation in telling
    ]


def _is_lone(node: str) -> bool:
    return " " not in node and node.isalpha() and node.islower()

"""Triples out of a dependency tree: one rule per construction of English."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hippo_core.local._discourse import Discourse
from hippo_core.local._names import Name, Sort, clean_name
from hippo_core.types import Triple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

LONGEST_SENTENCE = 150  # words; a longer one is a table, and its tree as deep as it likes
LONGEST_PHRASE = 60  # characters of a node that is no name
MOST_WORDS = 6  # of a node that is no name
LONGEST_RELATION = 80

_SUBJECTS = ("nsubj", "nsubjpass")
_CLAUSES = ("relcl", "acl")
_NO_CLAUSES = ("aux", "auxpass", "xcomp", "pcomp", "amod", "compound")  # parts of another clause
_COPULAS = frozenset("be become remain".split())
_RELATIVES = frozenset("who whom which that".split())
# "one of the rivers", "a form of therapy": what is meant comes after "of".
_TRANSPARENT = frozenset(
    "one some many most several all both each part type form kind sort variety number series"
    " member group piece pair set".split()
)
# "the town of Lennep": the name says it all.
_CLASSES = frozenset(
    "city town village county state province district region island river country kingdom"
    " municipality hamlet suburb borough commune month year republic parish township territory"
    " community port island name title".split()
)
_CONTRASTS = ("first", "second", "third", "last", "next", "other", "new", "former", "latter")
_VAGUE = frozenset(
    "thing something anything nothing everything someone anyone everyone people way time lot"
    " other others such rest same example case fact addition order result use there here"
    " one ones another kind sort type place part home name end beginning member members".split()
)
_NOT_IN_ROLE = ("det", "predet", "poss", "cc", "preconj", "punct", "neg")
_OFFICES = frozenset(
    "chief ceo head chair chairman chairwoman chairperson president director editor founder"
    " cofounder co owner leader manager captain coach capital seat mayor governor author creator"
    " designer architect principal dean rector chancellor wife husband son daughter father mother"
    " brother sister".split()
)
_NOT_FIRST = ("CCONJ", "ADV", "PART")
_PHRASE_PARTS = (
    "amod compound nmod nummod quantmod advmod npadvmod case conj cc punct dep appos".split()
)


class _Subject(NamedTuple):
    names: tuple[str, ...]
    part: str = ""
    """What of the name acts: "headquarters" in "its headquarters are in Bern"."""


class TreeReader:
    """Reads one parsed block, sentence by sentence, with what the passage said before."""

    def __init__(self, doc: Doc, names: Mapping[int, Name], discourse: Discourse) -> None:
        """Prepare to read `doc`, whose names are merged tokens, keyed by their first character."""
        self._doc = doc
        self._names = names
        self._discourse = discourse
        self._subjects: dict[int, _Subject] = {}
        self._triples: list[Triple] = []

    def read(self) -> list[Triple]:
        """Give the triples in the order of reading, repeats included."""
        for sentence in self._doc.sents:
            for token in sentence if len(sentence) <= LONGEST_SENTENCE else ():
                name = self._name(token)
                if name is not None:
                    self._discourse.mention(name)
                    self._read_name(token)
                elif token.pos_ in ("NOUN", "PROPN"):
                    self._read_named_by_apposition(token)
                if token.pos_ in ("VERB", "AUX"):
                    self._read_clause(token)
        return self._triples

    # Clauses

    def _read_clause(self, verb: Token) -> None:
        if verb.dep_ in _NO_CLAUSES or _is_impersonal(verb):
            return
        subject = self._subject(verb)
        if not subject.names:
            return
        if verb.lemma_ in _COPULAS:
            for attribute in verb.children:
                if attribute.dep_ in ("attr", "oprd") and attribute.pos_ != "VERB":
                    self._read_attribute(subject, verb, attribute)
        for relation, argument in self._arguments(verb, _verb_words(verb), 0):
            self._state(subject, relation, argument)

    def _read_attribute(self, subject: _Subject, verb: Token, attribute: Token) -> None:
        """Read "X is Y": what X is, or, where X is "its editor", whose editor Y is."""
        is_ = _verb_words(verb)
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

    def _subject(self, verb: Token) -> _Subject:
        if verb.i not in self._subjects:
            self._subjects[verb.i] = _Subject(())  # a broken tree may have no end
            self._subjects[verb.i] = self._find_subject(verb)
        return self._subjects[verb.i]

    def _find_subject(self, verb: Token) -> _Subject:
        own = _find(verb, _SUBJECTS)
        if own is not None:
            return self._own_subject(verb, own)
        if _find(verb, ("csubj", "csubjpass", "expl")) is not None:
            return _Subject(())
        if verb.dep_ == "conj" and verb.head.pos_ in ("VERB", "AUX"):
            return self._subject(verb.head)
        if verb.dep_ == "acl" and verb.tag_ in ("VBN", "VBG", "VBD"):
            return self._antecedent(verb.head)
        if verb.dep_ == "advcl" and verb.tag_ in ("VBN", "VBG") and not _has_mark(verb):
            return self._subject(verb.head)
        return _Subject(())

    def _own_subject(self, verb: Token, own: Token) -> _Subject:
        if own.lower_ in _RELATIVES and own.pos_ != "NOUN":
            return self._antecedent(verb.head) if verb.dep_ == "relcl" else _Subject(())
        if verb.dep_ == "relcl" and any(child.lower_ == "whose" for child in own.children):
            return _Subject(self._antecedent(verb.head).names, self._short(own))
        subject = self._as_subject(own)
        if verb.dep_ not in _CLAUSES and not subject.part:
            self._discourse.subject(subject.names, self._people(own, subject.names))
        return subject

    def _people(self, token: Token, names: Sequence[str]) -> list[bool]:
        sorts = [self._name(noun) for noun in self._coordinated(token)]
        people = [name is not None and name.sort is Sort.PERSON for name in sorts]
        if token.lower_ in ("he", "she") or (
            self._discourse.is_topic_person() and self._discourse.topic in names
        ):
            return [True] * len(names)
        return (people + [False] * len(names))[: len(names)]

    def _as_subject(self, token: Token) -> _Subject:
        nouns = self._coordinated(token)
        names = [name for noun in nouns for name in self._nodes(noun, acts=True)]
        if names:
            return _Subject(tuple(dict.fromkeys(names)))
        if token.pos_ not in ("NOUN", "PROPN"):
            return _Subject(())
        owner = self._owner(token)
        if owner:
            return _Subject(owner, self._short(token))
        for inner in self._of(token):
            if self._name(inner) or inner.pos_ == "PRON" or _is_definite(inner):
                of = self._nodes(inner)
                if of:
                    is_part = token.lemma_ not in _TRANSPARENT
                    return _Subject(of, self._short(token) if is_part else "")
        topic = self._discourse.topic
        if topic and token.lemma_ not in _VAGUE and (_is_definite(token) or _is_counted(token)):
            # A titled text speaks of its title: "The first issue appeared in 1960."
            return _Subject((topic,), self._short(token))
        phrase = self._phrase(token)
        return _Subject((phrase,) if phrase else ())

    def _antecedent(self, noun: Token) -> _Subject:
        """Find what a modifying clause is about: its noun, or what that noun describes."""
        for _ in range(4):
            if self._name(noun) is not None or noun.pos_ == "PRON":
                break
            governor = noun.head
            if noun.dep_ in ("attr", "oprd") and governor.pos_ in ("AUX", "VERB"):
                subject = self._subject(governor)
                if not subject.part:
                    return subject
                break
            if noun.dep_ == "appos" and self._nodes(governor):
                return _Subject(self._nodes(governor))
            if noun.dep_ == "conj":
                noun = governor
            elif _follows_of(noun) and governor.head.lemma_ in _TRANSPARENT:
                noun = governor.head
            else:
                break
        names = self._nodes(noun)
        phrase = self._phrase(noun)
        return _Subject(names or ((phrase,) if phrase else ()))

    # Arguments

    def _arguments(self, verb: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        """Give each argument of a verb with the words that lead to it."""
        long = words
        for child in verb.children:
            is_noun = child.pos_ not in ("ADP", "VERB", "AUX") and child.lower_ not in _RELATIVES
            if is_noun and child.dep_ in ("dobj", "oprd", "attr"):
                if verb.lemma_ not in _COPULAS or depth:
                    yield words, child
                if child.dep_ != "oprd" and long == words:
                    long = f"{words} {self._short(child)}"
        for child in verb.children:
            yield from self._adjunct(child, words, long, depth)

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
            for preposition in _prepositions(child):
                yield from self._prepositional(preposition, f"{long} {child.text}", depth)
        elif child.dep_ == "acomp":
            yield from self._adjectival(child, f"{words} {child.text}", depth)
        elif child.dep_ == "xcomp" and depth < 2 and _find(child, _SUBJECTS) is None:
            if child.pos_ in ("NOUN", "PROPN"):
                yield words, child
            yield from self._arguments(child, f"{words} {_verb_words(child)}", depth + 1)

    def _adjectival(self, adjective: Token, words: str, depth: int) -> Iterator[tuple[str, Token]]:
        for preposition in _prepositions(adjective):
            yield from self._prepositional(preposition, words, depth)
        for other in adjective.conjuncts:
            if other.i > adjective.i and other.dep_ == "conj" and other.pos_ in ("ADJ", "VERB"):
                stem = words.rsplit(" ", 1)[0]
                for preposition in _prepositions(other):
                    yield from self._prepositional(preposition, f"{stem} {other.text}", depth)

    def _prepositional(
        self, preposition: Token, words: str, depth: int
    ) -> Iterator[tuple[str, Token]]:
        led = f"{words} {preposition.lower_}"
        for child in preposition.children:
            if child.dep_ == "pobj":
                if child.lower_ not in (*_RELATIVES, "whom"):
                    yield led, child
            elif child.dep_ == "prep":
                yield from self._prepositional(child, led, depth)
            elif child.dep_ == "pcomp" and child.pos_ == "VERB" and depth < 2:
                yield from self._arguments(child, f"{led} {_verb_words(child)}", depth + 1)
            elif child.dep_ == "conj" and child.pos_ == "ADP":
                yield from self._prepositional(child, words, depth)

    # Statements

    def _state(
        self, subject: _Subject, relation: str, argument: Token, *, is_attribute: bool = False
    ) -> None:
        if subject.part:
            relation = f"{subject.part} {relation}"
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
            if noun.lemma_ in _TRANSPARENT and depth < 4:
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
        for preposition in _prepositions(noun):
            for led, inner in self._prepositional(preposition, words, 1):
                for each in self._coordinated(inner):
                    yield from self._values(each, led, depth + 1)

    def _dates(self, name: Token, relation: str) -> Iterator[tuple[str, str]]:
        """Give a verb the date that the parser hung on its object: "at Göttingen in 1854"."""
        stem = " ".join(relation.split()[:-1]) if _ends_in_preposition(relation) else relation
        for preposition in _prepositions(name):
            for inner in _objects(preposition):
                if self._has_sort(inner, Sort.DATE):
                    for each in self._coordinated(inner):
                        yield f"{stem} {preposition.lower_}", self._text(each)

    def _of(self, noun: Token) -> Iterator[Token]:
        for preposition in _prepositions(noun):
            if preposition.lower_ == "of":
                for inner in _objects(preposition):
                    yield from self._coordinated(inner)

    # What is said around a name

    def _read_name(self, token: Token) -> None:
        """Read what stands beside a name: roles before it, appositions and places after it."""
        if self._is_date(token) or self._has_sort(token, Sort.NUMBER):
            return
        for name in self._nodes(token, acts=token.dep_ in _SUBJECTS):
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
        for preposition in _prepositions(token):
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
            if left.dep_ not in _NOT_IN_ROLE or left.i == role.i
        ]
        words = [
            left
            for left in token.lefts
            if left.i < role.i and left.dep_ in ("amod", "compound", "nmod")
        ] + words
        ordered = sorted({left.i: left for left in words}.values(), key=lambda left: left.i)
        text = _joined(ordered)
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
            if topic and not owners and _is_definite(noun) and _is_office(noun):
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

    def _named_apposition(self, noun: Token) -> Token | None:
        for child in noun.rights:
            if child.dep_ == "appos" and self._name(child) is not None:
                name = self._name(child)
                if name is not None and name.sort not in (Sort.DATE, Sort.NUMBER):
                    return child
        return None

    def _describe(self, name: str, noun: Token) -> None:
        if noun.pos_ == "NOUN":
            self._discourse.describe(name, noun.lemma_.casefold())
            tail = noun.text.rsplit("-", 1)[-1]
            if tail != noun.text:
                self._discourse.describe(name, tail.casefold())

    # Nodes

    def _nodes(self, token: Token, *, acts: bool = False) -> tuple[str, ...]:
        """Give the names that a token stands for; none if it is a plain phrase."""
        name = self._name(token)
        if name is not None:
            return (self._discourse.name(name, acts=acts),)
        if token.pos_ == "PRON":
            return self._discourse.pronoun(token.lower_)
        if token.pos_ not in ("NOUN", "PROPN"):
            return ()
        named = self._named_apposition(token)
        if named is not None:
            return self._nodes(named)
        if token.lemma_ in _CLASSES and _is_definite(token) and token.dep_ != "attr":
            names = [of for of in map(self._name, self._of(token)) if of is not None]
            if names:
                return (self._discourse.name(names[0]),)
        described = self._described(token)
        return (described,) if described else ()

    def _described(self, noun: Token) -> str | None:
        """Find what a definite description stands for: "the journal", "the German band"."""
        if not _is_definite(noun) or self._owner(noun) or list(self._of(noun)):
            return None
        modifiers = [c for c in noun.lefts if c.dep_ in ("amod", "compound", "nummod")]
        is_other = any(self._name(c) or c.lower_ in _CONTRASTS for c in modifiers)
        if is_other or len(modifiers) > 1:
            return None
        return self._discourse.described(noun.lemma_.casefold())

    def _coordinated(self, noun: Token) -> list[Token]:
        """Give a noun and the ones joined to it by "and" or commas."""
        found, waiting = [noun], [noun]
        while waiting:
            head = waiting.pop()
            for child in head.rights:
                is_item = child.dep_ == "conj" and child.pos_ not in ("VERB", "AUX", "ADP")
                if is_item or self._is_listed(head, child):
                    found.append(child)
                    waiting.append(child)
        return sorted(found, key=lambda token: token.i)

    def _is_listed(self, head: Token, child: Token) -> bool:
        """Whether the parser took the next name of a list for an apposition."""
        if child.dep_ != "appos":
            return False
        one, other = self._name(head), self._name(child)
        if one is None or other is None or one.sort is not other.sort:
            return False
        return one.sort is not Sort.PLACE or any(c.dep_ in ("conj", "appos") for c in child.rights)

    def _owner(self, noun: Token) -> tuple[str, ...]:
        for child in noun.lefts:
            if child.dep_ == "poss":
                if child.lower_ == "whose":
                    clause = next((t for t in noun.ancestors if t.dep_ == "relcl"), None)
                    return self._antecedent(clause.head).names if clause is not None else ()
                if child.pos_ == "PRON":
                    return self._discourse.pronoun(child.lower_)
                return self._nodes(child, acts=True) or tuple(
                    phrase for phrase in [self._phrase(child)] if phrase
                )
        return ()

    def _name(self, token: Token) -> Name | None:
        return self._names.get(token.idx)

    def _text(self, token: Token) -> str:
        name = self._name(token)
        return name.text if name is not None else token.text

    def _has_sort(self, token: Token, sort: Sort) -> bool:
        name = self._name(token)
        return name is not None and name.sort is sort

    def _is_date(self, token: Token) -> bool:
        return self._has_sort(token, Sort.DATE)

    def _short(self, noun: Token) -> str:
        """Give a noun with its modifiers as words of a relation."""
        return self._phrase(noun) or noun.text

    def _phrase(self, noun: Token) -> str:
        """Give a noun phrase without article, owner and tail; nothing if that is a bare noun."""
        if noun.pos_ == "NUM" or noun.tag_ == "CD":
            return noun.text if noun.lower_ not in _TRANSPARENT else ""
        if noun.pos_ not in ("NOUN", "PROPN") or noun.lemma_.casefold() in _VAGUE:
            return ""
        start = noun.i
        while start > noun.sent.start and self._belongs(self._doc[start - 1], start, noun.i):
            start -= 1
        words = list(self._doc[start : noun.i + 1])[-MOST_WORDS:]
        while len(words) > 1 and (words[0].is_punct or words[0].pos_ in _NOT_FIRST):
            words.pop(0)
        text = _joined(words)
        if len(words) < 2 and "-" not in text:
            return ""
        return text if len(text) <= LONGEST_PHRASE else ""

    @staticmethod
    def _belongs(left: Token, start: int, end: int) -> bool:
        """Whether the token before a noun phrase is a part of it."""
        if left.dep_ not in _PHRASE_PARTS or not start <= left.head.i <= end:
            return False
        is_participle = left.tag_ in ("VBN", "VBG")
        return left.pos_ not in ("DET", "PRON", "VERB") or is_participle

    def _may_stand_bare(self, noun: Token, is_attribute: bool) -> bool:
        """Judge a lone common noun: "is a physicist" and "studied physics" say something."""
        lemma = noun.lemma_.casefold()
        if lemma in _VAGUE or lemma in _TRANSPARENT or not noun.text.isalpha() or len(lemma) < 4:
            return False
        if noun.pos_ not in ("NOUN", "PROPN"):
            return False
        has_determiner = any(child.dep_ in ("det", "poss") for child in noun.lefts)
        if is_attribute:
            return not _is_definite(noun)
        return not has_determiner and noun.tag_ in ("NN", "NNP") and not _prepositions(noun)

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


def _prepositions(token: Token) -> list[Token]:
    return [child for child in token.rights if child.dep_ == "prep"]


def _objects(preposition: Token) -> list[Token]:
    return [child for child in preposition.children if child.dep_ == "pobj"]


def _find(token: Token, labels: Sequence[str]) -> Token | None:
    return next((child for child in token.children if child.dep_ in labels), None)


def _is_impersonal(verb: Token) -> bool:
    """Whether "it" stands for a clause: "it is known that ..."."""
    subject = _find(verb, _SUBJECTS)
    return (
        subject is not None
        and subject.lower_ == "it"
        and any(
            child.dep_ in ("ccomp", "csubj", "advcl")
            and any(mark.dep_ == "mark" and mark.lower_ == "that" for mark in child.lefts)
            for child in verb.rights
        )
    )


def _has_mark(verb: Token) -> bool:
    return any(child.dep_ == "mark" for child in verb.children)


def _is_definite(noun: Token) -> bool:
    return any(
        child.dep_ == "det" and child.lower_ in ("the", "this", "these", "those")
        for child in noun.lefts
    )


def _follows_of(noun: Token) -> bool:
    return bool(noun.dep_ == "pobj" and noun.head.lower_ == "of")


def _is_counted(noun: Token) -> bool:
    return any(child.dep_ == "nummod" for child in noun.lefts)


def _is_office(noun: Token) -> bool:
    """Say whether a noun names what someone is to something: "editor", "founder", "wife"."""
    is_national = any(child.ent_type_ == "NORP" for child in noun.lefts)
    return noun.lemma_.casefold().split("-")[0] in _OFFICES and not is_national


def _ends_in_preposition(relation: str) -> bool:
    return relation.rsplit(" ", 1)[-1] in (
        "in on at by of to from for with as into under near through after before during".split()
    )


def _verb_words(verb: Token) -> str:
    """Give a verb as a relation says it: "was not elected", "broke up", "founded"."""
    words: list[Token] = [verb]
    has_auxiliary = False
    for child in verb.children:
        if child.dep_ in ("neg", "prt") or (child.dep_ in ("aux", "auxpass") and child.i < verb.i):
            has_auxiliary = has_auxiliary or child.dep_ == "auxpass"
            words.append(child)
    text = " ".join(word.lower_ if word.pos_ == "AUX" else word.text for word in _ordered(words))
    if not has_auxiliary and verb.tag_ == "VBN" and verb.dep_ == "conj":
        head = verb.head
        passive = _find(head, ("auxpass",))
        if passive is not None:
            return f"{passive.lower_} {text}"
    return text


def _ordered(tokens: Sequence[Token]) -> list[Token]:
    return sorted(tokens, key=lambda token: token.i)


def _joined(words: Sequence[Token]) -> str:
    text = "".join(word.text_with_ws for word in words)
    return " ".join(text.replace('"', " ").split()).strip(" ,;:-–")

"""What a noun comes to: a name, what it stands for, or the phrase that it heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hippo_core.local._discourse import Discourse
from hippo_core.local._grammar import (
    CLASSES,
    CLAUSES,
    CONTRASTS,
    PARTICIPIAL,
    PLACING,
    TRANSPARENT,
    VAGUE,
    is_counted,
    is_definite,
    joined,
    objects,
    prepositions,
)
from hippo_core.local._names import Name, Sort

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

LONGEST_PHRASE = 60  # characters of a node that is no name
MOST_WORDS = 6  # of a node that is no name
_NOT_FIRST = ("CCONJ", "ADV", "PART")
_PHRASE_PARTS = (
    "amod compound nmod nummod quantmod advmod npadvmod case conj cc punct dep appos".split()
)


class Nodes:
    """Finds the nodes of one parsed block, with what the passage said before."""

    def __init__(self, doc: Doc, names: Mapping[int, Name], discourse: Discourse) -> None:
        """Prepare to read `doc`, whose names are merged tokens, keyed by their first character."""
        self._doc = doc
        self._names = names
        self._discourse = discourse

    def _of(self, noun: Token) -> Iterator[Token]:
        for preposition in prepositions(noun):
            if preposition.lower_ == "of":
                for inner in objects(preposition):
                    yield from self._coordinated(inner)

    def _named_apposition(self, noun: Token) -> Token | None:
        for child in noun.rights:
            if child.dep_ == "appos" and self._name(child) is not None:
                name = self._name(child)
                if name is not None and name.sort not in (Sort.DATE, Sort.NUMBER):
                    return child
        return None

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
        if token.lemma_ in CLASSES and is_definite(token) and token.dep_ != "attr":
            names = [of for of in map(self._name, self._of(token)) if of is not None]
            if token.tag_ == "NN":
                names = names[:1]
            if names:
                return tuple(self._discourse.name(name) for name in names)
        described = self._described(token)
        return (described,) if described else ()

    def _described(self, noun: Token) -> str | None:
        """Find what a definite description stands for: "the journal", "the German band"."""
        first = noun.head if noun.dep_ == "conj" else noun
        is_predicate = first.dep_ in ("attr", "oprd", "appos")  # it describes, and names nothing
        if is_predicate or not is_definite(noun) or self._owner(noun) or list(self._of(noun)):
            return None
        modifiers = [c for c in noun.lefts if c.dep_ in ("amod", "compound", "nummod")]
        is_other = any(self._name(c) or c.lower_ in CONTRASTS for c in modifiers)
        if is_other or len(modifiers) > 1:
            return None
        # "The galleries" are none of the gallery, unless that is how it is called.
        is_plural = noun.tag_ in ("NNS", "NNPS")
        return self._discourse.described(noun.lower_ if is_plural else noun.lemma_.casefold())

    def _coordinated(self, noun: Token) -> list[Token]:
        """Give a noun and the ones joined to it by "and" or commas."""
        found, waiting = [noun], [noun]
        while waiting:
            head = waiting.pop()
            for child in head.rights:
                is_item = child.dep_ == "conj" and child.pos_ not in ("VERB", "AUX", "ADP")
                is_item = is_item and not self._is_gapped(child)
                if is_item or self._is_listed(head, child):
                    found.append(child)
                    waiting.append(child)
        return sorted(found, key=lambda token: token.i)

    def _is_gapped(self, item: Token) -> bool:
        """Whether the verb is left out before it: "law in Bologna and medicine in Padua"."""
        place = item.head
        if place.dep_ != "pobj" or self._name(place) is None or self._name(item) is not None:
            return False
        goes_on = any(
            other.lower_ in PLACING and other.i > item.i
            for head in (place.head.head, place.head.head.head, item)
            for other in prepositions(head)
        )
        return item.pos_ == "NOUN" and goes_on and not list(item.lefts)

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
            return noun.text if noun.lower_ not in TRANSPARENT else ""
        if noun.pos_ not in ("NOUN", "PROPN"):
            return ""
        if noun.lemma_.casefold() in VAGUE and not is_counted(noun):
            return ""
        start = noun.i
        if noun.head.lower_ in PARTICIPIAL and noun.dep_ == "dobj" and noun.head.i == start - 1:
            start -= 1
        while start > noun.sent.start and self._belongs(self._doc[start - 1], start, noun.i):
            start -= 1
        words = list(self._doc[start : noun.i + 1])[-MOST_WORDS:]
        while len(words) > 1 and (words[0].is_punct or words[0].pos_ in _NOT_FIRST):
            words.pop(0)
        text = joined(words)
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

    def _may_stand_bare(self, noun: Token, is_attribute: bool = False) -> bool:
        """Judge a lone common noun: "is a physicist" and "pays the toll" say something."""
        lemma = noun.lemma_.casefold()
        if lemma in VAGUE or lemma in TRANSPARENT or not noun.text.isalpha() or len(lemma) < 3:
            return False
        if noun.pos_ not in ("NOUN", "PROPN") or any(self._of(noun)):
            return False
        is_about_name = self._discourse.anchor() is not None
        if is_attribute:
            goes_on = is_about_name and any(child.dep_ in CLAUSES for child in noun.rights)
            return not is_definite(noun) and not goes_on  # "a song recorded by", which says more
        # Of a text about a name, "the city" that nothing resolved is another one in each text.
        return not (is_definite(noun) and is_about_name)

    @staticmethod
    def _bare(noun: Token) -> str:
        """Give a lone common noun, in lower case also where it opens a sentence."""
        return noun.text if noun.pos_ == "PROPN" else noun.lower_

"""Who or what a clause is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hippo_core.local._discourse import Discourse
from hippo_core.local._grammar import (
    CLAUSES,
    NOTABLE,
    PARTITIVES,
    RELATIVES,
    SUBJECTS,
    TRANSPARENT,
    VAGUE,
    directed,
    find,
    follows_of,
    has_mark,
    is_counted,
    is_definite,
)
from hippo_core.local._kinds import is_person_noun
from hippo_core.local._names import Name, Sort
from hippo_core.local._nodes import Nodes

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token


class Subject(NamedTuple):
    """What a clause says something of."""

    names: tuple[str, ...]
    part: str = ""
    """What of the name acts: "headquarters" in "its headquarters are in Bern"."""


class Subjects(Nodes):
    """Finds the subject of each clause, also where it stands in another one."""

    def __init__(self, doc: Doc, names: Mapping[int, Name], discourse: Discourse) -> None:
        """Prepare to read `doc`."""
        super().__init__(doc, names, discourse)
        self._subjects: dict[int, Subject] = {}

    def _subject(self, verb: Token) -> Subject:
        if verb.i not in self._subjects:
            self._subjects[verb.i] = Subject(())  # a broken tree may have no end
            self._subjects[verb.i] = self._find_subject(verb)
        return self._subjects[verb.i]

    def _find_subject(self, verb: Token) -> Subject:
        own = self._grammatical_subject(verb)
        if own is not None:
            return self._own_subject(verb, own)
        if find(verb, ("csubj", "csubjpass", "expl")) is not None:
            return Subject(())
        if verb.dep_ == "conj" and verb.head.pos_ in ("VERB", "AUX"):
            return self._subject(verb.head)
        agent = directed(verb)
        if agent is not None:
            return self._as_subject(agent)
        if verb.dep_ == "acl" and verb.tag_ in ("VBN", "VBG", "VBD"):
            return self._antecedent(verb.head)
        if verb.dep_ == "advcl" and verb.tag_ in ("VBN", "VBG") and not has_mark(verb):
            return self._subject(verb.head)
        return Subject(())

    def _grammatical_subject(self, verb: Token) -> Token | None:
        """Find the subject; of two, as in "his novel Dust was sold", the name."""
        found = [child for child in verb.lefts if child.dep_ in SUBJECTS]
        named = [child for child in found[1:] if self._name(child) is not None]
        return (named or found)[0] if found else find(verb, SUBJECTS)

    def _own_subject(self, verb: Token, own: Token) -> Subject:
        if own.lower_ in RELATIVES and own.pos_ != "NOUN":
            noun = verb.head
            is_place = self._has_sort(noun, Sort.PLACE) and noun.dep_ == "pobj"
            if own.lower_ == "who" and is_place:
                noun = noun.head.head  # "a sailor from Norway, who": the sailor
            return self._antecedent(noun) if verb.dep_ == "relcl" else Subject(())
        if verb.dep_ == "relcl" and any(child.lower_ == "whose" for child in own.children):
            return Subject(self._antecedent(verb.head).names, self._short(own))
        subject = self._as_subject(own)
        if verb.dep_ not in CLAUSES and not subject.part:
            people = self._people(own, subject.names)
            self._discourse.subject(subject.names, people, named=self._name(own) is not None)
        return subject

    def _people(self, token: Token, names: Sequence[str]) -> list[bool]:
        sorts = [self._name(noun) for noun in self._coordinated(token)]
        people = [name is not None and name.sort is Sort.PERSON for name in sorts]
        is_topic = self._discourse.is_topic_person() and self._discourse.topic in names
        if token.lower_ in ("he", "she") or is_topic or is_person_noun(token.lemma_.casefold()):
            return [True] * len(names)
        if names and self._discourse.is_thing(names[0]):
            return [False] * len(names)
        return (people + [False] * len(names))[: len(names)]

    def _as_subject(self, token: Token) -> Subject:
        nouns = self._coordinated(token)
        names = [name for noun in nouns for name in self._nodes(noun, acts=True)]
        if names:
            return Subject(tuple(dict.fromkeys(names)))
        is_partitive = token.lower_ in PARTITIVES and bool(list(self._of(token)))
        if token.pos_ not in ("NOUN", "PROPN") and not is_partitive:
            return Subject(())
        possessed = self._possessed(token)
        if possessed.names:
            return possessed
        for inner in self._of(token):
            if self._name(inner) or inner.pos_ == "PRON" or is_definite(inner):
                of = self._nodes(inner)
                if of:
                    is_part = token.lemma_ not in TRANSPARENT and not is_partitive
                    return Subject(of, self._short(token) if is_part else "")
        topic = self._discourse.anchor()
        is_notable = any(child.lower_ in NOTABLE for child in token.lefts)
        is_of_topic = is_definite(token) or is_counted(token) or is_notable
        if topic and token.lemma_ not in VAGUE and is_of_topic:
            # A titled text speaks of its title: "The first issue appeared in 1960."
            return Subject((topic,), self._short(token))
        whole = next((part for part in self._of(token) if is_definite(part)), None)
        if topic and is_partitive and whole is not None:
            return Subject((topic,), f"{token.lower_} of {self._short(whole)}")
        return Subject(self._common(token))

    def _possessed(self, noun: Token) -> Subject:
        """Read "its capital" and "his father's brother"."""
        for child in noun.lefts:
            whole = self._owner(child) if child.dep_ == "poss" and child.pos_ == "NOUN" else ()
            if whole:
                return Subject(whole, f"{child.text}'s {self._short(noun)}")
        return Subject(self._owner(noun), self._short(noun))

    def _common(self, noun: Token) -> tuple[str, ...]:
        """Give a noun that stands for nothing named: "the captain" of a text about captains."""
        phrase = self._phrase(noun)
        if not phrase and self._may_stand_bare(noun):
            phrase = self._bare(noun)
        return (phrase,) if phrase else ()

    def _antecedent(self, noun: Token) -> Subject:
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
                return Subject(self._nodes(governor))
            if noun.dep_ == "conj":
                noun = governor
            elif follows_of(noun) and governor.head.lemma_ in TRANSPARENT:
                noun = governor.head
            else:
                break
        return Subject(self._nodes(noun) or self._common(noun))

    def _owner(self, noun: Token) -> tuple[str, ...]:
        if any(child.dep_ == "poss" and child.lower_ == "whose" for child in noun.lefts):
            clause = next((t for t in noun.ancestors if t.dep_ == "relcl"), None)
            return self._antecedent(clause.head).names if clause is not None else ()
        return super()._owner(noun)

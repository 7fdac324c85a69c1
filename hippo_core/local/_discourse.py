"""What a passage's pronouns and definite descriptions stand for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from hippo_core.local._epithets import first_names
from hippo_core.local._kinds import (
    FEMALE_NOUNS,
    MALE_NOUNS,
    alike,
    is_person_noun,
    is_place_noun,
    is_thing_noun,
    may_mean_person,
)
from hippo_core.local._names import Name, Sort

_MALE = frozenset("he him his".split())
_FEMALE = frozenset("she her hers".split())
_NEUTER = frozenset("it its".split())
_PLURAL = frozenset("they their theirs".split())  # "them" is rarely the topic
_FIRM = frozenset(
    "company co corporation corp inc ltd limited group organisation organization records"
    " entertainment motors industries enterprises holdings plc brothers party society"
    " foundation".split()
)
_LIFE = re.compile(r"\bborn\b|\bdied\b|\d{4}\s*[-–]\s*(?:.*\b)?\d{4}")


class Discourse:
    """The passage's topic and the people and things named so far."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.topic = titles[0] if titles else None
        """What the passage is about: its title, else the first subject."""
        self._titled = bool(titles)
        self._topic_is_named = True
        self._topic_is_person: bool | None = None
        self._topic_is_thing = False
        self._topic_is_place = False
        self._topic_is_ship = False
        self._topic_pronouns = _MALE | _FEMALE
        self._pronouns: dict[str, frozenset[str]] = {}  # that stood for people so far
        self._sure: set[str] = set()  # those called "brother", "queen"
        self._last_people: list[str] = []  # the latest last
        self._person_acted = False  # in this sentence
        self._last_thing: str | None = None
        self._last_several: tuple[str, ...] = ()
        self._last_place: str | None = None
        self._place_in_sentence: str | None = None
        self._places: set[str] = set()
        self._people: dict[str, str] = {}
        self._called: dict[str, str] = {}  # by the very noun
        self._descriptions: dict[str, str] = {}  # by every noun of its kind

    def survey(
        self,
        words: Sequence[str],
        names: Sequence[Name],
        asides: Sequence[str],
        called: Collection[str],
        *,
        named: bool,
    ) -> None:
        """Judge from the whole text what the topic is, and of which pronoun if a person.

        Args:
            words: The text's words in lower case.
            names: Its names.
            asides: Its remarks in brackets.
            called: The nouns by which the first sentence says what the topic is.
            named: Whether the topic is a name, not a common noun.
        """
        self._topic_is_named = named
        if self.topic is None or self._topic_is_person is not None:
            return
        male = sum(word in _MALE for word in words)
        female = sum(word in _FEMALE for word in words)
        neuter = sum(word in _NEUTER for word in words)
        self._topic_is_person = (
            self._personal(names, male + female - neuter)
            + self._called_personal(called)
            + 2 * any(_LIFE.search(aside) for aside in asides[:1])
            - 3 * self._is_described(words)
        ) >= 2
        if self._topic_is_person:
            gendered = [noun for noun in called if noun in MALE_NOUNS | FEMALE_NOUNS]
            is_female = gendered[0] in FEMALE_NOUNS if gendered else False
            if female != male:
                is_female = female > male
            self._topic_pronouns = _FEMALE if is_female else _MALE
            self._learn_person(self.topic, overwrite=True)
        else:
            self._topic_is_thing = any(map(is_thing_noun, called))
            self._topic_is_place = any(
                name.sort is Sort.PLACE and name.text == self.topic for name in names
            ) and not any(is_thing_noun(noun) and not is_place_noun(noun) for noun in called)
            # "Golden Gate Bridge" is "the bridge", "University of Bern" "the university".
            head = re.split(r"\s(?:of|in|for|at|on|from)\s", self.topic)[0].split()[-1]
            self.describe(self.topic, head.casefold())
        for noun in called:
            self.describe(self.topic, noun)

    def _personal(self, names: Sequence[Name], pronouns: int) -> int:
        parts = (self.topic or "").split()
        sorts = [name.sort for name in names if name.text == self.topic]
        # "Horace Parlan": the text may only say "Parlan", or only "he" before any other name.
        by_part = len(parts) > 1 and any(
            name.text in (parts[0], parts[-1]) and name.sort is not Sort.NUMBER for name in names
        )
        looks_personal = 1 < len(parts) < 5 and all(part[0].isupper() for part in parts)
        return (
            2 * (sorts[:1] == [Sort.PERSON])
            - 2 * (sorts[:1] == [Sort.PLACE])
            + (pronouns > 0) * (1 + (by_part or (looks_personal and not sorts)))
            - (pronouns < 0)
        )

    @staticmethod
    def _called_personal(called: Collection[str]) -> int:
        if any(map(is_person_noun, called)):
            return 4
        return -4 * any(map(is_thing_noun, called))

    def _is_described(self, words: Sequence[str]) -> bool:
        """Whether the text says "the lake" of what is titled "Green Lake"."""
        parts = (self.topic or "").casefold().split()
        return "the" not in parts and ("the", parts[-1]) in pairwise(words)

    def name(self, name: Name, *, acts: bool = False) -> str:
        """Give the fullest name met for this one: "Curie" after "Marie Curie" is Marie Curie.

        Args:
            name: As the text has it.
            acts: Whether it is a subject, which what looks like a place then is not.
        """
        if name.sort in (Sort.DATE, Sort.NUMBER) or (name.sort is Sort.PLACE and not acts):
            return name.text
        known = self._people.get(name.text.casefold())
        if known is None and self.topic and not self._topic_is_person and name.sort is Sort.OTHER:
            # A company or a band may go by its first word.
            first, _, rest = self.topic.rpartition(" ")
            if first == name.text and rest.casefold().strip(".") in _FIRM:
                return self.topic
        return known or name.text

    def alias(self, short: str, full: str) -> None:
        """Let one name stand for another from here on."""
        if short.casefold() != full.casefold():
            self._people.setdefault(short.casefold(), full)

    def is_topic_person(self) -> bool:
        """Say whether the topic is known to be a person."""
        return bool(self._topic_is_person)

    def anchor(self) -> str | None:
        """Give the topic if it is a name, of which "the first issue" may be a part."""
        return self.topic if self._topic_is_named else None

    def is_thing(self, name: str) -> bool:
        """Say whether a name is the topic's, and that no person."""
        return name == self.topic and self._topic_is_thing

    def begin_sentence(self) -> None:
        """Note that what is read from here on is another sentence."""
        self._person_acted = False
        self._place_in_sentence = None

    def mention(self, name: Name, *, as_place: bool = False) -> None:
        """Note a name in the order of reading."""
        text = self.name(name)
        if name.sort is Sort.PERSON and not self.is_thing(text):
            self._learn_person(text)
            if text != self.topic:
                self._note_person(text, behind=self._person_acted)
        is_place = name.sort is Sort.PLACE and name.text.casefold() not in self._people
        is_place = is_place or (as_place and name.sort in (Sort.PERSON, Sort.OTHER))
        if is_place and text != self.topic:
            self._last_place = self._place_in_sentence = text
            self._places.add(text)

    def subject(self, names: Sequence[str], people: Sequence[bool], *, named: bool) -> None:
        """Note a clause's subject, to which the next pronoun may point."""
        if not names:
            return
        if self.topic is None and not self._titled and named:
            self.topic = names[0]
            self._topic_is_person = people[0]
        if len(names) > 1:
            self._last_several = tuple(names)
        elif people[0]:
            self._note_person(names[0])
            self._person_acted = True
        else:
            self._last_thing = names[0]

    def _note_person(self, name: str, *, behind: bool = False) -> None:
        """Put a person last, or behind the one who acts in this sentence."""
        last = self._last_people[-1:]
        if behind and last == [name]:
            return
        if name in self._last_people:
            self._last_people.remove(name)
        self._last_people.insert(len(self._last_people) - (behind and bool(last)), name)

    def describe(self, name: str, noun: str) -> None:
        """Note that a name was called a such-and-such: "the bridge" may then mean it."""
        if noun in MALE_NOUNS or noun in FEMALE_NOUNS:
            self._sure.add(name)
            self._pronouns[name] = _MALE if noun in MALE_NOUNS else _FEMALE
        if name == self.topic:
            self._topic_is_place = self._topic_is_place or is_place_noun(noun)
            if "ship" in alike(noun):
                self._topic_is_ship = True
            if not self._titled and is_person_noun(noun):
                self._topic_is_person = True
                self._note_person(name)
        for known, words in ((self._called, {noun}), (self._descriptions, alike(noun))):
            for word in sorted(words):
                if known.get(word) != self.topic or name == self.topic:
                    known[word] = name

    def described(self, noun: str) -> str | None:
        """Find what a definite description with this head noun stands for."""
        is_topics = self._topic_is_person and may_mean_person(noun)
        found = self._called.get(noun) or self._descriptions.get(noun)
        return found or (self.topic if is_topics else None)

    def place(self) -> tuple[str, ...]:
        """Find where "there" is: in the place just named, else at the topic or the last place."""
        topic = self.topic if self._topic_is_place else None
        found = self._place_in_sentence or topic or self._last_place
        return (found,) if found else ()

    def pronoun(self, word: str) -> tuple[str, ...]:
        """Find what a pronoun stands for; nothing if that is a guess."""
        word = word.casefold()
        found: str | None = None
        if word in _MALE or word in _FEMALE:
            found = self._person(word)
        elif word in _NEUTER:
            found = self._last_thing if self._topic_is_person else self.topic
            if not (self._titled and self._topic_is_named):
                found = self._last_thing or found
        elif word in _PLURAL:
            if self._last_several:
                return self._last_several
            found = None if self._topic_is_person else self.topic
        return (found,) if found else ()

    def _person(self, word: str) -> str | None:
        if self._titled and self._topic_is_person and word in self._topic_pronouns:
            return self.topic
        if self._topic_is_ship and word in _FEMALE:
            return self.topic
        is_topic_out = self._titled and self._topic_is_person
        # Who acts and was "she" goes on being so; else who was called "daughter" fits better than
        # someone named since.
        people = sorted(reversed(self._last_people), key=lambda name: name not in self._sure)
        if self._last_people and word in self._pronouns.get(self._last_people[-1], ()):
            people.insert(0, self._last_people[-1])
        for name in people:
            if word in self._pronouns.get(name, (word,)) and not (
                is_topic_out and name == self.topic
            ):
                self._pronouns.setdefault(name, _MALE if word in _MALE else _FEMALE)
                return name
        if self._topic_is_thing or (self._titled and self._topic_is_person):
            return None
        # Nobody is known for a person; a name that acted is the likelier one.
        acted = self._last_thing
        return acted if acted and acted[0].isupper() and acted not in self._places else self.topic

    def _learn_person(self, name: str, *, overwrite: bool = False) -> None:
        words = [word for word in name.split() if word.rstrip(".").casefold() not in ("jr", "sr")]
        if len(words) < 2:
            return
        shorts = first_names(name) or (words[-1], f"{words[0]} {words[-1]}", words[0])
        for short in shorts:
            if overwrite or short.casefold() not in self._people:
                self._people[short.casefold()] = name

"""What a passage's pronouns and definite descriptions stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hippo_core.local._names import Name, Sort

_MALE = frozenset("he him his himself".split())
_FEMALE = frozenset("she her hers herself".split())
_NEUTER = frozenset("it its itself".split())
_PLURAL = frozenset("they their theirs".split())  # "them" is rarely the topic
_KINDS: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        "film movie picture feature documentary",
        "song single track tune",
        "album record ep lp",
        "book novel novella work story",
        "series show program programme sitcom",
        "company firm corporation business manufacturer",
        "team club side squad",
        "band group duo trio quartet",
        "city town village municipality settlement community commune hamlet",
        "school college university institution",
        "magazine journal newspaper periodical publication",
        "episode installment",
        "ship vessel boat",
        "building structure",
        "channel station network",
    )
)
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
        self._topic_is_person: bool | None = None
        self._topic_pronouns = _MALE | _FEMALE
        self._last_person: str | None = None
        self._last_thing: str | None = None
        self._last_several: tuple[str, ...] = ()
        self._people: dict[str, str] = {}
        self._descriptions: dict[str, str] = {}

    def survey(self, words: Sequence[str], names: Sequence[Name], asides: Sequence[str]) -> None:
        """Judge from the whole text whether the topic is a person, and of which pronoun."""
        if self.topic is None or self._topic_is_person is not None:
            return
        male = sum(word in _MALE for word in words)
        female = sum(word in _FEMALE for word in words)
        neuter = sum(word in _NEUTER for word in words)
        parts = self.topic.split()
        sorts = [name.sort for name in names if name.text == self.topic]
        # "Horace Parlan": the text may only say "Parlan", or only "he" before any other name.
        by_part = len(parts) > 1 and any(
            name.text in (parts[0], parts[-1]) and name.sort is not Sort.NUMBER for name in names
        )
        looks_personal = 1 < len(parts) < 5 and all(part[0].isupper() for part in parts)
        evidence = (
            2 * (bool(sorts) and sorts[0] is Sort.PERSON)
            - 2 * (bool(sorts) and sorts[0] is Sort.PLACE)
            + 2 * any(_LIFE.search(aside) for aside in asides[:1])
            + (male + female > neuter) * (1 + (by_part or (looks_personal and not sorts)))
            - (neuter > male + female)
            - 3 * (("the", parts[-1].casefold()) in pairwise(words))  # "the lake"
        )
        self._topic_is_person = evidence >= 2
        if self._topic_is_person:
            self._topic_pronouns = _FEMALE if female > male else _MALE
            self._learn_person(self.topic, overwrite=True)
        else:
            # "Golden Gate Bridge" is "the bridge", "University of Bern" "the university".
            head = re.split(r"\s(?:of|in|for|at|on|from)\s", self.topic)[0].split()[-1]
            self.describe(self.topic, head.casefold())

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

    def mention(self, name: Name) -> None:
        """Note a name in the order of reading."""
        text = self.name(name)
        if name.sort is Sort.PERSON:
            self._learn_person(text)
            if text != self.topic:
                self._last_person = text

    def subject(self, names: Sequence[str], people: Sequence[bool]) -> None:
        """Note a clause's subject, to which the next pronoun may point."""
        if not names:
            return
        if self.topic is None and not self._titled:
            self.topic = names[0]
            self._topic_is_person = people[0]
        if len(names) > 1:
            self._last_several = tuple(names)
        elif people[0]:
            self._last_person = names[0]
        else:
            self._last_thing = names[0]

    def describe(self, name: str, noun: str) -> None:
        """Note that a name was called a such-and-such: "the bridge" may then mean it."""
        words = next((kind for kind in _KINDS if noun in kind), frozenset({noun}))
        for word in sorted(words):
            if self._descriptions.get(word) != self.topic or name == self.topic:
                self._descriptions[word] = name

    def described(self, noun: str) -> str | None:
        """Find what a definite description with this head noun stands for."""
        return self._descriptions.get(noun)

    def pronoun(self, word: str) -> tuple[str, ...]:
        """Find what a pronoun stands for; nothing if that is a guess."""
        word = word.casefold()
        found: str | None = None
        if word in _MALE or word in _FEMALE:
            is_topics = self._topic_is_person and word in self._topic_pronouns
            found = self.topic if is_topics else self._last_person
            if not self._titled:
                found = found or self.topic
        elif word in _NEUTER:
            found = self._last_thing if self._topic_is_person else self.topic
            if not self._titled:
                found = self._last_thing or found
        elif word in _PLURAL:
            if self._last_several:
                return self._last_several
            found = None if self._topic_is_person else self.topic
        return (found,) if found else ()

    def _learn_person(self, name: str, *, overwrite: bool = False) -> None:
        words = [word for word in name.split() if word.rstrip(".").casefold() not in ("jr", "sr")]
        if len(words) < 2:
            return
        for short in (words[-1], f"{words[0]} {words[-1]}", words[0]):
            if overwrite or short.casefold() not in self._people:
                self._people[short.casefold()] = name

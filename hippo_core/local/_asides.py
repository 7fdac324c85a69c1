"""Triples out of a remark in brackets after a name: life dates, other names, places."""

from __future__ import annotations

import re

from hippo_core.local._names import Name, Sort
from hippo_core.types import Triple

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_DATE = (
    rf"(?:\d{{1,2}}\s+{_MONTH}\s+\d{{4}}|{_MONTH}\s+\d{{1,2}},?\s+\d{{4}}"
    rf"|{_MONTH}\s+\d{{4}}|\d{{4}})"
)
_PLACE = r"[A-Z][\w.'-]*(?:\s(?:[A-Z][\w.'-]*|of|the|de|la|am|upon|on))*"
_BORN = re.compile(
    rf"\b(?:born|b\.|née)\s+(?:(?P<name>(?!{_MONTH}){_PLACE}),?\s*(?:;|on)?\s+)?(?:(?:on|in|c\.|circa)\s+)?"
    rf"(?P<date>{_DATE})?(?:,?\s*(?:in|at)\s+(?P<place>{_PLACE}))?"
)
_DIED = re.compile(
    rf"\b(?:died|d\.)\s+(?:(?:on|in)\s+)?(?P<date>{_DATE})?(?:\s+in\s+(?P<place>{_PLACE}))?"
)
_LIFE = re.compile(
    rf"(?P<born>{_DATE})(?:,?\s+(?:in\s+)?(?P<birthplace>{_PLACE}))?,?\s*[-–—]\s*(?P<died>{_DATE})"
    rf"(?:,?\s+(?:in\s+)?(?P<deathplace>{_PLACE}))?"
)
_ACRONYM = re.compile(r"[A-Z][A-Z0-9&./-]{1,9}s?")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_MONTHS = re.compile(_MONTH)
_PROPER = re.compile(rf"(?:of\s+|from\s+)?(?P<name>{_PLACE})")


def read_aside(name: Name, text: str, *, of_life: bool) -> list[Triple]:
    """Read a remark after `name`; `of_life` says that two dates are a birth and a death."""
    subject, text = name.text, text.strip()
    if _ACRONYM.fullmatch(text) and name.sort is not Sort.PERSON:
        return [Triple(subject, "is also called", text)]
    if _YEAR.fullmatch(text) and name.sort is not Sort.PERSON:
        return [Triple(subject, "dates from", text)]
    found: list[tuple[str, str | None]] = []
    life = _LIFE.search(text) if of_life else None
    if life:
        found += [("was born on", life["born"]), ("was born in", life["birthplace"])]
        found += [("died on", life["died"]), ("died in", life["deathplace"])]
    else:
        born, died = _BORN.search(text), _DIED.search(text)
        if born:
            found += [("was born", born["name"])] if born["name"] != born["place"] else []
            found += [("was born on", born["date"]), ("was born in", born["place"])]
        if died:
            found += [("died on", died["date"]), ("died in", died["place"])]
    if found:
        return [Triple(subject, relation, value) for relation, value in found if value]
    proper = _PROPER.fullmatch(text)
    if proper and not _MONTHS.search(text):
        relation = "is of" if name.sort is Sort.PERSON else "is also called"
        return [Triple(subject, relation, proper["name"])]
    return []

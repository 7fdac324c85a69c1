"""Names of one person in several pieces: "Casimir III the Great", "Anne of Denmark"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

ROLES = frozenset(
    "president king queen prince princess emperor empress pope bishop archbishop cardinal sir"
    " dame lord lady baron count duke duchess dr doctor professor prof mr mrs ms miss captain"
    " colonel general lieutenant major sergeant admiral senator governor mayor minister chancellor"
    " congressman congresswoman representative judge justice chief director chairman coach"
    " premier vice co-founder ambassador secretary pastor reverend rev".split()
)
"""Words before a name that are no part of it; "Saint" is one."""
_NUMERAL = re.compile(r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})")
_NO_BEARERS = frozenset(
    "battle treaty war house kingdom part book chapter act volume type class phase bank university"
    " city town village lake mount bay isle isles gulf church temple tower duke county".split()
)


def first_names(name: str) -> tuple[str, ...]:
    """Give the short forms of a name with a numeral or an epithet; none if it has neither.

    >>> first_names("Casimir III the Great"), first_names("Anne of Denmark")
    (('Casimir III', 'Casimir'), ('Anne',))
    >>> first_names("Ada Lovelace")
    ()
    """
    head = re.split(r" (?:the|of) ", name)[0].split()
    first = head[:-1] if len(head) > 1 and is_numeral(head[-1]) else head
    if first == name.split() or len(first) > 2:
        return ()
    return tuple(form for form in dict.fromkeys((" ".join(head), " ".join(first))) if form != name)


def is_numeral(text: str) -> bool:
    """Say whether a word is a Roman numeral as rulers bear them."""
    return bool(_NUMERAL.fullmatch(text))


def epithets(doc: Doc, labels: Mapping[int, str]) -> Iterator[Span]:
    """Propose the names that hold a numeral, "the Great" or, of a person, "of Aragon"."""
    for token in doc:
        if not _may_bear(token):
            continue
        start, end = _start(token), token.i + 1
        has_numeral = end < len(doc) and _is_borne(doc[end])
        if has_numeral:
            end = _after_surname(doc, end + 1, labels)
        elif start < token.i:
            continue  # who has a surname needs no epithet
        after_the = _after_the(doc, end)
        is_person = has_numeral or after_the > end or labels.get(token.i) == "PERSON"
        end = _after_of(doc, after_the) if is_person else after_the
        if end > token.i + 1:
            yield doc[start:end]


def _is_borne(token: Token) -> bool:
    """Whether a word is a numeral, which may have kept the full stop of its sentence."""
    is_last = token.i + 1 == len(token.doc) or not _is_capitalised(token.nbor())
    return is_numeral(token.text) or (is_last and is_numeral(token.text.removesuffix(".")))


def _may_bear(token: Token) -> bool:
    return (
        _is_capitalised(token)
        and len(token.text) > 2
        and token.pos_ in ("PROPN", "ADJ", "NOUN")
        and not is_numeral(token.text)
        and token.lower_ not in _NO_BEARERS
        and token.lower_ not in ROLES
    )


def _start(token: Token) -> int:
    """Go back over first names, not over "King"."""
    start = token.i
    while start > token.sent.start:
        left = token.doc[start - 1]
        if left.pos_ != "PROPN" or not _is_capitalised(left) or left.lower_ in ROLES:
            break
        start -= 1
    return start


def _after_surname(doc: Doc, end: int, labels: Mapping[int, str]) -> int:
    """Take in the second name of "Ptolemy I Soter"."""
    if end < len(doc) and doc[end].pos_ == "PROPN" and labels.get(end) in (None, "PERSON"):
        return end + (_is_capitalised(doc[end]) and not doc[end].is_sent_start)
    return end


def _after_the(doc: Doc, end: int) -> int:
    """Take in "the Great", but not "the Great War" nor "the Bible" given to someone."""
    if end + 1 >= len(doc) or doc[end].text != "the" or not _is_capitalised(doc[end + 1]):
        return end
    goes_on = end + 2 < len(doc) and _is_capitalised(doc[end + 2])
    is_given = doc[end + 1].dep_ in ("dobj", "oprd") and doc[end - 1].dep_ == "dative"
    is_epithet = not goes_on and not is_given and doc[end + 1].ent_type_ not in ("ORG", "NORP")
    return end + 2 if is_epithet else end


def _after_of(doc: Doc, end: int) -> int:
    """Take in "of Aragon"."""
    if end + 1 >= len(doc) or doc[end].text != "of":
        return end
    stop = end + 1
    while stop < len(doc) and _is_capitalised(doc[stop]) and doc[stop].pos_ == "PROPN":
        stop += 1
    return stop if stop > end + 1 else end


def _is_capitalised(token: Token) -> bool:
    return token.text[0].isupper() and token.text.replace("-", "").isalpha()

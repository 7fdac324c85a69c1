"""The names in a parsed text, each merged into one token so that rules see it whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from hippo_core.local._stand_ins import StandIns

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token


class Sort(Enum):
    """What a name is a name of, as far as the rules care."""

    PERSON = auto()
    PLACE = auto()
    OTHER = auto()
    DATE = auto()
    NUMBER = auto()


class Name(NamedTuple):
    """A name as nodes and entities show it."""

    text: str
    sort: Sort


_SORTS = {
    "PERSON": Sort.PERSON,
    "GPE": Sort.PLACE,
    "LOC": Sort.PLACE,
    "FAC": Sort.PLACE,
    "ORG": Sort.OTHER,
    "WORK_OF_ART": Sort.OTHER,
    "EVENT": Sort.OTHER,
    "PRODUCT": Sort.OTHER,
    "LAW": Sort.OTHER,
    "NORP": Sort.OTHER,
    "DATE": Sort.DATE,
    "MONEY": Sort.NUMBER,
    "PERCENT": Sort.NUMBER,
}
_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_ROLES = frozenset(
    "president king queen prince princess emperor empress pope bishop archbishop cardinal saint sir"
    " dame lord lady baron count duke duchess dr doctor professor prof mr mrs ms miss captain"
    " colonel general lieutenant major sergeant admiral senator governor mayor minister chancellor"
    " congressman congresswoman representative judge justice chief director chairman coach"
    " premier vice co-founder ambassador secretary pastor reverend rev".split()
)
_RANKS = frozenset("editor executive officer vice deputy assistant head of".split())
# Capitalised nouns that make one name with "of" and what follows.
_BODIES = frozenset(
    "university college institute institution academy school faculty department ministry bank house"
    " church cathedral abbey museum library gallery bay gulf strait cape isle island sea lake river"
    " mount battle siege treaty war order kingdom republic duchy county province state commonwealth"
    " federation union association society league council board court journal history book art arts"
    " bureau office court parliament hall tower palace temple city town port isles islands empire"
    " archdiocese diocese centre center club army knights".split()
)
_LISTED = ("PERSON", "GPE", "LOC", "NORP", "ORG")  # sorts of which commas make a list
_HYPHENS = ("-", "–")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?:'s|(?<=s)')$")
_EDGES = " \"',.;:!?-–—()[]*_/\\"


def clean_name(text: str) -> str:
    """Strip quotes, possessive 's and a leading article, which a name of one word keeps.

    >>> clean_name("the University of Warsaw's"), clean_name("The Who")
    ('University of Warsaw', 'The Who')
    """
    text = " ".join(text.split()).strip(' "*_')
    text = _POSSESSIVE.sub("", text)
    abbreviated = text.endswith(".") and bool(re.search(r"\b[A-Z][a-z]{0,2}\.$", text))
    text = text.strip(_EDGES) + ("." if abbreviated else "")
    bare = _ARTICLE.sub("", text)
    keeps_article = text[:3] == "The" and " " not in bare and not bare.isupper()
    return text if keeps_article else bare


def title_names(title: str, body: str) -> list[str]:
    """List the ways in which a text may write its title; the first is the node.

    >>> title_names("The Hurt Locker (film)", "The Hurt Locker is a film.")
    ['Hurt Locker']
    >>> title_names("Montebello, New York", "Montebello is a village.")
    ['Montebello', 'Montebello, New York']
    """
    plain = re.sub(r"\s*\([^()]*\)\s*$", "", title).strip()
    names = [clean_name(plain or title)]
    head, _, tail = plain.partition(", ")
    is_place = re.fullmatch(r"(?!(?:Jr|Sr|Inc|Ltd|Co)\b)(?:[A-Z][\w.'-]*(?:,? |$))+", tail)
    if is_place and head in body and plain not in body:
        names.insert(0, clean_name(head))
    return [name for name in names if re.search(r"\w", name)]


def merge_names(doc: Doc, titles: Sequence[str], stand_ins: StandIns) -> dict[int, Name]:
    """Merge each name, and each hyphenated word, into one token of `doc`.

    Returns:
        The names by the character at which their token begins.
    """
    names: dict[int, Name] = {}
    taken = [False] * len(doc)
    spans: list[Span] = []
    for span, sort in _candidates(doc, titles, stand_ins):
        if span is None or any(taken[span.start : span.end]) or not _in_one_sentence(span):
            continue
        if sort is not None:
            text = clean_name(stand_ins.restore(span.text))
            text = titles[0] if _is_title(text, titles) else text
            if not re.search(r"\w", text):
                continue
            names[span.start_char] = Name(text, sort)
        taken[span.start : span.end] = [True] * len(span)
        spans.append(span)
    with doc.retokenize() as retokenizer:
        for span in spans:
            if len(span) > 1:
                retokenizer.merge(span)
    return names


def _is_title(text: str, titles: Sequence[str]) -> bool:
    return text.casefold() in {title.casefold() for title in titles}


def _candidates(
    doc: Doc, titles: Sequence[str], stand_ins: StandIns
) -> Iterator[tuple[Span | None, Sort | None]]:
    """Propose spans, the surest first; a sort of None is a word, not a name."""
    labels = {token.i: token.ent_type_ for token in doc if token.ent_type_}
    for span in _title_spans(doc, titles):
        yield span, _SORTS.get(labels.get(span.end - 1, ""), Sort.OTHER)
    yield from _recognised(doc, labels, stand_ins)
    for token in doc:
        if stand_ins.has(token.text):
            yield doc[token.i : token.i + 1], Sort.OTHER
    for span in _capitalised_runs(doc, labels):
        yield span, Sort.OTHER
    for span in _hyphenated(doc):
        yield span, None


def _title_spans(doc: Doc, titles: Sequence[str]) -> Iterator[Span]:
    for title in sorted(titles, key=len, reverse=True):
        flags = re.IGNORECASE if len(title) > 3 else 0
        for match in re.finditer(rf"(?<!\w){re.escape(title)}(?!\w)", doc.text, flags):
            span = doc.char_span(*match.span(), alignment_mode="strict")
            if span is not None and not _goes_on(span):
                yield span


def _goes_on(span: Span) -> bool:
    """Whether the span is but an end of a longer name: "Warsaw" in "Warsaw University"."""
    doc = span.doc
    after = doc[span.end] if span.end < len(doc) else None
    before = doc[span.start - 1] if span.start else None
    is_modifier = span[-1].dep_ in ("compound", "nmod") and span[-1].head.i >= span.end
    follows = after is not None and _is_capitalised_name(after) and is_modifier
    precedes = (
        before is not None
        and _is_capitalised_name(before)
        and before.dep_ == "compound"
        and before.lower_ not in _ROLES
        and before.head.i >= span.start
        and not span[0].is_sent_start
    )
    return follows or precedes


def _modifies(span: Span) -> bool:
    return span.root.dep_ in ("amod", "compound", "nmod", "npadvmod")


def _recognised(
    doc: Doc, labels: Mapping[int, str], stand_ins: StandIns
) -> Iterator[tuple[Span | None, Sort]]:
    """Give the entity recogniser's names, then its dates: "2012 Summer Olympics" is a name."""
    entities = [(entity, _SORTS.get(entity.label_)) for entity in _joined_people(doc)]
    for entity, sort in entities:
        is_adjective = entity.label_ == "NORP" and _modifies(entity)
        if sort is not None and sort is not Sort.DATE and not is_adjective:
            span = _whole_name(entity, labels)
            yield span, Sort.OTHER if stand_ins.has(span.text) else sort
    for entity, sort in entities:
        if sort is Sort.DATE and not any(stand_ins.has(token.text) for token in entity):
            yield _date_span(entity), sort


def _single(doc: Doc) -> Iterator[Span]:
    """Give the recognised entities, those that are lists item by item."""
    for entity in doc.ents:
        start = entity.start
        for token in entity if entity.label_ in _LISTED and " and " not in entity.text else ():
            is_cut = token.text in (",", "-", "–") and bool(token.whitespace_) and start < token.i
            after = doc[token.i + 1].lower_.strip(".") if token.i + 1 < entity.end else ""
            if is_cut and after not in ("inc", "ltd", "llc", "jr", "sr", "iii"):
                yield _labelled(doc, start, token.i, entity.label_)
                start = token.i + 1
        if start < entity.end:
            yield _labelled(doc, start, entity.end, entity.label_)


def _labelled(doc: Doc, start: int, end: int, label: str) -> Span:
    from spacy.tokens import Span

    return Span(doc, start, end, label)


def _joined_people(doc: Doc) -> Iterator[Span]:
    """Give the recognised entities; a person's name in two pieces is one."""
    waiting: Span | None = None
    for entity in _single(doc):
        if waiting is not None and _continues(waiting, entity):
            waiting = _labelled(doc, waiting.start, entity.end, "PERSON")
            continue
        if waiting is not None:
            yield waiting
        waiting = entity
    if waiting is not None:
        yield waiting


def _continues(person: Span, entity: Span) -> bool:
    return (
        person.label_ == "PERSON"
        and person.end == entity.start
        and not entity[0].is_sent_start
        and _is_capitalised_name(entity[0])
        and (entity.label_ == "PERSON" or entity.start <= person.root.head.i < entity.end)
    )


def _date_span(entity: Span) -> Span | None:
    """Keep dates that name a point in time; "monthly" and "each year" do not."""
    text = entity.text.casefold()
    if re.search(r"\b(?:years?|months?|weeks?|days?|hours?|age[ds]?)\b", text):
        return None
    if not re.search(r"\d{3,4}|\d+(?:st|nd|rd|th)?\s+centur", text) and not any(
        month in text.split() for month in _MONTHS
    ):
        return None
    start = entity.start + (entity[0].lower_ in ("the", "early", "about", "around") and 1)
    while start < entity.end - 1 and entity.doc[start].lower_ in ("the", "in", "on", "late"):
        start += 1
    return entity.doc[start : entity.end]


def _whole_name(entity: Span, labels: Mapping[int, str]) -> Span:
    """Drop articles, roles and 's from a recognised entity, and add the parts it misses."""
    doc, start, end = entity.doc, entity.start, entity.end
    while end - start > 1 and (
        doc[end - 1].tag_ == "POS"
        or doc[end - 1].is_punct
        or doc[end - 1].lower_ in ("of", "the", "and", "for", "in")
    ):
        if doc[end - 1].text == ".":
            break
        end -= 1
    while start < end - 1 and (
        doc[start].is_punct
        or doc[start].lower_ in ("the", "a", "an", "its", "his", "her", "their")
        or (entity.label_ == "PERSON" and doc[start].lower_.rstrip(".s") in _ROLES)
        or (entity.label_ == "PERSON" and doc[start].pos_ in ("NOUN", "ADJ", "ADP"))
    ):
        start += 1
    start, end = _with_hyphens(doc, start, end)
    sentence = doc[start].sent
    while start > sentence.start:
        left = doc[start - 1]
        if not (
            _is_capitalised_name(left)
            and left.i not in labels
            and left.dep_ in ("compound", "nmod")
            and start <= left.head.i < end
            and left.lower_.rstrip(".") not in _ROLES
        ) and not _is_its_year(left, start, end):
            break
        start -= 1
    while end < sentence.end:
        right = doc[end]
        if not (
            _is_capitalised_name(right)
            and labels.get(right.i) not in ("DATE", "PERSON", "GPE")
            and (start <= right.head.i < end or doc[end - 1].head.i == right.i)
        ):
            break
        end += 1
    return _with_of(doc, start, end, labels)


def _is_its_year(token: Token, start: int, end: int) -> bool:
    """Whether a year belongs to the name after it: "2012 Summer Olympics"."""
    return bool(
        re.fullmatch(r"[12]\d{3}", token.text)
        and token.i == start - 1
        and start <= token.head.i < end
        and token.dep_ in ("nummod", "compound", "nmod")
    )


def _with_hyphens(doc: Doc, start: int, end: int) -> tuple[int, int]:
    """Widen a span to whole hyphenated words, and over recognised names that hang on them."""
    while start >= 2 and doc[start - 1].text in _HYPHENS and _touch(doc[start - 2], doc[start - 1]):
        if not _touch(doc[start - 1], doc[start]) or not doc[start - 2].text[-1].isalnum():
            break
        start -= 2
        while start and doc[start].ent_iob_ == "I":
            start -= 1
    while end + 1 < len(doc) and doc[end].text in _HYPHENS and _touch(doc[end - 1], doc[end]):
        if not _touch(doc[end], doc[end + 1]) or not doc[end + 1].text[0].isalnum():
            break
        end += 2
        while end < len(doc) and doc[end].ent_iob_ == "I" and doc[end - 1].ent_iob_ != "O":
            end += 1
    return start, end


def _with_of(doc: Doc, start: int, end: int, labels: Mapping[int, str]) -> Span:
    """Take in "of X" after the name of a body: "University" + "of Copenhagen"."""
    if end + 1 < len(doc) and doc[end].lower_ in ("of", "for") and not doc[end].is_sent_start:
        head, stop = doc[end - 1], end + 1
        if doc[stop].lower_ == "the" and stop + 1 < len(doc):
            stop += 1
        first = stop
        while stop < len(doc) and (
            _is_capitalised_name(doc[stop])
            or (
                stop > first
                and doc[stop].lower_ in ("and", "of", "de", "&")
                and stop + 1 < len(doc)
                and _is_capitalised_name(doc[stop + 1])
                and doc[stop + 1].i in labels
                and doc[stop].i in labels
            )
        ):
            stop += 1
        if stop > first and head.text[0].isupper() and head.lower_ in _BODIES:
            return doc[start:stop]
    return doc[start:end]


def _is_capitalised_name(token: Token) -> bool:
    return bool(token.pos_ == "PROPN" and token.text[0].isupper())


def _capitalised_runs(doc: Doc, labels: Mapping[int, str]) -> Iterator[Span]:
    """Find names that the entity recogniser missed: runs of capitalised proper nouns."""
    position = 0
    while position < len(doc):
        token = doc[position]
        if not _is_capitalised_name(token) or token.i in labels:
            position += 1
            continue
        end = position + 1
        while (
            end < len(doc)
            and not doc[end].is_sent_start
            and (
                (_is_capitalised_name(doc[end]) and doc[end].i not in labels)
                or (
                    doc[end].lower_ in ("de", "la", "von", "van", "der", "&")
                    and end + 1 < len(doc)
                    and _is_capitalised_name(doc[end + 1])
                )
            )
        ):
            end += 1
        start, end = _with_hyphens(doc, position, end)
        start -= start > 0 and _is_its_year(doc[start - 1], start, end)
        words = doc[start:end]
        is_role = all(word.lower_ in _ROLES or word.lower_ in _RANKS for word in words)
        is_owned = any(word.tag_ == "PRP$" for word in words.root.lefts)  # "its Impact Factor"
        if not (is_role or is_owned):
            yield _with_of(doc, start, end, labels)
        position = max(end, position + 1)


def _hyphenated(doc: Doc) -> Iterator[Span]:
    position = 1
    while position + 1 < len(doc):
        start = position - 1
        end = position
        while (
            end + 1 < len(doc)
            and doc[end].text in _HYPHENS
            and _touch(doc[end - 1], doc[end])
            and _touch(doc[end], doc[end + 1])
            and doc[end - 1].text[-1].isalnum()
            and doc[end + 1].text[0].isalnum()
        ):
            end += 2
        if end > position:
            yield doc[start:end]
        position = end + 1 if end > position else position + 1


def _touch(left: Token, right: Token) -> bool:
    return not left.whitespace_ and left.i + 1 == right.i


def _in_one_sentence(span: Span) -> bool:
    return not any(token.is_sent_start for token in span[1:])

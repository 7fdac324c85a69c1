"""The names in a parsed text, each merged into one token so that rules see it whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hippo_core.local._epithets import ROLES, epithets
from hippo_core.local._names import Name, Sort, clean_name
from hippo_core.local._spans import (
    HYPHENS,
    capitalised_runs,
    date_span,
    is_capitalised_name,
    joined_people,
    touch,
    whole_name,
)
from hippo_core.local._stand_ins import StandIns

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

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
_ROLES_IN_CLAUSE = ("nsubj", "nsubjpass", "dobj", "pobj")


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
    for span in spans:
        _hang_by_one_word(span)
    with doc.retokenize() as retokenizer:
        for span in spans:
            if len(span) > 1:
                retokenizer.merge(span, attrs={"DEP": _role_in_clause(span)})
    return names


def _hang_by_one_word(span: Span) -> None:
    """Let a name's first word with a role carry it, where the parser saw more than one word do so.

    In "founded by Casimir III the Great" it takes "the Great" for a measure of the founding.
    """
    inside = range(span.start, span.end)
    outer = [token for token in span if token.head.i not in inside or token.head.i == token.i]
    carrier = next((token for token in outer if token.dep_ in _ROLES_IN_CLAUSE), None)
    if carrier is None or any(token.head.i == token.i for token in outer):
        return
    for token in outer:
        # One on which the carrier hangs, by words outside, would hang on itself.
        if token.i != carrier.i and not token.is_ancestor(carrier):
            token.head = carrier


def _role_in_clause(span: Span) -> str:
    """Find what a name is to its verb, also where its first word was read as something else."""
    root = span.root
    roles = [t.dep_ for t in span if t.head.i == root.head.i and t.dep_ in _ROLES_IN_CLAUSE]
    return roles[0] if roles and root.dep_ in ("npadvmod", "dative", "dep") else root.dep_


def _is_title(text: str, titles: Sequence[str]) -> bool:
    """Whether a name is the title, or the title with an epithet: "Casimir III the Great"."""
    bare = re.sub(r"(?<=\w) the [A-Z]\w+$", "", text)
    return {text.casefold(), bare.casefold()} & {title.casefold() for title in titles} != set()


def _candidates(
    doc: Doc, titles: Sequence[str], stand_ins: StandIns
) -> Iterator[tuple[Span | None, Sort | None]]:
    """Propose spans, the surest first; a sort of None is a word, not a name."""
    labels = {token.i: token.ent_type_ for token in doc if token.ent_type_}
    sure = [
        (span, _SORTS.get(labels.get(span.end - 1, ""), Sort.OTHER))
        for span in _title_spans(doc, titles)
    ] + [
        (span, _sort_of_bearer(span, labels))
        for span in epithets(doc, labels)
        if not any(stand_ins.has(token.text) for token in span)
    ]
    yield from sorted(sure, key=lambda pair: -len(pair[0]))
    yield from _recognised(doc, labels, stand_ins)
    for token in doc:
        if stand_ins.has(token.text):
            yield doc[token.i : token.i + 1], Sort.OTHER
    for span in capitalised_runs(doc, labels):
        yield span, Sort.OTHER
    for span in _hyphenated(doc):
        yield span, None


def _sort_of_bearer(span: Span, labels: Mapping[int, str]) -> Sort:
    """Judge "Leo IX" by the role before it, "Apollo XI" by what was recognised."""
    before = span.doc[span.start - 1].lower_ if span.start > span.sent.start else ""
    found = [labels[token.i] for token in span if token.i in labels]
    is_person = before in ROLES or "PERSON" in found or not found
    return Sort.PERSON if is_person else _SORTS.get(found[0], Sort.OTHER)


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
    follows = after is not None and is_capitalised_name(after) and is_modifier
    precedes = (
        before is not None
        and is_capitalised_name(before)
        and before.dep_ == "compound"
        and before.lower_ not in ROLES
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
    entities = [(entity, _SORTS.get(entity.label_)) for entity in joined_people(doc)]
    for entity, sort in entities:
        is_adjective = entity.label_ == "NORP" and _modifies(entity)
        if sort is not None and sort is not Sort.DATE and not is_adjective:
            span = whole_name(entity, labels)
            yield span, Sort.OTHER if stand_ins.has(span.text) else sort
    for entity, sort in entities:
        if sort is Sort.DATE and not any(stand_ins.has(token.text) for token in entity):
            yield date_span(entity), sort


def _hyphenated(doc: Doc) -> Iterator[Span]:
    position = 1
    while position + 1 < len(doc):
        start = position - 1
        end = position
        while (
            end + 1 < len(doc)
            and doc[end].text in HYPHENS
            and touch(doc[end - 1], doc[end])
            and touch(doc[end], doc[end + 1])
            and doc[end - 1].text[-1].isalnum()
            and doc[end + 1].text[0].isalnum()
        ):
            end += 2
        if end > position:
            yield doc[start:end]
        position = end + 1 if end > position else position + 1


def _in_one_sentence(span: Span) -> bool:
    return not any(token.is_sent_start for token in span[1:])

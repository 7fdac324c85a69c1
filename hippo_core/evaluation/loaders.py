"""Readers of the data sets' files: MuSiQue, 2WikiMultiHopQA, HotpotQA, HippoRAG's, one's own.

Each gives a `Dataset` whose corpus is all candidate passages of all questions, each once, as IRCoT
and both papers make it. A passage's id is the hash of its content, so that the same passage has
the same id in every file, unless a file of one's own names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hippo_core.errors import InputError
from hippo_core.evaluation._rows import Row, json_rows, json_value, jsonl_rows
from hippo_core.evaluation.questions import Dataset, Question
from hippo_core.text import content_id
from hippo_core.types import Passage

_HOPS = re.compile(r"(\d+)hop")


def load_musique(path: str | Path) -> Dataset:
    """Read MuSiQue's JSON lines, such as `musique_ans_v1.0_dev.jsonl`.

    Fields: `id`, whose beginning (`2hop__`, `3hop1__`) says the hops, else `question_decomposition`
    does; `question`, `answer`, `answer_aliases`; `paragraphs`, each with `title`, `paragraph_text`
    and `is_supporting`.

    Raises:
        InputError: A line cannot be used, or its question has no answer in its paragraphs: the
            papers use the file without these (`ans`, not `full`).
    """
    corpus = _Corpus()
    questions = []
    for row in jsonl_rows(path):
        if not row.flag("answerable", default=True):
            raise row.error("answerable", "is false: use the file of answerable questions")
        id_ = row.string("id")
        found = _HOPS.match(id_)
        hops = int(found[1]) if found else len(row.items("question_decomposition"))
        questions.append(
            Question(
                id_,
                row.string("question"),
                gold=_gold(row, corpus),
                answers=_unique(
                    [row.string("answer"), *row.strings("answer_aliases", optional=True)]
                ),
                hops=hops,
            )
        )
    return corpus.dataset(questions)


def load_hotpotqa(path: str | Path) -> Dataset:
    """Read HotpotQA's JSON, such as `hotpot_dev_distractor_v1.json`.

    Fields: `_id`, `question`, `answer`, `type`, `context` (pairs of title and sentences, which are
    joined as they are) and `supporting_facts` (pairs of title and sentence number). A question
    takes as many hops as it has supporting passages. Its first paper's code compares by title
    alone; here, as in HippoRAG 2's, gold is the passage.

    Raises:
        InputError: An item cannot be used.
    """
    return _load_contexts(path, joint="")


def load_2wiki(path: str | Path) -> Dataset:
    """Read 2WikiMultiHopQA's JSON, such as `dev.json`: as HotpotQA's, sentences joined by a space.

    Raises:
        InputError: An item cannot be used.
    """
    return _load_contexts(path, joint=" ")


def load_hipporag(questions: str | Path, corpus: str | Path) -> Dataset:
    """Read the files that the authors of HippoRAG publish to reproduce HippoRAG 2.

    The corpus is a JSON list of objects with `title` and `text`, or HotpotQA's object of sentences
    by title. The questions are a JSON list in which each has its gold passages as in MuSiQue
    (`paragraphs`, or `contexts`, all of which support that do not say otherwise), or as in HotpotQA
    (`context` and `supporting_facts`), or none; its answers are in `answer`, `gold_ans` or
    `reference`, or, as in PopQA, `obj`, `o_wiki_title`, `possible_answers` and `o_aliases`. Answers
    are compared as HippoRAG 2 does, alike for all.

    A gold passage is found in the corpus by title and text, but for white space.

    Raises:
        InputError: An item cannot be used, or a gold passage is not in the corpus.
    """
    passages = _Corpus()
    for title, text in _corpus_rows(corpus):
        passages.add(title, text)
    by_letters = {_letters(p.title, p.text): p.id for p in passages}
    found = []
    for number, row in enumerate(json_rows(questions)):
        gold = []
        for title, text in _supporting(row):
            if (id_ := by_letters.get(_letters(title, text))) is None:
                raise InputError(f"{row.place}: its passage {title!r} is not in {corpus}")
            gold.append(id_)
        named = next((name for name in ("id", "_id") if name in row), None)
        id_ = row.string(named) if named else str(number)
        hops = _HOPS.match(id_)
        found.append(
            Question(
                id_,
                row.string("question"),
                gold=_unique(gold),
                answers=_answers(row),
                hops=int(hops[1]) if hops else len(_unique(gold)),
                type=row.string("type") if "type" in row else "",
            )
        )
    return passages.dataset(found)


def load_jsonl(questions: str | Path, passages: str | Path) -> Dataset:
    """Read files of one's own, with one JSON object on each line.

    A passage is `{"id": "p1", "title": "Ghent", "text": "Ghent is ...", "metadata": {}}`, of which
    only `text` must be there; without an id, its content makes one. A question is `{"id": "q1",
    "question": "Where ...?", "gold": ["p1"], "answers": ["Ghent"], "hops": 1, "type": "bridge"}`,
    of which `id` and `question` must be there.

    Raises:
        InputError: A line cannot be used, a question has another field, an id is there twice, or a
            gold passage is not there.
    """
    corpus = [_own_passage(row) for row in jsonl_rows(passages)]
    known = {passage.id for passage in corpus}
    asked = []
    for row in jsonl_rows(questions):
        row.only("id", "question", "gold", "answers", "hops", "type")
        gold = _unique(row.strings("gold", optional=True))
        if missing := [id_ for id_ in gold if id_ not in known]:
            raise row.error("gold", f"names {missing[0]!r}, which is no passage of {passages}")
        asked.append(
            Question(
                row.string("id"),
                row.string("question"),
                gold=gold,
                answers=_unique(row.strings("answers", optional=True)),
                hops=row.count("hops"),
                type=row.string("type") if "type" in row else "",
            )
        )
    return Dataset(tuple(corpus), tuple(asked))


class _Corpus:
    """Passages by id, in the order in which they come."""

    def __init__(self) -> None:
        self._passages: dict[str, Passage] = {}

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages.values())

    def add(self, title: str, text: str) -> str:
        """Add a passage, once, and give its id."""
        id_ = content_id(text, title, None, {})
        self._passages.setdefault(id_, Passage(text, id=id_, title=title))
        return id_

    def dataset(self, questions: Iterable[Question]) -> Dataset:
        return Dataset(tuple(self), tuple(questions))


def _load_contexts(path: str | Path, joint: str) -> Dataset:
    corpus = _Corpus()
    questions = []
    for row in json_rows(path):
        gold = _gold_of_context(row, corpus, joint)
        questions.append(
            Question(
                row.string("_id", "id"),
                row.string("question"),
                gold=gold,
                answers=(row.string("answer"),),
                hops=len(gold),
                type=row.string("type") if "type" in row else "",
                answer_rule="hotpotqa",
            )
        )
    return corpus.dataset(questions)


def _gold(row: Row, corpus: _Corpus) -> tuple[str, ...]:
    """Add a question's paragraphs to the corpus, and give the ids of those that support it."""
    gold = []
    for paragraph in row.rows("paragraphs"):
        id_ = corpus.add(paragraph.string("title", blank=True), paragraph.string("paragraph_text"))
        if paragraph.flag("is_supporting"):
            gold.append(id_)
    return _checked_gold(row, "paragraphs", gold)


def _gold_of_context(row: Row, corpus: _Corpus, joint: str) -> tuple[str, ...]:
    titles = _supporting_titles(row)
    added = [(title, corpus.add(title, text)) for title, text in _context(row, joint)]
    return _checked_gold(row, "supporting_facts", [id_ for title, id_ in added if title in titles])


def _supporting_titles(row: Row) -> set[str]:
    titles = {title for title, _ in row.pairs("supporting_facts")}
    if missing := titles - {title for title, _ in row.pairs("context")}:
        raise row.error("supporting_facts", f"names {min(missing)!r}, which is not in its context")
    return titles


def _context(row: Row, joint: str) -> Iterator[tuple[str, str]]:
    for number, (title, sentences) in enumerate(row.pairs("context")):
        parts = Row({"sentences": sentences}, f"{row.place}, context[{number}]").strings(
            "sentences"
        )
        yield title, joint.join(parts)


def _checked_gold(row: Row, name: str, gold: Iterable[str]) -> tuple[str, ...]:
    if not (found := _unique(gold)):
        raise row.error(name, "names no passage that supports the answer")
    return found


def _corpus_rows(path: str | Path) -> Iterator[tuple[str, str]]:
    value = json_value(path)
    if isinstance(value, dict):  # HippoRAG 1's corpus of HotpotQA
        row = Row({"context": [[title, parts] for title, parts in value.items()]}, str(path))
        yield from _context(row, "")
        return
    for row in json_rows(path):
        yield row.string("title", blank=True), row.string("text", "paragraph_text")


def _supporting(row: Row) -> Iterator[tuple[str, str]]:
    if "supporting_facts" in row:
        titles = _supporting_titles(row)
        yield from (pair for pair in _context(row, "") if pair[0] in titles)
        return
    name = "contexts" if "contexts" in row else "paragraphs"
    for paragraph in row.rows(name) if name in row else ():
        if paragraph.flag("is_supporting", default=True):
            yield paragraph.string("title", blank=True), paragraph.string("text", "paragraph_text")


def _answers(row: Row) -> tuple[str, ...]:
    for name in ("answer", "gold_ans", "reference", "obj"):
        if name in row:
            more = ["answer_aliases"]
            if name == "obj":
                more += ["o_wiki_title", "possible_answers", "o_aliases"]
            found = [row.strings(part, optional=True) for part in (name, *more)]
            return _unique(text for texts in found for text in texts)
    raise row.error("answer", "is missing")


def _own_passage(row: Row) -> Passage:
    passage = Passage(
        row.string("text"),
        id=row.string("id") if "id" in row else "",
        title=row.string("title", blank=True) if "title" in row else "",
        metadata=row.object("metadata"),
    )
    if passage.id:
        return passage
    return replace(passage, id=content_id(passage.text, passage.title, None, passage.metadata))


def _letters(title: str, text: str) -> str:
    """Give a passage without white space, which data sets and their copies join differently."""
    return "".join(f"{title}\n{text}".split())


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))

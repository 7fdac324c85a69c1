"""TREC's files of gold passages (qrels) and rankings (runs), and ranx's objects of the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hippo_core.errors import InputError, MissingDependencyError

Gold = Mapping[str, Collection[str]]
Run = Mapping[str, Sequence[str]]


def write_qrels(gold: Gold, path: str | Path) -> None:
    """Write gold passage ids by question as `question 0 passage 1` lines.

    Raises:
        InputError: An id is empty or has a space in it, which such a file cannot hold.
    """
    lines = [
        f"{_word('question', question)} 0 {_word('passage', passage)} 1"
        for question, passages in gold.items()
        for passage in sorted(set(passages))
    ]
    _write(path, lines)


def write_run(run: Run, path: str | Path, *, name: str = "hippo-core") -> None:
    """Write ranked passage ids by question as `question Q0 passage rank score name` lines.

    Tools that read it go by the score alone, so that it is 1 / rank. A question with an empty
    ranking has no line, and those tools then count it as they do one that was not asked.

    Raises:
        InputError: An id or the name is empty or has a space in it, or a passage is ranked twice.
    """
    tag = _word("run", name)
    lines = []
    for question, passages in run.items():
        if len(set(passages)) < len(passages):
            raise InputError(f"the ranking of question {question!r} has a passage twice")
        lines += [
            f"{_word('question', question)} Q0 {_word('passage', passage)} {rank} {1 / rank:.9f} "
            f"{tag}"
            for rank, passage in enumerate(passages, 1)
        ]
    _write(path, lines)


def read_qrels(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read gold passage ids by question: those whose relevance is above 0.

    Raises:
        InputError: A line is not one of qrels; it names file and line.
    """
    gold: dict[str, list[str]] = {}
    for place, (question, _, passage, relevance) in _fields(path, 4):
        passages = gold.setdefault(question, [])
        if _number(place, "relevance", relevance) > 0:
            passages.append(passage)
    return {question: tuple(dict.fromkeys(passages)) for question, passages in gold.items()}


def read_run(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read ranked passage ids by question: by falling score, those of one score by rank.

    Raises:
        InputError: A line is not one of a run; it names file and line.
    """
    found: dict[str, list[tuple[float, float, str]]] = {}
    for place, (question, _, passage, rank, score, _name) in _fields(path, 6):
        key = -_number(place, "score", score), _number(place, "rank", rank)
        found.setdefault(question, []).append((*key, passage))
    return {
        question: tuple(dict.fromkeys(passage for _, _, passage in sorted(lines)))
        for question, lines in found.items()
    }


def to_ranx(gold: Gold, runs: Mapping[str, Run]) -> tuple[Any, list[Any]]:
    """Give a `ranx.Qrels` and a `ranx.Run` for each system, for its measures, tests and fusion.

    Ids may have spaces here. A question that a run does not have is one with an empty ranking.

    Raises:
        MissingDependencyError: ranx is not installed; it comes with the extra `ranx`.
    """
    try:
        import ranx
    except ImportError:
        raise MissingDependencyError("ranx", "ranx") from None
    qrels = {question: dict.fromkeys(passages, 1) for question, passages in gold.items()}
    return ranx.Qrels(qrels), [
        ranx.Run({q: {p: 1 / r for r, p in enumerate(run.get(q, ()), 1)} for q in gold}, name=name)
        for name, run in runs.items()
    ]


def _word(what: str, text: str) -> str:
    if text.split() != [text]:
        fault = "has a space in it" if text else "is empty"
        raise InputError(
            f"{what} {text!r} {fault}, and the columns of a TREC file are parted by spaces; "
            "give it another id, or use to_ranx()"
        )
    return text


def _write(path: str | Path, lines: Sequence[str]) -> None:
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _fields(path: str | Path, n: int) -> Iterator[tuple[str, list[str]]]:
    with Path(path).open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if fields := line.split():
                place = f"{path}, line {number}"
                if len(fields) != n:
                    raise InputError(f"{place}: must have {n} columns, got {len(fields)}")
                yield place, fields


def _number(place: str, what: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: {what} must be a number, got {text!r}")
    return number

"""What an evaluation asks: questions with their gold passages and accepted answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hippo_core.errors import InputError
from hippo_core.types import Passage

AnswerRule = Literal["musique", "hotpotqa"]
"""How a data set compares answers: see `f1`."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what is known to be right.

    >>> Question("q1", "Who wrote it?", gold=("p1", "p2"), answers=("Ada",)).hops
    0
    """

    id: str
    text: str
    gold: tuple[str, ...] = ()
    """Ids of the passages that it takes to answer; empty where nobody knows them."""
    answers: tuple[str, ...] = ()
    """Accepted answers: the answer, and its aliases."""
    hops: int = 0
    """Passages that have to be joined; 0 where nobody says."""
    type: str = ""
    """The data set's own word, such as `bridge` or `comparison`."""
    answer_rule: AnswerRule = "musique"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A corpus, and questions about it."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        check_unique("question", [question.id for question in self.questions])
        check_unique("passage", [passage.id for passage in self.passages])


def question_of_json(value: Mapping[str, Any]) -> Question:
    """Read what `asdict` made of a question."""
    lists = {name: tuple(value[name]) for name in ("gold", "answers")}
    return Question(**{**value, **lists})


def check_unique(what: str, ids: Sequence[str]) -> None:
    """Refuse an id that is there twice.

    Raises:
        InputError: One is.
    """
    for id_, times in Counter(ids).items():
        if times > 1:
            raise InputError(f"{what} {id_!r} is there {times} times; ids must differ")

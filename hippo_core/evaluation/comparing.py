"""Comparing: each system is asked each question."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from hippo_core.costs import Usage
from hippo_core.errors import EXCERPT, InputError
from hippo_core.evaluation.comparison import Comparison
from hippo_core.evaluation.outcomes import Outcome, Reading
from hippo_core.evaluation.questions import Question, check_unique
from hippo_core.evaluation.systems import System, ranked_ids
from hippo_core.iterations import IterativeRetrieval
from hippo_core.types import Retrieval


class Step(NamedTuple):
    """How far a comparison is; given to the `progress` callback after each question."""

    name: str
    """The system's."""
    done: int
    """Questions that this system was asked."""
    failed: int
    total: int


def compare(
    systems: Iterable[System],
    questions: Iterable[Question],
    *,
    answers: bool = False,
    at_once: int = 1,
    progress: Callable[[Step], None] | None = None,
) -> Comparison:
    """Ask each system each question, one system after the other.

    A question on which a system raises an error is one that it failed: the error is kept, the
    others go on, and the tables say how many failed. They also say on how many a memory fell back
    to a ranking without a part, such as a judge that did not answer; `on_failure="raise"` in its
    settings makes failures of these.

    Args:
        systems: Whose names differ.
        questions: With gold passages, accepted answers or both.
        answers: Whether the systems' readers answer too, which costs a call of the chat model for
            each question with an accepted answer.
        at_once: Questions in flight, each in a thread. The time of a query is what it took beside
            the others: 1 to measure time, more to have it done.
        progress: Called after each question.

    Raises:
        InputError: There are no systems or no questions, or two of one name.
    """
    asked, lined_up = tuple(questions), list(systems)
    _check(lined_up, asked, at_once)
    runs = {}
    for ranker in lined_up:
        outcomes: dict[int, Outcome] = {}
        failed = 0
        for place, outcome in _ask_all(ranker, asked, answers, at_once):
            outcomes[place] = outcome
            failed += outcome.failed
            if progress is not None:
                progress(Step(ranker.name, len(outcomes), failed, len(asked)))
        runs[ranker.name] = tuple(outcomes[place] for place in range(len(asked)))
    return Comparison(asked, runs)


def _check(systems: Sequence[System], questions: Sequence[Question], at_once: int) -> None:
    if not systems:
        raise InputError("there are no systems to compare")
    if not questions:
        raise InputError("there are no questions to ask")
    if at_once < 1:
        raise InputError(f"at_once must be at least 1, got {at_once}")
    for name, times in Counter(ranker.name for ranker in systems).items():
        if times > 1:
            raise InputError(f"{times} systems are called {name!r}; names must differ")
        if not name.strip() or not name.isprintable():
            raise InputError(f"a system must have a name on one line, got {name!r}")
    check_unique("question", [question.id for question in questions])


def _ask_all(
    ranker: System, questions: Sequence[Question], answers: bool, at_once: int
) -> Iterator[tuple[int, Outcome]]:
    if at_once == 1:  # in the caller's thread: not everything may be called from another
        for place, question in enumerate(questions):
            yield place, _ask(ranker, question, answers)
        return
    pool = ThreadPoolExecutor(at_once)
    try:
        futures = {
            pool.submit(_ask, ranker, question, answers): place
            for place, question in enumerate(questions)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ask(ranker: System, question: Question, answers: bool) -> Outcome:
    started = time.perf_counter()
    try:
        found = ranker.retrieve(question.text)
        ranked = ranked_ids(found)
    except Exception as error:  # noqa: BLE001 - anybody's function
        return Outcome(seconds=time.perf_counter() - started, error=_shown(error))
    seconds = time.perf_counter() - started
    reading = _read(ranker, question) if answers and question.answers else None
    fell_back = _fell_back(found)
    return Outcome(ranked, seconds, _usage(found), reading, fell_back=fell_back)


def _read(ranker: System, question: Question) -> Reading | None:
    if ranker.answer is None:
        return None
    started = time.perf_counter()
    try:
        answer = ranker.answer(question.text)
        text = answer if isinstance(answer, str) else answer.text
    except Exception as error:  # noqa: BLE001 - anybody's function
        return Reading(seconds=time.perf_counter() - started, error=_shown(error))
    return Reading(text, time.perf_counter() - started, _usage(answer))


def _usage(found: object) -> Usage | None:
    usage = getattr(found, "usage", None)
    return usage if isinstance(usage, Usage) else None


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:EXCERPT]}"


def _fell_back(found: object) -> str:
    """Say what a memory went on without."""
    if isinstance(found, Retrieval):
        return found.detail
    if not isinstance(found, IterativeRetrieval):
        return ""
    said = [step.retrieval.detail for step in found.steps if step.retrieval is not None]
    return "; ".join(dict.fromkeys(filter(None, [found.detail, *said])))

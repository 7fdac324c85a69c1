"""What a comparison found: every ranking and answer, and the tables and files made of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from hippo_core.costs import Prices, Usage
from hippo_core.errors import InputError
from hippo_core.evaluation.answers import exact_match, f1
from hippo_core.evaluation.measures import all_recall_at_k, recall_at_k
from hippo_core.evaluation.outcomes import (
    Outcome,
    Reading,
    outcome_of_json,
    outcome_to_json,
)
from hippo_core.evaluation.questions import Question, question_of_json
from hippo_core.evaluation.significance import paired_bootstrap, permutation_test
from hippo_core.evaluation.tables import Cell, Column, Table

FORMAT = 1  # of the JSON

_AT_K = re.compile(r"(recall|all-recall)@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What each system made of each question.

    A measure is `recall@k`, `all-recall@k`, `EM` or `F1`, in percent. A question counts for a
    system if it did not fail it and if it has what the measure needs, gold passages or answers.
    """

    questions: tuple[Question, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]] = field(hash=False)
    """By system, in the order of the questions."""

    @property
    def systems(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.outcomes)

    # -- figures ------------------------------------------------------------------------------

    def scores(self, name: str, measure: str) -> tuple[float | None, ...]:
        """Give a measure of each question, in percent; None where it does not count.

        Raises:
            InputError: There is no such system or measure.
        """
        shares = self._shares(name, measure)
        return tuple(None if share is None else 100 * share for share in shares)

    def mean(self, name: str, measure: str) -> float | None:
        """Average over the questions that count; None where there are none.

        Raises:
            InputError: There is no such system or measure.
        """
        return _percent(self._shares(name, measure))

    def usage(self, name: str) -> Usage | None:
        """Give what all its retrievals cost; None where it does not say."""
        used = [outcome.usage for outcome in self._of(name) if outcome.usage is not None]
        return sum(used, Usage()) if used else None

    def failures(self) -> list[tuple[str, str, str]]:
        """Give system, question id and error of each question that a system failed."""
        return [
            (name, question.id, outcome.error or (outcome.reading or Reading()).error)
            for name, outcomes in self.outcomes.items()
            for question, outcome in zip(self.questions, outcomes, strict=True)
            if outcome.failed
        ]

    def fall_backs(self) -> list[tuple[str, str, str]]:
        """Give system, question id and reason of each ranking that went on without a part."""
        return [
            (name, question.id, outcome.fell_back)
            for name, outcomes in self.outcomes.items()
            for question, outcome in zip(self.questions, outcomes, strict=True)
            if outcome.fell_back
        ]

    # -- tables -------------------------------------------------------------------------------

    def table(
        self, measures: Sequence[str] | None = None, *, prices: Prices | None = None
    ) -> Table:
        """Make the papers' table: a row for each system, a column for each measure.

        Args:
            measures: None for recall and all-recall at 2 and 5 where there are gold passages, and
                EM and F1 where there are answers.
            prices: What a million tokens cost; with them, cost is given in place of tokens. Both
                are those of retrieval.

        Raises:
            InputError: There is no such measure.
        """
        shown = self._measured() if measures is None else tuple(measures)
        cost = (
            Column("tokens per query", ".0f")
            if prices is None
            else Column("cost per 1000 queries", ".3f")
        )
        faults = {
            "failed": Counter(name for name, _, _ in self.failures()),
            "fell back": Counter(name for name, _, _ in self.fall_backs()),
        }
        faults = {heading: counts for heading, counts in faults.items() if counts}
        columns = [Column("system", ""), *(Column(_heading(measure), ".1f") for measure in shown)]
        columns += [Column("s per query", ".3f"), cost, *(Column(name, "d") for name in faults)]
        rows: list[tuple[Cell, ...]] = []
        for name in self.outcomes:
            means = [self.mean(name, measure) for measure in shown]
            spent = self._seconds(name), self._cost(name, prices)
            rows.append((name, *means, *spent, *(counts[name] for counts in faults.values())))
        return Table(tuple(columns), tuple(rows), self._notes(faults))

    def differences(self, against: str, measures: Sequence[str] = ("recall@5",)) -> Table:
        """Compare each system with one of them, over the questions that count for both.

        Given are the mean difference, its 95% interval by paired bootstrap, and the p of a
        randomisation test; see `paired_bootstrap` and `permutation_test`.

        Raises:
            InputError: There is no such system or measure.
        """
        columns = [Column("system", "")]
        for head in map(_heading, measures):
            columns += [Column(f"{head} - {against}", "+z.1f"), Column(f"{head} low", "+z.1f")]
            columns += [Column(f"{head} high", "+z.1f"), Column(f"{head} p", ".4f")]
            columns.append(Column(f"{head} n", "d"))
        rows: list[tuple[Cell, ...]] = []
        for name in self.outcomes:
            if name != against:
                compared = [self._difference(name, against, measure) for measure in measures]
                rows.append((name, *(cell for cells in compared for cell in cells)))
        notes = (
            "low and high: 95% interval by paired bootstrap; p: randomisation test, two-sided; n: "
            f"questions that count for both. Hold p against 0.05 / {len(rows) * len(measures)}.",
        )
        return Table(tuple(columns), tuple(rows), notes)

    def by_hops(self, measure: str = "recall@5") -> Table:
        """Break a measure down by hops: a row for each system, a column for each number.

        Raises:
            InputError: There is no such measure.
        """
        groups = [(q.hops, _hops(q.hops)) for q in self.questions]
        return self._broken_down(measure, groups)

    def by_type(self, measure: str = "recall@5") -> Table:
        """Break a measure down by type of question.

        Raises:
            InputError: There is no such measure.
        """
        return self._broken_down(measure, [(0, q.type or "?") for q in self.questions])

    # -- files --------------------------------------------------------------------------------

    def gold(self) -> dict[str, tuple[str, ...]]:
        """Give gold passage ids by question, as `write_qrels` takes them."""
        return {question.id: question.gold for question in self.questions if question.gold}

    def run(self, name: str) -> dict[str, tuple[str, ...]]:
        """Give a system's ranked ids by question, as `write_run` takes them; not those it failed.

        Raises:
            InputError: There is no such system.
        """
        return {
            question.id: outcome.ranked
            for question, outcome in zip(self.questions, self._of(name), strict=True)
            if not outcome.error
        }

    def to_json(self) -> dict[str, Any]:
        """Give all that is here as JSON; `from_json` reads it back."""
        return {
            "format": FORMAT,
            "questions": [asdict(question) for question in self.questions],
            "systems": [
                {"name": name, "outcomes": [outcome_to_json(outcome) for outcome in outcomes]}
                for name, outcomes in self.outcomes.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave.

        Raises:
            InputError: It is something else.
        """
        try:
            if value["format"] != FORMAT:
                raise InputError(f"a comparison of format {FORMAT} is read, got {value['format']}")
            questions = tuple(question_of_json(question) for question in value["questions"])
            outcomes = {
                str(run["name"]): tuple(outcome_of_json(outcome) for outcome in run["outcomes"])
                for run in value["systems"]
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is no comparison: {type(error).__name__}: {error}") from None
        for name, listed in outcomes.items():
            if len(listed) != len(questions):
                raise InputError(
                    f"{name!r} was asked {len(listed)} of {len(questions)} questions: "
                    "the comparison is not whole"
                )
        return cls(questions, outcomes)

    def save(self, path: str | Path) -> None:
        """Write it as a JSON file, which `load` reads."""
        text = json.dumps(self.to_json())  # in ASCII: half a character of a model's can be written
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            InputError: It is something else.
        """
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is no comparison: {error}") from None
        return cls.from_json(value)

    # -- parts --------------------------------------------------------------------------------

    def _of(self, name: str) -> tuple[Outcome, ...]:
        if name not in self.outcomes:
            raise InputError(f"there is no system {name!r}: there are {', '.join(self.outcomes)}")
        return self.outcomes[name]

    def _shares(self, name: str, measure: str) -> list[float | None]:
        """Give a measure of each question, from 0 to 1."""
        measured = _measure(measure)
        pairs = zip(self.questions, self._of(name), strict=True)
        return [measured(question, outcome) for question, outcome in pairs]

    def _measured(self) -> tuple[str, ...]:
        recall = any(question.gold for question in self.questions)
        read = any(outcome.reading for outcomes in self.outcomes.values() for outcome in outcomes)
        return (
            *(("recall@2", "recall@5", "all-recall@2", "all-recall@5") if recall else ()),
            *(("EM", "F1") if read else ()),
        )

    def _difference(self, name: str, other: str, measure: str) -> list[Cell]:
        both = zip(self.scores(name, measure), self.scores(other, measure), strict=True)
        pairs = [(ours, theirs) for ours, theirs in both if ours is not None and theirs is not None]
        if not pairs:
            return [None, None, None, None, 0]
        ours, theirs = zip(*pairs, strict=True)
        return [*paired_bootstrap(ours, theirs), permutation_test(ours, theirs), len(pairs)]

    def _seconds(self, name: str) -> float | None:
        return _mean([outcome.seconds for outcome in self._of(name) if not outcome.error])

    def _cost(self, name: str, prices: Prices | None) -> float | None:
        used = [outcome.usage for outcome in self._of(name) if outcome.usage is not None]
        if prices is None:
            return _mean([usage.tokens for usage in used])
        cost = _mean([prices.of(usage) for usage in used])
        return None if cost is None else 1000 * cost

    def _notes(self, faults: Collection[str]) -> tuple[str, ...]:
        notes = [f"{len(self.questions)} questions."]
        if "failed" in faults:
            notes.append(
                "A question that a system failed does not count for it: compare only systems that "
                "failed few."
            )
        if "fell back" in faults:
            notes.append("Where a system fell back it ranked without a part that did not work.")
        usages = [o.usage for run in self.outcomes.values() for o in run if o.usage is not None]
        if any(stage.estimated for usage in usages for stage in usage.stages.values()):
            notes.append("Some tokens are counted on our side: the model did not say.")
        return tuple(notes)

    def _broken_down(self, measure: str, groups: Sequence[tuple[int, str]]) -> Table:
        """Average over the questions of each group; a group is a place in order and a heading."""
        sizes = sorted(Counter(groups).items())
        columns = [Column(f"{name} (n={n})", ".1f") for (_, name), n in sizes]
        rows: list[tuple[Cell, ...]] = []
        for name in self.outcomes:
            scored = list(zip(groups, self._shares(name, measure), strict=True))
            means = [_percent([s for other, s in scored if other == group]) for group, _ in sizes]
            rows.append((name, *means))
        notes = (f"{_heading(measure)}, percent.",)
        return Table((Column("system", ""), *columns), tuple(rows), notes)


def _measure(name: str) -> Callable[[Question, Outcome], float | None]:
    if found := _AT_K.fullmatch(name):
        at_k, k = (recall_at_k if found[1] == "recall" else all_recall_at_k), int(found[2])

        def of_ranking(question: Question, outcome: Outcome) -> float | None:
            if outcome.error or not question.gold:
                return None
            return at_k(outcome.ranked, question.gold, k)

        return of_ranking
    if name not in ("EM", "F1"):
        raise InputError(f"a measure is recall@k, all-recall@k, EM or F1, got {name!r}")

    def of_answer(question: Question, outcome: Outcome) -> float | None:
        reading = outcome.reading
        if reading is None or reading.error or not question.answers:
            return None
        if name == "EM":
            return exact_match(reading.answer, question.answers)
        return f1(reading.answer, question.answers, rule=question.answer_rule)

    return of_answer


def _heading(measure: str) -> str:
    """Give a measure's name in the papers."""
    return measure.replace("all-recall", "AR").replace("recall", "R")


def _hops(hops: int) -> str:
    if not hops:
        return "?"
    return "1 hop" if hops == 1 else f"{hops} hops"


def _mean(values: Sequence[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return sum(counted) / len(counted) if counted else None


def _percent(shares: Sequence[float | None]) -> float | None:
    """Average as `recall_table` does, to the last bit."""
    counted = [share for share in shares if share is not None]
    return 100 * sum(counted) / len(counted) if counted else None

"""What a system made of one question: a ranking, and maybe an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hippo_core.costs import StageUsage, Usage


@dataclass(frozen=True, slots=True)
class Reading:
    """What a system's reader made of one question."""

    answer: str = ""
    seconds: float = 0.0
    """With the retrieval that it reads."""
    usage: Usage | None = None
    """With that of the retrieval; None where the reader does not say."""
    error: str = ""
    """Why there is no answer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a system made of one question."""

    ranked: tuple[str, ...] = ()
    """Passage ids, best first."""
    seconds: float = 0.0
    usage: Usage | None = None
    """None where the system does not say."""
    reading: Reading | None = None
    """None where nothing was to read."""
    error: str = ""
    """Why there is no ranking."""
    fell_back: str = ""
    """What went wrong where the system ranked all the same, such as a judge that did not answer."""

    @property
    def failed(self) -> bool:
        """Whether ranking or reading raised an error."""
        return bool(self.error or (self.reading is not None and self.reading.error))


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Give an outcome as JSON."""
    value = asdict(outcome)
    value["usage"] = outcome.usage and outcome.usage.as_dict()
    if outcome.reading is not None:
        value["reading"]["usage"] = outcome.reading.usage and outcome.reading.usage.as_dict()
    return value


def outcome_of_json(value: Mapping[str, Any]) -> Outcome:
    """Read what `outcome_to_json` gave."""
    reading = value["reading"]
    if reading is not None:
        reading = Reading(**{**reading, "usage": _usage(reading["usage"])})
    changed = {"ranked": tuple(value["ranked"]), "usage": _usage(value["usage"])}
    return Outcome(**{**value, **changed, "reading": reading})


def _usage(value: Mapping[Any, Mapping[str, Any]] | None) -> Usage | None:
    if value is None:
        return None
    return Usage({stage: StageUsage(**figures) for stage, figures in value.items()})

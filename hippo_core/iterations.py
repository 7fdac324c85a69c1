"""What an iterative retrieval gives: the merged ranking, and each step that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hippo_core.costs import Usage
from hippo_core.types import Retrieval, ScoredPassage


class Ending(StrEnum):
    """Why an iterative retrieval ended."""

    ANSWERED = "answered"
    """The model wrote the answer marker."""
    MAX_STEPS = "max steps"
    REPEATED = "thought repeated"
    """It would have searched for the same again."""
    NOTHING_NEW = "nothing new"
    """Every passage was found: no thought can find another."""
    UNREADABLE = "thought unreadable"
    FAILED = "call failed"
    """Of the model that thinks, or of the embedder at a later step than the first."""
    EMPTY = "no passages"


@dataclass(frozen=True, slots=True)
class RetrievalStep:
    """One thought and the retrieval for it; the first step has the question in its place."""

    number: int
    """From 1."""
    thought: str = ""
    """What was searched for; empty in the first step, and where none was written."""
    retrieval: Retrieval | None = None
    """Its scores are relative. None in a last step that searched for nothing."""
    usage: Usage = field(default_factory=Usage)
    """Of the thought and of the retrieval; that of the retrieval alone is in it."""

    @property
    def query(self) -> str:
        """What was searched for; empty where nothing was."""
        return "" if self.retrieval is None else self.retrieval.query


@dataclass(frozen=True, slots=True)
class IterativeRetrieval:
    """The passages that one question found in some steps, merged, and the steps."""

    query: str
    passages: tuple[ScoredPassage, ...]
    """Best first. Triples, edges and explanation are those of the step that `step_of` names, and
    an explanation is of the score there."""
    steps: tuple[RetrievalStep, ...]
    ended: Ending
    detail: str = ""
    """What went wrong, where the ending says that something did."""
    answer: str | None = None
    """What stood behind the answer marker."""
    step_of: Mapping[str, int] = field(default_factory=dict)
    """By passage id: the number of the step in which it ranks highest."""

    @property
    def usage(self) -> Usage:
        """The sum over all steps."""
        return sum((step.usage for step in self.steps), Usage())

    def __iter__(self) -> Iterator[ScoredPassage]:
        return iter(self.passages)

    def __len__(self) -> int:
        return len(self.passages)

"""What a reader gives: an answer, and what it read."""

from __future__ import annotations

from dataclasses import dataclass

from hippo_core.costs import Usage
from hippo_core.iterations import IterativeRetrieval
from hippo_core.types import Retrieval


@dataclass(frozen=True, slots=True)
class Answer:
    """A reader's answer and what it read."""

    text: str
    """As short as it can be, without citations: "unknown" where our prompt is used and the passages
    do not tell; empty where there was no passage, and so no call."""
    retrieval: Retrieval | IterativeRetrieval
    usage: Usage
    """Of the retrieval, where this call made it, and of the reading."""
    thought: str = ""
    """What was written before the answer: which facts lead to it."""
    citations: tuple[str, ...] = ()
    """The ids of the passages that thought or answer name, each once, in that order."""
    is_cut: bool = False
    """Whether the token limit of the model cut the reply."""

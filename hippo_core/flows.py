"""Flows: plain generators that yield what they need from a model.

An algorithm is written once, as a generator. It yields a request, is sent the answer (or has a
`HippoError` thrown in), and returns its result. The drivers run it, from threads or a loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hippo_core.accounts import Account
from hippo_core.costs import Budget, Stage, StageUsage, Usage
from hippo_core.ports import ChatModel, Embedder, OpenIE, RecognitionMemory
from hippo_core.prompts import Prompts
from hippo_core.streaming import Listener
from hippo_core.types import Completion, Kind, Message, Triple

T = TypeVar("T")


class Meter:
    """Counts what the calls of one operation cost, from any thread, and keeps them in a budget.

    What a `Metered` flow costs is counted apart, by its own meter, and is still part of this
    budget.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.account = None if budget is None else Account(budget)
        self._lock = threading.Lock()
        self._usage = Usage()

    def add(self, stage: Stage, usage: StageUsage) -> None:
        """Add one call that was answered."""
        with self._lock:
            self._usage += Usage({stage: usage})

    @property
    def usage(self) -> Usage:
        """What was counted so far."""
        return self._usage


@dataclass(frozen=True, slots=True)
class Complete:
    """Answer this prompt; gives a `Completion`."""

    messages: Sequence[Message]
    stage: Stage
    late: Callable[[Completion], None] | None = None
    """Given the reply to a call that was given up after `call_timeout`, if it comes after all: from
    another thread, once for each such reply, maybe after the operation has ended. What it raises is
    logged. On an event loop the call is cancelled, so that no reply comes late."""
    listener: Listener | None = None
    """Given the reply as it is written, piece by piece, by a StreamingChatModel; else in one."""


@dataclass(frozen=True, slots=True)
class Embed:
    """Embed these texts in one call; gives float32 (n, d), rows as the embedder made them."""

    texts: Sequence[str]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Extract:
    """Read this passage with the given OpenIE; gives an `Extraction`."""

    text: str


@dataclass(frozen=True, slots=True)
class NameEntities:
    """Name the query's entities with the given OpenIE; gives a tuple of str."""

    query: str


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose among linked triples with the given recognition memory; gives positions."""

    query: str
    candidates: Sequence[Triple]


@dataclass(frozen=True, slots=True)
class Each:
    """Run these flows, several at once; gives their results in order."""

    flows: Iterable[Generator[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Metered:
    """Run this flow with its costs counted apart, within all budgets; gives its result."""

    flow: Generator[Any, Any, Any]
    meter: Meter


Request = Complete | Embed | Extract | NameEntities | Choose | Each | Metered
Flow = Generator[Request, Any, T]


@dataclass(frozen=True, slots=True)
class Models:
    """The user's models, and what a chat model is asked."""

    embedder: Embedder | None
    chat: ChatModel | None = None
    openie: OpenIE | None = None
    recognition: RecognitionMemory | None = None
    prompts: Prompts = field(default_factory=Prompts)

    @property
    def can_extract(self) -> bool:
        """Whether passages can be read."""
        return self.chat is not None or self.openie is not None

    @property
    def can_recognise(self) -> bool:
        """Whether there is a judge of linked triples."""
        return self.chat is not None or self.recognition is not None

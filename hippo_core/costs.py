"""What calls of models cost, and how much they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hippo_core.errors import ConfigError

Stage = Literal[
    "entities", "triples", "query_entities", "recognition", "thought", "answer", "embedding"
]
"""What a model call is made for; usage is counted by it."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one completion."""

    input_tokens: int
    output_tokens: int
    estimated: bool = False
    """True where the model did not say and the figures are counted on our side."""


@dataclass(frozen=True, slots=True)
class StageUsage:
    """What one stage cost."""

    calls: int = 0
    """Calls that were answered, by a cache or the model; a try that failed is none."""
    cached: int = 0
    """Those that a cache answered: they cost no tokens."""
    input_tokens: int = 0
    output_tokens: int = 0
    texts: int = 0
    """Texts embedded."""
    seconds: float = 0.0
    estimated: bool = False
    """True where tokens of some call were counted on our side, as those of texts embedded are."""

    def __add__(self, other: StageUsage) -> StageUsage:
        return StageUsage(
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            texts=self.texts + other.texts,
            seconds=self.seconds + other.seconds,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost, by stage.

    >>> one = Usage({"triples": StageUsage(calls=1, input_tokens=10)})
    >>> (one + one).stages["triples"].input_tokens
    20
    >>> (one + one).tokens
    20
    """

    stages: Mapping[Stage, StageUsage] = field(default_factory=dict)

    def __add__(self, other: Usage) -> Usage:
        stages = dict(self.stages)
        for stage, usage in other.stages.items():
            stages[stage] = stages.get(stage, StageUsage()) + usage
        return Usage(stages)

    @property
    def calls(self) -> int:
        """Calls of the chat model and the embedder that were answered, by a cache or the model."""
        return sum(u.calls for u in self.stages.values())

    @property
    def chat_calls(self) -> int:
        """Chat completions that were asked for, cached ones included."""
        return sum(u.calls for stage, u in self.stages.items() if stage != "embedding")

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompts and of the texts embedded."""
        return sum(u.input_tokens for u in self.stages.values())

    @property
    def output_tokens(self) -> int:
        """Tokens of the replies."""
        return sum(u.output_tokens for u in self.stages.values())

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def as_dict(self) -> dict[str, dict[str, int | float | bool]]:
        """Give plain values by stage."""
        names = StageUsage.__dataclass_fields__
        return {s: {n: getattr(u, n) for n in names} for s, u in sorted(self.stages.items())}


@dataclass(frozen=True, slots=True)
class Budget:
    """What an operation may cost at the most, in calls of models, their tokens, or both.

    The call that would go over it is not made, and a BudgetExceededError raised in its place; calls
    that run by then end and are counted. The number of calls is kept exactly, from any number of
    threads. That of tokens may be passed by the replies of the calls that run, whose length nobody
    knows before, and by as much as a prompt is longer than we count it.

    A call counts once, however many tries it takes; one that fails does not count. A call that a
    cache answered counts as a call, and costs no tokens. What a local OpenIE or recognition memory
    does costs nothing.

    >>> Budget(calls=-1)
    Traceback (most recent call last):
        ...
    hippo_core.errors.ConfigError: calls must be at least 0, got -1
    """

    calls: int | None = None
    """Calls of the chat model and the embedder; None: any number."""
    tokens: int | None = None
    """Tokens in and out; None: any number."""

    def __post_init__(self) -> None:
        for name, value in (("calls", self.calls), ("tokens", self.tokens)):
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{name} must be a whole number, or None, got {value!r}")
            if value < 0:
                raise ConfigError(f"{name} must be at least 0, got {value!r}")


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in any currency.

    >>> Prices(input=0.5, output=1.5, embedding=0.1).of(Usage({"triples": StageUsage(1, 0, 2000)}))
    0.001
    """

    input: float = 0.0
    """Of prompts."""
    output: float = 0.0
    """Of replies."""
    embedding: float = 0.0
    """Of texts embedded."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "embedding"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"the price of {name} must be a number, got {value!r}")
            if not 0 <= value < float("inf"):
                raise ConfigError(f"the price of {name} must be at least 0, got {value!r}")

    def of(self, usage: Usage) -> float:
        """Give what a usage costs."""
        cost = 0.0
        for stage, used in usage.stages.items():
            price = self.embedding if stage == "embedding" else self.input
            cost += used.input_tokens * price + used.output_tokens * self.output
        return cost / 1e6


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an `add` would cost, before any call is made."""

    passages: int
    """Passages that have to be read."""
    usage: Usage
    """Calls, texts and tokens by stage."""
    counted_by: str
    """The rule by which tokens are counted."""
    cost: float | None = None
    """In the currency of the prices that were given; None without."""

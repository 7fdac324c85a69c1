"""Explanations: why a passage was found, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

PartKind = Literal["phrase", "passages", "context", "edge", "restart", "dense", "scaling"]
StepKind = Literal["relation", "synonymy", "context", "edge"]


class Part(NamedTuple):
    """One part of a passage's score."""

    kind: PartKind
    """Of a split by seed: `phrase`, a seed phrase; `passages`, all passages by their closeness to
    the query. By edge: `context`, from a phrase of the passage; `edge`, over one of yours;
    `restart`, as a seed itself. In both: `dense`, a cosine; `scaling`, what min-max scaling, or the
    score of a best passage that is not above 0, adds."""
    name: str
    """The phrase in its display form, or the edge; empty where there is one part of the kind."""
    amount: float


class Step(NamedTuple):
    """One edge of a path."""

    kind: StepKind
    to: str
    """The phrase, or the passage's id."""
    triple: tuple[str, str, str] | None = None
    """Of a relation: the triple that joins both phrases most often."""


class SeedPath(NamedTuple):
    """The strongest path from a seed to the passage."""

    seed: str
    """The phrase, or the passage's id."""
    steps: tuple[Step, ...]
    amount: float
    """What the walk brings along it, of the passage's score."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a passage has its score: two exact splits of it, and the strongest paths to it.

    The walk is linear in its seeds, so each split sums to the score, up to what `ppr_tolerance`
    lets the walk miss.

    >>> parts = (Part("phrase", "Ada", 0.75), Part("passages", "", 0.25))
    >>> steps = (Step("relation", "Ockham", ("Ada", "lived in", "Ockham")),
    ...          Step("context", "town"))
    >>> print(Explanation(1.0, parts, (), (SeedPath("Ada", steps, 0.5),)))
    score 1
    |- by seed
    |  |- 75.0%  phrase Ada
    |  `- 25.0%  passages
    `- by path
       `- 50.0%  Ada -[Ada lived in Ockham]- Ockham -[context]- town
    """

    score: float
    by_seed: tuple[Part, ...]
    """Largest first."""
    by_edge: tuple[Part, ...]
    """Over which edge into the passage it came, largest first."""
    paths: tuple[SeedPath, ...]
    """Strongest first, one from a seed; at most some, and none that brings less than 0.1%."""

    def as_dict(self) -> dict[str, Any]:
        """Give it as what JSON is made of."""
        return {
            "score": self.score,
            "by_seed": [part._asdict() for part in self.by_seed],
            "by_edge": [part._asdict() for part in self.by_edge],
            "paths": [
                {
                    "seed": path.seed,
                    "steps": [
                        {
                            "kind": step.kind,
                            "to": step.to,
                            "triple": list(step.triple) if step.triple else None,
                        }
                        for step in path.steps
                    ],
                    "amount": path.amount,
                }
                for path in self.paths
            ],
        }

    def __str__(self) -> str:
        groups = [
            ("by seed", [(part.amount, _named(part)) for part in self.by_seed]),
            ("by edge", [(part.amount, _named(part)) for part in self.by_edge]),
            ("by path", [(path.amount, _drawn(path)) for path in self.paths]),
        ]
        shown = [(title, lines) for title, lines in groups if lines]
        tree = [f"score {self.score:.6g}"]
        for title, lines in shown:
            is_last = title == shown[-1][0]
            tree.append(f"{'`-' if is_last else '|-'} {title}")
            for place, (amount, text) in enumerate(lines, start=1):
                branch = "`-" if place == len(lines) else "|-"
                tree.append(f"{'  ' if is_last else '| '} {branch} {self._share(amount)}  {text}")
        return "\n".join(tree)

    def _share(self, amount: float) -> str:
        return f"{amount / self.score:5.1%}" if self.score > 0 else f"{amount:+.3g}"


def _named(part: Part) -> str:
    return f"{part.kind} {part.name}".rstrip()


def _drawn(path: SeedPath) -> str:
    steps = (f" -[{_label(step)}]- {step.to}" for step in path.steps)
    return path.seed + "".join(steps)


def _label(step: Step) -> str:
    return " ".join(step.triple) if step.triple else step.kind

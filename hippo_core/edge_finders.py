"""Edge finders: links that a passage's own text or metadata names, as edges.

A finder is any function of a passage that gives edges of it; these are the two usual ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal, get_args

from hippo_core.errors import InputError
from hippo_core.types import HEAVIEST, Edge, Passage

EdgeFinder = Callable[[Passage], Iterable[Edge]]
To = Literal["passage", "source", "phrase"]
"""What a name that was found is: a passage's id, a source_id or a phrase."""


@dataclass(frozen=True, slots=True)
class RegexEdges:
    r"""Find links in a passage's text: an edge for each match of a pattern.

    >>> find = RegexEdges(r"(?i)article (\d+)", target=r"article-\1")
    >>> [edge.to_passage for edge in find(Passage("As Article 30 says.", id="article-12"))]
    ['article-30']
    """

    pattern: str | re.Pattern[str]
    _: KW_ONLY
    to: To = "passage"
    target: str | Callable[[re.Match[str]], str | None] | None = None
    """The name that a match gives: a template as of `re.Match.expand`, or a function of the match.

    None for its first group, or all of it where it has none. Nothing or "" is no edge."""
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_to(self.to)
        _check_weight(self.weight)
        if isinstance(self.pattern, bytes) or isinstance(
            getattr(self.pattern, "pattern", None), bytes
        ):
            raise InputError(f"the pattern must be of str, got {self.pattern!r}")
        try:
            object.__setattr__(self, "pattern", re.compile(self.pattern))
        except (re.error, TypeError) as error:
            raise InputError(f"{self.pattern!r} is no regular expression: {error}") from error

    def __call__(self, passage: Passage) -> Iterator[Edge]:
        """Give the edges that the passage's text names."""
        for match in re.finditer(self.pattern, passage.text):
            name = self._name(match)
            if name:
                yield _edge(passage, self.to, name, self.weight)

    def _name(self, match: re.Match[str]) -> str | None:
        if self.target is None:
            return match[1] if match.re.groups else match[0]
        if callable(self.target):
            return self.target(match)
        try:
            return match.expand(self.target)
        except (re.error, IndexError, TypeError) as error:
            raise InputError(
                f"target {self.target!r} does not fit the pattern {match.re.pattern!r}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class MetadataEdges:
    """Find links in a passage's metadata: names under a key, one or a list.

    A name is a str, or a whole number, which is taken as its digits. Without the key, or where it
    has None or "", there is no edge.

    >>> find = MetadataEdges("cites")
    >>> [e.to_passage for e in find(Passage("T", id="a", metadata={"cites": ["b", 30]}))]
    ['b', '30']
    """

    key: str
    _: KW_ONLY
    to: To = "passage"
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_to(self.to)
        _check_weight(self.weight)
        if not isinstance(self.key, str):
            raise InputError(f"key must be a str, got {type(self.key).__name__}")

    def __call__(self, passage: Passage) -> Iterator[Edge]:
        """Give the edges that the passage's metadata name."""
        value = passage.metadata.get(self.key)
        for item in value if isinstance(value, list) else [value]:
            if item is None or item == "":
                continue
            if isinstance(item, bool) or not isinstance(item, str | int):
                raise InputError(
                    f"passage {passage.id!r} has a {type(item).__name__} in metadata "
                    f"{self.key!r}, and links must be str or whole numbers, one or a list; change "
                    "it, or write a finder of your own"
                )
            yield _edge(passage, self.to, str(item), self.weight)


def _check_to(to: object) -> None:
    if to not in get_args(To):
        raise InputError(f"to must be one of {', '.join(get_args(To))}, got {to!r}")


def _check_weight(weight: object) -> None:
    is_number = isinstance(weight, Real) and not isinstance(weight, bool)
    if not is_number or not 0 < float(weight) <= HEAVIEST:  # type: ignore[arg-type]
        raise InputError(f"weight must be above 0 and at most {HEAVIEST:g}, got {weight!r}")


def _edge(passage: Passage, to: To, name: str, weight: float) -> Edge:
    target: dict[str, Any] = {f"to_{to}": name}
    return Edge(passage.id, **target, weight=weight)

"""The user's edges as they are handed in, checked before anything is done with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from hippo_core.contributions import Target
from hippo_core.edge_finders import EdgeFinder
from hippo_core.errors import InputError
from hippo_core.inputs import checked_passage
from hippo_core.text import canonical_json, normalise_phrase
from hippo_core.types import HEAVIEST, Edge, Passage

GivenEdges = Iterable[Edge | EdgeFinder] | EdgeFinder
EdgesById = dict[str, dict[Target, float]]

_NO_PHRASE = Target("phrase", "")  # of a text without anything to key by
_TARGETS = ("to_passage", "to_source", "to_phrase")


def checked_edges(given: GivenEdges | None, passages: Sequence[Passage]) -> EdgesById | None:
    """Give the edges of each passage of a call, and of each other one that an edge names as its.

    Of edges from one passage to one target the heaviest counts. None is given back as it is: the
    edges stay as they are.

    Raises:
        InputError: One of them is no edge, or a finder gives something else than its passage's.
    """
    if given is None:
        return None
    explicit, finders = _sorted_out(given)
    found: EdgesById = {p.id: {} for p in passages if p.full_text.strip()}
    blank = {p.id for p in passages} - found.keys()  # which are skipped, with their edges
    for edge in explicit:
        owner, target, weight = _checked(edge)
        if owner in blank:
            continue
        if target == Target("passage", owner):
            raise InputError(f"the edge from {owner!r} goes to itself; leave it out")
        if target == _NO_PHRASE:
            raise InputError(
                f"the phrase {edge.to_phrase!r} of an edge from {owner!r} must hold a letter, "
                "digit or symbol"
            )
        _take(found.setdefault(owner, {}), target, weight)
    for passage in {p.id: p for p in passages if p.id in found}.values():
        for finder in finders:
            for target, weight in _found(finder, passage):
                _take(found[passage.id], target, weight)
    return found


def _sorted_out(given: Any) -> tuple[list[Edge], list[EdgeFinder]]:
    if callable(given):
        given = [given]
    if isinstance(given, str | Edge | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"edges must be a list of Edge or of finders, got {type(given).__name__}; "
            "put a single one in a list"
        )
    explicit, finders = [], []
    for item in given:
        if isinstance(item, Edge):
            explicit.append(item)
        elif isinstance(item, type) or not callable(item):
            what = item.__name__ if isinstance(item, type) else type(item).__name__
            raise InputError(
                f"an edge must be an Edge or a function of a passage that gives some, got {what}"
            )
        else:
            finders.append(item)
    return explicit, finders


def _found(finder: Callable[[Passage], Any], passage: Passage) -> Iterable[tuple[Target, float]]:
    """Give what a finder finds, but an edge to the passage itself or to a phrase without a key."""
    edges = finder(passage.copy())
    if isinstance(edges, str | Edge | Mapping) or not isinstance(edges, Iterable):
        raise InputError(f"an edge finder must give a list of Edge, got {type(edges).__name__}")
    for edge in edges:
        owner, target, weight = _checked(edge)
        if owner != passage.id:
            raise InputError(
                f"an edge finder was given passage {passage.id!r} and gives an edge of {owner!r}; "
                "an edge can be walked both ways, so make it one of the passage"
            )
        if target not in (_NO_PHRASE, Target("passage", owner)):
            yield target, weight


def _checked(edge: Any) -> tuple[str, Target, float]:
    """Give an edge's passage, target and weight."""
    if not isinstance(edge, Edge):
        raise InputError(f"an edge must be an Edge, got {type(edge).__name__}")
    owner = _id(edge.passage, "passage")
    named = {name: value for name in _TARGETS if (value := getattr(edge, name)) is not None}
    if len(named) != 1:
        raise InputError(
            f"the edge from {owner!r} must name one target by to_passage=, to_source= or "
            f"to_phrase=, got {' and '.join(named) or 'none'}"
        )
    ((name, value),) = named.items()
    if name == "to_passage":
        target = Target("passage", _id(value, name))
    elif not isinstance(value, str):
        raise InputError(f"{name} must be a str, got {type(value).__name__}")
    elif name == "to_source":
        canonical_json(str(value), name=name)
        target = Target("source", str(value))
    else:
        target = Target("phrase", normalise_phrase(str(value)))
        canonical_json(target.name, name=name)
    return owner, target, _weight(edge.weight, owner)


def _id(passage: object, name: str) -> str:
    """Give the id of a passage that is named by its id or by itself."""
    if isinstance(passage, Passage):
        return checked_passage(passage).id
    if not isinstance(passage, str) or not passage:
        raise InputError(
            f"{name} of an edge must be a Passage or the id of one, got {passage!r:.80}"
        )
    canonical_json(str(passage), name=f"{name} of an edge")
    return str(passage)


def _weight(weight: object, owner: str) -> float:
    is_number = isinstance(weight, Real) and not isinstance(weight, bool)
    try:
        number = float(weight) if is_number else 0.0  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not 0 < number <= HEAVIEST:
        raise InputError(
            f"the weight of an edge must be a number above 0 and at most {HEAVIEST:g}, "
            f"got {weight!r} from {owner!r}; leave out an edge that weighs nothing"
        )
    return number


def _take(edges: dict[Target, float], target: Target, weight: float) -> None:
    edges[target] = max(weight, edges.get(target, weight))

"""Planning: what an `add` has to do, by what is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hippo_core.contributions import Target
from hippo_core.edge_inputs import EdgesById
from hippo_core.errors import InputError
from hippo_core.index import HippoIndex
from hippo_core.records import StoredPassage
from hippo_core.text import canonical_json
from hippo_core.types import Extraction, Passage, Status


@dataclass(frozen=True, slots=True)
class Plan:
    """What an `add` has to do with each of its passages."""

    ids: tuple[str, ...]
    changed: Mapping[str, Passage]
    """Passages to write, by id: new, of other content, or without a finished extraction."""
    updated: frozenset[str]
    unchanged: tuple[str, ...]
    blank: int
    edges: Mapping[str, Mapping[Target, float]]
    """The edges that were given, by the id of their passage."""
    is_linked: bool
    """Whether the live passages among these have just these edges."""


def plan_of(
    index: HippoIndex,
    passages: Sequence[Passage],
    given: Mapping[str, Extraction] | None,
    edges: EdgesById,
    *,
    again: bool = False,
) -> Plan:
    """Compare passages, with given extractions and edges, with what the store has.

    Raises:
        InputError: An id stands for two passages, or an edge is of one that is nowhere.
    """
    asked = distinct(passages)
    ids = [passage.id for passage in passages if passage.full_text.strip()]
    with index.store.read() as reader:
        wanted = list({**asked, **edges})
        stored = {s.passage.id: s for s in reader.passages(index.namespace, wanted)}
    _check_owners(edges, {*asked, *stored})
    changed = {
        i: p for i, p in asked.items() if again or i not in stored or _differs(stored[i], p, given)
    }
    return Plan(
        ids=tuple(ids),
        changed=changed,
        updated=frozenset(i for i in changed if i in stored),
        unchanged=tuple(i for i in asked if i not in changed),
        blank=len(passages) - len(ids),
        edges=edges,
        is_linked=all(s.edges == edges.get(i, s.edges) for i, s in stored.items()),
    )


def distinct(passages: Iterable[Passage]) -> dict[str, Passage]:
    """Give the passages by id, without those that have no text.

    Raises:
        InputError: An id stands for two passages.
    """
    found: dict[str, Passage] = {}
    for passage in passages:
        if passage.full_text.strip() and found.setdefault(passage.id, passage) != passage:
            raise InputError(
                f"id {passage.id!r} stands for two different passages in one call; "
                "give each its own id"
            )
    return found


def _differs(
    stored: StoredPassage, passage: Passage, given: Mapping[str, Extraction] | None
) -> bool:
    same = stored.passage == passage and canonical_json(
        dict(stored.passage.metadata)
    ) == canonical_json(dict(passage.metadata))  # 1 == 1.0 == True, but not in JSON
    if not same or not stored.status.finished:
        return True
    return given is not None and with_status(given[passage.id]) != stored.extraction


def _check_owners(edges: Iterable[str], there: Collection[str]) -> None:
    for id_ in edges:
        if id_ not in there:
            raise InputError(
                f"an edge is of passage {id_!r}, which is neither in this call nor there; "
                "add the passage, or leave the edge out"
            )


def with_status(extraction: Extraction) -> Extraction:
    """Say `ok` or `empty` by what is there; partial stays, and of a failed one only the reason."""
    if extraction.status is Status.FAILED:
        return Extraction(status=Status.FAILED, reason=extraction.reason)
    if extraction.status.finished:
        return replace(extraction, status=Status.OK if extraction.triples else Status.EMPTY)
    return extraction

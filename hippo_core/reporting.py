"""Reporting: what became of each passage of one `add`, and what looks wrong about the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hippo_core._reply_lists import LIMIT, OVER_THE_LIMIT
from hippo_core.contributions import unkeyed
from hippo_core.costs import Usage
from hippo_core.planning import Plan
from hippo_core.types import Extraction, IndexReport, Status

ENOUGH = 5  # passages without any triple that are no accident


def report_of(
    plan: Plan,
    by_id: Mapping[str, Extraction],
    failed: Mapping[str, str],
    touched: Sequence[str],
    usage: Usage,
) -> IndexReport:
    """Say what became of the passages of a plan, given what was read and why some was not."""
    return IndexReport(
        ids=plan.ids,
        added=tuple(i for i in by_id if i not in plan.updated and i not in failed),
        updated=(*(i for i in by_id if i in plan.updated and i not in failed), *touched),
        unchanged=plan.unchanged,
        failed=failed,
        partial={i: e.reason for i, e in by_id.items() if e.status is Status.PARTIAL},
        empty=tuple(i for i, e in by_id.items() if e.status is Status.EMPTY),
        blank=plan.blank,
        dropped=dropped_of(by_id.values()),
        edges=sum(map(len, plan.edges.values())),
        usage=usage,
    )


def dropped_of(read: Iterable[Extraction]) -> dict[str, int]:
    """Count what could not be used of what was read, by kind."""
    dropped: Counter[str] = Counter()
    for extraction in read:
        dropped.update(extraction.dropped)
        dropped["no letters or digits"] += unkeyed(extraction)
    return {kind: n for kind, n in dropped.items() if n}


def warnings_of(read: Collection[Extraction], dropped: Mapping[str, int]) -> Iterator[str]:
    """Say what looks wrong about what was read, each with its likely cause."""
    if len(read) >= ENOUGH and not any(e.triples for e in read):
        yield (
            f"none of the {len(read)} passages of this call gave a triple, so that only dense "
            f"retrieval finds them: {_cause(read, dropped)}"
        )
    if many := dropped.get(OVER_THE_LIMIT):
        yield (
            f"{many} entities or triples over the {LIMIT} that one reply may give were dropped: "
            "the model repeats itself, or the passages are too long for one; split them"
        )


def _cause(read: Collection[Extraction], dropped: Mapping[str, int]) -> str:
    reasons = Counter(e.reason for e in read if e.status is Status.FAILED)
    unusable = ", ".join(f"{kind}: {n}" for kind, n in dropped.items() if n)
    if reasons:
        reason, times = reasons.most_common(1)[0]
        return f"{sum(reasons.values())} could not be read, {times} of them because {reason}"
    if unusable:
        return (
            f"what the replies held could not be used ({unusable}); bind a JSON schema to the "
            "model, or take a larger one"
        )
    return (
        "the extractor found nothing in them; it may be made for another language, its model too "
        "small, or the prompts (prompts=) of no use to it"
    )

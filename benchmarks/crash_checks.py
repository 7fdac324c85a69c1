"""What must hold after a kill: a state of the plan, ranked as a fresh one, and no reply lost."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crash_child import Event, last_done
from crash_plan import CONCURRENCY, CONFIG, METHODS, QUERIES, Plan, State, linked

from hippo_core import HippoRAG, Passage
from hippo_core.testing import HashEmbedder, LoggedReply, TableChatModel, TableOpenIE

SAME_SCORE = 1e-9


def state_problems(
    store: Path, plan: Plan, told: Sequence[Event], *, finished: bool = False
) -> list[str]:
    """Open a store that was left, and say what is wrong with it.

    Once the plan is finished, nothing of what interrupted steps had read may be left over.
    """
    done = last_done(told)
    begun = max((e.step for e in told), default=-1)
    doubles = (TableChatModel(plan.table), HashEmbedder(32))
    openie = TableOpenIE(queries=QUERIES)
    try:
        with HippoRAG(*doubles, store=store, config=CONFIG, openie=openie) as memory:
            shown = list(memory)
            by_id = {p.id: p for p in shown}
            problems = []
            if by_id not in [plan.state_after(step) for step in {done, begun}]:
                problems.append(_difference(by_id, plan, done, begun))
            counts = (len(shown), len(memory), memory.stats().passages, len(memory.get(by_id)))
            if len(set(counts)) != 1 or memory.get(by_id) != shown:
                problems.append(f"list, len, stats and get disagree: {counts}")
            problems += _ranking_problems(memory, shown, plan, openie)
            if finished and (left := memory.forget_pending()):
                problems.append(f"what was read of {left} texts was left over")
            if hasattr(memory, "verify"):
                problems += [f"verify: {problem}" for problem in memory.verify().problems]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return [f"opening or reading failed: {type(error).__name__}: {error}"]
    return problems


def _difference(shown: State, plan: Plan, done: int, begun: int) -> str:
    before, after = plan.state_after(done), plan.state_after(begun)
    missing = sorted(id_ for id_ in before if id_ not in shown and id_ in after)
    strange = sorted(id_ for id_, p in shown.items() if p not in (before.get(id_), after.get(id_)))
    what = plan.steps[begun].what if begun >= 0 else "nothing"
    return (
        f"neither the state after step {done} nor after step {begun} ({what}): "
        f"{len(shown)} passages are shown, {len(before)} and {len(after)} were expected; "
        f"missing {missing}, strange {strange}"
    )


def _ranking_problems(
    memory: HippoRAG, shown: Sequence[Passage], plan: Plan, openie: TableOpenIE
) -> list[str]:
    problems = []
    with HippoRAG(None, HashEmbedder(32), config=CONFIG, openie=openie) as fresh:
        fresh.add_extracted([(p, plan.table[p.full_text]) for p in shown], edges=linked)
        if memory.stats() != fresh.stats():
            problems.append(f"{memory.stats()}, of a fresh memory {fresh.stats()}")
        for config, query in itertools.product(METHODS, QUERIES):
            here = memory.retrieve(query, k=1000, config=config)
            there = fresh.retrieve(query, k=1000, config=config)
            same = [h.passage for h in here] == [h.passage for h in there] and all(
                abs(h.score - t.score) <= SAME_SCORE for h, t in zip(here, there, strict=True)
            )
            if not same or here.path != there.path:
                problems.append(f"{config.method} ranks otherwise than a fresh memory: {query}")
    return problems


class Run(NamedTuple):
    """One child, by what was acknowledged and told until its end, and how it ended."""

    replies: int
    events: int
    killed: bool


class Paid(NamedTuple):
    """A reply by its place in the log, and when it was acknowledged."""

    line: int
    run: int
    step: int


def paid_twice(
    plan: Plan, log: Sequence[LoggedReply], told: Sequence[Event], runs: Sequence[Run]
) -> tuple[int, list[str]]:
    """Count the replies in flight at a kill that were asked for again, and tell of all others."""
    in_flight = [_in_flight(log, told, runs, number) for number in range(len(runs))]
    excused: dict[int, set[int]] = defaultdict(set)  # by run, the replies in flight
    beyond: dict[int, str] = {}
    for (kind, key), times in _payments(plan, log, told, runs).items():
        for before, after in itertools.pairwise(times):
            if before.step < after.step and _forgotten(plan, kind, key, before.step, after.step):
                continue
            if before.step == after.step and before.line in in_flight[before.run]:
                excused[before.run].add(before.line)
            else:
                beyond[before.line] = f"{kind} {key[:60]!r} was paid at {before} and at {after}"
    for number, lines in excused.items():
        for line in sorted(lines)[CONCURRENCY:]:
            beyond[line] = f"run {number} lost more than {CONCURRENCY} replies"
    return sum(min(len(lines), CONCURRENCY) for lines in excused.values()), list(beyond.values())


def _payments(
    plan: Plan, log: Sequence[LoggedReply], told: Sequence[Event], runs: Sequence[Run]
) -> dict[tuple[str, str], list[Paid]]:
    """Give when each request was answered.

    Not of queries, nor of what no passage says: each handle embeds a probe of its embedder.
    """
    began = [(e.replies, e.step) for e in told if e.what == "begin"]
    payments: dict[tuple[str, str], list[Paid]] = defaultdict(list)
    for line, reply in enumerate(log):
        if reply.kind.startswith("query"):
            continue
        step = max((step for count, step in began if count <= line), default=-1)
        run = next(number for number, r in enumerate(runs) if line < r.replies)
        for key in reply.keys:
            if reply.kind != "passage" or key in plan.table:
                payments[reply.kind, key].append(Paid(line, run, step))
    return payments


def _in_flight(
    log: Sequence[LoggedReply], told: Sequence[Event], runs: Sequence[Run], number: int
) -> set[int]:
    """Give the last reply of each asker in the step that a kill interrupted."""
    begun = told[runs[number - 1].events if number else 0 : runs[number].events]
    if not runs[number].killed or not begun:
        return set()
    lines = range(begun[-1].replies, runs[number].replies)
    return set({log[line].asker: line for line in lines}.values())


def _forgotten(plan: Plan, kind: str, key: str, paid: int, again: int) -> bool:
    """Whether, after some step in between, no passage needed the text: then it is paid again."""
    return kind != "chat" and any(
        key not in plan.used_after(step)[kind] for step in range(paid, again)
    )

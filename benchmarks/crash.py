"""Kill a process that writes to a memory, at random moments, and see that nothing is lost.

A child works through a plan of steps - add, update, change metadata, delete, reopen - and is killed
by SIGKILL: from outside, at a reply, soon after a reply or after a step began, at a statement that
it sends to the database, or where it is about to open, rename or remove a file of the store. Then
- the store opens and shows the state before or after a commit, nothing in between;
- it ranks as a fresh memory of the passages that it shows;
- a new child goes on where the last one was, and no reply that was acknowledged is asked for again,
  save at most one per concurrent call, which had not been stored yet.

    python benchmarks/crash.py --kills 200 --seed 0 --json out.json
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from hippo_core import (
    ChatModel,
    Completion,
    Embedder,
    Extraction,
    HippoConfig,
    HippoError,
    HippoRAG,
    Kind,
    Message,
    Passage,
    Triple,
)
from hippo_core.testing import (
    HashEmbedder,
    LoggedChatModel,
    LoggedEmbedder,
    LoggedReply,
    TableChatModel,
    TableOpenIE,
    replies,
)

STEPS = 14
CONCURRENCY = 4
SLOWEST_REPLY = 0.004  # seconds
WATCHDOG = 120.0  # seconds that a child may take
SAME_SCORE = 1e-9

CONFIG = HippoConfig(
    concurrency=CONCURRENCY,
    embed_batch_size=2,
    synonymy_threshold=0.75,
    triple_rendering="words",
    recognition_memory=False,
)
METHODS = (
    CONFIG,
    CONFIG.but(method="dense"),
    CONFIG.but(method="hipporag", relation_count="occurrence"),
)
PHRASES = [
    f"{colour} {thing}"
    for colour in ("red", "blue", "old", "red old", "tall")
    for thing in ("fox", "tower", "river", "sea port", "king")
]
QUERIES = {
    "Who saw the red fox at the old tower?": ["red fox", "old tower"],
    "What does the blue king of the sea port own?": ["blue king", "sea port"],
}

# -- the plan --------------------------------------------------------------------------------------

What = Literal["add", "given", "update", "metadata", "delete", "reopen"]
State = dict[str, Passage]


class Step(NamedTuple):
    """One operation of the plan."""

    what: What
    passages: tuple[Passage, ...] = ()
    ids: tuple[str, ...] = ()
    on_a_loop: bool = False
    then_retrieve: bool = False


@dataclass
class Plan:
    """The steps of one store, what each text says, and the state after each step."""

    steps: list[Step] = field(default_factory=list)
    table: dict[str, Extraction] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    def state_after(self, step: int) -> State:
        """Give the passages by id; step -1 is before the first."""
        return self.states[step] if step >= 0 else {}

    def used_after(self, step: int) -> dict[str, set[str]]:
        """Give the texts whose vectors the passages need, by kind."""
        texts = {p.full_text for p in self.state_after(step).values()}
        told = [triple for text in texts for triple in self.table[text].triples]
        return {
            "passage": texts,
            "phrase": {phrase for t in told for phrase in (t.subject, t.object)},
            "triple": {" ".join(t) for t in told},
        }


def plan_of(seed: Sequence[int]) -> Plan:
    """Make the plan of a seed; each step's texts are its own, so that no extraction recurs."""
    random = np.random.default_rng(list(seed))
    plan = Plan()
    state: State = {}
    for number in range(STEPS):
        step = _step(number, state, random, plan.table)
        state = {**state, **{p.id: p for p in step.passages}}
        state = {id_: p for id_, p in state.items() if id_ not in step.ids}
        plan.steps.append(step)
        plan.states.append(state)
    return plan


def _step(
    number: int, state: State, random: np.random.Generator, table: dict[str, Extraction]
) -> Step:
    options: list[What] = ["add", "add", "add", "given", "update", "update"]
    options += ["metadata", "delete", "delete", "reopen", "reopen"]
    what = options[random.integers(len(options))] if len(state) > 3 else "add"
    on_a_loop, then_retrieve = bool(random.random() < 0.3), bool(random.random() < 0.3)
    some = list(random.permutation(sorted(state))[: random.integers(1, 5)])
    if what in ("add", "given"):
        new = [
            _passage(number, place, f"id {number}-{place}", random, table)
            for place in range(random.integers(2, 7))
        ]
        if what == "add" and some and random.random() < 0.5:
            new.append(state[some[0]])  # unchanged
        return Step(what, tuple(new), (), on_a_loop, then_retrieve)
    if what == "update":
        new = [_passage(number, place, id_, random, table) for place, id_ in enumerate(some)]
        return Step(what, tuple(new), (), on_a_loop, then_retrieve)
    if what == "metadata":
        changed = [replace(state[id_], metadata={"step": number}) for id_ in some]
        return Step(what, tuple(changed), (), on_a_loop, then_retrieve)
    if what == "delete":
        return Step(what, (), tuple(some), on_a_loop, then_retrieve)
    return Step(what, then_retrieve=then_retrieve)


def _passage(
    number: int, place: int, id_: str, random: np.random.Generator, table: dict[str, Extraction]
) -> Passage:
    triples = []
    for _ in range(random.integers(0, 4)):
        subject, object_ = random.choice(PHRASES, 2)
        relation = random.choice(["saw", "owns", "is near"])
        triples.append(Triple(str(subject), str(relation), str(object_)))
    told = ". ".join(" ".join(triple) for triple in triples)
    passage = Passage(f"Note {number}-{place}. {told}", id=str(id_), metadata={"first": number})
    entities = tuple(dict.fromkeys(p for t in triples for p in (t.subject, t.object)))
    table[passage.full_text] = Extraction(entities, tuple(triples))
    return passage


# -- the child, which is killed --------------------------------------------------------------------

How = Literal[
    "outside", "unlogged", "logged", "after a reply", "in a step", "at a statement", "at a file"
]
HOWS: dict[How, float] = {  # and how often
    "outside": 0.15,
    "unlogged": 0.1,
    "logged": 0.15,
    "after a reply": 0.15,
    "in a step": 0.15,
    "at a statement": 0.2,
    "at a file": 0.1,
}
STATEMENTS: dict[What, int] = {  # about as many as each step sends to the database
    "add": 100,
    "given": 50,
    "update": 90,
    "metadata": 38,
    "delete": 18,
    "reopen": 30,
}


class Death(NamedTuple):
    """When a child is killed."""

    how: How | Literal["never"]
    nth: int = 0
    """At which reply, step, statement or file."""
    seconds: float = 0.0
    """How long after that."""
    what: str = ""
    """In which kind of step."""


class Reaper:
    """Kills its own process when the time has come."""

    def __init__(self, death: Death, store: Path) -> None:
        self._death = death
        self._store = str(store)
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self._doing = "reopen"
        if death.how == "at a statement":
            sa.event.listen(sa.Engine, "before_cursor_execute", self._statement)
            sa.event.listen(sa.Engine, "commit", self._statement)
        if death.how == "at a file":
            sys.addaudithook(self._file)

    def begin(self, what: What) -> None:
        """Note which step begins, and pass by."""
        self._doing = what
        if what == self._death.what:
            self.pass_by("in a step")

    def pass_by(self, *hows: How) -> None:
        """Count a reply, step or statement; kill if it is the one."""
        death = self._death
        for how in hows:
            with self._lock:
                self._seen[how] += 1
                if how != death.how or self._seen[how] != death.nth:
                    continue
            if death.seconds:
                threading.Timer(death.seconds, _kill).start()
            else:
                _kill()

    def _statement(self, *_: object) -> None:
        if self._doing == self._death.what:
            self.pass_by("at a statement")

    def _file(self, event: str, given: tuple[object, ...]) -> None:
        """Pass by where a file of the store is about to be opened, renamed or removed."""
        if event == "open" or event.startswith(("os.", "sqlite3.connect", "mmap")):
            if any(str(part).startswith(self._store) for part in given):
                self.pass_by("at a file")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """A model that passes by the reaper with each reply, and takes its time before that."""

    def __init__(self, inner: Any, passed: Callable[[], None], slowest: float, seed: int) -> None:
        self.name = inner.name
        self.one_query_encoding = True
        self._inner = inner
        self._passed = passed
        self._slowest = slowest
        self._random = np.random.default_rng(seed)
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message]) -> Completion:
        completion: Completion = self._inner.complete(messages)
        time.sleep(self._latency())
        self._passed()
        return completion

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        completion: Completion = await self._inner.acomplete(messages)
        await asyncio.sleep(self._latency())
        self._passed()
        return completion

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self._inner.embed(texts, kind)
        time.sleep(self._latency())
        self._passed()
        return rows

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = await self._inner.aembed(texts, kind)
        await asyncio.sleep(self._latency())
        self._passed()
        return rows

    def _latency(self) -> float:
        with self._lock:
            return float(self._random.random()) * self._slowest


class Files(NamedTuple):
    """Where a store and what is told of it are."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def replies(self) -> Path:
        return self.folder / "replies.jsonl"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"


class Event(NamedTuple):
    """A step began or was done, when so many replies had been acknowledged."""

    what: Literal["begin", "done"]
    step: int
    replies: int


def run_child(files: Files, seed: Sequence[int], death: Death) -> None:
    """Work through the plan from the first step that is not done; say when it begins and ends."""
    plan = plan_of(seed)
    reaper = Reaper(death, files.store)
    chat, embedder = _doubles(plan, files, reaper, int(seed[-1]))
    print("ready", flush=True)
    memory = HippoRAG(chat, embedder, store=files.store, config=CONFIG)
    for number in range(last_done(events(files)) + 1, len(plan.steps)):
        step = plan.steps[number]
        _tell(files, "begin", number)
        reaper.begin(step.what)
        if step.what == "reopen":
            memory.close()
            memory = HippoRAG(chat, embedder, store=files.store, config=CONFIG)
        else:
            _do(step, memory, plan)
        _tell(files, "done", number)
        if step.then_retrieve:
            memory.retrieve(next(iter(QUERIES)))
    memory.close()


def _doubles(plan: Plan, files: Files, reaper: Reaper, seed: int) -> tuple[Mortal, Mortal]:
    """Give the models: each replies, may die, logs its reply, may die again, and gives it back."""
    chat: ChatModel = TableChatModel(plan.table)
    embedder: Embedder = HashEmbedder(32)

    def unlogged() -> None:
        reaper.pass_by("unlogged")

    def logged() -> None:
        reaper.pass_by("logged", "after a reply")

    return (
        Mortal(
            LoggedChatModel(Mortal(chat, unlogged, SLOWEST_REPLY, seed), files.replies),
            logged,
            SLOWEST_REPLY / 8,
            seed + 1,
        ),
        Mortal(
            LoggedEmbedder(Mortal(embedder, unlogged, SLOWEST_REPLY, seed + 2), files.replies),
            logged,
            SLOWEST_REPLY / 8,
            seed + 3,
        ),
    )


def _do(step: Step, memory: HippoRAG, plan: Plan) -> None:
    if step.what == "given":
        items = [(p, plan.table[p.full_text]) for p in step.passages]
        if step.on_a_loop:
            asyncio.run(memory.aadd_extracted(items))
        else:
            memory.add_extracted(items)
    elif step.what == "delete":
        if step.on_a_loop:
            asyncio.run(memory.adelete(step.ids))
        else:
            memory.delete(step.ids)
    elif step.on_a_loop:
        asyncio.run(memory.aadd(step.passages))
    else:
        memory.add(step.passages)


def _tell(files: Files, what: str, step: int) -> None:
    line = json.dumps([what, step, len(replies(files.replies))])
    with files.events.open("ab", buffering=0) as file:
        file.write(f"\n{line}".encode())
        os.fsync(file.fileno())


def events(files: Files) -> list[Event]:
    """Read what the children told; a line that was not finished is left out."""
    if not files.events.exists():
        return []
    found = []
    for line in filter(None, files.events.read_bytes().split(b"\n")):
        try:
            found.append(Event(*json.loads(line)))
        except ValueError:
            continue
    return found


def last_done(told: Sequence[Event]) -> int:
    """Give the last step that was done, -1 if none was."""
    return max((e.step for e in told if e.what == "done"), default=-1)


# -- what must hold after a kill -------------------------------------------------------------------


def state_problems(store: Path, plan: Plan, told: Sequence[Event]) -> list[str]:
    """Open a store that was left, and say what is wrong with it."""
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
            if hasattr(memory, "verify"):
                problems += [f"verify: {problem}" for problem in memory.verify().problems]
    except HippoError as error:
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
        fresh.add_extracted([(p, plan.table[p.full_text]) for p in shown])
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


# -- one store, killed until its plan is done ------------------------------------------------------


@dataclass
class Outcome:
    """What was seen."""

    kills: Counter[str] = field(default_factory=Counter)
    interrupted: Counter[str] = field(default_factory=Counter)
    survived: int = 0
    stores: int = 0
    in_flight: int = 0
    beyond: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Take in what was seen elsewhere."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def run_store(seed: int, number: int, enough: Callable[[Outcome], bool]) -> Outcome:
    """Run children until the plan is done; kill each but the last, unless there were enough."""
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    files = Files(folder)
    plan = plan_of((seed, number))
    random = np.random.default_rng([seed, number, 1])
    outcome = Outcome(stores=1)
    runs: list[Run] = []
    finished = False
    while not finished and not outcome.problems:
        death = Death("never") if enough(outcome) else _death(random)
        finished, said = _run(files, (seed, number), death)
        told = events(files)
        runs.append(Run(len(replies(files.replies)), len(told), killed=not finished))
        if said:
            outcome.problems.append(f"a child failed: {said}")
            break
        problems = _checked(files, plan, told, copied=not finished and random.random() < 0.5)
        if not finished:
            outcome.kills[death.how] += 1
            outcome.interrupted[_interrupted(plan, told)] += 1
            outcome.survived += not problems
        outcome.problems += problems
    log = replies(files.replies)
    outcome.in_flight, outcome.beyond = paid_twice(plan, log, events(files), runs)
    about = f"store {number} of seed {seed}, run {len(runs)}, kept in {folder}: "
    outcome.problems = [about + problem for problem in outcome.problems]
    outcome.beyond = [about + beyond for beyond in outcome.beyond]
    if not outcome.problems and not outcome.beyond:
        shutil.rmtree(folder)
    return outcome


def _death(random: np.random.Generator) -> Death:
    """Choose when the next child dies."""
    how = list(HOWS)[random.choice(len(HOWS), p=list(HOWS.values()))]
    what = list(STATEMENTS)[random.integers(len(STATEMENTS))]
    early = float(random.random() ** 2)
    match how:
        case "outside":
            return Death(how, seconds=0.7 * early)
        case "unlogged" | "logged":
            return Death(how, int(random.integers(1, 40)))
        case "after a reply":
            return Death(how, int(random.integers(1, 40)), 0.04 * early)
        case "in a step":
            return Death(how, int(random.integers(1, 3)), 0.04 * early, what)
        case "at a statement":
            return Death(how, int(random.integers(1, STATEMENTS[what])), what=what)
        case "at a file":
            return Death(how, 1 + int(20 * early))


def _run(files: Files, seed: Sequence[int], death: Death) -> tuple[bool, str]:
    """Run one child; say whether it came to its end, and what it said if it failed."""
    command = [sys.executable, __file__, "--child", str(files.folder), *map(str, seed)]
    child = subprocess.Popen(
        [*command, *map(str, death)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(WATCHDOG, child.kill)
    watchdog.start()
    try:
        assert child.stdout is not None
        child.stdout.readline()
        if death.how == "outside":
            time.sleep(death.seconds)
            child.kill()
        _, said = child.communicate()
    finally:
        timed_out = not watchdog.is_alive()
        watchdog.cancel()
        child.kill()
    if timed_out:
        return False, f"not done after {WATCHDOG:.0f} seconds"
    if child.returncode not in (0, -signal.SIGKILL):
        return False, said[-2000:]
    return child.returncode == 0, ""


def _checked(files: Files, plan: Plan, told: Sequence[Event], *, copied: bool) -> list[str]:
    """Check the store, or a copy: then the next child finds it as the killed one left it."""
    store = files.store
    if copied and store.exists():
        store = files.folder / "copy"
        shutil.copytree(files.store, store)
    problems = state_problems(store, plan, told)
    if copied:
        shutil.rmtree(store, ignore_errors=True)
    return problems


def _interrupted(plan: Plan, told: Sequence[Event]) -> str:
    if not told:
        return "opening"
    return plan.steps[told[-1].step].what if told[-1].what == "begin" else "between steps"


# -- many stores -----------------------------------------------------------------------------------


def run(kills: int, seed: int, jobs: int = 2) -> Outcome:
    """Kill so many children, over as many stores as it takes; give what was seen."""
    total = Outcome()
    lock = threading.Lock()
    numbers = iter(range(sys.maxsize))

    def enough(so_far: Outcome) -> bool:
        with lock:
            return total.kills.total() + so_far.kills.total() >= kills

    def work() -> None:
        while not enough(Outcome()) and not total.problems:
            with lock:
                number = next(numbers)
            outcome = run_store(seed, number, enough)
            with lock:
                total.add(outcome)
                print(f"{total.kills.total()} killed, {total.survived} survived", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    return total


def report(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Give plain values."""
    return {
        "kills": outcome.kills.total(),
        "crash_points_survived": outcome.survived,
        "replies_paid_twice_beyond_in_flight": len(outcome.beyond),
        "replies_paid_twice_in_flight": outcome.in_flight,
        "stores": outcome.stores,
        "killed": dict(sorted(outcome.kills.items())),
        "interrupted": dict(sorted(outcome.interrupted.items())),
        "seconds": round(seconds, 1),
        "problems": outcome.problems + outcome.beyond,
    }


def main() -> int:
    """Run the test, or the child that is killed."""
    if sys.argv[1:2] == ["--child"]:
        folder, *seed, how, count, seconds, what = sys.argv[2:]
        death = Death(how, int(count), float(seconds), what)  # type: ignore[arg-type]
        run_child(Files(Path(folder)), [int(s) for s in seed], death)
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="children at once")
    parser.add_argument("--json", type=Path, help="where to write what was seen")
    options = parser.parse_args()
    started = time.perf_counter()
    outcome = run(options.kills, options.seed, options.jobs)
    told = report(outcome, time.perf_counter() - started)
    print(json.dumps(told, indent=1))
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 1 if told["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())

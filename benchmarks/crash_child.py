"""The process that is killed: it works through a plan with models that log each reply."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa
from crash_plan import CONFIG, QUERIES, Plan, Step, What, linked, plan_of
from numpy.typing import NDArray

from hippo_core import ChatModel, Completion, Embedder, HippoRAG, Kind, Message
from hippo_core.testing import (
    HashEmbedder,
    LoggedChatModel,
    LoggedEmbedder,
    TableChatModel,
    replies,
)

SLOWEST_REPLY = 0.003  # seconds

How = Literal[
    "outside", "unlogged", "logged", "after a reply", "in a step", "at a statement", "at a file"
]


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
            asyncio.run(memory.aadd_extracted(items, edges=linked))
        else:
            memory.add_extracted(items, edges=linked)
    elif step.what == "delete":
        if step.on_a_loop:
            asyncio.run(memory.adelete(step.ids))
        else:
            memory.delete(step.ids)
    elif step.on_a_loop:
        asyncio.run(memory.aadd(step.passages, edges=linked))
    else:
        memory.add(step.passages, edges=linked)


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


def main() -> None:
    """Be the child."""
    folder, *seed, how, nth, seconds, what = sys.argv[1:]
    death = Death(how, int(nth), float(seconds), what)  # type: ignore[arg-type]
    run_child(Files(Path(folder)), [int(s) for s in seed], death)


if __name__ == "__main__":
    main()

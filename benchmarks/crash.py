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
import json
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_child
import numpy as np
from crash_checks import Run, paid_twice, state_problems
from crash_child import Death, Event, Files, How, events, last_done
from crash_plan import Plan, What, plan_of

from hippo_core.testing import replies

logging.getLogger("hippo_core").setLevel(logging.ERROR)  # an empty memory is asked, too

WATCHDOG = 120.0  # seconds that a child may take
HOWS: dict[How, float] = {  # and how often
    "outside": 0.15,
    "unlogged": 0.05,
    "logged": 0.1,
    "after a reply": 0.1,
    "in a step": 0.2,
    "at a statement": 0.3,
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
        death = Death("never") if enough(outcome) else _death(random, plan, events(files))
        finished, said = _run(files, (seed, number), death)
        told = events(files)
        runs.append(Run(len(replies(files.replies)), len(told), killed=not finished))
        if said:
            outcome.problems.append(f"a child failed: {said}")
            break
        problems = _checked(files, plan, told, random, finished=finished)
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


def _death(random: np.random.Generator, plan: Plan, told: Sequence[Event]) -> Death:
    """Choose when the next child dies."""
    to_come = sorted({step.what for step in plan.steps[last_done(told) + 1 :]})
    how = list(HOWS)[random.choice(len(HOWS), p=list(HOWS.values()))]
    what = to_come[random.integers(len(to_come))] if to_come else "reopen"
    early = float(random.random() ** 2)
    match how:
        case "outside":
            return Death(how, seconds=0.5 * early)
        case "unlogged" | "logged":
            return Death(how, int(random.integers(1, 30)))
        case "after a reply":
            return Death(how, int(random.integers(1, 30)), 0.04 * early)
        case "in a step":
            return Death(how, 1, 0.04 * early, what)
        case "at a statement":
            return Death(how, int(random.integers(1, STATEMENTS[what])), what=what)
        case "at a file":
            return Death(how, 1 + int(20 * early))


def _run(files: Files, seed: Sequence[int], death: Death) -> tuple[bool, str]:
    """Run one child; say whether it came to its end, and what it said if it failed."""
    command = [sys.executable, crash_child.__file__, str(files.folder), *map(str, seed)]
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


def _checked(
    files: Files, plan: Plan, told: Sequence[Event], random: np.random.Generator, *, finished: bool
) -> list[str]:
    """Check the store, or a copy: then the next child finds it as the killed one left it."""
    if finished or random.random() < 0.5 or not files.store.exists():
        return state_problems(files.store, plan, told, finished=finished)
    copy = files.folder / "copy"
    shutil.copytree(files.store, copy)
    try:
        return state_problems(copy, plan, told)
    finally:
        shutil.rmtree(copy)


def _interrupted(plan: Plan, told: Sequence[Event]) -> str:
    if not told:
        return "opening"
    return plan.steps[told[-1].step].what if told[-1].what == "begin" else "between steps"


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
    """Run the test."""
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

"""What a memory does over its life: crashes, bad inputs, readers beside a writer, and its costs.

The corpus is synthetic, of a fixed seed, and no model runs. Results go to
benchmarks/results/lifecycle.json, one flat object, with a .meta.json beside it; a figure that is
run alone is merged into what is there.

    python benchmarks/lifecycle.py
    python benchmarks/lifecycle.py --only insert,filter
    python benchmarks/lifecycle.py --quick --out quick.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bad_inputs
import contention
import crash
from synthetic import WordEmbedder, passages, questions

import hippo_core
from hippo_core import HippoConfig, HippoRAG

RESULTS = Path(__file__).parent / "results" / "lifecycle.json"
CONFIG = HippoConfig(embed_batch_size=2048)  # the embedder is local and likes large batches
YEAR_OF_HALF = 2010
PERIOD = 0.005  # seconds between two beats

Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    kills: int = 200
    seconds: float = 60.0
    passages: int = 10_000
    dimension: int = 384
    inserts: int = 30
    one_by_one: int = 2_000
    window: int = 200
    crowd: int = 100_000
    crowd_dimension: int = 64  # of 384 the matrices alone would take some gigabytes
    beats: int = 30
    rounds: int = 1


QUICK = Sizes(
    kills=4,
    seconds=2.0,
    passages=300,
    inserts=5,
    one_by_one=60,
    window=15,
    crowd=2_000,
    beats=10,
    rounds=3,
)


class Workshop:
    """Measures the figures, over stores that it builds once."""

    def __init__(self, sizes: Sizes, scratch: Path) -> None:
        self.sizes = sizes
        self.scratch = scratch
        self.notes: dict[str, Any] = {}
        self._built = 0.0  # seconds, once `folder` was made

    # -- what must hold -----------------------------------------------------------------------

    def crash(self) -> Figures:
        """Kill a writing process at random moments."""
        outcome = crash.run(self.sizes.kills, seed=0)
        self._tell("crash", outcome.problems + outcome.beyond)
        return {
            "crash_points_survived": outcome.survived,
            "replies_paid_twice_beyond_in_flight": len(outcome.beyond),
        }

    def inputs(self) -> Figures:
        """Hand in what cannot be used."""
        folder = self.scratch / "inputs"
        folder.mkdir()
        refused, wrong = bad_inputs.failures(folder)
        self._tell("inputs", wrong)
        return {"bad_inputs_tried": refused}

    def contention(self) -> Figures:
        """Read in threads and processes while one writes."""
        folder = self.scratch / "contention"
        reads, writes, errors = contention.measure(folder, self.sizes.seconds)
        self._tell("contention", errors + reads.wrong)
        return {
            "wrong_results_60s": len(reads.wrong) + len(errors),
            "reads_60s": reads.count,
            "writes_60s": writes,
        }

    # -- what it costs ------------------------------------------------------------------------

    def insert(self) -> Figures:
        """Add one passage, over building all by one `add`; the embedder's time is in neither.

        An `add` ends when the passage is durable and in the derived state. The first query after
        it derives the graph's arrays anew: told apart, as is what opening takes without files.
        """
        folder, n = self.folder, self.sizes.passages
        shutil.rmtree(folder / "snapshots", ignore_errors=True)
        with clock() as opening:
            memory = self._open(folder)
            memory.retrieve(self._questions[0])
        with memory:
            plain = self._plain(memory)
            inserts, queries = [], []
            for item in passages(n, n + self.sizes.inserts + 1):
                before = self._embedder.seconds
                with clock() as inserting:
                    memory.add_extracted([item])
                inserts.append(inserting.seconds - (self._embedder.seconds - before))
                with clock() as asking:
                    memory.retrieve(self._questions[0])
                queries.append(asking.seconds - plain)
            memory.delete([p.id for p, _ in passages(n, n + self.sizes.inserts + 1)])
        insert, query = statistics.median(inserts[1:]), statistics.median(queries[1:])
        self.notes["insert"] = {
            "build_s": round(self._built, 3),
            "insert_ms": round(1000 * insert, 2),
            "first_query_extra_ms": round(1000 * query, 2),
            "retrieve_ms": round(1000 * plain, 2),
            "open_without_files_s": round(opening.seconds, 3),
        }
        return {
            "insert_one_fraction_10k": significant(insert / self._built),
            "insert_and_first_query_fraction_10k": significant((insert + query) / self._built),
        }

    def size(self) -> Figures:
        """Count the bytes of a closed store."""
        with self._open(self.folder) as memory:
            count = len(memory)
        total = sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())
        return {"bytes_per_passage": round(total / count)}

    def filter(self) -> Figures:
        """Retrieve with a filter that lets about half of the passages through."""
        where: dict[str, Any] = {"where": {"year": {"$gte": YEAR_OF_HALF}}}
        with self._open(self.folder) as memory:
            self._plain(memory)
            with clock() as first:
                memory.retrieve(self._questions[0], **where)
            repeats = []
            for question in self._questions[:20]:
                with clock() as repeat:
                    memory.retrieve(question, **where)
                repeats.append(repeat.seconds)
        return {
            "filter_first_ms": significant(1000 * first.seconds),
            "filter_repeat_ms": significant(1000 * statistics.median(repeats)),
        }

    def growth(self) -> Figures:
        """Add passages one by one: what the last take a second handle, over what the first take."""
        folder, n, window = self.scratch / "growth", self.sizes.one_by_one, self.sizes.window
        caught_up, ready = [], []
        with self._open(folder) as writer, self._open(folder) as follower:
            for number, item in enumerate(passages(0, n)):
                writer.add_extracted([item])
                with clock() as catching_up:
                    catch_up(follower)
                caught_up.append(catching_up.seconds)
                if number < window or number >= n - window:
                    with clock() as deriving:
                        derive(follower)
                    ready.append(catching_up.seconds + deriving.seconds)
        self.notes["growth"] = {
            "catch_up_ms": [round(1000 * statistics.median(w), 3) for w in ends(caught_up, window)],
            "ready_ms": [round(1000 * statistics.median(w), 3) for w in ends(ready, window)],
        }
        return {
            "add_one_by_one_growth": growth_of(caught_up, window),
            "add_and_read_growth": growth_of(ready, window),
        }

    def heartbeat(self) -> Figures:
        """Retrieve on an event loop, also right after an add, and see how late a beat comes."""
        folder, sizes = self.scratch / "crowd", self.sizes
        embedder = WordEmbedder(sizes.crowd_dimension)
        with HippoRAG(None, embedder, store=folder, config=CONFIG) as memory:
            with clock() as building:
                memory.add_extracted(passages(0, sizes.crowd))
                memory.retrieve(questions(1, sizes.crowd)[0])
            rounds = [asyncio.run(self._beats(memory, number)) for number in range(sizes.rounds)]
        self.notes["heartbeat"] = {
            "passages": sizes.crowd,
            "dimension": sizes.crowd_dimension,
            "build_s": round(building.seconds, 1),
            "worst_ms_by_round": [round(1000 * retrieving, 2) for retrieving, _ in rounds],
            "worst_ms_during_adds_by_round": [round(1000 * adding, 2) for _, adding in rounds],
        }
        worst = statistics.median(retrieving for retrieving, _ in rounds)
        return {"heartbeat_worst_ms_100k": significant(1000 * worst)}

    async def _beats(self, memory: HippoRAG, number: int) -> tuple[float, float]:
        """Give the worst delay while retrieving, and the one while adding."""
        sizes, heart = self.sizes, Heart()
        asked = questions(sizes.beats, sizes.crowd)
        first = sizes.crowd + number * sizes.beats
        new = passages(first, first + sizes.beats)
        beating = asyncio.create_task(heart.beat())
        retrieving = adding = 0.0
        for turn, question in enumerate(asked):
            if turn % 3 == 1:
                await memory.aadd_extracted([new[turn]])
                adding = max(adding, await heart.worst_since())
            await memory.aretrieve(question)
            retrieving = max(retrieving, await heart.worst_since())
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        return retrieving, adding

    # -- parts --------------------------------------------------------------------------------

    @cached_property
    def folder(self) -> Path:
        """The store of the corpus, closed."""
        folder = self.scratch / "corpus"
        items, before = passages(0, self.sizes.passages), self._embedder.seconds
        with self._open(folder) as memory:
            with clock() as building:
                memory.add_extracted(items)
                memory.retrieve(self._questions[0])
            self._built = building.seconds - (self._embedder.seconds - before)
            stats = memory.stats()
        self.notes["corpus"] = f"{stats}, added in {building.seconds:.0f} s"
        print(self.notes["corpus"], flush=True)
        return folder

    @cached_property
    def _questions(self) -> list[str]:
        return questions(30, self.sizes.passages)

    def _open(self, folder: Path) -> HippoRAG:
        return HippoRAG(None, self._embedder, store=folder, config=CONFIG)

    @cached_property
    def _embedder(self) -> WordEmbedder:
        return WordEmbedder(self.sizes.dimension)

    def _plain(self, memory: HippoRAG) -> float:
        """Give the time of a query that is asked again."""
        times = []
        for _ in range(11):
            with clock() as asking:
                memory.retrieve(self._questions[0])
            times.append(asking.seconds)
        return statistics.median(times[1:])

    def _tell(self, figure: str, problems: list[str]) -> None:
        for problem in problems[:20]:
            print(f"{figure}: {problem}", flush=True)
        self.notes[f"{figure}_problems"] = problems[:20]


class Heart:
    """Beats on an event loop, and remembers by how much the worst beat was late."""

    def __init__(self) -> None:
        self._worst = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        while True:
            started = time.perf_counter()
            await asyncio.sleep(PERIOD)
            self._worst = max(self._worst, time.perf_counter() - started - PERIOD)

    async def worst_since(self) -> float:
        """Give the worst delay since this was asked last, that of the present beat included."""
        await asyncio.sleep(2 * PERIOD)
        worst, self._worst = self._worst, 0.0
        return worst


# No public call does these two alone: a query does both.


def catch_up(memory: HippoRAG) -> None:
    """Apply what another handle committed."""
    memory._index.refresh()


def derive(memory: HippoRAG) -> None:
    """Make what a query needs."""
    memory._index.snapshot()


class Clock:
    """How long a block took."""

    seconds = 0.0


@contextmanager
def clock() -> Any:
    """Time a block."""
    timed, started = Clock(), time.perf_counter()
    yield timed
    timed.seconds = time.perf_counter() - started


def ends(times: list[float], window: int) -> tuple[list[float], list[float]]:
    """Give the first and the last so many."""
    return times[:window], times[-window:]


def growth_of(times: list[float], window: int) -> float:
    """Give the median of the last over that of the first."""
    first, last = (statistics.median(w) for w in ends(times, window))
    return significant(last / first)


def significant(value: float) -> float:
    """Round to four digits."""
    return float(f"{value:.4g}")


def about() -> Figures:
    """Name the machine and what runs on it."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "sqlalchemy": version("SQLAlchemy"),
        "sqlite": sqlite3.sqlite_version,
        "date": date.today().isoformat(),
    }


def merge(path: Path, new: Mapping[str, Any]) -> None:
    """Write these keys into a file of one object, and leave its others."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**old, **new}, indent=1) + "\n", encoding="utf-8")


def write(path: Path, figures: Figures, notes: Mapping[str, Any]) -> None:
    """Merge figures into the results file, and what is to be known about them into its meta."""
    told = about()
    merge(path, {**figures, **told})
    meta = {
        "date": told["date"],
        "machine": told["machine"],
        "python": told["python"],
        "versions": {
            "hippo-core": hippo_core.__version__,
            "numpy": told["numpy"],
            "scipy": told["scipy"],
            "SQLAlchemy": told["sqlalchemy"],
            "SQLite": told["sqlite"],
        },
        **notes,
    }
    merge(path.with_suffix(".meta.json"), meta)


def main() -> int:
    """Measure what was asked for."""
    names = ("inputs", "size", "insert", "filter", "growth", "contention", "crash", "heartbeat")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"some of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--out", type=Path, help=f"default: {RESULTS.name}, not if quick")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else names
    if unknown := set(chosen) - set(names):
        parser.error(f"--only takes some of {', '.join(names)}, got {', '.join(sorted(unknown))}")
    out = options.out or (None if options.quick else RESULTS)
    with tempfile.TemporaryDirectory(prefix="lifecycle-") as scratch:
        workshop = Workshop(QUICK if options.quick else Sizes(), Path(scratch))
        for name in chosen:
            measure: Callable[[], Figures] = getattr(workshop, name)
            with clock() as measuring:
                figures = measure()
            print(f"{name} ({measuring.seconds:.0f} s): {json.dumps(figures)}", flush=True)
            if out:
                write(out, figures, workshop.notes)
    print(json.dumps(workshop.notes, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Readers in threads and processes against one writer: every read must be one whole state.

The writer adds a pair of passages and deletes an older pair, each in one commit, over and over. A
reader lists all passages and ranks all of them: pairs are there whole or not at all, those before
and after are in step, and no read is older than the one before it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hippo_core import Extraction, HippoConfig, HippoRAG, Passage
from hippo_core.testing import HashEmbedder

STANDING = 50  # passages that stay
KEPT = 3  # pairs that are there at once
QUERY = "What did Ada write in Rome?"
CONFIG = HippoConfig(recognition_memory=False)
PATIENCE = 60.0  # seconds that a reader may take to end


@dataclass
class Reads:
    """How many reads there were, and what was wrong."""

    count: int = 0
    wrong: list[str] = field(default_factory=list)


def read_until(memory: HippoRAG, stopped: Callable[[], bool]) -> Reads:
    """Read until told to stop, and check each read."""
    reads = Reads()
    before = (0, 0)
    while not stopped():
        for ids in (
            [p.id for p in memory],
            [hit.passage.id for hit in memory.retrieve(QUERY, k=10_000)],
        ):
            problem, before = _judge(ids, before)
            reads.count += 1
            if problem:
                reads.wrong.append(problem)
    return reads


def _judge(ids: Sequence[str], before: tuple[int, int]) -> tuple[str, tuple[int, int]]:
    """Say what is wrong with a read; give its first and last pair."""
    standing = [id_ for id_ in ids if id_.startswith("stands")]
    numbers = sorted({int(id_.split()[1]) for id_ in ids if id_.startswith("pair")})
    if len(standing) != STANDING or not numbers:
        return f"{len(standing)} standing passages and pairs {numbers}", before
    first, last = numbers[0], numbers[-1]
    whole = {id_ for number in range(first, last + 1) for id_ in _pair(number)}
    if whole != set(ids) - set(standing) or len(ids) != len(whole) + STANDING:
        return f"not whole: {sorted(set(ids) - set(standing))}", before
    if last - first + 1 not in (KEPT, KEPT + 1):
        return f"no state: pairs {first} to {last}", before
    if (last, first) < before:
        return f"pairs {first} to {last} after {before}", before
    return "", (last, first)


def measure(folder: Path, seconds: float) -> tuple[Reads, int, list[str]]:
    """Read and write at once for a time; give the reads, the number of commits and the errors."""
    over = threading.Event()
    found: list[Reads] = []
    errors: list[str] = []
    with HippoRAG(None, HashEmbedder(), store=folder, config=CONFIG) as memory:
        memory.add_extracted([_item(f"stands {n}") for n in range(STANDING)])
        memory.add_extracted([_item(id_) for n in range(KEPT) for id_ in _pair(n)])

        def read() -> None:
            try:
                found.append(read_until(memory, over.is_set))
            except BaseException as error:  # noqa: BLE001 - reported
                errors.append(f"a reader: {error!r}")

        readers = [threading.Thread(target=read) for _ in range(2)]
        children = [_start_child(folder) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            writes = _write_for(memory, seconds, errors)
        finally:
            over.set()
        for reader in readers:
            reader.join(PATIENCE)
        for child in children:
            said, complaint = child.communicate("stop\n", timeout=PATIENCE)
            if child.returncode:
                errors.append(f"a reading process: {complaint[-1000:]}")
            else:
                found.append(Reads(**json.loads(said.splitlines()[-1])))
    reads = Reads(sum(r.count for r in found), [problem for r in found for problem in r.wrong])
    return reads, writes, errors


def _write_for(memory: HippoRAG, seconds: float, errors: list[str]) -> int:
    number = KEPT
    end = time.monotonic() + seconds
    while time.monotonic() < end and not errors:
        memory.add_extracted([_item(id_) for id_ in _pair(number)])
        memory.delete(_pair(number - KEPT))
        number += 1
    return 2 * (number - KEPT)


def _pair(number: int) -> list[str]:
    return [f"pair {number} left", f"pair {number} right"]


def _item(id_: str) -> tuple[Passage, Extraction]:
    told = [("Ada", "wrote", id_), (id_, "is in", "Rome")]
    return Passage(f"Ada wrote {id_} in Rome.", id=id_), Extraction(["Ada", id_], told)


def _start_child(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()  # it has opened the store
    return child


def main() -> None:
    """Be a reading process, until a line comes in."""
    over = threading.Event()
    with HippoRAG(None, HashEmbedder(), store=sys.argv[1], config=CONFIG, create=False) as memory:
        print("ready", flush=True)
        threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
        reads = read_until(memory, over.is_set)
    print(json.dumps({"count": reads.count, "wrong": reads.wrong[:20]}), flush=True)


if __name__ == "__main__":
    main()

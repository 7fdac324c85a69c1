"""The time to find the anchors of a question among a million phrases, beside a dict and a scan.

The phrases are one to four words of the path-finding corpus, and two to six Chinese or Japanese
characters; the questions are words in which some of them stand. A question is asked five times and
its best time counts, so that other processes of the machine do not; the first time is given too.
Results go to benchmarks/results/anchors.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import hippo_core
from hippo_core.anchors import PhraseLookup, find_anchors
from hippo_core.text import checksum, normalise_phrase

HERE = Path(__file__).parent
OUT = HERE / "results" / "anchors.json"
PHRASES = 1_000_000
UNSPACED = 0.1  # share of the phrases in Chinese and Japanese characters
QUESTIONS = 200
WORDS = (8, 40)
CHARACTERS = (12, 64)  # of so many words, at 1.6 characters each
REPEATS = 5
SCANNED = 5  # questions of the scan, which takes long
CHARACTERS_OF = "".join(map(chr, [*range(0x4E00, 0x4E00 + 3000), *range(0x30A1, 0x30F0)]))


class Dict:
    """The peer: all phrases in a dict of Python."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self._positions = {phrase: i for i, phrase in enumerate(phrases)}

    def find(self, texts: Sequence[str]) -> list[int | None]:
        """Give the position of each text."""
        return [self._positions.get(text) for text in texts]


def scan(query: str, phrases: Sequence[str]) -> int:
    """Look for every phrase in the query, as is often done; give how many stand there."""
    text = f" {normalise_phrase(query)} "
    return sum(f" {phrase} " in text for phrase in phrases)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phrases", type=int, default=PHRASES)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    chooser = random.Random(20)
    words = _words()
    phrases = _phrases(options.phrases, words, chooser)
    sums, checksum_s = _timed(
        lambda: np.fromiter(map(checksum, phrases), dtype=np.int64, count=len(phrases))
    )
    lookup, make_s = _timed(lambda: PhraseLookup(phrases, sums))
    peer, peer_make_s = _timed(lambda: Dict(phrases))
    questions = {
        "words": [_question(words, phrases, chooser) for _ in range(QUESTIONS)],
        "characters": [_unspaced(chooser, CHARACTERS) for _ in range(QUESTIONS)],
    }
    rows: list[dict[str, Any]] = []
    for kind, asked in questions.items():
        for name, where, seconds in (("ours", lookup, make_s), ("dict", peer, peer_make_s)):
            found = [len(find_anchors(query, where)) for query in asked]
            row = {"lookup": name, "questions": f"{len(asked)} of {kind}"}
            row |= _times(lambda query, where=where: find_anchors(query, where), asked)
            rows.append({**row, "anchors": sum(found) / len(found), "make_s": round(seconds, 3)})
            print(rows[-1])
    some = questions["words"][:SCANNED]
    row = {"lookup": "scan", "questions": f"{len(some)} of words"}
    rows.append(row | _times(lambda query: scan(query, phrases), some, repeats=1))
    print(rows[-1])
    _write(options.out, rows, len(phrases), checksum_s)
    return 0


def _words() -> list[str]:
    lines = (HERE / "path_finding_corpus.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [normalise_phrase(json.loads(line)["text"]) for line in lines]
    return sorted({word for text in texts for word in text.split(" ")})


def _phrases(n: int, words: Sequence[str], chooser: random.Random) -> list[str]:
    found: set[str] = set()
    while len(found) < n * UNSPACED:
        found.add(_unspaced(chooser, (2, 6)))
    while len(found) < n:
        found.add(" ".join(chooser.choices(words, k=chooser.randint(1, 4))))
    return sorted(found)


def _unspaced(chooser: random.Random, length: tuple[int, int]) -> str:
    return "".join(chooser.choices(CHARACTERS_OF, k=chooser.randint(*length)))


def _question(words: Sequence[str], phrases: Sequence[str], chooser: random.Random) -> str:
    """Make a question: every third part of it is a phrase."""
    n, parts = chooser.randint(*WORDS), list[str]()
    while len(parts) < n:
        phrase = chooser.choice(phrases) if chooser.random() < 1 / 3 else chooser.choice(words)
        parts += phrase.split(" ")
    return " ".join(parts[:n]).capitalize() + "?"


def _times(
    ask: Callable[[str], object], questions: Sequence[str], repeats: int = REPEATS
) -> dict[str, Any]:
    taken = np.array([[1e3 * _timed(lambda: ask(q))[1] for _ in range(repeats)] for q in questions])  # noqa: B023
    return {"ms": _quantiles(taken.min(axis=1)), "first_ms": _quantiles(taken[:, 0])}


def _quantiles(ms: Any) -> dict[str, float]:
    return {
        "median": round(float(np.median(ms)), 3),
        "p99": round(float(np.percentile(ms, 99)), 3),
    }


def _timed(use: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    given = use()
    return given, time.perf_counter() - started


def _write(out: Path, rows: Sequence[dict[str, Any]], n: int, checksum_s: float) -> None:
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    meta = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "versions": {"hippo-core": hippo_core.__version__, "numpy": version("numpy")},
        "phrases": n,
        "checksums_s": round(checksum_s, 3),
    }
    text = json.dumps(meta, indent=1) + "\n"
    out.with_suffix(".meta.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

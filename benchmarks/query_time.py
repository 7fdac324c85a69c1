"""Time of a query, by method, on 10,000 synthetic passages: each as a ratio to HippoRAG 2's.

The methods take turns at each question, in an order that changes, so that what else the machine
does falls on all alike. The embedder is a table of words: in practice its call is the larger part,
and the ratios are nearer to 1. Results go to benchmarks/results/query_time.json, with a .meta.json
beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median

from synthetic import WordEmbedder, passages, questions

from hippo_core import HippoConfig, HippoRAG

RESULTS = Path(__file__).parent / "results"
PEER = "hipporag2_unfiltered"
METHODS = {
    "dense": HippoConfig.dense(),
    PEER: HippoConfig.hipporag2(recognition_memory=False),
    "hippo_default": HippoConfig(),
    "hippo_default_second_hop": HippoConfig(second_hop=3),
}


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    names = list(METHODS)
    with HippoRAG(None, WordEmbedder()) as memory:
        memory.add_extracted(passages(0, options.passages))
        asked = questions(options.questions, options.passages)
        for name in names:  # what a first query derives is no part of the others
            memory.retrieve(asked[0], config=METHODS[name])
        for number, question in enumerate(asked):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                started = time.perf_counter()
                memory.retrieve(question, config=METHODS[name])
                seconds[name].append(time.perf_counter() - started)
        stats = str(memory.stats())
    rows = [
        {
            "system": name,
            "median_ms": round(1000 * median(times), 1),
            "median_ratio_to_hipporag2": round(
                median(t / peer for t, peer in zip(times, seconds[PEER], strict=True)), 3
            ),
        }
        for name, times in seconds.items()
    ]
    for row in rows:
        print(row)
    _write(rows, {"stats": stats, "questions": options.questions})
    return 0


def _write(rows: object, about: dict[str, object]) -> None:
    meta = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "versions": {p: version(p) for p in ("numpy", "scipy")},
        **about,
    }
    RESULTS.mkdir(exist_ok=True)
    for name, value in (("query_time.json", rows), ("query_time.meta.json", meta)):
        (RESULTS / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

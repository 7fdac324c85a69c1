"""Write the tables of docs/local-extraction.md from the results of the benchmarks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablations_tables import CUTS, METRICS, _differences, _head, _line, _numbers, _short, put

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "local-extraction.md"
SHOWN = {
    "dense": "dense",
    "local_openie_hipporag1": "HippoRAG, our reader for passages and questions",
    "hipporag1": "HippoRAG, GPT-3.5, and a model's entities",
    "local_openie_hipporag2": "HippoRAG 2 without a judge, our reader",
    "hipporag2_unfiltered": "HippoRAG 2 without a judge, GPT-3.5",
    "local_openie": "**default without a judge, our reader**",
    "hippo_default": "default without a judge, GPT-3.5",
}
SCORES = ("precision", "recall", "f1")

Row = Mapping[str, Any]


def main() -> int:
    """Fill the page's tables in; with --check, say whether they were."""
    page = PAGE.read_text(encoding="utf-8")
    filled = put(
        page,
        {
            "recall": _recall(_json("musique_train.json")),
            "pace": _pace(_json("musique_train.meta.json")["local extraction"]),
            "halves": _halves(_json("openie_carb.json")),
            "kinds": _kinds(_json("openie_carb.json")),
        },
    )
    if "--check" in sys.argv:
        return int(page != filled)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


def _json(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _recall(rows: Sequence[Row]) -> Iterator[str]:
    by_name = {row["system"]: row for row in rows}
    yield from _head("system", *_short(METRICS), "minus", *(f"Δ {cut}" for cut in _short(CUTS)))
    for name, shown in SHOWN.items():
        differences = by_name[name].get("difference_and_95%_interval", {})
        compared = [pair for pair in differences.items() if name.startswith("local")]
        for number, (other, by_cut) in enumerate(compared or [("", {})]):
            numbers = _numbers(by_name[name], METRICS) if number == 0 else [""] * len(METRICS)
            first = shown if number == 0 else ""
            yield _line(first, *numbers, SHOWN.get(other, other), *_differences(by_cut))


def _pace(pace: Row) -> Iterator[str]:
    yield from _head("passages", "triples", "failed", "CPU seconds", "passages per CPU second")
    names = ("passages", "triples", "failed", "cpu_seconds", "passages_per_cpu_second")
    yield _line(*(f"{pace[name]:,}" for name in names))


def _halves(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("beside", "passages", "their triples", "ours", "P", "R", "F1")
    whole = [row for row in rows if row["kind"] in ("all", "agreement")]
    for row in whole:
        is_gold = row["kind"] == "all"
        name = f"gold, {row['half']} half" if is_gold else f"{row['half']} (agreement)"
        counts = (f"{row[count]:,}" for count in ("passages", "gold", "predicted"))
        yield _line(name, *counts, *_scores(row))


def _kinds(rows: Sequence[Row]) -> Iterator[str]:
    heads = (f"{score}, {half}" for half in ("dev", "test") for score in ("P", "R", "F1"))
    yield from _head("passages about", *heads)
    by_kind = {(row["kind"], row["half"]): row for row in rows}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        if kind not in ("all", "agreement"):
            both = (by_kind[kind, half] for half in ("dev", "test"))
            yield _line(kind, *(cell for row in both for cell in _scores(row)))


def _scores(row: Row) -> list[str]:
    return [f"{row[score]:.1f}" for score in SCORES]


if __name__ == "__main__":
    sys.exit(main())

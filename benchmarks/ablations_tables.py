"""Write the tables of docs/quality.md from the results of the benchmarks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "ablations.json"
HEADLINE = HERE / "results" / "musique_train.json"
PATHS = HERE / "results" / "path_finding.json"
MALFORMED = HERE / "results" / "openie_malformed.json"
PAGE = HERE.parent / "docs" / "quality.md"
METRICS = (
    *(f"recall@{k}" for k in (1, 2, 5, 10, 20)),
    *(f"all-recall@{k}" for k in (2, 5)),
)
CUTS = ("recall@2", "recall@5", "recall@20")
SHOWN = {
    "dense": "dense",
    "hipporag1": "HippoRAG, with a model's entities",
    "hipporag1_dense_ensemble": "HippoRAG, dense ensemble",
    "hipporag2_unfiltered": "HippoRAG 2, no judge",
    "hippo_default": "**default, no judge**",
    "hippo_default_second_hop": "default, second hop, no judge",
    "hipporag2_filtered": "HippoRAG 2, judged",
    "hippo_default_filtered": "**default, judged**",
    "hippo_default_filtered_own_ten": "the same, only of its own ten",
    "hippo_default_filtered_second_hop": "default, second hop, judged",
}
JUDGED = ", judged"
LEFT_OUT = (  # of table B, for want of space: each is much like the row beside it
    "exactly 5 triples",
    "BM25 0.1 in context",
    "BM25 0.3 in context",
    "second hop, 2 added at 0.5",
)

Row = Mapping[str, Any]


def main() -> int:
    """Fill the page's blocks in; with --check, say whether they were."""
    page = PAGE.read_text(encoding="utf-8")
    files = (HEADLINE, RESULTS, PATHS, MALFORMED)
    results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    filled = fill(page, *results)
    if "--check" in sys.argv:
        return int(page != filled)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


def fill(
    page: str,
    headline: Sequence[Row],
    ablations: Sequence[Row],
    paths: Sequence[Row],
    malformed: Sequence[Row],
) -> str:
    """Put each table between its two marks."""
    tables = {"headline": _headline(headline), "E": _paths(paths), "F": _malformed(malformed)}
    for part, table in (("A", _built_up), ("B", _turned), ("C", _robust), ("D", _small)):
        tables[part] = table([row for row in ablations if row["part"] == part])
    return put(page, tables)


def put(page: str, tables: Mapping[str, Iterable[str]]) -> str:
    """Put the lines of each table between its two marks."""
    for part, made in tables.items():
        lines = "\n".join(made)
        place = re.search(f"<!-- table {part} -->\n(.*?)<!-- end of {part} -->", page, re.DOTALL)
        if place is None:
            raise ValueError(f"the page has no place for table {part}")
        page = f"{page[: place.start(1)]}{lines}\n{page[place.end(1) :]}"
    return page


def _headline(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("system", *_short(METRICS), "minus", *(f"Δ {cut}" for cut in _short(CUTS)))
    by_name = {row["system"]: row for row in rows}
    for name, shown in SHOWN.items():
        compared = list(by_name[name].get("difference_and_95%_interval", {}).items())
        for number, (other, differences) in enumerate(compared or [("", {})]):
            numbers = _numbers(by_name[name], METRICS) if number == 0 else [""] * len(METRICS)
            other = SHOWN.get(other, other).replace("*", "")
            yield _line(shown if number == 0 else "", *numbers, other, *_differences(differences))


def _paths(rows: Sequence[Row]) -> Iterator[str]:
    names = [f"{measure}@{k}" for measure in ("recall", "all-recall") for k in (2, 5, 10)]
    yield from _head("read by", "system", *_short(names), "default minus it, R@5")
    for row in rows:
        difference = row.get("default_minus_this_recall@5")
        span = _span(difference) if difference else ""
        yield _line(row["reading"], row["system"], *_numbers(row, names), span)


def _malformed(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("what", "given", "kept", "dropped, by kind")
    for row in rows:
        kinds = ", ".join(f"{kind}: {times}" for kind, times in row["dropped"].items())
        yield _line(row["what"], f"{row['given']:,}", f"{row['kept']:,}", kinds)


def _built_up(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("system", *_short(METRICS), "minus", *(f"Δ {cut}" for cut in _short(CUTS)))
    for row in rows:
        compared = list(row["minus"].items()) or [("", {})]
        for number, (other, differences) in enumerate(compared):
            shown = _numbers(row, METRICS) if number == 0 else [""] * len(METRICS)
            name = row["system"] if number == 0 else ""
            yield _line(name, *shown, other, *_differences(differences))


def _turned(rows: Sequence[Row]) -> Iterator[str]:
    judged = {row["system"]: row for row in rows if row["system"].endswith(JUDGED)}
    heads = [f"Δ {cut}" for cut in _short(CUTS)]
    yield from _head("setting", *heads, *(f"{head}, judged" for head in heads))
    for row in rows:
        if row["system"] not in judged and row["system"] not in LEFT_OUT:
            with_judge = judged.get(row["system"] + JUDGED, {"minus": {}})
            yield _line(row["system"], *_first(row), *_first(with_judge))


def _robust(rows: Sequence[Row]) -> Iterator[str]:
    systems = ("dense", "HippoRAG 2", "default")
    cuts = " / ".join(_short(CUTS))
    yield from _head(
        "set-up", f"dense, {cuts}", "HippoRAG 2", "default", "Δ R@5 to HippoRAG 2", "to dense"
    )
    for setup in dict.fromkeys(row["setup"] for row in rows):
        found = {row["system"]: row for row in rows if row["setup"] == setup}
        shown = (" / ".join(_numbers(found[system], CUTS)) for system in systems)
        minus = found["default"]["minus"]
        yield _line(setup, *shown, *(_span(minus[o]["recall@5"]) for o in ("HippoRAG 2", "dense")))


def _small(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("set", "system", *_short(METRICS), "Δ R@5 of the default to it")
    for setup in dict.fromkeys(row["setup"] for row in rows):
        found = [row for row in rows if row["setup"] == setup]
        minus = next(row["minus"] for row in found if row["system"] == "default")
        for row in found:
            against = minus.get(row["system"])
            span = _span(against["recall@5"]) if against else ""
            if "default" in row["minus"]:
                span = _span(_turned_round(row["minus"]["default"]["recall@5"]))
            yield _line(setup, row["system"], *_numbers(row, METRICS), span)


def _turned_round(difference: Sequence[float]) -> list[float]:
    mean, low, high = difference
    return [0.0 - mean, 0.0 - high, 0.0 - low]


def _first(row: Row) -> list[str]:
    return _differences(next(iter(row["minus"].values()), {}))


def _differences(by_cut: Mapping[str, Sequence[float]]) -> list[str]:
    return [_span(by_cut[cut]) if cut in by_cut else "" for cut in CUTS]


def _span(difference: Sequence[float]) -> str:
    """Show a difference and its interval, in bold where that leaves 0 out."""
    mean, low, high = difference
    text = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def _numbers(row: Row, names: Sequence[str]) -> list[str]:
    return [f"{row[name]:.0f}" if name.startswith("all") else f"{row[name]:.1f}" for name in names]


def _short(names: Sequence[str]) -> list[str]:
    return [name.replace("all-recall", "AR").replace("recall", "R") for name in names]


def _head(*cells: str) -> Iterator[str]:
    yield _line(*cells)
    yield "|" + "---|" * len(cells)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())

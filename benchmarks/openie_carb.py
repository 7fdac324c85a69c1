"""Precision and recall of the local extractor on passages with gold triples: no key, no network.

The passages and their triples in openie_gold.jsonl were written for this; the half called `test`
was not looked at while the rules were made. carb.py says how triples are matched. Where
HIPPO_BENCH_DATA has `musique_train`, the same score against the published GPT-3.5 triples of a
fixed sample says how far the two agree, which is no measure of either. Results go to
benchmarks/results/openie_carb.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carb import Tally, score
from musique_train import DATA, HERE, _jsonl, _passages, _write, as_published

from hippo_core.local import SpacyOpenIE

GOLD = HERE / "openie_gold.jsonl"
HALVES = ("dev", "test")
SAMPLED = 200  # passages on which the agreement is measured, seed 0


def main() -> int:
    """Run the benchmark; with --show, print what was read of one half beside its gold triples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", choices=HALVES)
    options = parser.parse_args()
    reader = SpacyOpenIE()
    passages = _jsonl(GOLD)
    if options.show:
        _show(reader, [p for p in passages if p["half"] == options.show])
        return 0
    started = time.process_time()
    read = {p["id"]: reader.extract(f"{p['title']}\n{p['text']}").triples for p in passages}
    seconds = time.process_time() - started
    rows = []
    for half in HALVES:
        for kind in ("all", *dict.fromkeys(p["kind"] for p in passages)):
            chosen = [p for p in passages if p["half"] == half and kind in ("all", p["kind"])]
            rows.append(_row(half, kind, ((read[p["id"]], p["triples"]) for p in chosen)))
    rows += _agreement(reader)
    for row in rows:
        print("  ".join(str(value) for value in row.values()))
    about = {"by": reader.fingerprint, "passages": len(passages), "cpu_seconds": round(seconds, 2)}
    _write("openie_carb", rows, about)
    return 0


def _row(
    half: str, kind: str, pairs: Iterable[tuple[Sequence[Any], Sequence[Any]]]
) -> dict[str, Any]:
    tally, passages = Tally(), 0
    for predicted, gold in pairs:
        tally, passages = tally.plus(score(predicted, gold)), passages + 1
    return {
        "half": half,
        "kind": kind,
        "passages": passages,
        "gold": tally.gold,
        "predicted": tally.predicted,
        **tally.scores(),
    }


def _agreement(reader: SpacyOpenIE) -> list[dict[str, Any]]:
    """Score against the triples of GPT-3.5 on a sample, if that is there."""
    folder = DATA / "musique_train"
    if not folder.is_dir():
        return []
    items = _passages(folder, as_published)
    sample = random.Random(0).sample(items, SAMPLED)
    pairs = ((reader.extract(p.full_text).triples, published.triples) for p, published in sample)
    return [_row("GPT-3.5", "agreement", pairs)]


def _show(reader: SpacyOpenIE, passages: Sequence[Mapping[str, Any]]) -> None:
    for passage in passages:
        found = reader.extract(f"{passage['title']}\n{passage['text']}").triples
        tally = score(found, passage["triples"])
        print(f"\n{passage['id']}: {passage['title']}. {passage['text']}\n{tally.scores()}")
        missed = [t for t in passage["triples"] if score(found, [t]).recalled < 0.99]
        for triple in found:
            print("   ", " | ".join(triple))
        print("  not, or not wholly, read:")
        for triple in missed:
            print("   ", " | ".join(triple))


if __name__ == "__main__":
    sys.exit(main())

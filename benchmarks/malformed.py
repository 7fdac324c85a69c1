"""What parsing keeps of a real model's output: the published GPT-3.5 extraction of MuSiQue.

HippoRAG's authors published what GPT-3.5 gave for these passages, malformed triples included. Each
passage's entities and triples are parsed as if they were a reply. The input is a folder
`musique_train` in HIPPO_BENCH_DATA with openie.jsonl (id, named_entities, triples). Results go to
benchmarks/results/openie_malformed.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hippo_core
from hippo_core import ParseError
from hippo_core.parsing import parse_entities, parse_triples

HERE = Path(__file__).parent
OUT = HERE / "results" / "openie_malformed.json"
SOURCE = "musique_train"


def main() -> int:
    """Parse the published extraction, print what is kept and dropped, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("HIPPO_BENCH_DATA"))
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    path = arguments.data and arguments.data / SOURCE / "openie.jsonl"
    if not path or not path.exists():
        print(f"no data in {path or 'HIPPO_BENCH_DATA'}: set HIPPO_BENCH_DATA; nothing was run")
        return 0
    with path.open(encoding="utf-8") as file:
        passages = [json.loads(line) for line in file]
    rows = [count("entities", passages), count("triples", passages)]
    rows.append(four_fields(passages))
    for row in rows:
        print(json.dumps(row))
    _write(arguments.out, rows)
    return 0


def count(kind: str, passages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count what is kept and what is dropped, by kind, over all passages."""
    key = "named_entities" if kind == "entities" else kind
    parse = parse_entities if kind == "entities" else parse_triples
    given = kept = unreadable = 0
    dropped: Counter[str] = Counter()
    for passage in passages:
        given += len(passage[key])
        try:
            parsed = parse(json.dumps({key: passage[key]}))
        except ParseError:
            unreadable += 1
            continue
        kept += len(parsed.value)
        dropped.update(parsed.dropped)
    return {
        "what": kind,
        "given": given,
        "kept": kept,
        "dropped": dict(dropped.most_common()),
        "replies_unreadable": unreadable,
    }


def four_fields(passages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Say of the triples with four fields under which rule both ends would be named entities.

    A rule that is right for one is wrong for the other, and nothing in the triple says which it is.
    """
    found: Counter[str] = Counter()
    for passage in passages:
        named = set(passage["named_entities"])
        for triple in passage["triples"]:
            if len(triple) == 4:
                found[_fitting(triple, named)] += 1
    return {
        "what": "of them with 4 fields, by the pairs that are named entities",
        "given": found.total(),
        "kept": 0,
        "dropped": dict(found.most_common()),
    }


def _fitting(triple: Sequence[str], named: set[str]) -> str:
    first_three, ends = {triple[0], triple[2]} <= named, {triple[0], triple[3]} <= named
    if first_three and ends:
        return "first and third, first and last"
    return "first and third" if first_three else "first and last" if ends else "neither"


def _write(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    meta = {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "versions": {
            "hippo-core": hippo_core.__version__,
            "json-repair": version("json-repair"),
        },
        "data": f"{SOURCE}/openie.jsonl: HippoRAG's published GPT-3.5 extraction",
    }
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""Passages read by the local extractor, kept on disk from run to run, and the time it took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from encoders import CACHE

from hippo_core import Extraction, Passage, Triple

Items = list[tuple[Passage, Extraction]]


class Reading(NamedTuple):
    """Passages with what was read in them."""

    items: Items
    failed: int
    """Passages that the extractor failed on, taken as empty."""
    cpu_seconds: float
    """Time of the processor, loading left out."""
    by: str

    def pace(self) -> dict[str, Any]:
        """Say how much was read, and how fast."""
        return {
            "by": self.by,
            "passages": len(self.items),
            "failed": self.failed,
            "triples": sum(len(extraction.triples) for _, extraction in self.items),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "passages_per_cpu_second": round(len(self.items) / self.cpu_seconds, 1),
        }


def read_locally(passages: Sequence[Passage]) -> Reading:
    """Read the passages of `musique_train` without a chat model, or look up how they were read."""
    from hippo_core.local import SpacyOpenIE

    path = CACHE / "local_openie.json"
    reader = SpacyOpenIE()
    read = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if read.get("by") != reader.fingerprint or len(read["rows"]) != len(passages):
        reader.extract(passages[0].full_text)  # what is loaded late is no part of the time
        started = time.process_time()
        rows = [_read(reader, passage.full_text) for passage in passages]
        seconds = time.process_time() - started
        read = {"by": reader.fingerprint, "cpu_seconds": seconds, "rows": rows}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(read), encoding="utf-8")
    failed = sum(row is None for row in read["rows"])
    rows = [row or {"entities": [], "triples": []} for row in read["rows"]]
    extractions = [
        Extraction(entities=tuple(r["entities"]), triples=tuple(Triple(*t) for t in r["triples"]))
        for r in rows
    ]
    items = list(zip(passages, extractions, strict=True))
    return Reading(items, failed, read["cpu_seconds"], read["by"])


def _read(reader: Any, text: str) -> dict[str, Any] | None:
    try:
        found = reader.extract(text)
    except RuntimeError as error:
        print(f"spaCy failed on a passage: {error}", file=sys.stderr)
        return None
    return {"entities": list(found.entities), "triples": [list(t) for t in found.triples]}

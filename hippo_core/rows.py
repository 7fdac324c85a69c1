"""Values to the database's rows, and back, with nothing believed of a row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import TARGET_KINDS, Target
from hippo_core.errors import StoreCorruptError
from hippo_core.text import canonical_json
from hippo_core.types import HEAVIEST, Extraction, Passage, Status

T = TypeVar("T")


def passage_row(namespace: str, passage: Passage, key: str, reason: str) -> dict[str, Any]:
    """Give the row of a passage whose text has this key."""
    return {
        "namespace": namespace,
        "id": passage.id,
        "text": passage.text,
        "title": passage.title,
        "source_id": passage.source_id,
        "metadata": canonical_json(dict(passage.metadata)),
        "text_key": key,
        "reason": reason,
        "embed_text": passage.embed_text,
    }


def passage_of(row: Any) -> Passage:
    """Give the passage of a row."""
    return Passage(
        text=_text(row.text),
        id=_text(row.id),
        title=_text(row.title),
        source_id=None if row.source_id is None else _text(row.source_id),
        metadata=_json(row.metadata, dict),
        embed_text=_text(row.embed_text),
    )


def edges_row(namespace: str, passage_id: str, edges: Mapping[Target, float]) -> dict[str, Any]:
    """Give the row of a passage's edges."""
    listed = [[kind, name, weight] for (kind, name), weight in sorted(edges.items())]
    return {"namespace": namespace, "passage_id": passage_id, "edges": canonical_json(listed)}


def edges_of(value: str | None) -> dict[Target, float]:
    """Give the edges that a column holds, by target; none where there is no row."""
    if value is None:
        return {}
    found: dict[Target, float] = {}
    for item in _json(value, list):
        kind, name, weight = item
        if kind not in TARGET_KINDS or type(weight) is not float or not 0 < weight <= HEAVIEST:
            raise ValueError(f"{item!r:.80} is no edge")
        found[Target(kind, _text(name))] = weight
    return found


def extraction_row(
    namespace: str, key: str, extractor: str, extraction: Extraction, *, pending: bool
) -> dict[str, Any]:
    """Give the row of what was read out of a text."""
    return {
        "namespace": namespace,
        "text_key": key,
        "pending": pending,
        "extractor": extractor,
        "status": extraction.status.value,
        "reason": extraction.reason,
        "entities": canonical_json(list(extraction.entities)),
        "triples": canonical_json([list(t) for t in extraction.triples]),
        "dropped": canonical_json(dict(extraction.dropped)),
    }


def extraction_of(row: Any, reason: str) -> Extraction:
    """Give what was read out of a text."""
    dropped = _json(row.dropped, dict)
    if not all(type(n) is int for n in dropped.values()):
        raise TypeError(f"counts are ints, not {dropped!r:.80}")
    return Extraction(
        entities=entities_of(row.entities),
        triples=tuple(_json(row.triples, list)),
        status=Status(row.status),
        reason=_text(reason),
        dropped=dropped,
        extractor=_text(row.extractor),
    )


def entities_of(value: str) -> tuple[str, ...]:
    """Give the entities that a column holds."""
    return tuple(_text(entity) for entity in _json(value, list))


def vector_bytes(vector: NDArray[np.float32]) -> bytes:
    """Give a vector as the database holds it: little-endian float32."""
    return vector.astype("<f4").tobytes()


def vector_of(blob: bytes, dimension: int) -> NDArray[np.float32]:
    """Give the vector that a column holds, which must have this dimension."""
    if not isinstance(blob, bytes) or not blob or len(blob) != 4 * dimension:
        size = f"{len(blob)} bytes" if isinstance(blob, bytes) else f"a {type(blob).__name__}"
        raise ValueError(f"a vector of {dimension} dimensions cannot be {size}")
    return np.frombuffer(blob, dtype="<f4").astype(np.float32, copy=False)


@contextmanager
def naming(where: str, what: str) -> Iterator[None]:
    """Turn the error of a row that no store writes into one that names it, with the way out."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreCorruptError(
            f"{where}: {what} cannot be read ({error!s:.200}); restore the store from a copy, "
            "or index the passages again in another folder"
        ) from error


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not a {type(value).__name__}")
    return value


def _json(value: Any, kind: type[T]) -> T:
    found = json.loads(_text(value))
    if not isinstance(found, kind):
        raise TypeError(f"a {kind.__name__} expected, not {found!r:.80}")
    return found

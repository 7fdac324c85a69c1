"""What is read from and written to the database inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection

from hippo_core.openie import CUT_ENTITIES
from hippo_core.tables import ENTITIES_READ, changes, extractions, namespaces, passages, vectors
from hippo_core.text import canonical_json, sha256_hex
from hippo_core.types import Extraction, Kind, Passage, Status, Triple

_VALUES_AT_ONCE = 500  # bound parameters in one statement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A live passage with what was read out of it."""

    passage: Passage
    extraction: Extraction

    @property
    def status(self) -> Status:
        """What became of its extraction."""
        return self.extraction.status


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder that a namespace was built with."""

    name: str
    dimension: int
    probe: NDArray[np.float32]


def text_key(text: str) -> str:
    """Give the key under which an extraction or a vector of a text is kept."""
    return sha256_hex(text)


class Reader:
    """Reads inside one transaction: everything it gives belongs to one state."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def version(self, namespace: str) -> int:
        """Give the version of the last commit; 0 before the first."""
        found = self._connection.scalar(
            sa.select(namespaces.c.version).where(namespaces.c.namespace == namespace)
        )
        return int(found or 0)

    def changed_since(self, namespace: str, version: int) -> tuple[list[str], set[str]]:
        """Give what was committed after a version.

        Returns:
            The ids of passages that were added or changed, and the `text_key` of deleted ones' ids.
        """
        query = sa.select(changes.c.id_key, changes.c.passage_id).where(
            changes.c.namespace == namespace, changes.c.version > version
        )
        rows = list(self._connection.execute(query))
        there = [row.passage_id for row in rows if row.passage_id is not None]
        return there, {row.id_key for row in rows if row.passage_id is None}

    def passages(self, namespace: str, ids: Collection[str] | None = None) -> list[StoredPassage]:
        """Give the live passages, all or those of `ids`, with their extractions."""
        query = (
            sa.select(
                passages,
                extractions.c.status,
                extractions.c.reason.label("extraction_reason"),
                extractions.c.entities,
                extractions.c.triples,
                extractions.c.dropped,
            )
            .select_from(
                passages.outerjoin(
                    extractions,
                    sa.and_(
                        extractions.c.namespace == passages.c.namespace,
                        extractions.c.text_key == passages.c.text_key,
                        extractions.c.pending.is_(False),
                    ),
                )
            )
            .where(passages.c.namespace == namespace)
        )
        return [_stored_passage(row) for row in self._where_in(query, passages.c.id, ids)]

    def ids_of_texts(self, namespace: str, keys: Collection[str]) -> list[str]:
        """Give the ids of the live passages that have one of these texts."""
        query = sa.select(passages.c.id).where(passages.c.namespace == namespace)
        return [row.id for row in self._where_in(query, passages.c.text_key, keys)]

    def extractions(
        self, namespace: str, keys: Collection[str], *, pending: bool = True
    ) -> dict[str, Extraction]:
        """Give what was read out of texts last, finished or partial, by text key.

        Without `pending` only what is committed with its vectors.
        """
        query = (
            sa.select(extractions)
            .where(extractions.c.namespace == namespace, extractions.c.status != ENTITIES_READ)
            .order_by(extractions.c.pending)
        )
        if not pending:
            query = query.where(extractions.c.pending.is_(False))
        rows = self._where_in(query, extractions.c.text_key, keys)
        return {row.text_key: _extraction(row) for row in rows}

    def entities(self, namespace: str, key: str, extractor: str) -> tuple[str, ...] | None:
        """Give the entities of a text that lacks triples, all or some, if this extractor has."""
        found = self._connection.scalar(
            sa.select(extractions.c.entities)
            .where(
                extractions.c.namespace == namespace,
                extractions.c.text_key == key,
                extractions.c.extractor == extractor,
                extractions.c.status.in_((ENTITIES_READ, Status.PARTIAL.value)),
                extractions.c.reason != CUT_ENTITIES,
            )
            .order_by(extractions.c.pending.desc())
        )
        return None if found is None else tuple(json.loads(found))

    def vectors(
        self, namespace: str, kind: Kind, texts: Iterable[str]
    ) -> dict[str, NDArray[np.float32]]:
        """Give the stored unit vectors among texts, by text."""
        text_of = {text_key(text): text for text in texts}
        query = sa.select(vectors.c.text_key, vectors.c.vector).where(
            vectors.c.namespace == namespace, vectors.c.kind == kind
        )
        rows = self._where_in(query, vectors.c.text_key, text_of.keys())
        return {text_of[key]: _from_bytes(blob) for key, blob in rows}

    def embedder(self, namespace: str) -> EmbedderRecord | None:
        """Give the embedder that the namespace was built with; None before the first embedding."""
        row = self._connection.execute(
            sa.select(namespaces.c.embedder, namespaces.c.probe).where(
                namespaces.c.namespace == namespace, namespaces.c.embedder.is_not(None)
            )
        ).one_or_none()
        if row is None:
            return None
        probe = _from_bytes(row.probe)
        return EmbedderRecord(row.embedder, len(probe), probe)

    def _where_in(
        self, query: sa.Select[Any], column: sa.Column[Any], values: Collection[str] | None
    ) -> Iterator[Any]:
        if values is None:
            yield from self._connection.execute(query)
            return
        for some in _batches(list(values), _VALUES_AT_ONCE):
            yield from self._connection.execute(query.where(column.in_(some)))


class Writer(Reader):
    """Reads and writes inside one transaction that holds the write lock."""

    def save_entities(
        self, namespace: str, key: str, extractor: str, entities: Sequence[str]
    ) -> None:
        """Keep the first half of an extraction, unless a whole one is pending."""
        row = _extraction_row(namespace, key, extractor, Extraction(tuple(entities)), pending=True)
        unfinished = extractions.c.status == ENTITIES_READ
        self._put(extractions, [{**row, "status": ENTITIES_READ}], replace=unfinished)

    def save_extraction(
        self, namespace: str, key: str, extractor: str, extraction: Extraction
    ) -> None:
        """Keep what was read out of a text until it is committed."""
        row = _extraction_row(namespace, key, extractor, extraction, pending=True)
        self._put(extractions, [row])

    def commit_extractions(
        self, namespace: str, extractor: str, by_key: Mapping[str, Extraction]
    ) -> None:
        """Make what was read out of texts what their passages say; nothing stays pending."""
        of_namespace = extractions.c.namespace == namespace
        query = sa.select(extractions).where(of_namespace, extractions.c.status != ENTITIES_READ)
        found = list(self._where_in(query, extractions.c.text_key, by_key.keys()))
        read = {(r.text_key, r.pending): (r.extractor, _extraction(r)) for r in found}
        rows = []
        for key, extraction in by_key.items():
            if read.get((key, False), ("", None))[1] != extraction:
                reader, pending = read.get((key, True), ("", None))
                name = reader if pending == extraction else extractor
                rows.append(_extraction_row(namespace, key, name, extraction, pending=False))
        self._put(extractions, rows)
        pending_ones = sa.and_(of_namespace, extractions.c.pending.is_(True))
        self._delete(extractions, extractions.c.text_key, list(by_key), pending_ones)

    def save_vectors(
        self, namespace: str, kind: Kind, by_text: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Keep unit vectors by text."""
        self._put(
            vectors,
            [
                {
                    "namespace": namespace,
                    "kind": kind,
                    "text_key": text_key(text),
                    "vector": vector.astype("<f4").tobytes(),
                }
                for text, vector in by_text.items()
            ],
        )

    def save_embedder(self, namespace: str, name: str, probe: NDArray[np.float32]) -> None:
        """Record the embedder of a namespace."""
        self._touch(namespace)
        self._connection.execute(
            namespaces.update()
            .where(namespaces.c.namespace == namespace)
            .values(embedder=name, probe=probe.astype("<f4").tobytes())
        )

    def put_passages(self, namespace: str, stored: Sequence[StoredPassage]) -> None:
        """Add or replace passages, and log them and those of the same texts as changed."""
        rows = [_passage_row(namespace, s) for s in stored]
        self._put(passages, rows)
        self._log(namespace, self.ids_of_texts(namespace, {row["text_key"] for row in rows}))

    def delete_passages(self, namespace: str, ids: Sequence[str]) -> None:
        """Delete passages, and say so in the change log."""
        self._delete(passages, passages.c.id, ids, passages.c.namespace == namespace)
        self._log(namespace, ids, deleted=True)

    def purge_texts(self, namespace: str, keys: Collection[str]) -> None:
        """Delete extractions and passage vectors of texts that no live passage has."""
        query = sa.select(passages.c.text_key).where(passages.c.namespace == namespace)
        live = {row.text_key for row in self._where_in(query, passages.c.text_key, keys)}
        gone = [key for key in keys if key not in live]
        self._delete(
            extractions, extractions.c.text_key, gone, extractions.c.namespace == namespace
        )
        self._purge_vector_keys(namespace, "passage", gone)

    def purge_pending(self, namespace: str, in_use: Mapping[Kind, Collection[str]]) -> int:
        """Delete extractions and vectors that no live passage has; say how many extractions."""
        query = sa.select(extractions.c.text_key).where(extractions.c.namespace == namespace)
        keys = set(self._connection.scalars(query))
        live = {text_key(text) for text in in_use["passage"]}
        gone = sorted(keys - live)
        of_namespace = extractions.c.namespace == namespace
        self._delete(extractions, extractions.c.text_key, gone, of_namespace)
        for kind, texts in in_use.items():
            query = sa.select(vectors.c.text_key).where(
                vectors.c.namespace == namespace, vectors.c.kind == kind
            )
            used = {text_key(text) for text in texts}
            unused = sorted(set(self._connection.scalars(query)) - used)
            self._purge_vector_keys(namespace, kind, unused)
        return len(gone)

    def purge_vectors(self, namespace: str, kind: Kind, texts: Iterable[str]) -> None:
        """Delete vectors of texts that nothing uses any more."""
        self._purge_vector_keys(namespace, kind, [text_key(text) for text in texts])

    def _purge_vector_keys(self, namespace: str, kind: Kind, keys: Sequence[str]) -> None:
        of_kind = sa.and_(vectors.c.namespace == namespace, vectors.c.kind == kind)
        self._delete(vectors, vectors.c.text_key, keys, of_kind)

    def _log(self, namespace: str, ids: Sequence[str], *, deleted: bool = False) -> None:
        if not ids:
            return
        version = self.version(namespace) + 1
        self._touch(namespace)
        self._connection.execute(
            namespaces.update().where(namespaces.c.namespace == namespace).values(version=version)
        )
        rows = [
            {
                "namespace": namespace,
                "id_key": text_key(i),
                "passage_id": None if deleted else i,
                "version": version,
            }
            for i in ids
        ]
        self._put(changes, rows)

    def _touch(self, namespace: str) -> None:
        insert = sqlite.insert(namespaces).values(namespace=namespace, version=0)
        self._connection.execute(insert.on_conflict_do_nothing())

    def _put(
        self,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        replace: sa.ColumnElement[bool] | None = None,
    ) -> None:
        """Insert rows, replacing those of the same primary key (where `replace` holds)."""
        if not rows:
            return
        insert = sqlite.insert(table)
        changed = {c.name: insert.excluded[c.name] for c in table.columns if not c.primary_key}
        statement = insert.on_conflict_do_update(
            index_elements=table.primary_key, set_=changed, where=replace
        )
        self._connection.execute(statement, list(rows))

    def _delete(
        self,
        table: sa.Table,
        column: sa.Column[Any],
        values: Sequence[str],
        condition: sa.ColumnElement[bool],
    ) -> None:
        for some in _batches(values, _VALUES_AT_ONCE):
            self._connection.execute(table.delete().where(condition, column.in_(some)))


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _passage_row(namespace: str, stored: StoredPassage) -> dict[str, Any]:
    passage = stored.passage
    return {
        "namespace": namespace,
        "id": passage.id,
        "text": passage.text,
        "title": passage.title,
        "source_id": passage.source_id,
        "metadata": canonical_json(dict(passage.metadata)),
        "text_key": text_key(passage.full_text),
        "reason": stored.extraction.reason,
    }


def _stored_passage(row: Any) -> StoredPassage:
    passage = Passage(
        text=row.text,
        id=row.id,
        title=row.title,
        source_id=row.source_id,
        metadata=json.loads(row.metadata),
    )
    if row.status is None:
        return StoredPassage(passage, Extraction(status=Status.FAILED, reason=row.reason))
    return StoredPassage(passage, replace(_extraction(row), reason=row.extraction_reason))


def _extraction_row(
    namespace: str, key: str, extractor: str, extraction: Extraction, *, pending: bool
) -> dict[str, Any]:
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


def _extraction(row: Any) -> Extraction:
    return Extraction(
        entities=tuple(json.loads(row.entities)),
        triples=tuple(Triple(*t) for t in json.loads(row.triples)),
        status=Status(row.status),
        reason=row.reason,
        dropped=json.loads(row.dropped),
    )


def _from_bytes(blob: bytes) -> NDArray[np.float32]:
    return np.frombuffer(blob, dtype="<f4").astype(np.float32, copy=False)

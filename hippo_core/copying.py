"""Copies: of one database as it is, and of namespaces from one store to another."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from hippo_core.errors import InputError
from hippo_core.faults import converted
from hippo_core.records import Reader, text_key
from hippo_core.tables import (
    UNRECORDED,
    changes,
    edges,
    embedders,
    extractions,
    namespaces,
    passages,
    vectors,
)
from hippo_core.writer import Writer

_PAGES_AT_ONCE = 1_000
_ROWS_AT_ONCE = 500
_ONE_AT_A_TIME = threading.Lock()  # two copies in opposite directions would wait for each other


class Transactions(Protocol):
    """What copies are made between: stores."""

    def read(self) -> AbstractContextManager[Reader]:
        """Open a transaction that reads."""

    def write(self) -> AbstractContextManager[Writer]:
        """Open a transaction that writes."""


def copy_store(
    source: Transactions, target: Transactions, only: Collection[str] | None = None
) -> list[str]:
    """Copy namespaces, all or those of `only`, into a store that has none of their passages.

    One state is copied, whole or not at all: passages with their edges, what was read out of them,
    what is pending, vectors, embedders and curation. Give the copied namespaces.

    Raises:
        InputError: The source has no such namespace, or the target has passages in one.
    """
    if source is target:
        raise InputError("a store cannot be copied into itself")
    with _ONE_AT_A_TIME, source.read() as reader, target.write() as writer:
        there = reader.namespaces()
        wanted = there if only is None else sorted(only)
        for namespace in wanted:
            if namespace not in there:
                raise InputError(f"there is no namespace {namespace!r} to copy")
            if writer.has_passages(namespace):
                raise InputError(
                    f"namespace {namespace!r} of the target holds passages; copy into an empty one"
                )
        for namespace in wanted:
            _copy_namespace(reader, writer, namespace)
    return wanted


def copy_database(driver: sqlite3.Connection, path: Path) -> None:
    """Copy a SQLite database, as it is now, to a file; writers go on meanwhile."""
    with converted(str(path)), closing(sqlite3.connect(path)) as copy:
        # A transaction holds the state, or each commit of another process would begin it anew.
        driver.execute("BEGIN")
        try:
            driver.execute("SELECT count(*) FROM sqlite_master").fetchone()
            driver.backup(copy, pages=_PAGES_AT_ONCE, sleep=0)
        finally:
            driver.execute("ROLLBACK")


def _copy_namespace(reader: Reader, writer: Writer, namespace: str) -> None:
    shift = writer.make_room(namespace)
    version = writer.raise_version(namespace)
    for rows in _parts(reader, passages, namespace):
        writer.put(passages, rows)
        writer.put(changes, [_change(row, version) for row in rows])
    for table in (extractions, edges):
        for rows in _parts(reader, table, namespace):
            writer.put(table, rows)
    for table in (embedders, vectors):
        for rows in _parts(reader, table, namespace):
            writer.put(table, [{**row, **_shifted(row["generation"], shift)} for row in rows])
    for rows in _parts(reader, namespaces, namespace):
        for row in rows:
            writer.set_namespace(
                namespace,
                **_shifted(row["generation"], shift),
                generations=row["generations"] + shift,
                curation=row["curation"],
            )


def _parts(
    reader: Reader, table: sa.Table, namespace: str
) -> Iterator[Sequence[Mapping[str, Any]]]:
    query = sa.select(table).where(table.c.namespace == namespace)
    for rows in reader.parts(query, _ROWS_AT_ONCE):
        yield [dict(row._mapping) for row in rows]


def _change(row: Mapping[str, Any], version: int) -> dict[str, Any]:
    return {
        "namespace": row["namespace"],
        "id_key": text_key(row["id"]),
        "passage_id": row["id"],
        "version": version,
    }


def _shifted(generation: int | None, shift: int) -> dict[str, int | None]:
    if generation is None or generation == UNRECORDED:
        return {"generation": generation}
    return {"generation": generation + shift}

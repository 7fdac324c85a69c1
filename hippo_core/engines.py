"""The connections to the database: how one is opened, and how a transaction begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

LOCK_TIMEOUT = 30_000  # milliseconds that a write waits for another process


class Kept(sqlite3.Connection):
    """A connection to a database in memory that the engine cannot close.

    After an interrupt inside a statement SQLAlchemy drops its connection and asks for another. The
    database lives in this one, so it only undoes what was begun, and is handed out again.
    """

    def close(self) -> None:
        """Undo what was begun."""
        self.rollback()

    def create_function(self, name: str, *args: Any, **options: Any) -> None:
        """Create a function, unless it is there: an interrupted statement may use it."""
        try:
            super().create_function(name, *args, **options)
        except sqlite3.OperationalError:
            pass

    def end(self) -> None:
        """Close it in truth: the database is gone."""
        super().close()


def memory_engine() -> tuple[Engine, Kept]:
    """Give an engine on a new database in memory, and the one connection that holds it."""
    kept = sqlite3.connect(":memory:", check_same_thread=False, factory=Kept)
    engine = sa.create_engine("sqlite://", creator=lambda: kept, poolclass=StaticPool)
    return _prepared(engine), kept


def file_engine(path: Path) -> Engine:
    """Give an engine on a database file."""
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        connect_args={"check_same_thread": False, "timeout": LOCK_TIMEOUT / 1000},
        max_overflow=-1,  # each thread that reads takes one for a moment; none waits for another
        hide_parameters=True,  # they are the user's texts
    )
    return _prepared(engine)


def log_ahead(engine: Engine) -> None:
    """Let readers and a writer work at once; the file remembers it."""
    with driver_of(engine) as driver:
        if driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            driver.execute("PRAGMA journal_mode=WAL").fetchall()


@contextmanager
def driver_of(engine: Engine) -> Iterator[Any]:
    """Lend a connection of the driver's own, outside of any transaction."""
    connection = engine.raw_connection()
    try:
        yield connection.driver_connection
    finally:
        connection.close()


def _prepared(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def connect(driver: Any, _record: object) -> None:
        driver.isolation_level = None  # transactions are begun below, not by the driver
        driver.execute("PRAGMA synchronous=FULL")
        driver.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("hippo_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine

"""The connections to the database: how one is opened, and how a transaction begins."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool, StaticPool

from hippo_core.errors import MissingDependencyError

LOCK_TIMEOUT = 30_000  # milliseconds that a write waits for another process
_LARGEST = 256 * 2**20  # bytes of one row
_LONGEST_STATEMENT = 10**6  # bytes of SQL
_IDLE = 5  # connections to a server that are kept open
_BUSY = 27  # and so many more while they are needed
_OUR_LOCK = 0x68697070  # of PostgreSQL's advisory locks; it begins "hipp"

# One writer at a time. A database can hold a store in each schema, so the lock is that of our table
# - or of the schema, as long as there is no table.
_POSTGRES_LOCKS = {
    "write": f"SELECT pg_advisory_xact_lock({_OUR_LOCK}, "
    "hashtext('hippo_settings'::regclass::oid::text))",
    "create": f"SELECT pg_advisory_xact_lock({_OUR_LOCK}, "
    "hashtext(coalesce(current_schema(), '')))",
}


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


class Own(sqlite3.Connection):
    """A connection to a file that does nothing in a process which it was carried into by a fork.

    There even closing would do harm: what it shares with its parent it would change.
    """

    _carried: list[Own] = []  # closed by nobody

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._process = os.getpid()

    def cursor(self, *args: Any, **options: Any) -> Any:
        """Give a cursor."""
        self._refuse_child()
        return super().cursor(*args, **options)

    def commit(self) -> None:
        """Commit."""
        self._refuse_child()
        super().commit()

    def rollback(self) -> None:
        """Undo what was begun."""
        if self._process == os.getpid():
            super().rollback()

    def close(self) -> None:
        """Close, or keep for ever what is the parent's."""
        if self._process == os.getpid():
            super().close()
        else:
            self._carried.append(self)

    def _refuse_child(self) -> None:
        if self._process != os.getpid():
            raise sqlite3.OperationalError("the transaction is that of the process before the fork")


def memory_engine() -> tuple[Engine, Kept]:
    """Give an engine on a new database in memory, and the one connection that holds it."""
    kept = sqlite3.connect(":memory:", check_same_thread=False, factory=Kept)
    engine = sa.create_engine(
        "sqlite://", creator=lambda: kept, poolclass=StaticPool, hide_parameters=True
    )
    return _sqlite(engine), kept


def file_engine(path: Path) -> Engine:
    """Give an engine on a database file."""
    options = {"check_same_thread": False, "timeout": LOCK_TIMEOUT / 1000, "factory": Own}
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),
        connect_args=options,
        max_overflow=-1,  # each thread that reads takes one for a moment; none waits for another
        hide_parameters=True,  # they are the user's texts
    )
    return _sqlite(engine)


def read_only_engine(path: Path) -> Engine:
    """Give an engine on a database file that cannot be written, nor can files beside it.

    A log with something in it belongs to somebody who can write; without one the file is taken as
    it lies. Each transaction looks again, on a connection of its own that remembers nothing.
    """
    log = path.with_name(f"{path.name}-wal")

    def connect() -> sqlite3.Connection:
        logged = log.exists() and log.stat().st_size > 0
        how = "mode=ro" if logged else "mode=ro&immutable=1"
        address = f"{path.absolute().as_uri()}?{how}"
        return sqlite3.connect(address, uri=True, check_same_thread=False, factory=Own)

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True
    )
    return _sqlite(engine)


def server_engine(url: sa.URL) -> Engine:
    """Give an engine on a PostgreSQL server.

    Raises:
        MissingDependencyError: There is no psycopg.
    """
    try:
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            pool_size=_IDLE,
            max_overflow=_BUSY,
            hide_parameters=True,
        )
    except ImportError as error:
        raise MissingDependencyError("psycopg", "postgres") from error

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        wants = connection.get_execution_options().get("hippo_lock")
        if wants is not None:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT}")
            connection.exec_driver_sql(_POSTGRES_LOCKS[wants])

    return engine


def reading(engine: Engine) -> Engine:
    """Give the engine whose transactions see one state, and change nothing."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def writing(engine: Engine, lock: str = "write") -> Engine:
    """Give the engine whose transactions hold the write lock, and see the last commit."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(hippo_lock=lock)
    # Each statement sees what is committed as it begins; who holds the lock is the only one to.
    return engine.execution_options(isolation_level="READ COMMITTED", hippo_lock=lock)


@contextmanager
def driver_of(engine: Engine) -> Iterator[Any]:
    """Lend a connection of the driver's own, outside of any transaction."""
    connection = engine.raw_connection()
    try:
        yield connection.driver_connection
    finally:
        connection.close()


def log_ahead(engine: Engine) -> None:
    """Let readers and a writer of a SQLite file work at once; the file remembers it."""
    with driver_of(engine) as driver:
        if driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            driver.execute("PRAGMA journal_mode=WAL").fetchall()


def rewrite(engine: Engine) -> None:
    """Write a SQLite file anew: its secure_delete leaves a copy of what it moved between pages."""
    with driver_of(engine) as driver:
        before = driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 1)  # it works in a second database
        try:
            driver.execute("VACUUM")
        finally:
            driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, before)


def fold_log(engine: Engine, timeout: int) -> bool:
    """Fold a SQLite file's log into it; whether nobody kept it, for these milliseconds."""
    with driver_of(engine) as driver:
        driver.execute(f"PRAGMA busy_timeout={timeout}")
        try:
            ((kept, _, _),) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            driver.execute(f"PRAGMA busy_timeout={LOCK_TIMEOUT}")
    return not kept


def _sqlite(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def connect(driver: Any, _record: object) -> None:
        driver.isolation_level = None  # transactions are begun below, not by the driver
        # The file may be somebody else's: its schema runs nothing, its pages are checked.
        driver.execute("PRAGMA trusted_schema=OFF")
        driver.execute("PRAGMA cell_size_check=ON")
        driver.execute("PRAGMA mmap_size=0")
        driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        driver.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
        driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        driver.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
        driver.execute("PRAGMA synchronous=FULL")
        driver.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("hippo_lock")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine

"""Store: what is kept, in one transactional database (SQLite through SQLAlchemy Core).

Everything else - graph, matrices, synonymy edges - is derived from it. A store is in memory, or one
folder with one database file in it. Writes are short transactions; a commit of passages is all or
nothing.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

from hippo_core.errors import (
    ClosedError,
    InputError,
    NotAStoreError,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
)
from hippo_core.records import Reader, Writer
from hippo_core.tables import FORMAT, SCHEMA_VERSION, metadata, settings

DATABASE = "hippo.sqlite"
_LOCK_TIMEOUT = 30_000  # milliseconds that a write waits for another process
_READER_TIMEOUT = 500  # milliseconds that the log waits for readers of an old state


class Store:
    """The database behind a memory.

    Args:
        location: None for a store in memory, or a folder.
        create: Whether a missing or empty folder becomes a new store.

    Raises:
        NotAStoreError: The location is a file, a folder of something else, or missing with
            `create=False`.
        SchemaVersionError: The store was written by another version of the format.
        StoreCorruptError: The database file cannot be read.
    """

    def __init__(self, location: str | Path | None = None, *, create: bool = True) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self.folder = _folder(location)
        self._kept: _Kept | None = None
        if self.folder is None:
            self._engine, self._kept = _memory_engine()
            with self._engine.begin() as connection:
                _create_schema(connection)
        else:
            path = self.folder / DATABASE
            if not path.exists():
                _refuse_foreign_folder(self.folder, create)
                _refuse_orphaned_log(path)
                _create_file(path)
            self._engine = _engine(path)
        self._writing_engine = self._engine.execution_options(hippo_write=True)
        try:
            self.id = self._check_format()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Open a transaction that sees one state and changes nothing."""
        with self._guard(self._engine, exclusive=self.folder is None) as connection:
            yield Reader(connection)

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Open a transaction that holds the write lock; an exception undoes all of it."""
        with self._guard(self._writing_engine, exclusive=True) as connection:
            yield Writer(connection)

    def truncate_log(self) -> None:
        """Fold the write-ahead log into the database, so that deleted text leaves the disk.

        Where a reader elsewhere still holds an old state, that waits for the next time.
        """
        if self.folder is not None and not self._closed:
            with self._lock, _converted(self.folder), self._engine.connect() as connection:
                driver: Any = connection.connection.driver_connection
                driver.execute(f"PRAGMA busy_timeout={_READER_TIMEOUT}")
                try:
                    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    driver.execute(f"PRAGMA busy_timeout={_LOCK_TIMEOUT}")

    def close(self) -> None:
        """Let go of the database; a store in memory is gone."""
        with self._lock:
            if not self._closed:
                try:
                    self.truncate_log()
                finally:
                    self._closed = True
                    self._engine.dispose()
                    if self._kept is not None:
                        self._kept.end()

    @contextmanager
    def _guard(self, engine: Engine, *, exclusive: bool) -> Iterator[Connection]:
        if exclusive:
            self._lock.acquire()
        try:
            if self._closed:
                raise ClosedError("this memory was closed; open it again to use it")
            with _converted(self.folder), engine.begin() as connection:
                yield connection
        finally:
            if exclusive:
                self._lock.release()

    def _check_format(self) -> str:
        with _converted(self.folder), self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(settings.name):
                raise StoreCorruptError(
                    f"{self._name} holds none of our tables: it was emptied or is not ours. "
                    "Restore it from a copy, or name another folder."
                )
            found = dict(connection.execute(sa.select(settings.c.name, settings.c.value)).all())
        if found.get("format") != FORMAT:
            raise NotAStoreError(f"{self._name} is not a hippo-core store")
        schema = str(found.get("schema", ""))
        if not schema.isdecimal():
            raise StoreCorruptError(f"{self._name} says schema {schema!r}, which is no version")
        version = int(schema)
        if version != SCHEMA_VERSION:
            newer = version > SCHEMA_VERSION
            raise SchemaVersionError(
                f"{self._name} has schema version {version}, this hippo-core reads version "
                f"{SCHEMA_VERSION}; "
                + ("upgrade hippo-core" if newer else "open it with the hippo-core that wrote it")
            )
        return str(found["store_id"])

    @property
    def _name(self) -> str:
        return "the store in memory" if self.folder is None else str(self.folder / DATABASE)


def _folder(location: str | Path | None) -> Path | None:
    if location is None:
        return None
    if isinstance(location, str) and (not location.strip() or "://" in location):
        raise InputError(f"store must be None or a folder, got {location!r}")
    if not isinstance(location, str | Path):
        raise InputError(f"store must be None or a folder, got {type(location).__name__}")
    return Path(location).expanduser()


def _refuse_foreign_folder(folder: Path, create: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotAStoreError(f"{folder} is a file; store= takes a folder")
    if folder.is_dir() and any(p for p in folder.iterdir() if not p.name.startswith(DATABASE)):
        raise NotAStoreError(
            f"{folder} holds other files and no {DATABASE}; name an empty or new folder"
        )
    if not create:
        raise NotAStoreError(f"{folder} holds no {DATABASE}; pass create=True to begin a new one")


def _refuse_orphaned_log(path: Path) -> None:
    """Refuse a log whose database is gone: a new database would take in its pages."""
    log = path.with_name(f"{DATABASE}-wal")
    if log.exists() and not path.exists():  # in this order: who makes both makes the log last
        raise StoreCorruptError(
            f"{path} is missing and its log {log.name} is there; restore it from a copy, "
            "or name another folder"
        )


def _create_file(path: Path) -> None:
    """Make a whole database under another name; put it in place if no other process was faster."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{DATABASE}.{uuid.uuid4().hex}")
        with _converted(path.parent):
            engine = sa.create_engine(_url(draft))
            try:
                with engine.begin() as connection:
                    _create_schema(connection)
            finally:
                engine.dispose()
        try:
            os.link(draft, path)
        except FileExistsError:  # another process made it first: use that one
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                draft.rename(path)
        draft.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create a store in {path.parent}: {error}") from error


def _create_schema(connection: Connection) -> None:
    metadata.create_all(connection)
    rows = {"format": FORMAT, "schema": str(SCHEMA_VERSION), "store_id": uuid.uuid4().hex}
    connection.execute(
        settings.insert(), [{"name": name, "value": value} for name, value in rows.items()]
    )


def _url(path: Path) -> sa.URL:
    return sa.URL.create("sqlite", database=str(path))


class _Kept(sqlite3.Connection):
    """A connection to a database in memory that the engine cannot close.

    After an interrupt inside a statement SQLAlchemy drops its connection and asks for another. The
    database lives in this one, so it only undoes what was begun, and is handed out again.
    """

    def close(self) -> None:
        self.rollback()

    def create_function(self, name: str, *args: Any, **options: Any) -> None:
        try:
            super().create_function(name, *args, **options)
        except sqlite3.OperationalError:  # it is there, and an interrupted statement may use it
            pass

    def end(self) -> None:
        super().close()


def _memory_engine() -> tuple[Engine, _Kept]:
    kept = sqlite3.connect(":memory:", check_same_thread=False, factory=_Kept)
    engine = sa.create_engine("sqlite://", creator=lambda: kept, poolclass=StaticPool)
    return _prepared(engine, None), kept


def _engine(path: Path) -> Engine:
    engine = sa.create_engine(
        _url(path),
        connect_args={"check_same_thread": False, "timeout": _LOCK_TIMEOUT / 1000},
        max_overflow=-1,  # each thread that reads takes one for a moment; none waits for another
    )
    return _prepared(engine, path)


def _prepared(engine: Engine, path: Path | None) -> Engine:

    @event.listens_for(engine, "connect")
    def connect(driver: Any, _record: object) -> None:
        driver.isolation_level = None  # transactions are begun below, not by the driver
        if path is not None:
            driver.execute("PRAGMA journal_mode=WAL")
        driver.execute("PRAGMA synchronous=FULL")
        driver.execute("PRAGMA secure_delete=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("hippo_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


@contextmanager
def _converted(folder: Path | None) -> Iterator[None]:
    """Turn the database's errors into ours, with the way out."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        where = "the store in memory" if folder is None else str(folder / DATABASE)
        said = str(error.orig)
        if "locked" in said or "busy" in said:
            raise StoreLockedError(
                f"{where} is locked by another process ({said}); try again"
            ) from error
        if any(word in said for word in ("not a database", "malformed", "corrupt")):
            raise StoreCorruptError(
                f"{where} cannot be read ({said}); restore it from a copy, or index the passages "
                "again in another folder"
            ) from error
        raise StoreError(f"{where}: {said}") from error

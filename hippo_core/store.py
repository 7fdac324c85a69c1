"""Store: what is kept, in one transactional database (SQLite through SQLAlchemy Core).

Everything else - graph, matrices, synonymy edges - is derived from it. A store is in memory, or one
folder with one database file in it. Writes are short transactions; a commit of passages is all or
nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from hippo_core.engines import LOCK_TIMEOUT, Kept, driver_of, file_engine, log_ahead, memory_engine
from hippo_core.errors import ClosedError
from hippo_core.faults import converted
from hippo_core.locations import DATABASE, SNAPSHOTS, checked_location, ready_folder
from hippo_core.migrations import create_schema, identify, migrate
from hippo_core.records import Reader
from hippo_core.tables import SCHEMA_VERSION
from hippo_core.writer import Writer

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
        self.folder = checked_location(location)
        self.snapshots = None if self.folder is None else self.folder / SNAPSHOTS
        self._kept: Kept | None = None
        if self.folder is None:
            self.name = "in memory"
            self._where = "the store in memory"
            self._engine, self._kept = memory_engine()
            with self._engine.begin() as connection:
                create_schema(connection)
        else:
            self.name = str(self.folder)
            self._where = str(self.folder / DATABASE)
            self._engine = file_engine(ready_folder(self.folder, create=create))
        self._writing_engine = self._engine.execution_options(hippo_write=True)
        try:
            self.id = self._opened()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Open a transaction that sees one state and changes nothing."""
        with self._guard(self._engine, exclusive=self.folder is None) as connection:
            yield Reader(connection, self._where)

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Open a transaction that holds the write lock; an exception undoes all of it."""
        with self._guard(self._writing_engine, exclusive=True) as connection:
            yield Writer(connection, self._where)

    def truncate_log(self) -> None:
        """Fold the write-ahead log into the database, so that deleted text leaves the disk.

        Where a reader elsewhere still holds an old state, that waits for the next time.
        """
        if self.folder is not None and not self._closed:
            with self._lock, converted(self._where), driver_of(self._engine) as driver:
                driver.execute(f"PRAGMA busy_timeout={_READER_TIMEOUT}")
                try:
                    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    driver.execute(f"PRAGMA busy_timeout={LOCK_TIMEOUT}")

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
            with converted(self._where), engine.begin() as connection:
                yield connection
        finally:
            if exclusive:
                self._lock.release()

    def _opened(self) -> str:
        """Give the store's id, once it is seen to be ours and of the present version."""
        with converted(self._where):
            with self._engine.connect() as connection:
                version, id_ = identify(connection, self._where)
            if version != SCHEMA_VERSION:
                with self._writing_engine.begin() as connection:
                    migrate(connection, self._where)
            if self.folder is not None:
                log_ahead(self._engine)
        return id_

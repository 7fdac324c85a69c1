"""Store: what is kept, in one transactional database (SQLite or PostgreSQL, by SQLAlchemy Core).

Everything else - graph, matrices, synonymy edges - is derived from it. A store is in memory, one
folder with one database file in it, or a database on a server. Writes are short transactions; a
commit of passages is all or nothing.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

from hippo_core.copying import copy_database, copy_store
from hippo_core.engines import (
    Kept,
    driver_of,
    file_engine,
    fold_log,
    log_ahead,
    memory_engine,
    read_only_engine,
    reading,
    rewrite,
    server_engine,
    writing,
)
from hippo_core.errors import (
    ClosedError,
    InputError,
    NotAStoreError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
)
from hippo_core.faults import converted
from hippo_core.forks import gate, tell_of_forks
from hippo_core.locations import (
    DATABASE,
    SNAPSHOTS,
    checked_location,
    drafted,
    file_identity,
    is_read_only,
    ready_folder,
    shown,
)
from hippo_core.migrations import create_schema, holds_nothing_of_ours, identify, migrate
from hippo_core.records import Reader
from hippo_core.tables import SCHEMA_VERSION, metadata
from hippo_core.writer import Writer

_READER_TIMEOUT = 100  # milliseconds that the log waits for readers of an old state
_PURGE_TIMEOUT = 5_000  # and where it must not stay

logger = logging.getLogger(__name__)


class Store:
    """The database behind a memory.

    Args:
        location: None for a store in memory, a folder, or a PostgreSQL URL.
        create: Whether a missing or empty folder, or a database without our tables, becomes a new
            store.
        snapshot_dir: Where derived files may go if the store is on a server; None for nowhere.

    Attributes:
        id: Tells stores apart; a copy made by `backup` has its original's.
        folder: The folder of a store on disk.
        url: The URL of a store on a server.
        snapshots: Where derived files go; None for nowhere.
        name: The location as a person may see it.
        read_only: Whether it can only be read, as it lies where nothing can be written.
        forked: How many forks lie between this process and the one that opened the store.

    Raises:
        InputError: The location is none of these.
        NotAStoreError: The location is a file, of something else, or missing with `create=False`.
        SchemaVersionError: The store was written by another version of the format.
        StoreCorruptError: The database file cannot be read.
        StoreUnavailableError: The server does not answer.
    """

    def __init__(
        self,
        location: str | Path | None = None,
        *,
        create: bool = True,
        snapshot_dir: str | Path | None = None,
    ) -> None:
        place = checked_location(location)
        self.folder = place if isinstance(place, Path) else None
        self.url = place if isinstance(place, sa.URL) else None
        self.snapshots: Path | None = None
        self.name = self._where = "in memory"
        self.read_only = False
        self.forked = 0
        self._lock = threading.RLock()
        self._locked_to_fork = self._in_use = False  # at the last fork
        self._carried = False  # a fork took along a connection that was in use
        self._closed = False
        self._identity: tuple[int, int] | None = None  # of the database file
        self._kept: Kept | None = None
        with gate.passed():
            if self.folder is not None:
                self.snapshots = self.folder / SNAPSHOTS
                self.name, self._where = str(self.folder), str(self.folder / DATABASE)
                self._engine = self._open_folder(self.folder, create)
            elif self.url is not None:
                self.snapshots = None if snapshot_dir is None else Path(snapshot_dir).absolute()
                self.name = self._where = shown(self.url)
                self._engine = self._open_server(self.url, create)
            else:
                self._where = "the store in memory"
                self._engine = self._open_memory()
            self._reading_engine = reading(self._engine)
            self._writing_engine = writing(self._engine)
            try:
                self.id = self._checked_id()
            except BaseException:
                self._engine.dispose()
                raise
            tell_of_forks(self)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Open a transaction that sees one state and changes nothing."""
        with self._guard(self._reading_engine, exclusive=self._kept is not None) as connection:
            yield Reader(connection, self._where)

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Open a transaction that holds the write lock; an exception undoes all of it."""
        if self.read_only:
            raise StoreError(f"{self._where} is read-only here; make it writable, or use a copy")
        with self._guard(self._writing_engine, exclusive=True) as connection:
            yield Writer(connection, self._where)

    def truncate_log(self) -> None:
        """Fold the write-ahead log into the database, so that deleted text leaves the disk.

        Where a reader elsewhere still holds an old state, that waits for the next time.
        """
        if self._has_log and not self._closed:
            with self._entered(exclusive=True):
                fold_log(self._engine, _READER_TIMEOUT)

    def purge(self) -> None:
        """Let deleted text leave the disk now; on a server, free its space (VACUUM).

        Raises:
            StoreLockedError: A reader still holds an old state.
        """
        with self._entered(exclusive=True):
            if self.url is not None:
                at_once = self._engine.execution_options(isolation_level="AUTOCOMMIT")
                with at_once.connect() as connection:
                    connection.exec_driver_sql(f"VACUUM {', '.join(metadata.tables)}")
            elif self._has_log:
                rewrite(self._engine)
                if not fold_log(self._engine, _PURGE_TIMEOUT):
                    raise StoreLockedError(
                        f"{self._where}: a reader still holds an old state, with what was "
                        "deleted; try again when it has finished"
                    )

    def backup(self, folder: str | Path) -> None:
        """Copy the store, as it is now, into a new or empty folder; writers go on meanwhile.

        Raises:
            InputError: The folder is not empty.
            StoreError: The copy cannot be made; nothing of it is left.
        """
        place = checked_location(folder)
        if not isinstance(place, Path):
            raise InputError("backup takes a folder, not a URL nor None")
        with drafted(place) as draft:
            if self.url is not None:
                copy = Store(draft)
                try:
                    copy_store(self, copy)
                    with copy.write() as writer:
                        writer.take_id(self.id)
                finally:
                    copy.close()
            else:
                self._overwrite(draft)

    def save(self, folder: str | Path) -> None:
        """Do what `backup` does; an earlier copy of this store in the folder is replaced.

        Whoever has that copy open sees the new state at the next query.

        Raises:
            NotAStoreError: The folder holds something else, or another store.
            StoreError: The copy cannot be made; the earlier one is as it was.
        """
        place = checked_location(folder)
        if not isinstance(place, Path) or not (place / DATABASE).exists():
            self.backup(folder)
            return
        if self.folder is not None and place.resolve() == self.folder.resolve():
            return
        earlier = Store(place, create=False)
        try:
            if earlier.id != self.id:
                raise NotAStoreError(f"{place} holds another store; save to a folder of its own")
            if self.url is not None:
                with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                    self.backup(Path(scratch) / "copy")
                    fresh = Store(Path(scratch) / "copy")
                    fresh._overwrite(place)
                    fresh.close()
            else:
                self._overwrite(place)
            if earlier.snapshots is not None:
                shutil.rmtree(earlier.snapshots, ignore_errors=True)  # may hold deleted text
        finally:
            earlier.close()

    def _overwrite(self, folder: Path) -> None:
        """Put what is here in the place of the database in a folder."""
        alone = self._kept is not None
        with self._entered(exclusive=alone), driver_of(self._engine) as driver:
            copy_database(driver, folder / DATABASE)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Let go of the database; a store in memory is gone."""
        with gate.passed(), self._lock:
            if self._closed:
                return
            try:
                if not self._carried:
                    self.truncate_log()
            except StoreError as error:
                logger.warning("closed without folding the log in: %s", error)
            finally:
                self._closed = True
                self._engine.dispose()
                if self._kept is not None and not self._carried:
                    self._kept.end()

    def __repr__(self) -> str:
        return f"Store({self.name!r})"

    # -- opening ------------------------------------------------------------------------------

    def _open_memory(self) -> Engine:
        engine, self._kept = memory_engine()
        with engine.begin() as connection:
            create_schema(connection)
        return engine

    def _open_folder(self, folder: Path, create: bool) -> Engine:
        path = ready_folder(folder, create=create)
        self._identity = file_identity(folder)
        self.read_only = is_read_only(path)
        return read_only_engine(path) if self.read_only else file_engine(path)

    def _open_server(self, url: sa.URL, create: bool) -> Engine:
        engine = server_engine(url)
        try:
            with converted(self._where):
                try:
                    engine.connect().close()
                except ValueError as error:  # of the driver, before 3.2: a number that is none
                    raise InputError(f"{self._where} has a URL with a value of no use") from error
                with reading(engine).begin() as connection:
                    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
                    missing = holds_nothing_of_ours(connection)
                if encoding != "UTF8":
                    raise InputError(f"{self._where} has encoding {encoding}, and must have UTF8")
                if missing and not create:
                    raise NotAStoreError(
                        f"{self._where} holds none of our tables; pass create=True to begin a new "
                        "store there"
                    )
                if missing:
                    with writing(engine, "create").begin() as connection:
                        if holds_nothing_of_ours(connection):  # nobody was faster
                            create_schema(connection)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _checked_id(self) -> str:
        """Give the store's id, once it is seen to be ours and of the present version."""
        with converted(self._where):
            with self._reading_engine.begin() as connection:
                version, id_ = identify(connection, self._where)
            if version != SCHEMA_VERSION and self.read_only:
                raise SchemaVersionError(
                    f"{self._where} has schema version {version}, and can only be read; open it "
                    f"once where it can be written: that brings it to version {SCHEMA_VERSION}"
                )
            if version != SCHEMA_VERSION:
                with self._writing_engine.begin() as connection:
                    migrate(connection, self._where)
            if self._has_log:
                log_ahead(self._engine)
        return id_

    # -- using --------------------------------------------------------------------------------

    @property
    def _has_log(self) -> bool:
        return self.folder is not None and not self.read_only

    def _is_elsewhere(self) -> bool:
        """Whether the file that is open is not the one of that name any more."""
        if self.folder is None or self.read_only:
            return False
        return file_identity(self.folder) != self._identity

    @contextmanager
    def _guard(self, engine: Engine, *, exclusive: bool) -> Iterator[Connection]:
        with self._entered(exclusive=exclusive), engine.begin() as connection:
            yield connection

    @contextmanager
    def _entered(self, *, exclusive: bool) -> Iterator[None]:
        # The gate before the lock: so who waits for a fork holds no lock.
        with gate.passed(), self._lock if exclusive else nullcontext():
            if self._closed:
                raise ClosedError("this memory was closed; open it again to use it")
            if self._carried:
                raise StoreError(
                    f"{self._where} was in use when this process was forked; fork outside of "
                    "its transactions, or start processes by spawn"
                )
            if self._is_elsewhere():
                raise StoreError(
                    f"{self._where} was moved, deleted or replaced while it was open; open it "
                    "again where it is now"
                )
            with converted(self._where):
                yield

    # -- forking ------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Close idle connections, and hold the lock; others have it only where they were late."""
        self._locked_to_fork = self._lock.acquire(blocking=False)
        pool = self._engine.pool
        self._in_use = isinstance(pool, QueuePool) and pool.checkedout() > 0
        if self._kept is None:
            self._engine.dispose()

    def after_fork(self, *, child: bool) -> None:
        """Release the lock; in a child, begin with connections of its own."""
        if self._locked_to_fork:
            self._lock.release()
        if child:
            self.forked += 1
            if not self._locked_to_fork:
                self._lock = threading.RLock()
            if self._kept is not None:
                self._carried |= not self._locked_to_fork
            else:
                self._carried |= self._in_use and self.folder is not None
                self._engine.dispose(close=False)

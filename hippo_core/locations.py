"""Where a store is: what `store=` may be, and which folders are ours."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from hippo_core.engines import file_engine, log_ahead
from hippo_core.errors import InputError, NotAStoreError, StoreCorruptError, StoreError
from hippo_core.faults import converted
from hippo_core.migrations import create_schema

DATABASE = "hippo.sqlite"
SNAPSHOTS = "snapshots"  # folder of derived files beside the database


def checked_location(location: str | Path | None) -> Path | None:
    """Give the folder of a store; None for one in memory.

    Raises:
        InputError: It is neither.
    """
    if location is None:
        return None
    if isinstance(location, str) and (not location.strip() or "://" in location):
        raise InputError(f"store must be None or a folder, got {location!r}")
    if not isinstance(location, str | Path):
        raise InputError(f"store must be None or a folder, got {type(location).__name__}")
    return Path(location).expanduser()


def ready_folder(folder: Path, *, create: bool) -> Path:
    """Give the database file of a folder; make it where the folder is missing or empty.

    Raises:
        NotAStoreError: The folder is a file or of something else, or there is none with
            `create=False`.
        StoreCorruptError: The folder is ours, and the database is missing.
        StoreError: It cannot be made.
    """
    path = folder / DATABASE
    if not path.exists():
        _refuse_foreign_folder(folder, create)
        _refuse_orphaned_log(path)
        _create_file(path)
    return path


def _refuse_foreign_folder(folder: Path, create: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotAStoreError(f"{folder} is a file; store= takes a folder")
    there = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    foreign = {name for name in there if not name.startswith(DATABASE)}
    if foreign == {SNAPSHOTS}:
        raise StoreCorruptError(
            f"{folder / DATABASE}: the database is missing, and only what was derived from it is "
            "there; restore it from a copy, or name another folder"
        )
    if foreign:
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
        with converted(str(path.parent)):
            engine = file_engine(draft)
            try:
                log_ahead(engine)
                with engine.begin() as connection:
                    create_schema(connection)
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

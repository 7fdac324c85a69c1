"""The database's errors, turned into ours with the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from hippo_core.errors import (
    StoreCorruptError,
    StoreError,
    StoreLockedError,
)

_DAMAGED = ("not a database", "malformed", "corrupt", "Could not decode", "no such", "short read")


@contextmanager
def converted(where: str) -> Iterator[None]:
    """Turn the database's errors into ours; `where` is what the messages call the store."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise _sqlite(where, error.orig) from error
    except sqlite3.Error as error:
        raise _sqlite(where, error) from error


def _sqlite(where: str, error: BaseException | None) -> StoreError:
    said = f"{error!s:.200}"
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreLockedError(f"{where} is locked by another process ({said}); try again")
    if name == "SQLITE_IOERR_SHORT_READ" or any(word in said for word in _DAMAGED):
        return StoreCorruptError(
            f"{where} cannot be read ({said}); restore it from a copy, or index the passages "
            "again in another folder"
        )
    if name == "SQLITE_FULL":
        return StoreError(
            f"{where}: the disk is full ({said}); free space and call again: what was finished "
            "before is kept"
        )
    if name.startswith("SQLITE_READONLY"):
        return StoreError(f"{where} is read-only ({said}); make it writable, or write to a copy")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(
            f"{where} cannot be opened ({said}); see that it is there and that this user may "
            "read and write its folder"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"{where}: the disk gave an error ({said}, {name}): it is full, at a quota or failing; "
            "call again when that is mended: what was finished before is kept"
        )
    return StoreError(f"{where}: {said}")

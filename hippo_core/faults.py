"""The database's errors, turned into ours with the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from hippo_core.errors import (
    InputError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
)

_DAMAGED = ("not a database", "malformed", "corrupt", "Could not decode", "no such", "short read")
_KEPT = "what was finished before is kept"


@contextmanager
def converted(where: str) -> Iterator[None]:
    """Turn the database's errors into ours; `where` is what the messages call the store."""
    try:
        yield
    except sa.exc.TimeoutError as error:  # of the pool
        raise StoreUnavailableError(
            f"{where}: too many threads use it at once; try again, or query from fewer"
        ) from error
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise _sqlite(where, error.orig) from error
        raise _postgres(where, error) from error
    except sqlite3.Error as error:
        raise _sqlite(where, error) from error


def _sqlite(where: str, error: sqlite3.Error) -> StoreError:
    said = f"{error!s:.200}"
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreLockedError(f"{where} is locked by another process ({said}); try again")
    if name == "SQLITE_IOERR_SHORT_READ" or any(word in said for word in _DAMAGED):
        return _corrupt(where, said)
    if name == "SQLITE_FULL":
        return _disk_full(where, said)
    if name.startswith("SQLITE_READONLY"):
        return _read_only(where, said)
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(
            f"{where} cannot be opened ({said}); see that it is there and that this user may read "
            "and write its folder. Where nobody may write, a store opens once its last writer has "
            "closed it."
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"{where}: the disk gave an error ({said}, {name}): it is full, at a quota or failing; "
            f"mend that and call again: {_KEPT}"
        )
    if name == "SQLITE_TOOBIG":
        return StoreError(f"{where}: a text is too large to be kept or read ({said})")
    return StoreError(f"{where}: {said}")


def _postgres(where: str, error: sa.exc.DBAPIError) -> Exception:
    said = " ".join(f"{error.orig!s:.200}".split())
    state = str(getattr(error.orig, "sqlstate", None) or "")
    never_connected = isinstance(error, sa.exc.OperationalError) and not state
    if error.connection_invalidated or never_connected or state.startswith(("08", "57P")):
        return StoreUnavailableError(f"{where} does not answer ({said}); try again")
    match state:
        case "55P03" | "40P01" | "40001":
            return StoreLockedError(f"{where} is locked by another process ({said}); try again")
        case "53100":
            return _disk_full(where, said)
        case "25006":
            return _read_only(where, said)
        case "42P01" | "42703" | "XX001" | "XX002":
            return _corrupt(where, said)
        case "54000":
            return InputError(
                f"{where}: an id, a source id or a namespace is too long for PostgreSQL ({said}); "
                "give one of at most 600 characters"
            )
    if state.startswith("53"):
        return StoreUnavailableError(f"{where} has no room for another connection ({said})")
    return StoreError(f"{where}: {said}")


def _corrupt(where: str, said: str) -> StoreError:
    return StoreCorruptError(
        f"{where} cannot be read ({said}); restore it from a copy, with no -wal file of the old "
        "one beside it, or index the passages again in another folder"
    )


def _disk_full(where: str, said: str) -> StoreError:
    return StoreError(f"{where}: the disk is full ({said}); free space and call again: {_KEPT}")


def _read_only(where: str, said: str) -> StoreError:
    return StoreError(f"{where} is read-only ({said}); make it writable, or write to a copy")

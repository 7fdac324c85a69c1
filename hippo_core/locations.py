"""Where a store is: what `store=` may be, and which folders are ours."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import sqlalchemy as sa

from hippo_core.engines import file_engine, log_ahead
from hippo_core.errors import InputError, NotAStoreError, StoreCorruptError, StoreError
from hippo_core.faults import converted
from hippo_core.migrations import create_schema

DATABASE = "hippo.sqlite"
SNAPSHOTS = "snapshots"  # folder of derived files beside the database
_DRAFT = "draft-"  # folder of a copy that is being made
_OUR_DRAFT = re.compile(f"{_DRAFT}[0-9a-f]{{32}}")
_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_SECRETS = ("password", "passfile", "sslpassword", "oauth_client_secret")


def checked_location(location: str | Path | None) -> Path | sa.URL | None:
    """Give the folder of a store or the URL of its server; None for one in memory.

    Raises:
        InputError: It is none of these.
    """
    accepted = "store must be None, a folder or a PostgreSQL URL (postgresql://...)"
    if location is None:
        return None
    if not isinstance(location, str | Path):
        raise InputError(f"{accepted}, got {type(location).__name__}")
    if isinstance(location, Path) or "://" not in location:
        if not str(location).strip():
            raise InputError(f"{accepted}, got {location!r}")
        return Path(location).expanduser().absolute()
    scheme = location.partition("://")[0]
    if scheme not in _SCHEMES:
        raise InputError(f"{accepted}, got a URL of {scheme!r}")
    try:
        url = sa.make_url(location).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):  # which may show the password
        raise InputError(f"{accepted}, got a {scheme} URL that cannot be read") from None
    if url.host and "%" in url.host:  # as libpq writes the folder of a socket
        url = url.set(host="").update_query_dict({"host": unquote(url.host)})
    return url


def shown(url: sa.URL) -> str:
    """Give a URL as a person may see it, without its secrets."""
    hidden = {name: "***" for name in _SECRETS if name in url.query}
    url = url.set(drivername="postgresql").update_query_dict(hidden)
    return url.render_as_string(hide_password=True)


def is_read_only(path: Path) -> bool:
    """Whether this process cannot write a database file or beside it."""
    return not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def file_identity(folder: Path) -> tuple[int, int] | None:
    """Tell the database file of a folder from any other; None where there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:  # moved or deleted
        return None
    return found.st_dev, found.st_ino


def ready_folder(folder: Path, *, create: bool) -> Path:
    """Give the database file of a folder; make it where the folder is missing or empty.

    Raises:
        NotAStoreError: The folder is a file or of something else, or there is none with
            `create=False`.
        StoreCorruptError: The folder is ours, and the database is missing.
        StoreError: It cannot be made.
    """
    _refuse_unwritable_name(folder)
    path = folder / DATABASE
    if path.exists() and not path.is_file():
        raise NotAStoreError(f"{path} is no file")
    if not path.exists():
        _refuse_foreign_folder(folder, create)
        _refuse_orphaned_log(path)
        _create_file(path)
    return path


def _refuse_unwritable_name(folder: Path) -> None:
    """Refuse a name that this process cannot write, as "東京" where the locale is C."""
    try:
        os.fsencode(folder)
    except UnicodeEncodeError as error:
        raise StoreError(
            f"the folder {str(folder)!a} cannot be named in {error.encoding}, the encoding of file "
            "names here; set PYTHONUTF8=1 or a UTF-8 locale, or choose another name"
        ) from error


def _refuse_foreign_folder(folder: Path, create: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotAStoreError(f"{folder} is a file; store= takes a folder")
    there = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    foreign = {name for name in there if not name.startswith(DATABASE)}
    if foreign and all(map(_OUR_DRAFT.fullmatch, foreign)):
        raise NotAStoreError(
            f"{folder} holds a copy that was never finished; make it again there, or delete it"
        )
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
        raise NotAStoreError(
            f"{folder} holds no {DATABASE}: see to the path, or begin a new store "
            "by leaving create=False out"
        )


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
        try:
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
        finally:
            for ending in ("", "-wal", "-shm"):
                draft.with_name(f"{draft.name}{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create a store in {path.parent}: {error}") from error


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """Lend a draft's folder; the database that is made there is moved to `folder` at the end.

    Until then nothing in `folder` opens as a store, also after a crash.

    Raises:
        InputError: There is something in `folder`.
        StoreError: It cannot be made.
    """
    _refuse_unwritable_name(folder)
    for left in folder.glob(f"{_DRAFT}*") if folder.is_dir() else ():  # by a copy that was killed
        if _OUR_DRAFT.fullmatch(left.name):
            shutil.rmtree(left, ignore_errors=True)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; a copy takes a new or an empty folder")
    there = folder.is_dir()
    draft = folder / f"{_DRAFT}{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        try:
            yield draft
            (draft / DATABASE).rename(folder / DATABASE)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"cannot make a store in {folder}: {error}") from error
    finally:
        if not there:
            with suppress(OSError):  # it is not empty where all went well
                folder.rmdir()

"""Faults of the disk and files of strangers: a clear error with the way out, and nothing lost."""

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from hippo_core import (
    Extraction,
    HippoRAG,
    NotAStoreError,
    Passage,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
)
from hippo_core.faults import converted
from hippo_core.locations import DATABASE
from hippo_core.store import Store
from hippo_core.testing import HashEmbedder

pytestmark = pytest.mark.sqlite

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def items(n, prefix="p"):
    return [
        (
            Passage(f"Ada wrote note {prefix}{i}. " * 20, id=f"{prefix}{i}"),
            Extraction(triples=[("Ada", "wrote", f"note {prefix}{i}")]),
        )
        for i in range(n)
    ]


def change(folder, *statements):
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def intact(folder, passages=40):
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        assert len(memory) == passages


# -- a full disk -----------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_and_the_same_call_succeeds_once_there_is_space(filled):
    with HippoRAG(None, HashEmbedder(), store=filled) as memory:
        engine = memory._store._engine
        engine.dispose()

        def limit(driver, _record):
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count={pages + 2}")

        event.listen(engine, "connect", limit)
        with pytest.raises(StoreError, match=r"disk is full.*free space and call again") as caught:
            memory.add_extracted(items(50, "q"))
        assert str(filled) in str(caught.value)
        assert len(memory) == 40
        assert memory.retrieve("Ada").path.used_graph
        event.remove(engine, "connect", limit)
        engine.dispose()
        memory.add_extracted(items(50, "q"))
        assert len(memory) == 90
    intact(filled, 90)


LIMITED = """
import resource, sys
from hippo_core import Extraction, HippoRAG, Passage, StoreError
from hippo_core.testing import HashEmbedder

items = [(Passage(f"Text {i}. " * 200, id=f"q{i}"), Extraction()) for i in range(200)]
with HippoRAG(None, HashEmbedder(), store=sys.argv[1]) as memory:
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, unlimited[1]))
    try:
        memory.add_extracted(items)
    except StoreError as error:
        print(error)
    assert len(memory) == 40
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    memory.add_extracted(items)
    assert len(memory) == 240
"""


def test_a_quota_is_an_error_and_nothing_is_lost(filled):
    command = [sys.executable, "-c", LIMITED, str(filled)]
    done = subprocess.run(command, env=ENV, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "full" in done.stdout
    assert "what was finished before is kept" in done.stdout
    intact(filled, 240)


def test_a_backup_to_a_full_disk_leaves_nothing(filled, tmp_path):
    code = """
import resource, sys
from hippo_core import StoreError
from hippo_core.store import Store
store = Store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    store.backup(sys.argv[2])
except StoreError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(filled), str(tmp_path / "copy")]
    done = subprocess.run(command, env=ENV, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "copy") in done.stdout
    assert not (tmp_path / "copy").exists()
    intact(filled)


# -- where nothing can be written ------------------------------------------------------------------

READING = """
import os, sys
from hippo_core import Extraction, HippoRAG, Passage, StoreError
from hippo_core.store import Store
from hippo_core.testing import HashEmbedder
import json_repair, tenacity  # while they can be read

folder, user = sys.argv[1], int(sys.argv[2])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
try:
    memory = HippoRAG(None, HashEmbedder(), store=folder)
except StoreError as error:
    print(type(error).__name__, error)
    sys.exit()
assert memory._store.read_only
assert len(memory) == 40
assert memory.retrieve("Ada").path.used_graph
for use in (
    lambda: memory.add_extracted([(Passage("New."), Extraction())]),
    lambda: memory.delete(["p0"]),
    memory.forget_pending,
):
    try:
        use()
    except StoreError as error:
        assert "read-only" in str(error), error
    else:
        raise AssertionError("written")
memory._store.truncate_log()
memory._store.purge()
memory.close()
print("read")
"""


@pytest.fixture
def shelf(filled_folder):
    """A store in a folder that others may read and not write: root may do anything anywhere."""
    home = Path(tempfile.mkdtemp(prefix="hippo-shelf-"))
    shutil.copytree(filled_folder, home / "m")
    home.chmod(0o755)
    yield home / "m"
    (home / "m").chmod(0o755)
    shutil.rmtree(home)


def read_as_another(folder):
    """Read in a process that may not write."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    nobody = 65534
    command = [sys.executable, "-c", READING, str(folder), str(nobody)]
    done = subprocess.run(command, env=ENV, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_store_that_cannot_be_written_can_be_read(shelf):
    before = {path.name: path.read_bytes() for path in shelf.iterdir()}
    assert read_as_another(shelf) == "read"
    assert {path.name: path.read_bytes() for path in shelf.iterdir()} == before


def test_what_a_writer_has_not_closed_is_not_read_without_its_log(shelf):
    code = (
        "import os, sys; from hippo_core.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "with store.write() as writer: writer.save_curation('n', '{}')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(shelf)], env=ENV, timeout=60, check=True)
    assert (shelf / f"{DATABASE}-wal").stat().st_size > 0
    for name in ("-shm",):
        (shelf / f"{DATABASE}{name}").unlink()
    said = read_as_another(shelf)
    assert said.startswith("StoreError")
    assert "once its last writer has closed it" in said


def test_what_a_writer_holds_open_is_read_with_its_log(shelf):
    with closing(Store(shelf)) as store:
        with store.write() as writer:
            writer.save_curation("n", "{}")
        assert read_as_another(shelf) == "read"
        shelf.chmod(0o755)


def test_an_older_store_that_cannot_be_written_says_where_to_open_it(filled, monkeypatch):
    change(
        filled,
        "CREATE TABLE settings AS SELECT * FROM hippo_settings",
        "UPDATE settings SET value = '1' WHERE name = 'schema'",
        "DROP TABLE hippo_settings",
    )
    monkeypatch.setattr("hippo_core.store.is_read_only", lambda _path: True)
    with pytest.raises(SchemaVersionError, match="version 1, and can only be read"):
        Store(filled)


def test_a_read_only_store_follows_a_file_that_is_replaced(filled, tmp_path, monkeypatch):
    shutil.copytree(filled, tmp_path / "other")
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "other") as other:
        other.delete(["p0"])
    monkeypatch.setattr("hippo_core.store.is_read_only", lambda _path: True)
    with HippoRAG(None, HashEmbedder(), store=filled) as memory:
        assert len(memory) == 40
        (tmp_path / "other" / DATABASE).replace(filled / DATABASE)
        assert len(memory) == 39


# -- damage ----------------------------------------------------------------------------------------


def test_a_folder_of_snapshots_alone_is_a_lost_database(tmp_path):
    (tmp_path / "m" / "snapshots").mkdir(parents=True)
    for create in (True, False):
        with pytest.raises(StoreCorruptError, match=r"hippo\.sqlite: the database is missing"):
            Store(tmp_path / "m", create=create)
    assert [p.name for p in (tmp_path / "m").iterdir()] == ["snapshots"]


def test_snapshots_beside_the_database_are_ours(filled):
    (filled / "snapshots").mkdir()
    intact(filled)


@pytest.mark.parametrize("seed", range(12))
def test_no_garbage_anywhere_raises_anything_but_a_typed_error(seed, filled):
    random = np.random.default_rng(seed)
    data = bytearray((filled / DATABASE).read_bytes())
    for _ in range(4):
        at = int(random.integers(0 if seed % 3 == 0 else 4096, len(data) - 3000))
        data[at : at + 3000] = random.bytes(3000)
    (filled / DATABASE).write_bytes(data)
    try:
        with HippoRAG(None, HashEmbedder(), store=filled) as memory:
            memory.retrieve("Ada")
            memory.add_extracted(items(3, "q"))
            memory.delete(["p0"])
    except StoreError as error:
        said = str(error)
    else:
        said = str(filled)  # what was hit is not used
    assert str(filled) in said


def test_closing_a_damaged_store_warns_and_raises_nothing(filled, caplog):
    store = Store(filled)
    with store.write() as writer:
        writer.save_curation("n", "{}")
    (filled / DATABASE).write_bytes(b"garbage" * 3000)
    with caplog.at_level(logging.WARNING, "hippo_core.store"):
        store._engine.dispose()
        store.close()
        store.close()
    assert "closed without folding the log in" in caplog.text


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE hippo_passages SET metadata = '{' WHERE id = 'p7'", "passage 'p7'"),
        ("UPDATE hippo_passages SET metadata = '[]' WHERE id = 'p7'", "passage 'p7'"),
        ("UPDATE hippo_passages SET text = x'ff00' WHERE id = 'p7'", "passage 'p7'"),
        ("UPDATE hippo_extractions SET triples = '[[1,2,3]]'", "passage 'p"),
        ("UPDATE hippo_extractions SET triples = '[null]'", "passage 'p"),
        ("UPDATE hippo_extractions SET entities = '{\"a\":1}'", "passage 'p"),
        ('UPDATE hippo_extractions SET dropped = \'{"a":"b"}\'', "passage 'p"),
        ("UPDATE hippo_extractions SET status = 'odd'", "passage 'p"),
        (f"UPDATE hippo_extractions SET triples = '{'[' * 100_000}'", "passage 'p"),
        ("UPDATE hippo_vectors SET vector = x'000000' WHERE kind = 'phrase'", "phrase vector of"),
        ("UPDATE hippo_vectors SET vector = x'00000000' WHERE kind = 'phrase'", "phrase vector of"),
        ("UPDATE hippo_vectors SET vector = x'' WHERE kind = 'triple'", "triple vector of"),
        ("UPDATE hippo_vectors SET vector = 'text' WHERE kind = 'triple'", "triple vector of"),
        ("UPDATE hippo_vectors SET vector = 7 WHERE kind = 'triple'", "triple vector of"),
        ("UPDATE hippo_embedders SET probe = x'0000'", "probe vector"),
        ("UPDATE hippo_embedders SET dimension = 3", "probe vector"),
        ("UPDATE hippo_embedders SET dimension = 'x'", "probe vector"),
    ],
)
def test_a_row_that_no_store_writes_is_an_error_that_names_it(statement, named, filled):
    change(filled, statement)
    with pytest.raises(StoreCorruptError, match="cannot be read") as caught:
        with HippoRAG(None, HashEmbedder(), store=filled) as memory:
            memory.retrieve("Ada")
    assert named in str(caught.value)
    assert str(filled) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_text_that_is_no_unicode_is_an_error(filled):
    change(filled, "UPDATE hippo_passages SET text = CAST(x'ff' AS TEXT) WHERE id = 'p7'")
    with (
        HippoRAG(None, HashEmbedder(), store=filled) as memory,
        pytest.raises(StoreCorruptError, match="Could not decode"),
    ):
        memory.retrieve("Ada")


def test_vectors_of_an_unrecorded_embedder_are_checked_too():
    with closing(Store(None)) as store:
        with store.write() as writer:
            writer.save_vectors("n", "phrase", {"a": np.ones(2, dtype=np.float32)})
            writer.save_vectors("n", "phrase", {"b": np.ones(3, dtype=np.float32)})
        with pytest.raises(StoreCorruptError, match="phrase vector of"), store.read() as reader:
            reader.vectors("n", "phrase", ["a", "b"])


# -- files of strangers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON hippo_passages BEGIN DELETE FROM hippo_vectors; END",
            "trigger, 't'",
        ),
        ("CREATE VIEW v AS SELECT randomblob(10)", "view, 'v'"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "virtual table, 'f'"),
        ("CREATE TABLE mine (x)", "mine"),
        ("CREATE INDEX mine ON hippo_passages (lower(text))", "mine"),
    ],
)
def test_a_file_with_code_or_tables_of_somebody_else_is_refused(statement, what, filled):
    change(filled, statement)
    before = (filled / DATABASE).read_bytes()
    with pytest.raises(NotAStoreError, match="which no store of ours does") as caught:
        Store(filled)
    assert what in str(caught.value)
    assert (filled / DATABASE).read_bytes() == before


def test_a_view_in_the_place_of_a_table_is_not_read(filled):
    change(
        filled,
        "ALTER TABLE hippo_settings RENAME TO hidden",
        "CREATE VIEW hippo_settings AS SELECT name, value FROM hidden",
    )
    with pytest.raises(NotAStoreError, match="view, 'hippo_settings'"):
        Store(filled)


def test_a_lost_column_is_an_error(filled):
    change(filled, "ALTER TABLE hippo_passages DROP COLUMN reason")
    with (
        pytest.raises(StoreCorruptError, match="no such column"),
        HippoRAG(None, HashEmbedder(), store=filled) as memory,
    ):
        memory.retrieve("Ada")


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_connections_run_nothing_of_the_schema_and_have_limits(on_disk, tmp_path):
    with closing(Store(tmp_path / "m" if on_disk else None)) as store, store.read() as reader:
        connection = reader._connection
        driver = connection.connection.driver_connection
        for pragma, value in (("trusted_schema", 0), ("cell_size_check", 1), ("secure_delete", 1)):
            assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
        assert driver.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) < 2**30
        assert driver.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0


def test_a_text_beyond_the_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("hippo_core.engines._LARGEST", 100_000)
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as memory:
        with pytest.raises(StoreError, match="too large"):
            memory.add_extracted([(Passage("x" * 200_000), Extraction())])
        assert len(memory) == 0


def test_a_database_of_something_else_is_not_changed(tmp_path):
    (tmp_path / "m").mkdir()
    change(tmp_path / "m", "CREATE TABLE t (x)")
    before = (tmp_path / "m" / DATABASE).read_bytes()
    with pytest.raises(StoreError):
        Store(tmp_path / "m")
    assert (tmp_path / "m" / DATABASE).read_bytes() == before


def test_an_error_shows_no_text_of_the_user(filled):
    change(filled, "ALTER TABLE hippo_passages DROP COLUMN reason")
    with closing(Store(filled)) as store:
        with pytest.raises(StoreError) as caught, store.read() as reader:
            reader.passages("default", ["a secret id"])
        assert "secret" not in f"{caught.value} {caught.value.__cause__}"


def test_what_is_no_error_of_the_database_passes():
    with pytest.raises(ZeroDivisionError), converted("here"):
        _ = 1 / 0

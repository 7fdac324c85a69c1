"""A store on disk: opening, refusing, damage and faults of the disk."""

import contextlib
import shutil
import sqlite3
import time
from functools import partial

import numpy as np
import pytest

from hippo_core import (
    ClosedError,
    EmbedderMismatchError,
    Extraction,
    HippoRAG,
    InputError,
    NotAStoreError,
    Passage,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
)
from hippo_core.locations import DATABASE
from hippo_core.testing import HashEmbedder

pytestmark = pytest.mark.sqlite


def items(n, prefix="p"):
    return [
        (
            Passage(f"Ada wrote note {prefix}{i}. " * 20, id=f"{prefix}{i}"),
            Extraction(triples=[("Ada", "wrote", f"note {prefix}{i}")]),
        )
        for i in range(n)
    ]


@pytest.fixture
def folder(filled):
    """A store of 40 passages, closed."""
    return filled


def test_a_store_is_in_memory_or_a_folder(open_memory, tmp_path):
    for store in (None, tmp_path / "path", str(tmp_path / "text"), tmp_path / "deep" / "er"):
        memory = open_memory(store=store)
        memory.add_extracted(items(2))
        assert len(memory) == 2
    assert (tmp_path / "deep" / "er" / DATABASE).is_file()


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "ä b", "it's; --", ":memory:", "x" * 100])
def test_a_folder_may_have_any_name(name, open_memory, tmp_path):
    memory = open_memory(store=tmp_path / name)
    memory.add_extracted(items(1))
    memory.close()
    assert len(open_memory(store=tmp_path / name, create=False)) == 1
    assert {p.name for p in tmp_path.iterdir()} == {name}


def test_a_relative_folder_stays_where_it_was_opened(open_memory, tmp_path, monkeypatch, at_once):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    memory = open_memory(store="m")
    monkeypatch.chdir(tmp_path / "two")
    at_once(*(partial(memory.add_extracted, items(2, prefix)) for prefix in "ab"))
    memory.delete(["a0"])
    memory.close()
    assert not list((tmp_path / "two").iterdir())
    assert len(open_memory(store=tmp_path / "one" / "m")) == 3


def test_a_file_is_refused(open_memory, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotAStoreError, match="is a file"):
        open_memory(store=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_of_something_else_is_refused_and_left_alone(open_memory, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(NotAStoreError, match="other files"):
        open_memory(store=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("there", [False, True], ids=["missing", "empty"])
def test_without_create_no_store_is_begun(there, open_memory, tmp_path):
    if there:
        (tmp_path / "m").mkdir()
    with pytest.raises(NotAStoreError, match="begin a new store"):
        open_memory(store=tmp_path / "m", create=False)
    assert (tmp_path / "m").exists() == there
    assert not list(tmp_path.rglob("*.sqlite*"))


def test_a_folder_where_nothing_can_be_made_is_a_typed_error(open_memory, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        open_memory(store=tmp_path / "file" / "below")


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_database_is_an_error_that_names_it_and_the_way_out(share, folder):
    whole = (folder / DATABASE).read_bytes()
    (folder / DATABASE).write_bytes(whole[: int(len(whole) * share)])
    assert_refused(folder, StoreCorruptError, "another folder|a copy")


@pytest.mark.parametrize("content", [b"", b"not a database" * 1000, b"\0" * 8192], ids=range(3))
def test_an_emptied_or_overwritten_database_is_an_error(content, folder):
    (folder / DATABASE).write_bytes(content)
    assert_refused(folder, StoreCorruptError, DATABASE)
    assert_refused(folder, StoreCorruptError, "another folder|a copy")


def test_damaged_pages_are_an_error(folder):
    data = bytearray((folder / DATABASE).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4096 * 10] = np.random.default_rng(0).bytes(4096 * 10)
    (folder / DATABASE).write_bytes(data)
    assert_refused(folder, StoreCorruptError, DATABASE)


def assert_refused(folder, error, words):
    """Opening or the first look fails; never does an empty index appear."""
    with pytest.raises(error, match=words) as caught:
        look(folder)
    assert str(folder) in str(caught.value)


def look(folder):
    memory = HippoRAG(None, HashEmbedder(), store=folder)
    try:
        memory.retrieve("Ada")
    finally:
        with contextlib.suppress(StoreCorruptError):
            memory.close()
        with pytest.raises(ClosedError):
            len(memory)


def test_a_missing_database_beside_its_log_is_an_error(folder):
    """A new database would take in the pages of the old one's log."""
    shutil.copy(folder / DATABASE, folder / f"{DATABASE}-wal")
    (folder / DATABASE).unlink()
    assert_refused(folder, StoreCorruptError, "missing")


def test_a_database_of_something_else_is_refused(tmp_path):
    (tmp_path / "m").mkdir()
    connection = sqlite3.connect(tmp_path / "m" / DATABASE)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    assert_refused(tmp_path / "m", StoreError, "none of our tables")
    connection = sqlite3.connect(tmp_path / "m" / DATABASE)
    connection.execute("CREATE TABLE settings (name TEXT, value TEXT)")
    connection.commit()
    connection.close()
    assert_refused(tmp_path / "m", NotAStoreError, "not a hippo-core store")


@pytest.mark.parametrize(("version", "way_out"), [(99, "upgrade"), (0, "that wrote it")])
def test_another_schema_version_is_refused_with_both_numbers(version, way_out, folder):
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("UPDATE hippo_settings SET value = ? WHERE name = 'schema'", [str(version)])
    connection.commit()
    connection.close()
    assert_refused(folder, SchemaVersionError, f"version {version}.* version 4.*{way_out}")


def test_lost_vectors_are_an_error_and_not_a_smaller_index(folder):
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("DELETE FROM hippo_vectors WHERE kind = 'triple'")
    connection.commit()
    connection.close()
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        for look in (lambda: memory.retrieve("Ada"), lambda: len(memory), memory.stats):
            with pytest.raises(StoreCorruptError, match="triple vectors are missing"):
                look()


def test_closing_leaves_one_file(folder):
    assert [p.name for p in folder.iterdir()] == [DATABASE]


def test_a_refused_embedder_leaves_no_open_store(folder):
    with pytest.raises(EmbedderMismatchError):
        HippoRAG(None, HashEmbedder(name="other"), store=folder)
    assert [p.name for p in folder.iterdir()] == [DATABASE]


def test_a_reader_of_an_old_state_holds_nobody_up_and_then_nothing_stays(open_memory, tmp_path):
    memory = open_memory(store=tmp_path / "m")
    memory.add_extracted([*items(5), (Passage("Zyxtext", id="z"), Extraction())])
    reader = sqlite3.connect(tmp_path / "m" / DATABASE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM hippo_passages").fetchone()
    started = time.perf_counter()
    memory.delete(["z"])
    assert len(memory) == 5
    assert time.perf_counter() - started < 10
    reader.execute("COMMIT")
    reader.close()
    memory.delete(["p0"])
    assert not any(b"Zyxtext" in path.read_bytes() for path in (tmp_path / "m").iterdir())


def test_a_write_lock_that_is_held_for_too_long_is_an_error_that_says_try_again(
    open_memory, folder, monkeypatch
):
    monkeypatch.setattr("hippo_core.engines.LOCK_TIMEOUT", 50)
    memory = open_memory(store=folder)
    other = sqlite3.connect(folder / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLockedError, match="try again"):
        memory.delete(["p0"])
    assert len(memory) == 40  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    assert memory.delete(["p0"]).deleted == ("p0",)


def test_a_home_folder_is_found(tmp_path, monkeypatch, open_memory):
    monkeypatch.setenv("HOME", str(tmp_path))
    open_memory(store="~/memory")
    assert (tmp_path / "memory" / DATABASE).is_file()


# -- saving ----------------------------------------------------------------------------------------


def one(id_):
    return Passage(f"Text {id_}.", id=id_), Extraction(triples=[(f"A {id_}", "is", "b")])


def test_saving_again_replaces_the_copy_and_who_has_it_open_sees_that(open_memory, tmp_path):
    memory, folder = open_memory(), tmp_path / "copy"
    memory.add_extracted([one("first"), one("second")])
    memory.save(folder)
    copy = open_memory(store=folder)
    assert [p.id for p in copy] == ["first", "second"]
    copy.add_extracted([one("of the copy")])
    memory.delete(["first"])
    memory.add_extracted([one("third")])
    memory.save(folder)
    assert [p.id for p in copy] == ["second", "third"]
    assert copy.retrieve("Text third.").passages[0].passage.id == "third"
    assert copy.verify().ok
    copy.close()
    held = b"".join(f.read_bytes() for f in folder.rglob("*") if f.is_file())
    assert b"Text third" in held
    assert b"Text first" not in held


def test_a_memory_is_not_saved_over_another_one(open_memory, tmp_path):
    mine, other = open_memory(), open_memory(store=tmp_path / "other")
    other.add_extracted([one("theirs")])
    with pytest.raises(NotAStoreError, match="another store"):
        mine.save(tmp_path / "other")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        mine.save(tmp_path / "foreign")
    assert [p.id for p in other] == ["theirs"]

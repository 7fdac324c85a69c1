"""Copies: a backup is one whole state; a namespace moves from store to store."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from hippo_core import Extraction, HippoRAG, InputError, NotAStoreError, Passage, StoreError
from hippo_core.copying import copy_store
from hippo_core.engines import LOCK_TIMEOUT
from hippo_core.locations import DATABASE
from hippo_core.records import StoredPassage, text_key
from hippo_core.store import Store
from hippo_core.testing import HashEmbedder

ONE = np.array([1, 0], dtype=np.float32)
OTHER = np.array([0, 0, 1], dtype=np.float32)
READ = Extraction(("Ada",), [("Ada", "wrote", "notes")])


def fill(store, namespace="n", ids=("a", "b"), prefix="Text"):
    with store.write() as writer:
        if writer.embedder(namespace) is None:
            writer.save_embedder(namespace, "first", ONE)
        passages = [Passage(f"{prefix} {i}.", id=i) for i in ids]
        texts = [p.full_text for p in passages]
        writer.commit_extractions(namespace, "reader", {text_key(t): READ for t in texts})
        writer.save_vectors(namespace, "passage", dict.fromkeys(texts, ONE))
        writer.put_passages(namespace, [StoredPassage(p, READ) for p in passages])


def content(store, namespace="n"):
    """All that a namespace holds, but for what belongs to its history."""
    with store.read() as reader:
        current, pending = reader.embedder(namespace), reader.pending_embedders(namespace)
        keys = {
            (e.name, kind): reader.vector_keys(namespace, kind, e.generation)
            for e in ([current] if current else []) + pending
            for kind in ("passage", "phrase", "triple")
        }
        return (
            sorted(((s.passage, s.extraction) for s in reader.passages(namespace)), key=repr),
            reader.extractors(namespace, list(reader.extraction_keys(namespace))),
            reader.extractions(namespace, list(reader.pending_keys(namespace))),
            current and (current.name, current.probe.tolist()),
            [(e.name, e.probe.tolist()) for e in pending],
            keys,
            reader.curation(namespace),
        )


@contextmanager
def stores(*locations):
    opened = [Store(location) for location in locations]
    try:
        yield opened
    finally:
        for store in opened:
            store.close()


# -- backup ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_backup_holds_all_and_opens_as_a_store(on_disk, store_location, tmp_path):
    with HippoRAG(None, HashEmbedder(), store=store_location if on_disk else None) as memory:
        memory.add_extracted([(Passage("Ada wrote notes.", id="a"), READ)])
        with memory._store.write() as writer:
            writer.save_extraction("default", "p" * 64, "reader", READ)
            writer.save_curation("default", "{}")
        memory._store.backup(tmp_path / "deep" / "copy")
        memory.delete(["a"])
        with HippoRAG(None, HashEmbedder(), store=tmp_path / "deep" / "copy") as copy:
            assert [p.id for p in copy] == ["a"]
            assert copy.retrieve("Ada").path.used_graph
            with copy._store.read() as reader:
                assert reader.pending_keys("default") == {"p" * 64}
                assert reader.curation("default") == "{}"
            copy.add_extracted([(Passage("New.", id="b"), READ)])
    assert [p.name for p in (tmp_path / "deep" / "copy").iterdir()] == [DATABASE]


@pytest.mark.sqlite
def test_a_backup_of_a_file_goes_on_with_its_history(tmp_path):
    with stores(tmp_path / "m") as (store,):
        fill(store)
        store.backup(tmp_path / "copy")
        with stores(tmp_path / "copy") as (copy,):
            assert copy.id == store.id
            with store.read() as here, copy.read() as there:
                assert there.commit("n") == here.commit("n")


@pytest.mark.parametrize("what", ["a file", "something"])
def test_a_backup_takes_a_new_or_empty_folder(what, tmp_path):
    with stores(None) as (store,):
        if what == "a file":
            (tmp_path / "copy").write_text("mine")
        else:
            (tmp_path / "copy").mkdir()
            (tmp_path / "copy" / "mine").write_text("mine")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(InputError, match="not empty"):
            store.backup(tmp_path / "copy")
        assert sorted(tmp_path.rglob("*")) == before
        (tmp_path / "empty").mkdir()
        store.backup(tmp_path / "empty")
        with pytest.raises(InputError, match="folder"):
            store.backup("postgresql://h/db")


def test_a_backup_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(_driver, path):
        path.write_bytes(b"half")
        raise StoreError("the disk is full")

    monkeypatch.setattr("hippo_core.store.copy_database", fail)
    with stores(None) as (store,):
        for folder in (tmp_path / "new", tmp_path / "there"):
            (tmp_path / "there").mkdir(exist_ok=True)
            with pytest.raises(StoreError, match="full"):
                store.backup(folder)
        assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


BACKED_UP = """
import os, sys
from pathlib import Path
import hippo_core.store
from hippo_core.store import Store

def die(driver, path):
    path.write_bytes(Path(sys.argv[1], "hippo.sqlite").read_bytes())
    os._exit(9)

hippo_core.store.copy_database = die
Store(sys.argv[1]).backup(sys.argv[2])
"""


@pytest.mark.sqlite
def test_a_backup_that_is_killed_does_not_open(tmp_path):
    Store(tmp_path / "m").close()
    command = [sys.executable, "-c", BACKED_UP, str(tmp_path / "m"), str(tmp_path / "copy")]
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    assert subprocess.run(command, env=env, timeout=60, check=False).returncode == 9
    for create in (True, False):
        with pytest.raises(NotAStoreError, match="never finished"):
            Store(tmp_path / "copy", create=create)
    with Store(tmp_path / "m").read() as reader:
        there = reader.namespaces()
    Store(tmp_path / "m").backup(tmp_path / "copy")  # makes it again, in the same folder
    with Store(tmp_path / "copy", create=False).read() as reader:
        assert reader.namespaces() == there


WRITING = """
import sys
from hippo_core.store import Store

store = Store(sys.argv[1])
print("begun", flush=True)
while True:
    with store.write() as writer:
        n = writer.version("n") + 1
        writer.save_curation("n", str(n))
        writer.save_curation("m", str(n))
"""


@pytest.mark.sqlite
@pytest.mark.parametrize("elsewhere", [False, True], ids=["thread", "process"])
def test_a_backup_is_one_state_and_ends_while_a_writer_writes(elsewhere, tmp_path, monkeypatch):
    monkeypatch.setattr("hippo_core.copying._PAGES_AT_ONCE", 5)
    with stores(tmp_path / "m") as (store,):
        fill(store, "big", [str(i) for i in range(300)], "Long text " * 50)
        stop = threading.Event()

        def write():
            while not stop.is_set():
                with store.write() as writer:
                    n = writer.version("n") + 1
                    writer.save_curation("n", str(n))
                    writer.save_curation("m", str(n))

        if elsewhere:
            env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITING, str(tmp_path / "m")],
                env=env, stdout=subprocess.PIPE,
            )  # fmt: skip
            writer.stdout.readline()
        else:
            writer = threading.Thread(target=write)
            writer.start()
        try:
            time.sleep(0.1)
            started = time.monotonic()
            for n in range(3):
                store.backup(tmp_path / f"copy{n}")
            assert time.monotonic() - started < 60
        finally:
            stop.set()
            if elsewhere:
                writer.kill()
                writer.communicate()
            else:
                writer.join()
        for n in range(3):
            with closing(sqlite3.connect(tmp_path / f"copy{n}" / DATABASE)) as copy:
                assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            with stores(tmp_path / f"copy{n}") as (copy,), copy.read() as reader:
                assert reader.curation("n") == reader.curation("m") == str(reader.version("n"))
                assert len(reader.passages("big")) == 300


# -- namespaces ------------------------------------------------------------------------------------


def rich(store):
    """A namespace with something in each table."""
    fill(store)
    with store.write() as writer:
        writer.delete_passages("n", ["b"])
        pending = writer.new_embedder("n", "second", OTHER)
        writer.save_vectors("n", "passage", {"Text a.": OTHER}, pending)
        writer.save_vectors("n", "phrase", {"ada": ONE})
        writer.save_extraction("n", "p" * 64, "other", READ)
        writer.save_entities("n", "e" * 64, "other", ["Eve"])
        writer.save_curation("n", '{"aliases":[]}')


@pytest.mark.parametrize("to_disk", [False, True], ids=["to memory", "to disk"])
@pytest.mark.parametrize("from_disk", [False, True], ids=["from memory", "from disk"])
def test_a_copied_namespace_is_the_same(from_disk, to_disk, new_location, monkeypatch):
    monkeypatch.setattr("hippo_core.copying._ROWS_AT_ONCE", 2)
    places = [new_location() if disk else None for disk in (from_disk, to_disk)]
    with stores(*places) as (source, target):
        rich(source)
        fill(source, "many", [str(i) for i in range(7)])
        fill(target, "own")
        own, before = content(target, "own"), content(source)
        assert copy_store(source, target) == ["many", "n"]
        assert content(source) == before == content(target)
        assert content(target, "many") == content(source, "many")
        assert content(target, "own") == own
        with target.read() as reader:
            assert reader.version("n") == 1
            assert reader.changed_since("n", 0) == (["a"], set())
            assert reader.has_commit("n", *reader.commit("n"))


def test_only_the_namespaces_asked_for_are_copied():
    with stores(None, None) as (source, target):
        for namespace in ("a", "b", "c"):
            fill(source, namespace)
        assert copy_store(source, target, ["c", "a"]) == ["a", "c"]
        with target.read() as reader:
            assert reader.namespaces() == ["a", "c"]


def test_what_cannot_be_copied_is_named_before_anything_is_written():
    with stores(None, None) as (source, target):
        fill(source, "a")
        fill(source, "full")
        fill(target, "full", ["mine"])
        with pytest.raises(InputError, match="'full' of the target holds passages"):
            copy_store(source, target)
        with pytest.raises(InputError, match="no namespace 'z'"):
            copy_store(source, target, ["a", "z"])
        with pytest.raises(InputError, match="into itself"):
            copy_store(source, source)
        with target.read() as reader:
            assert reader.namespaces() == ["full"]
            assert reader.version("a") == 0


def test_a_namespace_that_was_emptied_takes_a_copy_and_its_handles_see_it():
    with stores(None, None) as (source, target):
        rich(source)
        fill(target, ids=["old", "a"])
        with target.write() as writer:
            writer.delete_passages("n", ["old", "a"])
            version, generation = writer.version("n"), writer.generation("n")
        copy_store(source, target)
        with target.read() as reader:
            assert reader.version("n") == version + 1
            assert reader.changed_since("n", version) == (["a"], set())
            assert reader.changed_since("n", 0) == (["a"], {text_key("old")})
            assert reader.generation("n") > generation
            later = {e.generation for e in reader.pending_embedders("n")}
        assert content(target) == content(source)
        with target.write() as writer:
            assert writer.new_embedder("n", "next", ONE) not in {generation, *later}


def test_an_open_memory_sees_what_was_copied_beside_it(store_location):
    with (
        HippoRAG(None, HashEmbedder(), store=store_location) as memory,
        HippoRAG(None, HashEmbedder()) as other,
    ):
        assert len(memory) == 0
        other.add_extracted([(Passage("Ada wrote notes.", id="a"), READ)])
        copy_store(other._store, memory._store)
        assert [hit.passage.id for hit in memory.retrieve("Ada")] == ["a"]


def test_copies_in_opposite_directions_do_not_wait_for_each_other(at_once):
    with stores(None, None) as (one, two):
        for n in range(8):
            fill(one, f"one {n}")
            fill(two, f"two {n}")

        def copy(source, target, name):
            for n in range(8):
                copy_store(source, target, [f"{name} {n}"])

        at_once(lambda: copy(one, two, "one"), lambda: copy(two, one, "two"), timeout=30)
        with one.read() as reader:
            here = reader.namespaces()
        with two.read() as reader:
            assert reader.namespaces() == here
        assert len(here) == 16


# -- purging ---------------------------------------------------------------------------------------


@pytest.mark.sqlite
def test_purging_is_refused_while_a_reader_holds_an_old_state(tmp_path, monkeypatch):
    monkeypatch.setattr("hippo_core.store._PURGE_TIMEOUT", 100)
    with stores(tmp_path / "m") as (store,):
        fill(store, ids=["Zyxid"])
        store.purge()
        reader = sqlite3.connect(tmp_path / "m" / DATABASE, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM hippo_passages").fetchone()
        with store.write() as writer:
            writer.delete_namespace("n")
        with pytest.raises(StoreError, match="reader still holds an old state"):
            store.purge()
        assert traces(tmp_path)
        store.truncate_log()  # lenient
        reader.execute("COMMIT")
        reader.close()
        store.purge()
        assert not traces(tmp_path)
        with store.write() as writer:  # the wait for other writers is as before
            waits = writer._connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
        assert waits == LOCK_TIMEOUT


def traces(folder):
    return [
        path for path in Path(folder).rglob("*") if path.is_file() and b"Zyxid" in path.read_bytes()
    ]


def test_purging_in_memory_is_nothing():
    with stores(None) as (store,):
        store.purge()

"""What happens to a folder behind a memory's back: links, pipes, moves, clocks, churn."""

import os
import random
import re
import shutil
import signal
import sqlite3
import threading
import time

import pytest
import sqlalchemy as sa

from hippo_core import Extraction, HippoRAG, NotAStoreError, Passage, StoreError, index, tables
from hippo_core.forks import gate
from hippo_core.testing import HashEmbedder

pytestmark = pytest.mark.sqlite


def one(id_):
    return Passage(f"Text of {id_}.", id=id_), Extraction(triples=[(f"A {id_}", "is", "b")])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A closed memory of five passages, with derived files."""
    monkeypatch.setattr(index, "WORTH_KEEPING", 1)
    with HippoRAG(None, HashEmbedder(16), store=tmp_path / "m") as memory:
        memory.add_extracted([one(f"p{i}") for i in range(5)])
    assert files_in(tmp_path / "m")
    return tmp_path / "m"


def files_in(folder):
    """The folder of the derived files."""
    (namespace,) = (folder / "snapshots").iterdir()
    return next(namespace.iterdir())


def opened(folder):
    return HippoRAG(None, HashEmbedder(16), store=folder)


@pytest.mark.parametrize("level", ["snapshots", "namespace", "corpus"])
def test_a_link_in_a_foreign_store_leads_nowhere(level, folder, tmp_path):
    mine = tmp_path / "photos"
    (mine / "000000000001-0123abcd").mkdir(parents=True)
    (mine / "000000000001-0123abcd" / "a.jpg").write_text("mine")
    corpus = files_in(folder)
    link = {"snapshots": folder / "snapshots", "namespace": corpus.parent, "corpus": corpus}[level]
    shutil.rmtree(link)
    link.symlink_to(mine, target_is_directory=True)
    with opened(folder) as memory:
        assert len(memory.retrieve("p1")) == 5
        memory.delete(["p1"])
        memory.rebuild()
        memory.purge()
    assert [f.name for f in mine.rglob("*") if f.is_file()] == ["a.jpg"]


@pytest.mark.parametrize("name", ["manifest.json", "passages.npy", "phrase_vectors.npy"])
def test_a_pipe_among_the_files_keeps_nobody_waiting(name, folder):
    (files_in(folder) / name).unlink()
    os.mkfifo(files_in(folder) / name)
    with opened(folder) as memory:
        assert len(memory.retrieve("p1")) == 5
        assert not memory.verify().ok


def test_a_pipe_in_the_place_of_the_database_is_no_store(folder):
    (folder / "hippo.sqlite").unlink()
    os.mkfifo(folder / "hippo.sqlite")
    with pytest.raises(NotAStoreError, match="no file"):
        opened(folder)


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_database_that_is_not_there_any_more_takes_nothing(how, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    memory = opened(folder)
    memory.add_extracted([one("before")])
    if how == "deleted":
        shutil.rmtree(folder)
    elif how == "moved":
        folder.rename(tmp_path / "elsewhere")
    else:
        os.replace(tmp_path / "other" / "hippo.sqlite", folder / "hippo.sqlite")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        memory.add_extracted([one("after")])
    with pytest.raises(StoreError, match="open it"):
        memory.retrieve("p1")
    memory.close()
    if how == "moved":
        with opened(tmp_path / "elsewhere") as moved:
            assert "before" in moved
            assert moved.verify().ok


@pytest.mark.parametrize("seed", [20, 60])  # where pages kept some before they were rewritten
def test_after_churn_and_purge_no_page_holds_deleted_text(seed, tmp_path):
    chance, number, live, gone = random.Random(seed), 0, set(), set()
    with HippoRAG(None, HashEmbedder(64), store=tmp_path / "m") as memory:
        for _ in range(30):
            items = []
            for _ in range(chance.randrange(1, 16)):
                number += 1
                mark = f"zq{number:06d}zq"
                words = " ".join(
                    f"w{chance.randrange(10**5)}" for _ in range(chance.randrange(200))
                )
                triples = [
                    (mark, f"rel {j}", f"{j} of {mark}") for j in range(chance.randrange(12))
                ]
                extraction = Extraction(entities=(mark,), triples=triples)
                items.append((Passage(f"{mark} {words}", id=mark), extraction))
                live.add(mark)
            memory.add_extracted(items)
            out = chance.sample(sorted(live), int(len(live) * chance.uniform(0, 0.8)))
            memory.delete(out)
            live -= set(out)
            gone |= set(out)
        memory.purge()
        assert memory.verify().ok
        held = b"".join(f.read_bytes() for f in (tmp_path / "m").rglob("*") if f.is_file())
    found = {mark.decode() for mark in re.findall(rb"zq\d{6}zq", held)}
    assert found == live


def test_a_draft_of_tomorrow_is_deleted_too(folder):
    draft = files_in(folder).parent / f"draft-{'0' * 32}"
    draft.mkdir()
    (draft / "passages.npy").write_bytes(b"deleted long ago")
    os.utime(draft, (time.time() + 7200,) * 2)
    with opened(folder) as memory:
        memory.delete(["p1"])
        memory.purge()
        assert not draft.exists()


CHANGES = {
    "extraction": "DELETE FROM hippo_extractions",
    "key of the text": "UPDATE hippo_passages SET text_key = 'x' WHERE id = 'p1'",
    "commits": "DELETE FROM hippo_commits",
    "version": "UPDATE hippo_namespaces SET version = 0",
    "log": "UPDATE hippo_changes SET version = version + 9 WHERE passage_id = 'p1'",
    "key of the id": "UPDATE hippo_changes SET id_key = 'x' WHERE passage_id = 'p1'",
    "embedder": "DELETE FROM hippo_embedders",
    "generations": "UPDATE hippo_namespaces SET generations = 0",
    "index": "DROP INDEX hippo_passages_by_source",
    "aliases": "UPDATE hippo_namespaces SET curation = "
    """'{"aliases":[["a","b"]],"never_link":[["a","b"]]}'""",
}


@pytest.mark.parametrize("what", CHANGES)
def test_verify_sees_rows_that_contradict_each_other(what, folder):
    with opened(folder) as memory:
        assert memory.verify().ok
    driver = sqlite3.connect(folder / "hippo.sqlite")
    driver.execute(CHANGES[what])
    driver.commit()
    driver.close()
    with opened(folder) as memory:
        assert not memory.verify().ok


def test_an_interrupt_at_the_gate_leaves_it_open():
    def interrupt(*_args):
        raise KeyboardInterrupt

    def pass_until_then(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            with gate.passed():
                pass

    before = signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(0)
    try:
        for _ in range(300):
            with pytest.raises(KeyboardInterrupt):
                pass_until_then(chance.uniform(1e-5, 1e-3))
    finally:
        signal.signal(signal.SIGALRM, before)
    passed = threading.Event()

    def other():
        with gate.passed():
            passed.set()

    threading.Thread(target=other, daemon=True).start()
    assert passed.wait(5)


def test_the_indexes_of_the_tables_are_those_that_verify_looks_for(folder):
    engine = sa.create_engine(f"sqlite:///{folder / 'hippo.sqlite'}")
    there = {i["name"] for t in tables.metadata.tables for i in sa.inspect(engine).get_indexes(t)}
    engine.dispose()
    assert there == {i.name for t in tables.metadata.sorted_tables for i in t.indexes}

"""What is on disk: opening, refusing, sharing between handles and processes."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hippo_core import (
    ClosedError,
    EmbedderMismatchError,
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    NotAStoreError,
    Passage,
    RetrievalPath,
    SchemaVersionError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
)
from hippo_core.locations import DATABASE
from hippo_core.store import Store
from hippo_core.testing import HashEmbedder

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def items(n, prefix="p"):
    return [
        (
            Passage(f"Ada wrote note {prefix}{i}. " * 20, id=f"{prefix}{i}"),
            Extraction(triples=[("Ada", "wrote", f"note {prefix}{i}")]),
        )
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def closed_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed") / "m"
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        memory.add_extracted(items(40))
    return folder


@pytest.fixture
def folder(closed_store, tmp_path):
    """A store of 40 passages, closed."""
    return Path(shutil.copytree(closed_store, tmp_path / "m"))


# -- where a store is ------------------------------------------------------------------------------


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


def test_two_stores_in_memory_share_nothing(open_memory):
    one, two = open_memory(), open_memory()
    one.add_extracted(items(2))
    assert (len(one), len(two)) == (2, 0)


@pytest.mark.parametrize(
    "location",
    [
        "mysql://host/db",
        "postgresql+asyncpg://host/db",
        "sqlite:///x.db",
        "https://x.y",
        "",
        "  ",
        5,
        b"bytes",
    ],
)
def test_what_is_no_folder_is_refused(location, open_memory):
    with pytest.raises(InputError, match="folder"):
        open_memory(store=location)


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
    with pytest.raises(NotAStoreError, match="create=True"):
        open_memory(store=tmp_path / "m", create=False)
    assert (tmp_path / "m").exists() == there
    assert not list(tmp_path.rglob("*.sqlite*"))


def test_a_folder_where_nothing_can_be_made_is_a_typed_error(open_memory, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        open_memory(store=tmp_path / "file" / "below")


def test_a_store_has_an_id_of_its_own(tmp_path):
    stores = [Store(None), Store(None), Store(tmp_path / "m"), Store(tmp_path / "m")]
    ids = [store.id for store in stores]
    for store in stores:
        store.close()
    assert len(set(ids)) == 3
    assert ids[2] == ids[3]


# -- damage ----------------------------------------------------------------------------------------


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
    assert_refused(folder, SchemaVersionError, f"version {version}.* version 2.*{way_out}")


def test_lost_vectors_are_an_error_and_not_a_smaller_index(folder):
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("DELETE FROM hippo_vectors WHERE kind = 'triple'")
    connection.commit()
    connection.close()
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        for look in (lambda: memory.retrieve("Ada"), lambda: len(memory), memory.stats):
            with pytest.raises(StoreCorruptError, match="triple vectors are missing"):
                look()


def test_another_rendering_of_triples_is_an_error_that_says_so(folder):
    with (
        HippoRAG(
            None, HashEmbedder(), store=folder, config=HippoConfig(triple_rendering="words")
        ) as memory,
        pytest.raises(StoreCorruptError, match="triple_rendering: open it with that"),
    ):
        memory.retrieve("Ada")
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        assert len(memory) == 40


# -- closing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_closed_handle_says_so(on_disk, tmp_path):
    memory = HippoRAG(None, HashEmbedder(), store=tmp_path / "m" if on_disk else None)
    memory.add_extracted(items(2))
    memory.close()
    memory.close()
    for use in (
        lambda: memory.retrieve("Ada"),
        lambda: memory.add_extracted(items(1)),
        lambda: memory.delete(["p0"]),
        lambda: memory.get(["p0"]),
        lambda: len(memory),
        lambda: list(memory),
        lambda: "p0" in memory,
        memory.stats,
        lambda: memory.retrieve_many(["Ada"]),
    ):
        with pytest.raises(ClosedError, match="open it again"):
            use()
    assert "HippoRAG" in repr(memory)


def test_leaving_the_block_closes_also_after_an_error():
    with pytest.raises(ZeroDivisionError), HippoRAG(None, HashEmbedder()) as memory:
        _ = 1 / 0
    with pytest.raises(ClosedError):
        len(memory)


def test_closing_leaves_one_file(folder):
    assert [p.name for p in folder.iterdir()] == [DATABASE]


# -- the embedder ----------------------------------------------------------------------------------


def test_an_embedder_of_another_name_is_refused_at_open(folder):
    with pytest.raises(EmbedderMismatchError, match=r"'hash' \(64 dimensions\).*'other'"):
        HippoRAG(None, HashEmbedder(name="other"), store=folder)


def test_an_embedder_of_another_dimension_is_refused_at_its_first_use(open_memory, folder):
    memory = open_memory(embedder=HashEmbedder(32), store=folder)
    for use in (lambda: memory.retrieve("Ada"), lambda: memory.add_extracted(items(1, "new"))):
        with pytest.raises(EmbedderMismatchError, match=r"64 dimensions.*32 dimensions"):
            use()
    assert len(memory) == 40


class Turned(HashEmbedder):
    """Another model of the same name and dimension."""

    def embed(self, texts, kind):
        return super().embed(texts, kind)[:, ::-1]


def test_another_model_of_the_same_name_is_refused_at_its_first_use(open_memory, folder):
    memory = open_memory(embedder=Turned(), store=folder)
    for use in (lambda: memory.retrieve("Ada"), lambda: memory.add_extracted(items(1, "new"))):
        with pytest.raises(EmbedderMismatchError, match="encodes the same sentence differently"):
            use()
    assert len(open_memory(store=folder).retrieve("Ada")) == 5


def test_a_model_that_differs_by_rounding_is_the_same(open_memory, folder):
    class Rounded(HashEmbedder):
        def embed(self, texts, kind):
            return super().embed(texts, kind).astype(np.float16) * np.float16(3)

    assert open_memory(embedder=Rounded(), store=folder).retrieve("Ada").path.used_graph


def test_a_refused_embedder_leaves_no_open_store(folder):
    with pytest.raises(EmbedderMismatchError):
        HippoRAG(None, HashEmbedder(name="other"), store=folder)
    assert [p.name for p in folder.iterdir()] == [DATABASE]


def test_an_embedder_without_a_name_goes_by_its_class(open_memory, tmp_path):
    class Nameless:
        def embed(self, texts, kind):
            return [[1.0, 2.0]] * len(texts)

        async def aembed(self, texts, kind):
            return self.embed(texts, kind)

    open_memory(embedder=Nameless(), store=tmp_path / "m").add_extracted(items(1))
    with pytest.raises(EmbedderMismatchError, match="Nameless"):
        open_memory(store=tmp_path / "m")


# -- namespaces ------------------------------------------------------------------------------------


def test_namespaces_of_one_store_share_nothing(open_memory, tmp_path):
    one = open_memory(store=tmp_path / "m", namespace="one")
    two = open_memory(store=tmp_path / "m", namespace="two", embedder=HashEmbedder(32, "other"))
    shared = items(3)
    one.add_extracted(shared)
    assert len(two) == 0
    assert two.retrieve("Ada").path == RetrievalPath.EMPTY
    two.add_extracted([*shared[:2], (Passage("Only two."), Extraction())])
    one.delete(["p0"])
    assert sorted(p.id for p in one) == ["p1", "p2"]
    assert len(two) == 3
    assert "p0" in two
    assert "p0" not in one
    assert two.get(["p0"]) == [shared[0][0]]
    for memory in (one, two):
        again = open_memory(
            store=tmp_path / "m",
            namespace=memory.namespace,
            embedder=HashEmbedder() if memory is one else HashEmbedder(32, "other"),
        )
        assert again.stats() == memory.stats()
        assert again.retrieve("Ada").passages == memory.retrieve("Ada").passages


@pytest.mark.parametrize("namespace", ["", None, 5])
def test_a_namespace_is_text(namespace, open_memory):
    with pytest.raises(InputError, match="namespace"):
        open_memory(namespace=namespace)


# -- several handles -------------------------------------------------------------------------------


def test_what_another_handle_does_is_seen_at_the_next_query(open_memory, folder):
    one, two = open_memory(store=folder), open_memory(store=folder)
    assert len(one) == 40
    two.add_extracted(
        [(Passage("A zebra.", id="z"), Extraction(triples=[("zebra", "is", "here")]))]
    )
    assert one.retrieve("zebra", k=1).passages[0].passage.id == "z"
    two.delete(["z"])
    assert all(hit.passage.id != "z" for hit in one.retrieve("zebra", k=99))
    two.add_extracted([(Passage("New text.", id="p0"), Extraction())])
    assert one.get(["p0"])[0].text == "New text."
    assert {p.text for p in one if p.id == "p0"} == {"New text."}
    two.delete([p.id for p in two])
    assert len(one) == 0


def test_what_another_process_adds_is_seen_at_the_next_query(open_memory, folder):
    memory = open_memory(store=folder)
    assert len(memory) == 40
    run_child(folder, "from_child")
    assert len(memory) == 41
    assert "from_child" in memory


CHILD = """
import sys, time
from hippo_core import Extraction, HippoRAG, Passage
from hippo_core.testing import HashEmbedder

folder, id_, start = sys.argv[1:]
embedder = HashEmbedder()
while time.time() < float(start):
    time.sleep(0.001)
with HippoRAG(None, embedder, store=folder) as memory:
    reading = Extraction(triples=[("Ada", "wrote", id_)])
    memory.add_extracted([(Passage(f"By child {id_}", id=id_), reading)])
    assert id_ in memory
"""


def start_child(folder, id_, start=0.0):
    command = [sys.executable, "-c", CHILD, str(folder), id_, str(start)]
    return subprocess.Popen(command, env=ENV, stderr=subprocess.PIPE, text=True)


def run_child(folder, id_):
    child = start_child(folder, id_)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0, said


def test_processes_that_create_one_store_at_once_share_it(open_memory, tmp_path):
    start = time.time() + 1.5
    children = [start_child(tmp_path / "m", f"child {n}", start) for n in range(3)]
    for child in children:
        _, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
    memory = open_memory(store=tmp_path / "m", create=False)
    assert [p.id for p in memory] == ["child 0", "child 1", "child 2"]
    assert memory.stats().triples == 3


def test_handles_that_create_one_store_at_once_share_it(tmp_path, at_once):
    barrier = threading.Barrier(6)

    def create():
        barrier.wait()
        with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as memory:
            return memory._store.id

    assert len(set(at_once(*[create] * 6))) == 1
    assert {p.name for p in (tmp_path / "m").iterdir()} == {DATABASE}


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


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_readers_see_whole_states_while_a_writer_writes(on_disk, open_memory, tmp_path, at_once):
    """A writer swaps groups of passages; no reader may see parts of two groups."""
    memory = open_memory(store=tmp_path / "m" if on_disk else None)
    memory.add_extracted(group(0))
    stop, seen = threading.Event(), set()

    def read():
        while not stop.is_set():
            found = memory.retrieve("Ada wrote", k=99)
            assert len(found) == 4
            words = {hit.passage.text.split()[-1] for hit in found}
            assert len(words) == 1
            assert {t.object.split()[-1] for hit in found for t in hit.triples} == words
            assert len(list(memory)) == memory.stats().passages == 4
            seen.update(words)

    def write():
        try:
            for turn in range(1, 12):
                memory.add_extracted(group(turn))  # the same ids with other texts
        finally:
            stop.set()

    at_once(write, *[read] * 4)
    assert len(seen) > 1


def group(turn):
    return [
        (
            Passage(f"Ada wrote {i} in turn{turn}", id=str(i)),
            Extraction(triples=[("Ada", "wrote", f"{i} in turn{turn}")]),
        )
        for i in range(4)
    ]


def test_adds_deletes_and_queries_at_once_do_not_wait_for_ever(open_memory, at_once):
    memory = open_memory()
    memory.add_extracted(items(3))

    def repeat(use):
        for turn in range(15):
            use(turn)

    uses = [
        lambda turn: memory.add_extracted(items(1, f"a{turn}")),
        lambda turn: memory.delete([f"a{turn}0"]),
        lambda turn: memory.retrieve("Ada"),
        lambda turn: memory.stats(),
        lambda turn: memory.get(["p0"]),
    ]
    at_once(*(partial(repeat, use) for use in uses))
    assert {"p0", "p1", "p2"} <= {p.id for p in memory}


def test_a_killed_process_leaves_a_store_that_opens(open_memory, tmp_path):
    code = CHILD.replace("assert id_ in memory", "import os; os._exit(9)")
    command = [sys.executable, "-c", code, str(tmp_path / "m"), "x", "0"]
    done = subprocess.run(command, env=ENV, timeout=60, check=False)
    assert done.returncode == 9
    assert Path(tmp_path / "m" / f"{DATABASE}-wal").stat().st_size > 0
    memory = open_memory(store=tmp_path / "m", create=False)
    assert [p.id for p in memory] == ["x"]
    assert memory.retrieve("Ada").path.used_graph


CRASHING = """
import os, sys
from hippo_core import HippoConfig, HippoRAG
from hippo_core.testing import HashEmbedder, ScriptedChatModel

folder, log, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])

def reply(messages):
    told = sum(1 for _ in open(log))
    if told == fatal:
        os._exit(9)
    asks_entities = '"named_entities"' in messages[0].content
    text = messages[3].content.split("```")[1].strip()
    with open(log, "a") as file:
        print(asks_entities, text, file=file)
        file.flush()
        os.fsync(file.fileno())
    if asks_entities:
        return '{"named_entities": ["Ada"]}'
    return '{"triples": [["Ada", "saw", "%s"]]}' % text

chat = ScriptedChatModel(reply)
with HippoRAG(chat, HashEmbedder(), store=folder, config=HippoConfig(concurrency=1)) as memory:
    memory.add([f"Text {i}" for i in range(5)])
    print(len(memory), memory.stats().triples)
"""


def test_a_process_killed_in_a_reply_pays_for_no_reply_twice(tmp_path):
    (tmp_path / "log").write_text("")
    for fatal in (2, 7, -1):
        command = [
            sys.executable,
            "-c",
            CRASHING,
            str(tmp_path / "m"),
            str(tmp_path / "log"),
            str(fatal),
        ]
        done = subprocess.run(
            command, env=ENV, timeout=60, check=False, capture_output=True, text=True
        )
        assert done.returncode == (9 if fatal > 0 else 0), done.stderr
    assert done.stdout.split() == ["5", "5"]
    asked = (tmp_path / "log").read_text().splitlines()
    assert len(asked) == len(set(asked)) == 10


def test_a_store_in_memory_outlives_an_interrupt_inside_a_statement():
    store = Store(None)
    with store.write() as writer:
        writer.save_embedder("default", "kept", np.ones(2, dtype=np.float32))

    with pytest.raises(KeyboardInterrupt), store.write() as writer:  # noqa: PT012
        writer.save_embedder("other", "undone", np.ones(2, dtype=np.float32))
        raise KeyboardInterrupt
    with store.read() as reader:
        assert reader.embedder("default").name == "kept"
        assert reader.embedder("other") is None
    store._engine.dispose()  # as SQLAlchemy drops a connection that was interrupted
    with store.read() as reader:
        assert reader.embedder("default").name == "kept"
    store.close()


def test_an_embedder_that_does_not_know_the_probe_is_not_recorded(open_memory):
    class Vocabulary(HashEmbedder):
        def embed(self, texts, kind):
            rows = super().embed(texts, kind)
            rows[[text.startswith("The hippocampus keeps") for text in texts]] = 0
            return rows

    memory = open_memory(embedder=Vocabulary())
    ada = Extraction(triples=[("Ada", "wrote", "notes")])
    memory.add_extracted([(Passage("Ada wrote notes.", id="ada"), ada)])
    assert [hit.passage.id for hit in memory.retrieve("Ada")] == ["ada"]
    with memory._store.read() as reader:
        assert reader.embedder("default") is None


def test_a_home_folder_is_found(tmp_path, monkeypatch, open_memory):
    monkeypatch.setenv("HOME", str(tmp_path))
    open_memory(store="~/memory")
    assert (tmp_path / "memory" / DATABASE).is_file()

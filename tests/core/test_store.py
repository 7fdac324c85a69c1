"""What a store is, wherever it is: closing, namespaces, handles and processes at once."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
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
    Passage,
    RetrievalPath,
    StoreError,
    Triple,
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


# -- where a store is ------------------------------------------------------------------------------


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


def test_a_store_has_an_id_of_its_own(store_location):
    stores = [Store(None), Store(None), Store(store_location), Store(store_location)]
    ids = [store.id for store in stores]
    for store in stores:
        store.close()
    assert len(set(ids)) == 3
    assert ids[2] == ids[3]


# -- damage ----------------------------------------------------------------------------------------


def test_a_store_keeps_the_text_under_which_its_triples_were_embedded(filled):
    tuples = HippoConfig(triple_rendering="tuple")
    with HippoRAG(None, HashEmbedder(), store=filled) as memory:
        before = memory.retrieve("Ada")
    with HippoRAG(None, (embedder := HashEmbedder()), store=filled, config=tuples) as memory:
        assert replace(memory.retrieve("Ada"), usage=before.usage) == before
        triple = Triple("Ada", "visited", "Rome")
        memory.add_extracted([(Passage("Ada visited Rome."), Extraction(triples=(triple,)))])
        embedded = [text for kind, texts in embedder.calls for text in texts if kind == "triple"]
        assert embedded == ["ada visited rome"]
        assert memory.verify().ok


def test_handles_of_other_settings_agree_on_the_text_of_triples_or_say_so(store_location):
    item = Passage("Ada met Bob.", id="a"), Extraction(triples=(Triple("Ada", "met", "Bob"),))
    other = Passage("Bob sang.", id="b"), Extraction(triples=(Triple("Bob", "sang", "songs"),))
    tuples = HippoConfig(triple_rendering="tuple")
    with (
        HippoRAG(None, HashEmbedder(), store=store_location) as words,
        HippoRAG(None, Interrupting(words, item), store=store_location, config=tuples) as late,
    ):
        with pytest.raises(StoreError, match="add again"):
            late.add_extracted([other])
        late.add_extracted([other])
        assert words.verify().ok
        assert late.verify().ok
        found = [memory.retrieve("Bob", k=2) for memory in (words, late)]
        assert replace(found[0], usage=found[1].usage) == found[1]
        # What the refused call embedded is left; it decides nothing, whichever is read first.
        stated = list(late._index.contributions(["a", "b"]).values())
        with words._index.store.read() as reader:
            for new in (stated, stated[::-1]):
                assert late._index._rendering_of(reader, new) == "words"


class Interrupting(HashEmbedder):
    """Lets another handle add while the first triple is embedded."""

    def __init__(self, other, item):
        super().__init__()
        self.other, self.item = other, item

    def embed(self, texts, kind):
        if kind == "triple" and self.item is not None:
            item, self.item = self.item, None
            self.other.add_extracted([item])
        return super().embed(texts, kind)


# -- closing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_closed_handle_says_so(on_disk, store_location):
    memory = HippoRAG(None, HashEmbedder(), store=store_location if on_disk else None)
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


# -- the embedder ----------------------------------------------------------------------------------


def test_an_embedder_of_another_name_is_refused_at_open(filled):
    with pytest.raises(EmbedderMismatchError, match=r"'hash' \(64 dimensions\).*'other'"):
        HippoRAG(None, HashEmbedder(name="other"), store=filled)


def test_an_embedder_of_another_dimension_is_refused_at_its_first_use(open_memory, filled):
    memory = open_memory(embedder=HashEmbedder(32), store=filled)
    for use in (lambda: memory.retrieve("Ada"), lambda: memory.add_extracted(items(1, "new"))):
        with pytest.raises(EmbedderMismatchError, match=r"64 dimensions.*32 dimensions"):
            use()
    assert len(memory) == 40


class Turned(HashEmbedder):
    """Another model of the same name and dimension."""

    def embed(self, texts, kind):
        return super().embed(texts, kind)[:, ::-1]


def test_another_model_of_the_same_name_is_refused_at_its_first_use(open_memory, filled):
    memory = open_memory(embedder=Turned(), store=filled)
    for use in (lambda: memory.retrieve("Ada"), lambda: memory.add_extracted(items(1, "new"))):
        with pytest.raises(EmbedderMismatchError, match="encodes the same sentence differently"):
            use()
    assert len(open_memory(store=filled).retrieve("Ada")) == 5


def test_a_model_that_differs_by_rounding_is_the_same(open_memory, filled):
    class Rounded(HashEmbedder):
        def embed(self, texts, kind):
            return super().embed(texts, kind).astype(np.float16) * np.float16(3)

    assert open_memory(embedder=Rounded(), store=filled).retrieve("Ada").path.used_graph


def test_an_embedder_without_a_name_goes_by_its_class(open_memory, store_location):
    class Nameless:
        def embed(self, texts, kind):
            return [[1.0, 2.0]] * len(texts)

        async def aembed(self, texts, kind):
            return self.embed(texts, kind)

    open_memory(embedder=Nameless(), store=store_location).add_extracted(items(1))
    with pytest.raises(EmbedderMismatchError, match="Nameless"):
        open_memory(store=store_location)


# -- namespaces ------------------------------------------------------------------------------------


def test_namespaces_of_one_store_share_nothing(open_memory, store_location):
    one = open_memory(store=store_location, namespace="one")
    two = open_memory(store=store_location, namespace="two", embedder=HashEmbedder(32, "other"))
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
            store=store_location,
            namespace=memory.namespace,
            embedder=HashEmbedder() if memory is one else HashEmbedder(32, "other"),
        )
        assert again.stats() == memory.stats()
        assert again.retrieve("Ada").passages == memory.retrieve("Ada").passages


@pytest.mark.parametrize("namespace", ["", None, 5])
def test_a_namespace_is_text(namespace, open_memory):
    with pytest.raises(InputError, match="namespace"):
        open_memory(namespace=namespace)


def test_a_deleted_namespace_is_empty_for_every_handle_and_begins_again(
    open_memory, store_location
):
    one, two = open_memory(store=store_location), open_memory(store=store_location)
    one.add_extracted(items(3))
    assert len(two) == 3
    with one._store.write() as writer:
        assert writer.delete_namespace("default") == 3
    for memory in (one, two, open_memory(store=store_location)):
        assert list(memory) == []
        assert memory.stats().phrases == 0
        assert memory.retrieve("Ada").path == RetrievalPath.EMPTY
    other = open_memory(embedder=HashEmbedder(32, "other"), store=store_location)
    other.add_extracted(items(2, "q"))
    assert other.retrieve("Ada", k=9).path.used_graph
    with pytest.raises(EmbedderMismatchError, match="'other'"):
        open_memory(store=store_location)


def test_a_namespace_that_was_emptied_keeps_its_embedder(open_memory, store_location):
    memory = open_memory(store=store_location)
    memory.add_extracted(items(2))
    memory.delete(["p0", "p1"])
    with pytest.raises(EmbedderMismatchError):
        open_memory(embedder=HashEmbedder(name="other"), store=store_location)
    memory.add_extracted(items(2))
    assert len(open_memory(store=store_location)) == 2


# -- several handles -------------------------------------------------------------------------------


def test_what_another_handle_does_is_seen_at_the_next_query(open_memory, filled):
    one, two = open_memory(store=filled), open_memory(store=filled)
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


def test_what_another_process_adds_is_seen_at_the_next_query(open_memory, filled):
    memory = open_memory(store=filled)
    assert len(memory) == 40
    run_child(filled, "from_child")
    assert len(memory) == 41
    assert "from_child" in memory


CHILD = """
import sys, time
from hippo_core import Extraction, HippoRAG, Passage
from hippo_core.testing import HashEmbedder

location, id_, start = sys.argv[1:]
embedder = HashEmbedder()
while time.time() < float(start):
    time.sleep(0.001)
with HippoRAG(None, embedder, store=location) as memory:
    reading = Extraction(triples=[("Ada", "wrote", id_)])
    memory.add_extracted([(Passage(f"By child {id_}", id=id_), reading)])
    assert id_ in memory
"""


def start_child(location, id_, start=0.0):
    command = [sys.executable, "-c", CHILD, str(location), id_, str(start)]
    return subprocess.Popen(command, env=ENV, stderr=subprocess.PIPE, text=True)


def run_child(location, id_):
    child = start_child(location, id_)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0, said


def test_processes_that_create_one_store_at_once_share_it(open_memory, store_location):
    start = time.time() + 1.5
    children = [start_child(store_location, f"child {n}", start) for n in range(3)]
    for child in children:
        _, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
    memory = open_memory(store=store_location, create=False)
    assert [p.id for p in memory] == ["child 0", "child 1", "child 2"]
    assert memory.stats().triples == 3


def test_handles_that_create_one_store_at_once_share_it(store_location, at_once):
    barrier = threading.Barrier(6)

    def create():
        barrier.wait()
        with HippoRAG(None, HashEmbedder(), store=store_location) as memory:
            return memory._store.id

    assert len(set(at_once(*[create] * 6))) == 1
    if isinstance(store_location, Path):
        assert {p.name for p in store_location.iterdir()} == {DATABASE}


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_readers_see_whole_states_while_a_writer_writes(
    on_disk, open_memory, store_location, at_once
):
    """A writer swaps groups of passages; no reader may see parts of two groups."""
    memory = open_memory(store=store_location if on_disk else None)
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


def test_a_killed_process_leaves_a_store_that_opens(open_memory, store_location):
    code = CHILD.replace("assert id_ in memory", "import os; os._exit(9)")
    command = [sys.executable, "-c", code, str(store_location), "x", "0"]
    done = subprocess.run(command, env=ENV, timeout=60, check=False)
    assert done.returncode == 9
    memory = open_memory(store=store_location, create=False)
    assert [p.id for p in memory] == ["x"]
    assert memory.retrieve("Ada").path.used_graph


CRASHING = """
import os, sys
from hippo_core import HippoConfig, HippoRAG
from hippo_core.testing import HashEmbedder, ScriptedChatModel

location, log, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])

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
with HippoRAG(chat, HashEmbedder(), store=location, config=HippoConfig(concurrency=1)) as memory:
    memory.add([f"Text {i}" for i in range(5)])
    print(len(memory), memory.stats().triples)
"""


def test_a_process_killed_in_a_reply_pays_for_no_reply_twice(store_location, tmp_path):
    (tmp_path / "log").write_text("")
    for fatal in (2, 7, -1):
        command = [
            sys.executable,
            "-c",
            CRASHING,
            str(store_location),
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

"""Several processes, threads and event loops on one store: whole states, and one end."""

import asyncio
import dataclasses
import inspect
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import threading
from functools import partial

import pytest

from hippo_core import Extraction, HippoConfig, HippoRAG, Passage, StoreLockedError, Usage
from hippo_core.testing import HashEmbedder, TableChatModel

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
LIMIT = 60  # seconds after which a process is killed, and its test has failed
QUERY = "What did Ada write in Rome?"


# -- what the children run too: see WORKER ---------------------------------------------------------


def passage(name, version=0):
    return Passage(f"Ada wrote {name} {version}.", id=name, metadata={"version": version})


def reading(name, version=0):
    work = f"{name} {version}"
    return Extraction(["Ada", work], [("Ada", "wrote", work), (work, "is in", "Rome")])


def opened(folder, versions=()):
    """Open a memory whose chat model can read the passages of these names and versions."""
    table = {passage(*v).full_text: reading(*v) for v in versions}
    chat = TableChatModel(table) if versions else None
    config = HippoConfig(concurrency=4, embed_batch_size=4)
    return HippoRAG(chat, HashEmbedder(), store=folder, config=config)


def insistently(use):
    """Call until the store is not locked: how often it was."""
    locked = 0
    while True:
        try:
            use()
        except StoreLockedError:
            locked += 1
        else:
            return locked


def ranking(memory, query):
    hits = memory.retrieve(query, k=1000, config=HippoConfig(recognition_memory=False))
    return [[hit.passage.id, hit.score] for hit in hits]


def watch(memory, states, stopped, query):
    """Read until stopped: each read is a whole state, and none is older than the one before."""
    place = reads = 0
    while True:
        last = stopped()
        for seen in ([p.id for p in memory], [id_ for id_, _ in ranking(memory, query)]):
            found = states.index(sorted(seen))  # a ValueError: no state is this
            assert found >= place, (found, place)
            place = found
            reads += 1
        if last:
            return [place, reads]


SHARED = (passage, reading, opened, insistently, ranking, watch)

WORKER = f"""
import json, sys, threading
from hippo_core import Extraction, HippoConfig, HippoRAG, Passage, StoreLockedError
from hippo_core.testing import HashEmbedder, TableChatModel

{"".join(map(inspect.getsource, SHARED))}

def line_came():
    came = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), came.set()), daemon=True).start()
    return came.is_set

def answer(command, *parts):
    if command == "ids":
        return [p.id for p in memory]
    if command == "rank":
        return ranking(memory, *parts)
    if command == "watch":
        states, query = parts
        print("started", flush=True)
        return watch(memory, states, line_came(), query)
    (batches,) = parts
    use = memory.add if command == "add" else memory.delete
    return sum(
        insistently(lambda: use([passage(*v) for v in batch] if use == memory.add else batch))
        for batch in batches
    )

folder, versions = sys.argv[1], json.loads(sys.argv[2])
memory = opened(folder, versions)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(answer(*json.loads(line))), flush=True)
memory.close()
"""


class Other:
    """A process with a handle of its own, which does as it is told."""

    def __init__(self, folder, versions=()):
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder), json.dumps(list(versions))],
            env=ENV,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watchdog = threading.Timer(LIMIT, self._process.kill)
        self._watchdog.start()
        assert self.hear() == "ready"

    def hear(self):
        line = self._process.stdout.readline()
        assert line, "the process has ended: see what it said on stderr"
        return line.strip()

    def tell(self, *command):
        print(json.dumps(command), file=self._process.stdin, flush=True)

    def ask(self, *command):
        self.tell(*command)
        return json.loads(self.hear())

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=LIMIT)
        finally:
            self._watchdog.cancel()
            self._process.kill()
        assert kind is not None or self._process.returncode == 0


def assert_as_fresh(memory, versions):
    """The memory holds these passages and nothing else, and ranks as if it had never held more."""
    items = [(passage(*v), reading(*v)) for v in versions]
    with opened(None) as fresh:
        fresh.add_extracted(items)
        assert list(memory) == list(fresh)
        assert memory.stats() == fresh.stats()
        assert [i for i, _ in ranking(memory, QUERY)] == [i for i, _ in ranking(fresh, QUERY)]
        assert [s for _, s in ranking(memory, QUERY)] == pytest.approx(
            [s for _, s in ranking(fresh, QUERY)], abs=1e-9
        )


# -- one process sees what another commits ---------------------------------------------------------


def test_each_process_sees_what_the_other_commits_at_its_next_query(tmp_path):
    names = [[f"note {n}"] for n in range(4)]
    with opened(tmp_path / "m", names) as memory, Other(tmp_path / "m", names) as other:
        assert len(memory) == 0
        other.ask("add", [names[:2]])
        assert [p.id for p in memory] == ["note 0", "note 1"]
        assert {i for i, _ in ranking(memory, QUERY)} == {"note 0", "note 1"}
        memory.add([passage(*names[2])])
        assert other.ask("rank", QUERY) == ranking(memory, QUERY)
        assert other.ask("ids") == ["note 0", "note 1", "note 2"]
        other.ask("delete", [["note 0", "note 2"]])
        assert [p.id for p in memory] == ["note 1"]
        memory.add([passage("note 3"), dataclasses.replace(passage("note 1"), metadata={"a": 1})])
        memory.delete(["note 3"])
        assert other.ask("ids") == ["note 1"]
        assert other.ask("rank", QUERY) == ranking(memory, QUERY)


# -- readers while a writer writes -----------------------------------------------------------------

TURNS = 10
KEPT = 3  # pairs that are there at once


def pair(number):
    return [f"pair {number:03} left", f"pair {number:03} right"]


def pairs(numbers):
    return [name for number in numbers for name in pair(number)]


def test_readers_in_threads_and_processes_see_pairs_whole(tmp_path, at_once):
    states = [pairs(range(KEPT))]
    for turn in range(KEPT, KEPT + TURNS):
        states += [pairs(range(turn - KEPT, turn + 1)), pairs(range(turn - KEPT + 1, turn + 1))]
    folder, over = tmp_path / "m", threading.Event()

    def write():
        try:
            for turn in range(KEPT, KEPT + TURNS):
                memory.add_extracted([(passage(name), reading(name)) for name in pair(turn)])
                memory.delete(pair(turn - KEPT))
        finally:
            over.set()

    with opened(folder) as memory:
        memory.add_extracted([(passage(name), reading(name)) for name in states[0]])
        with Other(folder) as one, Other(folder) as two:
            for other in (one, two):
                other.tell("watch", states, QUERY)
                assert other.hear() == "started"
            readers = [partial(watch, memory, states, over.is_set, QUERY)] * 2
            _, *seen = at_once(write, *readers)
            for other in (one, two):
                other.tell("stop")
            seen += [json.loads(other.hear()) for other in (one, two)]
    assert [place for place, _ in seen] == [len(states) - 1] * 4
    assert all(reads >= 2 for _, reads in seen)


# -- two writers -----------------------------------------------------------------------------------


def test_two_processes_that_add_overlapping_passages_end_as_one_that_adds_all(tmp_path):
    names = [[f"note {n:02}"] for n in range(24)]
    mine = [names[n : n + 4] for n in range(0, 16, 4)]
    yours = [names[n : n + 4] for n in range(20, 4, -4)]
    with Other(tmp_path / "m", names) as one, Other(tmp_path / "m", names) as two:
        one.tell("add", mine)
        two.tell("add", yours)
        for other in (one, two):
            assert json.loads(other.hear()) >= 0
        one.tell("delete", [["note 00", "note 01"], ["note 10"]])
        two.tell("delete", [["note 23", "note 10"], ["note 01"]])
        for other in (one, two):
            assert json.loads(other.hear()) >= 0
        left = [n for n in names if n[0] not in ("note 00", "note 01", "note 10", "note 23")]
        assert one.ask("ids") == two.ask("ids") == [name for (name,) in left]
        assert one.ask("rank", QUERY) == two.ask("rank", QUERY)
        with opened(tmp_path / "m") as memory:
            assert_as_fresh(memory, left)


def test_of_two_processes_that_update_the_same_passages_one_is_the_last(tmp_path):
    names = ["note a", "note b", "note c"]
    batches = {
        start: [[[name, version] for name in names] for version in range(start, start + 4)]
        for start in (0, 100)
    }
    versions = [version for start in batches for batch in batches[start] for version in batch]
    with Other(tmp_path / "m", versions) as one, Other(tmp_path / "m", versions) as two:
        one.tell("add", batches[0])
        two.tell("add", batches[100])
        for other in (one, two):
            assert json.loads(other.hear()) >= 0
        with opened(tmp_path / "m") as memory:
            (version,) = {p.metadata["version"] for p in memory}
            assert version in (3, 103)
            assert_as_fresh(memory, [(name, version) for name in names])
            assert memory.forget_pending() == 0


# -- threads and event loops on one handle ---------------------------------------------------------

QUERIES = [f"Who wrote note {n % 30} and {n}?" for n in range(100)]


@pytest.fixture
def memory(tmp_path):
    names = [(f"note {n}",) for n in range(30)]
    with opened(tmp_path / "m", names) as memory:
        memory.add([passage(*name) for name in names])
        yield memory


def without_usage(found):
    return dataclasses.replace(found, usage=Usage())


def test_a_hundred_queries_at_once_are_a_hundred_single_ones(memory):
    alone = [without_usage(memory.retrieve(query)) for query in QUERIES]
    assert [without_usage(found) for found in memory.retrieve_many(QUERIES)] == alone
    many = asyncio.run(memory.aretrieve_many(QUERIES))
    assert [without_usage(found) for found in many] == alone

    async def gathered():
        return await asyncio.gather(*(memory.aretrieve(query) for query in QUERIES))

    assert [without_usage(found) for found in asyncio.run(gathered())] == alone


def test_one_handle_serves_one_event_loop_after_another(memory):
    alone = [without_usage(memory.retrieve(query)) for query in QUERIES[:5]]

    async def use(turn):
        found = await memory.aretrieve_many(QUERIES[:5])
        await memory.aadd([passage("note 0", turn)], chat_model=chat)
        await memory.aadd([passage("note 0")], chat_model=chat)
        return [without_usage(one) for one in found]

    versions = [("note 0", turn) for turn in range(4)]
    chat = TableChatModel({passage(*v).full_text: reading(*v) for v in versions})
    for turn in range(1, 4):
        assert asyncio.run(use(turn)) == alone


async def test_the_sync_calls_work_inside_a_running_loop(memory):
    assert without_usage(memory.retrieve(QUERIES[0])) == without_usage(
        await memory.aretrieve(QUERIES[0])
    )
    many = memory.retrieve_many(QUERIES[:8])
    assert [f.query for f in many] == QUERIES[:8]
    memory.add_extracted([(passage("new"), reading("new"))])
    assert memory.delete(["new", "note 1"]).deleted == ("new", "note 1")
    assert len(memory) == 29


def test_threads_with_event_loops_of_their_own_share_a_handle(memory, at_once):
    alone = {query: without_usage(memory.retrieve(query)) for query in QUERIES[:6]}

    def use(query):
        async def several():
            return [await memory.aretrieve(query) for _ in range(3)]

        assert [without_usage(found) for found in asyncio.run(several())] == [alone[query]] * 3

    def blocking(query):
        assert without_usage(memory.retrieve(query)) == alone[query]

    at_once(*(partial(use, q) for q in alone), *(partial(blocking, q) for q in alone))


# -- multiprocessing -------------------------------------------------------------------------------

TASK = f"""
from hippo_core import Extraction, HippoConfig, HippoRAG, Passage, StoreLockedError
from hippo_core.testing import HashEmbedder, TableChatModel

{"".join(map(inspect.getsource, SHARED))}

with opened(folder, [[name]]) as memory:
    memory.add([passage(name)])
    answers.put([name, name in memory, len(ranking(memory, "Ada")) >= 6])
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_multiprocessing_worker_opens_a_handle_of_its_own(method, tmp_path):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    context = multiprocessing.get_context(method)
    there = [f"note {n}" for n in range(5)]
    with opened(tmp_path / "m") as memory:
        memory.add_extracted([(passage(name), reading(name)) for name in there])
    (tmp_path / "task.py").write_text(TASK)
    answers = context.Queue()
    tasks = []
    for name in ("from one", "from two"):
        names = {"folder": str(tmp_path / "m"), "name": name, "answers": answers}
        tasks.append(
            context.Process(target=runpy.run_path, args=(str(tmp_path / "task.py"), names))
        )
    try:
        for task in tasks:
            task.start()
        told = [answers.get(timeout=LIMIT) for _ in tasks]
        for task in tasks:
            task.join(LIMIT)
            assert task.exitcode == 0
    finally:
        for task in tasks:
            task.kill()
    assert sorted(told) == [["from one", True, True], ["from two", True, True]]
    with opened(tmp_path / "m") as memory:
        assert_as_fresh(memory, [(name,) for name in ["from one", "from two", *there]])

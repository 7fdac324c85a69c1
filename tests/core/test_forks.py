"""A process that forks: both go on, nobody hangs, and no database is damaged."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hippo_core.locations import DATABASE
from hippo_core.store import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of a fork beside threads, from 3.12 on
}

BEGIN = """
import os, signal, sys, threading, time
import numpy as np
from hippo_core import Extraction, Passage
from hippo_core.records import StoredPassage
from hippo_core.store import Store

signal.alarm(45)  # nobody hangs
READ = Extraction(("Ada",), [("Ada", "wrote", "notes")])

def put(store, id_):
    with store.write() as writer:
        writer.put_passages("n", [StoredPassage(Passage(f"Text {id_}. " * 20, id=id_), READ)])

def ids(store):
    with store.read() as reader:
        return {s.passage.id for s in reader.passages("n")}

def wait(pid):
    _, status = os.waitpid(pid, 0)
    assert status == 0, status

def child(use):
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(40)
    code = 1
    try:
        use()
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)

location = sys.argv[1]
store = Store(None if location == "memory" else location)
"""

BUSY = """
stop = threading.Event()
done = [[] for _ in range(2)]

def write(thread):
    n = 0
    while not stop.is_set():
        put(store, f"t{thread} {n}")
        done[thread].append(f"t{thread} {n}")
        n += 1
        time.sleep(0.002)

def read():
    while not stop.is_set():
        ids(store)

threads = [threading.Thread(target=write, args=[i]) for i in range(2)]
threads += [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()

def use(n):
    assert store.forked == 1
    before = ids(store)
    for i in range(5):
        put(store, f"c{n} {i}")
    assert ids(store) >= before | {f"c{n} {i}" for i in range(5)}
    grandchild = child(lambda: put(store, f"g{n}"))
    wait(grandchild)
    store.close()

expected = set()
for n in range(8):
    time.sleep(0.02)
    pid = child(lambda: use(n))
    if n % 2:
        put(store, f"p{n}")
        expected.add(f"p{n}")
        wait(pid)
    else:
        wait(pid)
    if location != "memory":
        expected |= {f"c{n} {i}" for i in range(5)} | {f"g{n}"}
stop.set()
for thread in threads:
    thread.join()
assert store.forked == 0
expected.update(*done)
assert ids(store) == expected, (ids(store) ^ expected)
store.close()
"""


def run(code, location):
    """Run a script; a minute is the longest it may take."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(location)],
        env=ENV, timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert not done.stderr.strip(), done.stderr[-4000:]
    if isinstance(location, Path):
        with closing(sqlite3.connect(location / DATABASE)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture(params=["disk", "memory"])
def location(request, store_location):
    return "memory" if request.param == "memory" else store_location


def test_parent_and_child_go_on_while_threads_read_and_write(location):
    run(BUSY, location)


POOL = """
import multiprocessing

def work(n):
    put(store, f"w{n}")
    return len(ids(store)), store.forked

stop = threading.Event()
def write():
    n = 0
    while not stop.is_set():
        put(store, f"t {n}")
        n += 1

thread = threading.Thread(target=write)
thread.start()
with multiprocessing.get_context("fork").Pool(3) as pool:
    answers = pool.map(work, range(30))
stop.set()
thread.join()
assert all(forked == 1 for _, forked in answers)
if location != "memory":
    assert {f"w{n}" for n in range(30)} <= ids(store)
store.close()
"""


def test_a_pool_of_forked_workers_uses_the_store(location):
    run(POOL, location)


INSIDE = """
import hippo_core.forks
from hippo_core import StoreError

put(store, "before")

def use():
    assert store.forked == 1
    if location == "memory":  # its one connection came along, in this transaction
        assert reader.passages("n")
        return
    if location.startswith("postgres"):
        assert "before" in ids(store)
        return
    try:
        put(store, "never")
    except StoreError as error:
        assert "forked" in str(error)
    else:
        raise AssertionError

with store.read() as reader:
    wait(child(use))
    assert reader.passages("n")
started = time.monotonic()
with store.write() as writer:
    pid = os.fork()
    writer.put_passages("n", [StoredPassage(Passage("In.", id="in"), READ)]) if pid else None
    if pid == 0:
        signal.alarm(40)
        os._exit(0)
    wait(pid)
assert time.monotonic() - started < 5
assert ids(store) == {"before", "in"}
put(store, "after")
store.close()
"""


def test_a_fork_inside_a_transaction_neither_hangs_nor_damages(location):
    run(INSIDE, location)


LEFT = """
from hippo_core import StoreError

pid = os.getpid()
try:
    with store.write() as writer:
        writer.put_passages("n", [StoredPassage(Passage("In.", id="in"), READ)])
        forked = os.fork()
        if forked:
            wait(forked)
except StoreError as error:
    assert os.getpid() != pid and "before the fork" in str(error)
    os._exit(0)
assert os.getpid() == pid
assert ids(store) == {"in"}
store.close()
"""


@pytest.mark.sqlite
def test_a_transaction_is_that_of_the_parent(tmp_path):
    run(LEFT, tmp_path / "m")


LATE = """
import hippo_core.forks
from hippo_core import StoreError

hippo_core.forks.PATIENCE = 0.3
put(store, "before")
inside, leave = threading.Event(), threading.Event()

def long():
    with store.write() as writer:
        inside.set()
        leave.wait(30)
        writer.put_passages("n", [StoredPassage(Passage("Long.", id="long"), READ)])

thread = threading.Thread(target=long)
thread.start()
inside.wait(30)

def use():
    if location.startswith("postgres"):
        assert ids(store) == {"before"}
        return
    try:
        ids(store)
    except StoreError as error:
        assert "in use when this process was forked" in str(error)
    else:
        raise AssertionError
    store.close()

wait(child(use))
leave.set()
thread.join()
assert ids(store) == {"before", "long"}
store.close()
"""


def test_a_transaction_that_outlasts_the_wait_holds_no_fork_up(location):
    run(LATE, location)


OPENING = """
stop = threading.Event()
opened = []

def open_and_close():
    while not stop.is_set():
        other = Store(location)
        opened.append(len(ids(other)))
        other.close()

thread = threading.Thread(target=open_and_close)
thread.start()
for n in range(6):
    wait(child(lambda: put(Store(location), f"c{n}")))
stop.set()
thread.join()
assert ids(store) == {f"c{n}" for n in range(6)}
store.close()
"""


def test_stores_that_are_opened_meanwhile_are_told_too(store_location):
    run(OPENING, store_location)


FORKING = """
def fork():
    for _ in range(5):
        wait(child(lambda: put(store, f"{threading.get_ident()} {os.getpid()}")))

threads = [threading.Thread(target=fork) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert location == "memory" or len(ids(store)) == 15
store.close()
"""


def test_threads_that_fork_at_once_take_turns(location):
    run(FORKING, location)


def test_a_store_counts_no_forks_where_there_were_none():
    with closing(Store(None)) as store:
        assert store.forked == 0

"""A call takes at most `call_timeout`: in threads a later reply is kept, a loop cancels."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hippo_core import (
    Completion,
    HippoConfig,
    HippoRAG,
    Message,
    Passage,
    TokenUsage,
    TransientModelError,
)
from hippo_core.drivers import Driver
from hippo_core.flows import Complete, Each, Embed, Extract, Meter, Models
from hippo_core.limiter import Limiter
from hippo_core.retries import Patience
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

ROOT = Path(__file__).parents[2]
DRIVERS = ["threads", "loop"]
FINE = Completion("fine", TokenUsage(10, 5))
TENANT = contextvars.ContextVar("tenant", default="nobody")


class Stuck(ScriptedChatModel):
    """Keeps the first calls waiting until `go` is set, and answers the others at once."""

    def __init__(self, stuck=1, reply=FINE):
        super().__init__(lambda _: reply)
        self.stuck, self.go, self.cancelled = stuck, threading.Event(), 0

    def _stays(self):
        with self._lock:
            self.stuck -= 1
            return self.stuck >= 0

    def complete(self, messages):
        if self._stays():
            assert self.go.wait(30)
        return super().complete(messages)

    async def acomplete(self, messages):
        try:
            if self._stays():
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ScriptedChatModel.complete(self, messages)


@pytest.fixture
def stuck():
    """Make stuck models that go on when the test ends."""
    made = []

    def make(*args, **options):
        made.append(Stuck(*args, **options))
        return made[-1]

    yield make
    for chat in made:
        chat.go.set()


async def no_wait(_seconds):
    await asyncio.sleep(0)


def driver(chat, seconds=0.1, *, tries=2, limit=8, meter=None, **models):
    patience = Patience(
        tries, seconds, 0.05, sleep=lambda _: None, asleep=lambda _: asyncio.sleep(0)
    )
    models = Models(models.pop("embedder", HashEmbedder()), chat, **models)
    return Driver(models, Limiter(limit, patience), meter or Meter())


def run(driver, flow, how):
    return driver.run(flow) if how == "threads" else asyncio.run(driver.arun(flow))


def ask(late=None):
    return (yield Complete([Message("user", "Hello?")], "answer", late))


def wait_for(claim):
    deadline = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# -- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DRIVERS)
def test_a_late_call_is_tried_again(how, stuck):
    assert run(driver(stuck()), ask(), how).text == "fine"


@pytest.mark.parametrize("how", DRIVERS)
def test_a_call_that_is_always_late_names_the_setting(how, stuck):
    with pytest.raises(TransientModelError, match=r"call_timeout, 0.1 seconds"):
        run(driver(stuck(9)), ask(), how)


@pytest.mark.parametrize("how", DRIVERS)
def test_an_embedder_may_be_late_too(how):
    go = threading.Event()

    class Slow(HashEmbedder):
        def embed(self, texts, kind):
            assert go.wait(30)
            return super().embed(texts, kind)

        async def aembed(self, texts, kind):
            await asyncio.sleep(30)

    def flow():
        return (yield Embed(["Ada"], "phrase"))

    try:
        with pytest.raises(TransientModelError, match="call_timeout"):
            run(driver(None, embedder=Slow()), flow(), how)
    finally:
        go.set()


@pytest.mark.parametrize("how", DRIVERS)
def test_a_late_call_gives_its_place_back(how, stuck):
    assert run(driver(stuck(1), limit=1), ask(), how).text == "fine"


@pytest.mark.parametrize("how", DRIVERS)
def test_the_wait_for_a_place_is_no_time_of_the_call(how):
    class Slow(ScriptedChatModel):
        def complete(self, messages):
            time.sleep(0.1)
            return super().complete(messages)

        async def acomplete(self, messages):
            await asyncio.sleep(0.1)
            return super().complete(messages)

    def flow():
        return (yield Each([ask() for _ in range(8)]))

    chat = Slow(lambda _: "fine")
    assert len(run(driver(chat, 0.6, tries=1, limit=1), flow(), how)) == 8


@pytest.mark.parametrize("how", DRIVERS)
def test_a_local_part_takes_its_time(how):
    class Slow(TableOpenIE):
        def extract(self, text):
            time.sleep(0.1)
            return super().extract(text)

    def flow():
        return (yield Extract("Ada"))

    assert run(driver(None, 0.01, tries=1, openie=Slow()), flow(), how).triples == ()


@pytest.mark.parametrize("how", DRIVERS)
def test_a_models_own_time_out_is_no_late_call(how):
    def down(_messages):
        raise TimeoutError("theirs")

    with pytest.raises(TransientModelError, match="TimeoutError: theirs"):
        run(driver(ScriptedChatModel(down)), ask(), how)


@pytest.mark.parametrize("how", DRIVERS)
def test_a_call_sees_the_context_of_its_caller(how):
    seen = []
    token = TENANT.set("acme")
    try:
        chat = ScriptedChatModel(lambda _: seen.append(TENANT.get()) or "fine")
        run(driver(chat, 30), ask(), how)
    finally:
        TENANT.reset(token)
    assert seen == ["acme"]


@pytest.mark.parametrize("how", DRIVERS)
def test_a_memory_gives_up_a_call_after_its_time(how, stuck):
    chat = stuck(9)
    config = HippoConfig(call_timeout=0.1, tries=1)
    with HippoRAG(chat, HashEmbedder(), config=config) as memory:
        if how == "threads":
            report = memory.add(["Ada."], on_error="skip")
        else:
            report = asyncio.run(memory.aadd(["Ada."], on_error="skip"))
    assert "call_timeout" in next(iter(report.failed.values()))


# -- threads: a late reply is kept -----------------------------------------------------------------


def test_a_late_reply_is_handed_on_once_and_counted(stuck):
    chat, meter, late = stuck(), Meter(), []
    assert driver(chat, meter=meter).run(ask(late.append)).text == "fine"
    assert late == []
    assert meter.usage.calls == 1
    chat.go.set()
    wait_for(lambda: late)
    assert late == [FINE]
    assert (meter.usage.calls, meter.usage.tokens) == (2, 30)


def test_a_late_reply_that_nobody_takes_is_counted_all_the_same(stuck):
    chat, meter = stuck(), Meter()
    with pytest.raises(TransientModelError):
        driver(chat, tries=1, meter=meter).run(ask())
    chat.go.set()
    wait_for(lambda: meter.usage.calls == 1)


def test_a_late_reply_that_cannot_be_kept_is_logged(stuck, caplog):
    def full(_completion):
        raise OSError("the disk is full")

    chat = stuck()
    driver(chat).run(ask(full))
    chat.go.set()
    wait_for(lambda: "the disk is full" in caplog.text)


def test_a_late_reply_that_is_none_is_logged(caplog):
    go = threading.Event()

    class Wrong(ScriptedChatModel):
        def complete(self, messages):
            assert go.wait(30)

    late = []
    with pytest.raises(TransientModelError):
        driver(Wrong([]), tries=1).run(ask(late.append))
    go.set()
    wait_for(lambda: "must return a Completion" in caplog.text)
    assert late == []


def test_a_late_failure_costs_nothing(stuck, caplog):
    caplog.set_level("DEBUG", "hippo_core")
    chat, meter, late = stuck(reply=RuntimeError("at sk-abcdefgh123")), Meter(), []
    with pytest.raises(TransientModelError):
        driver(chat, tries=1, meter=meter).run(ask(late.append))
    chat.go.set()
    wait_for(lambda: "RuntimeError: at sk-..." in caplog.text)
    assert (late, meter.usage.calls) == ([], 0)


# -- threads ---------------------------------------------------------------------------------------


def test_without_a_time_out_the_call_is_made_in_the_callers_thread():
    threads = []
    chat = ScriptedChatModel(lambda _: threads.append(threading.current_thread()) or "fine")
    driver(chat, None).run(ask())
    assert threads == [threading.current_thread()]


def test_calls_leave_no_thread_behind():
    before = set(threading.enumerate())

    def flow():
        return (yield Each([ask() for _ in range(50)]))

    driver(ScriptedChatModel(lambda _: "fine"), 30).run(flow())
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_mere_error_comes_through(kind):
    def leave(_messages):
        raise kind

    with pytest.raises(kind):
        driver(ScriptedChatModel(leave), 30).run(ask())


INTERRUPTED = """
import os, signal, threading, time
from hippo_core import HippoRAG
from hippo_core.testing import HashEmbedder, ScriptedChatModel

class Stuck(ScriptedChatModel):
    def complete(self, messages):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(60)

memory = HippoRAG(Stuck([]), HashEmbedder())
begun = time.monotonic()
try:
    memory.add(["Ada."])
except KeyboardInterrupt:
    print(time.monotonic() - begun)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_does_not_wait_for_a_call():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, cwd=ROOT, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 20


# -- event loops -----------------------------------------------------------------------------------


async def test_a_late_call_is_cancelled(stuck):
    chat, late = stuck(9), []
    with pytest.raises(TransientModelError):
        await driver(chat).arun(ask(late.append))
    assert (chat.cancelled, late) == (2, [])


async def test_a_model_that_cannot_be_cancelled_hangs_nobody():
    go = asyncio.Event()

    class Stubborn(ScriptedChatModel):
        async def acomplete(self, messages):
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    pass
            raise RuntimeError("nobody hears this")

    with pytest.raises(TransientModelError, match="call_timeout"):
        await asyncio.wait_for(driver(Stubborn([])).arun(ask()), 20)
    task = asyncio.create_task(driver(Stubborn([]), None).arun(ask()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    go.set()
    await asyncio.sleep(0.01)


async def test_whoever_cancels_waits_for_what_the_model_cleans_up():
    cleaned = []

    class Careful(ScriptedChatModel):
        async def acomplete(self, messages):
            try:
                await asyncio.sleep(30)
            finally:
                await asyncio.sleep(0.01)
                cleaned.append(True)

    run = driver(Careful([]), None)
    task = asyncio.create_task(run.arun(ask()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]


# -- what was read late ----------------------------------------------------------------------------


def test_what_a_late_reply_says_of_a_passage_is_not_asked_again():
    go, asked = threading.Event(), []

    class Slow(ScriptedChatModel):
        def complete(self, messages):
            asked.append("triples" if '"triples"' in messages[0].content else "entities")
            assert go.wait(30)
            return super().complete(messages)

    def reply(messages):
        if '"triples"' in messages[0].content:
            return '{"triples": [["Ada", "met", "Bob"]]}'
        return '{"named_entities": ["Ada", "Bob"]}'

    config = HippoConfig(call_timeout=0.1, tries=1)
    with HippoRAG(Slow(reply), HashEmbedder(), config=config) as memory:
        for stage in ("entities", "triples"):
            go.clear()
            assert memory.add(["Ada met Bob."], on_error="skip").failed
            assert asked == [stage]
            asked.clear()
            go.set()
            wait_for(lambda: memory.estimate(["Ada met Bob."]).usage.chat_calls < 2)
            if stage == "triples":
                wait_for(lambda: memory.estimate(["Ada met Bob."]).usage.chat_calls == 0)
        assert len(memory.add(["Ada met Bob."]).updated) == 1
        assert asked == []
        assert memory.stats().triples == 1


@pytest.mark.parametrize("late", ["entities", "triples"])
def test_nothing_comes_late_of_a_passage_that_was_deleted_or_edited_meanwhile(tmp_path, late):
    go, threads = threading.Event(), []

    class Slow(ScriptedChatModel):
        def complete(self, messages):
            threads.append(threading.current_thread())
            if ("triples" if '"triples"' in messages[0].content else "entities") == late:
                assert go.wait(30)
            return super().complete(messages)

    def reply(messages):
        if '"triples"' in messages[0].content:
            return '{"triples": [["Ada", "met", "Bob"]]}'
        return '{"named_entities": ["Ada", "Bob"]}'

    config = HippoConfig(call_timeout=0.1, tries=1)
    with HippoRAG(Slow(reply), HashEmbedder(), store=tmp_path / "m", config=config) as memory:
        old = [Passage("Ada met Bob.", id="deleted"), Passage("Ada met Bob!", id="edited")]
        assert len(memory.add(old, on_error="skip").failed) == 2
        memory.delete(["deleted"])
        memory.add([Passage("It rained.", id="edited")], openie=TableOpenIE())
        go.set()
        for thread in threads:
            thread.join()
        assert len(memory._models.chat.calls) == 2 + 2 * (late == "triples")
        assert memory.forget_pending() == 0

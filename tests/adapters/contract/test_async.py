"""Async is async, whatever the user's models are, and sync works wherever it is called from."""

import asyncio
import threading
import time

import pytest

WAYS = ["native", "sync", "in name"]
SECONDS = 0.4  # that a model takes


def ids(found):
    return [one.id for one in found]


class Heart:
    """Beats every 10 ms on the running loop; counts how often it did while something slept."""

    def __init__(self):
        self.beats, self.while_asleep = 0, []

    async def __aenter__(self):
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *error):
        self._task.cancel()

    async def _beat(self):
        while True:
            await asyncio.sleep(0.01)
            self.beats += 1

    def sleep(self, _seconds=None):
        before = self.beats
        time.sleep(SECONDS)
        self.while_asleep.append(self.beats - before)

    def assert_never_stopped(self):
        """Every sleep was worth 40 beats: a busy machine gives a fifth of them."""
        assert self.while_asleep
        assert min(self.while_asleep) >= 8


@pytest.fixture
def heart():
    return Heart()


# -- the event loop --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "in name"])
async def test_the_loop_beats_while_a_model_without_an_async_way_is_asked(
    adapter, opened, models, items, question, way, heart
):
    models.way, models.sleep = way, heart.sleep
    memory = opened(models)
    async with heart:
        await adapter.aadd(memory, items[:3])
        found = await adapter.aask(adapter.retriever(memory, k=3), question)
    assert len(found) == 3
    assert len(heart.while_asleep) == len(models.log)
    heart.assert_never_stopped()


async def test_the_loop_beats_while_documents_come_out_of_a_slow_loader(
    adapter, opened, models, items, heart
):
    def loader():
        for item in items[:2]:
            heart.sleep()
            yield item

    memory = opened(models)
    if adapter.name == "langchain":
        from langchain_core.documents import Document

        documents = (Document(id=i.id, page_content=i.text) for i in loader())
        adding = memory.aadd_documents(documents)
    else:
        from llama_index.core.schema import Document

        documents = (Document(id_=i.id, text=i.text) for i in loader())
        adding = memory.ainsert_documents(documents)
    async with heart:
        await adding
    assert len(memory.hippo) == 2
    heart.assert_never_stopped()


async def test_what_is_async_in_a_model_is_used_and_its_sync_way_is_not(
    adapter, opened, models, items, question
):
    memory = opened(models)
    await adapter.aadd(memory, items)
    await adapter.aask(adapter.retriever(memory), question)
    assert set(models.log) == {"chat async", "embed async"}


@pytest.mark.parametrize("way", WAYS)
async def test_sync_methods_never_take_a_models_async_way(
    adapter, opened, models, items, question, way
):
    models.way = way
    memory = opened(models)
    adapter.add(memory, items)
    adapter.ask(adapter.retriever(memory), question)
    assert set(models.log) == {"chat sync", "embed sync"}


async def test_every_way_of_a_model_gives_the_same(adapter, opened, models, items, question):
    every = []
    for way in WAYS:
        models.way = way
        memory = opened(models)
        await adapter.aadd(memory, items)
        found = await adapter.aask(adapter.retriever(memory, k=6), question)
        every.append([(one.id, one.score) for one in found])
    assert every[0] == every[1] == every[2]


# -- where it is called ----------------------------------------------------------------------------


async def test_sync_and_async_work_in_one_running_loop(adapter, opened, models, items, question):
    memory = opened(models)
    adapter.add(memory, items[:3])
    await adapter.aadd(memory, items[3:])
    retriever = adapter.retriever(memory, k=6)
    assert adapter.ask(retriever, question) == await adapter.aask(retriever, question)
    adapter.delete(memory, ["hippos"])
    await adapter.adelete(memory, ["tower"])
    assert len(adapter.ask(retriever, question)) == 4


def test_sync_works_in_threads_without_a_loop_many_at_once(adapter, memory, question):
    retriever = adapter.retriever(memory, k=6)
    expected = adapter.ask(retriever, question)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(adapter.ask(retriever, question)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


def test_one_memory_serves_one_loop_after_another(adapter, opened, models, items, question):
    memory = opened(models)
    retriever = adapter.retriever(memory, k=6)

    async def use(some):
        await adapter.aadd(memory, some)
        found = await asyncio.gather(*(adapter.aask(retriever, question) for _ in range(10)))
        return found[0]

    for n in range(1, 4):
        found = asyncio.run(use(items[: 2 * n]))
        assert len(found) == 2 * n
    assert adapter.ask(retriever, question) == found


def test_loops_in_threads_share_one_memory(adapter, opened, models, items, question):
    memory = opened(models)
    found = []

    async def use():
        await adapter.aadd(memory, items)
        await asyncio.gather(
            *(adapter.aask(adapter.retriever(memory), question) for _ in range(10))
        )
        return await adapter.aask(adapter.retriever(memory, k=6), question)

    threads = [threading.Thread(target=lambda: found.append(asyncio.run(use()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert len(memory.hippo) == 6


# -- an end before the end -------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_timeout_of_a_retrieval_leaves_the_memory_usable(
    adapter, memory, models, question, opened, items, way
):
    models.way = way
    memory = opened(models)
    adapter.add(memory, items)
    retriever = adapter.retriever(memory, k=6)
    expected = adapter.ask(retriever, question)
    models.seconds = SECONDS
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(adapter.aask(retriever, question), 0.1)
    models.seconds = 0.0
    assert await adapter.aask(retriever, question) == expected
    assert adapter.ask(retriever, question) == expected


async def test_a_cancelled_add_is_not_seen_and_loses_no_reply_that_came(
    adapter, opened, models, items, question
):
    stalling, go = asyncio.Event(), asyncio.Event()
    asked = models.acomplete

    async def complete(messages):
        if items[3].text in messages[-1].content:
            stalling.set()
            await go.wait()
        return await asked(messages)

    models.acomplete = complete
    memory = opened(models)
    task = asyncio.create_task(adapter.aadd(memory, items[:4]))
    await stalling.wait()
    while len(models.chat.calls) < 6:  # the other three are read
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await adapter.aask(adapter.retriever(memory), question) == []
    go.set()
    await adapter.aadd(memory, items[:4])
    assert len(models.chat.calls) == 6 + 2
    assert len(memory.hippo) == 4


@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.02, 0.05, 0.1])
async def test_an_add_that_is_cancelled_at_any_time_is_whole_or_not_there(
    adapter, opened, models, items, question, seconds
):
    models.seconds = 0.01
    memory, whole = opened(models), opened(models)
    adapter.add(whole, items)
    task = asyncio.create_task(adapter.aadd(memory, items))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(memory.hippo) in (0, 6)
    await adapter.aadd(memory, items)
    retrievers = [adapter.retriever(one, k=6) for one in (memory, whole)]
    assert adapter.ask(retrievers[0], question) == adapter.ask(retrievers[1], question)


async def test_one_cancelled_retrieval_among_many_takes_no_other_along(
    adapter, memory, models, question
):
    retriever = adapter.retriever(memory, k=6)
    expected = adapter.ask(retriever, question)
    models.seconds = 0.05
    tasks = [asyncio.create_task(adapter.aask(retriever, question)) for _ in range(20)]
    await asyncio.sleep(0.02)
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert found[1::2] == [expected] * 10

"""Many at once are as one after the other, and a reader sees one whole state."""

import asyncio
import threading

import pytest


def ids(found):
    return [one.id for one in found]


def state(adapter, memory, question):
    """Everything that must not depend on the order in which things were done."""
    passages = [(p.id, p.text, p.source_id) for p in memory.hippo]
    found = adapter.ask(adapter.retriever(memory, k=10, score_mode="ppr"), question)
    return passages, memory.hippo.stats(), [(one.id, round(one.score, 9)) for one in found]


async def test_adds_at_once_of_overlapping_documents_are_as_one_after_the_other(
    adapter, opened, models, items, question
):
    batches = [[items[n % 6], items[(n + 1) % 6], items[(n + 3) % 6]] for n in range(10)]
    serial, together = opened(models), opened(models)
    for batch in batches:
        adapter.add(serial, batch)
    await asyncio.gather(*(adapter.aadd(together, batch) for batch in batches))
    assert state(adapter, together, question) == state(adapter, serial, question)
    assert together.hippo.verify().ok


async def test_adds_and_deletes_at_once_end_as_what_is_left(
    adapter, opened, models, items, question
):
    memory, left = opened(models), opened(models)
    adapter.add(memory, items)
    adapter.add(left, items[:2])
    again = [adapter.aadd(memory, [item]) for item in items[:2] for _ in range(3)]
    gone = [adapter.adelete(memory, [item.id]) for item in items[2:]]
    await asyncio.gather(*again, *gone)
    assert state(adapter, memory, question) == state(adapter, left, question)


async def test_one_id_added_with_many_texts_at_once_is_one_of_them(adapter, opened, models, item):
    memory = opened(models)
    await asyncio.gather(
        *(adapter.aadd(memory, [item("one", f"Version {n}.", {"n": n})]) for n in range(10))
    )
    (found,) = await adapter.aask(adapter.retriever(memory), "Which version?")
    assert found.text == f"Version {found.given['n']}."


def test_threads_that_add_at_once_are_as_one_after_the_other(
    adapter, opened, models, items, question
):
    serial, together = opened(models), opened(models)
    adapter.add(serial, items)
    threads = [
        threading.Thread(target=adapter.add, args=(together, items[n % 5 : n % 5 + 2]))
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state(adapter, together, question) == state(adapter, serial, question)


@pytest.mark.parametrize("kept", [False, True])
def test_readers_beside_a_writer_see_whole_states(
    adapter, opened, models, items, question, kept, tmp_path
):
    """Three passages come and go together: a reader sees all of them, or none."""
    options = {"persist_directory": tmp_path / "m"} if kept else {}
    memory = opened(models, **options)
    adapter.add(memory, items[:3])
    moving = {item.id for item in items[3:]}
    retriever = adapter.retriever(memory, k=6)
    seen, errors, over = [], [], threading.Event()

    def read():
        try:
            while not over.is_set():
                seen.append(set(ids(adapter.ask(retriever, question))))
        except Exception as error:  # noqa: BLE001 - whatever a reader meets fails the test
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(6):
        adapter.add(memory, items[3:])
        adapter.delete(memory, sorted(moving))
    over.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert {len(found) for found in seen} <= {3, 6}
    assert all(found & moving in (set(), moving) for found in seen)


async def test_tasks_that_read_beside_a_writing_one_see_whole_states(
    adapter, memory, items, question
):
    retriever = adapter.retriever(memory, k=6)

    async def write():
        for _ in range(5):
            await adapter.adelete(memory, ["tower", "forth"])
            await adapter.aadd(memory, items)

    writing = asyncio.create_task(write())
    seen = set()
    while not writing.done():
        found = await asyncio.gather(*(adapter.aask(retriever, question) for _ in range(4)))
        seen |= {len(one) for one in found}
    await writing
    assert seen <= {4, 6}


async def test_a_hundred_retrievals_at_once_are_a_hundred_single_ones(
    adapter, memory, models, question, items
):
    queries = [f"{question} {items[n % 6].text} {n}" for n in range(100)]
    retriever = adapter.retriever(memory, k=6)
    single = [adapter.ask(retriever, query) for query in queries]
    assert len({tuple(ids(found)) for found in single}) > 1
    models.seconds = 0.01
    found = await asyncio.gather(*(adapter.aask(retriever, query) for query in queries))
    assert found == single

"""What is asked of a retriever, and what is put into its memory: used, or refused in words."""

import logging

import numpy as np
import pytest


def ids(found):
    return [one.id for one in found]


# -- k ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [6, 10, 10**9, np.int64(7)])
async def test_a_k_beyond_the_corpus_gives_all_of_it_once(memory, question, items, ask, k):
    found = ids(await ask(memory, question, k=k))
    assert sorted(found) == sorted(item.id for item in items)


async def test_k_is_how_many_are_found_and_a_smaller_one_gives_the_beginning(memory, question, ask):
    every = await ask(memory, question, k=6)
    for k in range(1, 6):
        assert await ask(memory, question, k=k) == every[:k]


@pytest.mark.parametrize("k", [0, -1, None, True, False, "3", 2.0, 1.5, [3]])
def test_a_k_that_is_no_number_of_passages_is_refused(adapter, memory, k, models):
    models.log.clear()
    with pytest.raises(ValueError, match=r"whole number|at least 1|greater than or equal to 1"):
        adapter.retriever(memory, k=k)
    assert models.log == []


# -- queries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", " ", "\n\t \u3000"])
async def test_a_blank_query_is_refused_before_a_model_is_asked(memory, query, ask, models):
    models.log.clear()
    with pytest.raises(ValueError, match="not blank"):
        await ask(memory, query)
    assert models.log == []


@pytest.mark.parametrize("query", [None, 3, ["a question"], {"query": "a question"}])
async def test_a_query_that_is_no_text_is_refused_before_a_model_is_asked(
    memory, query, ask, models
):
    models.log.clear()
    with pytest.raises(ValueError, match=r"must be text|valid string"):
        await ask(memory, query)
    assert models.log == []


@pytest.mark.parametrize("query", ["?", "🦛", "' OR 1=1; --", "\x00", "a" * 50_000, "\u200b"])
async def test_any_other_text_is_a_query(memory, query, ask):
    assert len(await ask(memory, query, k=3)) == 3


# -- an empty memory -------------------------------------------------------------------------------


async def test_before_anything_is_added_nothing_is_found_and_that_is_told_once(
    opened, models, question, ask, caplog
):
    memory = opened(models)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await ask(memory, question) == []
    assert len([r for r in caplog.records if "is empty" in r.getMessage()]) == 1


async def test_after_all_is_deleted_nothing_is_found_and_adding_begins_anew(
    adapter, memory, items, question, ask
):
    before = await ask(memory, question)
    adapter.delete(memory, [item.id for item in items])
    assert await ask(memory, question) == []
    await adapter.aadd(memory, items)
    assert await ask(memory, question) == before
    await adapter.adelete(memory, [item.id for item in items])
    assert await ask(memory, question) == []


# -- what is added ---------------------------------------------------------------------------------


async def test_adding_nothing_does_nothing(adapter, memory, question, ask, models):
    before = await ask(memory, question)
    models.log.clear()
    for nothing in ([], (), iter(())):
        adapter.add(memory, nothing)
        await adapter.aadd(memory, nothing)
    assert models.log == []
    assert await ask(memory, question) == before


@pytest.mark.parametrize("blank", ["", "  \n"])
async def test_a_blank_text_is_skipped_and_reaches_no_model(
    adapter, opened, models, items, item, question, ask, blank
):
    memory = opened(models)
    adapter.add(memory, [item("blank", blank, {"a": "b"}), *items])
    await adapter.aadd(memory, [item("blank too", blank, {})])
    assert "blank" not in ids(await ask(memory, question, k=10))
    assert len(memory.hippo) == len(items)
    assert all(text.strip() for _, texts in models.embedder.calls for text in texts)


@pytest.mark.parametrize("wrong", [None, "text", ["text"], [None], [{"text": "text"}], 3])
async def test_what_is_no_list_of_passages_is_refused(adapter, memory, wrong):
    raw = memory.insert_nodes if adapter.name == "llama_index" else memory.add_documents
    araw = memory.ainsert_nodes if adapter.name == "llama_index" else memory.aadd_documents
    with pytest.raises(TypeError):
        raw(wrong)
    with pytest.raises(TypeError):
        await araw(wrong)
    assert len(memory.hippo) == 6


async def test_one_id_is_no_list_of_ids(adapter, memory):
    with pytest.raises(ValueError, match="put it in a list"):
        adapter.delete(memory, "town")
    with pytest.raises(ValueError, match="put it in a list"):
        await adapter.adelete(memory, "town")
    assert len(memory.hippo) == 6


async def test_ids_that_are_not_there_are_left_alone(adapter, memory):
    adapter.delete(memory, ["ghost", "town", "ghost"])
    await adapter.adelete(memory, ["ghost", "town"])
    assert "town" not in memory.hippo
    assert len(memory.hippo) == 5


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", [{"kk": 1}, {"filter": {"name": "town"}}, {"score_mode": "cosine"}]
)
def test_a_typo_is_refused_and_lets_nothing_through(adapter, memory, option):
    with pytest.raises((TypeError, ValueError), match=next(iter(option))):
        adapter.retriever(memory, **option)


async def test_two_retrievers_of_one_memory_have_their_own_options(memory, question, ask):
    wide = await ask(memory, question, k=6, score_mode="ppr", include_triples=True)
    narrow = await ask(memory, question, k=1)
    assert ids(narrow) == ids(wide)[:1]
    assert "hipporag_triples" in wide[0].metadata
    assert "hipporag_triples" not in narrow[0].metadata
    assert sum(one.score for one in wide) <= 1.0

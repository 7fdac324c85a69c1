"""What LangChain's documents cost: told before, kept within a budget, read by rules for nothing."""

import pytest
from langchain_core.indexing import InMemoryRecordManager, index

from hippo_core import Budget, BudgetExceededError, Prices
from hippo_core.testing import TableOpenIE
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever


async def test_an_estimate_is_that_of_the_passages(empty, documents, core_chat):
    prices = Prices(input=1.0, output=2.0)
    told = empty.estimate(documents, prices=prices)
    assert told.usage.chat_calls == 2 * len(documents)
    assert told.cost
    assert await empty.aestimate(documents, prices=prices) == told
    assert not core_chat.calls
    empty.add_documents(documents)
    assert empty.estimate(documents).usage.calls == 0


async def test_a_budget_ends_an_add_and_adding_again_goes_on(empty, documents, core_chat):
    with pytest.raises(BudgetExceededError):
        empty.add_documents(documents, budget=Budget(calls=3))
    with pytest.raises(BudgetExceededError):
        await empty.aadd_documents(documents, budget=Budget(calls=2))
    assert len(core_chat.calls) == 5
    empty.add_documents(documents)
    assert len(core_chat.calls) == 2 * len(documents)


def test_a_retriever_may_be_made_within_a_budget(documents, chat, embeddings, tmp_path, core_chat):
    made = {"llm": chat, "embeddings": embeddings, "persist_directory": tmp_path / "m"}
    with pytest.raises(BudgetExceededError):
        HippoRAGRetriever.from_documents(documents, budget=Budget(calls=3), **made)
    HippoRAGRetriever.from_documents(documents, **made).close()
    assert len(core_chat.calls) == 2 * len(documents)


def test_rules_read_some_documents_and_the_model_the_others(empty, documents, table, core_chat):
    empty.add_documents(documents[:2])
    empty.add_documents(documents[2:], openie=TableOpenIE(table))
    assert len(core_chat.calls) == 4
    by = empty.hippo.stats().by_extractor
    assert by["table"] == len(documents) - 2
    assert sum(by.values()) == len(documents)


def test_an_index_run_may_have_a_budget(chat, embeddings, closing, documents, core_chat):
    records = InMemoryRecordManager(namespace="documents")
    records.create_schema()
    memory = closing(HippoRAGDocumentIndex.from_models(llm=chat, embeddings=embeddings))
    run = {"cleanup": "full", "key_encoder": "sha256"}
    with pytest.raises(BudgetExceededError):
        index(documents, records, memory, upsert_kwargs={"budget": Budget(calls=3)}, **run)
    index(documents, records, memory, **run)
    assert len(core_chat.calls) == 2 * len(documents)

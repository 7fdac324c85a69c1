"""IRCoT as a LangChain retriever: the core's steps, in LangChain's runs, events and metadata."""

import copy
import logging
import re
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableLambda
from pydantic import ValidationError

from hippo_core import Ending, HippoConfig, InputError, ModelRequiredError, PermanentModelError
from hippo_core.testing import ScriptedChatModel, TableOpenIE
from langchain_hipporag import HippoRAGRetriever, IRCoTRetriever

THOUGHTS = [
    "The Brooklyn Bridge was designed by John Roebling; next is where John Roebling was born.",
    "John Roebling was born in Mühlhausen; next is which river flows through Mühlhausen.",
]
ANSWER = "Answer: the Unstrut"


@pytest.fixture
def thinking(chat, retriever):
    """Make the corpus' retriever in steps, whose chat model thinks so."""

    def thinking(thoughts=(*THOUGHTS, ANSWER), **fields):
        reads = chat.core

        def reply(messages):
            if "one sentence" not in messages[0].content:
                return reads._reply(messages)
            return list(thoughts)[messages[-1].content.count("\nThought ")]

        chat.core = ScriptedChatModel(reply)
        return IRCoTRetriever(hippo=retriever.hippo, **{"k": 3, **fields})

    return thinking


def ids(found):
    return [document.id for document in found]


def metadata(found, name):
    return [document.metadata[f"hipporag_{name}"] for document in found]


async def test_documents_are_those_of_the_core_with_their_step(thinking, question):
    steps = thinking()
    found = steps.invoke(question)
    core = steps.hippo.ircot(question, k=3)
    assert core.ended is Ending.ANSWERED
    assert ids(found) == [hit.passage.id for hit in core]
    assert metadata(found, "score") == [hit.score for hit in core]
    assert metadata(found, "rank") == [1, 2, 3]
    assert metadata(found, "step") == [core.step_of[id_] for id_ in ids(found)]
    assert found[0].metadata["tags"] == [found[0].id, {"year": 1883}]
    assert await steps.ainvoke(question) == found
    assert steps.batch([question] * 2) == [found] * 2


def test_one_step_is_the_plain_retriever(thinking, retriever, question):
    found = thinking(max_steps=1).invoke(question)
    assert set(metadata(found, "step")) == {1}
    for document in found:
        del document.metadata["hipporag_step"]
    assert found == retriever.invoke(question)


def test_a_query_may_say_otherwise(thinking, question):
    steps = thinking()
    assert len(steps.invoke(question, k=1)) == 1
    assert set(metadata(steps.invoke(question, max_steps=1), "step")) == {1}
    only = steps.invoke(question, where={"source": {"$ne": "roebling.txt"}})
    assert "roebling" not in ids(only)
    assert ids(thinking(where={"source": "hippos.txt"}).invoke(question)) == ["hippos"]
    with pytest.raises(InputError, match="max_steps"):
        steps.invoke(question, max_steps=0)
    with pytest.raises(ValidationError):
        thinking(max_steps=0)
    with pytest.raises(ValidationError):
        thinking(score_mode="ppr")


def llm_runs(root):
    return [run for run in root.child_runs if run.run_type in ("llm", "chat_model")]


async def test_each_thought_is_a_child_of_the_retrievers_run(thinking, tracer, question):
    steps = thinking(max_steps=3)
    steps.invoke(question, {"callbacks": [tracer]})
    await steps.ainvoke(question, {"callbacks": [tracer]})
    assert tracer.counts == {"start": 2, "end": 2}
    assert [root.run_type for root in tracer.roots] == ["retriever"] * 2
    for root in tracer.roots:
        runs = llm_runs(root)
        assert len(runs) == 5  # three judge triples, two think
        assert sum("one sentence" in str(run.inputs) for run in runs) == 2


async def test_the_event_tells_every_step_and_its_cost(thinking, tracer, question):
    steps = thinking()
    found = steps.invoke(question, {"callbacks": [tracer]})
    await steps.ainvoke(question, {"callbacks": [tracer]})
    (name, first), (_, second) = tracer.events
    assert name == "hipporag_ircot"
    assert first["ended"] == "answered"
    assert first["answer"] == "the Unstrut"
    told = [(step["step"], step["thought"]) for step in first["steps"]]
    assert told == [(1, ""), (2, THOUGHTS[0]), (3, THOUGHTS[1]), (4, "")]
    assert [step["retrieval"] and step["retrieval"]["path"] for step in first["steps"]] == [
        "graph",
        "graph",
        "graph",
        None,
    ]
    assert {i for step in first["steps"] for i in step["ids"]} >= set(ids(found))
    calls = [sum(stage["calls"] for stage in s["usage"].values()) for s in first["steps"]]
    assert calls == [2, 3, 3, 1]
    assert sum(calls) == sum(stage["calls"] for stage in first["usage"].values())
    assert [step["thought"] for step in second["steps"]] == [t for _, t in told]


def test_inside_a_chain_the_runs_are_the_chains(thinking, tracer, question):
    chain = thinking() | RunnableLambda(len)
    assert chain.invoke(question, {"callbacks": [tracer]}) == 3
    (root,) = tracer.roots
    assert root.run_type == "chain"
    (retriever,) = [run for run in root.child_runs if run.run_type == "retriever"]
    assert len(llm_runs(retriever)) == 6


def test_a_thought_that_fails_is_logged_and_what_was_found_is_given(
    thinking, question, caplog, retriever
):
    steps = thinking([PermanentModelError("401: no key")])
    with caplog.at_level(logging.WARNING):
        assert ids(steps.invoke(question)) == ids(retriever.invoke(question))
    assert "401" in caplog.text


def test_the_memory_is_shared_and_copies_share_it(thinking, retriever):
    steps = thinking()
    assert steps.hippo is retriever.hippo
    assert copy.deepcopy(steps).hippo is retriever.hippo
    assert "max_steps=4" in repr(steps)


def test_without_a_chat_model_the_error_says_so(embeddings, table, closing, question):
    options = {"embeddings": embeddings, "openie": TableOpenIE(table), "k": 2}
    steps = closing(IRCoTRetriever.from_texts(table, **options))
    with pytest.raises(ModelRequiredError, match="pass llm="):
        steps.invoke(question)
    assert len(steps.invoke(question, max_steps=1)) == 2
    with pytest.raises(TypeError, match="llm must be"):
        IRCoTRetriever(hippo=steps.hippo, llm="gpt")


async def test_an_llm_of_its_own_thinks_over_anothers_memory(
    chat_of, embeddings, table, closing, question, tracer
):
    plain = HippoRAGRetriever.from_texts(table, embeddings=embeddings, openie=TableOpenIE(table))
    closing(plain)
    for llm in (ScriptedChatModel(lambda _: ANSWER), chat_of(ScriptedChatModel(lambda _: ANSWER))):
        steps = IRCoTRetriever(hippo=plain.hippo, llm=llm, k=2)
        assert len(steps.invoke(question, {"callbacks": [tracer]})) == 2
        assert await steps.ainvoke(question) == steps.invoke(question)
    assert [len(llm_runs(root)) for root in tracer.roots] == [0, 2]


def test_the_class_methods_of_the_plain_retriever_make_one(chat, embeddings, documents, closing):
    options = {"llm": chat, "embeddings": embeddings, "config": HippoConfig.dense()}
    steps = closing(IRCoTRetriever.from_documents(documents, max_steps=2, **options))
    assert isinstance(steps, HippoRAGRetriever)
    assert steps.max_steps == 2


PAGE = Path(__file__).parents[2] / "docs" / "iterative-retrieval.md"


@pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no docs")
def test_the_pages_line_makes_one(thinking, retriever, question):
    expected = thinking(k=5).invoke(question)
    (line,) = re.findall(r"^IRCoTRetriever\(hippo.*", PAGE.read_text("utf-8"), re.MULTILINE)
    made = eval(line, {"IRCoTRetriever": IRCoTRetriever, "retriever": retriever})  # noqa: S307
    assert made.invoke(question) == expected

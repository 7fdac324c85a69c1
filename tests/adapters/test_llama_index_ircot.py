"""IRCoT as a LlamaIndex retriever: the core's steps, in LlamaIndex's spans, events and nodes."""

import asyncio
import logging
import re
from pathlib import Path

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, QueryBundle
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from hippo_core import Ending, InputError, ModelRequiredError, PermanentModelError
from hippo_core.testing import ScriptedChatModel, TableOpenIE
from llama_index_hipporag import (
    HippoRAGIndex,
    HippoRAGIRCoTEvent,
    HippoRAGRetrievalEvent,
    IRCoTRetriever,
    hipporag_tool,
)

THOUGHTS = [
    "The Brooklyn Bridge was designed by John Roebling; next is where John Roebling was born.",
    "John Roebling was born in Mühlhausen; next is which river flows through Mühlhausen.",
]
ANSWER = "Answer: the Unstrut"


class Spans(SimpleSpanHandler):
    """Knows the parent of each span, open or closed."""

    parents: dict[str, str | None] = {}

    def new_span(self, id_, bound_args, instance=None, parent_span_id=None, tags=None, **kwargs):
        self.parents[id_] = parent_span_id
        return super().new_span(id_, bound_args, instance, parent_span_id, tags, **kwargs)


class Events(BaseEventHandler):
    """Keeps what happened."""

    events: list = []

    def handle(self, event, **kwargs):
        self.events.append(event)


@pytest.fixture
def seen():
    root, events, spans = get_dispatcher(), Events(), Spans()
    events.events, spans.parents = [], {}
    root.add_event_handler(events)
    root.add_span_handler(spans)
    yield events.events, spans.parents
    root.event_handlers.remove(events)
    root.span_handlers.remove(spans)


@pytest.fixture
def thinking(llama_chat, llama):
    """Make the corpus' index one whose LLM thinks so."""

    def thinking(thoughts=(*THOUGHTS, ANSWER)):
        reads = llama_chat.core

        def reply(messages):
            if "one sentence" not in messages[0].content:
                return reads._reply(messages)
            return list(thoughts)[messages[-1].content.count("\nThought ")]

        llama_chat.core = ScriptedChatModel(reply)
        return llama

    return thinking


def ids(found):
    return [node.node_id for node in found]


async def test_nodes_are_those_of_the_core_with_their_step(thinking, question):
    index = thinking()
    retriever = IRCoTRetriever(index, similarity_top_k=3, include_scores=True)
    found = retriever.retrieve(question)
    core = index.hippo.ircot(question, k=3)
    assert core.ended is Ending.ANSWERED
    assert ids(found) == [hit.passage.id for hit in core]
    assert [node.score for node in found] == [hit.score for hit in core]
    for rank, node in enumerate(found, 1):
        assert node.metadata["hipporag_step"] == core.step_of[node.node_id]
        assert node.metadata["hipporag_rank"] == rank
    assert await retriever.aretrieve(question) == found
    assert await asyncio.gather(*[retriever.aretrieve(question) for _ in range(3)]) == [found] * 3


def test_one_step_is_the_plain_retriever(thinking, question):
    index = thinking()
    found = IRCoTRetriever(index, 3, max_steps=1).retrieve(question)
    plain = index.as_retriever(3).retrieve(question)
    assert [(n.node_id, n.score) for n in found] == [(n.node_id, n.score) for n in plain]


@pytest.mark.parametrize("mode", [MetadataMode.LLM, MetadataMode.EMBED])
def test_no_model_reads_what_we_say_of_a_node(thinking, nodes, question, mode):
    by_id = {node.node_id: node for node in nodes}
    for found in IRCoTRetriever(thinking(), include_triples=True).retrieve(question):
        assert "hipporag_triples" in found.metadata
        assert found.node.get_content(mode) == by_id[found.node_id].get_content(mode)


def test_filters_hold_in_every_step(thinking, question, seen):
    filters = MetadataFilters(
        filters=[MetadataFilter(key="file", operator=FilterOperator.NE, value="roebling")]
    )
    found = IRCoTRetriever(thinking(), 2, filters=filters).retrieve(question)
    (event,) = [e for e in seen[0] if isinstance(e, HippoRAGIRCoTEvent)]
    assert len(event.steps) == 4
    assert "roebling" not in {*ids(found), *(i for step in event.steps for i in step["ids"])}


async def test_the_event_tells_every_step_inside_of_the_retrievers_span(thinking, question, seen):
    retriever = IRCoTRetriever(thinking(), 3)
    events, parents = seen
    for how in ("retrieve", "aretrieve"):
        events.clear()
        found = getattr(retriever, how)(question)
        if how == "aretrieve":
            found = await found
        (event,) = [e for e in events if isinstance(e, HippoRAGIRCoTEvent)]
        assert not [e for e in events if isinstance(e, HippoRAGRetrievalEvent)]
        assert (event.query, event.ended, event.answer) == (question, "answered", "the Unstrut")
        assert [step["thought"] for step in event.steps] == ["", *THOUGHTS, ""]
        assert {i for step in event.steps for i in step["ids"]} >= set(ids(found))
        assert event.steps[0]["retrieval"]["path"] == "graph"
        assert event.steps[-1]["retrieval"] is None
        calls = [sum(stage["calls"] for stage in s["usage"].values()) for s in event.steps]
        assert sum(calls) == sum(stage["calls"] for stage in event.usage.values())
        inside = f"IRCoTRetriever.{how}"
        asked = [e for e in events if isinstance(e, LLMChatStartEvent)]
        assert asked
        for span in {e.span_id for e in asked}:
            while span is not None and not span.startswith(inside):
                span = parents[span]
            assert span is not None
        assert event.span_id.startswith(("IRCoTRetriever._retrieve", "IRCoTRetriever._aretrieve"))


async def test_dense_texts_of_the_bundle_stand_for_the_question_in_the_first_step(
    thinking, question
):
    index = thinking()
    bundle = QueryBundle(question, custom_embedding_strs=["Hippos swim in the Nile.", " "])
    core = index.hippo.ircot(question, k=3, dense_queries=["Hippos swim in the Nile."])
    plain = index.hippo.retrieve(THOUGHTS[0], k=3, score_mode="relative")
    assert core.steps[1].retrieval.passages == plain.passages
    retriever = IRCoTRetriever(index, 3)
    for found in (retriever.retrieve(bundle), await retriever.aretrieve(bundle)):
        assert [node.score for node in found] == [hit.score for hit in core]


def test_an_engine_and_a_tool_take_it(thinking, question, llama_chat):
    retriever = IRCoTRetriever(thinking(), 3)
    engine = RetrieverQueryEngine.from_args(retriever, llm=llama_chat)
    assert ids(engine.retrieve(QueryBundle(question))) == ids(retriever.retrieve(question))
    assert ids(hipporag_tool(retriever).call(question).raw_output) == ids(
        retriever.retrieve(question)
    )


def test_a_thought_that_fails_is_logged_and_what_was_found_is_given(thinking, question, caplog):
    index = thinking([PermanentModelError("401: no key")])
    with caplog.at_level(logging.WARNING):
        found = IRCoTRetriever(index, 3).retrieve(question)
    assert ids(found) == ids(index.as_retriever(3).retrieve(question))
    assert "401" in caplog.text


def test_without_an_llm_the_error_says_so(nodes, words, table, closing, question, llama_chat_of):
    index = closing(HippoRAGIndex(nodes, embed_model=words, openie=TableOpenIE(table)))
    with pytest.raises(ModelRequiredError, match="Settings.llm"):
        IRCoTRetriever(index, 3)
    assert len(IRCoTRetriever(index, 3, max_steps=1).retrieve(question)) == 3
    with pytest.raises(TypeError, match="llm must be"):
        IRCoTRetriever(index, 3, llm="gpt")
    own = IRCoTRetriever(index, 3, llm=llama_chat_of(ScriptedChatModel(lambda _: ANSWER)))
    assert len(own.retrieve(question)) == 3


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"max_steps": True}, {"similarity_top_k": 0}])
def test_a_number_below_one_is_refused(llama, wrong):
    with pytest.raises(InputError, match="at least 1"):
        IRCoTRetriever(llama, **wrong)


PAGE = Path(__file__).parents[2] / "docs" / "iterative-retrieval.md"


@pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no docs")
def test_the_pages_line_makes_one(thinking, question):
    names = {"IRCoTRetriever": IRCoTRetriever, "index": thinking()}
    (line,) = re.findall(r"^IRCoTRetriever\(index.*", PAGE.read_text("utf-8"), re.MULTILINE)
    made = eval(line, names)  # noqa: S307 - our own page
    assert made.retrieve(question) == IRCoTRetriever(names["index"]).retrieve(question)

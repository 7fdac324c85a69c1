"""What a LlamaIndex retriever gives, and what LlamaIndex sees of it."""

import asyncio
import time

import pytest
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import IndexNode, MetadataMode, QueryBundle, TextNode

from hippo_core import InputError
from hippo_core.testing import ScriptedChatModel, TableOpenIE
from llama_index_hipporag import HippoRAGIndex, HippoRAGRetrievalEvent

CHAIN = ["bridge", "town", "roebling"]


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


def ids(found):
    return [node.node_id for node in found]


async def test_the_chain_of_nodes_is_found_and_async_is_the_same(llama, question):
    retriever = llama.as_retriever(similarity_top_k=3)
    found = retriever.retrieve(question)
    assert ids(found) == CHAIN
    assert await retriever.aretrieve(question) == found
    assert await asyncio.gather(*[retriever.aretrieve(question) for _ in range(5)]) == [found] * 5


async def test_sync_methods_work_inside_a_running_loop(llama, question, nodes):
    llama.insert_nodes([TextNode(text="New.")])
    llama.insert_nodes(nodes)
    assert ids(llama.as_retriever(similarity_top_k=3).retrieve(question)) == CHAIN


async def test_async_retrieval_does_not_block_the_loop(nodes, table, words, llama_chat_of, closing):
    def slow(_messages):
        time.sleep(0.5)
        return '{"keep": [1]}'

    class Slow(type(llama_chat_of(None))):
        async def achat(self, messages, **kwargs):
            return await asyncio.to_thread(self.chat, messages)

    models = {"llm": Slow(core=ScriptedChatModel(slow)), "embed_model": words}
    index = closing(HippoRAGIndex(nodes, openie=TableOpenIE(table), **models))
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    await index.as_retriever().aretrieve("Where do hippos swim?")
    ticking.cancel()
    assert ticks >= 10  # of 50


def test_scores_are_floats_and_the_best_is_one(llama, question):
    found = llama.as_retriever(include_triples=True, include_scores=True).retrieve(question)
    assert found[0].score == 1.0
    assert sorted((f.score for f in found), reverse=True) == [f.score for f in found]
    for rank, node in enumerate(found, 1):
        assert type(node.score) is float
        assert node.metadata["hipporag_score"] == node.score
        assert node.metadata["hipporag_rank"] == rank
        assert all(type(part) is str for t in node.metadata["hipporag_triples"] for part in t)


def test_a_cutoff_of_a_half_keeps_a_node_and_the_walks_mass_may_be_asked_for(llama, question):
    cutoff = SimilarityPostprocessor(similarity_cutoff=0.5)
    assert cutoff.postprocess_nodes(llama.as_retriever().retrieve(question))
    mass = llama.as_retriever(score_mode="ppr").retrieve(question)
    assert sum(node.score for node in mass) <= 1.0
    assert mass[0].score < 1.0
    assert "hipporag_triples" not in mass[0].metadata


@pytest.mark.parametrize("mode", [MetadataMode.LLM, MetadataMode.EMBED])
def test_no_model_reads_what_we_say_of_a_node(llama, nodes, question, mode):
    by_id = {node.node_id: node for node in nodes}
    retriever = llama.as_retriever(include_triples=True, include_scores=True)
    for found in retriever.retrieve(question):
        assert "hipporag_rank" in found.node.metadata
        assert found.node.get_content(mode) == by_id[found.node_id].get_content(mode)


def test_found_nodes_are_copies(llama, question):
    first = llama.as_retriever(include_scores=True).retrieve(question)
    for found in first:
        found.node.metadata["file"] = "changed"
        found.node.text = "changed"
    again = llama.as_retriever().retrieve(question)
    assert again[0].metadata["file"] == "bridge"
    assert "hipporag_rank" not in llama.docstore.get_document("bridge").metadata
    assert "hipporag_rank" not in llama.get_nodes(["bridge"])[0].metadata


def test_a_found_node_is_the_one_that_was_put_in_unless_more_is_asked_for(llama, nodes, question):
    by_id = {node.node_id: node for node in nodes}
    for found in llama.as_retriever().retrieve(question):
        assert found.node == by_id[found.node_id]
        assert found.node.hash == by_id[found.node_id].hash


def test_relationships_survive(llama, question):
    assert [
        f.node.ref_doc_id for f in llama.as_retriever(similarity_top_k=2).retrieve(question)
    ] == [
        "bridge.txt",
        "town.txt",
    ]


def test_a_ready_embedding_is_not_used(llama, question):
    bundle = QueryBundle(question, embedding=[0.0] * 64)
    assert llama.as_retriever().retrieve(bundle) == llama.as_retriever().retrieve(question)


async def test_custom_embedding_strings_are_compared_with_nodes_and_the_query_is_linked(
    llama, question
):
    retriever = llama.as_retriever(similarity_top_k=6)
    plain = retriever.retrieve(question)
    bundle = QueryBundle(question, custom_embedding_strs=["Hippos swim in the Nile.", " "])
    found = retriever.retrieve(bundle)
    assert await retriever.aretrieve(bundle) == found
    at = [{n.node_id: n.score for n in nodes}["hippos"] for nodes in (plain, found)]
    assert at[1] > at[0]
    core = llama.hippo.retrieve(
        question, k=6, score_mode="relative", dense_queries=["Hippos swim in the Nile."]
    )
    assert [(n.node_id, n.score) for n in found] == [(h.passage.id, h.score) for h in core]


def test_a_bundle_whose_embedding_strings_are_blank_is_its_query(llama, question):
    bundle = QueryBundle(question, custom_embedding_strs=["", " "])
    assert llama.as_retriever().retrieve(bundle) == llama.as_retriever().retrieve(question)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_k_is_a_whole_number_of_at_least_one(llama, k):
    with pytest.raises(InputError, match="similarity_top_k"):
        llama.as_retriever(similarity_top_k=k)


def test_a_blank_query_is_an_error(llama):
    with pytest.raises(InputError):
        llama.as_retriever().retrieve(" ")


def test_an_index_node_leads_to_what_it_refers_to(llama_empty):
    whole = TextNode(id_="whole", text="Whales sing, and so on for many pages.")
    llama_empty.insert_nodes([IndexNode(text="Whales sing.", index_id="w", obj=whole)])
    assert ids(llama_empty.as_retriever(similarity_top_k=1).retrieve("Do whales sing?")) == [
        "whole"
    ]


def test_a_reference_that_is_no_json_stays_in_the_process(llama_empty, models, closing):
    other = closing(HippoRAGIndex([TextNode(id_="in", text="Whales sing loud.")], **models))
    node = IndexNode(text="Whales sing.", index_id="other", obj=other.as_retriever())
    llama_empty.insert_nodes([node])
    assert node.obj is not None
    assert ids(llama_empty.as_retriever(similarity_top_k=1).retrieve("Do whales sing?")) == ["in"]


# -- what LlamaIndex sees --------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_models_call_is_a_child_of_the_retrieval(llama, question, seen, asynchronous):
    events, parents = seen
    retriever = llama.as_retriever()
    if asynchronous:
        await retriever.aretrieve(question)
    else:
        retriever.retrieve(question)
    inner = "HippoRAGRetriever._aretrieve-" if asynchronous else "HippoRAGRetriever._retrieve-"
    chats = [span for span in parents if span.startswith(("LlamaChat.chat", "LlamaChat.achat"))]
    assert chats
    for span in chats:
        above = span
        while above is not None and not above.startswith(inner):
            above = parents[above]
        assert above is not None, f"{span} is not inside of the retrieval"
    (event,) = [e for e in events if isinstance(e, HippoRAGRetrievalEvent)]
    assert event.span_id.startswith(inner)
    assert event.query == question
    assert event.path == "graph"
    assert [t["kept"] for t in event.triples].count(True) == 2
    assert event.usage["recognition"]["calls"] == 1
    names = [e.class_name() for e in events]
    assert names.index("RetrievalStartEvent") < names.index("LLMChatStartEvent")
    assert names.index("HippoRAGRetrievalEvent") < names.index("RetrievalEndEvent")


def test_reading_tells_how_far_it_is(llama_empty, nodes, seen):
    events, _ = seen
    told = []
    llama_empty.insert_nodes(nodes, progress=told.append)
    done = [e for e in events if e.class_name() == "HippoRAGProgressEvent"]
    assert [(e.done, e.failed, e.total) for e in done] == [(i, 0, 6) for i in range(1, 7)]
    assert [p.done for p in told] == [e.done for e in done]


def test_callback_handlers_see_retrieval_and_construction(models, nodes, question, closing):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    index = closing(HippoRAGIndex(nodes, callback_manager=CallbackManager([handler]), **models))
    index.as_retriever().retrieve(question)
    assert len(handler.get_event_pairs(CBEventType.RETRIEVE)) == 1


# -- what is built on it ---------------------------------------------------------------------------


@pytest.fixture
def answering(nodes, core_chat, llama_chat_of, words, closing):
    """An index whose LLM answers what is no task of ours."""

    def reply(messages):
        text = core_chat.complete(messages).text
        is_ours = any(key in messages[0].content for key in ('"keep"', '"triples"', "named_ent"))
        return text if is_ours else "The Unstrut."

    llm = llama_chat_of(ScriptedChatModel(reply))
    return closing(HippoRAGIndex(nodes, llm=llm, embed_model=words))


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "simple_summarize"])
async def test_a_query_engine_answers_with_the_indexs_own_llm(answering, question, mode):
    engine = answering.as_query_engine(response_mode=mode, similarity_top_k=3, include_triples=True)
    response = engine.query(question)
    assert str(response) == "The Unstrut."
    assert ids(response.source_nodes) == CHAIN
    assert ids((await engine.aquery(question)).source_nodes) == CHAIN


def test_a_query_engine_takes_the_usual_arguments(answering, question, monkeypatch):
    monkeypatch.setattr(Settings, "_llm", MockLLM())  # `no_text` asks for it, and never uses it
    engine = answering.as_query_engine(
        response_mode="no_text",
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.999)],
        streaming=False,
        verbose=False,
    )
    assert ids(engine.query(question).source_nodes) == CHAIN[:1]


@pytest.mark.parametrize("mode", ["best", "context", "condense_question", "condense_plus_context"])
async def test_a_chat_engine_answers(answering, question, mode):
    memory = ChatMemoryBuffer.from_defaults(token_limit=1000)
    engine = answering.as_chat_engine(chat_mode=mode, similarity_top_k=3, memory=memory)
    response = engine.chat(question)
    assert str(response) == "The Unstrut."
    assert ids(response.source_nodes) == CHAIN
    engine.reset()
    response = await engine.achat(question)
    assert str(response) == "The Unstrut."
    assert ids(response.source_nodes) == CHAIN


def test_another_llm_may_answer(answering, question, llama_chat_of):
    other = llama_chat_of(ScriptedChatModel(lambda _messages: "The Nile."))
    assert str(answering.as_query_engine(llm=other).query(question)) == "The Nile."


def test_settings_llm_answers_where_the_index_has_none(
    llama_chat, words, nodes, table, question, closing, monkeypatch
):
    monkeypatch.setattr(Settings, "_llm", llama_chat)
    index = closing(HippoRAGIndex(nodes, embed_model=words))
    assert index.as_query_engine(similarity_top_k=3).query(question).source_nodes


async def test_it_fuses_with_other_retrievers(answering, question):
    fusion = QueryFusionRetriever(
        [answering.as_retriever(), answering.as_retriever(similarity_top_k=2)],
        llm=answering.as_query_engine()._response_synthesizer._llm,
        num_queries=1,
        mode="reciprocal_rerank",
        use_async=False,
        similarity_top_k=3,
    )
    assert ids(fusion.retrieve(question))[:2] == CHAIN[:2]
    assert ids(await fusion.aretrieve(question))[:2] == CHAIN[:2]


async def test_a_node_is_explained_where_that_is_asked_for_and_no_model_reads_it(llama, question):
    assert not any(
        "hipporag_explanation" in n.metadata for n in llama.as_retriever().retrieve(question)
    )
    telling = llama.as_retriever(include_explanations=True)
    found = telling.retrieve(question)
    assert await telling.aretrieve(question) == found
    for one in found:
        told = one.metadata["hipporag_explanation"]
        assert told["score"] == one.score
        assert sum(part["amount"] for part in told["by_edge"]) == pytest.approx(one.score)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "hipporag_" not in one.node.get_content(mode)

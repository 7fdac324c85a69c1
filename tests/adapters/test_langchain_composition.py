"""What LangChain users put around a retriever: fusion, rewriting, compression, chains, graphs."""

import asyncio
from operator import itemgetter
from typing import Any, TypedDict

import pytest
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import LLMChainFilter
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

CHAIN = ["bridge", "town", "roebling"]
NIGH = "Which river flows through the city where John Roebling was born?"


def ids(found):
    return [document.id for document in found]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def ask(request):
    """Invoke a runnable, either way."""

    async def ask(runnable, *args, **kwargs):
        if request.param:
            return await runnable.ainvoke(*args, **kwargs)
        return await asyncio.to_thread(runnable.invoke, *args, **kwargs)

    return ask


@pytest.fixture
def vectors(documents, embeddings):
    """Dense retrieval of the same documents, by the same embeddings."""
    store = InMemoryVectorStore(embeddings)
    store.add_documents(documents)
    return store.as_retriever(search_kwargs={"k": 3})


# -- several retrievers, several queries -----------------------------------------------------------


async def test_an_ensemble_takes_a_document_of_two_retrievers_for_one(
    retriever, vectors, question, ask
):
    dense = ids(vectors.invoke(question))
    assert set(dense) != set(CHAIN)  # which is why one would want both
    found = await ask(EnsembleRetriever(retrievers=[retriever, vectors]), question)
    assert sorted(ids(found)) == sorted({*CHAIN, *dense})
    weighted = EnsembleRetriever(retrievers=[retriever, vectors], weights=[0.9, 0.1])
    found = await ask(weighted, question)
    assert ids(found)[:3] == CHAIN
    assert found[0].metadata["hipporag_rank"] == 1


async def test_an_ensemble_may_know_documents_by_a_key_of_their_metadata(
    retriever, vectors, question, ask
):
    ensemble = EnsembleRetriever(
        retrievers=[retriever, vectors], weights=[0.9, 0.1], id_key="source"
    )
    found = await ask(ensemble, question)
    assert ids(found)[:3] == CHAIN
    assert len(set(ids(found))) == len(found)


@pytest.fixture
def rewriting():
    return FakeListChatModel(responses=[f"{NIGH}\nWho designed the Brooklyn Bridge?"])


async def test_several_queries_give_each_document_once_without_scores(
    retriever, rewriting, question, ask
):
    plain = retriever.model_copy(update={"include_scores": False})
    several = MultiQueryRetriever.from_llm(plain, llm=rewriting, include_original=True)
    found = await ask(several, question)
    assert sorted(ids(found)) == sorted(set(ids(found)))
    assert {*CHAIN} <= {*ids(found)}


async def test_with_scores_a_document_of_two_queries_is_two(retriever, rewriting, question, ask):
    several = MultiQueryRetriever.from_llm(retriever, llm=rewriting, include_original=True)
    found = ids(await ask(several, question))
    assert len(found) > len(set(found))


def test_without_scores_a_document_is_as_it_was_added(retriever, documents, question):
    plain = retriever.model_copy(update={"include_scores": False})
    by_id = {document.id: document for document in documents}
    assert plain.invoke(question) == [by_id[id_] for id_ in CHAIN]


# -- compression -----------------------------------------------------------------------------------


class Cutoff(BaseDocumentCompressor):
    """Keeps what has at least a score."""

    least: float

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        return [d for d in documents if d.metadata["hipporag_score"] >= self.least]


async def test_an_llm_may_filter_what_was_found(retriever, question, ask):
    asked = []

    def judge(prompt):
        asked.append(prompt.to_string())
        return "NO" if "hippos" in asked[-1].lower() else "YES"

    wide = retriever.model_copy(update={"k": 6, "include_triples": True})
    compressing = ContextualCompressionRetriever(
        base_compressor=LLMChainFilter.from_llm(RunnableLambda(judge)), base_retriever=wide
    )
    found = await ask(compressing, question)
    assert ids(found)[:3] == CHAIN
    assert "hippos" not in ids(found)
    assert [d.metadata["hipporag_rank"] for d in found] == sorted(
        d.metadata["hipporag_rank"] for d in found
    )
    assert len(asked) == 6
    assert not any("hipporag_" in prompt for prompt in asked)


async def test_a_compressor_may_cut_by_score(retriever, question, ask):
    scores = {d.id: d.metadata["hipporag_score"] for d in retriever.invoke(question, k=6)}
    least = scores[CHAIN[-1]]
    compressing = ContextualCompressionRetriever(
        base_compressor=Cutoff(least=least), base_retriever=retriever.model_copy(update={"k": 6})
    )
    assert ids(await ask(compressing, question)) == CHAIN


# -- chains ----------------------------------------------------------------------------------------


async def test_it_stands_in_a_parallel_step(retriever, vectors, question, ask):
    both = RunnableParallel(graph=retriever, dense=vectors, question=RunnablePassthrough())
    found = await ask(both, question)
    assert ids(found["graph"]) == CHAIN
    assert ids(found["dense"]) == ids(vectors.invoke(question))
    assert found["question"] == question


async def test_it_stands_in_a_branch_and_in_an_assignment(retriever, vectors, question, ask):
    branch = RunnableBranch((lambda asked: "river" in asked, retriever), vectors)
    chain = RunnablePassthrough.assign(found=itemgetter("question") | branch)
    state = await ask(chain, {"question": question})
    assert ids(state["found"]) == CHAIN
    assert state["question"] == question
    other = "Who was asked for a tower?"
    state = await ask(chain, {"question": other})
    assert ids(state["found"]) == ids(vectors.invoke(other))


class Failing(BaseRetriever):
    """Fails some times, and then asks another one."""

    inner: BaseRetriever
    left: list[int]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.left[0]:
            self.left[0] -= 1
            raise ConnectionError("down")
        return self.inner.invoke(query, {"callbacks": run_manager.get_child()})


async def test_it_may_be_retried_and_fallen_back_to(retriever, question, ask):
    flaky = Failing(inner=retriever, left=[2])
    retried = flaky.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    assert ids(await ask(retried, question)) == CHAIN
    flaky.left[0] = 100
    assert ids(await ask(flaky.with_fallbacks([retriever]), question)) == CHAIN
    # And ours first, where what it raises is nobody's error but the query's.
    fallback = RunnableLambda(lambda _query: [Document("Ask something.", id="none")])
    assert ids(await ask(retriever.with_fallbacks([fallback]), " ")) == ["none"]


async def test_a_config_goes_along(retriever, question, ask, tracer):
    configured = retriever.with_config(tags=["ours"], metadata={"n": 1}, run_name="lookup")
    assert ids(await ask(configured, question, {"callbacks": [tracer]}, k=2)) == CHAIN[:2]
    (run,) = tracer.roots
    assert (run.name, run.extra["metadata"]["n"]) == ("lookup", 1)
    assert "ours" in run.tags


async def test_a_batch_gives_errors_in_their_place(retriever, question):
    queries = [question, " ", question]
    for found in (
        retriever.batch(queries, return_exceptions=True),
        await retriever.abatch(queries, return_exceptions=True),
    ):
        assert ids(found[0]) == ids(found[2]) == CHAIN
        assert isinstance(found[1], ValueError)
    done = dict(retriever.batch_as_completed([question, NIGH]))
    assert ids(done[0]) == CHAIN
    assert len(done[1]) == 3


async def test_a_stream_of_events_shows_the_retrieval(retriever, question):
    chain = retriever | RunnableLambda(ids)
    events = [event async for event in chain.astream_events(question, version="v2")]
    names = [(event["event"], event["name"]) for event in events]
    start, end = (
        ("on_retriever_start", retriever.get_name()),
        ("on_retriever_end", "HippoRAGRetriever"),
    )
    told = ("on_custom_event", "hipporag_retrieval")
    assert names.index(start) < names.index(told) < names.index(end)
    assert ids(events[names.index(end)]["data"]["output"]) == CHAIN
    assert events[names.index(told)]["data"]["path"] == "graph"
    assert events[-1]["data"]["output"] == CHAIN


# -- graphs ----------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    """What a graph of ours knows."""

    question: str
    documents: list[Document]
    answer: str


@pytest.fixture
def graph(retriever):
    explaining = retriever.model_copy(update={"include_triples": True})

    def look_up(state: State) -> State:
        return {"documents": explaining.invoke(state["question"])}

    async def alook_up(state: State) -> State:
        return {"documents": await explaining.ainvoke(state["question"])}

    def answer(state: State) -> State:
        return {"answer": state["documents"][1].page_content}

    built = StateGraph(State)
    built.add_node("look_up", RunnableLambda(look_up, alook_up))
    built.add_node("answer", answer)
    built.add_edge(START, "look_up")
    built.add_edge("look_up", "answer")
    built.add_edge("answer", END)
    return built.compile(checkpointer=InMemorySaver(), interrupt_before=["answer"])


async def test_documents_survive_in_the_checkpoint_of_a_graph(graph, retriever, question, ask):
    thread = {"configurable": {"thread_id": "1"}}
    await ask(graph, {"question": question}, thread)
    kept = graph.get_state(thread).values["documents"]
    assert kept == retriever.model_copy(update={"include_triples": True}).invoke(question)
    assert ids(kept) == CHAIN
    resumed = await ask(graph, None, thread)
    assert "Unstrut" in resumed["answer"]
    assert ids(resumed["documents"]) == CHAIN


async def test_a_retriever_is_a_node_of_a_graph(retriever, question, ask):
    built = StateGraph(State)
    built.add_node("look_up", itemgetter("question") | RunnableParallel(documents=retriever))
    built.add_edge(START, "look_up")
    built.add_edge("look_up", END)
    state = await ask(built.compile(), {"question": question})
    assert ids(state["documents"]) == CHAIN

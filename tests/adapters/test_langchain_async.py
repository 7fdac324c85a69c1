"""LangChain's ways to be async: its rate limiter, its traces, and what documents come out of."""

import asyncio
import time

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.documents import Document
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.retry import RunnableRetry

from hippo_core import HippoConfig, InputError, ModelError, Prompts
from hippo_core.testing import ScriptedChatModel
from langchain_hipporag import HippoRAGRetriever, LangChainChatModel, LangChainEmbedder


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

    def sleep(self, seconds=0.4):
        before = self.beats
        time.sleep(seconds)
        self.while_asleep.append(self.beats - before)

    def assert_never_stopped(self):
        """Every sleep was worth 40 beats: a busy machine gives a fifth of them."""
        assert self.while_asleep
        assert min(self.while_asleep) >= 8


@pytest.fixture
def heart():
    return Heart()


MESSAGES = Prompts().entities("Hippos swim.")

# -- a rate limiter --------------------------------------------------------------------------------


class Limiter(BaseRateLimiter):
    """Counts who waits on which way."""

    def __init__(self):
        self.waits = []

    def acquire(self, *, blocking=True):
        self.waits.append("sync")
        return True

    async def aacquire(self, *, blocking=True):
        await asyncio.sleep(0)
        self.waits.append("async")
        return True


async def test_a_rate_limiter_is_awaited_where_the_call_is_async(
    chat_of, core_chat, embeddings, documents, question, closing
):
    limiter = Limiter()
    chat = chat_of(core_chat, rate_limiter=limiter)
    retriever = closing(HippoRAGRetriever.from_models(llm=chat, embeddings=embeddings))
    await retriever.aadd_documents(documents[:2])
    await retriever.ainvoke(question)
    assert limiter.waits == ["async"] * 5
    retriever.add_documents(documents[2:3])
    retriever.invoke(question)
    assert limiter.waits == ["async"] * 5 + ["sync"] * 3


# -- models whose async way is the sync one --------------------------------------------------------


@pytest.mark.parametrize("wrap", ["", "bind", "with_retry", "with_config"])
async def test_the_loop_beats_also_where_such_a_model_is_wrapped(chat_of, core_chat, wrap, heart):
    class Chat(type(chat_of(core_chat))):
        def _generate(self, messages, *args, **kwargs):
            heart.sleep()
            return super()._generate(messages)

        async def _agenerate(self, messages, *args, **kwargs):
            return self._generate(messages, *args, **kwargs)

    chat = Chat(core=core_chat)
    model = LangChainChatModel(getattr(chat, wrap)() if wrap else chat)
    assert isinstance(model.runnable, RunnableRetry) == (wrap == "with_retry")
    async with heart:
        await model.acomplete(MESSAGES)
    heart.assert_never_stopped()
    assert len(core_chat.calls) == 1


async def test_an_async_method_that_does_more_than_call_the_sync_one_is_awaited(
    chat_of, core_chat, embeddings
):
    asked = []

    class Chat(type(chat_of(core_chat))):
        async def _agenerate(self, messages, *args, **kwargs):
            asked.append(messages)
            return self._generate(messages)

    class Words(type(embeddings)):
        async def aembed_documents(self, texts):
            asked.append(texts)
            return self.embed_documents(texts)

    await LangChainChatModel(Chat(core=core_chat)).acomplete(MESSAGES)
    await LangChainEmbedder(Words()).aembed(["a"], "passage")
    assert len(asked) == 2


# -- traces ----------------------------------------------------------------------------------------


class Handler(AsyncCallbackHandler):
    """Counts what it is told, each run's beginning and end."""

    def __init__(self):
        self.told = []

    async def on_retriever_start(self, *args, run_id, **kwargs):
        self.told.append(("start", run_id))

    async def on_retriever_end(self, *args, run_id, **kwargs):
        self.told.append(("end", run_id))

    async def on_retriever_error(self, *args, run_id, **kwargs):
        self.told.append(("error", run_id))

    async def on_chat_model_start(self, *args, parent_run_id, **kwargs):
        self.told.append(("llm", parent_run_id))

    async def on_custom_event(self, name, data, *, run_id, **kwargs):
        self.told.append((name, run_id))


async def test_an_async_handler_is_told_once_of_sync_and_async_retrievals(retriever, question):
    for way in ("sync", "async"):
        handler = Handler()
        if way == "sync":  # inside a running loop
            retriever.invoke(question, {"callbacks": [handler]})
        else:
            await retriever.ainvoke(question, {"callbacks": [handler]})
        assert [what for what, _ in handler.told] == ["start", "llm", "hipporag_retrieval", "end"]
        assert len({run for _, run in handler.told}) == 1


async def test_an_async_handler_is_told_once_of_an_error(retriever):
    handler, ahandler = Handler(), Handler()
    with pytest.raises(InputError):
        retriever.invoke(" ", {"callbacks": [handler]})
    with pytest.raises(InputError):
        await retriever.ainvoke(" ", {"callbacks": [ahandler]})
    for one in (handler, ahandler):
        assert [what for what, _ in one.told] == ["start", "error"]


async def test_a_sync_retrieval_inside_an_async_chain_is_traced_once_under_it(
    retriever, question, tracer
):
    async def step(query):
        return retriever.invoke(query)

    await RunnableLambda(step).ainvoke(question, {"callbacks": [tracer]})
    (root,) = tracer.roots
    (run,) = root.child_runs
    assert (run.run_type, run.parent_run_id) == ("retriever", root.id)
    assert [(call.run_type, call.parent_run_id) for call in run.child_runs] == [("llm", run.id)]
    assert tracer.counts == {"start": 1, "end": 1}


async def test_retrievals_at_once_have_each_its_own_calls(retriever, question, tracer):
    queries = [f"{question} {n}" for n in range(20)]
    await asyncio.gather(*(retriever.ainvoke(query, {"callbacks": [tracer]}) for query in queries))
    assert sorted(root.inputs["query"] for root in tracer.roots) == sorted(queries)
    for root in tracer.roots:
        (call,) = root.child_runs
        assert root.inputs["query"] in str(call.inputs)


@pytest.mark.parametrize("on_failure", ["go_on", "raise"])
async def test_a_failed_call_ends_once_and_so_does_the_retrieval(
    chat_of, core_chat, embeddings, documents, question, closing, tracer, on_failure
):
    def reply(messages):
        if question in messages[-1].content:
            raise ValueError("no such model")
        return core_chat.complete(messages)

    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents[:2],
            llm=chat_of(ScriptedChatModel(reply)),
            embeddings=embeddings,
            config=HippoConfig(on_failure=on_failure),
        )
    )
    if on_failure == "raise":
        with pytest.raises(ModelError, match="no such model"):
            await retriever.ainvoke(question, {"callbacks": [tracer]})
        assert tracer.counts == {"start": 1, "error": 1}
    else:
        assert await retriever.ainvoke(question, {"callbacks": [tracer]})
        assert tracer.counts == {"start": 1, "end": 1}
    (root,) = tracer.roots
    assert ["no such model" in call.error for call in root.child_runs] == [True]


# -- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadatas", [None, [{"n": 0}, {"n": 1}]])
async def test_texts_may_come_out_of_a_slow_loader(chat, embeddings, closing, metadatas, heart):
    def loader():
        for n in range(2):
            heart.sleep()
            yield f"Text {n}."

    async with heart:
        retriever = closing(
            await HippoRAGRetriever.afrom_texts(
                loader(), metadatas=metadatas, llm=chat, embeddings=embeddings
            )
        )
    assert len(retriever.hippo) == 2
    heart.assert_never_stopped()


async def test_an_encoder_that_is_at_its_end_holds_nobody_up(empty):
    encoding = empty.model_copy(update={"metadata_encoder": lambda _: next(iter(()))})
    document = Document(page_content="Hippos swim.", metadata={"of": {1}})
    with pytest.raises(RuntimeError, match="StopIteration"):
        await encoding.aadd_documents([document])


async def test_one_id_is_no_list_of_ids(empty, documents):
    with pytest.raises(InputError, match="put it in a list"):
        empty.add_documents(documents[:2], ids="ab")
    with pytest.raises(InputError, match="put it in a list"):
        await empty.aadd_documents(documents[:2], ids="ab")

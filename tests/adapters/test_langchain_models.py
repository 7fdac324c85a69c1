"""LangChain's models behind the core's ports, whatever is wrapped around them."""

import asyncio

import numpy as np
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField, RunnableLambda

from hippo_core import (
    ChatModel,
    Completion,
    Embedder,
    HippoRAG,
    IndexingError,
    Message,
    PermanentModelError,
    TokenUsage,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from langchain_hipporag import HippoRAGRetriever, LangChainChatModel, LangChainEmbedder

PROMPT = [Message("system", "Be brief."), Message("user", "Hi?"), Message("assistant", "Hm?")]


def replying(**message):
    return LangChainChatModel(RunnableLambda(lambda _: AIMessage(**message)))


def failing(_):
    raise RuntimeError("down")


# -- every Runnable --------------------------------------------------------------------------------

PLACEHOLDER = ChatPromptTemplate.from_messages([MessagesPlaceholder("messages")])

WRAPPED = {
    "chat model": lambda chat: chat,
    "bind": lambda chat: chat.bind(stop=["\n\n\n"]),
    "with_retry": lambda chat: chat.with_retry(),
    "with_fallbacks": lambda chat: chat.with_fallbacks([chat]),
    "fallback": lambda chat: RunnableLambda(failing).with_fallbacks([chat]),
    "with_config": lambda chat: chat.with_config(tags=["x"]),
    "all of them": lambda chat: (
        chat.bind(stop=["x"]).with_retry().with_fallbacks([chat]).with_config(tags=["x"])
    ),
    "configurable_fields": lambda chat: chat.configurable_fields(model=ConfigurableField(id="m")),
    "prompt | chat model": lambda chat: PLACEHOLDER | chat,
    "chat model | parser": lambda chat: chat | StrOutputParser(),
    "lambda": lambda chat: RunnableLambda(lambda messages: chat.invoke(messages)),
    "lambda with a twin": lambda chat: RunnableLambda(chat.invoke, afunc=chat.ainvoke),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
async def test_any_runnable_serves_as_llm(
    wrap, chat, embeddings, documents, question, closing, tracer
):
    retriever = closing(
        HippoRAGRetriever.from_documents(documents[:2], llm=wrap(chat), embeddings=embeddings, k=1)
    )
    await retriever.aadd_documents(documents[2:])
    (found,) = retriever.invoke(question, {"callbacks": [tracer]})
    assert [found] == await retriever.ainvoke(question, {"callbacks": [tracer]})
    assert [told["path"] for _, told in tracer.events] == ["graph", "graph"]
    assert retriever.hippo.stats().by_status == {"ok": 6}
    for root in tracer.roots:
        assert "llm" in kinds_below(root)


def kinds_below(run):
    return {kind for child in run.child_runs for kind in {child.run_type} | kinds_below(child)}


async def test_a_plain_llm_serves_too():
    model = LangChainChatModel(FakeListLLM(responses=["a", "b"]))
    assert model.complete(PROMPT) == Completion("a")
    assert await model.acomplete(PROMPT) == Completion("b")


def test_messages_arrive_as_langchains():
    seen = []
    model = LangChainChatModel(RunnableLambda(lambda messages: seen.extend(messages) or "ok"))
    model.complete(PROMPT)
    assert seen == [SystemMessage("Be brief."), HumanMessage("Hi?"), AIMessage("Hm?")]


async def test_async_calls_take_the_async_way():
    def never(_):
        raise AssertionError("the sync way")

    async def answer(_):
        await asyncio.sleep(0)
        return "async"

    model = LangChainChatModel(RunnableLambda(never, afunc=answer))
    assert (await model.acomplete(PROMPT)).text == "async"


@pytest.mark.parametrize("output", [{"raw": 1}, None, ["a"], 7])
async def test_what_is_no_text_is_refused_with_the_fix(output):
    model = LangChainChatModel(RunnableLambda(lambda _: output))
    with pytest.raises(TypeError, match=f"got {type(output).__name__}; .*with_structured_output"):
        model.complete(PROMPT)
    with pytest.raises(TypeError, match="with_structured_output"):
        await model.acomplete(PROMPT)


def test_adding_documents_names_the_parser_behind_the_model(chat, embeddings, documents, closing):
    retriever = closing(
        HippoRAGRetriever.from_models(llm=chat | JsonOutputParser(), embeddings=embeddings)
    )
    with pytest.raises(IndexingError, match="without with_structured_output"):
        retriever.add_documents(documents)


# -- replies ---------------------------------------------------------------------------------------


def test_text_is_taken_out_of_content_blocks():
    blocks = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": '{"keep": '},
        {"type": "text", "text": "[1]}"},
    ]
    text = replying(content=blocks).complete(PROMPT).text
    assert text == '{"keep": [1]}'
    assert type(text) is str


def test_usage_is_what_the_model_says():
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert replying(content="a", usage_metadata=usage).complete(PROMPT).usage == TokenUsage(7, 3)
    assert replying(content="a").complete(PROMPT).usage is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "model_length"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"stop_reason": "end_turn"}, "end_turn"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"done_reason": "length"}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"finish_reason": None, "incomplete_details": None, "stop_reason": "x"}, "x"),
        ({}, None),
    ],
)
def test_the_finish_reason_is_read_for_every_provider(said, reason):
    reply = replying(content="a", response_metadata=said).complete(PROMPT)
    assert reply.finish_reason == reason


def test_a_reply_out_of_langchains_cache_is_marked(chat_of):
    cached = chat_of(ScriptedChatModel(["once"]), cache=InMemoryCache())
    model = LangChainChatModel(cached)
    first, second = model.complete(PROMPT), model.complete(PROMPT)
    assert (first.text, first.cached) == ("once", False)
    assert (second.text, second.cached) == ("once", True)


def test_errors_of_the_model_pass_through():
    with pytest.raises(RuntimeError, match="down"):
        LangChainChatModel(RunnableLambda(failing)).complete(PROMPT)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, TokenUsage(7, 3)),
        (None, None),
    ],
)
async def test_a_cut_reply_to_a_bound_schema_is_kept_though_openais_sdk_raises(usage, tokens):
    openai = pytest.importorskip("openai")
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": '{"triples": [["a", "b", "c"], ["d'}
    reply = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
        "usage": usage,
    }

    def cut(_):
        raise openai.LengthFinishReasonError(completion=ChatCompletion.model_validate(reply))

    model = LangChainChatModel(RunnableLambda(cut))
    kept = Completion(message["content"], tokens, "length")
    assert model.complete(PROMPT) == await model.acomplete(PROMPT) == kept


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_the_name_is_found_through_the_wrappers(wrap, chat):
    name = LangChainChatModel(wrap(chat)).name
    bare = {"lambda", "lambda with a twin", "fallback"}
    expected = {WRAPPED[key]: "Runnable" for key in bare}.get(wrap, "stand-in")
    assert name.startswith(expected)


def test_a_model_without_a_name_has_its_classs():
    model = GenericFakeChatModel(messages=iter([]))
    assert LangChainChatModel(model).name == "GenericFakeChatModel"


class Embedding(Embeddings):
    """Counts which method was asked for what."""

    model_name = "small"

    def __init__(self):
        self.asked = []

    def embed_documents(self, texts):
        self.asked.append(("documents", texts))
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text):
        self.asked.append(("query", text))
        return [0.0, 1.0]


class AsyncEmbedding(Embedding):
    async def aembed_documents(self, texts):
        self.asked.append(("async documents", texts))
        return [[1.0, 0.0] for _ in texts]

    async def aembed_query(self, text):
        self.asked.append(("async query", text))
        return [0.0, 1.0]


def test_embeddings_are_named_by_class_and_model(embeddings):
    class Cached(Embedding):
        underlying_embeddings = Embedding()

    class Nameless(Embedding):
        model_name = None

    assert LangChainEmbedder(Embedding()).name == "Embedding small"
    assert LangChainEmbedder(Cached()).name == "Embedding small"
    assert LangChainEmbedder(Nameless()).name == "Nameless"


# -- embeddings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["passage", "phrase", "triple"])
def test_what_is_stored_is_embedded_as_documents(kind):
    embeddings = Embedding()
    rows = LangChainEmbedder(embeddings).embed(("a", "b"), kind)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 0], [1, 0]]
    assert embeddings.asked == [("documents", ["a", "b"])]


@pytest.mark.parametrize("kind", ["query_to_passage", "query_to_triple", "query_to_phrase"])
def test_what_is_asked_is_embedded_as_queries(kind):
    embeddings = Embedding()
    assert LangChainEmbedder(embeddings).embed(["a", "b"], kind).tolist() == [[0, 1], [0, 1]]
    assert embeddings.asked == [("query", "a"), ("query", "b")]


async def test_embedding_is_async_where_langchain_is():
    embeddings = AsyncEmbedding()
    model = LangChainEmbedder(embeddings)
    assert (await model.aembed(["a"], "phrase")).tolist() == [[1, 0]]
    assert (await model.aembed(["a"], "query_to_phrase")).tolist() == [[0, 1]]
    assert embeddings.asked == [("async documents", ["a"]), ("async query", "a")]


def test_a_query_is_embedded_once(chat, documents, question, embeddings, closing):
    class Counting(type(embeddings)):
        queries = 0

        def embed_query(self, text):
            type(self).queries += 1
            return super().embed_query(text)

    retriever = closing(
        HippoRAGRetriever.from_documents(documents, llm=chat, embeddings=Counting())
    )
    retriever.invoke(question)
    assert Counting.queries == 1


def test_embeddings_that_give_no_matrix_are_an_error(chat, documents, closing):
    class Ragged(Embedding):
        def embed_documents(self, texts):
            return [[1.0] * (1 + n % 2) for n, _ in enumerate(texts)]

    retriever = closing(HippoRAGRetriever.from_models(llm=chat, embeddings=Ragged()))
    with pytest.raises(PermanentModelError):
        retriever.add_documents(documents)
    assert not len(retriever.hippo)


# -- ports -----------------------------------------------------------------------------------------


def test_both_are_ports(chat, embeddings):
    assert isinstance(LangChainChatModel(chat), ChatModel)
    assert isinstance(LangChainEmbedder(embeddings), Embedder)


@pytest.mark.parametrize("wrong", ["gpt", None, 3, GenericFakeChatModel])
def test_what_is_no_runnable_is_refused(wrong):
    with pytest.raises(TypeError, match="llm must be"):
        LangChainChatModel(wrong)


@pytest.mark.parametrize("wrong", ["small", None, Embedding])
def test_what_is_no_embeddings_is_refused(wrong):
    with pytest.raises(TypeError, match="embeddings must be"):
        LangChainEmbedder(wrong)


# -- streams ---------------------------------------------------------------------------------------


async def test_a_chat_model_streams_and_its_chunks_are_one_reply(tracer):
    chunks = [
        AIMessageChunk("The ", usage_metadata=tokens(7, 0)),
        AIMessageChunk("Unstrut.", response_metadata={"finish_reason": "stop"}),
        AIMessageChunk("", usage_metadata=tokens(0, 3)),
    ]

    class Chunked(GenericFakeChatModel):
        def _stream(self, *args, **kwargs):
            for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    model = LangChainChatModel(Chunked(messages=iter([])), [tracer])
    asked = [Message("user", "Which river?")]
    said = list(model.stream(asked))
    assert "".join(piece.text for piece in said) == "The Unstrut."
    assert said[-1].usage == TokenUsage(7, 3)
    assert [piece async for piece in model.astream(asked)] == said
    assert len(tracer.roots) == 2


async def test_a_chat_model_that_streams_not_is_asked_whole(core_chat, chat_of, documents):
    chat = chat_of(ScriptedChatModel(lambda _: "Answer: the Unstrut [1]"))
    with HippoRAG(LangChainChatModel(chat), HashEmbedder(), openie=TableOpenIE()) as memory:
        memory.add([document.page_content for document in documents])
        assert "".join(memory.stream("Which river?")).endswith("the Unstrut [1]")
        stream = memory.astream("Which river?")
        assert "".join([piece async for piece in stream]).endswith("the Unstrut [1]")
        assert stream.answer.text == "the Unstrut"


def tokens(input_tokens, output_tokens):
    total = input_tokens + output_tokens
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": total}

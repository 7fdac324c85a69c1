"""LlamaIndex's models behind the core's ports, chat models and such as only complete text."""

import asyncio
import threading
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llama_index.core import MockEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM, MockLLM

from hippo_core import (
    ChatModel,
    Completion,
    Embedder,
    HippoRAG,
    Message,
    PermanentModelError,
    TokenUsage,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from llama_index_hipporag import LlamaIndexChatModel, LlamaIndexEmbedder
from llama_index_hipporag._models import as_chat_model, as_embedder

PROMPT = [Message("system", "Be brief."), Message("user", "Hi?"), Message("assistant", "Hm?")]


class Chat(CustomLLM):
    """A chat model that gives one response, and keeps what it was asked and in which thread."""

    response: Any = None
    named: str = "stand-in"
    system_role: MessageRole = MessageRole.SYSTEM
    is_chat_model: bool = True
    asked: list[Any] = []
    threads: list[str] = []

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name=self.named, is_chat_model=self.is_chat_model, system_role=self.system_role
        )

    def _respond(self, asked: Any) -> Any:
        self.asked.append(asked)
        self.threads.append(threading.current_thread().name)
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        return self._respond(messages)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        assert formatted
        return self._respond(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class AsyncChat(Chat):
    """One that has an async way of its own."""

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self._respond(("async", messages))


def chat_response(blocks="a", *, raw=None, **additional):
    message = ChatMessage(role=MessageRole.ASSISTANT, content=blocks)
    return ChatResponse(message=message, raw=raw, additional_kwargs=additional)


def replying(blocks="a", *, raw=None, **additional):
    response = chat_response(blocks, raw=raw, **additional)
    return LlamaIndexChatModel(Chat(response=response, asked=[], threads=[]))


def as_objects(raw):
    """Give what an SDK makes of a reply: objects with fields in place of dicts."""
    if isinstance(raw, dict):
        return SimpleNamespace(**{key: as_objects(value) for key, value in raw.items()})
    return [as_objects(item) for item in raw] if isinstance(raw, list) else raw


SHAPES = pytest.mark.parametrize("shape", [dict, as_objects], ids=["dict", "object"])


# -- every LLM -------------------------------------------------------------------------------------


def test_messages_arrive_as_llama_indexs():
    model = replying()
    model.complete(PROMPT)
    (asked,) = model.llm.asked
    assert [(m.role.value, m.content) for m in asked] == PROMPT


def test_the_system_message_has_the_role_that_the_model_wants():
    llm = Chat(response=chat_response(), system_role=MessageRole.DEVELOPER, asked=[], threads=[])
    LlamaIndexChatModel(llm).complete(PROMPT)
    assert [m.role.value for m in llm.asked[0]] == ["developer", "user", "assistant"]


async def test_a_model_that_only_completes_gets_the_messages_as_llama_index_writes_them():
    response = CompletionResponse(text="a", raw={"choices": [{"finish_reason": "length"}]})
    llm = Chat(response=response, is_chat_model=False, asked=[], threads=[])
    model = LlamaIndexChatModel(llm)
    assert model.complete(PROMPT) == Completion("a", finish_reason="length")
    assert await model.acomplete(PROMPT) == Completion("a", finish_reason="length")
    messages = [ChatMessage(role=m.role, content=m.content) for m in PROMPT]
    assert llm.asked == [llm.messages_to_prompt(messages)] * 2
    assert llm.asked[0].startswith("system: Be brief.\nuser: Hi?\n")


def test_a_template_of_the_models_own_writes_the_prompt():
    def template(messages):
        return "|".join(message.content for message in messages)

    llm = MockLLM(messages_to_prompt=template)  # it answers with its prompt
    assert LlamaIndexChatModel(llm).complete(PROMPT).text == "Be brief.|Hi?|Hm?"


async def test_async_calls_take_the_async_way():
    llm = AsyncChat(response=chat_response(), asked=[], threads=[])
    assert (await LlamaIndexChatModel(llm).acomplete(PROMPT)).text == "a"
    assert llm.asked[0][0] == "async"


@pytest.mark.parametrize("is_chat_model", [True, False])
async def test_a_model_without_an_async_way_does_not_block_the_event_loop(is_chat_model):
    response = chat_response() if is_chat_model else CompletionResponse(text="a")
    llm = Chat(response=response, is_chat_model=is_chat_model, asked=[], threads=[])
    assert (await LlamaIndexChatModel(llm).acomplete(PROMPT)).text == "a"
    assert llm.threads != [threading.current_thread().name]


async def test_errors_of_the_model_pass_through():
    model = LlamaIndexChatModel(Chat(response=RuntimeError("down"), asked=[], threads=[]))
    with pytest.raises(RuntimeError, match="down"):
        model.complete(PROMPT)
    with pytest.raises(RuntimeError, match="down"):
        await model.acomplete(PROMPT)


async def test_a_memory_reads_and_answers_with_llama_indexs_models(core_chat, nodes, question):
    class Asking(Chat):
        core: Any

        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            asked = [Message(m.role.value, m.content) for m in messages]
            return chat_response(self.core.complete(asked).text)

    chat, embedder = LlamaIndexChatModel(Asking(core=core_chat)), LlamaIndexEmbedder(Words())
    with HippoRAG(chat, embedder) as memory:
        memory.add([node.text for node in nodes[:3]])
        await memory.aadd([node.text for node in nodes[3:]])
        assert memory.stats().by_status == {"ok": 6}
        assert memory.retrieve(question).passages == (await memory.aretrieve(question)).passages


# -- replies ---------------------------------------------------------------------------------------


def test_text_is_taken_out_of_content_blocks_and_put_together_as_it_was():
    blocks = [ThinkingBlock(content="hm"), TextBlock(text='{"kee'), TextBlock(text='p": [1]}')]
    assert replying(blocks).complete(PROMPT).text == '{"keep": [1]}'


def test_a_reply_without_text_is_empty():
    assert replying([]).complete(PROMPT).text == ""


@SHAPES
@pytest.mark.parametrize(
    "raw",
    [
        {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}},
        {"usage": {"input_tokens": 7, "output_tokens": 3}},
        {"usage": {"inputTokens": 7, "outputTokens": 3}},
        {"usage_metadata": {"prompt_token_count": 7, "candidates_token_count": 3}},
        {"usage": None, "usage_metadata": {"input_tokens": 7, "output_tokens": 3}},
    ],
)
def test_usage_is_what_the_model_says(raw, shape):
    assert replying(raw=shape(raw)).complete(PROMPT).usage == TokenUsage(7, 3)


def test_usage_is_read_where_llama_index_puts_it():
    usage = replying(prompt_tokens=7, completion_tokens=3).complete(PROMPT).usage
    assert usage == TokenUsage(7, 3)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": 7}},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
        "text",
    ],
)
def test_usage_that_is_not_reported_is_left_to_the_core_to_estimate(raw):
    assert replying(raw=raw).complete(PROMPT).usage is None


class Reason(Enum):
    MAX_TOKENS = 2


@SHAPES
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"choices": [{"finish_reason": "stop"}]}, "stop"),
        ({"choices": [{"finish_reason": "length"}]}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "model_length"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"candidates": [{"finish_reason": Reason.MAX_TOKENS}]}, "length"),
        ({"stop_reason": "end_turn"}, "end_turn"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stopReason": "max_tokens"}, "length"),
        ({"done_reason": "length"}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"finish_reason": None, "incomplete_details": None, "stop_reason": "x"}, "x"),
        ({"choices": []}, None),
        ({}, None),
    ],
)
def test_the_finish_reason_is_read_for_every_provider(raw, shape, reason):
    assert replying(raw=shape(raw)).complete(PROMPT).finish_reason == reason


# -- names -----------------------------------------------------------------------------------------


def test_a_model_has_its_own_name_or_its_classs():
    assert LlamaIndexChatModel(Chat(named="small")).name == "small"
    assert LlamaIndexChatModel(MockLLM()).name == "MockLLM"


def test_embeddings_are_named_by_class_and_model():
    assert LlamaIndexEmbedder(Words()).name == "Words small"
    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=2)).name == "MockEmbedding"


def test_a_key_that_llama_index_would_print_is_not_printed():
    class Paid(MockLLM):
        api_key: str = "sk-do-not-show-me"

    assert "do-not-show-me" in repr(Paid())
    assert repr(LlamaIndexChatModel(Paid())) == "LlamaIndexChatModel()"
    assert repr(LlamaIndexEmbedder(Words())) == "LlamaIndexEmbedder()"


# -- embeddings ------------------------------------------------------------------------------------


class Words(BaseEmbedding):
    """Texts that share words are near; counts which method was asked for what."""

    model_name: str = "small"
    embed_batch_size: int = 2
    asked: list[Any] = []
    threads: list[str] = []

    def __init__(self, **fields: Any) -> None:
        super().__init__(**{"asked": [], "threads": [], **fields})

    def _rows(self, method: str, texts: list[str]) -> list[list[float]]:
        self.asked.append((method, *texts))
        self.threads.append(threading.current_thread().name)
        return HashEmbedder().embed(texts, "passage").tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._rows("text", [text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._rows("texts", texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._rows("query", [query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._rows("async query", [query])[0]


class AsyncWords(Words):
    """One that has an async way for texts too, and says how many calls were under way at once."""

    under_way: int = 0
    most: int = 0

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return self._rows("async texts", texts)


@pytest.mark.parametrize("kind", ["passage", "phrase", "triple"])
def test_what_is_stored_is_embedded_as_texts_in_batches_of_the_model(kind):
    embeddings = Words()
    rows = LlamaIndexEmbedder(embeddings).embed(("a", "b", "c"), kind)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, HashEmbedder().embed(["a", "b", "c"], kind))
    assert embeddings.asked == [("texts", "a", "b"), ("texts", "c")]


@pytest.mark.parametrize("kind", ["query_to_passage", "query_to_triple", "query_to_phrase"])
async def test_what_is_asked_is_embedded_as_queries(kind):
    embeddings = Words()
    model = LlamaIndexEmbedder(embeddings)
    rows = model.embed(["a", "b"], kind)
    assert np.array_equal(rows, await model.aembed(["a", "b"], kind))
    assert rows.shape[0] == 2
    assert embeddings.asked == [
        ("query", "a"),
        ("query", "b"),
        ("async query", "a"),
        ("async query", "b"),
    ]


async def test_embedding_is_async_where_the_model_is_one_batch_after_the_other():
    embeddings = AsyncWords()
    rows = await LlamaIndexEmbedder(embeddings).aembed(list("abcde"), "phrase")
    assert np.array_equal(rows, HashEmbedder().embed(list("abcde"), "phrase"))
    assert [method for method, *_ in embeddings.asked] == ["async texts"] * 3
    assert embeddings.most == 1


async def test_embeddings_without_an_async_way_do_not_block_the_event_loop():
    embeddings = Words()
    rows = await LlamaIndexEmbedder(embeddings).aembed(list("abc"), "phrase")
    assert np.array_equal(rows, HashEmbedder().embed(list("abc"), "phrase"))
    assert threading.current_thread().name not in embeddings.threads


@pytest.mark.parametrize("embeddings", [Words, AsyncWords])
async def test_nothing_to_embed_is_no_call(embeddings):
    model = LlamaIndexEmbedder(embeddings())
    assert not model.embed([], "passage").size
    assert not (await model.aembed([], "passage")).size
    assert not model.embed_model.asked


@pytest.mark.parametrize("embeddings", [Words, AsyncWords])
async def test_llama_indexs_callbacks_see_each_batch_and_no_bar_is_drawn(embeddings, capfd):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    model = LlamaIndexEmbedder(embeddings(callback_manager=CallbackManager([handler])))
    model.embed(list("abc"), "passage")
    await model.aembed(list("abc"), "passage")
    await model.aembed(["a"], "query_to_passage")
    assert len(handler.get_event_pairs()) == 5
    assert capfd.readouterr() == ("", "")


def test_embeddings_that_give_no_matrix_are_an_error(nodes):
    class Ragged(Words):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] * (1 + n % 2) for n, _ in enumerate(texts)]

    chat = ScriptedChatModel(lambda _: '{"named_entities": ["a"], "triples": [["a", "b", "c"]]}')
    with HippoRAG(chat, LlamaIndexEmbedder(Ragged())) as memory:
        with pytest.raises(PermanentModelError):
            memory.add([node.text for node in nodes])
        assert not len(memory)


# -- ports -----------------------------------------------------------------------------------------


def test_both_are_ports():
    assert isinstance(LlamaIndexChatModel(MockLLM()), ChatModel)
    assert isinstance(LlamaIndexEmbedder(Words()), Embedder)


def test_whatever_a_user_may_pass_becomes_a_port():
    scripted, hashed = ScriptedChatModel([]), HashEmbedder()
    assert as_chat_model(None) is None
    assert as_chat_model(scripted) is scripted
    assert isinstance(as_chat_model(MockLLM()), LlamaIndexChatModel)
    assert as_embedder(hashed) is hashed
    assert isinstance(as_embedder(Words()), LlamaIndexEmbedder)


@pytest.mark.parametrize("wrong", ["gpt", 3, MockLLM, Words()])
def test_what_is_no_llm_is_refused(wrong):
    with pytest.raises(TypeError, match="llm must be"):
        LlamaIndexChatModel(wrong)
    with pytest.raises(TypeError, match="llm must be"):
        as_chat_model(wrong)


@pytest.mark.parametrize("wrong", ["small", None, Words, MockLLM()])
def test_what_is_no_embedding_model_is_refused(wrong):
    with pytest.raises(TypeError, match="embed_model must be"):
        LlamaIndexEmbedder(wrong)
    with pytest.raises(TypeError, match="embed_model must be"):
        as_embedder(wrong)


async def test_an_llm_at_its_replies_end_raises_and_holds_nobody_up():
    class Ending(Chat):
        def chat(self, messages, **kwargs):
            return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(LlamaIndexChatModel(Ending()).acomplete([Message("user", "?")]), 10)


# -- streams ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chats", [True, False])
async def test_an_llm_streams(chats):
    class Streaming(MockLLM):
        @property
        def metadata(self):
            return LLMMetadata(is_chat_model=chats)

    model = LlamaIndexChatModel(Streaming(max_tokens=3))
    asked = [Message("user", "Which river?")]
    said = [piece.text for piece in model.stream(asked)]
    assert "".join(said).split() == ["text"] * 3
    assert len([piece for piece in said if piece.strip()]) == 3
    assert [piece.text async for piece in model.astream(asked)] == said


async def test_an_llm_that_streams_not_is_asked_whole(llama_chat_of, nodes):
    chat = llama_chat_of(ScriptedChatModel(lambda _: "Answer: the Unstrut [1]"))
    with HippoRAG(LlamaIndexChatModel(chat), HashEmbedder(), openie=TableOpenIE()) as memory:
        memory.add([node.text for node in nodes])
        assert list(memory.stream("Which river?")) == ["Answer: the Unstrut [1]"]
        stream = memory.astream("Which river?")
        assert [piece async for piece in stream] == ["Answer: the Unstrut [1]"]
        assert stream.answer.text == "the Unstrut"

"""LangChain's models as the core's ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from numpy.typing import NDArray

from hippo_core import ChatModel, Completion, Embedder, Kind, Message, TokenUsage
from langchain_hipporag._threads import each_in_thread, in_thread, only_calls

_MESSAGES = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_SYNC = {"_generate", "embed_query", "embed_documents"}
_NAMED_BY = ("model", "model_name", "model_id")
_FINISHED_BY = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_CUT = (
    "length",
    "max_tokens",
    "max_output_tokens",
    "model_length",  # Mistral's, where prompt and reply together are too long; and Anthropic's
    "model_context_window_exceeded",
)


@dataclass(frozen=True, eq=False)
class LangChainChatModel:
    """Any Runnable that takes messages and gives a message or a str, as the core's ChatModel.

    A chat model, one with `.bind()`, `.with_retry()`, `.with_fallbacks()` or `.with_config()`
    around it, a RunnableLambda, `prompt | model`, or an LLM. A chat model whose `_agenerate` only
    calls its `_generate` is asked in a thread.

    Args:
        runnable: The model.
        callbacks: Handlers, or the manager of a run whose children the model's runs become. None:
            the model's runs belong to whatever run is going on around them.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> LangChainChatModel(FakeListChatModel(responses=["Hi!"])).complete([Message("user", "Hi?")])
    Completion(text='Hi!', usage=None, finish_reason=None, cached=False)
    """

    runnable: Runnable[Any, Any]
    callbacks: Callbacks = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.runnable, Runnable):
            raise TypeError(_not_a_model(self.runnable))

    @property
    def name(self) -> str:
        """The model's own name, where it has one."""
        return model_name(self.runnable) or type(self.runnable).__name__

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        try:
            output = self.runnable.invoke(_messages(messages), self._config())
        except Exception as error:
            if (cut := _cut_reply(error)) is None:
                raise
            return cut
        return _completion(output)

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt without blocking the event loop."""
        if _blocks(self.runnable):
            return await in_thread(self.complete, messages)
        try:
            output = await self.runnable.ainvoke(_messages(messages), self._config())
        except Exception as error:
            if (cut := _cut_reply(error)) is None:
                raise
            return cut
        return _completion(output)

    def stream(self, messages: Sequence[Message]) -> Iterator[Completion]:
        """Answer a prompt piece by piece."""
        usage: TokenUsage | None = None
        for chunk in self.runnable.stream(_messages(messages), self._config()):
            piece = _completion(chunk)
            usage = _added(usage, piece.usage)
            yield replace(piece, usage=usage)

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[Completion]:
        """Answer a prompt piece by piece without blocking the event loop."""
        if _blocks(self.runnable):
            async for piece in each_in_thread(self.stream(messages)):
                yield piece
            return
        usage: TokenUsage | None = None
        async for chunk in self.runnable.astream(_messages(messages), self._config()):
            piece = _completion(chunk)
            usage = _added(usage, piece.usage)
            yield replace(piece, usage=usage)

    def _config(self) -> RunnableConfig | None:
        return None if self.callbacks is None else {"callbacks": self.callbacks}


@dataclass(frozen=True, eq=False)
class LangChainEmbedder:
    """LangChain's Embeddings as the core's Embedder.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> LangChainEmbedder(DeterministicFakeEmbedding(size=8)).embed(["a", "b"], "passage").shape
    (2, 8)
    """

    embeddings: Embeddings

    one_query_encoding = True  # embed_query knows nothing of what a query is compared with

    def __post_init__(self) -> None:
        if not isinstance(self.embeddings, Embeddings):
            raise TypeError(_not_embeddings(self.embeddings))

    @property
    def name(self) -> str:
        """Class and model of the embeddings, those inside a cache."""
        inner = self.innermost
        return " ".join(filter(None, (type(inner).__name__, model_name(inner))))

    @property
    def innermost(self) -> Embeddings:
        """The embeddings inside a cache, or the embeddings themselves."""
        return getattr(self.embeddings, "underlying_embeddings", self.embeddings)

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d)."""
        if kind.startswith("query"):
            rows = [self.embeddings.embed_query(text) for text in texts]
        else:
            rows = self.embeddings.embed_documents(list(texts))
        return np.asarray(rows, dtype=np.float32)

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d), without blocking the event loop."""
        way = "aembed_query" if kind.startswith("query") else "aembed_documents"
        if only_calls(getattr(type(self.embeddings), way, None), _SYNC):
            return await in_thread(self.embed, texts, kind)
        if kind.startswith("query"):
            rows = [await self.embeddings.aembed_query(text) for text in texts]
        else:
            rows = await self.embeddings.aembed_documents(list(texts))
        return np.asarray(rows, dtype=np.float32)


def as_chat_model(llm: Runnable[Any, Any] | ChatModel | None) -> ChatModel | None:
    """Give the core's ChatModel for whatever a user may pass as `llm`.

    Raises:
        TypeError: It is neither a Runnable nor a ChatModel.
    """
    if llm is None or (not isinstance(llm, type | Runnable) and isinstance(llm, ChatModel)):
        return llm
    return LangChainChatModel(llm)  # which checks it


def as_embedder(embeddings: Embeddings | Embedder) -> Embedder:
    """Give the core's Embedder for whatever a user may pass as `embeddings`.

    Raises:
        TypeError: It is neither Embeddings nor an Embedder.
    """
    if not isinstance(embeddings, type | Embeddings) and isinstance(embeddings, Embedder):
        return embeddings
    return LangChainEmbedder(embeddings)  # which checks it


def model_name(model: object) -> str:
    """Give the name that a model, or the first one inside its wrappers, has; empty if none has."""
    for inner in _inside(model):
        # A wrapper passes attributes through, and may fail at it: ask what is inside.
        if name := model_name(inner):
            return name
    if isinstance(model, RunnableBindingBase | RunnableWithFallbacks | DynamicRunnable):
        return ""
    names = (getattr(model, attribute, None) for attribute in _NAMED_BY)
    return next((name for name in names if isinstance(name, str) and name), "")


def _inside(runnable: object) -> Iterator[object]:
    match runnable:
        case RunnableBindingBase(bound=inner):
            yield inner
        case RunnableWithFallbacks(runnable=inner):
            yield inner
        case DynamicRunnable(default=inner):
            yield inner
        case RunnableSequence(steps=steps):
            yield from reversed(steps)


def _blocks(runnable: object) -> bool:
    """Say whether a chat model's async way calls its sync one in the event loop."""
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return isinstance(runnable, BaseChatModel) and only_calls(type(runnable)._agenerate, _SYNC)


def _added(usage: TokenUsage | None, more: TokenUsage | None) -> TokenUsage | None:
    """Add the tokens of a chunk: some providers tell those of the prompt first, and others last."""
    if usage is None or more is None:
        return usage or more
    return TokenUsage(
        usage.input_tokens + more.input_tokens, usage.output_tokens + more.output_tokens
    )


def _messages(messages: Sequence[Message]) -> list[BaseMessage]:
    return [_MESSAGES[message.role](content=message.content) for message in messages]


def _completion(output: Any) -> Completion:
    if isinstance(output, str):
        return Completion(str(output))
    if not isinstance(output, BaseMessage):
        raise TypeError(
            f"the llm must give a message or a str, got {type(output).__name__}; pass the chat "
            "model itself, without with_structured_output() or a parser behind it"
        )
    usage: dict[str, Any] = getattr(output, "usage_metadata", None) or {}
    counted = "input_tokens" in usage and "output_tokens" in usage
    return Completion(
        text=str(output.text),
        usage=TokenUsage(usage["input_tokens"], usage["output_tokens"]) if counted else None,
        finish_reason=_finish_reason(output.response_metadata),
        cached=usage.get("total_cost") == 0,  # what LangChain's cache sets
    )


def _cut_reply(error: Exception) -> Completion | None:
    """Give the reply for which OpenAI's SDK raises: a schema is bound, and the token limit cut it.

    It was paid for, and what is whole of it is of use.
    """
    reply = getattr(error, "completion", None)
    if type(error).__name__ != "LengthFinishReasonError" or reply is None:
        return None
    usage = reply.usage
    return Completion(
        text=reply.choices[0].message.content or "",
        usage=TokenUsage(usage.prompt_tokens, usage.completion_tokens) if usage else None,
        finish_reason="length",
    )


def _finish_reason(said: dict[str, Any]) -> str | None:
    """Give the reason, by one word for all providers where the token limit cut the reply."""
    incomplete = said.get("incomplete_details") or {}  # OpenAI's Responses API
    reasons = [*(said.get(key) for key in _FINISHED_BY), incomplete.get("reason")]
    reason = next((r for r in reasons if isinstance(r, str) and r), None)
    return "length" if reason is not None and reason.lower() in _CUT else reason


def _not_a_model(llm: object) -> str:
    return (
        f"llm must be a LangChain Runnable, such as a chat model, or a hippo_core ChatModel, got "
        f"{_kind(llm)}; make a chat model of its name with init_chat_model(...)"
    )


def _not_embeddings(embeddings: object) -> str:
    return (
        "embeddings must be LangChain Embeddings or a hippo_core Embedder, got "
        f"{_kind(embeddings)}; make them of a model's name with init_embeddings(...)"
    )


def _kind(thing: object) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__

"""LlamaIndex's models as the core's ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from inspect import unwrap
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.generic_utils import messages_to_prompt
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
    TextBlock,
)
from llama_index.core.llms import LLM, CustomLLM
from numpy.typing import NDArray

from hippo_core import ChatModel, Completion, Embedder, Kind, Message, TokenUsage
from llama_index_hipporag._threads import each_in_thread, in_thread, only_calls

_SYNC = {
    "chat",
    "complete",
    "_get_query_embedding",
    "_get_text_embedding",
    "_get_text_embeddings",
}
_UNNAMED = "unknown"  # LlamaIndex's default for the name of a model
_USAGE = ("usage", "usage_metadata")
_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count", "inputTokens")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count", "outputTokens")
_FINISHED_BY = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_CUT = (
    "length",
    "max_tokens",
    "max_output_tokens",
    "model_length",  # Mistral's, where prompt and reply together are too long; and Anthropic's
    "model_context_window_exceeded",
)


@dataclass(frozen=True, eq=False)
class LlamaIndexChatModel:
    """LlamaIndex's LLM as the core's ChatModel.

    An LLM that only completes text gets the messages as its own `messages_to_prompt` writes them.
    One that has no async way of its own, such as a CustomLLM, is asked in a thread. Set the LLM's
    own `max_retries` to 0.

    >>> from llama_index.core.llms import MockLLM
    >>> LlamaIndexChatModel(MockLLM(max_tokens=2)).complete([Message("user", "Hi?")])
    Completion(text='text text', usage=None, finish_reason=None, cached=False)
    """

    llm: LLM = field(repr=False)  # what LlamaIndex prints of a model may hold its key

    def __post_init__(self) -> None:
        if not isinstance(self.llm, LLM):
            raise TypeError(_not_a_model(self.llm))

    @property
    def name(self) -> str:
        """The model's own name, where it has one."""
        return _named(self.llm.metadata.model_name) or type(self.llm).__name__

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        if self.llm.metadata.is_chat_model:
            return _chat_completion(self.llm.chat(self._messages(messages)))
        return _text_completion(self.llm.complete(self._prompt(messages), formatted=True))

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt without blocking the event loop."""
        chats = self.llm.metadata.is_chat_model
        if _blocks(self.llm, CustomLLM, "achat" if chats else "acomplete"):
            return await in_thread(self.complete, messages)
        if chats:
            return _chat_completion(await self.llm.achat(self._messages(messages)))
        return _text_completion(await self.llm.acomplete(self._prompt(messages), formatted=True))

    def stream(self, messages: Sequence[Message]) -> Iterator[Completion]:
        """Answer a prompt piece by piece."""
        if self.llm.metadata.is_chat_model:
            for said in self.llm.stream_chat(self._messages(messages)):
                yield replace(_chat_completion(said), text=said.delta or "")
            return
        for text in self.llm.stream_complete(self._prompt(messages), formatted=True):
            yield replace(_text_completion(text), text=text.delta or "")

    async def astream(self, messages: Sequence[Message]) -> AsyncIterator[Completion]:
        """Answer a prompt piece by piece without blocking the event loop."""
        chats = self.llm.metadata.is_chat_model
        if _blocks(self.llm, CustomLLM, "astream_chat" if chats else "astream_complete"):
            async for piece in each_in_thread(self.stream(messages)):
                yield piece
        elif chats:
            async for said in await self.llm.astream_chat(self._messages(messages)):
                yield replace(_chat_completion(said), text=said.delta or "")
        else:
            async for text in await self.llm.astream_complete(
                self._prompt(messages), formatted=True
            ):
                yield replace(_text_completion(text), text=text.delta or "")

    def _messages(self, messages: Sequence[Message]) -> list[ChatMessage]:
        roles = {
            "system": self.llm.metadata.system_role,
            "user": MessageRole.USER,
            "assistant": MessageRole.ASSISTANT,
        }
        return [ChatMessage(role=roles[m.role], content=m.content) for m in messages]

    def _prompt(self, messages: Sequence[Message]) -> str:
        write = self.llm.messages_to_prompt or messages_to_prompt
        return write(self._messages(messages))


@dataclass(frozen=True, eq=False)
class LlamaIndexEmbedder:
    """LlamaIndex's embedding model as the core's Embedder.

    A batch goes to the model in parts of its `embed_batch_size`, one after the other. A model whose
    async methods are its sync ones, as local models have them, is asked in a thread. A model with
    an `embeddings_cache` must give one vector of a text, whether it is asked or stored: LlamaIndex
    keeps both under the text alone.

    >>> from llama_index.core.embeddings import MockEmbedding
    >>> LlamaIndexEmbedder(MockEmbedding(embed_dim=8)).embed(["a", "b"], "passage").shape
    (2, 8)
    """

    embed_model: BaseEmbedding = field(repr=False)

    one_query_encoding = True  # get_query_embedding knows nothing of what a query is compared with

    def __post_init__(self) -> None:
        if not isinstance(self.embed_model, BaseEmbedding):
            raise TypeError(_not_an_embed_model(self.embed_model))

    @property
    def name(self) -> str:
        """Class and model of the embeddings."""
        named = _named(self.embed_model.model_name)
        return " ".join(filter(None, (type(self.embed_model).__name__, named)))

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d)."""
        if kind.startswith("query"):
            rows = [self.embed_model.get_query_embedding(text) for text in texts]
        else:
            rows = self.embed_model.get_text_embedding_batch(list(texts))
        return np.asarray(rows, dtype=np.float32)

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d), without blocking the event loop."""
        if _blocks(self.embed_model, BaseEmbedding, self._async_way(kind)):
            return await in_thread(self.embed, texts, kind)
        if kind.startswith("query"):
            rows = [await self.embed_model.aget_query_embedding(text) for text in texts]
        else:
            # One part at a time: given all, LlamaIndex sends all parts at once.
            rows = []
            for part in self._parts(texts):
                rows += await self.embed_model.aget_text_embedding_batch(part)
        return np.asarray(rows, dtype=np.float32)

    def _async_way(self, kind: Kind) -> str:
        if kind.startswith("query"):
            return "_aget_query_embedding"
        batch = "_aget_text_embeddings"  # by default one text at a time
        return (
            "_aget_text_embedding" if _inherits(self.embed_model, BaseEmbedding, batch) else batch
        )

    def _parts(self, texts: Sequence[str]) -> Iterator[list[str]]:
        size = self.embed_model.embed_batch_size
        return (list(texts[i : i + size]) for i in range(0, len(texts), size))


def as_chat_model(llm: LLM | ChatModel | None) -> ChatModel | None:
    """Give the core's ChatModel for whatever a user may pass as `llm`.

    Raises:
        TypeError: It is neither an LLM nor a ChatModel.
    """
    # An LLM has the names of the port's methods too.
    if llm is None or (not isinstance(llm, type | LLM) and isinstance(llm, ChatModel)):
        return llm
    return LlamaIndexChatModel(llm)  # which checks it


def as_embedder(embed_model: BaseEmbedding | Embedder) -> Embedder:
    """Give the core's Embedder for whatever a user may pass as `embed_model`.

    Raises:
        TypeError: It is neither a BaseEmbedding nor an Embedder.
    """
    if not isinstance(embed_model, type | BaseEmbedding) and isinstance(embed_model, Embedder):
        return embed_model
    return LlamaIndexEmbedder(embed_model)  # which checks it


def _named(name: str | None) -> str:
    return "" if name is None or name == _UNNAMED else name


def _blocks(model: object, base: type, method: str) -> bool:
    """Say whether an async method calls a sync one in the event loop, as the base's own does."""
    return _inherits(model, base, method) or only_calls(getattr(type(model), method), _SYNC)


def _inherits(model: object, base: type, method: str) -> bool:
    # LlamaIndex wraps what a class inherits, for its spans.
    return unwrap(getattr(type(model), method)) is unwrap(getattr(base, method))


def _chat_completion(response: ChatResponse) -> Completion:
    # Not message.content: it puts a line break between blocks, and so into a JSON string.
    blocks = response.message.blocks
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return Completion(text, _usage(response), _finish_reason(response.raw))


def _text_completion(response: CompletionResponse) -> Completion:
    return Completion(response.text, _usage(response), _finish_reason(response.raw))


def _usage(response: ChatResponse | CompletionResponse) -> TokenUsage | None:
    """Give the tokens that the model reports: in what it sent, or where LlamaIndex put them."""
    for place in (*(_get(response.raw, key) for key in _USAGE), response.additional_kwargs):
        counts = [
            next((n for n in (_get(place, key) for key in keys) if isinstance(n, int)), None)
            for keys in (_INPUT, _OUTPUT)
        ]
        if counts[0] is not None and counts[1] is not None and any(counts):
            return TokenUsage(counts[0], counts[1])
    return None


def _finish_reason(raw: Any) -> str | None:
    """Give the reason, by one word for all providers where the token limit cut the reply."""
    places = [raw, *(_first(_get(raw, key)) for key in ("choices", "candidates"))]
    said = [_get(place, key) for place in places for key in _FINISHED_BY]
    said.append(_get(_get(raw, "incomplete_details"), "reason"))  # OpenAI's Responses API
    names = (getattr(reason, "name", reason) for reason in said)  # of an enum
    reason = next((name for name in names if isinstance(name, str) and name), None)
    return "length" if reason is not None and reason.lower() in _CUT else reason


def _get(thing: Any, key: str) -> Any:
    """Read a field of a reply: some are dicts, some are objects of the provider's SDK."""
    return thing.get(key) if isinstance(thing, dict) else getattr(thing, key, None)


def _first(things: Any) -> Any:
    return things[0] if isinstance(things, list | tuple) and things else None


def _not_a_model(llm: object) -> str:
    return f"llm must be a LlamaIndex LLM or a hippo_core ChatModel, got {_kind(llm)}"


def _not_an_embed_model(embed_model: object) -> str:
    return (
        "embed_model must be a LlamaIndex BaseEmbedding or a hippo_core Embedder, got "
        f"{_kind(embed_model)}"
    )


def _kind(thing: object) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__

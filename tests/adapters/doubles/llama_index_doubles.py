"""Stand-ins for the models of a LlamaIndex user, and the corpus as its nodes and documents."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from adapter_corpus import CORPUS
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from hippo_core import Message
from hippo_core.testing import HashEmbedder, ScriptedChatModel
from llama_index_hipporag import HippoRAGIndex


class LlamaChat(CustomLLM):
    """A chat model of LlamaIndex that asks one of the core's doubles, async all the way."""

    core: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="stand-in", is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        completion = self.core.complete([Message(m.role.value, m.content) for m in messages])
        return ChatResponse(
            message=ChatMessage(role="assistant", content=completion.text),
            raw={
                "usage": {
                    "prompt_tokens": completion.usage.input_tokens,
                    "completion_tokens": completion.usage.output_tokens,
                }
            },
        )

    @llm_chat_callback()
    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return LlamaChat.chat.__wrapped__(self, messages)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.core.complete([Message("user", prompt)]).text)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class LlamaWords(BaseEmbedding):
    """Texts that share words are near."""

    model_name: str = "words"

    def _get_text_embedding(self, text: str) -> list[float]:
        return HashEmbedder(name="words").embed([text], "passage")[0].tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


@pytest.fixture
def llama_chat(core_chat: ScriptedChatModel) -> LlamaChat:
    return LlamaChat(core=core_chat)


@pytest.fixture
def llama_chat_of() -> Callable[..., LlamaChat]:
    """Make a LlamaIndex chat model of a chat model of the core."""
    return lambda core, **fields: LlamaChat(core=core, **fields)


@pytest.fixture
def words() -> LlamaWords:
    return LlamaWords()


@pytest.fixture
def nodes() -> list[TextNode]:
    """The corpus as nodes, each of a document of its own; the first three answer the question."""
    found = []
    for name, (text, _) in CORPUS.items():
        source = RelatedNodeInfo(node_id=f"{name}.txt", metadata={"tags": [name]})
        node = TextNode(id_=name, text=text, metadata={"file": name, "year": 1870 + len(name)})
        node.relationships = {NodeRelationship.SOURCE: source}
        found.append(node)
    return found


@pytest.fixture
def llama_documents() -> list[LlamaDocument]:
    """The corpus as documents, each of which becomes one node."""
    return [
        LlamaDocument(id_=f"{name}.txt", text=text, metadata={"file": name})
        for name, (text, _) in CORPUS.items()
    ]


@pytest.fixture
def models(llama_chat: LlamaChat, words: LlamaWords) -> dict[str, Any]:
    return {"llm": llama_chat, "embed_model": words}


@pytest.fixture
def llama_empty(models: dict[str, Any], closing: Any) -> HippoRAGIndex:
    return closing(HippoRAGIndex(**models))


@pytest.fixture
def llama(llama_empty: HippoRAGIndex, nodes: list[TextNode]) -> HippoRAGIndex:
    """The corpus, indexed."""
    llama_empty.insert_nodes(nodes)
    return llama_empty

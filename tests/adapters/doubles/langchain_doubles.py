"""Stand-ins for the models of a LangChain user, and the corpus as its documents."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from adapter_corpus import CORPUS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tracers import BaseTracer, Run

from hippo_core import Message
from hippo_core.testing import HashEmbedder, ScriptedChatModel
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever


class Chat(BaseChatModel):
    """A chat model of LangChain that asks one of the core's doubles."""

    core: Any
    model: str = "stand-in"
    seconds: float = 0.0
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        completion = self.core.complete(_core_messages(messages))
        reply = AIMessage(
            content=completion.text,
            usage_metadata={
                "input_tokens": completion.usage.input_tokens,
                "output_tokens": completion.usage.output_tokens,
                "total_tokens": completion.usage.input_tokens + completion.usage.output_tokens,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.seconds)
        self.in_flight -= 1
        return self._generate(messages)


class WordEmbeddings(Embeddings):
    """Texts that share words are near."""

    def __init__(self, model: str = "words") -> None:
        self.model = model
        self.core = HashEmbedder(name=model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.core.embed(texts, "passage").tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.core.embed([text], "query_to_passage")[0].tolist()


class Tracer(BaseTracer):
    """Keeps the finished trees of runs, and counts starts and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []
        self.counts: dict[str, int] = {}
        self.events: list[tuple[str, Any]] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _on_retriever_start(self, run: Run) -> None:
        self._count("start")

    def _on_retriever_end(self, run: Run) -> None:
        self._count("end")

    def _on_retriever_error(self, run: Run) -> None:
        self._count("error")

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events.append((name, data))


def _core_messages(messages: list[BaseMessage]) -> list[Message]:
    roles: dict[str, Any] = {"system": "system", "human": "user", "ai": "assistant"}
    return [Message(roles[message.type], str(message.text)) for message in messages]


@pytest.fixture
def documents() -> list[Document]:
    """The corpus; the first three together answer the question."""
    return [
        Document(text, id=name, metadata={"source": f"{name}.txt", "tags": [name, {"year": 1883}]})
        for name, (text, _) in CORPUS.items()
    ]


@pytest.fixture
def chat_of() -> Callable[..., Chat]:
    """Make a LangChain chat model of a chat model of the core."""
    return lambda core, **fields: Chat(core=core, **fields)


@pytest.fixture
def chat(core_chat: ScriptedChatModel) -> Chat:
    return Chat(core=core_chat)


@pytest.fixture
def embeddings() -> WordEmbeddings:
    return WordEmbeddings()


@pytest.fixture
def embeddings_of() -> Callable[..., WordEmbeddings]:
    return WordEmbeddings


@pytest.fixture
def tracer() -> Tracer:
    return Tracer()


@pytest.fixture
def empty(chat: Chat, embeddings: WordEmbeddings, closing: Any) -> HippoRAGRetriever:
    return closing(HippoRAGRetriever.from_models(llm=chat, embeddings=embeddings))


@pytest.fixture
def retriever(empty: HippoRAGRetriever, documents: list[Document]) -> HippoRAGRetriever:
    """The corpus, indexed; k=3."""
    empty.add_documents(documents)
    empty.k = 3
    return empty


@pytest.fixture
def index(chat: Chat, embeddings: WordEmbeddings, closing: Any) -> HippoRAGDocumentIndex:
    """An empty document index over a chat model that finds nothing in unknown texts."""
    return closing(HippoRAGDocumentIndex.from_models(llm=chat, embeddings=embeddings))

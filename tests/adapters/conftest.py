"""One small corpus and stand-ins for the user's models of both frameworks."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tracers import BaseTracer, Run
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

from hippo_core import Extraction, Message, Triple
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableChatModel
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever
from llama_index_hipporag import HippoRAGIndex

CORPUS = {
    "bridge": (
        "The Brooklyn Bridge was designed by John Roebling.",
        Triple("Brooklyn Bridge", "was designed by", "John Roebling"),
    ),
    "roebling": (
        "John Roebling, an engineer, was born in Mühlhausen.",
        Triple("John Roebling", "was born in", "Mühlhausen"),
    ),
    "town": (
        "Through Mühlhausen, an old imperial city, flows the Unstrut, a river.",
        Triple("Unstrut", "flows through", "Mühlhausen"),
    ),
    "forth": (
        "The birthplace of the designer of the Forth Bridge is Frome.",
        Triple("Benjamin Baker", "comes from", "Frome"),
    ),
    "tower": (
        "Which designer of a bridge was asked for a tower? Gustave Eiffel.",
        Triple("Gustave Eiffel", "built", "a tower"),
    ),
    "hippos": ("Hippos swim in the Nile, a river.", Triple("Hippos", "swim in", "Nile")),
}
QUESTION = "Which river flows through the birthplace of the man who designed the Brooklyn Bridge?"


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
def question() -> str:
    return QUESTION


@pytest.fixture
def documents() -> list[Document]:
    """The corpus; the first three together answer the question."""
    return [
        Document(text, id=name, metadata={"source": f"{name}.txt", "tags": [name, {"year": 1883}]})
        for name, (text, _) in CORPUS.items()
    ]


@pytest.fixture
def table() -> dict[str, Extraction]:
    return {
        text: Extraction((triple.subject, triple.object), (triple,))
        for text, triple in CORPUS.values()
    }


@pytest.fixture
def core_chat(table: dict[str, Extraction]) -> ScriptedChatModel:
    """Read the corpus as the table says, nothing in other texts, and keep two linked triples."""
    otherwise = '{"named_entities": [], "triples": [], "keep": [1, 2]}'
    return TableChatModel(table, keep=otherwise)


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
def closing() -> Iterator[Callable[[Any], Any]]:
    """Close what is handed through when the test ends."""
    opened: list[Any] = []

    def remember(thing: Any) -> Any:
        opened.append(thing)
        return thing

    yield remember
    for thing in opened:
        thing.close()


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

"""One adapter after the other, behind one small face, so that a law is written once for both.

An adapter whose framework is not installed is left out.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest

from hippo_core import Completion, Extraction, Message
from hippo_core.testing import HashEmbedder, ScriptedChatModel

NAMES = ("bridge", "roebling", "town", "forth", "tower", "hippos")  # of the texts of `table`


class Item(NamedTuple):
    """A document or node, as a test writes it."""

    id: str
    text: str
    metadata: dict[str, Any] = {}  # noqa: RUF012 - never changed
    source: str | None = None


class Found(NamedTuple):
    """A document or node, as a retrieval gives it."""

    id: str
    text: str
    score: float
    metadata: dict[str, Any]
    raw: Any

    @property
    def given(self) -> dict[str, Any]:
        """The metadata without what the adapter says of the retrieval."""
        return {k: v for k, v in self.metadata.items() if not k.startswith("hipporag_")}


@dataclass
class Models:
    """What the user's models do in either framework, and a log of the ways they were asked."""

    chat: Any
    embedder: Any = field(default_factory=lambda: HashEmbedder(name="words"))
    way: str = "native"
    """`native`; `sync`: there is no async way; `in name`: the async one calls the sync one."""
    seconds: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    log: list[str] = field(default_factory=list)

    def complete(self, messages: list[Message], how: str = "sync") -> Completion:
        self._take("chat", how)
        return self.chat.complete(messages)

    def embed(self, texts: list[str], kind: Any, how: str = "sync") -> list[list[float]]:
        self._take("embed", how)
        return self.embedder.embed(texts, kind).tolist()

    async def acomplete(self, messages: list[Message]) -> Completion:
        await asyncio.sleep(self.seconds)
        return self.complete(messages, "async")

    async def aembed(self, texts: list[str], kind: Any) -> list[list[float]]:
        await asyncio.sleep(self.seconds)
        return self.embed(texts, kind, "async")

    def _take(self, what: str, how: str) -> None:
        self.log.append(f"{what} {how}")
        if how == "sync":
            self.sleep(self.seconds)


@dataclass(frozen=True)
class Adapter:
    """How each thing that a test does is said in one framework."""

    name: str
    open: Callable[..., Any]
    """With Models, and the options that both adapters have by one name."""
    load: Callable[..., Any]
    """Open the memory in a folder that is there."""
    add: Callable[..., Any]
    aadd: Callable[..., Any]
    delete: Callable[..., Any]
    adelete: Callable[..., Any]
    retriever: Callable[..., Any]
    """With `k`, `where` (a key and its value), and the options that both have by one name."""
    ask: Callable[..., list[Found]]
    """A retriever, sync."""
    aask: Callable[..., Any]
    dump: Callable[[Any], Any]
    """The whole of one result, as the framework writes it."""


def langchain() -> Adapter:  # noqa: C901 - doubles of what may not be installed
    """The doubles and the adapter of LangChain."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from langchain_hipporag import HippoRAGRetriever

    roles: dict[str, Any] = {"system": "system", "human": "user", "ai": "assistant"}

    def asked(messages: Any) -> list[Message]:
        return [Message(roles[m.type], str(m.text)) for m in messages]

    def told(completion: Completion) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=completion.text))])

    class Chat(BaseChatModel):
        models: Any

        @property
        def _llm_type(self) -> str:
            return "double"

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            return told(self.models.complete(asked(messages)))

    class NativeChat(Chat):
        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            return told(await self.models.acomplete(asked(messages)))

    class ChatInName(Chat):
        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            return self._generate(messages, *args, **kwargs)

    class Words(Embeddings):
        def __init__(self, models: Models) -> None:
            self.models, self.model = models, "words"

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return self.models.embed(texts, "passage")

        def embed_query(self, text: str) -> list[float]:
            return self.models.embed([text], "query_to_passage")[0]

    class NativeWords(Words):
        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            return await self.models.aembed(texts, "passage")

        async def aembed_query(self, text: str) -> list[float]:
            return (await self.models.aembed([text], "query_to_passage"))[0]

    class WordsInName(Words):
        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            return self.embed_documents(texts)

        async def aembed_query(self, text: str) -> list[float]:
            return self.embed_query(text)

    chats = {"native": NativeChat, "sync": Chat, "in name": ChatInName}
    words = {"native": NativeWords, "sync": Words, "in name": WordsInName}

    def pair(models: Models) -> dict[str, Any]:
        return {
            "llm": chats[models.way](models=models),
            "embeddings": words[models.way](models),
        }

    def documents(items: Any) -> list[Document]:
        return [
            Document(
                id=item.id,
                page_content=item.text,
                metadata=item.metadata | ({} if item.source is None else {"source": item.source}),
            )
            for item in items
        ]

    def retriever(memory: Any, *, where: Any = None, **options: Any) -> Any:
        return HippoRAGRetriever(
            hippo=memory.hippo, where=None if where is None else dict([where]), **options
        )

    def found(results: list[Document]) -> list[Found]:
        return [
            Found(d.id, d.page_content, d.metadata["hipporag_score"], d.metadata, d)
            for d in results
        ]

    async def aask(retriever: Any, query: Any) -> list[Found]:
        return found(await retriever.ainvoke(query))

    return Adapter(
        name="langchain",
        open=lambda models, **options: HippoRAGRetriever.from_models(**pair(models), **options),
        load=lambda folder, models: HippoRAGRetriever.load(folder, **pair(models)),
        add=lambda memory, items, **options: memory.add_documents(documents(items), **options),
        aadd=lambda memory, items, **options: memory.aadd_documents(documents(items), **options),
        delete=lambda memory, ids: memory.delete_documents(ids),
        adelete=lambda memory, ids: memory.adelete_documents(ids),
        retriever=retriever,
        ask=lambda retriever, query: found(retriever.invoke(query)),
        aask=aask,
        dump=lambda document: document.model_dump(),
    )


def llama_index() -> Adapter:  # noqa: C901 - doubles of what may not be installed
    """The doubles and the adapter of LlamaIndex."""
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ChatResponse,
        CompletionResponse,
        LLMMetadata,
    )
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import CustomLLM
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

    from llama_index_hipporag import HippoRAGIndex

    def asked(messages: Any) -> list[Message]:
        return [Message(m.role.value, m.content) for m in messages]

    def told(completion: Completion) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role="assistant", content=completion.text))

    class Chat(CustomLLM):
        models: Any

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="double", is_chat_model=True)

        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return told(self.models.complete(asked(messages)))

        def complete(self, prompt: str, formatted: bool = False, **kw: Any) -> CompletionResponse:
            raise NotImplementedError

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    class NativeChat(Chat):
        async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return told(await self.models.acomplete(asked(messages)))

    class ChatInName(Chat):
        async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return self.chat(messages, **kwargs)

    class Words(BaseEmbedding):
        models: Any
        model_name: str = "words"

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return self.models.embed(texts, "passage")

        def _get_query_embedding(self, query: str) -> list[float]:
            return self.models.embed([query], "query_to_passage")[0]

        # LlamaIndex asks for this one, and so it is in name alone in most models.
        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    class NativeWords(Words):
        async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return await self.models.aembed(texts, "passage")

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return (await self.models.aembed([query], "query_to_passage"))[0]

    class WordsInName(Words):
        async def _aget_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embedding(text)

    chats = {"native": NativeChat, "sync": Chat, "in name": ChatInName}
    words = {"native": NativeWords, "sync": Words, "in name": WordsInName}

    def pair(models: Models) -> dict[str, Any]:
        return {
            "llm": chats[models.way](models=models),
            "embed_model": words[models.way](models=models),
        }

    def nodes(items: Any) -> list[TextNode]:
        found = []
        for item in items:
            node = TextNode(id_=item.id, text=item.text, metadata=item.metadata)
            if item.source is not None:
                source = RelatedNodeInfo(node_id=item.source)
                node.relationships = {NodeRelationship.SOURCE: source}
            found.append(node)
        return found

    def retriever(memory: Any, *, k: Any = 5, where: Any = None, **options: Any) -> Any:
        filters = where and MetadataFilters(filters=[MetadataFilter(key=where[0], value=where[1])])
        options = {"include_scores": True, **options}  # as in LangChain
        return memory.as_retriever(similarity_top_k=k, filters=filters, **options)

    def found(results: Any) -> list[Found]:
        return [Found(n.node_id, n.text, n.score, n.metadata, n) for n in results]

    async def aask(retriever: Any, query: Any) -> list[Found]:
        return found(await retriever.aretrieve(query))

    return Adapter(
        name="llama_index",
        open=lambda models, **options: HippoRAGIndex(**pair(models), **options),
        load=lambda folder, models: HippoRAGIndex(**pair(models), persist_directory=folder),
        add=lambda memory, items, **options: memory.insert_nodes(nodes(items), **options),
        aadd=lambda memory, items, **options: memory.ainsert_nodes(nodes(items), **options),
        delete=lambda memory, ids: memory.delete_nodes(ids, delete_from_docstore=True),
        adelete=lambda memory, ids: memory.adelete_nodes(ids, delete_from_docstore=True),
        retriever=retriever,
        ask=lambda retriever, query: found(retriever.retrieve(query)),
        aask=aask,
        dump=lambda node: node.to_dict(),
    )


ADAPTERS = {
    name: make
    for name, framework, make in (
        ("langchain", "langchain_core", langchain),
        ("llama_index", "llama_index", llama_index),
    )
    if find_spec(framework)
}


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return ADAPTERS[request.param]()


@pytest.fixture
def items(table: dict[str, Extraction]) -> list[Item]:
    """The corpus; the first three together answer the question."""
    return [
        Item(name, text, {"name": name, "tags": [name, {"year": 1883}]}, f"{name}.txt")
        for name, text in zip(NAMES, table, strict=True)
    ]


@pytest.fixture
def models(core_chat: ScriptedChatModel) -> Models:
    return Models(core_chat)


@pytest.fixture
def opened(adapter: Adapter) -> Iterator[Callable[..., Any]]:
    """Open memories that are closed when the test ends."""
    memories: list[Any] = []

    def remember(models: Models, **options: Any) -> Any:
        memories.append(adapter.open(models, **options))
        return memories[-1]

    yield remember
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(adapter: Adapter, opened: Any, models: Models, items: list[Item]) -> Any:
    """The corpus, in memory."""
    memory = opened(models)
    adapter.add(memory, items)
    return memory


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, adapter: Adapter) -> Callable[..., Any]:
    """Ask a retriever of a memory, one way or the other."""

    async def ask(memory: Any, query: Any, **options: Any) -> list[Found]:
        retriever = adapter.retriever(memory, **options)
        if request.param == "sync":
            return adapter.ask(retriever, query)
        return await adapter.aask(retriever, query)

    return ask


@pytest.fixture
def item() -> type[Item]:
    return Item

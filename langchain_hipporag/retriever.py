"""HippoRAG as a LangChain retriever that owns its memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, Required, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, Field, SkipValidation

from hippo_core import (
    ChatModel,
    DeleteReport,
    Edge,
    EdgeFinder,
    Embedder,
    HippoConfig,
    HippoRAG,
    IndexReport,
    InputError,
    OpenIE,
    Passage,
    Progress,
    Prompts,
    RecognitionMemory,
    Retrieval,
    Where,
    checked_where,
)
from langchain_hipporag._convert import to_document, to_passages, to_scored_document
from langchain_hipporag._models import (
    LangChainChatModel,
    LangChainEmbedder,
    as_chat_model,
    as_embedder,
    model_name,
)

OnError = Literal["raise", "skip"]
OnProgress = Callable[[Progress], None]
Edges = Iterable[Edge | EdgeFinder] | EdgeFinder

EVENT = "hipporag_retrieval"  # the custom event of each retrieval

_logger = logging.getLogger(__name__)


class _Fields(TypedDict, total=False):
    """The retriever's fields; `HippoRAGRetriever` documents them."""

    k: int
    where: Where | None
    include_triples: bool
    score_mode: Literal["ppr", "relative"]
    title_key: str | None
    metadata_encoder: Callable[[Any], Any] | None
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class _Options(_Fields, total=False):
    """What every class method that opens a memory takes; `from_models` documents them."""

    embeddings: Required[Embeddings | Embedder]
    llm: Runnable[Any, Any] | ChatModel | None
    namespace: str
    config: HippoConfig | None
    openie: OpenIE | None
    recognition: RecognitionMemory | None
    prompts: Prompts | None
    snapshot_dir: str | Path | None


class _FillingOptions(_Options, total=False):
    """What every class method that fills a memory takes; `from_documents` documents them."""

    ids: Iterable[str] | None
    edges: Edges | None
    persist_directory: str | Path | None
    on_error: OnError
    callbacks: Callbacks
    progress: OnProgress | None


class HippoRAGRetriever(BaseRetriever):
    """Retrieve by a knowledge graph of your documents and Personalized PageRank over it.

    It finds what no single passage says: a question is linked to triples that the chat model read
    out of the documents, and the walk from there reaches the passages that complete the answer.

    Setup:
        `pip install "hippo-core[langchain]"`, and the package of your models.

    Key init args:
        hippo: The memory, shared by all copies of the retriever; the class methods make one. Its
            upkeep is done on it: `retriever.hippo.verify()`, `purge()`, `backup(folder)`,
            `copy_to(store)`, `retry_failed()`, `reextract()`, `aliases`, or
            `reembed(LangChainEmbedder(embeddings))`.
        k: How many documents a query gives, unless it says otherwise.
        where: Which documents are the corpus, unless a query says otherwise: a filter of their
            metadata such as `{"year": {"$gte": 2020}}`, or a function of it; None for all.
        include_triples: Whether a document brings the triples that explain why it is here.
        score_mode: `relative`: the best document has 1.0, so that a cutoff keeps it; `ppr`: the
            mass of the walk, which is small. Neither is a confidence.
        title_key: The metadata key whose text is read and embedded before a document's content.
        metadata_encoder: Gives something made of JSON for a metadata value that is not, such as
            `str` for a date. Without it such a value is an error.

    Instantiate:
        One model object reads the documents and judges what a query is linked to; any chat model
        will do, and anything bound, retried or fallen back around one. Calls are retried here:
        set the model's own retries to 0.

        ```python
        retriever = HippoRAGRetriever.from_documents(
            documents, llm=llm, embeddings=embeddings, persist_directory="memory"
        )
        retriever = HippoRAGRetriever.load("memory", llm=llm, embeddings=embeddings)
        ```

        With stand-ins for the models, and a table in place of the chat model's reading:

        >>> from hippo_core import Extraction, Triple
        >>> from hippo_core.testing import HashEmbedder, TableOpenIE
        >>> married = Triple("Ada", "married", "William")
        >>> born = Triple("William", "was born in", "Ockham")
        >>> table = {
        ...     "Ada married William.": Extraction(triples=(married,)),
        ...     "William was born in Ockham.": Extraction(triples=(born,)),
        ...     "Hippos swim.": Extraction(),
        ... }
        >>> retriever = HippoRAGRetriever.from_texts(
        ...     table, embeddings=HashEmbedder(), openie=TableOpenIE(table), k=2
        ... )

    Usage:
        A document's id is its own, or a hash of its content; `source` in its metadata is kept as
        the passage's source. Metadata comes back as it went in, with `hipporag_score` and
        `hipporag_rank`. A blank query, or k below 1, is an InputError.

        >>> for document in retriever.invoke("Where was the man whom Ada married born?"):
        ...     document.metadata["hipporag_rank"], document.page_content
        (1, 'Ada married William.')
        (2, 'William was born in Ockham.')
        >>> len(retriever.invoke("Do hippos swim?", k=1))
        1

        A filter ranks as a memory of only the documents that it allows would. It sees metadata as
        it is stored: what `metadata_encoder` made of it, without `hipporag_score` and the like.
        A query's filter takes the place of the retriever's, and `{}` allows all.

        >>> retriever.invoke("Do hippos swim?", where={"source": "no such"})
        []

        A retriever whose memory is in a folder or on a server can be pickled: it opens the memory
        again where it is unpickled.

        Each retrieval sends the custom event `hipporag_retrieval`: the path that it took, what
        went wrong on it, the linked triples, and what it cost.

    Use within a chain:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_core.output_parsers import StrOutputParser
        >>> from langchain_core.prompts import ChatPromptTemplate
        >>> from langchain_core.runnables import RunnablePassthrough
        >>> def as_text(documents):
        ...     return " ".join(document.page_content for document in documents)
        >>> prompt = ChatPromptTemplate.from_template("{context} Question: {question}")
        >>> llm = FakeListChatModel(responses=["In Ockham."])
        >>> given = {"context": retriever | as_text, "question": RunnablePassthrough()}
        >>> chain = given | prompt | llm | StrOutputParser()
        >>> chain.invoke("Where was the man whom Ada married born?")
        'In Ockham.'
        >>> retriever.close()
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # The constructor does no work: configurable fields call it at every invocation.
    hippo: HippoRAG = Field(repr=False, exclude=True)
    k: int = Field(default=5, ge=1)
    where: SkipValidation[Where | None] = Field(default=None, exclude=True)
    include_triples: bool = False
    score_mode: Literal["ppr", "relative"] = "relative"
    title_key: str | None = "title"
    metadata_encoder: Callable[[Any], Any] | None = Field(default=None, repr=False, exclude=True)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        checked_where(self.where)  # what is no filter is refused now, not at the first query
        if isinstance(self.where, Mapping):  # a later change of the caller's dict is not ours
            self.where = deepcopy(dict(self.where))

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        yield from (("memory", self.hippo), ("k", self.k), ("where", self.where))

    # -- make ---------------------------------------------------------------------------------

    @classmethod
    def from_models(
        cls,
        *,
        embeddings: Embeddings | Embedder,
        llm: Runnable[Any, Any] | ChatModel | None = None,
        persist_directory: str | Path | None = None,
        namespace: str = "default",
        config: HippoConfig | None = None,
        openie: OpenIE | None = None,
        recognition: RecognitionMemory | None = None,
        prompts: Prompts | None = None,
        create: bool = True,
        snapshot_dir: str | Path | None = None,
        **fields: Unpack[_Fields],
    ) -> Self:
        """Open the memory in a folder, or a new and empty one.

        Args:
            embeddings: LangChain's, or an Embedder of the core.
            llm: Reads the documents and judges linked triples; a Runnable, or a ChatModel of the
                core. Without it nothing is judged.
            persist_directory: The memory's folder, or the URL of a PostgreSQL database,
                `postgresql://...`. None: it ends with the process.
            namespace: Name of the memory inside the folder or database.
            config: Settings; the default is HippoRAG 2.
            openie: Reads the documents in place of `llm`.
            recognition: Judges linked triples in place of `llm`.
            prompts: What `llm` is asked; None for our own words.
            create: Whether a missing folder becomes a new memory.
            snapshot_dir: Where a memory in a database keeps derived files; None for nowhere.
            **fields: Fields of the retriever, such as `k`.

        Raises:
            InputError: `where` is no filter, or `persist_directory` neither folder nor URL.
            TypeError: `llm` or `embeddings` is neither LangChain's nor the core's.
            StoreError: The folder or database cannot be used, or was filled with other embeddings.
        """
        hippo = HippoRAG(
            as_chat_model(llm),
            as_embedder(embeddings),
            store=persist_directory,
            namespace=namespace,
            config=config,
            openie=openie,
            recognition=recognition,
            prompts=prompts,
            create=create,
            snapshot_dir=snapshot_dir,
        )
        with _closed_on_error(hippo):
            return cls(hippo=hippo, **fields)

    @classmethod
    def load(cls, persist_directory: str | Path, **options: Unpack[_Options]) -> Self:
        """Open the memory in a folder or database that is there; no model is called.

        Args:
            persist_directory: The memory's folder, or the URL of a PostgreSQL database.
            **options: What `from_models` takes but `create`; without `llm` linked triples are not
                judged.

        Raises:
            NotAStoreError: There is no memory.
            EmbedderMismatchError: It was filled with other embeddings.
        """
        if "create" in options:
            raise TypeError("load opens a memory that is there; to begin one, take from_models")
        return cls.from_models(persist_directory=persist_directory, create=False, **options)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        edges: Edges | None = None,
        persist_directory: str | Path | None = None,
        on_error: OnError = "raise",
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
        **options: Unpack[_Options],
    ) -> Self:
        """Open a memory and add documents to it.

        An error keeps what was read only where there is a folder; for a memory without one, take
        `from_models` and `add_documents`, which can be called again.

        Args:
            documents: What `add_documents` takes, as do `ids`, `edges`, `on_error`, `callbacks`
                and `progress`.
            ids: See there.
            edges: See there.
            persist_directory: What `from_models` takes.
            on_error: See there.
            callbacks: See there.
            progress: See there.
            **options: What `from_models` takes.
        """
        retriever = cls.from_models(persist_directory=persist_directory, **options)
        with _closed_on_error(retriever.hippo):
            retriever.add_documents(
                documents,
                ids=ids,
                edges=edges,
                on_error=on_error,
                callbacks=callbacks,
                progress=progress,
            )
        return retriever

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        edges: Edges | None = None,
        persist_directory: str | Path | None = None,
        on_error: OnError = "raise",
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
        **options: Unpack[_Options],
    ) -> Self:
        """Do what `from_documents` does, without blocking the event loop."""
        retriever = await asyncio.to_thread(
            cls.from_models, persist_directory=persist_directory, **options
        )
        with _closed_on_error(retriever.hippo):
            await retriever.aadd_documents(
                documents,
                ids=ids,
                edges=edges,
                on_error=on_error,
                callbacks=callbacks,
                progress=progress,
            )
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        metadatas: Iterable[dict[str, Any]] | None = None,
        **options: Unpack[_FillingOptions],
    ) -> Self:
        """Do what `from_documents` does, for texts and, one for each, their metadata."""
        return cls.from_documents(_documents(texts, metadatas), **options)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        *,
        metadatas: Iterable[dict[str, Any]] | None = None,
        **options: Unpack[_FillingOptions],
    ) -> Self:
        """Do what `from_texts` does, without blocking the event loop."""
        return await cls.afrom_documents(_documents(texts, metadatas), **options)

    # -- write --------------------------------------------------------------------------------

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        edges: Edges | None = None,
        on_error: OnError = "raise",
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
    ) -> list[str]:
        """Index documents, and give their ids in the same order.

        The same document again is unchanged and costs nothing; the same id with other content is
        an update. A blank document, such as a loader makes of an empty page, is skipped and has no
        id among those returned.

        Args:
            documents: One document is one passage: split before.
            ids: Ids to use in place of the documents' own, one for each.
            edges: Your own links, such as citations: `Edge`s by document id, and functions that
                are given the Passage made of a document, such as `RegexEdges` and
                `MetadataEdges`. What `to_source` names is `source` in the metadata. They replace
                those that the documents had; None leaves these as they are.
            on_error: What a document that cannot be read does: `raise`, with none of this call
                visible and all that was read kept; or `skip`, with a warning in the log: only
                its embedding finds it, until it is added again.
            callbacks: Handlers of the chat model's runs.
            progress: Called after each document that was read, with counts and usage so far.

        Raises:
            IndexingError: Documents could not be read, and `on_error` is "raise".
            InputError: A document cannot be used, such as for its metadata; nothing was done.
            ModelRequiredError: There is neither `llm` nor `openie`.
            ModelError: The embeddings failed; what was read is kept.
        """
        return _ids(self._add(documents, ids, on_error, callbacks, progress, edges))

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        edges: Edges | None = None,
        on_error: OnError = "raise",
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
    ) -> list[str]:
        """Do what `add_documents` does, without blocking the event loop."""
        return _ids(await self._aadd(documents, ids, on_error, callbacks, progress, edges))

    def delete_documents(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        source_id: str | None = None,
    ) -> DeleteReport:
        """Delete documents and all that no other uses; the report names ids that were not found.

        Args:
            ids: Of the documents to delete; or
            where: A filter: those that it allows, `{}` for all; the retriever's own plays no part;
                or
            source_id: What their metadata hold under `source`.

        Raises:
            InputError: Not exactly one of the three is given.
        """
        return self.hippo.delete(ids, where=where, source_id=source_id)

    async def adelete_documents(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        source_id: str | None = None,
    ) -> DeleteReport:
        """Do what `delete_documents` does, without blocking the event loop."""
        return await self.hippo.adelete(ids, where=where, source_id=source_id)

    # -- read ---------------------------------------------------------------------------------

    def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """Give the documents of ids as they were added; unknown ids are left out."""
        return [to_document(passage) for passage in self.hippo.get(ids)]

    def close(self) -> None:
        """Let go of the memory, for all copies of the retriever; one without a folder is gone."""
        self.hippo.close()

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
    ) -> list[Document]:
        found = self.hippo.retrieve(
            query,
            k=self.k if k is None else k,
            where=self.where if where is None else where,
            score_mode=self.score_mode,
            chat_model=self._chat_model(run_manager.get_child()),
        )
        dispatch_custom_event(EVENT, _told(found), config={"callbacks": run_manager.get_child()})
        return self._documents(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
    ) -> list[Document]:
        found = await self.hippo.aretrieve(
            query,
            k=self.k if k is None else k,
            where=self.where if where is None else where,
            score_mode=self.score_mode,
            chat_model=self._chat_model(run_manager.get_child()),
        )
        await adispatch_custom_event(
            EVENT, _told(found), config={"callbacks": run_manager.get_child()}
        )
        return self._documents(found)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        embedder = self.hippo.embedder
        embeddings = embedder.innermost if isinstance(embedder, LangChainEmbedder) else embedder
        params["ls_embedding_provider"] = type(embeddings).__name__
        if name := model_name(embeddings):
            params["ls_embedding_model"] = name
        return params

    # -- parts --------------------------------------------------------------------------------

    def _add(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        on_error: OnError,
        callbacks: Callbacks,
        progress: OnProgress | None,
        edges: Edges | None = None,
    ) -> IndexReport:
        return self.hippo.add(
            self._passages(documents, ids),
            edges=edges,
            on_error=on_error,
            progress=progress,
            chat_model=self._chat_model(callbacks),
        )

    async def _aadd(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        on_error: OnError,
        callbacks: Callbacks,
        progress: OnProgress | None,
        edges: Edges | None = None,
    ) -> IndexReport:
        return await self.hippo.aadd(
            self._passages(documents, ids),
            edges=edges,
            on_error=on_error,
            progress=progress,
            chat_model=self._chat_model(callbacks),
        )

    def _chat_model(self, callbacks: Callbacks) -> ChatModel | None:
        """Give the memory's chat model with a call's callbacks; None where they do not matter."""
        own = self.hippo.chat_model
        if callbacks is None or not isinstance(own, LangChainChatModel):
            return None
        return LangChainChatModel(own.runnable, callbacks)

    def _passages(self, documents: Iterable[Document], ids: Iterable[str] | None) -> list[Passage]:
        chosen = None if ids is None else list(ids)
        return to_passages(
            documents, chosen, title_key=self.title_key, metadata_encoder=self.metadata_encoder
        )

    def _documents(self, found: Retrieval) -> list[Document]:
        return [to_scored_document(hit, include_triples=self.include_triples) for hit in found]


@contextmanager
def _closed_on_error(hippo: HippoRAG) -> Iterator[None]:
    try:
        yield
    except BaseException:
        hippo.close()
        raise


def _documents(
    texts: Iterable[str], metadatas: Iterable[dict[str, Any]] | None
) -> Iterator[Document]:
    if isinstance(texts, str):
        raise InputError("texts must be a list of str, got a str; put it in a list")
    if metadatas is None:
        return (Document(page_content=text) for text in texts)
    pairs = list(texts), list(metadatas)
    if len(pairs[0]) != len(pairs[1]):
        raise InputError(
            f"there must be metadata for each text: {len(pairs[1])} for {len(pairs[0])}"
        )
    return (Document(page_content=text, metadata=m) for text, m in zip(*pairs, strict=True))


def _ids(report: IndexReport) -> list[str]:
    """Give the ids of what was added, and log what is not whole."""
    if report.failed or report.partial:
        _logger.warning(
            "%d documents could not be read and %d only in part; add them again to retry: %s",
            len(report.failed),
            len(report.partial),
            {**report.failed, **report.partial},
        )
    return list(report.ids)


def _told(found: Retrieval) -> dict[str, Any]:
    """Say how a retrieval went, in plain values."""
    return {
        "path": found.path.value,
        "detail": found.detail,
        "triples": [
            {"triple": list(link.triple), "score": link.score, "kept": link.kept}
            for link in found.triples
        ],
        "phrases": [
            {"entity": link.entity, "phrase": link.phrase, "score": link.score}
            for link in found.phrases
        ],
        "usage": found.usage.as_dict(),
    }

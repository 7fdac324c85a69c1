"""Filling: documents are put into a memory and taken back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, Field

from hippo_core import (
    Budget,
    ChatModel,
    DeleteReport,
    Embedder,
    Estimate,
    HippoConfig,
    HippoRAG,
    IndexReport,
    InputError,
    OpenIE,
    Passage,
    Prices,
    Prompts,
    RecognitionMemory,
    Where,
)
from langchain_hipporag._convert import to_document, to_passages
from langchain_hipporag._events import OnProgress, telling_progress
from langchain_hipporag._models import LangChainChatModel, as_chat_model, as_embedder
from langchain_hipporag._options import AddOptions, Edges, Fields, FillingOptions, OnError, Options
from langchain_hipporag._threads import in_thread

_logger = logging.getLogger(__name__)


class FillingRetriever(BaseRetriever):
    """A retriever as a thing that is filled: `HippoRAGRetriever` adds the asking."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # The constructor does no work: configurable fields call it at every invocation.
    hippo: HippoRAG = Field(repr=False, exclude=True)
    title_key: str | None = "title"
    metadata_encoder: Callable[[Any], Any] | None = Field(default=None, repr=False, exclude=True)

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
        **fields: Unpack[Fields],
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
            # Of the class that is asked, which may have more fields.
            given: dict[str, Any] = dict(fields)
            return cls(hippo=hippo, **given)

    @classmethod
    def load(cls, persist_directory: str | Path, **options: Unpack[Options]) -> Self:
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
        budget: Budget | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Open a memory and add documents to it.

        An error keeps what was read only where there is a folder; for a memory without one, take
        `from_models` and `add_documents`, which can be called again.

        Args:
            documents: What `add_documents` takes, as do `ids`, `edges`, `on_error`, `callbacks`,
                `progress` and `budget`.
            ids: See there.
            edges: See there.
            persist_directory: What `from_models` takes.
            on_error: See there.
            callbacks: See there.
            progress: See there.
            budget: See there.
            **options: What `from_models` takes.
        """
        retriever = cls.from_models(persist_directory=persist_directory, **options)
        with _closed_on_error(retriever.hippo, is_kept=persist_directory is not None):
            retriever.add_documents(
                documents,
                ids=ids,
                edges=edges,
                on_error=on_error,
                callbacks=callbacks,
                progress=progress,
                budget=budget,
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
        budget: Budget | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Do what `from_documents` does, without blocking the event loop."""
        retriever = await asyncio.to_thread(
            cls.from_models, persist_directory=persist_directory, **options
        )
        with _closed_on_error(retriever.hippo, is_kept=persist_directory is not None):
            await retriever.aadd_documents(
                documents,
                ids=ids,
                edges=edges,
                on_error=on_error,
                callbacks=callbacks,
                progress=progress,
                budget=budget,
            )
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        metadatas: Iterable[dict[str, Any]] | None = None,
        **options: Unpack[FillingOptions],
    ) -> Self:
        """Do what `from_documents` does, for texts and, one for each, their metadata."""
        return cls.from_documents(_documents(texts, metadatas), **options)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        *,
        metadatas: Iterable[dict[str, Any]] | None = None,
        **options: Unpack[FillingOptions],
    ) -> Self:
        """Do what `from_texts` does, without blocking the event loop."""
        documents = await in_thread(_documents, texts, metadatas)
        return await cls.afrom_documents(documents, **options)

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
        openie: OpenIE | None = None,
        budget: Budget | None = None,
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
            openie: Reads these documents in place of `llm`, such as rules for those that are not
                worth a chat model; `retriever.hippo.extractions()` says who read what.
            budget: What this call may cost; `estimate` tells before what it will.

        Raises:
            IndexingError: Documents could not be read, and `on_error` is "raise".
            BudgetExceededError: The next call would go over the budget; what was read is kept, and
                adding the same documents again goes on.
            InputError: A document cannot be used, such as for its metadata; nothing was done.
            ModelRequiredError: There is neither `llm` nor `openie`.
            ModelError: The embeddings failed; what was read is kept.
        """
        options: AddOptions = {
            "edges": edges,
            "on_error": on_error,
            "openie": openie,
            "budget": budget,
        }
        return _ids(self._add(documents, ids, callbacks, progress, **options))

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        edges: Edges | None = None,
        on_error: OnError = "raise",
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> list[str]:
        """Do what `add_documents` does, without blocking the event loop."""
        options: AddOptions = {
            "edges": edges,
            "on_error": on_error,
            "openie": openie,
            "budget": budget,
        }
        return _ids(await self._aadd(documents, ids, callbacks, progress, **options))

    def estimate(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Say what adding documents would cost, by what is there already; no model is called.

        Args:
            documents: What `add_documents` takes.
            ids: As there.
            prices: What a million tokens cost; without it the estimate has no `cost`.
            openie: As there.
        """
        return self.hippo.estimate(self._passages(documents, ids), prices=prices, openie=openie)

    async def aestimate(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Do what `estimate` does, without blocking the event loop."""
        return await asyncio.to_thread(
            self.estimate, documents, ids=ids, prices=prices, openie=openie
        )

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

    def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """Give the documents of ids as they were added; unknown ids are left out."""
        return [to_document(passage) for passage in self.hippo.get(ids)]

    def close(self) -> None:
        """Let go of the memory, for all copies of the retriever; one without a folder is gone."""
        self.hippo.close()

    # -- parts --------------------------------------------------------------------------------

    def _add(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        callbacks: Callbacks,
        progress: OnProgress | None,
        **options: Unpack[AddOptions],
    ) -> IndexReport:
        return self.hippo.add(
            self._passages(documents, ids),
            progress=telling_progress(progress, callbacks),
            chat_model=self._chat_model(callbacks),
            **options,
        )

    async def _aadd(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        callbacks: Callbacks,
        progress: OnProgress | None,
        **options: Unpack[AddOptions],
    ) -> IndexReport:
        # The documents may come out of a loader that reads files.
        passages = await in_thread(self._passages, documents, ids)
        return await self.hippo.aadd(
            passages,
            progress=telling_progress(progress, callbacks),
            chat_model=self._chat_model(callbacks),
            **options,
        )

    def _chat_model(self, callbacks: Callbacks) -> ChatModel | None:
        """Give the memory's chat model with a call's callbacks; None where they do not matter."""
        own = self.hippo.chat_model
        if callbacks is None or not isinstance(own, LangChainChatModel):
            return None
        return LangChainChatModel(own.runnable, callbacks)

    def _passages(self, documents: Iterable[Document], ids: Iterable[str] | None) -> list[Passage]:
        if isinstance(ids, str):
            raise InputError(f"ids must be a list of str, got the str {ids!r}; put it in a list")
        chosen = None if ids is None else list(ids)
        return to_passages(
            documents, chosen, title_key=self.title_key, metadata_encoder=self.metadata_encoder
        )


@contextmanager
def _closed_on_error(hippo: HippoRAG, *, is_kept: bool = True) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        hippo.close()
        if not is_kept:
            error.add_note(
                "This memory had no persist_directory, so it is gone with all that was read: give "
                "one, or take from_models() and add_documents(), which can be called again."
            )
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

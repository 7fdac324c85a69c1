"""HippoRAG: the memory that a person without a framework uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from hippo_core.config import HippoConfig
from hippo_core.embedding import embedder_name
from hippo_core.errors import ModelRequiredError
from hippo_core.flows import Each, Flow, Meter, Metered, Models
from hippo_core.handle import Handle
from hippo_core.indexing import Indexing, OnProgress
from hippo_core.inputs import (
    Chosen,
    OnError,
    ScoreMode,
    Search,
    check_methods,
    check_option,
    check_ports,
    checked_choice,
    checked_extractions,
    checked_passages,
    checked_queries,
    checked_query,
    checked_search,
)
from hippo_core.openie import fingerprint
from hippo_core.ports import ChatModel, Embedder
from hippo_core.reading import read
from hippo_core.reembedding import reembed
from hippo_core.retrieval import retrieve
from hippo_core.types import (
    Answer,
    DeleteReport,
    Extraction,
    IndexReport,
    Passage,
    Retrieval,
)
from hippo_core.where import Where


class HippoRAG(Handle):
    """A memory of passages: add, delete and retrieve at any time, from any thread or event loop.

    Args:
        chat_model: Reads passages and judges linked triples; not needed where `openie` is given, or
            where nothing has to be read.
        embedder: Embeds passages, phrases, triples and queries; None where nothing is added or
            asked.
        store: None for a memory that ends with the process, a folder, or a PostgreSQL URL.
        namespace: Name of this memory inside the store.
        config: Settings; the default is HippoRAG 2.
        openie: An extractor to use instead of the chat model.
        recognition: A judge of linked triples to use instead of the chat model.
        create: Whether a missing folder becomes a new store.
        snapshot_dir: Where derived files go if the store is a URL; None for nowhere.

    Raises:
        StoreError: The store cannot be used; the subclass says why.
        EmbedderMismatchError: The store was built with another embedder.

    >>> from hippo_core import Extraction, Passage, Triple
    >>> from hippo_core.testing import HashEmbedder
    >>> memory = HippoRAG(None, HashEmbedder())
    >>> wrote = Extraction(triples=(Triple("Ada Lovelace", "wrote", "the first program"),))
    >>> ada = Passage("Ada Lovelace wrote the first program.", id="ada")
    >>> report = memory.add_extracted([(ada, wrote)])
    >>> [hit.passage.id for hit in memory.retrieve("Who wrote the first program?")]
    ['ada']
    """

    # -- write --------------------------------------------------------------------------------

    def add(
        self,
        passages: Iterable[Passage | str],
        *,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
    ) -> IndexReport:
        """Index passages.

        The same passage again is unchanged and costs nothing; the same id with other content is an
        update.

        Args:
            passages: Passages or bare texts. Those without any text are skipped and counted.
            on_error: What a passage that cannot be read does: `raise` an IndexingError, with
                nothing of this call visible and all that was read kept; or `skip`, indexing it for
                dense retrieval only.
            progress: Called after each passage that was read.
            chat_model: Used for this call in place of the memory's own.

        Raises:
            IndexingError: Passages could not be read, and `on_error` is "raise".
            InputError: A passage cannot be used; nothing was done.
            ModelRequiredError: Passages have to be read and there is nothing to read them.
            ModelError: The embedder failed; what was read is kept.
            SynonymyError: The embedder does not fit the synonymy threshold; what was read is kept.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._add_flow(passages, models, meter, on_error=on_error, progress=progress)
        return self._driver(models, meter).run(flow)

    async def aadd(
        self,
        passages: Iterable[Passage | str],
        *,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
    ) -> IndexReport:
        """Do what `add` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._add_flow(passages, models, meter, on_error=on_error, progress=progress)
        return await self._driver(models, meter).arun(flow)

    def add_extracted(self, items: Iterable[tuple[Passage | str, Extraction]]) -> IndexReport:
        """Index passages with ready-made extractions: a curated graph, which no model has to read.

        Raises:
            InputError: A passage cannot be used; nothing was done.
        """
        meter = Meter()
        flow = self._add_extracted_flow(items, meter)
        return self._driver(self._models, meter).run(flow)

    async def aadd_extracted(
        self, items: Iterable[tuple[Passage | str, Extraction]]
    ) -> IndexReport:
        """Do what `add_extracted` does, without blocking the event loop."""
        meter = Meter()
        flow = self._add_extracted_flow(items, meter)
        return await self._driver(self._models, meter).arun(flow)

    def delete(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        source_id: str | None = None,
    ) -> DeleteReport:
        """Delete passages, and all that no other passage uses; no model is called.

        Args:
            ids: Of the passages to delete; or
            where: A filter: those that it allows, `{}` for all; or
            source_id: Their source.

        Raises:
            InputError: Not exactly one of the three is given.
        """
        return self._indexing(self._models).delete(checked_choice(ids, where, source_id))

    async def adelete(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        source_id: str | None = None,
    ) -> DeleteReport:
        """Do what `delete` does, without blocking the event loop."""
        return await asyncio.to_thread(self.delete, ids, where=where, source_id=source_id)

    def retry_failed(
        self, *, progress: OnProgress | None = None, chat_model: ChatModel | None = None
    ) -> IndexReport:
        """Read the passages again that could not be read, or not in full; skip what fails again."""
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._retry_flow(models, meter, progress)
        return self._driver(models, meter).run(flow)

    async def aretry_failed(
        self, *, progress: OnProgress | None = None, chat_model: ChatModel | None = None
    ) -> IndexReport:
        """Do what `retry_failed` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._retry_flow(models, meter, progress)
        return await self._driver(models, meter).arun(flow)

    def reextract(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
    ) -> IndexReport:
        """Read passages again with the present extractor, where another one read them.

        Each passage costs its model calls. What is interrupted goes on where it was.

        Args:
            ids: Which passages; or
            where: A filter. With neither all but those that came with ready-made extractions.
            on_error: What a passage that cannot be read again does: `raise`, and nothing changes;
                or `skip`: it stays as it was read before. Calling again retries it.
            progress: As in `add`.
            chat_model: As in `add`.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        chosen = None if ids is None and where is None else checked_choice(ids, where, None)
        flow = self._reextract_flow(chosen, models, meter, on_error=on_error, progress=progress)
        return self._driver(models, meter).run(flow)

    async def areextract(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
    ) -> IndexReport:
        """Do what `reextract` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        chosen = None if ids is None and where is None else checked_choice(ids, where, None)
        flow = self._reextract_flow(chosen, models, meter, on_error=on_error, progress=progress)
        return await self._driver(models, meter).arun(flow)

    def reembed(self, embedder: Embedder) -> int:
        """Give the index another embedder: everything is embedded again, nothing is read again.

        What is interrupted goes on where it was; until it is done the old vectors serve. Handles
        that were opened with the old embedder then raise an EmbedderMismatchError.

        Args:
            embedder: The new one; this handle goes on with it.

        Returns:
            How many texts were embedded; 0 where it is the index's own.
        """
        models = self._with_embedder(embedder)
        embedded = self._driver(models, Meter()).run(self._reembed_flow(embedder))
        self._go_on_with(models)
        return embedded

    async def areembed(self, embedder: Embedder) -> int:
        """Do what `reembed` does, without blocking the event loop."""
        models = self._with_embedder(embedder)
        embedded = await self._driver(models, Meter()).arun(self._reembed_flow(embedder))
        self._go_on_with(models)
        return embedded

    def forget_pending(self) -> int:
        """Drop what was read for passages that an interrupted or failed `add` never made visible.

        It is kept so that adding them again does not pay again. Do not call it while an `add` runs:
        that would pay for some of it twice.

        Returns:
            How many texts were forgotten.
        """
        return self._indexing(self._models).forget_pending()

    # -- read ---------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Give the k passages that answer the query best, all of them if there are fewer.

        Args:
            query: Text that is not blank.
            k: How many, at least 1.
            where: Only these passages are the corpus: a filter of their metadata, or a function of
                it. See `checked_where` for the grammar.
            config: Other settings for this query; those that shape the index must be the memory's.
            score_mode: `ppr`: the walk's mass on the passage, or its cosine on a dense path;
                `relative`: divided by the best. Neither is a confidence.
            chat_model: Used for this call in place of the memory's own.

        Raises:
            InputError: The query is blank, or k is below 1.
            ModelError: The embedder failed.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config)
        flow = self._retrieve_flow(query, search, models, meter)
        return self._driver(models, meter).run(flow)

    async def aretrieve(
        self,
        query: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Do what `retrieve` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config)
        flow = self._retrieve_flow(query, search, models, meter)
        return await self._driver(models, meter).arun(flow)

    def retrieve_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Retrieve for each query, several at once; each result is what `retrieve` gives."""
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config)
        flow = self._many_flow(queries, search, models)
        return self._driver(models, Meter()).run(flow)

    async def aretrieve_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Do what `retrieve_many` does, without blocking the event loop."""
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config)
        flow = self._many_flow(queries, search, models)
        return await self._driver(models, Meter()).arun(flow)

    def answer(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Retrieve k passages and let the chat model answer from them.

        Raises:
            ModelRequiredError: There is no chat model.
            ModelError: A call failed.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, None, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter)
        return self._driver(models, meter).run(flow)

    async def aanswer(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Do what `answer` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, None, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter)
        return await self._driver(models, meter).arun(flow)

    # -- flows --------------------------------------------------------------------------------

    def _add_flow(
        self,
        passages: Iterable[Passage | str],
        models: Models,
        meter: Meter,
        *,
        on_error: OnError,
        progress: OnProgress | None,
    ) -> Flow[IndexReport]:
        check_option("on_error", on_error, get_args(OnError))
        checked = checked_passages(passages)
        indexing = self._indexing(models)
        return (yield from indexing.add(checked, meter, on_error=on_error, progress=progress))

    def _add_extracted_flow(
        self, items: Iterable[tuple[Passage | str, Extraction]], meter: Meter
    ) -> Flow[IndexReport]:
        checked, given = checked_extractions(items)
        indexing = self._indexing(self._models)
        return (yield from indexing.add(checked, meter, given=given))

    def _retrieve_flow(
        self, query: str, search: Callable[[], Search], models: Models, meter: Meter
    ) -> Flow[Retrieval]:
        asked, checked = checked_query(query), search()
        snapshot = self._index.snapshot()
        if not len(snapshot.corpus):
            self._warn_of_emptiness()
        found = yield from retrieve(asked, snapshot, self._embedding, models, checked)
        return replace(found, usage=meter.usage)

    def _many_flow(
        self, queries: Sequence[str], search: Callable[[], Search], models: Models
    ) -> Flow[list[Retrieval]]:
        asked, checked = checked_queries(queries), search()

        def one(query: str) -> Flow[Retrieval]:
            meter = Meter()
            flow = self._retrieve_flow(query, lambda: checked, models, meter)
            found: Retrieval = yield Metered(flow, meter)
            return found

        all_found: list[Retrieval] = yield Each([one(query) for query in asked])
        return all_found

    def _answer_flow(
        self, question: str, search: Callable[[], Search], models: Models, meter: Meter
    ) -> Flow[Answer]:
        if models.chat is None:
            raise ModelRequiredError("answer() needs a chat model; retrieve() does not")
        found = yield from self._retrieve_flow(question, search, models, meter)
        text = yield from read(question, found)
        return Answer(text, found, meter.usage)

    def _retry_flow(
        self, models: Models, meter: Meter, progress: OnProgress | None
    ) -> Flow[IndexReport]:
        live = self._index.snapshot().whole.passages
        unfinished = [p.passage.copy() for p in live if not p.status.finished]
        indexing = self._indexing(models)
        return (yield from indexing.add(unfinished, meter, on_error="skip", progress=progress))

    def _reextract_flow(
        self,
        chosen: Chosen | None,
        models: Models,
        meter: Meter,
        *,
        on_error: OnError,
        progress: OnProgress | None,
    ) -> Flow[IndexReport]:
        check_option("on_error", on_error, get_args(OnError))
        indexing = self._indexing(models)
        passages = indexing.read_by_others(chosen)
        flow = indexing.add(passages, meter, on_error=on_error, progress=progress, again=True)
        return (yield from flow)

    def _reembed_flow(self, embedder: Embedder) -> Flow[int]:
        batch = self.config.embed_batch_size
        return (yield from reembed(self._index, embedder_name(embedder), batch))

    # -- parts --------------------------------------------------------------------------------

    def _for_call(self, chat_model: ChatModel | None) -> Models:
        check_ports(chat_model)
        return self._models if chat_model is None else replace(self._models, chat=chat_model)

    def _with_embedder(self, embedder: Embedder) -> Models:
        check_methods(embedder, "embedder", ("embed", "aembed"))
        return replace(self._models, embedder=embedder)

    def _go_on_with(self, models: Models) -> None:
        self._models = models
        self._embedding = self._embedding_of(models.embedder)

    def _indexing(self, models: Models) -> Indexing:
        if models.openie is not None:
            extractor = models.openie.fingerprint
        else:
            extractor = fingerprint(_name(models.chat))
        return Indexing(self._index, self._embedding, models, extractor)


def _name(model: object) -> str:
    return str(getattr(model, "name", "") or type(model).__qualname__)

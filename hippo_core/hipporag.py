"""HippoRAG: the memory that a person without a framework uses."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from hippo_core.config import HippoConfig
from hippo_core.drivers import Driver, Limiter
from hippo_core.embedding import Embedding
from hippo_core.errors import InputError, ModelRequiredError
from hippo_core.flows import Each, Flow, Meter, Metered, Models
from hippo_core.index import HippoIndex
from hippo_core.indexing import Indexing, OnProgress
from hippo_core.inputs import (
    OnError,
    ScoreMode,
    check_methods,
    check_option,
    check_ports,
    check_query,
    checked_extractions,
    checked_ids,
    checked_passages,
    checked_settings,
    is_unicode,
)
from hippo_core.openie import fingerprint
from hippo_core.ports import ChatModel, Embedder, OpenIE, RecognitionMemory
from hippo_core.reading import read
from hippo_core.retrieval import retrieve
from hippo_core.store import Store
from hippo_core.text import canonical_json
from hippo_core.types import (
    Answer,
    DeleteReport,
    Extraction,
    IndexReport,
    Passage,
    Retrieval,
    Stats,
)


class HippoRAG:
    """A memory of passages: add, delete and retrieve at any time, from any thread or event loop.

    Args:
        chat_model: Reads passages and judges linked triples; not needed where `openie` is given, or
            where nothing has to be read.
        embedder: Embeds passages, phrases, triples and queries.
        store: None for a memory that ends with the process, or a folder.
        namespace: Name of this memory inside the store.
        config: Settings; the default is HippoRAG 2.
        openie: An extractor to use instead of the chat model.
        recognition: A judge of linked triples to use instead of the chat model.
        create: Whether a missing folder becomes a new store.

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

    def __init__(
        self,
        chat_model: ChatModel | None,
        embedder: Embedder,
        *,
        store: str | Path | None = None,
        namespace: str = "default",
        config: HippoConfig | None = None,
        openie: OpenIE | None = None,
        recognition: RecognitionMemory | None = None,
        create: bool = True,
    ) -> None:
        if not isinstance(namespace, str) or not namespace:
            raise InputError(f"namespace must be text that is not empty, got {namespace!r}")
        canonical_json(namespace, name="namespace")
        check_methods(embedder, "embedder", ("embed", "aembed"))
        check_ports(chat_model, openie, recognition)
        self.config = config or HippoConfig()
        self.namespace = namespace
        self._models = Models(embedder, chat_model, openie, recognition)
        self._store = Store(store, create=create)
        try:
            self._embedding = Embedding(
                self._store, namespace, embedder, batch=self.config.embed_batch_size
            )
        except BaseException:
            self._store.close()
            raise
        self._index = HippoIndex(self._store, namespace, self.config)
        self._limiter = Limiter(self.config.concurrency)

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

    def delete(self, ids: Collection[str]) -> DeleteReport:
        """Delete passages by id, and all that no other passage uses; no model is called."""
        return self._indexing(self._models).delete(checked_ids(ids))

    async def adelete(self, ids: Collection[str]) -> DeleteReport:
        """Do what `delete` does, without blocking the event loop."""
        return await asyncio.to_thread(self.delete, ids)

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
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Give the k passages that answer the query best, all of them if there are fewer.

        Args:
            query: Text that is not blank.
            k: How many, at least 1.
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
        flow = self._retrieve_flow(query, k, config, score_mode, models, meter)
        return self._driver(models, meter).run(flow)

    async def aretrieve(
        self,
        query: str,
        *,
        k: int = 5,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Do what `retrieve` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._retrieve_flow(query, k, config, score_mode, models, meter)
        return await self._driver(models, meter).arun(flow)

    def retrieve_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 5,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Retrieve for each query, several at once; each result is what `retrieve` gives."""
        models = self._for_call(chat_model)
        flow = self._many_flow(queries, k, config, score_mode, models)
        return self._driver(models, Meter()).run(flow)

    async def aretrieve_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 5,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Do what `retrieve_many` does, without blocking the event loop."""
        models = self._for_call(chat_model)
        flow = self._many_flow(queries, k, config, score_mode, models)
        return await self._driver(models, Meter()).arun(flow)

    def answer(self, question: str, *, k: int = 5, chat_model: ChatModel | None = None) -> Answer:
        """Retrieve k passages and let the chat model answer from them.

        Raises:
            ModelRequiredError: There is no chat model.
            ModelError: A call failed.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._answer_flow(question, k, models, meter)
        return self._driver(models, meter).run(flow)

    async def aanswer(
        self, question: str, *, k: int = 5, chat_model: ChatModel | None = None
    ) -> Answer:
        """Do what `answer` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        flow = self._answer_flow(question, k, models, meter)
        return await self._driver(models, meter).arun(flow)

    def get(self, ids: Collection[str]) -> list[Passage]:
        """Give the passages of ids, in their order; unknown ids are left out."""
        wanted = checked_ids(ids)
        with self._store.read() as reader:
            storable = [i for i in wanted if is_unicode(i)]
            found = {s.passage.id: s.passage for s in reader.passages(self.namespace, storable)}
        return [found[i] for i in wanted if i in found]

    def stats(self) -> Stats:
        """Count passages, phrases, triples and edges."""
        return self._index.snapshot().stats()

    def __len__(self) -> int:
        return len(self._index.snapshot().corpus)

    def __iter__(self) -> Iterator[Passage]:
        """Give the passages of one state, by id."""
        return (live.passage.copy() for live in self._index.snapshot().corpus.passages)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and bool(self.get([id_]))

    # -- handle -------------------------------------------------------------------------------

    @property
    def chat_model(self) -> ChatModel | None:
        """The chat model of calls that bring none of their own."""
        return self._models.chat

    @property
    def embedder(self) -> Embedder:
        """The embedder."""
        return self._models.embedder

    def close(self) -> None:
        """Let go of the store; a memory that was not given a folder is gone."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"HippoRAG(store={self._store.name!r}, namespace={self.namespace!r})"

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
        self,
        query: str,
        k: int,
        config: HippoConfig | None,
        score_mode: ScoreMode,
        models: Models,
        meter: Meter,
    ) -> Flow[Retrieval]:
        check_query(query, k, score_mode)
        settings = checked_settings(config, self.config)
        snapshot = self._index.snapshot()
        found = yield from retrieve(
            str(query), int(k), snapshot, self._embedding, models, settings, score_mode
        )
        return replace(found, usage=meter.usage)

    def _many_flow(
        self,
        queries: Sequence[str],
        k: int,
        config: HippoConfig | None,
        score_mode: ScoreMode,
        models: Models,
    ) -> Flow[list[Retrieval]]:
        if isinstance(queries, str):
            raise InputError("retrieve_many takes a list of queries; put the one in a list")

        def one(query: str) -> Flow[Retrieval]:
            meter = Meter()
            flow = self._retrieve_flow(query, k, config, score_mode, models, meter)
            found: Retrieval = yield Metered(flow, meter)
            return found

        all_found: list[Retrieval] = yield Each([one(query) for query in queries])
        return all_found

    def _answer_flow(self, question: str, k: int, models: Models, meter: Meter) -> Flow[Answer]:
        if models.chat is None:
            raise ModelRequiredError("answer() needs a chat model; retrieve() does not")
        found = yield from self._retrieve_flow(question, k, None, "ppr", models, meter)
        text = yield from read(question, found)
        return Answer(text, found, meter.usage)

    # -- parts --------------------------------------------------------------------------------

    def _for_call(self, chat_model: ChatModel | None) -> Models:
        check_ports(chat_model)
        return self._models if chat_model is None else replace(self._models, chat=chat_model)

    def _driver(self, models: Models, meter: Meter) -> Driver:
        return Driver(models, self._limiter, meter)

    def _indexing(self, models: Models) -> Indexing:
        if models.openie is not None:
            extractor = models.openie.fingerprint
        else:
            extractor = fingerprint(_name(models.chat))
        return Indexing(self._index, self._embedding, models, extractor)


def _name(model: object) -> str:
    return str(getattr(model, "name", "") or type(model).__qualname__)

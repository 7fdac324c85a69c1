"""HippoRAG: the memory that a person without a framework uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hippo_core.config import HippoConfig
from hippo_core.errors import ModelRequiredError
from hippo_core.filling import Filling
from hippo_core.flows import Each, Flow, Meter, Metered, Models
from hippo_core.inputs import (
    ScoreMode,
    Search,
    checked_queries,
    checked_query,
    checked_search,
)
from hippo_core.ports import ChatModel
from hippo_core.reading import read
from hippo_core.retrieval import retrieve
from hippo_core.types import (
    Answer,
    Retrieval,
)
from hippo_core.where import Where


class HippoRAG(Filling):
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
        prompts: What the chat model is asked; None for our own words.
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

    # -- read ---------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        score_mode: ScoreMode = "ppr",
        dense_queries: Sequence[str] | None = None,
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Give the k passages that answer the query best, all of them if there are fewer.

        Args:
            query: Text that is not blank.
            k: How many, at least 1.
            where: Only these passages are the corpus: a filter of their metadata, or a function of
                it. See `checked_where` for the grammar.
            config: Other settings for this query. The synonymy threshold must be the memory's; the
                text under which triples are embedded is the memory's whatever they say.
            score_mode: `ppr`: the walk's mass on the passage, or its cosine on a dense path;
                `relative`: divided by the best. Neither is a confidence.
            dense_queries: Compared with passages in place of the query, by the mean of their
                vectors, such as a hypothetical answer (HyDE); linked is the query itself.
            chat_model: Used for this call in place of the memory's own.

        Raises:
            InputError: A query is blank, or k is below 1.
            ModelError: The embedder failed; with `on_failure="raise"`, a chat model too, or
                ParseError, where its reply cannot be read.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config, dense_queries)
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
        dense_queries: Sequence[str] | None = None,
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Do what `retrieve` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config, dense_queries)
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
        config: HippoConfig | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Retrieve k passages and let the chat model answer from them.

        Raises:
            ModelRequiredError: There is no chat model.
            ModelError: A call failed.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter)
        return self._driver(models, meter).run(flow)

    async def aanswer(
        self,
        question: str,
        *,
        k: int = 5,
        where: Where | None = None,
        config: HippoConfig | None = None,
        chat_model: ChatModel | None = None,
    ) -> Answer:
        """Do what `answer` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, "ppr", self.config)
        flow = self._answer_flow(question, search, models, meter)
        return await self._driver(models, meter).arun(flow)

    # -- flows --------------------------------------------------------------------------------

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
        text = yield from read(question, found, models.prompts)
        return Answer(text, found, meter.usage)

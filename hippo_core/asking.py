"""Asking: a query to ranked passages, in one step or in several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hippo_core.config import HippoConfig
from hippo_core.filling import Filling
from hippo_core.flows import Each, Flow, Meter, Metered, Models
from hippo_core.inputs import (
    ScoreMode,
    Search,
    checked_queries,
    checked_query,
    checked_search,
)
from hippo_core.ircot import MAX_STEPS, checked_steps, ircot
from hippo_core.iterations import IterativeRetrieval
from hippo_core.ports import ChatModel
from hippo_core.retrieval import retrieve
from hippo_core.types import Retrieval
from hippo_core.where import Where


class Asking(Filling):
    """A memory that is asked for passages; `HippoRAG` adds the answers."""

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
        explain: bool = False,
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
            explain: Whether each passage brings an `explanation`: its score split by seed and by
                edge, and the strongest paths to it. It takes a second walk.
            chat_model: Used for this call in place of the memory's own.

        Raises:
            InputError: A query is blank, or k is below 1.
            ModelError: The embedder failed; with `on_failure="raise"`, a chat model too, or
                ParseError, where its reply cannot be read.
        """
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(
            checked_search, k, where, config, score_mode, self.config, dense_queries, explain
        )
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
        explain: bool = False,
        chat_model: ChatModel | None = None,
    ) -> Retrieval:
        """Do what `retrieve` does, without blocking the event loop."""
        meter = Meter()
        models = self._for_call(chat_model)
        search = partial(
            checked_search, k, where, config, score_mode, self.config, dense_queries, explain
        )
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
        explain: bool = False,
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Retrieve for each query, several at once; each result is what `retrieve` gives."""
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config, explain=explain)
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
        explain: bool = False,
        chat_model: ChatModel | None = None,
    ) -> list[Retrieval]:
        """Do what `retrieve_many` does, without blocking the event loop."""
        models = self._for_call(chat_model)
        search = partial(checked_search, k, where, config, score_mode, self.config, explain=explain)
        flow = self._many_flow(queries, search, models)
        return await self._driver(models, Meter()).arun(flow)

    def ircot(
        self,
        query: str,
        *,
        k: int = 5,
        max_steps: int = MAX_STEPS,
        where: Where | None = None,
        config: HippoConfig | None = None,
        dense_queries: Sequence[str] | None = None,
        explain: bool = False,
        chat_model: ChatModel | None = None,
    ) -> IterativeRetrieval:
        """Retrieve in steps: the chat model thinks over what was found, and its thought is next.

        It costs one chat completion and one retrieval for each step after the first; `steps` says
        what each of them was. See `hippo_core.ircot.merge` for how their rankings become one.

        Args:
            query: Text that is not blank.
            k: How many passages each step finds, the model is shown, and are given in the end.
            max_steps: Retrievals at the most; 1 is `retrieve` with relative scores.
            where: As in `retrieve`, for every step.
            config: As in `retrieve`. `on_failure` says what a thought that fails does: `go_on` ends
                the steps there, and the result says why.
            dense_queries: As in `retrieve`, for the first step.
            explain: As in `retrieve`; an explanation is of the score in its own step.
            chat_model: Used for this call in place of the memory's own: it thinks, and judges.

        Raises:
            InputError: The query is blank, or k or max_steps is below 1.
            ModelRequiredError: There is no chat model, and `max_steps` is above 1.
            ModelError: The embedder failed at the first step; with `on_failure="raise"`, a model at
                any, or ParseError, where a reply cannot be read.
        """
        models = self._for_call(chat_model)
        search = partial(
            checked_search, k, where, config, "relative", self.config, dense_queries, explain
        )
        flow = self._ircot_flow(query, search, models, max_steps)
        return self._driver(models, Meter()).run(flow)

    async def aircot(
        self,
        query: str,
        *,
        k: int = 5,
        max_steps: int = MAX_STEPS,
        where: Where | None = None,
        config: HippoConfig | None = None,
        dense_queries: Sequence[str] | None = None,
        explain: bool = False,
        chat_model: ChatModel | None = None,
    ) -> IterativeRetrieval:
        """Do what `ircot` does, without blocking the event loop."""
        models = self._for_call(chat_model)
        search = partial(
            checked_search, k, where, config, "relative", self.config, dense_queries, explain
        )
        flow = self._ircot_flow(query, search, models, max_steps)
        return await self._driver(models, Meter()).arun(flow)

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

    def _ircot_flow(
        self, query: str, search: Callable[[], Search], models: Models, max_steps: int
    ) -> Flow[IterativeRetrieval]:
        asked, checked, most = checked_query(query), search(), checked_steps(max_steps)
        snapshot = self._index.snapshot()
        if not len(snapshot.corpus):
            self._warn_of_emptiness()
        flow = ircot(
            asked,
            snapshot,
            self._embedding,
            models,
            checked,
            max_steps=most,
            context_limit=self.config.context_limit,
        )
        return (yield from flow)

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

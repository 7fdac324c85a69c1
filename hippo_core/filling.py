"""Filling: what is put into a memory, read again and taken back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import get_args

from hippo_core.calls import in_thread
from hippo_core.committing import Committing
from hippo_core.costs import Budget
from hippo_core.edge_inputs import GivenEdges, checked_edges
from hippo_core.embedding import embedder_name
from hippo_core.extracting import OnProgress
from hippo_core.flows import Flow, Meter, Models
from hippo_core.indexing import IMPORTED, Indexing
from hippo_core.inputs import (
    Chosen,
    OnError,
    check_methods,
    check_option,
    checked_choice,
    checked_extractions,
    checked_passages,
)
from hippo_core.ports import ChatModel, Embedder, OpenIE
from hippo_core.preparing import Preparing, extractor_of, meter_of
from hippo_core.reembedding import reembed
from hippo_core.types import (
    DeleteReport,
    Extraction,
    IndexReport,
    Passage,
)
from hippo_core.where import Where


class Filling(Preparing):
    """A memory as a thing that is filled: `HippoRAG` adds the asking."""

    def add(
        self,
        passages: Iterable[Passage | str],
        *,
        edges: GivenEdges | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Index passages.

        The same passage again is unchanged and costs nothing; the same id with other content is an
        update.

        Args:
            passages: Passages or bare texts. Those without any text are skipped and counted.
            edges: The user's own links, each an `Edge`, and functions of a passage that give some,
                such as `RegexEdges`; these are asked for each passage of the call. They take the
                place of all edges of these passages and of each other one that an edge names as
                its own, which must be there; None leaves edges as they are, `[]` takes them back.
                Of edges from one passage to one target the heaviest counts. They cost no model
                call, and also a passage that cannot be read has them.
            on_error: What a passage that cannot be read does: `raise` an IndexingError, with
                nothing of this call visible and all that was read kept; or `skip`, indexing it for
                dense retrieval only.
            progress: Called after each passage that was read.
            chat_model: Used for this call in place of the memory's own.
            openie: Reads the passages of this call in place of what the memory reads with: so a
                chat model reads some and rules the others, in one graph. `extractions` says who
                read what.
            budget: What this call may cost; `estimate` tells before what it will.

        Raises:
            IndexingError: Passages could not be read, and `on_error` is "raise".
            BudgetExceededError: The next call would go over the budget; nothing of this call is
                visible, what was read is kept, and adding the same passages again goes on.
            InputError: A passage or an edge cannot be used; nothing was done.
            ModelRequiredError: Passages have to be read and there is nothing to read them.
            ModelError: The embedder failed; what was read is kept.
            SynonymyError: The embedder does not fit the synonymy threshold; what was read is kept.
        """
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
        flow = self._add_flow(
            passages, models, meter, edges=edges, on_error=on_error, progress=progress
        )
        return self._driver(models, meter).run(flow)

    async def aadd(
        self,
        passages: Iterable[Passage | str],
        *,
        edges: GivenEdges | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Do what `add` does, without blocking the event loop."""
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
        flow = self._add_flow(
            passages, models, meter, edges=edges, on_error=on_error, progress=progress
        )
        return await self._driver(models, meter).arun(flow)

    def add_extracted(
        self,
        items: Iterable[tuple[Passage | str, Extraction]],
        *,
        edges: GivenEdges | None = None,
    ) -> IndexReport:
        """Index passages with ready-made extractions: a curated graph, which no model has to read.

        Args:
            items: Passages or bare texts, each with what is to be known of it.
            edges: As in `add`.

        Raises:
            InputError: A passage or an edge cannot be used; nothing was done.
        """
        meter = Meter()
        flow = self._add_extracted_flow(items, meter, edges)
        return self._driver(self._models, meter).run(flow)

    async def aadd_extracted(
        self,
        items: Iterable[tuple[Passage | str, Extraction]],
        *,
        edges: GivenEdges | None = None,
    ) -> IndexReport:
        """Do what `add_extracted` does, without blocking the event loop."""
        meter = Meter()
        flow = self._add_extracted_flow(items, meter, edges)
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
        return Committing(self._index).delete(checked_choice(ids, where, source_id))

    async def adelete(
        self,
        ids: Collection[str] | None = None,
        *,
        where: Where | None = None,
        source_id: str | None = None,
    ) -> DeleteReport:
        """Do what `delete` does, without blocking the event loop."""
        return await in_thread(partial(self.delete, ids, where=where, source_id=source_id))

    def retry_failed(
        self,
        *,
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Read the passages again that could not be read, or not in full; skip what fails again.

        What is deleted or given another text meanwhile stays so.

        Args:
            progress: As in `add`.
            chat_model: As in `add`.
            openie: As in `add`: so what a chat model cannot read, rules may.
            budget: As in `add`.
        """
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
        flow = self._retry_flow(models, meter, progress)
        return self._driver(models, meter).run(flow)

    async def aretry_failed(
        self,
        *,
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Do what `retry_failed` does, without blocking the event loop."""
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
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
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Read passages again with the present extractor, where another one read them.

        Each passage costs its model calls. What is interrupted goes on where it was. What is
        deleted or given another text meanwhile stays so.

        Args:
            ids: Which passages; or
            where: A filter. With neither all but those that came with ready-made extractions.
            on_error: What a passage that cannot be read again does: `raise`, and nothing changes;
                or `skip`: it stays as it was read before. Calling again retries it.
            progress: As in `add`.
            chat_model: As in `add`.
            openie: As in `add`.
            budget: As in `add`.
        """
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
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
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Do what `reextract` does, without blocking the event loop."""
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
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

    # -- flows --------------------------------------------------------------------------------

    def _add_flow(
        self,
        passages: Iterable[Passage | str],
        models: Models,
        meter: Meter,
        *,
        edges: GivenEdges | None,
        on_error: OnError,
        progress: OnProgress | None,
    ) -> Flow[IndexReport]:
        check_option("on_error", on_error, get_args(OnError))
        checked = checked_passages(passages)
        linked = checked_edges(edges, checked)
        indexing = self._indexing(models)
        flow = indexing.add(checked, meter, edges=linked, on_error=on_error, progress=progress)
        return (yield from flow)

    def _add_extracted_flow(
        self,
        items: Iterable[tuple[Passage | str, Extraction]],
        meter: Meter,
        edges: GivenEdges | None,
    ) -> Flow[IndexReport]:
        checked, given = checked_extractions(items)
        linked = checked_edges(edges, checked)
        # Who would read is not asked for its name: it may not be there.
        indexing = Indexing(self._index, self._embedding, self._models, IMPORTED)
        return (yield from indexing.add(checked, meter, given=given, edges=linked))

    def _retry_flow(
        self, models: Models, meter: Meter, progress: OnProgress | None
    ) -> Flow[IndexReport]:
        live = self._index.snapshot().whole.passages
        unfinished = [p.passage.copy() for p in live if not p.status.finished]
        indexing = self._indexing(models)
        flow = indexing.add(unfinished, meter, on_error="skip", progress=progress, reread=True)
        return (yield from flow)

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
        flow = indexing.add(
            passages, meter, on_error=on_error, progress=progress, again=True, reread=True
        )
        return (yield from flow)

    def _reembed_flow(self, embedder: Embedder) -> Flow[int]:
        batch = self.config.embed_batch_size
        return (yield from reembed(self._index, embedder_name(embedder), batch))

    # -- parts --------------------------------------------------------------------------------

    def _with_embedder(self, embedder: Embedder) -> Models:
        check_methods(embedder, "embedder", ("embed", "aembed"))
        return replace(self._models, embedder=embedder)

    def _go_on_with(self, models: Models) -> None:
        self._models = models
        self._embedding = self._embedding_of(models.embedder)

    def _indexing(self, models: Models) -> Indexing:
        return Indexing(self._index, self._embedding, models, extractor_of(models))

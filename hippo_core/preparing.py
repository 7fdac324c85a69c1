"""Preparing: what adding would cost, and reading ahead of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from hippo_core.calls import in_thread
from hippo_core.committing import Committing
from hippo_core.costs import Budget, Estimate, Prices
from hippo_core.errors import IndexingError
from hippo_core.estimation import estimate
from hippo_core.extracting import Extracting, OnProgress, failures
from hippo_core.flows import Flow, Meter, Models
from hippo_core.handle import Handle
from hippo_core.inputs import check_call, check_ports, check_prices, checked_passages
from hippo_core.openie import fingerprint
from hippo_core.planning import distinct, plan_of
from hippo_core.ports import ChatModel, OpenIE
from hippo_core.records import text_key
from hippo_core.reporting import dropped_of, warnings_of
from hippo_core.types import Extraction, Passage

log = logging.getLogger(__name__)


class Preparing(Handle):
    """A memory as what can be known ahead of adding: `Filling` adds the adding."""

    @property
    def extractor(self) -> str | None:
        """Who reads passages, as `Extraction.extractor` names it; None where nothing can."""
        return extractor_of(self._models) if self._models.can_extract else None

    def estimate(
        self,
        passages: Iterable[Passage | str],
        *,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Say what `add` would cost, by what is there already; no model is called.

        Prompts are counted as they would be sent; replies are estimated by what GPT-3.5 wrote about
        passages of Wikipedia, and a reply that has to be asked for twice is not foreseen.

        Args:
            passages: What `add` takes.
            prices: What tokens cost; without it the estimate has no `cost`.
            openie: As in `add`: where it reads, or the memory's own, reading costs nothing.

        Raises:
            InputError: A passage cannot be used.
            ModelRequiredError: Passages would have to be read, and there is nothing to read them.
        """
        check_prices(prices)
        models = self._for_call(None, openie)
        plan = plan_of(self._index, checked_passages(passages), None, {})
        return estimate(plan, self._index, models, extractor_of(models), prices)

    async def aestimate(
        self,
        passages: Iterable[Passage | str],
        *,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Do what `estimate` does, without blocking the event loop."""
        return await in_thread(partial(self.estimate, passages, prices=prices, openie=openie))

    def extract(
        self,
        passages: Iterable[Passage | str],
        *,
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> dict[str, Extraction]:
        """Read passages without indexing them; no embedder is needed.

        What is read is kept at once, also where a later passage fails: reading the same texts
        again, or adding them, does not pay for it again. `forget_pending` drops what was never
        added. What another extractor read does not count.

        Args:
            passages: As in `add`; those without any text are left out.
            progress: As in `add`.
            chat_model: As in `add`.
            openie: As in `add`.
            budget: As in `add`.

        Returns:
            What was read, by the passages' ids; that of a cut reply has the status `partial`.

        Raises:
            IndexingError: Passages could not be read.
            BudgetExceededError: The next call would go over the budget.
            InputError: A passage cannot be used; nothing was done.
            ModelRequiredError: There is nothing to read them.
        """
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
        flow = self._extract_flow(passages, models, meter, progress)
        return self._driver(models, meter).run(flow)

    async def aextract(
        self,
        passages: Iterable[Passage | str],
        *,
        progress: OnProgress | None = None,
        chat_model: ChatModel | None = None,
        openie: OpenIE | None = None,
        budget: Budget | None = None,
    ) -> dict[str, Extraction]:
        """Do what `extract` does, without blocking the event loop."""
        meter = meter_of(budget, progress)
        models = self._for_call(chat_model, openie)
        flow = self._extract_flow(passages, models, meter, progress)
        return await self._driver(models, meter).arun(flow)

    def forget_pending(self) -> int:
        """Drop what was read for passages that were never made visible.

        By an interrupted or failed `add`, or by `extract`. It is kept so that adding them does not
        pay again. Do not call it while an `add` runs: that would pay for some of it twice.

        Returns:
            How many texts were forgotten.
        """
        return Committing(self._index).forget_pending()

    # -- parts --------------------------------------------------------------------------------

    def _extract_flow(
        self,
        passages: Iterable[Passage | str],
        models: Models,
        meter: Meter,
        progress: OnProgress | None,
    ) -> Flow[dict[str, Extraction]]:
        asked = distinct(checked_passages(passages))
        keys = {i: text_key(passage.full_text) for i, passage in asked.items()}
        extractor = extractor_of(models)
        extracting = Extracting(self._index, None, models, extractor)
        read = yield from extracting.extract(
            {keys[i]: passage for i, passage in asked.items()}, meter, progress, again=True
        )
        found = {i: replace(read[key], extractor=extractor) for i, key in keys.items()}
        if failed := failures(found):
            raise IndexingError(
                failed, retry="extract the same passages again", skippable=False, usage=meter.usage
            )
        for warning in warnings_of(found.values(), dropped_of(found.values())):
            log.warning("%s", warning)
        return found

    def _for_call(
        self, chat_model: ChatModel | None = None, openie: OpenIE | None = None
    ) -> Models:
        check_ports(chat_model, openie)
        own = self._models
        chat = own.chat if chat_model is None else chat_model
        return replace(own, chat=chat, openie=own.openie if openie is None else openie)


def meter_of(budget: Budget | None, progress: OnProgress | None) -> Meter:
    """Give the meter of a call; refuse what is no budget and no callback."""
    check_call(budget, progress)
    return Meter(budget)


def extractor_of(models: Models) -> str:
    """Name who reads."""
    if models.openie is not None:
        return models.openie.fingerprint
    return fingerprint(_name(models.chat), models.prompts)


def _name(model: object) -> str:
    return str(getattr(model, "name", "") or type(model).__qualname__)

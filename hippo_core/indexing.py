"""The write path: passages are planned, read, embedded and committed.

`add` keeps every finished model call at once; the passages themselves become visible together, in
one commit at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hippo_core.committing import Committing
from hippo_core.contributions import contribution
from hippo_core.edge_inputs import EdgesById
from hippo_core.embedding import Embedding
from hippo_core.errors import BudgetExceededError, IndexingError, InputError
from hippo_core.extracting import Extracting, OnProgress, failures
from hippo_core.flows import Each, Flow, Meter, Models
from hippo_core.index import HippoIndex, Vectors
from hippo_core.inputs import Chosen, OnError
from hippo_core.planning import Plan, plan_of, with_status
from hippo_core.records import StoredPassage, text_key
from hippo_core.reporting import report_of, warnings_of
from hippo_core.types import Extraction, IndexReport, Kind, Passage

log = logging.getLogger(__name__)

IMPORTED = "imported"  # the extractor's name where the extraction was given


class Indexing:
    """Adds passages to one namespace and deletes them."""

    def __init__(
        self, index: HippoIndex, embedding: Embedding, models: Models, extractor: str
    ) -> None:
        self._index = index
        self._embedding = embedding
        self._extractor = extractor
        self._extracting = Extracting(index, embedding, models, extractor)
        self._committing = Committing(index)
        self._batch = index.config.embed_batch_size

    def add(
        self,
        passages: Sequence[Passage],
        meter: Meter,
        *,
        given: Mapping[str, Extraction] | None = None,
        edges: EdgesById | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        again: bool = False,
        reread: bool = False,
    ) -> Flow[IndexReport]:
        """Index passages; with `given` extractions by passage id no model reads anything.

        With `again` what another extractor read does not count. With `reread` a passage that is
        deleted or given another text meanwhile stays so, and is in no list of the report. `edges`
        take the place of those that their passages have.

        Raises:
            IndexingError: `on_error` is "raise" and some passage could not be read.
            InputError: Edges are of a passage that is neither given nor there.
        """
        plan = plan_of(self._index, passages, given, edges or {}, again=again)
        if given is None:
            to_read = {text_key(p.full_text): p for p in plan.changed.values()}
            flow = self._extracting.extract(to_read, meter, progress, again=again)
            extractions = yield from flow
        else:
            extractions = {
                text_key(p.full_text): with_status(given[i]) for i, p in plan.changed.items()
            }
        failed = failures(_by_id(plan, extractions))
        if on_error == "raise" and failed:
            retry = "call reextract() again" if again else "add the same passages again"
            raise IndexingError(failed, retry=retry, usage=meter.usage)
        extractions = self._extracting.or_earlier(extractions, keep_finished=not again)
        by_id = _by_id(plan, extractions)
        stored = [StoredPassage(plan.changed[i], extraction) for i, extraction in by_id.items()]
        vectors, generation = yield from self._embed(stored, meter)
        touched: list[str] = []
        if stored or not plan.is_linked:
            touched, gone = self._committing.commit(
                plan.edges, stored, extractions, vectors, generation, self._extractor, reread=reread
            )
            by_id = {i: extraction for i, extraction in by_id.items() if i not in gone}
            failed = {i: reason for i, reason in failed.items() if i not in gone}
        failed = {
            i: reason for i, reason in failed.items() if i in failures(by_id) or i not in by_id
        }
        report = report_of(plan, by_id, failed, touched, meter.usage)
        if given is None:
            report = replace(report, warnings=tuple(warnings_of(by_id.values(), report.dropped)))
        for warning in report.warnings:
            log.warning("%s", warning)
        return replace(report, pending_edges=self._pending(plan)) if plan.edges else report

    def read_by_others(self, chosen: Chosen | None) -> list[Passage]:
        """Give the chosen passages that another extractor read than the present one.

        None for all but those whose extraction was given.
        """
        index = self._index
        with index.store.read() as reader:
            index.catch_up(reader)
            if chosen is None or chosen.ids is None:
                ids = index.chosen(chosen)
            else:
                ids = chosen.ids
            live = index.contributions(ids)
            for id_ in (i for i in ids if i not in live):
                raise InputError(f"there is no passage {id_!r} to read again")
            passages = [c.passage.copy() for c in live.values()]
            keys = {text_key(p.full_text): p for p in passages}
            readers = reader.extractors(index.namespace, keys)
        done = {self._extractor, IMPORTED} if chosen is None else {self._extractor}
        return [p for p in passages if readers.get(text_key(p.full_text)) not in done]

    def _pending(self, plan: Plan) -> int:
        self._index.refresh()
        return self._index.pending_edges(plan.edges)

    # -- embed --------------------------------------------------------------------------------

    def _embed(
        self, stored: Sequence[StoredPassage], meter: Meter
    ) -> Flow[tuple[Vectors, int | None]]:
        """Give the vectors of all texts that the passages need; embed what the store lacks.

        Returns:
            The vectors, and the generation of the embedder that made them.
        """
        contributions = [contribution(s.passage, s.extraction) for s in stored]
        wanted: dict[Kind, list[str]] = {
            "passage": _unique(c.passage.embedded_text for c in contributions),
            "phrase": _unique(p for c in contributions for p in sorted(c.phrases)),
            "triple": _unique(self._index.render(t) for c in contributions for t in c.triples),
        }
        vectors: Vectors = {}
        missing: list[tuple[Kind, list[str]]] = []
        with self._index.store.read() as reader:
            generation = reader.generation(self._index.namespace)
            for kind, texts in wanted.items():
                vectors[kind] = reader.vectors(self._index.namespace, kind, texts)
                new = [text for text in texts if text not in vectors[kind]]
                missing += [
                    (kind, new[i : i + self._batch]) for i in range(0, len(new), self._batch)
                ]
        self._embedding.expect(generation)
        if missing:  # the first batch alone: it checks the embedder before the others are paid for
            first = yield from self._attempt(*missing[0])
            rest = [] if isinstance(first, BudgetExceededError) else missing[1:]
            others = yield Each([self._attempt(kind, batch) for kind, batch in rest])
            for (kind, _), found in zip(missing, [first, *others], strict=False):
                if isinstance(found, BudgetExceededError):
                    raise _to_be_continued(found, meter)
                vectors[kind].update(found)
            generation = self._embedding.generation
        return vectors, generation

    def _attempt(
        self, kind: Kind, texts: Sequence[str]
    ) -> Flow[dict[str, NDArray[np.float32]] | BudgetExceededError]:
        """Embed a batch; an error of the budget is a value, so that calls that run end."""
        try:
            return (yield from self._embed_batch(kind, texts))
        except BudgetExceededError as error:
            return error

    def _embed_batch(
        self, kind: Kind, texts: Sequence[str]
    ) -> Flow[dict[str, NDArray[np.float32]]]:
        rows = yield from self._embedding.texts(texts, kind)
        by_text = dict(zip(texts, rows, strict=True))
        with self._index.store.write() as writer:
            writer.save_vectors(self._index.namespace, kind, by_text, self._embedding.generation)
        return by_text


def _to_be_continued(error: BudgetExceededError, meter: Meter) -> BudgetExceededError:
    return BudgetExceededError(
        f"{error}. All passages are read, and none of this call was indexed; what was read and "
        "embedded is kept: add the same passages again to go on",
        error.budget,
        meter.usage,
    )


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _by_id(plan: Plan, extractions: Mapping[str, Extraction]) -> dict[str, Extraction]:
    keys = {i: text_key(p.full_text) for i, p in plan.changed.items()}
    return {i: extractions[key] for i, key in keys.items() if key in extractions}

"""Extracting: texts are read by the extractor; every reply is kept as soon as it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from hippo_core.embedding import Embedding
from hippo_core.errors import InputError, ModelError, ModelRequiredError, ParseError
from hippo_core.flows import Each, Extract, Flow, Meter, Models
from hippo_core.index import HippoIndex
from hippo_core.inputs import checked_extraction
from hippo_core.openie import CUT_ENTITIES, read_entities, read_triples
from hippo_core.planning import with_status
from hippo_core.types import Extraction, Progress, Status

OnProgress = Callable[[Progress], None]


class Extracting:
    """Reads texts for one namespace."""

    def __init__(
        self, index: HippoIndex, embedding: Embedding, models: Models, extractor: str
    ) -> None:
        self._index = index
        self._embedding = embedding
        self._models = models
        self._extractor = extractor

    def extract(
        self,
        texts: Mapping[str, str],
        meter: Meter,
        progress: OnProgress | None,
        *,
        again: bool = False,
    ) -> Flow[dict[str, Extraction]]:
        """Give the extraction of each text, by text key; read what the store lacks.

        With `again` what another extractor read does not count.
        """
        with self._index.store.read() as reader:
            by = self._extractor if again else None
            known = reader.extractions(self._index.namespace, texts.keys(), extractor=by)
        finished = {key: e for key, e in known.items() if e.status.finished}
        missing = [key for key in texts if key not in finished]
        if missing and not self._models.can_extract:
            raise ModelRequiredError(
                f"{len(missing)} passages have to be read, and neither a chat model nor an OpenIE "
                "was given; "
                "give one, or add ready-made extractions with add_extracted()"
            )
        if missing:
            self._embedding.require()  # before anything is paid for
        tally = _Tally(len(missing), meter, progress)
        read = yield Each([self._read(key, texts[key], tally) for key in missing])
        return {**finished, **dict(zip(missing, read, strict=True))}

    def _read(self, key: str, text: str, tally: _Tally) -> Flow[Extraction]:
        """Read one text and keep what was read; a failure becomes an extraction that says why."""
        try:
            if self._models.openie is not None:
                extraction = checked_extraction((yield Extract(text)))
            else:
                extraction = yield from self._ask(key, text)
        except (ModelError, ParseError, InputError) as error:
            extraction = Extraction(status=Status.FAILED, reason=_storable(str(error)))
        extraction = with_status(extraction)
        if extraction.status is not Status.FAILED:
            with self._index.store.write() as writer:
                writer.save_extraction(self._index.namespace, key, self._extractor, extraction)
        tally.passage_read(extraction)
        return extraction

    def _ask(self, key: str, text: str) -> Flow[Extraction]:
        namespace = self._index.namespace
        with self._index.store.read() as reader:
            entities = reader.entities(namespace, key, self._extractor)
        if entities is not None:
            return (yield from read_triples(text, entities, self._models.prompts))
        entities, cut = yield from read_entities(text, self._models.prompts)
        if cut:
            extraction = yield from read_triples(text, entities, self._models.prompts)
            return replace(extraction, status=Status.PARTIAL, reason=CUT_ENTITIES)
        with self._index.store.write() as writer:
            writer.save_entities(namespace, key, self._extractor, entities)
        return (yield from read_triples(text, entities, self._models.prompts))

    def or_earlier(
        self, extractions: Mapping[str, Extraction], *, keep_finished: bool
    ) -> dict[str, Extraction]:
        """Where a text could not be read, take what was read of it before, such as a cut reply.

        Without `keep_finished` a text that was read in full before is left out: it stays as it is.
        """
        failed = failures(extractions)
        if not failed:
            return dict(extractions)
        with self._index.store.read() as reader:
            earlier = reader.extractions(self._index.namespace, failed)
        found = dict(extractions)
        for key, extraction in earlier.items():
            if not extraction.status.finished:
                found[key] = replace(extraction, reason=failed[key])
            elif keep_finished:
                found[key] = extraction
            else:
                del found[key]
        return found


class _Tally:
    """Tells the progress callback how far an `add` is, from any thread, one call at a time."""

    def __init__(self, total: int, meter: Meter, progress: OnProgress | None) -> None:
        self._lock = threading.Lock()
        self._total = total
        self._meter = meter
        self._progress = progress
        self._done = self._failed = 0

    def passage_read(self, extraction: Extraction) -> None:
        with self._lock:
            self._done += 1
            self._failed += extraction.status is Status.FAILED
            if self._progress is not None:
                self._progress(Progress(self._done, self._failed, self._total, self._meter.usage))


def _storable(text: str) -> str:
    """Escape half characters, which an SDK's message may hold and a database may not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failures(extractions: Mapping[str, Extraction]) -> dict[str, str]:
    """Give the reasons of those that could not be read."""
    return {key: e.reason for key, e in extractions.items() if e.status is Status.FAILED}

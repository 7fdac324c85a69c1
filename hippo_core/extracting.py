"""Extracting: texts are read by the extractor; every reply is kept as soon as it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from hippo_core.embedding import Embedding
from hippo_core.errors import (
    EXCERPT,
    BudgetExceededError,
    ContextTooLongError,
    InputError,
    ModelError,
    ModelRequiredError,
    ParseError,
    PermanentModelError,
)
from hippo_core.flows import Each, Extract, Flow, Meter, Models
from hippo_core.index import HippoIndex
from hippo_core.inputs import checked_extraction
from hippo_core.openie import read_entities, read_triples
from hippo_core.pieces import Pieces, merged, shorter, titled
from hippo_core.planning import with_status
from hippo_core.records import PART, part_key, text_key
from hippo_core.sdk_errors import is_of_the_endpoint
from hippo_core.types import Extraction, Passage, Progress, Status

OnProgress = Callable[[Progress], None]

HOPELESS = 10  # passages in a row that fail alike before the others are not tried


class Extracting:
    """Reads texts for one namespace."""

    def __init__(
        self, index: HippoIndex, embedding: Embedding | None, models: Models, extractor: str
    ) -> None:
        self._index = index
        self._embedding = embedding  # None where nothing is indexed afterwards
        self._models = models
        self._extractor = extractor
        self._ids: dict[str, str] = {}  # of passages, by the keys of their texts

    def extract(
        self,
        passages: Mapping[str, Passage],
        meter: Meter,
        progress: OnProgress | None,
        *,
        again: bool = False,
    ) -> Flow[dict[str, Extraction]]:
        """Give the extraction of each passage, by the key of its text; read what the store lacks.

        With `again` what another extractor read does not count.

        Raises:
            BudgetExceededError: Some could not be read within the budget; the others are kept.
        """
        by = self._extractor if again else None
        finished = finished_extractions(self._index, passages.keys(), extractor=by)
        missing = [key for key in passages if key not in finished]
        if missing:
            require_reader(self._models, len(missing))
            if self._embedding is not None:
                self._embedding.require()  # before anything is paid for
        self._ids = {key: passage.id for key, passage in passages.items()}
        tally = _Tally(len(missing), meter, progress)
        pieces = pieces_for(self._index, self._models)
        streak = _Streak()
        attempts = [self._attempt(k, passages[k], pieces, streak, tally) for k in missing]
        outcomes = yield Each(attempts)
        read = {k: e for k, e in zip(missing, outcomes, strict=True) if isinstance(e, Extraction)}
        for outcome in outcomes:
            if isinstance(outcome, BudgetExceededError):
                left = f"{len(missing) - len(read)} of {len(missing)} passages are left to read"
                raise BudgetExceededError(
                    f"{outcome}. {left}{self._so_far()} the same passages again to go on",
                    outcome.budget,
                    meter.usage,
                ) from outcome
        return {**finished, **read}

    def _so_far(self) -> str:
        if self._embedding is None:
            return "; what was read is kept: extract"
        return ", and none of this call was indexed; what was read is kept: add"

    # -- one text -----------------------------------------------------------------------------

    def _attempt(
        self, key: str, passage: Passage, pieces: Pieces, streak: _Streak, tally: _Tally
    ) -> Flow[Extraction | BudgetExceededError]:
        """Read one passage and keep what was read; a failure becomes a value that says why."""
        try:
            streak.check()
            if self._models.openie is not None:
                extraction = checked_extraction((yield Extract(passage.full_text)))
                self._keep(key, extraction)
            else:
                extraction = yield from self._read(key, passage.title, passage.text, pieces)
        except BudgetExceededError as error:
            return error  # so that the calls of others that run come to their end
        except (ModelError, ParseError, InputError) as error:
            streak.add(error)
            extraction = Extraction(status=Status.FAILED, reason=_storable(str(error)))
        else:
            streak.end()
        extraction = with_status(extraction)
        tally.passage_read(extraction)
        return extraction

    def _read(self, key: str, title: str, text: str, pieces: Pieces) -> Flow[Extraction]:
        """Have the chat model read a text, in pieces if it is too long for the model."""
        parts = pieces.of(title, text)
        if len(parts) == 1:
            try:
                extraction = yield from self._ask(key, titled(title, text))
            except ContextTooLongError:
                parts = shorter(text)
                if len(parts) == 1:
                    raise
                return (yield from self._read_parts(key, title, parts, pieces, refused=True))
            else:
                self._keep(key, extraction)
                return extraction
        return (yield from self._read_parts(key, title, parts, pieces))

    def _read_parts(
        self, key: str, title: str, parts: list[str], pieces: Pieces, *, refused: bool = False
    ) -> Flow[Extraction]:
        """Read each part, and keep the whole in their place once all are read in full.

        Raises:
            ContextTooLongError: The model `refused` the whole, and the first part as well, however
                short: what it is asked leaves no room for any text, so the others are not tried.
        """
        by_key = {part_key(key, titled(title, part)): part for part in parts}
        outcomes: list[Extraction | BudgetExceededError] = []
        left = list(by_key)
        if refused:
            first = left.pop(0)
            outcomes.append(
                (yield from self._part(first, title, by_key[first], pieces, is_probe=True))
            )
        outcomes += yield Each([self._part(k, title, by_key[k], pieces) for k in left])
        read: list[Extraction] = []
        for outcome in outcomes:
            if isinstance(outcome, BudgetExceededError):
                raise outcome
            read.append(outcome)
        extraction = with_status(merged(read))
        self._keep(key, extraction, parts=list(by_key) if extraction.status.finished else ())
        return extraction

    def _part(
        self, key: str, title: str, part: str, pieces: Pieces, *, is_probe: bool = False
    ) -> Flow[Extraction | BudgetExceededError]:
        """Read a part; a failure becomes a value, but for a probe's refusal."""
        known = finished_extractions(self._index, [key], extractor=self._extractor)
        if key in known:
            return known[key]
        try:
            return (yield from self._read(key, title, part, pieces))
        except BudgetExceededError as error:
            return error
        except (ModelError, ParseError, InputError) as error:
            if is_probe and isinstance(error, ContextTooLongError):
                raise
            return Extraction(status=Status.FAILED, reason=_storable(str(error)))

    def _ask(self, key: str, text: str) -> Flow[Extraction]:
        namespace, prompts = self._index.namespace, self._models.prompts

        def keep_entities(read: tuple[tuple[str, ...], str]) -> None:
            entities, cut = read
            if not cut:  # else they are asked for again
                with self._index.store.write() as writer:
                    writer.save_entities(namespace, key, self._extractor, entities)

        def keep_late_entities(read: tuple[tuple[str, ...], str]) -> None:
            if not self._was_deleted(key, version):
                keep_entities(read)

        def keep_late_extraction(extraction: Extraction) -> None:
            known = finished_extractions(self._index, [key])
            if not known and not self._was_deleted(key, version):
                self._keep(key, extraction)

        with self._index.store.read() as reader:
            entities = reader.entities(namespace, key, self._extractor)
            version = reader.version(namespace)
        if entities is None:
            read = yield from read_entities(text, prompts, keep_late_entities)
            entities, cut = read
            if cut:
                extraction = yield from read_triples(text, entities, prompts)
                return replace(extraction, status=Status.PARTIAL, reason=cut)
            keep_entities(read)
        return (yield from read_triples(text, entities, prompts, keep_late_extraction))

    def _was_deleted(self, key: str, version: int) -> bool:
        """Whether a passage with this text was there after a version, and is no more."""
        text, _, _ = key.partition(PART)
        namespace, id_ = self._index.namespace, self._ids[text]
        with self._index.store.read() as reader:
            if reader.ids_of_texts(namespace, [text]):
                return False
            changed, deleted = reader.changed_since(namespace, version)
        return id_ in changed or text_key(id_) in deleted

    def _keep(self, key: str, extraction: Extraction, *, parts: Sequence[str] = ()) -> None:
        """Keep what was read of a text, and no longer apart what was read of its parts."""
        extraction = with_status(extraction)
        if extraction.status is Status.FAILED:
            return
        with self._index.store.write() as writer:
            writer.save_extraction(self._index.namespace, key, self._extractor, extraction)
            writer.drop_pending(self._index.namespace, parts)

    # -- all of them --------------------------------------------------------------------------

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


def require_reader(models: Models, passages: int) -> None:
    """Refuse to go on where passages have to be read and nothing can.

    Raises:
        ModelRequiredError: There is neither a chat model nor an OpenIE.
    """
    if not models.can_extract:
        raise ModelRequiredError(
            f"{passages} passages have to be read, and neither a chat model nor an OpenIE was "
            "given; give one, or add ready-made extractions with add_extracted()"
        )


def pieces_for(index: HippoIndex, models: Models) -> Pieces:
    """Give what splits passages for the chat model; what an OpenIE reads stays whole.

    Raises:
        ConfigError: The context limit leaves no room for a passage.
    """
    is_asked = models.openie is None and models.chat is not None
    return Pieces(models.prompts, index.config.context_limit if is_asked else None)


def finished_extractions(
    index: HippoIndex, keys: Collection[str], *, extractor: str | None = None
) -> dict[str, Extraction]:
    """Give what was read in full of texts, by their keys: by one extractor, or by any."""
    with index.store.read() as reader:
        known = reader.extractions(index.namespace, keys, extractor=extractor)
    return {key: extraction for key, extraction in known.items() if extraction.status.finished}


class _Streak:
    """Notices passages that fail alike for the endpoint's sake: the others would fail too.

    So a wrong key, or a server that is gone, costs no call for each of ten thousand passages.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._how: tuple[type, str] | None = None
        self._times = 0

    def check(self) -> None:
        """Refuse one more call.

        Raises:
            PermanentModelError: The last ones all failed, and all alike.
        """
        with self._lock:
            if self._how is not None and self._times >= HOPELESS:
                raise PermanentModelError(
                    f"not asked: {self._times} passages in a row failed alike, the last with "
                    f"{self._how[1]}"
                )

    def add(self, error: Exception) -> None:
        """Count a failure; one that is of its own passage ends the streak."""
        shared = isinstance(error, ModelError) and is_of_the_endpoint(error)
        how = (type(error), str(error)[:EXCERPT]) if shared else None
        with self._lock:
            if self._times >= HOPELESS:
                return  # a refusal of our own, or a call that was under way
            self._times = 0 if how is None else self._times + 1 if how == self._how else 1
            self._how = how

    def end(self) -> None:
        """Begin anew after a success."""
        with self._lock:
            self._how, self._times = None, 0


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

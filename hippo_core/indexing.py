"""The write path: passages are read, embedded and committed, and taken back.

`add` keeps every finished model call at once; the passages themselves become visible together, in
one commit at the end.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import Contribution, Target, contribution, unkeyed
from hippo_core.edge_inputs import EdgesById
from hippo_core.embedding import Embedding
from hippo_core.errors import (
    EmbedderMismatchError,
    IndexingError,
    InputError,
    ModelError,
    ModelRequiredError,
    ParseError,
)
from hippo_core.flows import Each, Extract, Flow, Meter, Models
from hippo_core.index import HippoIndex, Vectors
from hippo_core.inputs import Chosen, OnError, checked_extraction
from hippo_core.openie import CUT_ENTITIES, read_entities, read_triples
from hippo_core.records import StoredPassage, text_key
from hippo_core.text import canonical_json
from hippo_core.types import (
    DeleteReport,
    Extraction,
    IndexReport,
    Kind,
    Passage,
    Progress,
    Status,
)
from hippo_core.writer import Writer

OnProgress = Callable[[Progress], None]
IMPORTED = "imported"  # the extractor's name where the extraction was given


@dataclass(frozen=True, slots=True)
class Plan:
    """What an `add` has to do with each of its passages."""

    ids: tuple[str, ...]
    changed: Mapping[str, Passage]
    """Passages to write, by id: new, of other content, or without a finished extraction."""
    updated: frozenset[str]
    unchanged: tuple[str, ...]
    blank: int
    edges: Mapping[str, Mapping[Target, float]]
    """The edges that were given, by the id of their passage."""
    is_linked: bool
    """Whether the live passages among these have just these edges."""


class Indexing:
    """Adds passages to one namespace and deletes them."""

    def __init__(
        self, index: HippoIndex, embedding: Embedding, models: Models, extractor: str
    ) -> None:
        self._index = index
        self._embedding = embedding
        self._models = models
        self._extractor = extractor
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
    ) -> Flow[IndexReport]:
        """Index passages; with `given` extractions by passage id no model reads anything.

        With `again` what another extractor read does not count. `edges` take the place of those
        that their passages have.

        Raises:
            IndexingError: `on_error` is "raise" and some passage could not be read.
            InputError: Edges are of a passage that is neither given nor there.
        """
        plan = self._plan(passages, given, edges or {}, again=again)
        extractions = yield from self._extract(plan, given, meter, progress, again=again)
        failed = _failed(_by_id(plan, extractions))
        if on_error == "raise" and failed:
            retry = "call reextract() again" if again else "add the same passages again"
            raise IndexingError(failed, retry=retry)
        extractions = self._or_earlier(extractions, keep_finished=not again)
        by_id = _by_id(plan, extractions)
        stored = [StoredPassage(plan.changed[i], extraction) for i, extraction in by_id.items()]
        vectors, generation = yield from self._embed(stored)
        touched: list[str] = []
        if stored or not plan.is_linked:
            extractor = IMPORTED if given else self._extractor
            touched = self._commit(plan, stored, extractions, vectors, generation, extractor)
        failed = {
            i: reason for i, reason in failed.items() if i in _failed(by_id) or i not in by_id
        }
        report = _report(plan, by_id, failed, touched, meter)
        return replace(report, pending_edges=self._pending(plan)) if plan.edges else report

    def delete(self, chosen: Chosen) -> DeleteReport:
        """Delete passages, and all that no other passage uses."""
        if chosen.where is not None and chosen.where.key is None:
            # The user's function runs before anything is locked: it may use this memory.
            self._index.refresh()
            chosen = Chosen(self._index.chosen(chosen), None, None)
        with self._index.committing, self._index.store.write() as writer:
            self._index.catch_up(writer)
            wanted, missing = self._wanted(chosen)
            gone = self._index.contributions(wanted)
            self._replace(writer, gone, [])
            writer.delete_passages(self._index.namespace, list(gone))
            self._purge_texts(writer, gone.values())
        if gone:
            self._index.refresh()
            self._index.erase()
        return DeleteReport(tuple(gone), (*(i for i in wanted if i not in gone), *missing))

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

    def _wanted(self, chosen: Chosen) -> tuple[list[str], list[str]]:
        """Give the ids that are meant, and the source if it has no passage."""
        if chosen.ids is not None:
            return list(dict.fromkeys(chosen.ids)), []
        found = self._index.chosen(chosen)
        is_missing = chosen.source_id is not None and not found
        return found, [chosen.source_id] if is_missing and chosen.source_id is not None else []

    def forget_pending(self) -> int:
        """Drop what was read and embedded for passages that were never committed."""
        with self._index.committing, self._index.store.write() as writer:
            self._index.catch_up(writer)
            forgotten = writer.purge_pending(self._index.namespace, self._index.texts_in_use())
        self._index.store.truncate_log()
        return forgotten

    # -- plan ---------------------------------------------------------------------------------

    def _plan(
        self,
        passages: Sequence[Passage],
        given: Mapping[str, Extraction] | None,
        edges: EdgesById,
        *,
        again: bool = False,
    ) -> Plan:
        asked: dict[str, Passage] = {}
        ids: list[str] = []
        for passage in passages:
            if not passage.full_text.strip():
                continue
            ids.append(passage.id)
            if asked.setdefault(passage.id, passage) != passage:
                raise InputError(
                    f"id {passage.id!r} stands for two different passages in one call; "
                    "give each its own id"
                )
        with self._index.store.read() as reader:
            wanted = list({**asked, **edges})
            stored = {s.passage.id: s for s in reader.passages(self._index.namespace, wanted)}
        _check_owners(edges, {*asked, *stored})
        changed = {
            i: p
            for i, p in asked.items()
            if again or i not in stored or _differs(stored[i], p, given)
        }
        return Plan(
            ids=tuple(ids),
            changed=changed,
            updated=frozenset(i for i in changed if i in stored),
            unchanged=tuple(i for i in asked if i not in changed),
            blank=len(passages) - len(ids),
            edges=edges,
            is_linked=all(s.edges == edges.get(i, s.edges) for i, s in stored.items()),
        )

    def _pending(self, plan: Plan) -> int:
        self._index.refresh()
        return self._index.pending_edges(plan.edges)

    # -- read ---------------------------------------------------------------------------------

    def _extract(
        self,
        plan: Plan,
        given: Mapping[str, Extraction] | None,
        meter: Meter,
        progress: OnProgress | None,
        *,
        again: bool = False,
    ) -> Flow[dict[str, Extraction]]:
        """Give the extraction of each changed text, by text key; read what the store lacks."""
        texts = {text_key(p.full_text): p.full_text for p in plan.changed.values()}
        if given is not None:
            return {text_key(p.full_text): _with_status(given[i]) for i, p in plan.changed.items()}
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
        extraction = _with_status(extraction)
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
            return (yield from read_triples(text, entities))
        entities, cut = yield from read_entities(text)
        if cut:
            extraction = yield from read_triples(text, entities)
            return replace(extraction, status=Status.PARTIAL, reason=CUT_ENTITIES)
        with self._index.store.write() as writer:
            writer.save_entities(namespace, key, self._extractor, entities)
        return (yield from read_triples(text, entities))

    def _or_earlier(
        self, extractions: Mapping[str, Extraction], *, keep_finished: bool
    ) -> dict[str, Extraction]:
        """Where a text could not be read, take what was read of it before, such as a cut reply.

        Without `keep_finished` a text that was read in full before is left out: it stays as it is.
        """
        failed = _failed(extractions)
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

    # -- embed --------------------------------------------------------------------------------

    def _embed(self, stored: Sequence[StoredPassage]) -> Flow[tuple[Vectors, int | None]]:
        """Give the vectors of all texts that the passages need; embed what the store lacks.

        Returns:
            The vectors, and the generation of the embedder that made them.
        """
        contributions = [contribution(s.passage, s.extraction) for s in stored]
        wanted: dict[Kind, list[str]] = {
            "passage": _unique(c.passage.full_text for c in contributions),
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
            first = yield from self._embed_batch(*missing[0])
            rest = yield Each([self._embed_batch(kind, batch) for kind, batch in missing[1:]])
            for (kind, _), found in zip(missing, [first, *rest], strict=True):
                vectors[kind].update(found)
            generation = self._embedding.generation
        return vectors, generation

    def _embed_batch(
        self, kind: Kind, texts: Sequence[str]
    ) -> Flow[dict[str, NDArray[np.float32]]]:
        rows = yield from self._embedding.texts(texts, kind)
        by_text = dict(zip(texts, rows, strict=True))
        with self._index.store.write() as writer:
            writer.save_vectors(self._index.namespace, kind, by_text, self._embedding.generation)
        return by_text

    # -- commit -------------------------------------------------------------------------------

    def _commit(
        self,
        plan: Plan,
        stored: Sequence[StoredPassage],
        extractions: Mapping[str, Extraction],
        vectors: Vectors,
        generation: int | None,
        extractor: str,
    ) -> list[str]:
        """Make passages visible; give the ids of others whose text now says something else."""
        index, namespace = self._index, self._index.namespace
        with index.committing:
            index.refresh()
            synonyms = index.plan_synonyms(vectors["phrase"])
            with index.store.write() as writer:
                if writer.generation(namespace) != generation:
                    raise EmbedderMismatchError(
                        f"namespace {namespace!r} was given another embedder while this call ran; "
                        "what was read is kept: open it with that embedder and add again"
                    )
                index.catch_up(writer)
                new = self._contributions(writer, stored, extractions, plan.edges)
                replaced = index.contributions(new)
                self._replace(writer, new.keys(), new.values())
                good = {k: e for k, e in extractions.items() if e.status is not Status.FAILED}
                writer.commit_extractions(namespace, extractor, good)
                # What another handle purged since it was read here is written again.
                for kind, by_text in vectors.items():
                    writer.save_vectors(namespace, kind, by_text, replace=False)
                writer.put_passages(namespace, stored)
                writer.put_edges(namespace, _relinked(replaced, new))
                self._purge_texts(writer, replaced.values())
            with index.store.read() as reader:
                index.catch_up(reader, synonyms)
        if any(_loses_something(before, new[i]) for i, before in replaced.items()):
            index.erase()
        index.save_if_much_changed()
        others = new.keys() - {s.passage.id for s in stored}
        return sorted(i for i in others if not _differs_in_edges_alone(replaced[i], new[i]))

    def _contributions(
        self,
        writer: Writer,
        stored: Sequence[StoredPassage],
        extractions: Mapping[str, Extraction],
        edges: Mapping[str, Mapping[Target, float]],
    ) -> dict[str, Contribution]:
        """Give what will be contributed otherwise than now, by id.

        By the passages, by others that have the same texts, and by those that have other edges.
        """
        namespace = self._index.namespace
        # Another handle may have read what could not be read here.
        there = writer.extractions(namespace, _failed(extractions), pending=False)
        of_text = {**extractions, **there}
        alike = writer.ids_of_texts(namespace, of_text.keys())
        live = self._index.contributions({*alike, *edges, *(s.passage.id for s in stored)})
        passages = {i: live[i].passage for i in alike}
        passages |= {s.passage.id: s.passage for s in stored}
        new = {i: contribution(p, of_text[text_key(p.full_text)]) for i, p in passages.items()}
        # Who was deleted meanwhile went with its edges.
        new = {**{i: live[i] for i in edges if i in live}, **new}
        kept = {i: c.edges for i, c in live.items()} | dict(edges)
        new = {i: replace(c, edges=kept.get(i, {})) for i, c in new.items()}
        return {i: c for i, c in new.items() if live.get(i) != c}

    def _replace(self, writer: Writer, ids: Collection[str], new: Iterable[Contribution]) -> None:
        for kind, texts in self._index.orphans(ids, new).items():
            writer.purge_vectors(self._index.namespace, kind, texts)

    def _purge_texts(self, writer: Writer, gone: Iterable[Contribution]) -> None:
        keys = {text_key(c.passage.full_text) for c in gone}
        writer.purge_texts(self._index.namespace, keys)


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


def _differs(
    stored: StoredPassage, passage: Passage, given: Mapping[str, Extraction] | None
) -> bool:
    same = stored.passage == passage and canonical_json(
        dict(stored.passage.metadata)
    ) == canonical_json(dict(passage.metadata))  # 1 == 1.0 == True, but not in JSON
    if not same or not stored.status.finished:
        return True
    return given is not None and _with_status(given[passage.id]) != stored.extraction


def _check_owners(edges: Iterable[str], there: Collection[str]) -> None:
    for id_ in edges:
        if id_ not in there:
            raise InputError(
                f"an edge is of passage {id_!r}, which is neither in this call nor there; "
                "add the passage, or leave the edge out"
            )


def _relinked(
    before: Mapping[str, Contribution], after: Mapping[str, Contribution]
) -> dict[str, Mapping[Target, float]]:
    """Give the edges of the passages that have others than before."""
    had = {i: c.edges for i, c in before.items()}
    return {i: c.edges for i, c in after.items() if c.edges != had.get(i, {})}


def _differs_in_edges_alone(before: Contribution, after: Contribution) -> bool:
    return replace(before, edges=after.edges) == after


def _loses_something(before: Contribution, after: Contribution) -> bool:
    """Whether something that was stated is stated no more, and has to leave the disk."""
    return not (
        _differs_in_edges_alone(before, after) and before.edges.items() <= after.edges.items()
    )


def _with_status(extraction: Extraction) -> Extraction:
    """Say `ok` or `empty` by what is there; partial stays, and of a failed one only the reason."""
    if extraction.status is Status.FAILED:
        return Extraction(status=Status.FAILED, reason=extraction.reason)
    if extraction.status.finished:
        return replace(extraction, status=Status.OK if extraction.triples else Status.EMPTY)
    return extraction


def _storable(text: str) -> str:
    """Escape half characters, which an SDK's message may hold and a database may not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _by_id(plan: Plan, extractions: Mapping[str, Extraction]) -> dict[str, Extraction]:
    keys = {i: text_key(p.full_text) for i, p in plan.changed.items()}
    return {i: extractions[key] for i, key in keys.items() if key in extractions}


def _failed(extractions: Mapping[str, Extraction]) -> dict[str, str]:
    """Give the reasons of those that could not be read."""
    return {key: e.reason for key, e in extractions.items() if e.status is Status.FAILED}


def _report(
    plan: Plan,
    by_id: Mapping[str, Extraction],
    failed: Mapping[str, str],
    touched: Sequence[str],
    meter: Meter,
) -> IndexReport:
    dropped: Counter[str] = Counter()
    for extraction in by_id.values():
        dropped.update(extraction.dropped)
        dropped["no letters or digits"] += unkeyed(extraction)
    return IndexReport(
        ids=plan.ids,
        added=tuple(i for i in by_id if i not in plan.updated and i not in failed),
        updated=(*(i for i in by_id if i in plan.updated and i not in failed), *touched),
        unchanged=plan.unchanged,
        failed=failed,
        partial={i: e.reason for i, e in by_id.items() if e.status is Status.PARTIAL},
        empty=tuple(i for i, e in by_id.items() if e.status is Status.EMPTY),
        blank=plan.blank,
        dropped={kind: n for kind, n in dropped.items() if n},
        edges=sum(map(len, plan.edges.values())),
        usage=meter.usage,
    )

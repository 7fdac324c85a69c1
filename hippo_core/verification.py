"""Verification: whether store, vectors, derived state and files say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hippo_core.contributions import contribution, phrases_of
from hippo_core.corpus import Corpus
from hippo_core.curation import Curation, check_curation
from hippo_core.errors import ClosedError, InputError, StoreError
from hippo_core.index import KINDS, HippoIndex
from hippo_core.records import Reader, StoredPassage, text_key
from hippo_core.text import canonical_json
from hippo_core.types import Kind, Status, VerifyReport

SHOWN = 3  # examples in one line
_MEND = ": rebuild() derives them again"
_UNIT = 1e-3  # how far a stored vector's length may be from 1


def verify(index: HippoIndex) -> VerifyReport:
    """Check every invariant between the store, what is derived in memory, and files on disk.

    All of the database is read, and every byte of the files is hashed; no model is called.
    """
    problems: list[str] = []
    stored: list[StoredPassage] = []
    try:
        with index.store.read() as reader:
            problems += reader.damage()
            stored = reader.passages(index.namespace)
            problems += _of_texts(index, reader, stored)
            problems += _of_log(index, reader, stored)
            problems += reader.contradictions(index.namespace)
            check_curation(Curation.from_json(reader.curation(index.namespace)))
            index.catch_up(reader)
            held = index.corpus()
            fresh = HippoIndex(index.store, index.namespace, index.config)
            fresh.files.ignore()
            fresh.catch_up(reader)
            problems += _differences(held, fresh.corpus())
            problems += _of_lengths(fresh.corpus())
    except ClosedError:
        raise
    except (StoreError, InputError) as error:
        problems.append(str(error))
    problems += index.files.damaged()
    return VerifyReport(tuple(problems), len(stored))


def _of_texts(index: HippoIndex, reader: Reader, stored: Sequence[StoredPassage]) -> Iterator[str]:
    """Find texts without their vector, and extractions of no passage."""
    contributions = [contribution(s.passage, s.extraction, s.edges) for s in stored]
    triples = {triple for c in contributions for triple in c.triples}
    wanted: dict[Kind, set[str]] = {
        "passage": {c.passage.embedded_text for c in contributions},
        "phrase": phrases_of(triples),
        "triple": {index.render(triple) for triple in triples},
    }
    for kind in KINDS:
        there = reader.vector_keys(index.namespace, kind)
        keys = {text_key(text): text for text in wanted[kind]}
        yield from _named(f"no vector of {kind}", (keys[k] for k in keys.keys() - there.keys()))
    unread = [s.passage.id for s in stored if s.status is Status.FAILED and not s.extraction.reason]
    yield from _named("neither an extraction nor a reason why for", unread)
    read = {text_key(s.passage.full_text) for s in stored}
    spare = reader.extraction_keys(index.namespace) - read
    yield from _named("an extraction of no passage", spare)


def _of_log(index: HippoIndex, reader: Reader, stored: Iterable[StoredPassage]) -> Iterator[str]:
    """Find passages that the change log does not know, or knows as deleted."""
    logged, deleted = reader.changed_since(index.namespace, 0)
    live = {s.passage.id for s in stored}
    yield from _named("not in the change log", live - set(logged))
    yield from _named("in the change log and not there", set(logged) - live)
    yield from _named("there and logged as deleted", {i for i in live if text_key(i) in deleted})


def _differences(held: Corpus, fresh: Corpus) -> Iterator[str]:
    """Compare what is held in memory with what the store gives now."""
    for name in ("phrases", "triples"):
        if getattr(held, name) != getattr(fresh, name):
            yield f"memory holds other {name} than the store{_MEND}"
    for name in ("lengths", "checksums", "triple_phrases", "starts"):
        if not np.array_equal(getattr(held, name), getattr(fresh, name)):
            yield f"memory holds other {name} than the store{_MEND}"
    for name, read in (("passages", _live), ("spellings", _spelled), ("edges", _linked)):
        if read(held) != read(fresh):
            yield f"memory holds other {name} than the store{_MEND}"
    if not all(map(np.array_equal, held.synonyms, fresh.synonyms)):
        yield f"memory holds other synonyms than the store{_MEND}"
    for name in ("passage_vectors", "phrase_vectors", "triple_vectors"):
        mine, theirs = np.asarray(getattr(held, name)), np.asarray(getattr(fresh, name))
        if not np.array_equal(mine, theirs, equal_nan=True):
            yield f"memory holds other {name} than the store{_MEND}"


def _live(corpus: Corpus) -> list[object]:
    return [
        (live, canonical_json(dict(live.passage.metadata)))  # 1 == 1.0 == True, but not in JSON
        for live in corpus.passages
    ]


def _spelled(corpus: Corpus) -> list[object]:
    return [
        (triple, [corpus.spellings[i] for i in spelled])
        for triple, *spelled in corpus.occurrences.tolist()
    ]


def _linked(corpus: Corpus) -> list[object]:
    edges = corpus.edges
    columns = (edges.starts, edges.targets, edges.weights, edges.passages, edges.phrases)
    return [[*edges.names], *(column.tolist() for column in columns)]


def _of_lengths(corpus: Corpus) -> Iterator[str]:
    """Find vectors whose length is not 1; 0 is what an embedder may give for an unknown text."""
    for kind, vectors, texts in (
        ("passage", corpus.passage_vectors, [live.passage.id for live in corpus.passages]),
        ("phrase", corpus.phrase_vectors, corpus.phrases),
        ("triple", corpus.triple_vectors, [" ".join(triple) for triple in corpus.triples]),
    ):
        lengths = np.linalg.norm(np.asarray(vectors).astype(np.float64), axis=1)
        wrong = ~((np.abs(lengths - 1) <= _UNIT) | (lengths == 0))  # also what is no number
        yield from _named(
            f"a vector of {kind} that is not of length 1",
            (texts[i] for i in np.flatnonzero(wrong).tolist()),
        )


def _named(problem: str, items: Iterable[str]) -> Iterator[str]:
    found = sorted(items)
    if found:
        shown = ", ".join(repr(item[:80]) for item in found[:SHOWN])
        yield f"{problem}: {len(found)} ({shown}{', ...' if len(found) > SHOWN else ''})"

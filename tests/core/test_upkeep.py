"""What keeps a memory sound: verify, rebuild, delete, retry, reextract, reembed, namespaces."""

import asyncio
import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sqlalchemy as sa

from hippo_core import (
    EmbedderMismatchError,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    InputError,
    ModelRequiredError,
    Passage,
    PermanentModelError,
    Status,
    StoreError,
    index,
    tables,
)
from hippo_core.embedding import PROBE
from hippo_core.records import text_key
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

TABLE = {
    "Ada wrote notes.": [("Ada", "wrote", "notes")],
    "Ada Lovelace met Bob.": [("Ada Lovelace", "met", "Bob"), ("ADA", "knew", "Bob")],
    "Rome fell.": [("Rome", "fell", "Ada")],
}
BATCH = [
    Passage(text, id=f"p{n}", source_id=f"s{n % 2}", metadata={"n": n})
    for n, text in enumerate(TABLE)
]
ITEMS = [(p, Extraction(triples=TABLE[p.text])) for p in BATCH]
CONFIG = HippoConfig(synonymy_threshold=0.5)


class Counting(HashEmbedder):
    """Counts the texts that it embeds, the probe apart; the n-th batch may fail."""

    def __init__(self, dimension=16, name="hash", fail_at=0):
        super().__init__(dimension, name)
        self.fail_at = fail_at

    def embed(self, texts, kind):
        self.fail_at -= 1
        if self.fail_at == 0:
            raise PermanentModelError("the embedder is down")
        return super().embed(texts, kind)

    @property
    def texts(self):
        return [(k, t) for k, texts in self.calls for t in texts if t != PROBE]


def opened(store=None, embedder=None, chat=None, **more):
    return HippoRAG(chat, embedder or HashEmbedder(16), store=store, config=CONFIG, **more)


def arrays(memory):
    """Everything that is derived, as plain values."""
    snapshot = memory._index.snapshot()
    corpus, graph = snapshot.whole, snapshot.graph
    return {
        "passages": list(corpus.passages),
        "phrases": list(corpus.phrases),
        "triples": list(corpus.triples),
        "spelled": [snapshot.display_triple(i) for i in range(len(graph.triples))],
        "synonyms": [part.tolist() for part in corpus.synonyms],
        "edges": [part.tolist() for part in graph.phrase_edges(memory.config)],
        "counts": graph.passage_counts.tolist(),
        "walk": graph.transition(memory.config, with_passages=True).walk.toarray().tolist(),
        "vectors": [
            np.asarray(rows).tolist()
            for rows in (corpus.passage_vectors, corpus.phrase_vectors, corpus.triple_vectors)
        ],
        "stats": memory.stats(),
    }


def rows_of(memory, table):
    with memory._store.read() as reader:
        return sorted(map(tuple, reader._connection.execute(sa.select(table))))


def execute(memory, statement):
    with memory._store.write() as writer:
        assert writer._connection.execute(statement).rowcount


def answers(memory):
    found = [memory.retrieve(q, k=99) for q in ("Who wrote notes?", "Rome", "Ada Lovelace")]
    return [dataclasses.replace(f, usage=None) for f in found]


@pytest.fixture
def small_memories_are_kept(monkeypatch):
    monkeypatch.setattr(index, "WORTH_KEEPING", 1)


# -- verify ----------------------------------------------------------------------------------------


def _with_failures(corpora):
    first = {
        ("triples", "Rome fell."): [PermanentModelError("no")],
        ("entities", "Ada wrote notes."): ["no JSON", "nor here"],
    }
    memory = opened(chat=corpora.Reader(TABLE, first))
    memory.add(BATCH, on_error="skip")
    return memory


def _aliased(_corpora):
    memory = opened()
    memory.add_extracted(ITEMS)
    memory.aliases = [["Ada", "Ada Lovelace"]]
    memory.never_link = [["Ada", "Bob"]]
    return memory


def _after_deletes(_corpora):
    memory = opened()
    memory.add_extracted(ITEMS)
    memory.delete(["p1"])
    memory.add_extracted([(dataclasses.replace(BATCH[0], text="Rome fell."), ITEMS[2][1])])
    return memory


def _partial(_corpora):
    memory = opened()
    cut = Extraction(triples=TABLE["Rome fell."], status="partial", reason="cut")
    memory.add_extracted([ITEMS[0], (BATCH[2], cut)])
    return memory


def _pending(corpora):
    memory = opened(chat=corpora.Reader(TABLE, {("triples", "Rome fell."): ["x", "y"]}))
    with pytest.raises(IndexingError):
        memory.add(BATCH)
    return memory


@pytest.mark.parametrize(
    "made",
    [
        lambda _: opened(), _with_failures, _aliased, _after_deletes, _partial, _pending,
    ],
)  # fmt: skip
def test_nothing_is_wrong_with_a_memory_however_it_came_about(made, corpora):
    with made(corpora) as memory:
        report = memory.verify()
        assert report.problems == ()
        assert report.ok
        assert report.passages == len(memory)


def test_nothing_is_wrong_after_reopening_nor_in_a_store_of_two_namespaces(
    tmp_path, small_memories_are_kept
):
    with opened(tmp_path / "m") as memory, opened(tmp_path / "m", namespace="two") as two:
        memory.add_extracted(ITEMS)
        two.add_extracted(ITEMS[:1])
        two.reembed(HashEmbedder(8, "other"))
        assert memory.verify().ok
        assert two.verify().ok
    with opened(tmp_path / "m") as memory:
        assert memory.verify().problems == ()
        memory.delete(["p0"])
        assert memory.verify().problems == ()


def test_verifying_asks_no_model_and_takes_none(tmp_path):
    embedder = HashEmbedder(16)
    with opened(tmp_path / "m", embedder) as memory:
        memory.add_extracted(ITEMS)
        embedder.calls.clear()
        assert memory.verify().ok
        assert embedder.calls == []
    with HippoRAG(None, None, store=tmp_path / "m", config=CONFIG) as memory:
        assert memory.verify().ok


V, E, P, C = tables.vectors, tables.extractions, tables.passages, tables.changes


def _vector(kind, text):
    return sa.and_(V.c.kind == kind, V.c.text_key == text_key(text))


def _blob(*numbers):
    return np.array(numbers, dtype="<f4").tobytes()


BROKEN = {
    "a phrase's vector deleted": (V.delete().where(_vector("phrase", "bob")), ("phrase", "bob")),
    "a passage's vector deleted": (
        V.delete().where(_vector("passage", "Rome fell.")),
        ("passage", "Rome fell."),
    ),
    "a triple's vector deleted": (
        V.delete().where(_vector("triple", "rome fell ada")),
        ("triple", "rome fell ada"),
    ),
    "a vector cut": (
        V.update().where(_vector("phrase", "bob")).values(vector=b"12345"),
        ("phrase", "bob"),
    ),
    "a vector of other numbers": (
        V.update().where(_vector("phrase", "bob")).values(vector=_blob(*[7.0] * 16)),
        ("phrase", "bob", "length"),
    ),
    "a vector of no numbers": (
        V.update().where(_vector("phrase", "bob")).values(vector=_blob(*[np.nan] * 16)),
        ("phrase", "bob", "length"),
    ),
    "a triple's vector of endless numbers": (
        V.update()
        .where(_vector("triple", "rome fell ada"))
        .values(vector=_blob(*[np.inf] * 16)),
        ("triple", "rome", "length"),
    ),
    "a passage's vector of other numbers": (
        V.update().where(_vector("passage", "Rome fell.")).values(vector=_blob(*[0.01] * 16)),
        ("passage", "p2", "length"),
    ),
    "an extraction of no passage": (
        E.insert().values(
            namespace="default", text_key="lost", pending=False, extractor="x", status="ok",
            reason="", entities="[]", triples="[]", dropped="{}",
        ),
        ("extraction", "lost"),
    ),
    "a passage that the log lacks": (
        C.delete().where(C.c.passage_id == "p1"),
        ("change log", "p1"),
    ),
    "a passage that the log has as deleted": (
        C.update().where(C.c.passage_id == "p1").values(passage_id=None),
        ("deleted", "p1"),
    ),
    "a passage that only the log has": (
        P.delete().where(P.c.id == "p1"),
        ("change log", "p1"),
    ),
    "metadata that is no JSON": (
        P.update().where(P.c.id == "p1").values(metadata="{"),
        ("p1", "cannot be read"),
    ),
    "triples that are no JSON": (
        E.update().where(E.c.text_key == text_key("Rome fell.")).values(triples="[[1]]"),
        ("p2", "cannot be read"),
    ),
    "a text that was changed": (
        P.update().where(P.c.id == "p1").values(text="Ada wrote notes, too."),
        ("Ada wrote notes, too.",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("reopened", [False, True])
def test_each_invariant_that_is_broken_is_named(how, reopened, tmp_path):
    statement, named = BROKEN[how]
    memory = opened(tmp_path / "m")
    memory.add_extracted(ITEMS)
    assert memory.verify().ok
    execute(memory, statement)
    if reopened:
        memory.close()
        memory = opened(tmp_path / "m")
    with memory:
        report = memory.verify()
        assert not report.ok
        assert any(all(part in line for part in named) for line in report.problems), report


TAMPERED = {
    "passages": lambda held: held._columns._live.__setitem__(
        0, held._columns._live[0]._replace(status=Status.PARTIAL)
    ),
    "metadata": lambda held: held._columns._live[0].passage.metadata.update(n=99),
    "metadata of another type": lambda held: held._columns._live[0].passage.metadata.update(n=0.0),
    "a missing passage": lambda held: (held._columns.drop("p0"), held._columns.sweep()),
    "spellings": lambda held: held._columns._spellings.items.__setitem__(0, "Other"),
    "synonyms": lambda held: held._synonyms.remove([0], held._columns.phrases.capacity),
    "cosines": lambda held: held._synonyms.pairs.cosine.__setitem__(0, 0.123),
    "vectors": lambda held: held._vectors["phrase"].clear(np.array([0])),
    "lengths": lambda held: held._columns._lengths.__setitem__(0, 77),
    "ends": lambda held: held._columns._ends.__setitem__(0, 1),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_memory_holds_otherwise_than_the_store_is_found_and_rebuild_mends_it(what):
    with opened() as memory, opened() as other:
        memory.add_extracted(ITEMS)
        other.add_extracted(ITEMS)
        memory.stats()
        TAMPERED[what](memory._index)
        report = memory.verify()
        assert report.problems
        assert all("memory" in line for line in report.problems)
        memory.embedder.calls.clear()
        memory.rebuild()
        assert memory.verify().ok
        assert arrays(memory) == arrays(other)
        assert memory.embedder.calls == []


def test_rebuilding_asks_no_model_and_changes_nothing(tmp_path, small_memories_are_kept):
    embedder, chat = HashEmbedder(16), ScriptedChatModel(lambda _: '{"keep": [1]}')
    with opened(tmp_path / "m", embedder, chat) as memory:
        memory.add_extracted(ITEMS)
        memory.aliases = [["Ada", "Ada Lovelace"]]
        before, answered = arrays(memory), answers(memory)
        embedder.calls.clear()
        chat.calls.clear()
        memory.rebuild()
        assert arrays(memory) == before
        assert embedder.calls == chat.calls == []
        assert answers(memory) == answered
        memory.delete(["p1"])
        memory.add_extracted(ITEMS)
        assert arrays(memory) == before


# -- delete ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [
    {}, {"ids": ["p0"], "where": {}}, {"where": {}, "source_id": "s0"},
    {"ids": [], "source_id": "s0"}, {"ids": ["p0"], "where": {}, "source_id": "s0"},
])  # fmt: skip
def test_delete_takes_exactly_one_choice(chosen):
    with opened() as memory:
        memory.add_extracted(ITEMS)
        with pytest.raises(InputError, match="one of"):
            memory.delete(**chosen)
        assert len(memory) == 3


@pytest.mark.parametrize("chosen", [{"ids": "p0"}, {"ids": [1]}, {"source_id": 7}, {"where": "n"}])
def test_what_is_no_choice_is_refused(chosen):
    with opened() as memory:
        memory.add_extracted(ITEMS)
        with pytest.raises(InputError):
            memory.delete(**chosen)
        assert len(memory) == 3


@pytest.mark.parametrize(
    ("chosen", "deleted", "not_found"),
    [
        ({"ids": ["p2", "x", "p0", "p2"]}, ("p2", "p0"), ("x",)),
        ({"ids": []}, (), ()),
        ({"ids": ("p1",)}, ("p1",), ()),
        ({"where": {"n": {"$gte": 1}}}, ("p1", "p2"), ()),
        ({"where": lambda metadata: metadata["n"] == 0}, ("p0",), ()),
        ({"where": {}}, ("p0", "p1", "p2"), ()),
        ({"where": {"n": 9}}, (), ()),
        ({"source_id": "s0"}, ("p0", "p2"), ()),
        ({"source_id": "none"}, (), ("none",)),
        ({"source_id": ""}, (), ("",)),
    ],
)
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_delete_tells_what_it_deleted_and_what_was_not_there(chosen, deleted, not_found, on_loop):
    with opened() as memory, opened() as other:
        memory.add_extracted(ITEMS)
        report = asyncio.run(memory.adelete(**chosen)) if on_loop else memory.delete(**chosen)
        assert (report.deleted, report.not_found) == (deleted, not_found)
        kept = [item for item in ITEMS if item[0].id not in deleted]
        if kept:
            other.add_extracted(kept)
        assert list(memory) == list(other)
        if kept:
            assert arrays(memory) == arrays(other)
        assert memory.verify().ok


def test_a_filter_that_fails_deletes_nothing():
    with opened() as memory:
        memory.add_extracted(ITEMS)

        def where(metadata):
            return bool(1 / (metadata["n"] - 1))

        with pytest.raises(ZeroDivisionError):
            memory.delete(where=where)
        assert len(memory) == 3
        assert memory.delete(["p0"]).deleted == ("p0",)


# -- sources and metadata --------------------------------------------------------------------------


def test_one_text_from_two_sources_is_two_passages_and_one_reading():
    openie = TableOpenIE({t: Extraction(triples=x) for t, x in TABLE.items()})
    with HippoRAG(None, HashEmbedder(16), openie=openie) as memory:
        report = memory.add(
            [Passage("Rome fell.", source_id="a"), Passage("Rome fell.", source_id="b")]
        )
        assert len(set(report.ids)) == len(memory) == 2
        assert openie.calls == ["Rome fell."]
        assert memory.stats().triples == 1
        (link,) = memory.retrieve("Rome fell").triples
        assert set(link.passage_ids) == set(report.ids)
        memory.delete(source_id="a")
        assert [p.source_id for p in memory] == ["b"]
        memory.add([Passage("Rome fell.", source_id="a")])
        assert openie.calls == ["Rome fell."]
        memory.delete(where={})
        memory.add([Passage("Rome fell.", source_id="a")])
        assert openie.calls == ["Rome fell."] * 2


def test_other_metadata_or_source_asks_no_model_and_filters_see_it(corpora):
    chat, embedder = corpora.Reader(TABLE), Counting()
    with opened(embedder=embedder, chat=chat) as memory:
        memory.add(BATCH)
        before = arrays(memory)
        chat.calls.clear()
        embedder.calls.clear()
        changed = dataclasses.replace(BATCH[0], metadata={"n": 99}, source_id="new")
        assert memory.add([changed]).updated == ("p0",)
        assert chat.calls == embedder.texts == []
        chat.other = '{"keep": [1]}'
        assert [h.passage for h in memory.retrieve("Ada", where={"n": 99})] == [changed]
        assert len(memory.retrieve("Ada", where={"n": 0})) == 0
        assert memory.delete(source_id="s0").deleted == ("p2",)
        memory.add([BATCH[2], BATCH[0]])
        assert arrays(memory) == before


def test_numbers_that_are_equal_in_python_and_not_in_json_are_an_update():
    with opened() as memory:
        memory.add_extracted([(Passage("T", id="t", metadata={"n": 1}), Extraction())])
        for value in (1.0, True):
            item = (Passage("T", id="t", metadata={"n": value}), Extraction())
            assert memory.add_extracted([item]).updated == ("t",)
            assert type(memory.get(["t"])[0].metadata["n"]) is type(value)
            assert memory.verify().ok


# -- retry and read again --------------------------------------------------------------------------


@pytest.mark.parametrize("on_loop", [False, True])
def test_retry_failed_reads_what_failed_and_nothing_else(on_loop, corpora):
    first = {
        ("triples", "Rome fell."): [PermanentModelError("no")] * 2,
        ("entities", "Ada wrote notes."): ["no JSON", "nor here"],
    }
    chat = corpora.Reader(TABLE, first)
    seen = []

    def retry(memory):
        chat.asked.clear()
        if on_loop:
            return asyncio.run(memory.aretry_failed(progress=seen.append))
        return memory.retry_failed(progress=seen.append)

    with opened(chat=chat) as memory, opened(chat=corpora.Reader(TABLE)) as other:
        memory.add(BATCH, on_error="skip")
        report = retry(memory)
        assert report.failed.keys() == {"p2"}
        assert report.updated == ("p0",)
        assert {text for _, text in chat.asked} == {"Rome fell.", "Ada wrote notes."}
        assert (seen[-1].done, seen[-1].failed, seen[-1].total) == (2, 1, 2)
        report = retry(memory)
        assert not report.failed
        assert chat.asked == [("triples", "Rome fell.")]
        assert retry(memory).ids == ()
        assert chat.asked == []
        other.add(BATCH)
        assert arrays(memory) == arrays(other)


def test_a_failed_passage_keeps_its_metadata_when_it_is_retried(corpora):
    chat = corpora.Reader(TABLE, {("triples", "Rome fell."): [PermanentModelError("no")]})
    with opened(chat=chat) as memory:
        memory.add(BATCH, on_error="skip")
        memory.retry_failed()
        assert memory.get(["p2"]) == [BATCH[2]]


OTHER = {text: [("another", "reads", text)] for text in TABLE}


def readers(memory):
    return {row[3] for row in rows_of(memory, tables.extractions) if not row[2]}


@pytest.mark.parametrize("on_loop", [False, True])
def test_reextract_reads_what_another_extractor_read(on_loop, corpora, tmp_path):
    def again(memory, **chosen):
        if on_loop:
            return asyncio.run(memory.areextract(**chosen))
        return memory.reextract(**chosen)

    with opened(tmp_path / "m", chat=corpora.Reader(TABLE, name="one")) as memory:
        memory.add(BATCH[:2])
        memory.add_extracted([ITEMS[2]])
    chat = corpora.Reader(OTHER, name="two")
    with (
        opened(tmp_path / "m", chat=chat) as memory,
        opened(chat=corpora.Reader(OTHER, name="two")) as other,
    ):
        assert memory.add(BATCH).unchanged == ("p0", "p1", "p2")
        assert chat.asked == []
        report = again(memory)
        assert set(report.updated) == {"p0", "p1"}
        assert {text for _, text in chat.asked} == {p.text for p in BATCH[:2]}
        chat.asked.clear()
        assert again(memory).ids == ()
        assert chat.asked == []
        assert again(memory, ids=["p2", "p0"]).updated == ("p2",)  # named, so read
        assert {text for _, text in chat.asked} == {"Rome fell."}
        other.add(BATCH)
        assert arrays(memory) == arrays(other)
        assert rows_of(memory, V) == rows_of(other, V)
        assert memory.verify().ok


def test_reextract_chooses_by_filter_and_tells_progress(corpora):
    seen = []
    with opened(chat=corpora.Reader(TABLE, name="one")) as memory:
        memory.add(BATCH)
        memory._models = dataclasses.replace(memory._models, chat=corpora.Reader(OTHER, name="two"))
        assert memory.reextract(where={"n": 1}, progress=seen.append).updated == ("p1",)
        assert [p.total for p in seen] == [1]
        with pytest.raises(InputError, match="one of"):
            memory.reextract(["p0"], where={"n": 1})
        assert set(memory.reextract().updated) == {"p0", "p2"}


def test_a_reading_that_says_the_same_is_not_paid_again(corpora):
    with opened(chat=corpora.Reader(TABLE, name="one")) as memory:
        memory.add(BATCH)
        chat = corpora.Reader(TABLE, name="two")
        memory._models = dataclasses.replace(memory._models, chat=chat)
        before = arrays(memory)
        memory.reextract()
        assert len(chat.asked) == 2 * len(BATCH)
        memory.reextract()
        assert len(chat.asked) == 2 * len(BATCH)
        assert arrays(memory) == before


def test_reextract_goes_on_where_it_was_interrupted(corpora, tmp_path):
    with opened(tmp_path / "m", chat=corpora.Reader(TABLE, name="one")) as memory:
        memory.add(BATCH)
        before = arrays(memory)
    first = {("triples", "Rome fell."): [PermanentModelError("no")]}
    chat = corpora.Reader(OTHER, first, name="two")
    with opened(tmp_path / "m", chat=chat) as memory:
        with pytest.raises(IndexingError):
            memory.reextract()
        assert arrays(memory) == before  # the old readings serve
        assert memory.add(BATCH).unchanged
    chat.asked.clear()
    with (
        opened(tmp_path / "m", chat=chat) as memory,
        opened(chat=corpora.Reader(OTHER, name="two")) as other,
    ):
        assert len(memory.reextract().updated) == 3
        assert chat.asked == [("triples", "Rome fell.")]  # the rest was kept
        other.add(BATCH)
        assert arrays(memory) == arrays(other)


def test_what_cannot_be_read_again_keeps_its_old_reading_and_is_tried_again(corpora):
    first = {("triples", "Rome fell."): [PermanentModelError("no")] * 2}
    with opened(chat=corpora.Reader(TABLE, name="one")) as memory, opened() as other:
        memory.add(BATCH)
        chat = corpora.Reader(OTHER, first, name="two")
        memory._models = dataclasses.replace(memory._models, chat=chat)
        for _ in range(2):
            report = memory.reextract(on_error="skip")
            assert report.failed.keys() == {"p2"}
            assert "p2" not in {*report.updated, *report.added, *report.unchanged}
            told = [(p, Extraction(triples=OTHER[p.text])) for p in BATCH[:2]]
            other.add_extracted([*told, ITEMS[2]])
            assert arrays(memory) == arrays(other)
            assert memory.verify().ok
        assert memory.reextract().updated == ("p2",)
        assert memory.reextract().ids == ()


def test_reextract_needs_something_that_reads():
    with opened() as memory:
        memory.add_extracted(ITEMS)
        assert memory.reextract().ids == ()
        with pytest.raises(ModelRequiredError):
            memory.reextract(where={})
        assert memory.verify().ok


# -- another embedder ------------------------------------------------------------------------------


class Instructed(Counting):
    """Of the same name, with other vectors."""

    def _vector(self, word):
        return super()._vector(f"instruction {word}")


NEW = {
    "another name": lambda: Counting(16, "new"),
    "another dimension": lambda: Counting(24),
    "another instruction": lambda: Instructed(16),
}


@pytest.mark.parametrize("made", NEW)
@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize("blind", [False, True])
def test_reembedding_gives_the_index_that_the_new_embedder_would_have_built(
    made, on_loop, blind, tmp_path, small_memories_are_kept
):
    chat = ScriptedChatModel([])
    with opened(tmp_path / "m", chat=chat) as memory:
        memory.add_extracted(ITEMS)
        memory.aliases = [["Ada", "Bob"]]
    new = NEW[made]()
    with pytest.raises(EmbedderMismatchError, match="reembed") as caught:
        with opened(tmp_path / "m", new) as memory:
            memory.retrieve("Ada")
    if made != "another instruction":
        assert "'hash'" in str(caught.value)
        assert f"'{new.name}'" in str(caught.value)
    new.calls.clear()
    embedder = None if blind else HashEmbedder(16)
    with (
        HippoRAG(chat, embedder, store=tmp_path / "m", config=CONFIG) as memory,
        opened(embedder=NEW[made]()) as other,
    ):
        other.add_extracted(ITEMS)
        other.aliases = [["Ada", "Bob"]]
        embedded = asyncio.run(memory.areembed(new)) if on_loop else memory.reembed(new)
        assert embedded == len(new.texts) == len(set(new.texts)) == len(rows_of(other, V))
        assert memory.embedder is new
        assert arrays(memory) == arrays(other)
        assert [r[2:] for r in rows_of(memory, V)] == [r[2:] for r in rows_of(other, V)]
        chat._replies = lambda _: '{"keep": []}'
        answers(memory)
        assert memory.verify().ok
        new.calls.clear()
        assert memory.reembed(new) == 0
        assert new.texts == []
    with opened(tmp_path / "m", NEW[made]()) as memory, opened(embedder=NEW[made]()) as other:
        other.add_extracted(ITEMS)
        other.aliases = [["Ada", "Bob"]]
        assert answers(memory) == answers(other)
        assert memory.verify().ok


def test_reembedding_reads_nothing(corpora):
    chat = corpora.Reader(TABLE)
    with opened(chat=chat) as memory:
        memory.add(BATCH)
        chat.calls.clear()
        assert memory.reembed(HashEmbedder(8, "new"))
        assert chat.calls == []
        assert memory.add(BATCH).unchanged == ("p0", "p1", "p2")


@pytest.mark.parametrize("fail_at", [1, 2, 3, 4, 6, 8])
def test_an_interrupted_migration_embeds_nothing_twice(fail_at, tmp_path):
    config = CONFIG.but(embed_batch_size=2, concurrency=1)
    with HippoRAG(None, HashEmbedder(16), store=tmp_path / "m", config=config) as memory:
        memory.add_extracted(ITEMS)
        before = answers(memory)
        new = Counting(24, "new", fail_at)
        with pytest.raises(PermanentModelError):
            memory.reembed(new)
        assert memory.embedder.name == "hash"
        assert answers(memory) == before  # the old vectors serve
        assert memory.verify().ok
        memory.add_extracted(ITEMS)
    with (
        HippoRAG(None, None, store=tmp_path / "m", config=config) as memory,
        opened(embedder=Counting(24, "new")) as other,
    ):
        memory.reembed(new)
        other.add_extracted(ITEMS)
        assert len(new.texts) == len(set(new.texts)) == len(rows_of(other, V))
        assert arrays(memory) == arrays(other)


def test_what_another_handle_does_meanwhile_is_not_lost(tmp_path):
    more = (Passage("Bob met Rome.", id="more"), Extraction(triples=[("Bob", "met", "Rome")]))
    memory, other = opened(tmp_path / "m"), opened(tmp_path / "m")
    memory.add_extracted(ITEMS)

    class Interrupted(Counting):
        def embed(self, texts, kind):
            if kind == "triple" and not done:
                done.append(True)
                other.add_extracted([more])
                other.delete(["p0"])
            return super().embed(texts, kind)

    done = []
    with memory, other, opened(embedder=HashEmbedder(24, "new")) as fresh:
        memory.reembed(Interrupted(24, "new"))
        fresh.add_extracted([*ITEMS[1:], more])
        assert arrays(memory) == arrays(fresh)
        assert [r[2:] for r in rows_of(memory, V)] == [r[2:] for r in rows_of(fresh, V)]
        assert memory.verify().ok


def test_a_handle_with_the_old_embedder_says_so_at_its_next_use_and_loses_nothing(
    tmp_path, corpora
):
    chat = corpora.Reader(TABLE)
    memory, old = opened(tmp_path / "m"), opened(tmp_path / "m", chat=chat)
    with memory, old:
        memory.add_extracted(ITEMS[:1])
        old.retrieve("Ada")
        old.add(BATCH[:1])
        memory.reembed(HashEmbedder(24, "new"))
        for use in (
            lambda: old.retrieve("Ada"),
            lambda: old.add(BATCH),
            lambda: old.add_extracted(ITEMS[1:]),
        ):
            with pytest.raises(EmbedderMismatchError, match="'new'"):
                use()
        assert len(old) == len(memory) == 1
        assert old.get(["p0"]) == [BATCH[0]]
        assert old.verify().ok
        asked = len(chat.asked)
        memory._models = dataclasses.replace(memory._models, chat=chat)
        memory.add(BATCH)
        assert len(chat.asked) == asked  # what was read is kept
        old.reembed(HashEmbedder(24, "new"))
        assert arrays(old) == arrays(memory)


def test_an_empty_memory_takes_another_embedder():
    with opened() as memory, opened(embedder=HashEmbedder(8, "new")) as other:
        assert memory.reembed(HashEmbedder(8, "new")) == 0
        memory.add_extracted(ITEMS)
        other.add_extracted(ITEMS)
        assert arrays(memory) == arrays(other)


@pytest.mark.parametrize("embedder", [None, object(), "hash"])
def test_what_is_no_embedder_is_refused(embedder):
    with opened() as memory:
        memory.add_extracted(ITEMS)
        with pytest.raises(TypeError, match="embed"):
            memory.reembed(embedder)
        memory.retrieve("Ada")


# -- without models --------------------------------------------------------------------------------


def test_without_an_embedder_all_that_needs_none_works(tmp_path, corpora):
    with opened(tmp_path / "m") as memory:
        memory.add_extracted(ITEMS)
    chat = corpora.Reader(TABLE)
    with HippoRAG(chat, None, store=tmp_path / "m", config=CONFIG) as memory:
        assert memory.get(["p0"]) == [BATCH[0]]
        assert list(memory) == BATCH
        assert memory.stats().passages == len(memory) == 3
        assert memory.verify().ok
        memory.aliases = [["Ada", "Bob"]]
        memory.rebuild()
        memory.purge()
        memory.backup(tmp_path / "copy")
        assert memory.copy_to(tmp_path / "other") == ["default"]
        for use in (
            lambda: memory.retrieve("Ada"),
            lambda: memory.answer("Ada"),
            lambda: memory.add(["A new one."]),
            lambda: memory.add_extracted([("Another.", Extraction())]),
        ):
            with pytest.raises(ModelRequiredError, match="embed"):
                use()
        assert chat.calls == []  # nothing is paid for what cannot be done
        assert memory.add(BATCH).unchanged == ("p0", "p1", "p2")
        moved = dataclasses.replace(BATCH[0], metadata={"n": 5})
        assert memory.add([moved]).updated == ("p0",)
        assert memory.delete(["p1"]).deleted == ("p1",)
        assert [p.id for p in memory] == ["p0", "p2"]
    for folder in ("copy", "other"):
        with opened(tmp_path / folder) as memory, opened() as other:
            other.add_extracted(ITEMS)
            other.aliases = [["Ada", "Bob"]]
            assert arrays(memory) == arrays(other)
            assert answers(memory) == answers(other)
            assert memory.verify().ok


def test_without_a_chat_model_one_can_ask(tmp_path):
    with opened(tmp_path / "m") as memory:
        memory.add_extracted(ITEMS)
        assert memory.retrieve("Ada").path == "unfiltered: recognition memory off"
        with pytest.raises(ModelRequiredError, match="chat model"):
            memory.answer("Ada")
        with pytest.raises(ModelRequiredError):
            memory.add(["A new one."])
        assert len(memory) == 3


# -- namespaces ------------------------------------------------------------------------------------

NEIGHBOURS = [
    (
        Passage("ADA LOVELACE wrote about Rome.", id="p0"),
        Extraction(
            triples=[("ADA", "WROTE", "NOTES"), ("ADA LOVELACE", "saw", "Rome"), ("Ada", "is", "x")]
        ),
    ),
    (Passage("Rome fell.", id="p9"), Extraction(triples=[("ROME", "FELL", "ADA")])),
]


def test_a_namespace_is_as_if_alone(tmp_path):
    with (
        opened(tmp_path / "m", namespace="one") as one,
        opened(tmp_path / "m", namespace="two") as two,
        opened() as alone,
        opened() as other,
    ):
        one.add_extracted(ITEMS)
        two.add_extracted(NEIGHBOURS)
        two.aliases = [["Ada", "Rome"]]
        alone.add_extracted(ITEMS)
        other.add_extracted(NEIGHBOURS)
        other.aliases = [["Ada", "Rome"]]
        assert arrays(one) == arrays(alone)
        assert arrays(two) == arrays(other)
        assert answers(one) == answers(alone)
        assert one.aliases == ()
        assert one.namespaces() == ["one", "two"]
        two.delete(["p0", "p9"])
        two.forget_pending()
        assert arrays(one) == arrays(alone)
        assert rows_of(one, V)
        assert one.verify().ok


def test_deleting_a_namespace_leaves_the_others_bit_for_bit(tmp_path):
    with opened(tmp_path / "m", namespace="one") as one:
        two = opened(tmp_path / "m", namespace="two")
        watcher = opened(tmp_path / "m", namespace="two")
        one.add_extracted(ITEMS)
        two.add_extracted(NEIGHBOURS)
        two.never_link = [["Ada", "Rome"]]
        assert len(watcher) == 2
        before = [
            [r for r in rows_of(one, t) if r[0] == "one"] for t in tables.metadata.tables.values()
        ]
        answered, held = answers(one), arrays(one)
        assert two.delete_namespace() == 2
        assert one.namespaces() == ["one"]
        assert len(two) == len(watcher) == 0
        assert list(watcher) == []
        assert watcher.never_link == two.never_link == ()
        assert watcher.retrieve("Ada").path == "empty: no passages"
        assert two.stats().phrases == watcher.stats().phrases == 0
        assert before == [
            [r for r in rows_of(one, t) if r[0] == "one"] for t in tables.metadata.tables.values()
        ]
        assert (answers(one), arrays(one)) == (answered, held)
        assert two.verify().ok
        assert watcher.verify().ok
        assert two.delete_namespace() == 0
        with (
            opened(tmp_path / "m", HashEmbedder(8, "new"), namespace="two") as new,
            opened(embedder=HashEmbedder(8, "new")) as other,
        ):
            new.add_extracted(NEIGHBOURS)
            other.add_extracted(NEIGHBOURS)
            assert arrays(new) == arrays(other)
            with pytest.raises(EmbedderMismatchError, match="'new'"):
                watcher.retrieve("Ada")
            with pytest.raises(EmbedderMismatchError):
                two.add_extracted(ITEMS)
            assert len(watcher) == 2
        two.close()
        watcher.close()


def test_a_namespace_that_another_handle_deleted_can_be_filled_again_by_all(tmp_path):
    one, two = opened(tmp_path / "m"), opened(tmp_path / "m")
    with one, two, opened() as other:
        one.add_extracted(ITEMS[:2])
        two.retrieve("Ada")
        two.add_extracted(ITEMS[2:])
        one.delete_namespace()
        two.add_extracted(ITEMS[:1])
        one.add_extracted(ITEMS[1:])
        other.add_extracted(ITEMS)
        assert arrays(one) == arrays(two) == arrays(other)
        assert answers(one) == answers(two) == answers(other)
        assert one.verify().ok


def test_namespaces_lists_those_that_hold_something(tmp_path):
    with opened(tmp_path / "m") as memory:
        assert memory.namespaces() == []
        memory.add_extracted(ITEMS)
        with opened(tmp_path / "m", namespace="b") as b, opened(tmp_path / "m", namespace="a") as a:
            assert memory.namespaces() == ["default"]
            b.aliases = [["x", "y"]]
            a.add_extracted(ITEMS[:1])
            assert memory.namespaces() == ["a", "b", "default"]
            b.aliases = []
            assert memory.namespaces() == ["a", "default"]


# -- copies of the handle --------------------------------------------------------------------------


def test_a_pickled_handle_opens_the_same_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = HippoRAG(
        None, HashEmbedder(16), store="m", namespace="ns", config=CONFIG, openie=TableOpenIE()
    )
    with memory:
        memory.add_extracted(ITEMS)
        data = pickle.dumps(memory)
        monkeypatch.chdir("/")
        with pickle.loads(data) as again:
            assert again is not memory
            assert (again.namespace, again.config) == ("ns", CONFIG)
            assert answers(again) == answers(memory)
            again.delete(["p0"])
            assert len(memory) == 2


def test_a_pickled_handle_opens_in_another_process(tmp_path):
    with opened(tmp_path / "m") as memory:
        memory.add_extracted(ITEMS)
        (tmp_path / "handle").write_bytes(pickle.dumps(memory))
        code = (
            "import pickle, sys, json\n"
            "memory = pickle.load(open(sys.argv[1], 'rb'))\n"
            "found = memory.retrieve('Ada Lovelace', k=99)\n"
            "memory.delete(['p0'])\n"
            "print(json.dumps([[h.passage.id, h.score] for h in found]))"
        )
        expected = [[h.passage.id, h.score] for h in memory.retrieve("Ada Lovelace", k=99)]
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "handle")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == expected
        assert len(memory) == 2


def test_a_pickle_makes_no_new_store(tmp_path):
    memory = opened(tmp_path / "m")
    memory.add_extracted(ITEMS)
    data = pickle.dumps(memory)
    memory.close()
    (tmp_path / "m").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="begin a new store"):
        pickle.loads(data)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("on_disk", [True, False])
def test_a_copied_handle_is_the_same(copied, on_disk, tmp_path):
    with opened(tmp_path / "m" if on_disk else None) as memory:
        assert copied({"memory": memory})["memory"] is memory


def test_a_memory_in_this_process_refuses_to_be_pickled():
    with opened() as memory, pytest.raises(StoreError, match="backup"):
        pickle.dumps(memory)


def test_an_empty_memory_is_true():
    with opened() as memory:
        assert len(memory) == 0
        assert memory
        assert bool(memory)


def test_a_function_that_chooses_what_is_deleted_may_use_the_memory(open_memory, corpora):
    memory = open_memory()
    memory.add_extracted(corpora.bridge_items())
    seen = []

    def is_chosen(metadata):
        if not seen:
            memory.add_extracted([(Passage("Another.", id="another"), Extraction())])
        seen.append(len(memory))
        return True

    report = memory.delete(where=is_chosen)
    assert len(report.deleted) == len(corpora.bridge_items())
    assert [p.id for p in memory] == ["another"]


def test_what_the_old_embedder_made_is_not_committed_to_the_new_ones_index(tmp_path, monkeypatch):
    with opened(tmp_path / "m") as old, opened(tmp_path / "m") as other:
        old.add_extracted(ITEMS)
        plan = old._index.plan_synonyms

        def after_the_other_was_faster(phrases):
            other.reembed(HashEmbedder(16, name="new"))
            return plan(phrases)

        monkeypatch.setattr(old._index, "plan_synonyms", after_the_other_was_faster)
        again = Passage(BATCH[0].text, id="again")  # all of its vectors are there already
        with pytest.raises(EmbedderMismatchError, match="another embedder"):
            old.add_extracted([(again, ITEMS[0][1])])
        assert sorted(p.id for p in other) == ["p0", "p1", "p2"]
        assert other.verify().ok


def test_a_call_ends_as_it_began_when_another_thread_has_the_embedder_checked_again():
    with opened() as memory:
        memory.add_extracted(ITEMS)
        embedding, embedder = memory._embedding, memory.embedder
        flow = embedding.texts(["Ada"], "phrase")
        request = next(flow)
        embedding.expect(99)  # as a thread does that found another embedder recorded
        with pytest.raises(StopIteration) as end:
            flow.send(embedder.embed(request.texts, request.kind))
        assert end.value.value.shape == (1, 16)

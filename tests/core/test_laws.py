"""The laws of the design, over generated histories and on every path."""

import asyncio
import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from enum import Enum
from functools import partial

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Completion,
    Edge,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    Passage,
    PermanentModelError,
    Progress,
    RetrievalPath,
    Status,
    TokenUsage,
    Triple,
)
from hippo_core.drivers import Driver
from hippo_core.embedding import PROBE
from hippo_core.flows import Meter
from hippo_core.inputs import checked_search
from hippo_core.limiter import Limiter
from hippo_core.retrieval import _Search
from hippo_core.seeding import passage_seeds
from hippo_core.tables import edges, extractions, passages, vectors
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.text import normalise_phrase

# -- histories -------------------------------------------------------------------------------------
# Few words, so that passages share texts, triples and phrases, and phrases are synonyms.

IDS = ["a", "b", "c", "d", "e"]
TEXTS = ["Ada wrote notes.", "Notes by Ada.", "Rome fell.", "Nothing to see."]
PHRASES = ["Ada", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "O'Ada", "!!!"]
QUERIES = {"Who wrote the notes?": ["Notes of Ada", "Rome"], "Ada Lovelace": ["ada"]}


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


triples = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "is", ""]), st.sampled_from(PHRASES)
)
readings = st.builds(
    Extraction,
    triples=st.lists(triples, max_size=4),
    status=st.sampled_from([Status.OK, Status.OK, Status.PARTIAL]),
)
written = st.builds(
    Passage,
    text=st.sampled_from(TEXTS),
    id=st.sampled_from(IDS),
    title=st.sampled_from(["", "", "Ada"]),
    source_id=st.sampled_from([None, "s", "t"]),
    metadata=st.sampled_from([{}, {"page": 1}]),
    embed_text=st.sampled_from(["", "", TEXTS[0], "Of its own."]),
)
targets = st.one_of(
    st.tuples(st.just("to_passage"), st.sampled_from(IDS)),
    st.tuples(st.just("to_source"), st.sampled_from(["s", "t", "u"])),
    st.tuples(st.just("to_phrase"), st.sampled_from([*PHRASES[:-1], "ADA", "never stated"])),
)
links = st.one_of(
    st.none(),
    st.lists(
        st.tuples(st.sampled_from(IDS), targets, st.sampled_from([0.3, 1.0, 7.0])), max_size=6
    ),
)
adds = st.tuples(
    st.just("add"),
    st.lists(written, min_size=1, max_size=3, unique_by=lambda p: p.id),
    st.lists(readings, min_size=3, max_size=3),
    links,
)
deletes = st.tuples(
    st.just("delete"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
)
looks = st.tuples(st.just("look"))
histories = st.lists(st.one_of(adds, adds, deletes, looks), min_size=2, max_size=8)


class Model:
    """What a history should leave: passages by id, readings by text, edges by passage."""

    def __init__(self):
        self.passages = {}
        self.readings = {}
        self.edges = {}

    def add_to(self, memory, batch, spare, links):
        """Add passages, and edges of them and of those that are there, unless `links` is None."""
        items = self.add(batch, spare)
        if links is None:
            return memory.add_extracted(items)
        links = [
            (owner, target, weight)
            for owner, target, weight in links
            if owner in self.passages and target != ("to_passage", owner)
        ]
        self.edges |= {id_: {} for id_ in (*(p.id for p in batch), *(owner for owner, *_ in links))}
        for owner, (name, target), weight in links:
            key = name, normalise_phrase(target) if name == "to_phrase" else target
            self.edges[owner][key] = max(weight, self.edges[owner].get(key, 0))
        given = [Edge(o, **dict([target]), weight=weight) for o, target, weight in links]
        return memory.add_extracted(items, edges=given)

    def delete(self, ids):
        for id_ in ids:
            self.passages.pop(id_, None)
            self.edges.pop(id_, None)

    def linked(self):
        return [
            Edge(owner, **{name: target}, weight=weight)
            for owner, own in self.edges.items()
            for (name, target), weight in own.items()
        ]

    def add(self, batch, spare):
        """Give each passage a reading, one per text, and take them in."""
        of_text = {}
        for passage, reading in zip(batch, spare, strict=False):
            of_text.setdefault(passage.full_text, reading)
        self.passages |= {p.id: p for p in batch}
        self.readings |= of_text
        return [(p, of_text[p.full_text]) for p in batch]

    def items(self):
        return [(p, self.readings[p.full_text]) for p in self.passages.values()]


def play(history, memory):
    model = Model()
    for step, *parts in history:
        if step == "add":
            model.add_to(memory, *parts)
        elif step == "delete":
            (ids,) = parts
            report = memory.delete(ids)
            assert report.deleted == tuple(i for i in ids if i in model.passages)
            assert report.not_found == tuple(i for i in ids if i not in model.passages)
            model.delete(ids)
        else:
            memory.retrieve("notes")
    return model


def opened(config=None, **settings):
    return HippoRAG(
        None, HashEmbedder(16), config=config, openie=TableOpenIE(queries=QUERIES), **settings
    )


def fresh(model, config, order=None):
    memory = opened(config)
    items = model.items()
    if items:
        items = [items[i] for i in order] if order else items
        memory.add_extracted(items, edges=model.linked()[::-1])
    return memory


def dense_of(matrix):
    return matrix.toarray().tolist()


def arrays(memory):
    """Everything that is derived, as plain values."""
    snapshot, config = memory._index.snapshot(), memory.config
    graph = snapshot.graph
    return {
        "passages": list(snapshot.corpus.passages),
        "spelled": [snapshot.display_triple(i) for i in range(len(graph.triples))],
        "phrases": graph.phrases,
        "triples": graph.triples,
        "triple_phrases": graph.triple_phrases.tolist(),
        "triple_passages": dense_of(graph.triple_passages),
        "phrase_passages": dense_of(graph.phrase_passages),
        "passage_counts": graph.passage_counts.tolist(),
        "synonyms": [part.tolist() for part in graph.synonyms],
        "edges": [part.tolist() for part in graph.phrase_edges(config)],
        "targets": list(snapshot.whole.edges.names),
        "user edges": [
            getattr(snapshot.whole.edges, name).tolist()
            for name in ("starts", "targets", "weights", "passages", "phrases")
        ],
        "walks": [
            dense_of(graph.transition(config, with_passages=both).walk) for both in (True, False)
        ],
        "passage_vectors": np.asarray(snapshot.corpus.passage_vectors).tolist(),
        "phrase_vectors": np.asarray(snapshot.corpus.phrase_vectors).tolist(),
        "triple_vectors": np.asarray(snapshot.corpus.triple_vectors).tolist(),
        "stats": memory.stats(),
        # what is kept beside the snapshot
        "contributions": memory._index.contributions(memory._index._columns.ids),
        "uses": {
            kind: {text: keys.uses(text) for text in keys}
            for kind in ("passage", "phrase", "triple")
            for keys in [memory._index._keys(kind)]
        },
        "uses for edges": [
            {name: keys.uses(name) for name in keys}
            for held in [memory._index._columns._edges]
            for keys in (held._targets, held._sources)
        ],
        "rows": {
            kind: sum(int(block.any(axis=1).sum()) for block in table.view().blocks)
            for kind, table in memory._index._vectors.items()
        },
        "number of pairs": len(memory._index._synonyms.pairs.left),
    }


def stored(memory):
    """All rows that are kept of passages, as plain values."""
    with memory._store.read() as reader:
        return {
            table.name: sorted(map(tuple, reader._connection.execute(sa.select(table))))
            for table in (passages, edges, extractions, vectors)
        }


METHODS = [
    HippoConfig.hipporag2, HippoConfig.hipporag, HippoConfig.dense,
    lambda **shape: HippoConfig.hipporag(dense_ensemble=True, **shape),
]  # fmt: skip


def rankings(memory):
    """Each method's whole ranking for each query: (id, score) pairs."""
    shape = {
        "synonymy_threshold": memory.config.synonymy_threshold,
        "triple_rendering": memory.config.triple_rendering,
    }
    for method, query in itertools.product(METHODS, QUERIES):
        found = memory.retrieve(query, k=100, config=method(**shape))
        yield found.path, [(hit.passage.id, hit.score, hit.edges) for hit in found]


def assert_same_answers(one, other):
    for (path, hits), (other_path, other_hits) in zip(rankings(one), rankings(other), strict=True):
        assert path == other_path
        assert [hit[::2] for hit in hits] == [hit[::2] for hit in other_hits]
        assert [score for _, score, _ in hits] == pytest.approx(
            [score for _, score, _ in other_hits], abs=1e-9, rel=1e-9
        )


configs = st.sampled_from(
    [
        HippoConfig(synonymy_threshold=0.5),
        HippoConfig(synonymy_threshold=0.5, triple_rendering="words"),
        HippoConfig(synonymy_threshold=0.7, relation_count="occurrence"),
        HippoConfig(),
    ]
)


# -- 1: order and batching do not matter -----------------------------------------------------------


@given(history=histories, config=configs, data=st.data())
@examples(45)
def test_any_history_ends_as_a_fresh_index_of_the_same_passages(history, config, data):
    with opened(config) as memory:
        model = play(history, memory)
        order = data.draw(st.permutations(range(len(model.passages))))
        with fresh(model, config, order) as other:
            assert arrays(memory) == arrays(other)
            assert stored(memory) == stored(other)
            assert_same_answers(memory, other)


@given(
    batch=st.lists(written, min_size=2, max_size=5, unique_by=lambda p: p.id),
    spare=st.lists(readings, min_size=5, max_size=5),
)
@examples(10)
def test_one_batch_is_as_many_single_adds(batch, spare):
    with opened() as together, opened() as one_by_one:
        items = Model().add(batch, spare)
        together.add_extracted(items)
        for item in items:
            one_by_one.add_extracted([item])
            list(rankings(one_by_one))  # derives each state between
        assert arrays(together) == arrays(one_by_one)
        assert_same_answers(together, one_by_one)


@given(history=histories, config=configs)
@examples(12)
def test_a_history_over_two_handles_and_reopening_ends_the_same(history, config, new_location):
    folder = new_location()
    one, two = opened(config, store=folder), opened(config, store=folder)
    model = Model()
    for turn, step in enumerate(history):
        writer, watcher = (one, two) if turn % 2 else (two, one)
        kind, *parts = step
        if kind == "add":
            model.add_to(writer, *parts)
        elif kind == "delete":
            writer.delete(parts[0])
            model.delete(parts[0])
        else:
            watcher.close()
            again = opened(config, store=folder)
            one, two = (one, again) if watcher is two else (again, two)
            continue
        assert {p.id for p in watcher} == set(model.passages)
    with one, two, fresh(model, config) as other:
        assert arrays(one) == arrays(two) == arrays(other)
        assert stored(one) == stored(other)
        assert_same_answers(one, other)
        assert_same_answers(two, other)


@given(
    config=configs,
    passages_=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4, unique=True),
    cut=st.sets(st.sampled_from(TEXTS)),
    read=st.dictionaries(st.sampled_from(TEXTS), readings, min_size=4, max_size=4),
    down=st.sets(st.sampled_from(TEXTS)),
)
@examples(20)
def test_unfinished_readings_and_their_retries_end_as_a_fresh_index(
    config, passages_, cut, read, down, corpora
):
    """Failures and an embedder that is down: once all is read, nothing shows of them."""
    whole = {text: [t for t in e.triples if t.relation] for text, e in read.items()}
    chat = corpora.Reader(whole)
    chat.first = {
        ("triples", text): [PermanentModelError("down")] for text in down if text in whole
    } | {("entities", text): ["no JSON", "nor here"] for text in cut - down}
    batch = [Passage(text, id=str(n)) for n, text in enumerate(passages_)]
    embedder = Faulty(HashEmbedder(16), fail_at=3)
    memory = HippoRAG(chat, embedder, config=config)
    with memory, HippoRAG(corpora.Reader(whole), HashEmbedder(16), config=config) as other:
        for _ in range(3):
            try:
                memory.add(batch, on_error="skip")
            except PermanentModelError:
                memory.add(batch[:1], on_error="skip")
        report = memory.add(batch)
        assert not report.failed
        other.add(batch)
        assert arrays(memory) == arrays(other)


class Faulty:
    """An embedder whose n-th call fails."""

    one_query_encoding = True

    def __init__(self, inner, fail_at):
        self.inner, self.name, self.left = inner, inner.name, fail_at

    def embed(self, texts, kind):
        self.left -= 1
        if self.left == 0:
            raise PermanentModelError("the embedder is down")
        return self.inner.embed(texts, kind)

    async def aembed(self, texts, kind):
        return self.embed(texts, kind)


def following(passage):
    return [Edge(passage, to_passage=IDS[IDS.index(passage.id) - 1])]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_handles_and_threads_at_once_end_as_a_fresh_index(seed, on_disk, store_location, at_once):
    """Each text has one reading, so that what is left tells what the index must be."""
    told = {
        TEXTS[0]: [("Ada", "wrote", "notes")],
        TEXTS[1]: [("notes of Ada", "is", "Ada"), ("Rome", "is", "C")],
        TEXTS[2]: [("Rome", "fell", "ada lovelace")],
        TEXTS[3]: [],
    }
    config = HippoConfig(synonymy_threshold=0.5)
    first = opened(config, store=store_location if on_disk else None)
    handles = [first, opened(config, store=store_location) if on_disk else first]

    def work(number):
        random = np.random.default_rng([seed, number])
        for _ in range(8):
            handle, text = handles[number % 2], str(random.choice(TEXTS))
            if random.random() < 0.6:
                embed_text = str(random.choice(["", TEXTS[0], "Of its own."]))
                passage = Passage(text, id=str(random.choice(IDS)), embed_text=embed_text)
                item = (passage, Extraction(triples=told[text]))
                handle.add_extracted([item], edges=following)
            else:
                handle.delete(random.choice(IDS, 2).tolist())
            handle.retrieve("Who wrote the notes?")

    at_once(*(partial(work, number) for number in range(4)))
    model = Model()
    model.passages = {p.id: p for p in first}
    model.edges = {id_: {("to_passage", IDS[IDS.index(id_) - 1]): 1.0} for id_ in model.passages}
    model.readings = {text: Extraction(triples=triples) for text, triples in told.items()}
    with first, handles[1], fresh(model, config) as other:
        assert arrays(first) == arrays(handles[1]) == arrays(other)
        assert stored(first)[vectors.name] == stored(other)[vectors.name]
        assert stored(first)[extractions.name] == stored(other)[extractions.name]
        assert stored(first)[edges.name] == stored(other)[edges.name]


# -- 2: delete undoes add --------------------------------------------------------------------------


@given(
    stays=st.lists(written, max_size=3, unique_by=lambda p: p.id),
    goes=st.lists(written, min_size=1, max_size=3, unique_by=lambda p: p.id),
    spare=st.lists(readings, min_size=6, max_size=6),
    config=configs,
)
@examples(22)
def test_delete_undoes_add(stays, goes, spare, config):
    goes = [dataclasses.replace(p, id=f"gone {p.id}") for p in goes]
    model = Model()
    items = model.add(stays + goes, spare)

    def linked(passage):
        """Edges of those that stay to those that go, too."""
        for other in {p.id for p in stays + goes} - {passage.id}:
            yield Edge(passage, to_passage=other)
        yield Edge(passage, to_source="t")
        yield Edge(passage, to_phrase=PHRASES[len(passage.text) % 8])

    with opened(config) as memory, opened(config) as never:
        if stays:
            never.add_extracted(items[: len(stays)], edges=linked)
        before = arrays(never), stored(never), list(rankings(never))
        never.add_extracted(items[len(stays) :], edges=linked)
        never.delete([p.id for p in goes])
        assert (arrays(never), stored(never), list(rankings(never))) == before
        memory.add_extracted(items, edges=linked)
        memory.delete([p.id for p in goes])
        assert arrays(memory) == arrays(never)
        assert stored(memory) == stored(never)


MARKS = {
    f"{first}yx{rest}".encode()
    for first in "Zz"
    for rest in (
        "text id title key value source subject relation object entity kind link embed".split()
    )
}
MARKED = Passage(
    "Zyxtext " * 2000,  # over several database pages
    id="Zyxid",
    title="Zyxtitle",
    source_id="Zyxsource",
    metadata={"Zyxkey": "Zyxvalue"},
    embed_text="Zyxembed " * 2000,
)
MARKED_READING = Extraction(
    ["Zyxentity"],
    [("Zyxsubject", "Zyxrelation", "Zyxobject"), ("Ada", "met", "Zyxobject")],
    dropped={"Zyxkind": 1},
)


MARKED_EDGES = [
    Edge("Zyxid", to_phrase="Zyxlink"),
    Edge("Zyxid", to_source="Zyxlink"),
    Edge("Zyxid", to_passage="p3"),
]


def traces(folder):
    """Which marks some file of the folder holds."""
    held = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    return {mark for mark in MARKS if mark in held}


def crowd(n):
    return [
        (
            Passage(f"Ada wrote note {i}.", id=f"p{i}"),
            Extraction((), [("Ada", "wrote", f"note {i}")]),
        )
        for i in range(n)
    ]


@pytest.mark.sqlite
def test_a_deleted_passage_leaves_no_trace_on_disk(tmp_path):
    with opened(store=tmp_path / "m") as memory:
        memory.add_extracted(crowd(30))
        memory.add_extracted([(MARKED, MARKED_READING)], edges=MARKED_EDGES)
        assert {mark for mark in MARKS if mark.startswith(b"Z")} <= traces(tmp_path)
        memory.retrieve("Zyxtext")
        memory.delete(["Zyxid"])
        assert not traces(tmp_path)
        memory.add_extracted(crowd(40)[30:])
        assert not traces(tmp_path)
    assert not traces(tmp_path)


@pytest.mark.sqlite
def test_an_updated_passage_leaves_no_trace_of_what_it_was(tmp_path):
    with opened(store=tmp_path / "m") as memory:
        memory.add_extracted([*crowd(30), (MARKED, MARKED_READING)], edges=MARKED_EDGES)
        memory.add_extracted([(Passage("Ada is back.", id="Zyxid"), Extraction())], edges=[])
        assert traces(tmp_path) == {b"Zyxid"}
    assert traces(tmp_path) == {b"Zyxid"}


@pytest.mark.sqlite
def test_a_partial_reading_that_was_completed_leaves_no_trace(tmp_path, corpora):
    cut = '{"triples": [["Zyxsubject", "Zyxrelation", "Zyxobject"], ["Ada", "wr'
    chat = corpora.Reader({"T": [("Ada", "wrote", "notes")]})
    chat.first = {("triples", "T"): [_completion(cut, finish_reason="length")]}
    with HippoRAG(chat, HashEmbedder(), store=tmp_path / "m") as memory:
        assert memory.add([Passage("T", id="t")]).partial
        assert b"Zyxsubject" in traces(tmp_path)
        assert not memory.add([Passage("T", id="t")]).partial
        assert not traces(tmp_path)


@pytest.mark.sqlite
def test_a_deleted_failed_passage_leaves_no_trace(tmp_path, corpora):
    text = MARKED.full_text
    chat = corpora.Reader({text: [("Zyxsubject", "Zyxrelation", "Zyxobject")]})
    chat.first = {("triples", text): [PermanentModelError("Zyxvalue")]}
    with HippoRAG(chat, HashEmbedder(), store=tmp_path / "m") as memory:
        memory.add([MARKED], on_error="skip")
        assert {b"Zyxsubject", b"Zyxvalue"} <= traces(tmp_path)  # the entities are kept
        memory.delete(["Zyxid"])
        assert not traces(tmp_path)


def test_deleting_keeps_what_others_share(open_memory):
    memory = open_memory()
    shared = Extraction(triples=[("Ada", "wrote", "notes")])
    memory.add_extracted([(Passage("T", id="1"), shared), (Passage("T", id="2"), shared)])
    memory.add_extracted([(Passage("U", id="3"), Extraction(triples=[("Ada", "met", "Bob")]))])
    memory.delete(["1"])
    assert memory.stats().triples == 2
    memory.delete(["2"])
    assert memory._index.snapshot().graph.phrases == ("ada", "bob")


def _completion(text, **more):
    return Completion(text, TokenUsage(1, 1), **more)


# -- 4: round trip ---------------------------------------------------------------------------------

CHILD = """
import json, sys
from hippo_core import HippoConfig, HippoRAG
from hippo_core.testing import HashEmbedder, TableOpenIE

folder, queries = sys.argv[1], json.loads(sys.argv[2])
openie, embedder, found = TableOpenIE(queries=queries), HashEmbedder(), []
for method in ("hipporag2", "hipporag", "dense"):
    with HippoRAG(None, embedder, store=folder, openie=openie, create=False) as memory:
        config = HippoConfig(method=method)
        for query in queries:
            hits = memory.retrieve(query, k=100, config=config)
            found.append([hits.path.value, [[h.passage.id, h.score] for h in hits]])
print(json.dumps([found, openie.calls, embedder.calls]))
"""


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_another_process_ranks_the_same_and_asks_no_model_again(store_location, corpora, closed):
    queries = corpora.queries
    memory = HippoRAG(
        None, HashEmbedder(), store=store_location, openie=TableOpenIE(queries=queries)
    )
    memory.add_extracted(corpora.bridge_items())
    here = [
        [found.path.value, [[h.passage.id, h.score] for h in found]]
        for method in ("hipporag2", "hipporag", "dense")
        for query in queries
        for found in [memory.retrieve(query, k=100, config=HippoConfig(method=method))]
    ]
    if closed:
        memory.close()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(store_location), json.dumps(queries)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    memory.close()
    assert done.returncode == 0, done.stderr
    there, read, embedded = json.loads(done.stdout)
    assert there == here
    assert read == []
    entities = [e for names in queries.values() for e in names]
    assert {text for _, texts in embedded for text in texts} <= {PROBE, *queries, *entities}


# -- 6: sync = async = batch -----------------------------------------------------------------------


def without_usage(retrieval):
    return dataclasses.replace(retrieval, usage=type(retrieval.usage)())


@pytest.mark.parametrize("path", RetrievalPath)
def test_sync_async_and_batch_are_the_same(path, memory_on, corpora):
    memory, query = memory_on(path), corpora.one_query
    alone = memory.retrieve(query, k=3)
    assert alone.path == path

    async def on_a_loop():
        return await memory.aretrieve(query, k=3), await memory.aretrieve_many([query] * 2, k=3)

    one, many = asyncio.run(on_a_loop())
    for other in (one, *many, *memory.retrieve_many([query] * 3, k=3)):
        assert without_usage(other) == without_usage(alone)
        assert other.usage.chat_calls == alone.usage.chat_calls


@pytest.mark.parametrize("config", [HippoConfig(), HippoConfig.hipporag(), HippoConfig.dense()])
def test_adding_on_a_loop_is_as_adding_in_threads(config, corpora):
    table = {p.full_text: e.triples for p, e in corpora.bridge_items()}
    batch = [p for p, _ in corpora.bridge_items()]
    queries = TableOpenIE(queries=corpora.queries)

    def filled(add):
        memory = HippoRAG(corpora.Reader(table), HashEmbedder(), config=config)
        return memory, add(memory)

    one, report = filled(lambda memory: memory.add(batch))
    two, areport = filled(lambda memory: asyncio.run(memory.aadd(batch)))
    with one, two:
        assert _no_seconds(report) == _no_seconds(areport)
        assert arrays(one) == arrays(two)
        for memory in (one, two):
            memory._models = dataclasses.replace(memory._models, chat=None, openie=queries)
        assert_same_answers(one, two)


def _no_seconds(report):
    values = dataclasses.asdict(report)
    for stage in values["usage"]["stages"].values():
        del stage["seconds"]
    return values


# -- 7: a failure is never stored as an empty success ----------------------------------------------

FAILURES = {
    "call": [PermanentModelError("401")],
    "unreadable": ["no", "JSON"],
    "empty": ["", "\n"],
    "of another kind": ['{"triples": "none of your business"}'] * 2,
}


@given(
    failing=st.dictionaries(
        st.sampled_from(TEXTS),
        st.tuples(st.sampled_from(["entities", "triples"]), st.sampled_from(sorted(FAILURES))),
        min_size=1,
    ),
    on_error=st.sampled_from(["raise", "skip"]),
    reopen=st.booleans(),
)
@examples(20)
def test_what_failed_is_reported_and_asked_again_and_nothing_else(
    failing, on_error, reopen, corpora, new_location
):
    table = {text: [("Ada", "wrote", f"note {n}")] for n, text in enumerate(TEXTS)}
    first = {(stage, text): FAILURES[kind] for text, (stage, kind) in failing.items()}
    chat = corpora.Reader(table, first)
    batch = [Passage(text, id=text) for text in TEXTS]
    folder = new_location() if reopen else None
    memory = HippoRAG(chat, HashEmbedder(16), store=folder)
    if on_error == "raise":
        with pytest.raises(IndexingError) as caught:
            memory.add(batch)
        assert caught.value.failed.keys() == failing.keys()
        assert len(memory) == 0
    else:
        report = memory.add(batch, on_error="skip")
        assert report.failed.keys() == failing.keys()
        assert all(report.failed.values())
        assert set(report.added) == set(TEXTS) - failing.keys()
        assert {h.passage.id for h in memory.retrieve("Ada", k=9) if h.status == "failed"} == (
            failing.keys()
        )
    if reopen:
        memory.close()
        memory = HippoRAG(chat, HashEmbedder(16), store=folder)
    chat.asked.clear()
    report = memory.add(batch)
    with memory, HippoRAG(corpora.Reader(table), HashEmbedder(16)) as other:
        assert not report.failed
        assert {text for _, text in chat.asked} == failing.keys()
        again = Counter((stage, text) for text, (stage, _) in failing.items())
        again += Counter(("triples", t) for t, (stage, _) in failing.items() if stage == "entities")
        assert Counter(chat.asked) == again  # what was read of a text is not asked again
        assert memory.add(batch).unchanged == tuple(TEXTS)
        other.add(batch)
        assert arrays(memory) == arrays(other)


# -- 8: mass sums to 1 -----------------------------------------------------------------------------


def walked(memory, query):
    """The ranking of all passages, with the mass on the phrases."""
    snapshot, models = memory._index.snapshot(), memory._models
    asked = checked_search(5, None, None, "ppr", memory.config)
    search = _Search(query, snapshot, memory._embedding, models, asked)
    return Driver(models, Limiter(1), Meter()).run(search.hipporag2())


@given(history=histories, config=configs, damping=st.sampled_from([0.0, 0.5, 0.99]))
@examples(20)
def test_the_walks_mass_is_whole(history, config, damping):
    with opened(config.but(damping=damping)) as memory:
        if not play(history, memory).passages:
            return
        ranking = walked(memory, "Who wrote the notes?")
        if ranking.path.used_graph:
            assert ranking.spread.mass.min(initial=0) >= 0
            assert ranking.scores.min() >= 0
            assert ranking.spread.mass.sum() == pytest.approx(1, abs=1e-12)


def test_isolated_passages_keep_their_share_of_the_mass(open_memory):
    memory = open_memory()
    told = Extraction(triples=[("Ada", "wrote", "notes")])
    memory.add_extracted([(Passage("Ada wrote notes.", id="told"), told)])
    memory.add_extracted([(Passage(f"Ada {i}.", id=f"bare {i}"), Extraction()) for i in range(3)])
    ranking = walked(memory, "Ada wrote notes")
    assert ranking.spread.mass.sum() == pytest.approx(1, abs=1e-12)
    seeds = passage_seeds(cosines_of(memory, "Ada wrote notes"), 0.05)
    bare = ranking.scores[:3]  # by id, "bare" stands before "told"
    assert bare / bare.max() == pytest.approx(seeds[:3] / seeds[:3].max())
    assert 0 < bare.sum() < 0.1


def cosines_of(memory, query):
    (row,) = HashEmbedder().embed([query], "query_to_passage")
    return np.asarray(memory._index.snapshot().corpus.passage_vectors, float) @ row


# -- 9: text is data -------------------------------------------------------------------------------

HOSTILE = [
    "'; DROP TABLE passages; --",
    '" OR 1=1 --',
    "%s %(x)s :name ? {0} ${HOME}",
    "../../../../etc/passwd",
    "C:\\Windows\\..\\x",
    "/dev/null",
    "nul\x00byte",
    "line\nbreak\r\ttab",
    "__import__('os').system('touch pwned')",
    "{{7*7}} `id` $(id)",
    "\u202eright to left\u200b",
    "🦛" * 50,
    "x" * 10_000,
    " ",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_comes_back_as_it_was_and_does_nothing(
    text, tmp_path, store_location, monkeypatch, corpora
):
    monkeypatch.chdir(tmp_path)
    body = f"Body {text}"
    passage = Passage(
        body, id=text, title=text, source_id=text, metadata={text: [text]}, embed_text=f"{text}!"
    )
    table = {passage.full_text: [(text, text, "Ada"), ("Ada", text, f"x {text}")]}
    chat = corpora.Reader(table, other=text, name=text)
    with HippoRAG(chat, HashEmbedder(name=text), store=store_location, namespace=text) as memory:
        assert memory.add([passage], on_error="skip").ids == (text,)
        (hit,) = memory.retrieve(f"Ada? {text}")
        assert hit.passage == passage
        assert memory.get([text, "other"]) == [passage]
        assert text in memory
        assert list(memory) == [passage]
    with HippoRAG(None, HashEmbedder(name=text), store=store_location, namespace=text) as again:
        assert list(again) == [passage]
        assert again.delete([text]).deleted == (text,)
        assert len(again) == 0
    assert {p for p in tmp_path.iterdir()} <= {store_location}
    assert all(p.name.startswith("hippo.sqlite") for p in tmp_path.glob("m/*"))


def test_like_patterns_in_ids_match_only_themselves(open_memory):
    memory = open_memory()
    memory.add_extracted([(Passage("T", id=i), Extraction()) for i in ("a%", "a_", "ab", "A%")])
    memory.delete(["a%"])
    assert [p.id for p in memory] == ["A%", "a_", "ab"]
    assert "a%" not in memory


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
@examples(20)
def test_any_text_can_be_indexed(text):
    with opened() as memory:
        passage = Passage(f"body {text}", id=text, metadata={text: text})
        reading = Extraction([text], [(text, text, text), ("a", text, f"b{text}")])
        memory.add_extracted([(passage, reading)])
        assert memory.get([text]) == [passage]
        for config in (None, HippoConfig.hipporag(), HippoConfig.dense()):
            assert [h.passage for h in memory.retrieve(f"? {text}", config=config)] == [passage]


LONE = "half \ud800"


@pytest.mark.parametrize(
    "passage",
    [
        Passage(LONE),
        Passage("x", id=LONE),
        Passage("x", title=LONE),
        Passage("x", source_id=LONE),
        Passage("x", metadata={"k": [LONE]}),
        Passage("x", metadata={LONE: 1}),
        Passage("x", embed_text=LONE),
    ],
)
def test_half_characters_are_refused_before_anything_is_done(passage, open_memory):
    memory = open_memory(ScriptedChatModel([]))
    with pytest.raises(ValueError, match="surrogate"):
        memory.add([Passage("fine"), passage])
    assert len(memory) == 0


def test_half_characters_in_a_name_or_a_given_extraction_are_refused(open_memory):
    with pytest.raises(ValueError, match="surrogate"):
        open_memory(namespace=LONE)
    memory = open_memory()
    with pytest.raises(ValueError, match="surrogate"):
        memory.add_extracted([("x", Extraction(triples=[("a", LONE, "b")]))])
    assert LONE not in memory
    assert memory.get([LONE]) == []
    assert memory.delete([LONE]).not_found == (LONE,)


# -- 10: plain values out --------------------------------------------------------------------------


def strange_parts(value, path="value"):
    """The parts that are no plain values; named tuples and text enumerations are."""
    if isinstance(value, Triple):
        value = tuple(value)
    if type(value) in (list, tuple):
        for place, part in enumerate(value):
            yield from strange_parts(part, f"{path}[{place}]")
    elif type(value) is dict:
        for key, part in value.items():
            if type(key) is not str:
                yield f"{path}: key {key!r}"
            yield from strange_parts(part, f"{path}[{key!r}]")
    elif isinstance(value, Enum):
        if type(value.value) is not str or json.loads(json.dumps(value)) != value.value:
            yield f"{path}: {value!r}"
    elif type(value) not in (str, int, float, bool, type(None)):
        yield f"{path}: {type(value).__name__}"


def assert_plain(result):
    values = dataclasses.asdict(result)
    assert not list(strange_parts(values))
    json.dumps(values, allow_nan=False)


@pytest.mark.parametrize("path", RetrievalPath)
@pytest.mark.parametrize("score_mode", ["ppr", "relative"])
def test_a_retrieval_is_plain_on_every_path(path, score_mode, memory_on, corpora):
    found = memory_on(path).retrieve(corpora.one_query, score_mode=score_mode)
    assert_plain(found)
    assert type(found.usage.as_dict()) is dict


def test_reports_are_plain(open_memory, corpora):
    table = {"A": [("Ada", "wrote", "notes"), ("!!!", "is", "x")], "B": [], "C": [("a", "b", "c")]}
    first = {
        ("triples", "B"): [PermanentModelError("no")],
        ("triples", "C"): [_completion('{"triples": [["a","b","c"],["d', finish_reason="length")],
    }
    seen = []
    chat = corpora.Reader(table, first, other="thought\nAnswer: notes")
    memory = open_memory(chat)
    report = memory.add([*table, " "], on_error="skip", progress=seen.append)
    assert report.added
    assert report.failed
    assert report.partial
    assert report.dropped
    assert_plain(report)
    assert all(isinstance(p, Progress) for p in seen)
    for result in (
        *seen,
        memory.stats(),
        memory.answer("What?"),
        memory.delete([report.ids[0], "x"]),
    ):
        assert_plain(result)
    for passage in memory:
        assert_plain(passage)

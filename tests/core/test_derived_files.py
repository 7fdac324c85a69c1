"""Laws 2 and 4 with derived files: they spare work, and change no answer; nothing gone stays."""

import contextlib
import dataclasses
import itertools
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Edge,
    Extraction,
    HippoConfig,
    HippoRAG,
    Passage,
    PermanentModelError,
    StoreError,
    derived,
    index,
)
from hippo_core.corpus_checks import DamagedFilesError
from hippo_core.corpus_files import FLOATS, NUMBERS, TEXTS, VECTORS, map_corpus
from hippo_core.embedding import PROBE
from hippo_core.testing import HashEmbedder, TableChatModel, TableOpenIE

QUERIES = {"Who wrote the notes?": ["Notes of Ada", "Rome"], "Ada Lovelace": ["ada"]}
CONFIG = HippoConfig(synonymy_threshold=0.5)
METHODS = [
    HippoConfig(synonymy_threshold=0.5),
    HippoConfig.hipporag2(synonymy_threshold=0.5),
    HippoConfig.hipporag(synonymy_threshold=0.5, dense_ensemble=True),
    HippoConfig.dense(synonymy_threshold=0.5),
]
ITEMS = [
    (
        Passage(f"Ada wrote note {i % 4}.", id=f"p{i}", metadata={"n": i}),
        Extraction(
            ["Ada"],
            [("Ada", "wrote", f"note {i % 4}"), ("ADA", "is", "Ada Lovelace"), ("!", "is", "x")],
        ),
    )
    for i in range(8)
]
ITEMS += [
    (
        Passage("Zoë — 🦛 & <b>.", "ünï", "Títle", "src", {"k": [1, None, {"a": 0.5}]}, "Zoë 🦛."),
        Extraction(),
    )
]
FILES = sorted(
    [f"{name}.npy" for name in NUMBERS]
    + [f"{name}{part}.npy" for name in TEXTS for part in ("", "_ends")]
    + [f"{name}_vectors.npy" for name in VECTORS]
    + [f"{name}.npy" for name in FLOATS]
)


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


def opened(folder=None, config=CONFIG, **more):
    """A memory that no chat model reads for."""
    embedder, openie = HashEmbedder(16), TableOpenIE(queries=QUERIES)
    return HippoRAG(None, embedder, store=folder, config=config, openie=openie, **more)


def linked(passage):
    """Edges that a passage itself decides, to what is there and what is not."""
    following = "bcdea"["abcde".find(passage.id)] if len(passage.id) == 1 else None
    yield Edge(passage, to_passage=following or f"p{passage.metadata.get('n', 0) + 1}", weight=0.3)
    yield Edge(passage, to_phrase=passage.text[:3], weight=2)
    yield Edge(passage, to_phrase="Rome")
    yield Edge(passage, to_source="src")


def fill(memory, items):
    return memory.add_extracted(items, edges=linked)


def without_usage(found):
    return dataclasses.replace(found, usage=None)


def answers(memory):
    return [
        without_usage(memory.retrieve(query, k=99, config=config))
        for query, config in itertools.product(QUERIES, METHODS)
    ]


def arrays(memory):
    """Everything that is derived, as plain values."""
    snapshot, config = memory._index.snapshot(), memory.config
    corpus, graph = snapshot.whole, snapshot.graph
    return {
        "passages": list(corpus.passages),
        "phrases": list(corpus.phrases),
        "triples": list(corpus.triples),
        "spelled": [snapshot.display_triple(i) for i in range(len(graph.triples))],
        "occurrences": [
            (int(t), *(corpus.spellings[s] for s in spelled))
            for t, *spelled in corpus.occurrences.tolist()
        ],
        "starts": corpus.starts.tolist(),
        "lengths": corpus.lengths.tolist(),
        "triple_phrases": corpus.triple_phrases.tolist(),
        "synonyms": [part.tolist() for part in corpus.synonyms],
        "edges": [part.tolist() for part in graph.phrase_edges(config)],
        "targets": list(corpus.edges.names),
        "user edges": [
            getattr(corpus.edges, name).tolist()
            for name in ("starts", "targets", "weights", "passages", "phrases")
        ],
        "ends": [part.tolist() for part in graph.ends],
        "walk": graph.transition(config, with_passages=True).walk.toarray().tolist(),
        "vectors": [
            np.asarray(rows).tolist()
            for rows in (corpus.passage_vectors, corpus.phrase_vectors, corpus.triple_vectors)
        ],
        "stats": memory.stats(),
    }


def beneath(memory):
    """What changes are applied to, which no snapshot shows."""
    held = memory._index
    return {
        "contributions": held.contributions([live.passage.id for live in held.corpus().passages]),
        "uses": [{text: keys.uses(text) for text in keys} for keys in map(held._keys, index.KINDS)],
        "rows": [
            sum(int(block.any(axis=1).sum()) for block in held._vectors[kind].view().blocks)
            for kind in index.KINDS
        ],
    }


def files_of(folder):
    """The folders of derived files beside a store."""
    return sorted(f for f in (folder / "snapshots").glob("*/*") if f.is_dir())


def is_mapped(memory):
    memory._index.snapshot()
    return memory._index._mapped is not None


@pytest.fixture(scope="module", autouse=True)
def small_memories_are_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "WORTH_KEEPING", 1)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store with derived files beside it, and what it answers."""
    folder = tmp_path_factory.mktemp("kept") / "m"
    with opened(folder) as memory:
        fill(memory, ITEMS)
        expected = arrays(memory), answers(memory)
    assert len(files_of(folder)) == 1
    return folder, *expected


@pytest.fixture
def folder(kept, tmp_path):
    """A copy of that store, to do with as one likes."""
    return shutil.copytree(kept[0], tmp_path / "m")


# -- 4: round trip ---------------------------------------------------------------------------------


def test_closing_keeps_what_is_derived_and_opening_maps_it(folder, kept):
    _, derived_, answered = kept
    embedder = HashEmbedder(16)
    memory = HippoRAG(
        None, embedder, store=folder, config=CONFIG, openie=TableOpenIE(queries=QUERIES)
    )
    with memory:
        assert is_mapped(memory)
        assert len(memory) == len(ITEMS)
        assert answers(memory) == answered
        assert arrays(memory) == derived_
        assert memory._index._mapped is not None
        assert memory.verify().ok
        named = {e.casefold() for names in QUERIES.values() for e in names}
        assert {t for _, texts in embedder.calls for t in texts} <= {PROBE, *QUERIES, *named}
        memory.delete(["p0"])
        assert not is_mapped(memory)


def test_nothing_is_written_where_nothing_changed(kept):
    folder, *_ = kept
    (before,) = files_of(folder)
    with opened(folder) as memory:
        answers(memory)
    assert files_of(folder) == [before]


def test_another_process_maps_the_files_and_answers_the_same(kept):
    folder, _, answered = kept
    code = (
        "import sys\nfrom hippo_core import HippoConfig, HippoRAG\n"
        "from hippo_core.testing import HashEmbedder\n"
        "config = HippoConfig(synonymy_threshold=0.5)\n"
        "memory = HippoRAG(None, HashEmbedder(16), store=sys.argv[1], config=config)\n"
        "found = memory.retrieve('Ada Lovelace', k=99)\n"
        "assert memory._index._mapped is not None\n"
        "print([(h.passage.id, h.score) for h in found])"
    )
    assert _python(code, folder) == str([(h.passage.id, h.score) for h in answered[len(METHODS)]])


def test_a_memory_of_a_few_passages_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "WORTH_KEEPING", len(ITEMS) + 1)
    with opened(tmp_path / "m") as memory:
        fill(memory, ITEMS)
    assert not (tmp_path / "m" / "snapshots").exists()


def test_a_memory_in_this_process_only_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened() as memory:
        fill(memory, ITEMS)
    assert not list(tmp_path.iterdir())


def test_files_are_written_on_the_way_once_much_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "SAVE_AFTER", 3)
    with opened(tmp_path / "m") as memory:
        fill(memory, ITEMS[:2])
        assert not files_of(tmp_path / "m")
        fill(memory, ITEMS[2:5])
        (first,) = files_of(tmp_path / "m")
        fill(memory, ITEMS[5:6])
        assert files_of(tmp_path / "m") == [first]
        fill(memory, ITEMS[6:])
    (last,) = files_of(tmp_path / "m")
    assert last != first
    with opened(tmp_path / "m") as again, opened() as other:
        fill(other, ITEMS)
        assert is_mapped(again)
        assert arrays(again) == arrays(other)


def test_what_came_after_the_files_were_written_is_applied(folder):
    more = [(Passage("Rome fell.", id="rome"), Extraction(triples=[("Rome", "fell", "Ada")]))]
    one, two = opened(folder), opened(folder)
    assert is_mapped(one)
    assert is_mapped(two)
    fill(one, more)
    two.delete(["p1"])
    one._store.close()  # as a process that is killed: nothing is kept
    two._store.close()
    with opened(folder) as again, opened() as other:
        fill(other, [*ITEMS[:1], *ITEMS[2:], *more])
        assert arrays(again) == arrays(other)
        assert beneath(again) == beneath(other)
        assert answers(again) == answers(other)


def test_a_mapped_memory_that_changes_goes_on_as_one_that_never_was(folder):
    more = [(Passage("Elsewhere.", id="q", source_id="other"), Extraction())]
    with opened(folder) as memory, opened() as other:
        assert is_mapped(memory)
        fill(memory, more)
        assert not is_mapped(memory)
        fill(other, [*ITEMS, *more])
        assert arrays(memory) == arrays(other)
        assert beneath(memory) == beneath(other)
        assert arrays(memory)["stats"].user_edges > len(ITEMS)
        memory.delete(source_id="src")
        other.delete(source_id="src")
        assert arrays(memory) == arrays(other)


# Few words, so that passages share texts, triples and phrases, and phrases are synonyms.
IDS = ["a", "b", "c", "d", "e"]
SOME_TEXTS = ["Ada wrote notes.", "Notes by Ada.", "Rome fell.", "Nothing to see."]
PHRASES = ["Ada", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "O'Ada", "!!!"]
facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "is", ""]), st.sampled_from(PHRASES)
)
tables = st.fixed_dictionaries(
    dict.fromkeys(SOME_TEXTS, st.builds(Extraction, triples=st.lists(facts, max_size=4)))
)
written = st.builds(
    Passage,
    text=st.sampled_from(SOME_TEXTS),
    id=st.sampled_from(IDS),
    source_id=st.sampled_from([None, None, "src"]),
    metadata=st.sampled_from([{}, {"page": 1}]),
    embed_text=st.sampled_from(["", "", SOME_TEXTS[0], "Of its own."]),
)
adds = st.tuples(
    st.just("add"), st.lists(written, min_size=1, max_size=3, unique_by=lambda p: p.id)
)
deletes = st.tuples(
    st.just("delete"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
)
others = st.sampled_from(["reopen", "reopen", "kill", "look", "rebuild", "purge", "alias", "none"])
steps = st.one_of(adds, adds, deletes, st.tuples(others, st.none()))
histories = st.lists(st.tuples(st.integers(0, 1), steps), min_size=2, max_size=8)


@given(history=histories, table=tables)
@examples(12)
def test_any_history_of_two_handles_that_close_and_open_ends_as_a_fresh_index(
    history, table, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("memory") / "m"
    live, groups = {}, []
    handles = [opened(folder), opened(folder)]
    for number, (step, what) in history:
        memory = handles[number]
        if step == "add":
            fill(memory, [(p, table[p.text]) for p in what])
            live |= {p.id: p for p in what}
        elif step == "delete":
            memory.delete(what)
            live = {i: p for i, p in live.items() if i not in what}
        elif step in ("reopen", "kill"):
            (memory if step == "reopen" else memory._store).close()
            handles[number] = opened(folder)
        elif step == "look":
            assert {p.id for p in memory} == live.keys()
        elif step in ("rebuild", "purge"):
            getattr(memory, step)()
        else:
            groups = [["Ada", "Lovelace"]] if step == "alias" else []
            memory.aliases = groups
    assert all(memory.verify().ok for memory in handles)
    one, two = handles
    one.close()
    with two, opened(folder) as again, opened() as other:
        other.aliases = groups
        if live:
            fill(other, [(p, table[p.text]) for p in live.values()])
        assert arrays(again) == arrays(two) == arrays(other)
        assert answers(again) == answers(two) == answers(other)
        assert beneath(again) == beneath(two) == beneath(other)


# -- damage ----------------------------------------------------------------------------------------


class Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return open, (self.trace, "w")


def _npy(array):
    return lambda path: np.save(path, array(np.load(path)), allow_pickle=False)


def _header(text):
    """An array whose header says something else."""

    def write(path):
        data = text.encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data)

    return write


DAMAGE = {
    "deleted": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "cut in its header": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("{}"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "of another type": _npy(lambda a: a.astype(np.complex64)),
    "in another order": _npy(
        lambda a: a.astype(a.dtype.newbyteorder() if a.itemsize > 1 else "i1")
    ),
    "of texts": _npy(lambda a: a.astype("U5")),
    "of structures": _npy(lambda _: np.zeros(3, dtype=[("a", "<i8"), ("b", "<f4")])),
    "longer": _npy(lambda a: np.concatenate([a, a, a[:1]]) if len(a) else np.ones_like(a, shape=3)),
    "shorter": _npy(lambda a: a[:-1] if len(a) else np.ones_like(a, shape=2)),
    "of more dimensions": _npy(lambda a: a[..., np.newaxis, np.newaxis]),
    "of no dimension": _npy(lambda a: np.zeros((), a.dtype)),
    "huge": _header("{'descr': '<i8', 'fortran_order': False, 'shape': (1 << 60,), }"),
    "huger": _header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 9), }}"),
    "rather large": _header(f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({10**12},), }}"),
    "negative": _header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }"),
    "no dict": _header("[1, 2]"),
    "deep": _header("(" * 9000),
    "code": _header("{'descr': __import__('os').abort(), 'fortran_order': 0, 'shape': ()}"),
}


def assert_recovered(folder, kept, caplog, *, named=None, warned=True, again=False):
    """It opens with the right answers, asks no model, warns, and tells which file it is."""
    embedder = HashEmbedder(16)
    caplog.clear()
    with HippoRAG(
        None, embedder, store=folder, config=CONFIG, openie=TableOpenIE(queries=QUERIES)
    ) as memory:
        report = memory.verify()
        assert arrays(memory) == kept[1]
        assert without_usage(memory.retrieve("Ada Lovelace", k=99)) == kept[2][len(METHODS)]
        texts = {text for kind, texts in embedder.calls for text in texts}
        assert not texts & {p.full_text for p, _ in ITEMS}
        if warned:
            assert "derived files" in caplog.text
        if named is not None:
            assert any(named in problem for problem in report.problems), report.problems
    for _ in range(again):  # and what was damaged was made anew
        with opened(folder) as memory:
            assert is_mapped(memory)
            assert memory.verify().ok
            assert answers(memory) == kept[2]


def assert_refused(state):
    with pytest.raises((DamagedFilesError, OSError)):
        map_corpus(state)


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_files_are_not_used(how, kept, folder, caplog):
    (state,) = files_of(folder)
    for name in FILES:
        whole = (state / name).read_bytes()
        DAMAGE[how](state / name)
        assert_refused(state)
        if (state / name).is_dir():
            (state / name).rmdir()
        (state / name).write_bytes(whole)
    map_corpus(state)
    name = FILES[len(how) % len(FILES)]  # one or another
    DAMAGE[how](state / name)
    assert_recovered(folder, kept, caplog, named=name)


@pytest.mark.parametrize("value", [-1, 10**6, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("name", [n for n in FILES if n[:-4] in NUMBERS or "_ends" in n])
def test_numbers_that_point_to_nothing_are_not_followed(name, value, folder):
    (state,) = files_of(folder)
    numbers = np.load(state / name)
    for place in (0, numbers.size // 2, numbers.size - 1):
        changed = numbers.copy()
        changed.reshape(-1)[place] = value
        np.save(state / name, changed, allow_pickle=False)
        if name in ("lengths.npy", "checksums.npy"):  # which point to nothing
            map_corpus(state)
        else:
            assert_refused(state)


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, 1e101])
def test_what_no_edge_weighs_is_not_taken(weight, folder):
    (state,) = files_of(folder)
    weights = np.load(state / "edge_weights.npy")
    weights[-1] = weight
    np.save(state / "edge_weights.npy", weights, allow_pickle=False)
    assert_refused(state)


def test_vectors_of_other_lengths_are_not_taken_together(kept, folder, caplog):
    (state,) = files_of(folder)
    path = state / "phrase_vectors.npy"
    np.save(path, np.load(path)[:, :8].copy())
    assert_recovered(folder, kept, caplog, named=path.name, again=True)


@pytest.mark.parametrize("how", ["array of objects", "bare", "zip"])
def test_a_pickle_is_never_read(how, kept, folder, caplog, tmp_path):
    trace = tmp_path / "trace"
    (state,) = files_of(folder)
    for name in FILES:
        if how == "array of objects":
            np.save(state / name, np.array([Trap(trace)], dtype=object), allow_pickle=True)
        elif how == "bare":
            (state / name).write_bytes(pickle.dumps(Trap(trace)))
        else:
            np.savez(state / "x.npz", np.array([Trap(trace)], dtype=object))
            (state / "x.npz").replace(state / name)
    assert_recovered(folder, kept, caplog, named=FILES[0], again=True)
    assert not trace.exists()


def _changed(**values):
    def change(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


MANIFESTS = {
    "deleted": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(os.urandom(500)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "a list": lambda path: path.write_text("[1]"),
    "a number": lambda path: path.write_text("7"),
    "deep": lambda path: path.write_text("[" * 500_000),
    "huge": lambda path: path.write_text(path.read_text() + " " * 2**21),
    "a huge number": lambda path: path.write_text("9" * 10_000),
    "no files": lambda path: _without(path, "files"),
    "no version": lambda path: _without(path, "version"),
    "no commit": lambda path: _without(path, "commit"),
    "files of another kind": _changed(files=[1, 2]),
    "hashes of another kind": _changed(files={"phrases.npy": 7}),
    "another store's": _changed(store="another"),
    "another namespace's": _changed(namespace="another"),
    "another format": _changed(format=99),
    "another Unicode": _changed(unicode="1.0"),
    "an endless version": _changed(version=float("inf")),
    "a huge version": _changed(version=10**30),
    "a negative version": _changed(version=-1),
    "a version of another kind": _changed(version=[1]),
    "a commit of another kind": _changed(commit={"a": 1}),
    "a commit that was never made": _changed(commit="0" * 32),
    "a generation of another kind": _changed(generation=[1]),
    "a generation that never was": _changed(generation=99),
}


def _without(path, name):
    manifest = json.loads(path.read_text())
    del manifest[name]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("how", MANIFESTS)
def test_a_manifest_that_does_not_fit_is_not_believed(how, kept, folder, caplog):
    (state,) = files_of(folder)
    MANIFESTS[how](state / "manifest.json")
    other_state = how.startswith(("a commit that", "a generation that"))
    other_program = how in ("another format", "another Unicode")
    named = None if other_state or other_program else str(state)
    silent = other_state or other_program
    assert_recovered(folder, kept, caplog, named=named, warned=not silent)


def test_names_in_a_manifest_are_no_paths(kept, folder, caplog):
    (state,) = files_of(folder)
    manifest = json.loads((state / "manifest.json").read_text())
    outside = {"../../../hippo.sqlite": "0" * 64, "/etc/passwd": "0" * 64}
    (state / "manifest.json").write_text(json.dumps({**manifest, "files": outside}))
    with opened(folder) as memory:
        problems = memory.verify().problems
        assert problems
        assert answers(memory) == kept[2]


def test_what_lies_around_is_no_harm(kept, folder):
    (state,) = files_of(folder)
    (state.parent / "notes.txt").write_text("mine")
    (state.parent / "zzz").mkdir()
    (folder / "snapshots" / "other").mkdir()
    with opened(folder) as memory:
        assert answers(memory) == kept[2]
        memory.delete(["p0"])
        fill(memory, ITEMS[:1])
    with opened(folder) as again:
        assert answers(again) == kept[2]


def test_the_files_of_another_store_are_not_used(kept, folder, tmp_path, caplog):
    with opened(tmp_path / "other") as other:
        fill(other, ITEMS[:3])
    (mine,), (foreign,) = files_of(folder), files_of(tmp_path / "other")
    shutil.rmtree(mine)
    shutil.copytree(foreign, mine)
    assert_recovered(folder, kept, caplog, named=str(mine), again=True)


def test_a_damaged_folder_does_not_hide_a_good_one(kept, folder):
    (state,) = files_of(folder)
    newer = shutil.copytree(state, state.with_name("999999999999-later"))
    (newer / "phrases.npy").unlink()
    with opened(folder) as memory:
        assert is_mapped(memory)
        assert answers(memory) == kept[2]


def test_a_store_restored_from_an_older_copy_takes_no_later_files(tmp_path):
    folder, copy = tmp_path / "m", tmp_path / "copy"
    with opened(folder) as memory:
        fill(memory, ITEMS[:3])
        memory.backup(copy)
        fill(memory, ITEMS[3:])
    assert files_of(folder)
    shutil.copy(copy / "hippo.sqlite", folder / "hippo.sqlite")
    mine = (Passage("Rome fell.", id="rome"), Extraction(triples=[("Rome", "fell", "Ada")]))
    with opened(folder) as memory, opened() as other:
        fill(other, ITEMS[:3])
        assert arrays(memory) == arrays(other)
        for _ in range(3):  # as many versions as there were, and other passages in them
            fill(memory, [mine])
            memory.delete(["rome"])
        fill(memory, [mine])
        fill(other, [mine])
        assert arrays(memory) == arrays(other)
    with opened(folder) as again, opened() as other:
        fill(other, [*ITEMS[:3], mine])
        assert is_mapped(again)
        assert arrays(again) == arrays(other)
        assert len(files_of(folder)) == 1


def test_older_files_that_fit_are_used_where_later_ones_do_not(tmp_path):
    folder, copy = tmp_path / "m", tmp_path / "copy"
    with opened(folder) as memory:
        fill(memory, ITEMS[:3])
    (older,) = files_of(folder)
    shutil.copytree(folder, copy)
    with opened(folder) as memory:
        fill(memory, ITEMS[3:])
    shutil.copytree(files_of(copy)[0], older)  # as when a crash left both
    shutil.copy(copy / "hippo.sqlite", folder / "hippo.sqlite")
    with opened(folder) as memory, opened() as other:
        assert is_mapped(memory)
        fill(other, ITEMS[:3])
        assert arrays(memory) == arrays(other)


def test_texts_that_were_damaged_in_place_are_a_typed_error_and_rebuild_mends_them(kept, folder):
    (state,) = files_of(folder)
    for name in ("passages", "phrases", "relations", "spellings"):
        place = shutil.copytree(folder, folder.parent / name)
        (state,) = files_of(place)
        path = state / f"{name}.npy"
        data = path.read_bytes()
        path.write_bytes(data[:128] + b"\xff" * (len(data) - 128))
        with opened(place) as memory:
            with contextlib.suppress(StoreError):
                assert answers(memory) == kept[2]  # where the damaged part is of no use
            for _ in range(2):
                with pytest.raises(StoreError, match="rebuild"):
                    memory.delete(["p0"])
            with pytest.raises(StoreError, match="rebuild"):
                fill(memory, [(Passage("Rome."), Extraction())])
            assert any(f"{name}.npy" in problem for problem in memory.verify().problems)
            memory.rebuild()
            assert arrays(memory) == kept[1]
            assert memory.verify().ok


# -- with other settings ---------------------------------------------------------------------------


@pytest.mark.parametrize("config", [CONFIG.but(synonymy_threshold=0.7), CONFIG.but(synonymy=False)])
def test_other_settings_take_no_files_that_do_not_fit_them_and_find_nothing_wrong(config, folder):
    with opened(folder, config) as memory, opened(None, config) as other:
        fill(other, ITEMS)
        assert not is_mapped(memory)
        assert memory.verify().ok
        assert arrays(memory) == arrays(other)


# -- 2: delete undoes add --------------------------------------------------------------------------

GONE = Passage(
    "Zyxtext ünö. " * 500,
    "Zyxid",
    "Zyxtitle",
    "Zyxsource",
    {"Zyxkey": "Zyxvalue 🦛"},
    "Zyxembed ünö. " * 500,
)
GONE_READING = Extraction(
    ["Zyxentity"], [("Zyxsubject", "Zyxrelation", "Zyxobject"), ("Ada", "wrote", "Zyxobject")]
)


def traces(folder):
    """The files that hold a mark: as UTF-8, UTF-16, UTF-32, escaped or in another case."""
    marks = [
        form
        for word in ("zyx", "Zyx", "ünö", "ÜNÖ")
        for form in (
            word.encode(),
            word.encode("utf-16-le"),
            word.encode("utf-32-le"),
            word.encode("utf-16-be"),
            json.dumps(word).strip('"').encode(),
        )
    ]
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {p.name for p in files for data in [p.read_bytes()] if any(m in data for m in marks)}


@pytest.fixture
def marked(tmp_path):
    """A kept store of which one passage is to go."""
    folder = tmp_path / "m"
    with opened(folder) as memory:
        fill(memory, [*ITEMS, (GONE, GONE_READING)])
    assert len(traces(folder)) > 1
    return folder


@pytest.mark.parametrize("mapped", [True, False])
def test_after_a_delete_no_file_holds_what_was_deleted(marked, kept, mapped):
    with opened(marked) as memory:
        if mapped:
            assert is_mapped(memory)
        memory.delete(["Zyxid"])
        assert not traces(marked)
        assert arrays(memory) == kept[1]  # what others share is there
        memory.retrieve("Ada")
    assert not traces(marked)
    with opened(marked) as again:
        assert is_mapped(again)
        assert arrays(again) == kept[1]
        assert again.verify().ok


def test_after_an_update_no_file_holds_what_it_was(marked):
    with opened(marked) as memory:
        is_mapped(memory)
        fill(memory, [(Passage("Rome.", id="rome"), Extraction())])
        updated = dataclasses.replace(ITEMS[0][0], id="Zyxid")
        fill(memory, [(updated, ITEMS[0][1])])
        for path in marked.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert b"Zyxtext" not in data
                assert b"Zyxembed" not in data
                assert b"yxobject" not in data
        memory.delete(["Zyxid"])
        assert not traces(marked)


def test_metadata_that_was_replaced_is_gone_too(marked):
    with opened(marked) as memory:
        is_mapped(memory)
        fill(memory, [(dataclasses.replace(GONE, metadata={"k": 1}), GONE_READING)])
        for path in marked.rglob("*"):
            assert path.is_dir() or b"Zyxvalue" not in path.read_bytes()


def test_after_deleting_a_namespace_no_file_holds_it_and_the_others_are_whole(marked, kept):
    with opened(marked, namespace="other") as other:
        fill(other, ITEMS)
    with opened(marked) as memory, opened(marked, namespace="other") as other:
        is_mapped(memory)
        assert memory.delete_namespace() == len(ITEMS) + 1
        assert not traces(marked)
        assert is_mapped(other)
        assert arrays(other) == kept[1]
    assert not traces(marked)


def test_readings_that_were_forgotten_are_gone(tmp_path):
    folder = tmp_path / "m"
    chat = TableChatModel({GONE.full_text: GONE_READING})
    with HippoRAG(chat, Down(), store=folder) as memory:
        with pytest.raises(PermanentModelError, match="down"):
            memory.add([dataclasses.replace(GONE, id="x")])
        assert traces(folder)
        assert memory.forget_pending() == 1
        assert not traces(folder)


class Down(HashEmbedder):
    """An embedder that is down."""

    def embed(self, texts, kind):
        raise PermanentModelError("the embedder is down")


def test_another_handles_old_state_keeps_it_no_longer_than_it_is_open(marked, kept):
    reader, writer = opened(marked), opened(marked)
    assert is_mapped(reader)
    snapshot = reader._index.snapshot()
    writer.delete(["Zyxid"])
    assert not traces(marked)
    assert GONE in [live.passage for live in snapshot.whole.passages]  # a whole state, still
    assert answers(reader) == kept[2]
    reader.close()
    writer.purge()
    assert not traces(marked)
    writer.close()
    assert not traces(marked)


def test_files_are_not_kept_of_a_state_that_another_handle_deleted_from(marked, monkeypatch):
    """Between deriving and writing, or while writing, another handle deletes."""
    other = opened(marked)
    is_mapped(other)
    memory = opened(marked)
    fill(memory, [(Passage("Rome.", id="rome"), Extraction())])
    write = derived.write_corpus

    def late(corpus, folder):
        hashes = write(corpus, folder)
        assert traces(folder)
        other.delete(["Zyxid"])
        return hashes

    monkeypatch.setattr(derived, "write_corpus", late)
    memory.close()
    assert not traces(marked)
    monkeypatch.undo()
    other.close()
    assert not traces(marked)
    with opened(marked) as again:
        assert "Zyxid" not in {p.id for p in again}


def test_a_handle_that_lags_behind_writes_no_deleted_text(marked):
    lagging, other = opened(marked), opened(marked)
    fill(lagging, [(Passage("Rome.", id="rome"), Extraction())])
    other.delete(["Zyxid"])
    lagging.close()
    assert not traces(marked)
    other.close()
    assert not traces(marked)


@pytest.mark.parametrize("point", ["draft", "kept"])
def test_a_process_killed_while_it_writes_files_leaves_nothing_that_purge_does_not_find(
    point, marked
):
    code = (
        "import os, sys\nfrom hippo_core import *\nfrom hippo_core import derived, index\n"
        "from hippo_core.testing import HashEmbedder\n"
        "index.WORTH_KEEPING = 1\n"
        "config = HippoConfig(synonymy_threshold=0.5)\n"
        "memory = HippoRAG(None, HashEmbedder(16), store=sys.argv[1], config=config)\n"
        "memory.add_extracted([(Passage('Rome.', id='rome'), Extraction())])\n"
        "write = derived.write_corpus\n"
        "def killed(corpus, folder):\n    write(corpus, folder)\n    os._exit(7)\n"
        "if sys.argv[2] == 'draft':\n    derived.write_corpus = killed\n"
        "else:\n    memory._index.save()\n    os._exit(7)\n"
        "memory.close()"
    )
    with opened(marked) as memory:
        is_mapped(memory)
        _python(code, marked, point, code=7)
        assert traces(marked)
        memory.delete(["Zyxid"])
        memory.purge()
        assert not traces(marked)
    assert not traces(marked)


# -- where nothing can be written ------------------------------------------------------------------


def _blocked(folder, _monkeypatch):
    shutil.rmtree(folder / "snapshots")
    (folder / "snapshots").write_text("a file")


def _full(_folder, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)


def _full_later(_folder, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(derived.Path, "write_text", full)


@pytest.mark.parametrize("block", [_blocked, _full, _full_later])
def test_files_that_cannot_be_written_are_a_warning(block, folder, kept, monkeypatch, caplog):
    memory = opened(folder)
    memory.delete(["p0"])
    fill(memory, ITEMS[:1])
    block(folder, monkeypatch)
    with caplog.at_level(logging.WARNING):
        memory.close()
    assert "could not be kept" in caplog.text
    monkeypatch.undo()
    assert not files_of(folder)
    assert not list(folder.glob("snapshots/*/draft-*"))
    with opened(folder) as again:
        assert answers(again) == kept[2]


def test_files_that_cannot_be_read_are_a_warning(folder, kept, monkeypatch, caplog):
    def denied(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "memmap", denied)
    with opened(folder) as memory:
        assert answers(memory) == kept[2]
        assert "derived files" in caplog.text


def test_files_that_another_handle_deletes_meanwhile_are_no_damage(
    folder, kept, monkeypatch, caplog
):
    (state,) = files_of(folder)

    def deleted(_path):
        shutil.rmtree(state, ignore_errors=True)
        raise FileNotFoundError(2, "No such file or directory")

    for reads in ("map_corpus", "file_hash"):
        with opened(shutil.copytree(folder, folder.parent / reads)) as memory:
            (state,) = files_of(folder.parent / reads)
            with monkeypatch.context() as patch:
                patch.setattr(derived, reads, deleted)
                assert memory.verify().ok
                assert answers(memory) == kept[2]
    assert not caplog.records


# -- at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [True, False])
def test_handles_that_close_at_once_leave_files_of_one_whole_state(changed, folder, at_once, kept):
    handles = [opened(folder) for _ in range(4)]
    for number, memory in enumerate(handles):
        if changed:
            extra = (Passage("Rome.", id=f"rome {number}"), Extraction())
            fill(memory, [extra])
        memory.rebuild()
    together = threading.Barrier(len(handles))

    def close(memory):
        together.wait()
        memory.close()

    at_once(*(partial(close, memory) for memory in handles))
    assert files_of(folder)
    assert not list(folder.glob("snapshots/*/draft-*"))
    with opened(folder) as again:
        assert is_mapped(again)
        assert again.verify().ok
        if not changed:
            assert arrays(again) == kept[1]
        assert len(again) == len(ITEMS) + 4 * changed


def test_processes_that_close_at_once_leave_files_of_one_whole_state(folder, kept):
    code = (
        "import sys\nfrom hippo_core import *\nfrom hippo_core import index\n"
        "from hippo_core.testing import HashEmbedder\n"
        "index.WORTH_KEEPING = 1\n"
        "config = HippoConfig(synonymy_threshold=0.5)\n"
        "for turn in range(5):\n"
        "    memory = HippoRAG(None, HashEmbedder(16), store=sys.argv[1], config=config)\n"
        "    memory.rebuild()\n"
        "    assert len(memory) == 9\n"
        "    memory.close()\n"
    )
    running = [_started(code, folder) for _ in range(2)]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
    with opened(folder) as again:
        assert arrays(again) == kept[1]
        assert again.verify().ok


def _started(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _python(program, *args, code=0):
    process = _started(program, *args)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return said.strip()

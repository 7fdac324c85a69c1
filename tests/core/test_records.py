"""What one transaction reads and writes: history, namespaces, embedders, vectors."""

from contextlib import closing

import numpy as np
import pytest

from hippo_core import EmbedderMismatchError, Extraction, InputError, Passage, Status
from hippo_core.records import StoredPassage, text_key
from hippo_core.store import Store

ONE = np.array([1, 0], dtype=np.float32)
OTHER = np.array([0, 0, 1], dtype=np.float32)
READ = Extraction(("Ada",), [("Ada", "wrote", "notes")])


@pytest.fixture(params=["memory", "disk"])
def store(request, store_location):
    with closing(Store(store_location if request.param == "disk" else None)) as opened:
        yield opened


def fill(store, namespace="n", ids=("a", "b")):
    """Index passages as an `add` does."""
    with store.write() as writer:
        if writer.embedder(namespace) is None:
            writer.save_embedder(namespace, "first", ONE)
        passages = [Passage(f"Text {i}.", id=i, source_id=f"of {i}") for i in ids]
        texts = [p.full_text for p in passages]
        writer.commit_extractions(namespace, "reader", {text_key(t): READ for t in texts})
        writer.save_vectors(namespace, "passage", dict.fromkeys(texts, ONE))
        writer.put_passages(namespace, [StoredPassage(p, READ) for p in passages])


# -- history ---------------------------------------------------------------------------------------


def test_each_version_has_a_commit_of_its_own(store):
    commits = []
    with store.read() as reader:
        commits.append(reader.commit("n"))
    for change in (
        lambda: fill(store),
        lambda: fill(store, ids=("c",)),
        lambda: delete(store, ["a"]),
        lambda: curate(store, "{}"),
    ):
        change()
        with store.read() as reader:
            commits.append(reader.commit("n"))
            assert reader.version("n") == commits[-1][0]
    assert commits[0] == (0, "")
    assert [version for version, _ in commits] == [0, 1, 2, 3, 4]
    assert len({id_ for _, id_ in commits}) == 5
    with store.read() as reader:
        assert all(reader.has_commit("n", *commit) for commit in commits)
        assert not reader.has_commit("n", 1, commits[2][1])
        assert not reader.has_commit("n", 1, "")
        assert not reader.has_commit("n", 9, "")
        assert not reader.has_commit("other", *commits[1])


def delete(store, ids):
    with store.write() as writer:
        writer.delete_passages("n", ids)


def curate(store, text):
    with store.write() as writer:
        writer.save_curation("n", text)


def test_a_curation_is_a_new_version_in_which_no_passage_changed(store):
    fill(store)
    curate(store, '{"aliases":[]}')
    with store.read() as reader:
        assert reader.curation("n") == '{"aliases":[]}'
        assert reader.version("n") == 2
        assert reader.changed_since("n", 1) == ([], set())
        assert reader.curation("other") is None
    curate(store, None)
    with store.read() as reader:
        assert reader.curation("n") is None


def test_an_undone_transaction_raises_no_version(store):
    with pytest.raises(ZeroDivisionError), store.write() as writer:  # noqa: PT012
        writer.save_curation("n", "{}")
        _ = 1 / 0
    with store.read() as reader:
        assert reader.commit("n") == (0, "")
        assert reader.namespaces() == []


# -- what verify reads -----------------------------------------------------------------------------


def test_a_reader_tells_what_there_is_by_key(store):
    fill(store)
    keys = {text_key("Text a."), text_key("Text b.")}
    with store.write() as writer:
        writer.save_extraction("n", "p" * 64, "other reader", READ)
        writer.save_entities("n", "e" * 64, "other reader", ["Eve"])
    with store.read() as reader:
        assert reader.extraction_keys("n") == keys
        assert reader.pending_keys("n") == {"p" * 64, "e" * 64}
        assert reader.extractors("n", [*keys, "p" * 64]) == dict.fromkeys(keys, "reader")
        assert reader.vector_keys("n", "passage") == dict.fromkeys(keys, 8)
        assert reader.vector_keys("n", "phrase") == {}
        assert reader.ids_of_source("n", "of a") == ["a"]
        assert reader.ids_of_source("n", "of z") == []


def test_namespaces_are_those_that_hold_something(store):
    fill(store, "full")
    with store.write() as writer:
        writer.save_entities("half read", "k", "reader", ["Eve"])
        writer.save_curation("curated", "{}")
        writer.save_embedder("embedder", "first", ONE)
        writer.touch("nothing")
    with store.read() as reader:
        assert reader.namespaces() == ["curated", "embedder", "full", "half read"]


# -- embedders -------------------------------------------------------------------------------------


def test_an_embedder_is_recorded_with_its_generation(store):
    with store.read() as reader:
        assert reader.generation("n") is None
        assert reader.embedder("n") is None
    fill(store)
    with store.read() as reader:
        built_with = reader.embedder("n")
        assert (built_with.name, built_with.dimension, built_with.generation) == ("first", 2, 1)
        assert reader.generation("n") == 1
        assert reader.pending_embedders("n") == []


def test_a_pending_embedder_changes_nothing_until_the_switch(store):
    fill(store)
    with store.write() as writer:
        generation = writer.new_embedder("n", "second", OTHER)
        writer.save_vectors("n", "passage", {"Text a.": OTHER}, generation)
    with store.read() as reader:
        assert reader.version("n") == 1
        assert reader.embedder("n").name == "first"
        pending = reader.pending_embedders("n")
        assert [(e.name, e.dimension, e.generation) for e in pending] == [("second", 3, generation)]
        assert reader.vectors("n", "passage", ["Text a."])["Text a."].tolist() == [1, 0]
        there = reader.vectors("n", "passage", ["Text a.", "Text b."], generation)
        assert {text: v.tolist() for text, v in there.items()} == {"Text a.": [0, 0, 1]}
        assert set(reader.vector_keys("n", "passage", generation).values()) == {12}
    with store.write() as writer:
        writer.switch_embedder("n", generation)
    with store.read() as reader:
        assert reader.version("n") == 2
        assert reader.changed_since("n", 1) == ([], set())
        assert reader.embedder("n").name == "second"
        assert reader.pending_embedders("n") == []
        assert list(reader.vectors("n", "passage", ["Text a.", "Text b."])) == ["Text a."]
        assert reader.vectors("n", "passage", ["Text a.", "Text b."], 1) == {}


def test_switching_forgets_all_other_embedders(store):
    fill(store)
    with store.write() as writer:
        generations = [writer.new_embedder("n", f"e{i}", OTHER) for i in range(3)]
        for generation in generations:
            writer.save_vectors("n", "passage", {"Text a.": OTHER}, generation)
        writer.switch_embedder("n", generations[1])
        assert writer.pending_embedders("n") == []
        for generation in (1, generations[0], generations[2]):
            assert writer.vectors("n", "passage", ["Text a."], generation) == {}
            with pytest.raises(InputError, match=f"generation {generation}"):
                writer.switch_embedder("n", generation)
            with pytest.raises(EmbedderMismatchError, match="begin again"):
                writer.save_vectors("n", "passage", {"Text a.": OTHER}, generation)
        assert writer.new_embedder("n", "last", ONE) > max(generations)


def test_a_vector_of_another_dimension_is_refused(store):
    fill(store)
    with store.write() as writer:
        with pytest.raises(EmbedderMismatchError, match="2 dimensions.* 3"):
            writer.save_vectors("n", "passage", {"x": OTHER})
        generation = writer.new_embedder("n", "second", OTHER)
        with pytest.raises(EmbedderMismatchError, match="3 dimensions.* 2"):
            writer.save_vectors("n", "passage", {"x": ONE}, generation)


def test_vectors_of_an_unrecorded_embedder_become_those_of_the_first_recorded(store):
    with store.write() as writer:
        writer.save_vectors("n", "phrase", {"ada": ONE})
        assert list(writer.vectors("n", "phrase", ["ada"])) == ["ada"]
        generation = writer.save_embedder("n", "first", ONE)
        assert list(writer.vectors("n", "phrase", ["ada"], generation)) == ["ada"]
        assert list(writer.vectors("n", "phrase", ["ada"])) == ["ada"]


def test_purging_reaches_the_vectors_of_every_embedder(store):
    fill(store)
    with store.write() as writer:
        pending = writer.new_embedder("n", "second", OTHER)
        writer.save_vectors("n", "phrase", {"used": ONE, "unused": ONE})
        writer.save_vectors("n", "phrase", {"used": OTHER, "unused": OTHER}, pending)
        writer.save_vectors("n", "passage", {"Text a.": OTHER, "Text z.": OTHER}, pending)
        writer.purge_vectors("n", "phrase", ["unused"])
        for generation in (None, pending):
            assert list(writer.vectors("n", "phrase", ["used", "unused"], generation)) == ["used"]
        writer.purge_pending("n", {"passage": ["Text a.", "Text b."], "phrase": []})
        for generation in (None, pending):
            assert writer.vectors("n", "phrase", ["used"], generation) == {}
        assert list(writer.vectors("n", "passage", ["Text a.", "Text z."], pending)) == ["Text a."]
        writer.delete_passages("n", ["a"])
        writer.purge_texts("n", [text_key("Text a.")])
        writer.purge_vectors("n", "passage", ["Text a."])
        for generation in (None, pending):
            assert writer.vectors("n", "passage", ["Text a."], generation) == {}


# -- deleting a namespace --------------------------------------------------------------------------


def test_a_deleted_namespace_is_empty_unbound_and_told_to_every_handle(store):
    fill(store)
    fill(store, "other")
    with store.write() as writer:
        writer.new_embedder("n", "second", OTHER)
        writer.save_extraction("n", "p" * 64, "reader", READ)
        writer.save_curation("n", "{}")
        before = writer.commit("n")
        assert writer.delete_namespace("n") == 2
    with store.read() as reader:
        assert reader.version("n") == before[0] + 1
        assert reader.has_commit("n", *reader.commit("n"))
        assert not reader.has_commit("n", *before)
        gone = {text_key("a"), text_key("b")}
        for version in range(before[0] + 1):
            assert reader.changed_since("n", version) == ([], gone)
        assert reader.passages("n") == []
        assert reader.embedder("n") is None
        assert reader.pending_embedders("n") == []
        assert reader.curation("n") is None
        assert reader.vector_keys("n", "passage") == {}
        assert reader.pending_keys("n") == reader.extraction_keys("n") == set()
        assert reader.namespaces() == ["other"]
        assert len(reader.passages("other")) == 2
        assert reader.embedder("other").name == "first"


def test_a_deleted_namespace_can_begin_again_with_another_embedder(store):
    fill(store)
    with store.write() as writer:
        writer.delete_namespace("n")
        assert writer.save_embedder("n", "second", OTHER) > 1
        with pytest.raises(EmbedderMismatchError):  # by who does not know yet
            writer.save_vectors("n", "passage", {"x": ONE}, 1)
        writer.put_passages("n", [StoredPassage(Passage("New.", id="a"), READ)])
        version = writer.version("n")
    with store.read() as reader:
        assert reader.changed_since("n", 1) == (["a"], {text_key("b")})
        assert reader.changed_since("n", version) == ([], set())
        assert reader.embedder("n").name == "second"


def test_a_namespace_that_was_never_there_stays_so(store):
    with store.write() as writer:
        assert writer.delete_namespace("n") == 0
        assert writer.commit("n") == (0, "")


def test_a_namespace_without_passages_keeps_its_embedder(store):
    fill(store)
    delete(store, ["a", "b"])
    with store.read() as reader:
        assert reader.embedder("n").name == "first"
        assert reader.namespaces() == ["n"]


# -- passages --------------------------------------------------------------------------------------


def test_a_passage_without_an_extraction_is_failed_with_its_reason(store):
    failed = Extraction(status=Status.FAILED, reason="no reply")
    with store.write() as writer:
        writer.put_passages("n", [StoredPassage(Passage("Text.", id="a"), failed)])
        (found,) = writer.passages("n")
    assert found.extraction == failed
    assert found.status is Status.FAILED

"""A passage may be embedded by another text than the one that is read."""

import pickle
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    InputError,
    Passage,
    PermanentModelError,
)
from hippo_core.records import text_key
from hippo_core.testing import HashEmbedder, TableOpenIE

READ = "Ada wrote notes."
TABLE = {
    READ: [("Ada", "wrote", "notes")],
    "Rome fell.": [("Rome", "fell in", "476")],
    "Ada\nAda wrote notes.": [("Ada", "wrote", "notes")],
}
PLAIN = Passage(READ, id="p")
ABOUT = replace(PLAIN, embed_text="year: 1843 Ada wrote notes.")


@pytest.fixture
def chat(corpora):
    return corpora.Reader(TABLE)


@pytest.fixture
def embedder():
    return HashEmbedder()


@pytest.fixture
def memory(chat, embedder, open_memory):
    """A memory that has been used, so that its embedder is known to it."""
    memory = open_memory(chat, embedder)
    memory.add([Passage("Rome fell.", id="rome")])
    forget(chat, embedder)
    return memory


def forget(chat, embedder):
    chat.asked.clear()
    embedder.calls.clear()


def kept_keys(memory, kind="passage"):
    with memory._store.read() as reader:
        return set(reader.vector_keys("default", kind))


def keys(*texts):
    return {text_key(text) for text in texts}


# -- what is read, and what is embedded ------------------------------------------------------------


def test_the_read_text_is_read_and_the_embedded_text_is_embedded(memory, chat, embedder):
    memory.add([ABOUT])
    assert chat.asked == [("entities", READ), ("triples", READ)]
    assert ("passage", [ABOUT.embed_text]) in embedder.calls
    assert READ not in {text for _, texts in embedder.calls for text in texts}
    assert memory.get(["p"]) == [ABOUT]
    assert memory.verify().ok


def test_without_an_embed_text_title_and_text_are_embedded():
    assert Passage("x", title="T").embedded_text == "T\nx"
    assert Passage("x", title="T", embed_text="e").embedded_text == "e"
    assert Passage("x", title="T", embed_text="e").full_text == "T\nx"


def test_the_triples_are_those_of_the_read_text(open_memory):
    told = [(p, Extraction(triples=TABLE[READ])) for p in (PLAIN, replace(ABOUT, id="p"))]
    one, other = (open_memory() for _ in told)
    for memory, item in zip((one, other), told, strict=True):
        memory.add_extracted([item])
    assert one._index.snapshot().graph.triples == other._index.snapshot().graph.triples
    assert one.stats() == other.stats()


def test_dense_retrieval_ranks_by_the_embedded_text(open_memory):
    memory = open_memory(config=HippoConfig.dense())
    hidden = Passage("Ada wrote notes.", id="hidden", embed_text="Rome fell.")
    shown = Passage("Rome fell.", id="shown", embed_text="Ada wrote notes.")
    memory.add_extracted([(hidden, Extraction()), (shown, Extraction())])
    assert [h.passage.id for h in memory.retrieve("Who wrote notes?")] == ["shown", "hidden"]
    assert [h.passage.id for h in memory.retrieve("Rome fell")] == ["hidden", "shown"]


def test_passages_of_one_read_text_share_its_extraction_and_have_a_vector_each(
    memory, chat, embedder
):
    others = [replace(PLAIN, id=f"p{i}", embed_text=f"part {i}") for i in range(3)]
    memory.add([PLAIN, *others])
    assert Counter(chat.asked) == {("entities", READ): 1, ("triples", READ): 1}
    assert kept_keys(memory) == keys("Rome fell.", READ, "part 0", "part 1", "part 2")
    assert len(memory.extractions()) == 5
    view = memory._index.snapshot().corpus.passage_vectors
    assert len({row.tobytes() for row in np.asarray(view)}) == 5


def test_passages_of_one_embedded_text_share_its_vector_and_are_read_each(memory, chat, embedder):
    passages = [
        Passage(READ, id="a", embed_text="one"),
        Passage(READ, id="b", title="Ada", embed_text="one"),
        Passage("Rome fell.", id="c", embed_text="one"),
    ]
    memory.add(passages)
    assert {text for _, text in chat.asked} == {READ, passages[1].full_text}
    assert [texts for kind, texts in embedder.calls if kind == "passage"] == [["one"]]
    memory.delete(["a"])
    assert kept_keys(memory) == keys("Rome fell.", "one")
    assert memory.verify().ok
    memory.delete(["b", "c"])
    assert kept_keys(memory) == keys("Rome fell.")


# -- updates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [(PLAIN, ABOUT), (ABOUT, PLAIN), (ABOUT, replace(ABOUT, embed_text="another"))],
)
def test_an_update_of_the_embed_text_alone_embeds_one_text_and_reads_nothing(
    before, after, memory, chat, embedder
):
    memory.add([before])
    forget(chat, embedder)
    assert memory.estimate([after]).usage.stages["embedding"].texts == 1
    assert memory.estimate([after]).passages == 0
    report = memory.add([after])
    assert report.updated == ("p",)
    assert chat.asked == []
    assert embedder.calls == [("passage", [after.embedded_text])]
    assert kept_keys(memory) == keys("Rome fell.", after.embedded_text)
    assert memory.get(["p"]) == [after]
    assert memory.verify().ok
    assert memory.add([after]).unchanged == ("p",)


def test_an_update_of_the_text_alone_reads_it_and_embeds_no_passage(memory, chat, embedder):
    memory.add([replace(ABOUT, text="Rome fell.")])
    forget(chat, embedder)
    memory.add([ABOUT])
    assert {text for _, text in chat.asked} == {READ}
    assert "passage" not in {kind for kind, _ in embedder.calls}
    assert kept_keys(memory) == keys("Rome fell.", ABOUT.embed_text)


def test_an_estimate_counts_each_text_that_will_be_embedded(memory):
    """Also of passages that share the text that is read."""
    memory.add([PLAIN])
    others = [replace(PLAIN, id=f"p{i}", embed_text=f"part {i % 3}") for i in range(6)]
    told = memory.estimate(others)
    assert told.usage.stages["embedding"].texts == 3
    assert memory.add(others).usage.stages["embedding"].texts == 3


# -- what goes -------------------------------------------------------------------------------------


def test_a_vector_stays_while_a_live_passage_has_its_text(memory):
    """Whichever of the two texts it has: as its own, or in place of it."""
    memory.add([PLAIN, Passage("Rome fell.", id="q", embed_text=READ)])
    memory.delete(["p"])
    assert kept_keys(memory) == keys("Rome fell.", READ)
    memory.delete(["rome"])
    assert kept_keys(memory) == keys(READ)
    assert memory.verify().ok
    memory.delete(["q"])
    assert kept_keys(memory) == set()


def test_forgetting_what_is_pending_keeps_what_live_passages_are_embedded_by(
    open_memory, corpora, embedder
):
    chat = corpora.Reader(TABLE, {("triples", READ): [PermanentModelError("no")] * 2})
    memory = open_memory(chat, embedder)
    with pytest.raises(IndexingError):
        memory.add([ABOUT, Passage("Rome fell.", id="rome", embed_text="of Rome")])
    memory.add([Passage("Rome fell.", id="rome", embed_text="of Rome")])
    with memory._store.write() as writer:
        vector = {"never committed": np.ones(64, dtype=np.float32) / 8}
        writer.save_vectors("default", "passage", vector)
    assert memory.forget_pending() == 1
    assert kept_keys(memory) == keys("of Rome")
    assert memory.verify().ok
    assert len(memory.extractions()) == 1
    assert memory.retrieve("Rome").passages


def test_another_handle_follows_an_update_of_the_embed_text_alone(store_location):
    with (
        HippoRAG(None, HashEmbedder(), store=store_location) as one,
        HippoRAG(None, HashEmbedder(), store=store_location) as other,
    ):
        read = Extraction(triples=TABLE[READ])
        one.add_extracted([(PLAIN, read), (replace(PLAIN, id="q"), read)])
        assert len(other) == 2
        one.add_extracted([(ABOUT, read)])
        vectors = [np.asarray(m._index.snapshot().corpus.passage_vectors) for m in (one, other)]
        assert np.array_equal(*vectors)
        assert not np.array_equal(*vectors[1])
        assert other.verify().ok


# -- other embedders, copies, other processes ------------------------------------------------------


def test_another_embedder_embeds_the_embedded_texts(memory):
    memory.add([ABOUT, replace(PLAIN, id="q")])
    second = HashEmbedder(32, name="second")
    memory.reembed(second)
    asked = [text for kind, texts in second.calls if kind == "passage" for text in texts]
    assert sorted(asked[1:]) == sorted([READ, "Rome fell.", ABOUT.embed_text])  # after the probe
    assert kept_keys(memory) == keys(READ, "Rome fell.", ABOUT.embed_text)
    assert memory.verify().ok


def test_a_copy_is_embedded_by_the_same_texts(memory, tmp_path):
    memory.add([ABOUT])
    memory.copy_to(tmp_path / "copy")
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "copy") as copy:
        assert list(copy) == list(memory)
        assert copy.verify().ok
        assert kept_keys(copy) == kept_keys(memory)


def test_copies_of_a_passage_are_equal_to_it():
    for copy in (ABOUT.copy(), deepcopy(ABOUT), pickle.loads(pickle.dumps(ABOUT))):
        assert copy == ABOUT
        assert copy.embedded_text == ABOUT.embed_text
    assert ABOUT != PLAIN


# -- what is given ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 7, b"text", ["text"]])
def test_an_embed_text_that_is_no_text_is_refused(wrong, memory):
    with pytest.raises(InputError, match="embed_text must be a str"):
        memory.add([replace(PLAIN, embed_text=wrong)])


def test_a_blank_embed_text_is_as_none(memory, chat, embedder):
    report = memory.add([replace(PLAIN, embed_text=" \n"), Passage("Rome fell.", embed_text="\t")])
    assert memory.get(["p"]) == [PLAIN]
    assert memory.add([Passage("Rome fell.")]).unchanged == report.ids[1:]
    assert kept_keys(memory) == keys(READ, "Rome fell.")


def test_a_passage_without_any_text_to_read_is_skipped(memory, chat, embedder):
    assert memory.add([Passage(" ", id="x", embed_text="year: 1843")]).blank == 1
    assert embedder.calls == chat.asked == []


def test_the_embed_text_is_part_of_a_passages_content(memory):
    plain, about, again = (
        memory.add([Passage(READ, embed_text=text)]).ids for text in ("", "about", "about")
    )
    assert plain != about == again
    assert plain == memory.add([READ]).ids  # as before there was such a text
    with pytest.raises(InputError, match="two different passages"):
        memory.add([PLAIN, ABOUT])


# -- laws ------------------------------------------------------------------------------------------

texts = st.sampled_from(sorted(TABLE))
passages = st.builds(
    Passage,
    text=texts,
    id=st.sampled_from("abcd"),
    title=st.sampled_from(["", "", "T"]),
    embed_text=st.sampled_from(["", "", READ, "about", "T\nRome fell."]),
)
batches = st.lists(passages, min_size=1, max_size=4, unique_by=lambda p: p.id)
steps = st.one_of(
    st.tuples(st.just("add"), batches),
    st.tuples(st.just("add"), batches),
    st.tuples(st.just("delete"), st.lists(st.sampled_from("abcd"), min_size=1, unique=True)),
)


@given(history=st.lists(steps, max_size=6))
@settings(max_examples=30)
def test_a_vector_is_kept_of_each_text_by_which_a_live_passage_is_embedded_and_of_no_other(history):
    live = {}
    openie = TableOpenIE({t: Extraction(triples=triples) for t, triples in TABLE.items()})
    embedder = HashEmbedder(8)
    with HippoRAG(None, embedder, openie=openie, config=HippoConfig(synonymy=False)) as memory:
        for step, given_ in history:
            if step == "add":
                before = {p.embedded_text for p in live.values()}
                embedder.calls.clear()
                memory.add(given_)
                live |= {p.id: p for p in given_}
                asked = [t for kind, some in embedder.calls if kind == "passage" for t in some]
                new = {p.embedded_text for p in given_} - before
                assert Counter(asked[-len(new) :] if new else []) == Counter(new)
            else:
                memory.delete(given_)
                live = {i: p for i, p in live.items() if i not in given_}
            assert kept_keys(memory) == keys(*(p.embedded_text for p in live.values()))
            with memory._store.read() as reader:
                read = reader.extraction_keys("default")
            assert read == keys(*(p.full_text for p in live.values()))
            assert memory.verify().ok
            rows = np.asarray(memory._index.snapshot().corpus.passage_vectors)
            wanted = [live[i].embedded_text for i in sorted(live)]
            if wanted:
                assert rows == pytest.approx(HashEmbedder(8).embed(wanted, "passage"), abs=1e-6)

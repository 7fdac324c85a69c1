"""Several extractors in one graph: who read what is known, and what is read stays as it is."""

import logging

import pytest

from hippo_core import Extraction, IndexingError, Passage, Prompts, Status, Triple
from hippo_core.errors import PermanentModelError
from hippo_core.openie import fingerprint
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

LARGE = fingerprint("large", Prompts())
BY_CHAT = {"Ada met Bob.": [("Ada", "met", "Bob")], "Cy met Dee.": [("Cy", "met", "Dee")]}
BY_RULES = {
    "Bob met Cy.": Extraction(triples=[("Bob", "met", "Cy")]),
    "Dee met Eve.": Extraction(triples=[("Dee", "met", "Eve")]),
}
GIVEN = ("Eve met Fay.", Extraction(triples=[("Eve", "met", "Fay")]))


def passages(texts):
    return [Passage(text, id=text.split()[0]) for text in texts]


@pytest.fixture
def chat(corpora):
    return corpora.Reader(BY_CHAT, other='{"keep": [1]}', name="large")


@pytest.fixture
def hybrid(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    memory.add(passages(BY_CHAT))
    memory.add(passages(BY_RULES), openie=TableOpenIE(BY_RULES))
    memory.add_extracted([(Passage(GIVEN[0], id="Eve"), GIVEN[1])])
    return memory


WHO = {
    "Ada": LARGE,
    "Bob": "table",
    "Cy": LARGE,
    "Dee": "table",
    "Eve": "imported",
}


def test_each_extraction_names_its_extractor(hybrid):
    read = hybrid.extractions()
    assert {id_: extraction.extractor for id_, extraction in read.items()} == WHO
    assert read["Bob"].triples == (Triple("Bob", "met", "Cy"),)
    assert hybrid.extractions(["Dee", "ghost", "Ada"]).keys() == {"Dee", "Ada"}
    assert list(hybrid.extractions(["Dee", "Ada"])) == ["Dee", "Ada"]
    assert hybrid.extractions([]) == {}


def test_stats_count_the_passages_of_each_extractor(hybrid):
    assert hybrid.stats().by_extractor == {
        LARGE: 2,
        "imported": 1,
        "table": 2,
    }
    hybrid.delete(["Bob"])
    assert hybrid.stats().by_extractor == {
        LARGE: 2,
        "imported": 1,
        "table": 1,
    }


def test_the_graph_is_the_same_whoever_read_what(hybrid, open_memory):
    alone = open_memory(None, HashEmbedder())
    read = hybrid.extractions()
    alone.add_extracted([(passage, read[passage.id]) for passage in hybrid])
    for query in ("Whom did Ada meet?", "Who met whom that Dee met?"):
        mine = hybrid.retrieve(query, config=hybrid.config.but(recognition_memory=False))
        theirs = alone.retrieve(query)
        assert [(hit.passage.id, hit.score) for hit in mine] == [
            (hit.passage.id, hit.score) for hit in theirs
        ]


def test_the_extractor_of_one_call_is_not_that_of_the_next(hybrid, chat):
    hybrid.delete(["Ada"])
    chat.asked.clear()
    hybrid.add(passages(BY_CHAT))
    assert [text for _, text in chat.asked] == ["Ada met Bob."] * 2


def test_what_another_extractor_read_is_not_read_again(hybrid, chat):
    chat.asked.clear()
    assert hybrid.add(passages({**BY_CHAT, **BY_RULES})).unchanged == ("Ada", "Cy", "Bob", "Dee")
    assert not chat.asked


def test_who_read_it_is_known_after_reopening(open_memory, chat, tmp_path):
    with open_memory(chat, HashEmbedder(), store=tmp_path / "m") as memory:
        memory.add(passages(BY_CHAT))
        memory.add(passages(BY_RULES), openie=TableOpenIE(BY_RULES))
    with open_memory(None, HashEmbedder(), store=tmp_path / "m") as memory:
        assert memory.stats().by_extractor == {LARGE: 2, "table": 2}
        assert memory.extractions(["Dee"])["Dee"].extractor == "table"


async def test_async_brings_its_extractor_too(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    await memory.aadd(passages(BY_RULES), openie=TableOpenIE(BY_RULES))
    await memory.areextract(["Bob"], openie=TableOpenIE(BY_RULES))
    assert memory.stats().by_extractor == {"table": 2}
    assert not chat.asked


def test_rules_read_what_a_chat_model_could_not(open_memory):
    broken = ScriptedChatModel(lambda _: PermanentModelError("the model is gone"))
    memory = open_memory(broken, HashEmbedder())
    assert memory.add(passages(BY_RULES), on_error="skip").failed.keys() == {"Bob", "Dee"}
    assert memory.extractions()["Bob"].status is Status.FAILED
    assert memory.stats().by_extractor == {}
    assert memory.retry_failed(openie=TableOpenIE(BY_RULES)).updated == ("Bob", "Dee")
    assert memory.stats().by_extractor == {"table": 2}


def test_a_passage_is_read_again_by_the_extractor_of_the_call_alone(hybrid, chat):
    other = {**BY_RULES, "Ada met Bob.": Extraction(triples=[("Ada", "knew", "Bob")])}
    assert hybrid.reextract(openie=TableOpenIE(other)).updated == ("Ada", "Cy")
    assert hybrid.extractions(["Ada"])["Ada"].triples == (Triple("Ada", "knew", "Bob"),)
    assert hybrid.stats().by_extractor == {"imported": 1, "table": 4}


@pytest.mark.parametrize("again", ["retry_failed", "reextract"])
def test_what_changes_while_it_is_read_again_stays_changed(open_memory, tmp_path, again):
    """A deleted passage does not come back, an edited one keeps its text, metadata are the new."""
    memory = open_memory(ScriptedChatModel(lambda _: "no"), HashEmbedder(), store=tmp_path / "m")
    texts = [f"Gus{n} met Hal{n}." for n in range(4)]
    old = [Passage(text, id=str(n)) for n, text in enumerate(texts)]
    if again == "retry_failed":
        memory.add(old, on_error="skip")
    else:
        memory.add(old, openie=TableOpenIE())
    read = {t: Extraction(triples=[(t.split()[0], "met", t.split()[2])]) for t in texts}
    new = [Passage("Ida met Hal2.", id="1"), Passage(texts[2], id="2", metadata={"year": 2024})]

    class Meanwhile(TableOpenIE):
        @property
        def fingerprint(self):
            return "meanwhile"

        def extract(self, text):
            if text == texts[0]:
                memory.delete(["0"])
                memory.add(new[:1], openie=TableOpenIE())
                memory.add_extracted([(new[1], Extraction())])
            return super().extract(text)

    report = getattr(memory, again)(openie=Meanwhile(read))
    assert sorted(report.updated) == ["2", "3"]
    assert sorted(memory.get(["0", "1", "2", "3"]), key=lambda p: p.id) == [*new, old[3]]
    assert memory.extractions(["2"])["2"].triples == (Triple("Gus2", "met", "Hal2."),)
    assert memory.verify().ok
    assert memory.forget_pending() == 0
    memory.purge()
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert not any(name in path.read_bytes() for path in files for name in (b"Gus0", b"Gus1"))


def test_an_extractor_without_its_methods_is_refused_before_anything_is_read(hybrid, chat):
    chat.asked.clear()
    with pytest.raises(TypeError, match="extract"):
        hybrid.add(passages({"Fay met Gus.": ()}), openie=object())
    assert not chat.asked


# -- a graph that stays empty ----------------------------------------------------------------------

FIVE = passages([f"N{i} was here." for i in range(5)])


def replying(entities, triples):
    return ScriptedChatModel(
        lambda messages: entities if "named_entities" in messages[0].content else triples
    )


@pytest.mark.parametrize(
    ("triples", "cause"),
    [
        ('{"triples": []}', "too small"),
        ('{"triples": [["none", "none", "none"]]}', "placeholder: 5"),
    ],
)
def test_passages_none_of_which_has_a_triple_are_a_warning_with_its_cause(
    open_memory, caplog, triples, cause
):
    memory = open_memory(replying('{"named_entities": []}', triples), HashEmbedder())
    with caplog.at_level(logging.WARNING):
        report = memory.add(FIVE)
    assert len(report.empty) == 5
    (warning,) = report.warnings
    assert "none of the 5 passages" in warning
    assert cause in warning
    assert warning in caplog.text


def test_replies_that_cannot_be_read_are_its_cause_with_their_words(open_memory):
    memory = open_memory(replying("Here you are!", "Sure!"), HashEmbedder())
    (warning,) = memory.add(FIVE, on_error="skip").warnings
    assert "5 could not be read" in warning
    assert "Here you are!" in warning


@pytest.mark.parametrize("n", [1, 4])
def test_few_passages_without_a_triple_are_no_warning(open_memory, n):
    memory = open_memory(replying('{"named_entities": []}', '{"triples": []}'), HashEmbedder())
    assert memory.add(FIVE[:n]).warnings == ()


def test_one_triple_among_many_passages_is_no_warning(open_memory):
    table = {FIVE[0].text: Extraction(triples=[("N0", "was", "here")])}
    memory = open_memory(None, HashEmbedder(), openie=TableOpenIE(table))
    assert memory.add(FIVE).warnings == ()


def test_curated_passages_without_triples_are_no_warning(open_memory):
    memory = open_memory(None, HashEmbedder())
    assert memory.add_extracted([(passage, Extraction()) for passage in FIVE]).warnings == ()


def test_a_model_that_repeats_itself_without_end_is_a_warning(open_memory):
    endless = [["Ada", "met", f"guest {n}"] for n in range(250)]
    memory = open_memory(
        replying('{"named_entities": ["Ada"]}', str({"triples": endless}).replace("'", '"')),
        HashEmbedder(),
    )
    (warning,) = memory.add(FIVE[:1]).warnings
    assert "50" in warning
    assert "200" in warning


def test_a_failing_call_raises_with_all_its_reasons_and_no_warning_is_lost(open_memory):
    memory = open_memory(replying("Here you are!", "Sure!"), HashEmbedder())
    with pytest.raises(IndexingError) as caught:
        memory.add(FIVE)
    assert len(caught.value.failed) == 5

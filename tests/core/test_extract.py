"""Passages can be read ahead: kept at once, indexed by nobody, and paid for once."""

import asyncio
import logging
import pickle

import pytest

from hippo_core import (
    Budget,
    BudgetExceededError,
    Completion,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    InputError,
    ModelRequiredError,
    Passage,
    PermanentModelError,
    Prompts,
    Status,
    Triple,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

TEXTS = {
    "ada": "Ada married William.",
    "william": "William was born in Ockham.",
    "ockham": "Ockham lies in Surrey.",
}
TRIPLES = {
    "ada": Triple("Ada", "married", "William"),
    "william": Triple("William", "was born in", "Ockham"),
    "ockham": Triple("Ockham", "lies in", "Surrey"),
}
PASSAGES = [Passage(text, id=id_) for id_, text in TEXTS.items()]
NO_KEY = PermanentModelError("401: no key")


@pytest.fixture(params=["in memory", "on disk"])
def place(request, store_location):
    return None if request.param == "in memory" else store_location


@pytest.fixture(params=["extract", "aextract"])
def extract(request):
    """Read ahead, from threads or in a loop."""

    def extract(memory, passages, **options):
        if request.param == "extract":
            return memory.extract(passages, **options)
        return asyncio.run(memory.aextract(passages, **options))

    return extract


@pytest.fixture
def reader_of(corpora):
    def reader_of(first=None, **more):
        table = {TEXTS[id_]: [triple] for id_, triple in TRIPLES.items()}
        return corpora.Reader(table, first, **more)

    return reader_of


def test_what_was_extracted_is_not_read_again_when_it_is_added(
    place, extract, reader_of, open_memory
):
    chat = reader_of()
    memory = open_memory(chat, store=place)
    read = extract(memory, PASSAGES)
    assert {id_: e.triples for id_, e in read.items()} == {i: (t,) for i, t in TRIPLES.items()}
    assert len(memory) == 0
    assert memory.stats().phrases == 0
    asked = len(chat.calls)
    assert memory.estimate(PASSAGES).passages == 0
    report = memory.add(PASSAGES)
    assert report.added == tuple(TEXTS)
    assert memory.extractions() == read
    assert extract(memory, PASSAGES) == read
    assert len(chat.calls) == asked == 2 * len(TEXTS)


def test_it_says_who_read_what(extract, reader_of, open_memory):
    chat = reader_of(name="gpt")
    memory = open_memory(chat)
    by_chat = extract(memory, PASSAGES[:1])["ada"].extractor
    assert by_chat == memory.extractor
    assert by_chat.startswith("gpt, prompts ")
    assert extract(memory, PASSAGES[:1])["ada"].extractor == by_chat
    assert extract(memory, PASSAGES[:1], openie=TableOpenIE())["ada"].extractor == "table"
    assert open_memory(None, openie=TableOpenIE()).extractor == "table"
    assert open_memory(None).extractor is None


def test_it_needs_no_embedder(place, extract, reader_of):
    chat = reader_of()
    with HippoRAG(chat, None, store=place) as memory:
        assert set(extract(memory, PASSAGES)) == set(TEXTS)
        with pytest.raises(ModelRequiredError, match="embedder"):
            memory.add(PASSAGES)
    if place is not None:
        with HippoRAG(None, HashEmbedder(), store=place) as memory:
            memory.add(PASSAGES)
            assert len(memory) == len(TEXTS)
    assert len(chat.calls) == 2 * len(TEXTS)


def test_a_failure_is_an_error_and_the_retry_pays_for_the_failed_alone(
    place, extract, reader_of, open_memory
):
    chat = reader_of({("triples", TEXTS["william"]): [NO_KEY]})
    memory = open_memory(chat, store=place)
    with pytest.raises(IndexingError) as caught:
        extract(memory, PASSAGES)
    assert set(caught.value.failed) == {"william"}
    assert "extract the same passages again" in str(caught.value)
    assert "skip" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    chat.asked.clear()
    assert set(extract(memory, PASSAGES)) == set(TEXTS)
    assert chat.asked == [("triples", TEXTS["william"])]


def test_what_was_kept_outlives_the_handle(extract, reader_of, store_location):
    chat = reader_of({("entities", TEXTS["ockham"]): [NO_KEY]})
    with HippoRAG(chat, None, store=store_location) as memory:
        with pytest.raises(IndexingError, match="'ockham'"):
            extract(memory, PASSAGES)
    chat.asked.clear()
    with HippoRAG(chat, None, store=store_location) as memory:
        assert set(extract(memory, PASSAGES)) == set(TEXTS)
    assert {text for _, text in chat.asked} == {TEXTS["ockham"]}


def test_a_reply_is_kept_as_soon_as_it_is_there(place, extract, reader_of, open_memory):
    chat = reader_of()
    one_by_one = HippoConfig(concurrency=1)  # else a call that is under way may be lost
    memory = open_memory(chat, store=place, config=one_by_one)

    def interrupted(progress):
        if progress.done == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        extract(memory, PASSAGES, progress=interrupted)
    extract(memory, PASSAGES)
    assert len(chat.asked) == len(set(chat.asked)) == 2 * len(TEXTS)


def test_a_budget_is_kept_and_the_next_call_goes_on(place, extract, reader_of, open_memory):
    chat = reader_of()
    memory = open_memory(chat, store=place)
    with pytest.raises(BudgetExceededError, match="extract the same passages again") as caught:
        extract(memory, PASSAGES, budget=Budget(calls=3))
    assert "index" not in str(caught.value)
    assert len(chat.calls) == 3
    extract(memory, PASSAGES, budget=Budget(calls=3))
    assert len(chat.calls) == 2 * len(TEXTS)


def test_forget_pending_drops_it(place, extract, reader_of, open_memory):
    chat = reader_of()
    memory = open_memory(chat, store=place)
    extract(memory, PASSAGES)
    assert memory.forget_pending() == len(TEXTS)
    extract(memory, PASSAGES)
    assert len(chat.calls) == 4 * len(TEXTS)


def test_another_extractor_reads_for_itself_and_changes_nothing_that_is_indexed(
    extract, reader_of, open_memory
):
    memory = open_memory(reader_of())
    memory.add(PASSAGES)
    before = memory.extractions()
    other = Extraction(triples=[("Ada", "wed", "William")])
    openie = TableOpenIE({TEXTS["ada"]: other})
    assert extract(memory, PASSAGES[:1], openie=openie) == {"ada": other}
    assert extract(memory, PASSAGES[:1], openie=openie) == {"ada": other}
    assert openie.calls == [TEXTS["ada"]]
    assert memory.extractions() == before
    assert memory.verify().ok


def test_other_prompts_are_another_extractor(extract, reader_of, store_location):
    class Own(Prompts):
        version = "own 1"

    chat = reader_of()
    for prompts in (None, Own(), None):
        with HippoRAG(chat, None, store=store_location, prompts=prompts) as memory:
            (read,) = extract(memory, PASSAGES[:1]).values()
            assert read.extractor == memory.extractor
    assert len(chat.calls) == 3 * 2  # one text has one reading that is not indexed: the last


def test_a_cut_reply_is_partial_and_asked_for_again(extract, open_memory):
    cut = Completion('{"triples": [["Ada", "married", "William"], ["Wil', finish_reason="length")
    whole = '{"triples": [["Ada", "married", "William"], ["William", "wed", "Ada"]]}'
    chat = ScriptedChatModel(['{"named_entities": ["Ada", "William"]}', cut, whole])
    memory = open_memory(chat)
    (partial,) = extract(memory, PASSAGES[:1]).values()
    assert partial.status is Status.PARTIAL
    assert partial.triples == (TRIPLES["ada"],)
    (read,) = extract(memory, PASSAGES[:1]).values()
    assert (read.status, len(read.triples)) == (Status.OK, 2)


def test_passages_of_one_text_are_read_once_and_blank_ones_not_at_all(
    extract, reader_of, open_memory
):
    chat = reader_of()
    memory = open_memory(chat)
    twin = Passage(TEXTS["ada"], id="twin", metadata={"page": 2})
    read = extract(memory, [PASSAGES[0], twin, Passage(" ", id="blank"), TEXTS["ockham"]])
    assert len(read) == 3
    assert read["ada"] == read["twin"]
    assert len(chat.calls) == 4
    with pytest.raises(InputError, match="two different passages"):
        extract(memory, [PASSAGES[0], Passage("Other.", id="ada")])
    assert extract(memory, []) == {}


def test_it_says_that_nothing_was_found(extract, open_memory, caplog):
    memory = open_memory(None, openie=TableOpenIE())
    with caplog.at_level(logging.WARNING):
        extract(memory, [f"Text {n}." for n in range(5)])
    assert "none of the 5 passages of this call gave a triple" in caplog.text


def test_without_a_reader_it_says_so(extract, open_memory):
    with pytest.raises(ModelRequiredError, match="3 passages have to be read"):
        extract(open_memory(None), PASSAGES)


def test_what_is_ready_made_is_added_where_the_chat_model_is_not_there_to_be_named(open_memory):
    class Absent(ScriptedChatModel):
        def __init__(self):
            """Answer nothing."""

        @property
        def name(self):
            raise ModelRequiredError("there is none")

    memory = open_memory(Absent())
    memory.add_extracted([(PASSAGES[0], Extraction(triples=[TRIPLES["ada"]]))])
    assert memory.extractions()["ada"].extractor == "imported"

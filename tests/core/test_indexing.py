"""Adding, updating and deleting: what is read, paid, kept, reported and shown."""

import asyncio
import threading
import time
from functools import partial

import numpy as np
import pytest

from hippo_core import (
    Completion,
    Extraction,
    HippoConfig,
    IndexingError,
    InputError,
    ModelRequiredError,
    Passage,
    PermanentModelError,
    RetrievalPath,
    Status,
    SynonymyError,
    TokenUsage,
    TransientModelError,
    Triple,
)
from hippo_core.embedding import PROBE
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.tokens import count_tokens

TABLE = {
    "Ada wrote notes.": [("Ada", "wrote", "notes")],
    "Bob met Ada.": [("Bob", "met", "Ada")],
    "Rome fell.": [("Rome", "fell to", "Goths")],
    "It rained.": [],
}
ADA, BOB, ROME, RAIN = TABLE


def batch(*texts):
    return [Passage(text, id=text.split()[0]) for text in texts or TABLE]


def cut(triples='[["Ada", "wrote", "notes"], ["Ada", "wr'):
    return Completion(f'{{"triples": {triples}', TokenUsage(1, 1), finish_reason="length")


@pytest.fixture
def reader(corpora):
    def reader(first=None, **more):
        return corpora.Reader(TABLE, first, **more)

    return reader


# -- idempotence and updates -----------------------------------------------------------------------


def test_adding_again_costs_nothing_and_changes_nothing(open_memory, reader):
    chat, embedder = reader(), HashEmbedder()
    memory = open_memory(chat, embedder)
    report = memory.add(batch())
    assert report.ids == report.added == ("Ada", "Bob", "Rome", "It")
    snapshot = memory._index.snapshot()
    chat.calls.clear()
    embedder.calls.clear()
    again = memory.add(batch())
    assert (again.ids, again.unchanged, again.added) == (report.ids, report.ids, ())
    assert not again.usage.stages
    assert not chat.calls
    assert not embedder.calls
    assert memory._index.snapshot() is snapshot


def test_the_same_passage_twice_in_one_call_is_one(open_memory, reader):
    chat = reader()
    memory = open_memory(chat)
    report = memory.add([*batch(ADA), *batch(ADA), ADA, ADA])
    assert len(report.ids) == 4
    assert len(report.added) == len(memory) == 2  # one with an id of its own, one by content
    assert chat.asked == [("entities", ADA), ("triples", ADA)]


def test_bare_texts_have_an_id_of_their_content(open_memory, reader):
    memory = open_memory(reader())
    one = memory.add([ADA]).ids
    assert one == memory.add([Passage(ADA)]).ids
    assert len(one[0]) == 64
    assert len(memory.add([Passage(ADA, title="", metadata={"n": n}) for n in range(3)]).added) == 3


def test_the_same_id_with_a_new_text_is_an_update(open_memory, reader):
    memory = open_memory(reader())
    memory.add(batch(ADA, BOB))
    report = memory.add([Passage(ROME, id="Ada")])
    assert (report.updated, report.added, len(memory)) == (("Ada",), (), 2)
    assert memory._index.snapshot().graph.phrases == ("ada", "bob", "goths", "rome")
    memory.add([Passage(RAIN, id="Bob")])
    assert memory._index.snapshot().graph.phrases == ("goths", "rome")
    assert [p.text for p in memory.get(["Ada", "Bob"])] == [ROME, RAIN]


def test_new_metadata_calls_no_model(open_memory, reader):
    chat, embedder = reader(), HashEmbedder()
    memory = open_memory(chat, embedder)
    memory.add([Passage(ADA, id="a", metadata={"n": 1})])
    calls = len(chat.calls), len(embedder.calls)
    for metadata in ({"n": 2}, {"n": 2.0}, {"n": True}, {}):
        report = memory.add([Passage(ADA, id="a", metadata=metadata, source_id="s")])
        assert report.updated == ("a",)
        (found,) = memory.get(["a"])
        assert found.metadata == metadata
        assert [type(v) for v in found.metadata.values()] == [type(v) for v in metadata.values()]
        assert memory.retrieve("Ada").passages[0].passage == found
    assert (len(chat.calls), len(embedder.calls)) == (calls[0] + 4, calls[1] + 4)  # the queries'


def test_the_same_text_from_two_sources_is_two_passages_and_one_reading(open_memory, reader):
    chat, embedder = reader(), HashEmbedder()
    memory = open_memory(chat, embedder)
    report = memory.add([Passage(ADA, source_id="s1"), Passage(ADA, source_id="s2")])
    memory.add([Passage(ADA, source_id="s3")])
    assert len(set(report.added)) == 2
    assert chat.asked == [("entities", ADA), ("triples", ADA)]
    assert [text for _, texts in embedder.calls for text in texts].count(ADA) == 1
    found = memory.retrieve("Ada")
    assert [hit.passage.source_id for hit in found] == [
        p.source_id for p in sorted(memory, key=lambda p: p.id)
    ]
    assert len(found) == 3


def test_the_title_is_read_and_embedded_with_the_text(open_memory, corpora):
    chat = corpora.Reader({"Notes\nBy Ada.": [("Ada", "wrote", "Notes")]})
    memory = open_memory(chat)
    memory.add([Passage("By Ada.", title="Notes", id="1")])
    assert chat.asked == [("entities", "Notes\nBy Ada."), ("triples", "Notes\nBy Ada.")]
    assert memory.get(["1"]) == [Passage("By Ada.", title="Notes", id="1")]


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        [Passage(BOB, id="Ada")],
        [Passage(ADA, id="Ada", metadata={"n": 1})],
        [Passage("x", metadata={"when": object()})],
        [Passage("x", metadata={"n": float("nan")})],
        [Passage("x", metadata={1: 2})],
        [Passage("x", metadata=[1])],
        [Passage(5)],
        [Passage("x", id=7)],
        [Passage("x", title=None)],
        [Passage("x", source_id=3)],
        [None],
        [b"bytes"],
    ],
    ids=range(12),
)
def test_a_passage_that_cannot_be_used_is_refused_and_nothing_is_done(bad, open_memory, reader):
    chat, embedder = reader(), HashEmbedder()
    memory = open_memory(chat, embedder)
    with pytest.raises(InputError):
        memory.add([*batch(ADA), *bad])
    assert len(memory) == 0
    assert not chat.calls
    assert not embedder.calls


@pytest.mark.parametrize("one", [ADA, Passage(ADA)])
def test_one_passage_where_a_list_is_meant_is_refused(one, open_memory, reader):
    with pytest.raises(InputError, match="list"):
        open_memory(reader()).add(one)


def test_an_unknown_rule_for_errors_is_refused(open_memory, reader):
    with pytest.raises(InputError, match="skip"):
        open_memory(reader()).add(batch(), on_error="ignore")


def test_blank_passages_are_skipped_and_counted(open_memory, reader):
    embedder = HashEmbedder()
    memory = open_memory(reader(), embedder)
    report = memory.add(["", "  \n", Passage("", title=" ", id="x"), *batch(ADA)])
    assert (report.blank, report.ids, len(memory)) == (3, ("Ada",), 1)
    assert all(text.strip() for _, texts in embedder.calls for text in texts)
    assert memory.add([]).ids == memory.add(["\t"]).ids == ()


def test_without_anything_that_reads_the_error_says_what_is_missing(open_memory):
    memory = open_memory()
    with pytest.raises(ModelRequiredError, match="add_extracted"):
        memory.add(batch())
    assert memory.add([]).ids == ()
    assert len(memory) == 0


def test_this_calls_chat_model_reads(open_memory, reader):
    memory, chat = open_memory(), reader()
    assert len(memory.add(batch(), chat_model=chat).added) == 4
    assert len(chat.asked) == 8


# -- partial, failed, empty ------------------------------------------------------------------------


def test_a_cut_reply_keeps_what_is_whole_and_is_asked_again(open_memory, reader):
    chat = reader({("triples", ADA): [cut(), cut()]})
    memory = open_memory(chat)
    report = memory.add(batch(ADA, BOB))
    assert report.added == ("Ada", "Bob")
    assert set(report.partial) == {"Ada"}
    assert "cut" in report.partial["Ada"]
    assert memory.stats().by_status == {"ok": 1, "partial": 1}
    hits = {hit.passage.id: hit for hit in memory.retrieve("Ada wrote notes")}
    assert hits["Ada"].status == Status.PARTIAL
    assert hits["Ada"].triples
    chat.asked.clear()
    assert set(memory.add(batch(ADA, BOB)).partial) == {"Ada"}
    report = memory.add(batch(ADA, BOB))
    assert (report.updated, report.unchanged, dict(report.partial)) == (("Ada",), ("Bob",), {})
    assert {text for _, text in chat.asked} == {ADA}
    assert memory.stats().by_status == {"ok": 2}


def test_a_failed_retry_keeps_what_the_cut_reply_said(open_memory, reader, store_location):
    first = {("triples", ADA): [cut(), PermanentModelError("down"), PermanentModelError("down")]}
    memory = open_memory(reader(first), store=store_location)
    memory.add(batch(ADA))
    with pytest.raises(IndexingError, match="down"):
        memory.add(batch(ADA))
    report = memory.add(batch(ADA), on_error="skip")
    assert set(report.partial) == {"Ada"}
    assert "down" in report.partial["Ada"]
    assert not report.failed
    again = open_memory(store=store_location)
    for one in (memory, again):
        assert one.stats().by_status == {"partial": 1}
        assert one.retrieve("Ada").path.used_graph


def test_a_failed_passage_is_there_for_dense_retrieval_only(open_memory, reader):
    memory = open_memory(reader({("triples", ADA): [PermanentModelError("401")]}))
    report = memory.add(batch(ADA, BOB), on_error="skip")
    assert dict(report.failed) == {"Ada": "401"}
    assert report.added == ("Bob",)
    assert memory._index.snapshot().graph.phrases == ("ada", "bob")
    hits = {hit.passage.id: hit for hit in memory.retrieve(ADA)}
    assert hits["Ada"].status == Status.FAILED
    assert hits["Ada"].triples == ()
    dense = memory.retrieve(ADA, config=HippoConfig.dense())
    assert dense.passages[0].passage.id == "Ada"


def test_raising_shows_nothing_of_the_call_and_names_each_failure(open_memory, reader):
    chat = reader({("entities", t): [PermanentModelError(t)] for t in (ADA, ROME)})
    memory = open_memory(chat)
    with pytest.raises(IndexingError) as caught:
        memory.add(batch())
    assert caught.value.failed == {"Ada": ADA, "Rome": ROME}
    assert len(memory) == 0
    assert "skip" in str(caught.value)


def test_a_failed_update_that_raises_leaves_the_passage_as_it_was(open_memory, reader):
    memory = open_memory(reader({("entities", BOB): [PermanentModelError("no")]}))
    memory.add(batch(ADA))
    with pytest.raises(IndexingError):
        memory.add([Passage(BOB, id="Ada")])
    assert memory.get(["Ada"])[0].text == ADA
    assert memory.stats().triples == 1


def test_a_failed_update_that_is_skipped_forgets_what_the_old_text_said(open_memory, reader):
    memory = open_memory(reader({("entities", BOB): [PermanentModelError("no")]}))
    memory.add(batch(ADA))
    report = memory.add([Passage(BOB, id="Ada")], on_error="skip")
    assert set(report.failed) == {"Ada"}
    assert memory.get(["Ada"])[0].text == BOB
    assert memory.stats().phrases == 0


def test_an_empty_reading_is_finished_and_not_asked_again(open_memory, reader):
    chat = reader()
    memory = open_memory(chat)
    assert memory.add(batch(RAIN)).empty == ("It",)
    assert memory.stats().by_status == {"empty": 1}
    chat.calls.clear()
    assert memory.add(batch(RAIN)).unchanged == ("It",)
    assert not chat.calls
    assert memory.retrieve("rain").path == RetrievalPath.DENSE_NOTHING_LINKED


def test_an_unreadable_reply_is_asked_once_more_with_the_complaint(open_memory, reader):
    chat = reader({("entities", ADA): ["Gladly!"]})
    memory = open_memory(chat)
    assert memory.add(batch(ADA)).added == ("Ada",)
    assert chat.asked == [("entities", ADA), ("entities", ADA), ("triples", ADA)]
    first, second, _ = chat.calls
    assert second[: len(first)] == first
    assert second[len(first)].content == "Gladly!"
    assert "named_entities" in second[-1].content


@pytest.mark.parametrize("stage", ["entities", "triples"])
def test_two_unreadable_replies_are_a_failure_and_no_third_is_asked(stage, open_memory, reader):
    chat = reader({(stage, ADA): ["Gladly!", "Of course!"]})
    memory = open_memory(chat)
    report = memory.add(batch(ADA), on_error="skip")
    assert "Of course!" in report.failed["Ada"]
    assert chat.asked.count((stage, ADA)) == 2


def test_entities_are_not_asked_again_where_only_the_triples_failed(
    open_memory, reader, store_location
):
    first = {("triples", ADA): [PermanentModelError("x"), PermanentModelError("y")]}
    chat = reader(first)
    memory = open_memory(chat, store=store_location)
    memory.add(batch(ADA), on_error="skip")
    memory.add(batch(ADA), on_error="skip")
    memory.close()
    open_memory(chat, store=store_location).add(batch(ADA))
    assert chat.asked == [("entities", ADA)] + [("triples", ADA)] * 3


def test_another_models_entities_are_not_taken_over(open_memory, reader):
    one = reader({("triples", ADA): [PermanentModelError("x")]}, name="one")
    two = reader(name="two")
    memory = open_memory(one)
    memory.add(batch(ADA), on_error="skip")
    memory.add(batch(ADA), chat_model=two)
    assert two.asked == [("entities", ADA), ("triples", ADA)]


def test_another_extractor_does_not_read_again_what_is_read(open_memory, reader):
    memory = open_memory(reader(name="one"))
    memory.add(batch(ADA))
    two = reader(name="two")
    assert memory.add(batch(ADA), chat_model=two).unchanged
    assert memory.add([Passage(ADA, id="another")], chat_model=two).added
    assert not two.calls


def test_deleting_and_adding_again_pays_again(open_memory, reader):
    chat = reader()
    memory = open_memory(chat)
    for _ in range(2):
        memory.add(batch(ADA))
        memory.delete(["Ada"])
    assert chat.asked == [("entities", ADA), ("triples", ADA)] * 2


def test_what_cannot_be_used_of_a_reply_is_counted_by_kind(open_memory, corpora):
    odd = '{"triples": [["Ada", "wrote", "notes"], ["Ada", "wrote"], ["!!!", "is", "—"]]}'
    chat = corpora.Reader(TABLE, {("triples", ADA): [odd], ("triples", BOB): [odd]})
    report = open_memory(chat).add(batch(ADA, BOB))
    assert report.dropped == {"2 fields": 2, "no letters or digits": 2}


def test_all_replies_in_another_format_are_all_failures(open_memory):
    memory = open_memory(ScriptedChatModel(lambda _: '("entity"<|>ADA<|>PERSON)##'))
    report = memory.add(batch(), on_error="skip")
    assert len(report.failed) == 4
    assert memory.stats().by_status == {"failed": 4}


# -- an OpenIE in place of the chat model ----------------------------------------------------------


def test_the_given_openie_reads_and_the_chat_model_does_not(open_memory):
    openie = TableOpenIE({ADA: Extraction(triples=TABLE[ADA])})
    memory = open_memory(ScriptedChatModel([]), openie=openie)
    report = memory.add(batch(ADA, RAIN))
    assert sorted(openie.calls) == sorted([ADA, RAIN])
    assert report.empty == ("It",)  # whatever status it was given


@pytest.mark.parametrize(
    "error", [OSError("disk"), PermanentModelError("no"), ValueError("bad"), KeyError("k")]
)
def test_an_openie_that_raises_is_a_failure_of_that_passage(error, open_memory):
    class Broken(TableOpenIE):
        def extract(self, text):
            if text == ADA:
                raise error
            return super().extract(text)

    report = open_memory(openie=Broken()).add(batch(ADA, RAIN), on_error="skip")
    assert set(report.failed) == {"Ada"}
    assert str(error) in report.failed["Ada"]


def test_an_extraction_that_says_failed_is_a_failure_whatever_it_holds(open_memory):
    told = Extraction(triples=[("a", "b", "c")], status=Status.FAILED, reason="too long")
    memory = open_memory(openie=TableOpenIE({ADA: told}))
    assert dict(memory.add(batch(ADA), on_error="skip").failed) == {"Ada": "too long"}
    assert memory.stats().phrases == 0
    with memory._store.read() as reader:
        assert not reader.vectors("default", "phrase", ["a", "c"])


# -- ready-made extractions ------------------------------------------------------------------------


def test_a_given_extraction_is_indexed_without_a_model(open_memory):
    memory = open_memory()
    report = memory.add_extracted(
        [
            (ADA, Extraction(["Ada"], [("Ada", "wrote", "notes")])),
            (Passage(RAIN, id="r"), Extraction()),
        ]
    )
    assert len(report.added) == 2
    assert report.empty == ("r",)
    assert report.usage.chat_calls == 0
    assert memory.retrieve("Ada").triples[0].triple == Triple("Ada", "wrote", "notes")


def test_another_given_extraction_is_an_update_of_all_passages_of_the_text(open_memory):
    memory = open_memory()
    old, new = (Extraction(triples=[(p, "is", "x")]) for p in ("old", "new"))
    memory.add_extracted([(Passage(ADA, id="1"), old), (Passage(ADA, id="2"), old)])
    assert memory.add_extracted([(Passage(ADA, id="1"), old)]).unchanged == ("1",)
    assert memory.add_extracted([(Passage(ADA, id="1"), new)]).updated == ("1", "2")
    assert memory._index.snapshot().graph.phrases == ("new", "x")
    assert memory.add_extracted([(Passage(ADA, id="2"), new)]).unchanged == ("2",)
    with memory._store.read() as reader:
        assert set(reader.vectors("default", "phrase", ["old", "new", "x"])) == {"new", "x"}


def test_cut_entities_make_a_partial_passage_that_is_read_again(open_memory):
    some = Completion('{"named_entities": ["Ada", "not', TokenUsage(1, 1), finish_reason="length")
    triples = '{"triples": [["Ada", "wrote", "notes"]]}'
    chat = ScriptedChatModel([some, triples, '{"named_entities": ["Ada", "notes"]}', triples])
    memory = open_memory(chat)
    report = memory.add(batch(ADA))
    assert "entities was cut" in report.partial["Ada"]
    assert memory.add(batch(ADA)).updated == ("Ada",)
    assert len(chat.calls) == 4
    assert memory.stats().by_status == {"ok": 1}


def test_half_of_an_interrupted_change_is_no_state(open_memory, monkeypatch):
    items = [
        (Passage(ADA, id="1"), Extraction(triples=[("Ada", "wrote", "notes")])),
        (Passage(BOB, id="2"), Extraction(triples=[("Bob", "met", "Ada")])),
    ]
    fresh, memory = open_memory(), open_memory()
    fresh.add_extracted(items)
    memory.add_extracted(items[:1])

    def interrupted(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as at_the_worst_moment:
        at_the_worst_moment.setattr(memory._index._synonyms, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.add_extracted(items[1:])
    assert memory.stats() == fresh.stats()
    assert memory.delete(["2"]).deleted == ("2",)
    assert memory._index.snapshot().graph.phrases == ("ada", "notes")


@pytest.mark.sqlite
def test_what_an_aborted_add_read_can_be_forgotten(open_memory, reader, store_location):
    marked = "Xyzzyx met Quuxal."
    chat = ScriptedChatModel(
        lambda m: '{"named_entities": ["Xyzzyx"], "triples": [["Xyzzyx", "met", "Quuxal"]]}'
    )
    embedder = HashEmbedder()
    memory = open_memory(chat, embedder, store=store_location)
    memory.add_extracted([(Passage(ROME), Extraction(triples=[("Rome", "fell to", "Goths")]))])
    embedder.embed = lambda texts, kind: (_ for _ in ()).throw(PermanentModelError("down"))
    with pytest.raises(PermanentModelError):
        memory.add([marked])
    assert memory.forget_pending() == 1
    assert memory.forget_pending() == 0
    memory.close()
    kept = b"".join(path.read_bytes() for path in store_location.iterdir())
    assert b"Xyzzyx" not in kept
    assert b"Goths" in kept


def test_two_extractions_for_one_text_are_refused(open_memory):
    memory = open_memory()
    one, two = (Extraction(triples=[(p, "is", "x")]) for p in ("one", "two"))
    for ids in (("1", "1"), ("1", "2")):
        with pytest.raises(InputError, match="two different extractions"):
            memory.add_extracted(
                [(Passage(ADA, id=i), e) for i, e in zip(ids, (one, two), strict=True)]
            )
    assert len(memory) == 0


@pytest.mark.parametrize("reading", [None, {"triples": []}, [("a", "b", "c")]])
def test_what_is_no_extraction_is_refused(reading, open_memory):
    with pytest.raises(InputError, match="Extraction"):
        open_memory().add_extracted([(ADA, reading)])


@pytest.mark.parametrize(
    "parts",
    [
        {"triples": [("a", "b")]},
        {"triples": ["abc"]},
        {"triples": [("a", None, "b")]},
        {"entities": [None]},
        {"entities": "Ada"},
    ],
)
def test_an_extraction_of_other_parts_cannot_be_made(parts):
    with pytest.raises(TypeError):
        Extraction(**parts)


def test_an_extraction_takes_lists_and_plain_tuples():
    reading = Extraction(["a"], [["a", "b", "c"]], "partial")
    assert reading == Extraction(("a",), (Triple("a", "b", "c"),), Status.PARTIAL)
    assert isinstance(reading.triples[0], Triple)


def test_a_given_extraction_that_failed_is_refused(open_memory):
    memory = open_memory()
    with pytest.raises(IndexingError):
        memory.add_extracted([(ADA, Extraction(status=Status.FAILED, reason="x"))])
    assert len(memory) == 0


def test_a_given_partial_extraction_is_finished_by_the_next_add(open_memory, reader):
    memory = open_memory(reader())
    memory.add_extracted([(p, Extraction(status=Status.PARTIAL)) for p in batch(ADA)])
    assert memory.add(batch(ADA)).updated == ("Ada",)
    assert memory.stats().by_status == {"ok": 1}


# -- progress --------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 8])
def test_progress_is_told_of_each_text_read_in_order_and_to_the_end(
    concurrency, open_memory, reader
):
    chat = reader({("entities", BOB): [PermanentModelError("x")]})
    memory = open_memory(chat, config=HippoConfig(concurrency=concurrency))
    seen = []
    memory.add(batch(ADA))
    memory.add([*batch(), Passage(ROME, id="twin")], on_error="skip", progress=seen.append)
    assert [p.done for p in seen] == [1, 2, 3]  # Ada is read, the twin is read with Rome
    assert {p.total for p in seen} == {3}
    assert [p.failed for p in seen] == sorted(p.failed for p in seen)
    assert seen[-1].failed == 1
    calls = [p.usage.chat_calls for p in seen]
    assert calls == sorted(calls)
    assert calls[-1] == 4  # a call that failed is not counted


def test_an_exception_of_the_progress_callback_surfaces_and_what_was_read_is_kept(
    open_memory, reader
):
    def stop(progress):
        raise KeyError("stop here")

    chat = reader()
    memory = open_memory(chat, config=HippoConfig(concurrency=1))
    with pytest.raises(KeyError, match="stop here"):
        memory.add(batch(), progress=stop)
    assert len(memory) == 0
    with pytest.raises(KeyError, match="stop here"):
        asyncio.run(memory.aadd(batch(), progress=stop))
    asked = list(chat.asked)
    memory.add(batch())
    assert chat.asked.count(asked[0]) == 1
    assert len(chat.asked) == 8


# -- usage -----------------------------------------------------------------------------------------


def test_usage_is_counted_exactly_by_stage(open_memory, corpora):
    def priced(text):
        return [Completion(text, TokenUsage(100, 7))]

    first = {
        ("entities", ADA): priced('{"named_entities": ["Ada", "notes"]}'),
        ("triples", ADA): [
            Completion("what?", TokenUsage(50, 3)),
            Completion('{"triples": [["Ada", "wrote", "notes"]]}', TokenUsage(60, 4)),
        ],
    }
    other = Completion('{"keep": [1]}', TokenUsage(30, 2))
    memory = open_memory(corpora.Reader(TABLE, first, other=other))
    stages = memory.add(batch(ADA)).usage.as_dict()
    assert stages.keys() == {"entities", "triples", "embedding"}
    embedded = sum(count_tokens(t) for _, texts in memory.embedder.calls for t in texts)
    for stage, expected in {
        "entities": (1, 100, 7), "triples": (2, 110, 7), "embedding": (3, embedded, 0)
    }.items():  # fmt: skip
        found = stages[stage]
        assert (found["calls"], found["input_tokens"], found["output_tokens"]) == expected
        assert found["estimated"] is (stage == "embedding")
        assert found["seconds"] >= 0
    assert stages["embedding"]["texts"] == 1 + 1 + 2 + 1  # probe, passage, phrases, triple
    found = memory.retrieve("Ada").usage.stages
    assert found.keys() == {"recognition", "embedding"}
    assert (found["recognition"].input_tokens, found["recognition"].output_tokens) == (30, 2)
    answer = memory.answer("Ada?", chat_model=ScriptedChatModel(lambda _: other))
    assert answer.usage.stages["answer"].input_tokens == 30
    assert answer.usage.chat_calls == 2


def test_usage_that_the_model_does_not_tell_is_estimated_and_marked(open_memory, reader):
    reply = '{"named_entities": ["Ada", "notes"]}'
    chat = reader({("entities", ADA): [Completion(reply)]})
    stages = open_memory(chat).add(batch(ADA)).usage.stages
    assert stages["entities"].estimated
    assert stages["entities"].input_tokens == sum(count_tokens(m.content) for m in chat.calls[0])
    assert stages["entities"].output_tokens == count_tokens(reply)
    assert not stages["triples"].estimated


def test_a_cached_reply_is_counted_and_costs_nothing(open_memory, reader):
    reply = Completion('{"named_entities": []}', TokenUsage(100, 7), cached=True)
    stage = open_memory(reader({("entities", ADA): [reply]})).add(batch(ADA), on_error="skip").usage
    entities = stage.stages["entities"]
    assert (entities.calls, entities.cached, entities.input_tokens) == (1, 1, 0)


def test_what_queries_at_once_cost_is_counted_apart(open_memory, corpora):
    memory = open_memory(ScriptedChatModel(lambda _: '{"keep": [1]}'))
    memory.add_extracted(corpora.bridge_items())
    for found in memory.retrieve_many([corpora.one_query] * 5):
        assert found.usage.chat_calls == 1
        assert found.usage.stages["embedding"].calls == 1


# -- replies that were cut -------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["entities", "triples"])
def test_a_reply_that_breaks_off_is_partial_though_the_model_does_not_say_so(
    open_memory, reader, stage
):
    """A stream that ends too early has no reason why, nor has what some servers cut."""
    broken = {
        "entities": '{"named_entities": ["Ada", "not',
        "triples": '{"triples": [["Ada", "wrote", "notes"], ["Ada", "wr',
    }[stage]
    chat = reader({(stage, ADA): [broken]}, other='{"triples": [["Ada", "wrote", "notes"]]}')
    memory = open_memory(chat, HashEmbedder())
    report = memory.add(batch(ADA))
    assert "was cut" in report.partial["Ada"]
    assert memory.stats().triples == 1
    asked = len(chat.asked)
    assert memory.add(batch(ADA)).updated == ("Ada",)
    assert len(chat.asked) > asked
    assert memory.stats().by_status == {"ok": 1}


# -- embedding -------------------------------------------------------------------------------------


def test_one_passage_needs_three_embedding_calls(open_memory):
    embedder = HashEmbedder()
    memory = open_memory(embedder=embedder)
    triples = [("Ada", "met", f"person {i}") for i in range(6)] + [("Ada", "wrote", "notes")] * 2
    memory.add_extracted([(ADA, Extraction(triples=triples))])
    # The first is alone, and checks the embedder; the others run at once.
    assert sorted(kind for kind, _ in embedder.calls) == ["passage", "phrase", "triple"]
    assert embedder.calls[0] == ("passage", [PROBE, ADA])
    for _, texts in embedder.calls:
        assert len(set(texts)) == len(texts)
    memory.add_extracted([("Again.", Extraction(triples=triples[:3]))])
    assert embedder.calls[3:] == [("passage", ["Again."])]


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_no_embedding_call_is_larger_than_configured_and_no_text_goes_twice(size, open_memory):
    embedder = HashEmbedder()
    memory = open_memory(embedder=embedder, config=HippoConfig(embed_batch_size=size))
    memory.add_extracted(
        [(f"Text {i}.", Extraction(triples=[("Ada", "saw", f"x {i % 4}")])) for i in range(7)]
    )
    assert max(len(texts) for _, texts in embedder.calls) <= size
    sent = [(kind, text) for kind, texts in embedder.calls for text in texts]
    assert len(set(sent)) == len(sent) == 1 + 7 + 5 + 4
    least = -(-8 // size) + -(-5 // size) + -(-4 // size)
    assert least <= len(embedder.calls) <= least + 1


def test_an_embedder_that_fails_midway_keeps_what_was_read_and_embedded(
    open_memory, reader, store_location
):
    class Failing(HashEmbedder):
        down = True

        def embed(self, texts, kind):
            if self.down and kind == "triple":
                raise PermanentModelError("quota")
            return super().embed(texts, kind)

    chat, embedder = reader(), Failing()
    memory = open_memory(chat, embedder, store=store_location)
    with pytest.raises(PermanentModelError, match="quota"):
        memory.add(batch())
    assert len(memory) == 0
    assert memory.retrieve("Ada").path == RetrievalPath.EMPTY
    read, embedded = len(chat.calls), len(embedder.calls)
    embedder.down = False
    memory.add(batch())
    assert len(chat.calls) == read
    assert [kind for kind, _ in embedder.calls[embedded:]] == ["triple"]


@pytest.mark.parametrize("status", ["failed", "partial"])
def test_a_retry_whose_embedding_fails_leaves_the_passage_as_it_was(
    status, open_memory, reader, store_location
):
    """What was read is kept aside until its vectors are there too."""

    class Failing(HashEmbedder):
        down = False

        def embed(self, texts, kind):
            if self.down:
                raise PermanentModelError("quota")
            return super().embed(texts, kind)

    first = {("triples", ADA): [PermanentModelError("x") if status == "failed" else cut()]}
    chat, embedder = reader(first), Failing()
    chat.first["triples", ADA] = first["triples", ADA] + [
        '{"triples": [["Ada", "wrote", "notes"], ["Ada", "met", "Bob"]]}'
    ]
    memory = open_memory(chat, embedder, store=store_location)
    memory.add(batch(ADA), on_error="skip")
    embedder.down = True
    with pytest.raises(PermanentModelError, match="quota"):
        memory.add(batch(ADA))
    embedder.down = False
    again = open_memory(chat, HashEmbedder(), store=store_location)
    for one in (memory, again):
        assert one.stats().by_status == {status: 1}
        assert len(one.retrieve("Ada")) == 1
    asked = len(chat.calls)
    again.add(batch(ADA))
    assert len(chat.calls) == asked
    assert again.stats() == memory.stats()
    assert again.stats().triples == 2


def test_an_embedder_of_changing_dimensions_is_refused_before_anything_is_kept(open_memory):
    class Changing(HashEmbedder):
        odd = True

        def embed(self, texts, kind):
            rows = super().embed(texts, kind)
            return rows[:, :10] if self.odd and kind == "phrase" else rows

    embedder = Changing()
    memory = open_memory(embedder=embedder)
    item = (Passage(ADA, id="1"), Extraction(triples=TABLE[ADA]))
    with pytest.raises(PermanentModelError, match="10 dimensions"):
        memory.add_extracted([item])
    assert len(memory) == 0
    embedder.odd = False
    memory.add_extracted([item])
    assert memory.retrieve("Ada").path.used_graph


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_vectors_that_are_not_finite_are_refused(value, open_memory):
    class Odd(HashEmbedder):
        def embed(self, texts, kind):
            rows = super().embed(texts, kind)
            return np.where(kind == "phrase", value, rows)

    memory = open_memory(embedder=Odd())
    with pytest.raises(PermanentModelError, match="finite"):
        memory.add_extracted([(ADA, Extraction(triples=TABLE[ADA]))])
    assert len(memory) == 0


# -- synonymy --------------------------------------------------------------------------------------


class Alike(HashEmbedder):
    """Everything means the same."""

    def embed(self, texts, kind):
        return np.ones((len(texts), 4), dtype=np.float32)


def alike(n):
    return [(f"Text {i}", Extraction(triples=[(f"one {i}", "is", f"two {i}")])) for i in range(n)]


def test_an_embedder_to_which_all_phrases_are_alike_is_refused_before_anything_is_visible(
    open_memory, store_location
):
    config = HippoConfig(synonymy_limit=2.0)
    memory = open_memory(embedder=Alike(), config=config, store=store_location)
    memory.add_extracted(alike(2))  # six pairs of four phrases
    before = memory.stats()
    with pytest.raises(SynonymyError, match=r"synonymy_threshold=0\.8"):
        memory.add_extracted(alike(6))
    assert memory.stats() == before
    assert open_memory(embedder=Alike(), config=config, store=store_location).stats() == before
    assert len(memory.retrieve("one")) == 2


def test_without_synonymy_no_embedder_has_too_many_synonyms(open_memory):
    memory = open_memory(embedder=Alike(), config=HippoConfig(synonymy=False, synonymy_limit=0.1))
    memory.add_extracted(alike(6))
    assert memory.stats().synonymy_edges == 0
    assert memory.retrieve("one").path.used_graph


def test_near_names_are_joined_and_never_merged(open_memory):
    memory = open_memory()
    names = ["John Doe", "John T. Doe", "Jane Doe"]
    memory.add_extracted(
        [(n, Extraction(triples=[(n, "is", f"number {i}")])) for i, n in enumerate(names)]
    )
    graph = memory._index.snapshot().graph
    assert {normal for normal in graph.phrases if "doe" in normal} == {
        "john doe", "john t doe", "jane doe"
    }  # fmt: skip
    joined = {
        (graph.phrases[a], graph.phrases[b])
        for a, b in zip(graph.synonyms.left, graph.synonyms.right, strict=True)
    }
    assert ("john doe", "john t doe") in joined
    assert not any("jane doe" in pair for pair in joined)


# -- concurrency -----------------------------------------------------------------------------------


class Slow(ScriptedChatModel):
    """Takes a while; counts how many calls are in flight."""

    def __init__(self):
        super().__init__([])
        self.now = self.most = 0
        self._counting = threading.Lock()

    def _enter(self, step):
        with self._counting:
            self.now += step
            self.most = max(self.most, self.now)

    def _reply(self, messages):
        asks_entities = "named_entities" in messages[0].content
        return Completion('{"named_entities": []}' if asks_entities else '{"triples": []}')

    def complete(self, messages):
        self._enter(1)
        time.sleep(0.01)
        self._enter(-1)
        return self._reply(messages)

    async def acomplete(self, messages):
        self._enter(1)
        await asyncio.sleep(0.01)
        self._enter(-1)
        return self._reply(messages)


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("on_a_loop", [False, True], ids=["threads", "loop"])
def test_so_many_calls_as_configured_are_in_flight_and_no_more(limit, on_a_loop, open_memory):
    chat = Slow()
    memory = open_memory(chat, config=HippoConfig(concurrency=limit))
    texts = [f"Text {i}." for i in range(12)]
    if on_a_loop:
        asyncio.run(memory.aadd(texts))
    else:
        memory.add(texts)
    assert len(memory) == 12
    assert chat.most == limit


@pytest.mark.parametrize("on_a_loop", [False, True], ids=["threads", "loop"])
def test_calls_of_two_adds_and_many_queries_share_the_limit(
    on_a_loop, open_memory, corpora, at_once
):
    chat = Slow()
    memory = open_memory(chat, config=HippoConfig(concurrency=3))
    memory.add_extracted(corpora.bridge_items())

    batches = [[f"Text {i}." for i in range(8)], [f"Other {i}." for i in range(8)]]

    async def together():
        await asyncio.gather(
            *(memory.aadd(texts) for texts in batches),
            memory.aretrieve_many([corpora.one_query] * 8),
        )

    if on_a_loop:
        asyncio.run(together())
    else:
        ask = partial(memory.retrieve_many, [corpora.one_query] * 8)
        at_once(*(partial(memory.add, texts) for texts in batches), ask)
    assert chat.most == 3


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_adds_at_once_of_overlapping_passages_are_as_one_after_another(
    on_disk, open_memory, reader, store_location
):
    memory = open_memory(reader(), store=store_location if on_disk else None)
    serial = open_memory(reader())
    texts = list(TABLE)

    async def together():
        await asyncio.gather(
            *(memory.aadd(batch(*texts[i % 3 : i % 3 + 2])) for i in range(10)),
            memory.adelete(["nobody"]),
        )

    asyncio.run(together())
    serial.add(batch())
    assert memory.stats() == serial.stats()
    query = "Who wrote notes?"
    assert memory.retrieve(query).passages == serial.retrieve(query).passages


def test_adds_from_threads_are_as_one_after_another(open_memory, reader, at_once):
    memory, serial = open_memory(reader()), open_memory(reader())
    texts = list(TABLE)
    batches = [batch(*texts[i % 3 : i % 3 + 2]) for i in range(6)]
    at_once(*(partial(memory.add, passages) for passages in batches))
    serial.add(batch())
    assert memory.stats() == serial.stats()


def test_a_rate_limit_in_the_middle_is_waited_out(open_memory, reader):
    busy = TransientModelError("429", retry_after=0)
    chat = reader({("triples", text): [busy, busy, busy] for text in (ADA, ROME)})
    report = open_memory(chat).add(batch())
    assert len(report.added) == 4
    assert chat.asked.count(("triples", ADA)) == 4


# -- delete ----------------------------------------------------------------------------------------


def test_delete_tells_what_it_found(open_memory, reader):
    memory = open_memory(reader())
    memory.add(batch())
    report = memory.delete(["Ada", "ghost", "Rome", "Ada"])
    assert (report.deleted, report.not_found) == (("Ada", "Rome"), ("ghost",))
    report = memory.delete(["Ada"])
    assert (report.deleted, report.not_found) == ((), ("Ada",))
    assert memory.delete([]).deleted == ()
    assert sorted(p.id for p in memory) == ["Bob", "It"]


def test_delete_calls_no_model_and_derives_once(open_memory):
    embedder = HashEmbedder()
    memory = open_memory(embedder=embedder)
    memory.add_extracted(
        [
            (Passage(f"T {i}", id=str(i)), Extraction(triples=[(f"a {i}", "is", "b")]))
            for i in range(60)
        ]
    )
    before = len(embedder.calls), memory._index.snapshot().state.version
    memory.delete([str(i) for i in range(50)])
    after = len(embedder.calls), memory._index.snapshot().state.version
    assert after == (before[0], before[1] + 1)
    assert len(memory) == 10


def test_after_a_delete_each_passage_keeps_its_own_vector(open_memory):
    memory = open_memory(config=HippoConfig.dense())
    texts = ["red apple", "green pear", "blue plum", "black fig"]
    memory.add_extracted([(Passage(t, id=t), Extraction()) for t in texts])
    memory.delete(["green pear"])
    memory.add_extracted([(Passage("white grape", id="white grape"), Extraction())])
    for text in ("red apple", "blue plum", "black fig", "white grape"):
        hit = memory.retrieve(text, k=1).passages[0]
        assert hit.passage.text == text
        assert hit.score == pytest.approx(1.0)


def test_everything_can_be_deleted_and_added_again(open_memory, reader):
    memory = open_memory(reader())
    memory.add(batch())
    stats = memory.stats()
    memory.delete([p.id for p in memory])
    assert memory.retrieve("Ada").path == RetrievalPath.EMPTY
    assert len(memory) == 0
    memory.add(batch())
    assert memory.stats() == stats


@pytest.mark.parametrize("ids", ["Ada", [1], [None]])
def test_what_is_no_list_of_ids_is_refused(ids, open_memory, reader):
    memory = open_memory(reader())
    memory.add(batch(ADA))
    with pytest.raises(InputError):
        memory.delete(ids)
    with pytest.raises(InputError):
        memory.get(ids)
    assert len(memory) == 1


@pytest.mark.parametrize(
    ("rendering", "triples"),
    [
        ("words", [("a b", "c", "d"), ("a", "b c", "d"), ("a", "b", "c d")]),
        ("tuple", [("c+", "is", "here"), ("c#", "is", "here"), ("c", "is", "here")]),
    ],
)
def test_triples_that_render_alike_share_a_vector_and_outlive_each_other(
    rendering, triples, open_memory, store_location
):
    config = HippoConfig(triple_rendering=rendering)
    memory = open_memory(config=config, store=store_location)
    for id_, triple in zip("123", triples, strict=True):
        memory.add_extracted([(Passage(id_, id=id_), Extraction(triples=[triple]))])
    memory.delete(["1"])
    memory.add_extracted([(Passage("2", id="2"), Extraction())])
    again = open_memory(config=config, store=store_location)
    for one in (memory, again):
        assert [t.triple for t in one.retrieve("a b c d").triples] == [triples[2]]

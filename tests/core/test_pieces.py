"""A passage that is too long for the model is read in pieces, and stays one passage."""

import json
import re
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hippo_core import (
    Completion,
    ConfigError,
    Extraction,
    HippoConfig,
    IndexingError,
    Passage,
    Prompts,
    Status,
    TokenUsage,
    Triple,
)
from hippo_core.pieces import Pieces, merged, prompt_tokens, shorter
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.tokens import count_tokens

FENCED = re.compile(r"Passage:\n(`{3,})\n(.*?)\n\1", re.DOTALL)
SENTENCE = re.compile(r"(\w+) (knew|met) (\w+)\.")


class TooLong(Exception):
    """What an SDK raises for a prompt that is too long."""

    status_code = 400
    code = "context_length_exceeded"


class SentenceReader(ScriptedChatModel):
    """Reads "A knew B." in the fenced passage; refuses, or cuts, what is asked too long.

    `fails` and `cuts` name texts: a piece that holds one is answered with chatter, or cut short.
    """

    def __init__(self, *, most=None, fails=(), cuts=()):
        self.most, self.fails, self.cuts = most, set(fails), set(cuts)
        self.read: list[str] = []
        self._own = threading.Lock()
        super().__init__(self._answer, "sentences")

    def _answer(self, messages):
        if "keep" in messages[0].content:
            return '{"keep": [1, 2]}'
        if self.most is not None and prompt_tokens(messages) > self.most:
            return TooLong("This model's maximum context length is exceeded")
        text = FENCED.search(messages[3].content)[2]
        with self._own:
            self.read.append(text)
        if any(name in text for name in self.fails):
            return "I would rather not."
        found = [(s, r, o) for s, r, o in SENTENCE.findall(text)]
        if '"triples"' not in messages[0].content:
            return json.dumps({"named_entities": [name for s, _, o in found for name in (s, o)]})
        reply = json.dumps({"triples": found})
        if any(name in text for name in self.cuts):
            return Completion(reply[:-20], TokenUsage(1, 1), finish_reason="length")
        return reply


def people(n, start=0):
    return " ".join(f"P{i} knew P{i + 1}." for i in range(start, start + n))


def triples(n, start=0):
    return {Triple(f"P{i}", "knew", f"P{i + 1}") for i in range(start, start + n)}


ALONE = prompt_tokens(Prompts().triples("", ()))
LIMIT = ALONE + 100 + 3 * 64
LONG = Passage(people(60), id="long", title="People")
SHORT = Passage("Ada met Bob.", id="short")


def config(limit=LIMIT):
    return HippoConfig(context_limit=limit)


# -- what is read ----------------------------------------------------------------------------------


def test_all_of_a_long_passage_is_read_and_it_stays_whole(open_memory):
    chat = SentenceReader()
    memory = open_memory(chat, HashEmbedder(), config=config())
    report = memory.add([LONG, SHORT])
    assert set(report.added) == {"long", "short"}
    assert set(memory.extractions()["long"].triples) == triples(60)
    assert memory.get(["long"]) == [LONG]
    assert len(set(chat.read)) > 3
    assert all(text == SHORT.text or text.startswith("People\nP") for text in chat.read)
    hits = memory.retrieve("Whom did P40 know?", k=1)
    assert [hit.passage for hit in hits] == [LONG]


def test_no_prompt_is_longer_than_the_limit_leaves_room_for(open_memory):
    chat = SentenceReader(most=LIMIT)
    memory = open_memory(chat, HashEmbedder(), config=config())
    memory.add([LONG])
    assert max(prompt_tokens(messages) for messages in chat.calls) < LIMIT


def test_what_fits_is_asked_as_without_a_limit(open_memory):
    asked = []
    for limit in (None, 8_000):
        chat = SentenceReader()
        open_memory(chat, HashEmbedder(), config=config(limit)).add([LONG, SHORT])
        asked.append(sorted(chat.calls))
    assert asked[0] == asked[1]


def test_a_passage_that_the_model_refuses_as_too_long_is_read_in_pieces(open_memory):
    chat = SentenceReader(most=ALONE + 150)
    memory = open_memory(chat, HashEmbedder())
    assert set(memory.add([LONG, SHORT]).added) == {"long", "short"}
    assert set(memory.extractions()["long"].triples) == triples(60)


def test_a_prompt_that_is_refused_without_any_passage_fails_with_the_models_words(open_memory):
    chat = SentenceReader(most=10)
    memory = open_memory(chat, HashEmbedder())
    report = memory.add([Passage(people(1_000), id="long"), SHORT], on_error="skip")
    for reason in report.failed.values():
        assert reason.startswith("TooLong: This model's maximum context length is exceeded")
    assert set(report.failed) == {"long", "short"}
    assert len(chat.calls) < 20  # about log2 of the text, not as many as it has words


async def test_sync_and_async_read_the_same_pieces(open_memory):
    by_thread, by_loop = SentenceReader(), SentenceReader()
    open_memory(by_thread, HashEmbedder(), config=config()).add([LONG])
    await open_memory(by_loop, HashEmbedder(), config=config()).aadd([LONG])
    assert sorted(by_thread.calls) == sorted(by_loop.calls)


def test_an_openie_reads_whole_passages(open_memory):
    openie = TableOpenIE()
    open_memory(None, HashEmbedder(), openie=openie, config=config()).add([LONG])
    assert openie.calls == [LONG.full_text]


def test_a_limit_that_leaves_no_room_is_refused_before_anything_is_read(open_memory):
    chat = SentenceReader()
    memory = open_memory(chat, HashEmbedder(), config=config(ALONE + 50))
    with pytest.raises(ConfigError, match=rf"{ALONE} without any passage; got {ALONE + 50}"):
        memory.add([SHORT])
    assert not chat.calls


# -- what is kept ----------------------------------------------------------------------------------


def test_a_piece_that_cannot_be_read_fails_the_passage_and_is_all_that_is_asked_again(open_memory):
    chat = SentenceReader(fails=["P31 knew"])
    memory = open_memory(chat, HashEmbedder(), config=config())
    with pytest.raises(IndexingError, match=r"part \d of \d+: .*I would rather not") as caught:
        memory.add([LONG])
    assert caught.value.failed.keys() == {"long"}
    (broken,) = {text for text in chat.read if "P31 knew" in text}
    chat.fails.clear()
    chat.read.clear()
    assert memory.estimate([LONG]).usage.chat_calls == 2
    memory.add([LONG])
    assert chat.read == [broken] * 2
    assert set(memory.extractions()["long"].triples) == triples(60)


def test_a_piece_that_was_cut_makes_the_passage_partial_and_is_asked_again(open_memory):
    chat = SentenceReader(cuts=["P31 knew"])
    memory = open_memory(chat, HashEmbedder(), config=config())
    report = memory.add([LONG])
    assert re.match(r"part \d of \d+: .*cut", report.partial["long"])
    assert 50 < len(memory.extractions()["long"].triples) < 60
    assert "it began with" in report.partial["long"]
    (broken,) = {text for text in chat.read if "P31 knew" in text}
    chat.cuts.clear()
    chat.read.clear()
    assert memory.add([LONG]).updated == ("long",)
    assert chat.read == [broken]  # its triples, as its entities were whole
    assert set(memory.extractions()["long"].triples) == triples(60)
    assert memory.forget_pending() == 0


def test_nothing_of_a_piece_is_left_apart(open_memory, tmp_path):
    memory = open_memory(SentenceReader(), HashEmbedder(), store=tmp_path / "m", config=config())
    memory.add([LONG, SHORT])
    assert memory.forget_pending() == 0
    assert memory.verify().ok
    memory.delete(["long"])
    memory.purge()
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert not any(b"P17" in path.read_bytes() for path in files)


@pytest.mark.parametrize("trouble", ["fails", "cuts"])
def test_what_was_read_of_pieces_goes_with_the_passage(open_memory, tmp_path, trouble):
    chat = SentenceReader(**{trouble: ["P31 knew"]})
    memory = open_memory(chat, HashEmbedder(), store=tmp_path / "m", config=config())
    memory.add([LONG, SHORT], on_error="skip")
    assert memory.verify().ok
    memory.delete(["long"])
    memory.purge()
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert not any(b"P17" in path.read_bytes() for path in files)
    assert memory.forget_pending() == 0


def test_pieces_of_an_aborted_call_are_forgotten_with_it(open_memory):
    chat = SentenceReader(fails=["P31 knew"])
    memory = open_memory(chat, HashEmbedder(), config=config())
    with pytest.raises(IndexingError):
        memory.add([LONG])
    assert memory.forget_pending() > 1
    chat.fails.clear()
    chat.read.clear()
    memory.add([LONG])
    assert "P0 knew" in "".join(chat.read)


# -- the parts -------------------------------------------------------------------------------------


@given(st.text(alphabet="aé東. \n,", max_size=400), st.integers(0, 300), st.text(max_size=10))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_pieces_hold_all_that_is_not_blank(text, more, title):
    parts = Pieces(Prompts(), LIMIT + more).of(title, text)
    if len(parts) > 1:
        assert "".join("".join(parts).split()) == "".join(text.split())
    else:
        assert parts == [text] or parts == [text.strip()]


@given(st.text(min_size=1, max_size=300).filter(str.strip))
def test_shorter_pieces_hold_all_that_is_not_blank(text):
    parts = shorter(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) > 1 or len(text.strip()) < len(text) or count_tokens(text) <= 32


EXTRACTIONS = st.builds(
    Extraction,
    entities=st.lists(st.sampled_from("abc"), max_size=3).map(tuple),
    triples=st.lists(st.tuples(*[st.sampled_from("abc")] * 3), max_size=3).map(tuple),
    status=st.sampled_from((Status.OK, Status.PARTIAL)),
    dropped=st.dictionaries(st.sampled_from("xy"), st.integers(1, 3)),
)


@given(st.lists(EXTRACTIONS, min_size=1, max_size=4))
def test_merging_keeps_each_thing_once_and_counts_all_that_was_dropped(parts):
    whole = merged(parts)
    assert set(whole.triples) == {t for part in parts for t in part.triples}
    assert len(set(whole.triples)) == len(whole.triples)
    assert set(whole.entities) == {e for part in parts for e in part.entities}
    assert sum(whole.dropped.values()) == sum(sum(part.dropped.values()) for part in parts)
    is_cut = any(part.status is Status.PARTIAL for part in parts)
    assert (whole.status is Status.PARTIAL) == is_cut


@given(st.lists(EXTRACTIONS, max_size=3))
def test_a_part_that_failed_fails_the_whole(parts):
    failed = Extraction(status=Status.FAILED, reason="gone")
    whole = merged([*parts, failed])
    assert whole.status is Status.FAILED
    assert whole.reason == f"part {len(parts) + 1} of {len(parts) + 1}: gone"
    assert not whole.triples

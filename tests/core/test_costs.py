"""What adding costs: told before, kept within a budget, and paid once."""

import json
import pickle
import time
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hippo_core import (
    Budget,
    BudgetExceededError,
    Completion,
    ConfigError,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    ModelRequiredError,
    Passage,
    PermanentModelError,
    Prices,
    Prompts,
    StageUsage,
    Usage,
)
from hippo_core.extracting import HOPELESS
from hippo_core.pieces import prompt_tokens
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.tokens import counted_by

TEXTS = [
    f"Traveller {n} went from Oldtown {n} to Newport {n} by the night train." for n in range(9)
]
PASSAGES = [Passage(text, id=f"p{n}", title=f"Journey {n}") for n, text in enumerate(TEXTS)]
WHOLE = len(TEXTS) * 2  # calls of the chat model


def read(messages):
    """Answer by the number in the passage, without saying what it cost."""
    n = messages[3].content.partition("Traveller ")[2].partition(" ")[0]
    if '"triples"' in messages[0].content:
        said = [[f"Traveller {n}", "went to", f"Newport {n}"]] * 2
        return Completion(json.dumps({"triples": said}))
    return Completion(json.dumps({"named_entities": [f"Traveller {n}", f"Newport {n}"]}))


@pytest.fixture
def chat():
    return ScriptedChatModel(read, "traveller")


# -- an estimate -----------------------------------------------------------------------------------


def test_an_estimate_asks_nothing_and_changes_nothing(open_memory, chat):
    embedder = HashEmbedder()
    memory = open_memory(chat, embedder)
    before = memory.stats()
    memory.estimate(PASSAGES)
    assert not chat.calls
    assert not embedder.calls
    assert memory.stats() == before
    assert memory.forget_pending() == 0


def test_calls_and_prompts_are_as_they_will_be(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    told = memory.estimate(PASSAGES)
    paid = memory.add(PASSAGES).usage
    assert told.passages == len(PASSAGES)
    for stage in ("entities", "triples"):
        assert told.usage.stages[stage].calls == paid.stages[stage].calls
        assert told.usage.stages[stage].estimated
    entities = told.usage.stages["entities"]
    assert entities.input_tokens == paid.stages["entities"].input_tokens
    assert told.usage.stages["triples"].input_tokens == pytest.approx(
        paid.stages["triples"].input_tokens, rel=0.15
    )
    # The prompt for triples names the entities as well.
    alone = sum(prompt_tokens(Prompts().triples(p.full_text, ())) for p in PASSAGES)
    assert told.usage.stages["triples"].input_tokens > alone + 20 * len(PASSAGES)
    assert told.usage.stages["embedding"].texts >= len(PASSAGES)
    assert told.counted_by == counted_by()


async def test_async_tells_the_same(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    prices = Prices(input=1.0)
    assert await memory.aestimate(PASSAGES, prices=prices) == memory.estimate(
        PASSAGES, prices=prices
    )


def test_what_is_there_costs_nothing(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    memory.add(PASSAGES)
    told = memory.estimate(PASSAGES, prices=Prices(1, 1, 1))
    assert (told.passages, told.usage.calls, told.cost) == (0, 0, 0.0)
    other = [replace(PASSAGES[0], metadata={"seen": True}), Passage("Traveller 77 slept.")]
    told = memory.estimate(other)
    assert (told.passages, told.usage.chat_calls) == (1, 2)


def test_what_an_aborted_call_has_read_is_not_counted_again(open_memory, chat):
    replies = count()
    broken = ScriptedChatModel(lambda m: read(m) if next(replies) < 5 else "no", "traveller")
    config = HippoConfig(concurrency=1)
    memory = open_memory(broken, HashEmbedder(), config=config)
    with pytest.raises(IndexingError):
        memory.add(PASSAGES[:3])
    told = memory.estimate(PASSAGES[:3])
    assert told.passages == 1
    assert "entities" not in told.usage.stages
    assert told.usage.stages["triples"].calls == 1
    broken._replies = read
    assert memory.add(PASSAGES[:3]).usage.chat_calls == 1


def test_texts_that_are_known_are_counted_exactly(open_memory, chat):
    """An embedder that fails leaves all passages read: what is left to embed is known."""

    class Broken(HashEmbedder):
        def embed(self, texts, kind):
            raise ValueError("out of order")

    memory = open_memory(chat, Broken())
    with pytest.raises(Exception, match="out of order"):
        memory.add(PASSAGES)
    told = memory.estimate(PASSAGES).usage.stages["embedding"]
    with_working = memory.estimate(PASSAGES, openie=TableOpenIE())
    assert with_working.usage.chat_calls == 0
    # passages, the two phrases and the one triple of each
    assert told.texts == len(PASSAGES) * 4


def test_rules_read_for_nothing(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    told = memory.estimate(PASSAGES, openie=TableOpenIE())
    assert told.passages == len(PASSAGES)
    assert set(told.usage.stages) == {"embedding"}


def test_a_long_passage_is_counted_by_its_pieces(open_memory, chat):
    long = Passage(" ".join(TEXTS * 8), id="long")
    few = open_memory(chat, HashEmbedder()).estimate([long])
    many = open_memory(chat, HashEmbedder(), config=HippoConfig(context_limit=1_000)).estimate(
        [long]
    )
    assert few.usage.chat_calls == 2
    assert many.usage.chat_calls > 4


def test_nothing_to_read_with_is_told_as_by_add(open_memory):
    memory = open_memory(None, HashEmbedder())
    with pytest.raises(ModelRequiredError, match="9 passages have to be read"):
        memory.estimate(PASSAGES)


def test_prices_are_by_the_million(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    told = memory.estimate(PASSAGES, prices=Prices(input=2.0, output=3.0, embedding=0.5))
    chatted = [told.usage.stages[stage] for stage in ("entities", "triples")]
    expected = 2.0 * sum(u.input_tokens for u in chatted)
    expected += 3.0 * sum(u.output_tokens for u in chatted)
    expected += 0.5 * told.usage.stages["embedding"].input_tokens
    assert told.cost == pytest.approx(expected / 1e6)
    assert memory.estimate(PASSAGES).cost is None


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "2", True])
def test_a_price_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigError, match="price of output"):
        Prices(output=wrong)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_prices_add_up(a, b):
    prices = Prices(1.5, 2.5, 0.25)
    one = Usage({"answer": StageUsage(1, 0, a, b)})
    two = Usage({"embedding": StageUsage(1, 0, b), "answer": StageUsage(1, 0, b, a)})
    assert prices.of(one + two) == pytest.approx(prices.of(one) + prices.of(two))


# -- a budget --------------------------------------------------------------------------------------


def test_a_call_that_ends_with_its_budget_shows_nothing_and_says_how_to_go_on(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    with pytest.raises(BudgetExceededError, match="add the same passages again") as caught:
        memory.add(PASSAGES, budget=Budget(calls=7))
    assert len(memory) == 0
    assert len(chat.calls) == 7
    assert caught.value.budget == Budget(calls=7)
    assert caught.value.usage.calls == 7
    assert "passages are left to read" in str(caught.value)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 9), max_size=4), st.integers(1, 8), st.booleans())
def test_going_on_pays_for_each_thing_once_and_gives_the_same_memory(budgets, concurrency, alone):
    chat, embedder = ScriptedChatModel(read, "traveller"), HashEmbedder()
    config = HippoConfig(concurrency=concurrency, embed_batch_size=4, recognition_memory=False)
    with HippoRAG(chat, embedder, config=config) as memory:
        for calls in budgets:
            before = len(chat.calls) + len(embedder.calls)
            try:
                memory.add(PASSAGES, budget=Budget(calls=calls))
            except BudgetExceededError:
                assert len(chat.calls) + len(embedder.calls) - before == calls
        if alone:
            with pytest.raises(BudgetExceededError):
                memory.add([*PASSAGES, Passage("Traveller 88 sat.")], budget=Budget(tokens=10))
        memory.add(PASSAGES)
        assert len(chat.calls) == WHOLE
        texts = [text for _, batch in embedder.calls for text in batch]
        assert len(texts) == len(set(texts))
        found = [(h.passage.id, h.score) for h in memory.retrieve("Who went to Newport 3?", k=9)]
    with HippoRAG(ScriptedChatModel(read, "t"), HashEmbedder(), config=config) as other:
        other.add(PASSAGES)
        assert found == [
            (h.passage.id, h.score) for h in other.retrieve("Who went to Newport 3?", k=9)
        ]


async def test_async_keeps_the_budget_and_goes_on(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    for calls in (5, 6):
        with pytest.raises(BudgetExceededError):
            await memory.aadd(PASSAGES, budget=Budget(calls=calls))
    assert len(chat.calls) == 11
    await memory.aadd(PASSAGES)
    assert len(chat.calls) == WHOLE


def test_a_budget_may_end_while_texts_are_embedded(open_memory, chat):
    embedder = HashEmbedder()
    memory = open_memory(chat, embedder, config=HippoConfig(embed_batch_size=4))
    with pytest.raises(BudgetExceededError, match="All passages are read"):
        memory.add(PASSAGES, budget=Budget(calls=WHOLE + 3))
    assert len(embedder.calls) == 3
    assert len(memory) == 0
    memory.add(PASSAGES)
    assert len(chat.calls) == WHOLE
    texts = [text for _, batch in embedder.calls for text in batch]
    assert len(texts) == len(set(texts))


def test_what_ran_when_the_budget_ended_is_in_the_errors_usage(open_memory, chat):
    class OneAfterAnother(HashEmbedder):
        def embed(self, texts, kind):
            if kind != "passage":
                time.sleep(0.1)
            return super().embed(texts, kind)

    embedder = OneAfterAnother()
    memory = open_memory(chat, embedder)
    with pytest.raises(BudgetExceededError) as caught:
        memory.add(PASSAGES, budget=Budget(calls=WHOLE + 2))
    assert caught.value.usage.calls == len(chat.calls) + len(embedder.calls) == WHOLE + 2


def test_tokens_are_a_budget_too(open_memory, chat):
    memory = open_memory(chat, HashEmbedder(), config=HippoConfig(concurrency=1))
    one = memory.estimate(PASSAGES[:1]).usage.stages["entities"].input_tokens
    with pytest.raises(BudgetExceededError) as caught:
        memory.add(PASSAGES, budget=Budget(tokens=3 * one))
    assert 1 <= len(chat.calls) <= 3
    assert caught.value.usage.tokens <= 3 * one + 100


def test_rules_go_on_where_the_budget_ended(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    with pytest.raises(BudgetExceededError):
        memory.add(PASSAGES, budget=Budget(calls=8))
    table = {
        p.full_text: Extraction(triples=[(f"Traveller {n}", "went to", f"Newport {n}")])
        for n, p in enumerate(PASSAGES)
    }
    memory.add(PASSAGES, openie=TableOpenIE(table))
    assert len(chat.calls) == 8
    by = memory.stats().by_extractor
    assert sum(by.values()) == len(PASSAGES)
    assert len(by) == 2 or by == {"table": len(PASSAGES)}


def test_reading_again_has_a_budget_of_its_own(open_memory, chat):
    memory = open_memory(chat, HashEmbedder())
    memory.add(PASSAGES, openie=TableOpenIE())
    with pytest.raises(BudgetExceededError):
        memory.reextract(budget=Budget(calls=5))
    assert memory.stats().by_extractor == {"table": len(PASSAGES)}
    memory.reextract()
    assert len(chat.calls) == WHOLE
    assert "table" not in memory.stats().by_extractor


def test_passages_in_pieces_keep_the_budget(open_memory):
    long = Passage(" ".join(TEXTS * 4), id="long")
    chat = ScriptedChatModel(read, "traveller")
    memory = open_memory(chat, HashEmbedder(), config=HippoConfig(context_limit=1_000))
    with pytest.raises(BudgetExceededError):
        memory.add([long], budget=Budget(calls=3))
    assert len(chat.calls) == 3
    calls = memory.estimate([long]).usage.chat_calls
    chat.calls.clear()
    memory.add([long])
    assert len(chat.calls) == calls


# -- what is no use is not paid for ----------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"budget": 5}, {"budget": {"calls": 5}}, {"progress": True}, {"progress": "bar"}]
)
async def test_what_is_no_budget_or_callback_is_refused_before_a_call(open_memory, chat, wrong):
    memory = open_memory(chat, HashEmbedder())
    with pytest.raises(TypeError, match=next(iter(wrong))):
        memory.add(PASSAGES, **wrong)
    with pytest.raises(TypeError, match=next(iter(wrong))):
        await memory.aadd(PASSAGES, **wrong)
    with pytest.raises(TypeError, match="prices"):
        memory.estimate(PASSAGES, prices={"input": 1})
    assert not chat.calls


class WrongKey(Exception):
    """What an SDK raises for a key that it does not know."""

    status_code = 401


MANY = [Passage(f"Traveller {n} slept.", id=f"m{n}") for n in range(60)]


@pytest.mark.parametrize("how", ["threads", "loop"])
async def test_a_failure_that_all_passages_share_is_not_paid_for_by_each(open_memory, how):
    broken = ScriptedChatModel(lambda _: WrongKey("401: wrong key"))
    memory = open_memory(broken, HashEmbedder(), config=HippoConfig(concurrency=2))
    if how == "loop":
        report = await memory.aadd(MANY, on_error="skip")
    else:
        report = memory.add(MANY, on_error="skip")
    assert len(report.failed) == len(MANY)
    assert all("401: wrong key" in reason for reason in report.failed.values())
    assert HOPELESS <= len(broken.calls) <= HOPELESS + 2


def test_failures_of_single_passages_stop_nobody(open_memory):
    def reply(messages):
        n = int(messages[3].content.partition("Traveller ")[2].partition(" ")[0])
        if n >= 48:
            return read(messages)
        return PermanentModelError("refused by the content filter")

    chat = ScriptedChatModel(reply)
    memory = open_memory(chat, HashEmbedder(), config=HippoConfig(concurrency=1))
    report = memory.add(MANY, on_error="skip")
    assert len(report.failed) == 48
    assert len(report.added) == 12


def test_an_error_tells_what_was_spent(open_memory):
    memory = open_memory(ScriptedChatModel(lambda _: "no"), HashEmbedder())
    with pytest.raises(IndexingError) as caught:
        memory.add(PASSAGES[:2])
    assert caught.value.usage.chat_calls == 4
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.failed, again.usage) == (caught.value.failed, caught.value.usage)

"""A budget is kept: exactly in calls, and in tokens up to the replies that are under way."""

import asyncio
import pickle
import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import (
    Budget,
    BudgetExceededError,
    Completion,
    ConfigError,
    Message,
    PermanentModelError,
    StageUsage,
    TokenUsage,
    TransientModelError,
    Usage,
)
from hippo_core.accounts import Account, Ticket
from hippo_core.drivers import Driver
from hippo_core.flows import Complete, Each, Embed, Extract, Meter, Metered, Models
from hippo_core.limiter import Limiter
from hippo_core.retries import Patience
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.tokens import count_tokens

BUSY = TransientModelError("busy", retry_after=0)
PROMPT = "Ada wrote notes on the engine."
DRIVERS = ["threads", "loop"]


def priced(input_tokens=10, output_tokens=5, **more):
    usage = TokenUsage(input_tokens, output_tokens)
    return ScriptedChatModel(lambda _: Completion("fine", usage, **more))


def run(flow, budget, chat, how, *, limit=8, patience=None):
    """Run a flow; give what it returned and its meter."""
    meter = Meter(budget)
    models = Models(HashEmbedder(), chat, TableOpenIE())
    driver = Driver(models, Limiter(limit, patience), meter)
    returned = driver.run(flow) if how == "threads" else asyncio.run(driver.arun(flow))
    return returned, meter


def ask(prompt=PROMPT):
    return (yield Complete([Message("user", prompt)], "answer"))


def in_turn(n, of=ask):
    """Ask n times, and give how often it was allowed."""
    for done in range(n):
        try:
            yield from of()
        except BudgetExceededError:
            return done
    return n


def guarded():
    try:
        yield from ask()
    except BudgetExceededError as error:
        return error


def at_once(n):
    return (yield Each([guarded() for _ in range(n)]))


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DRIVERS)
@pytest.mark.parametrize("calls", [0, 1, 5, 20, 21])
def test_as_many_calls_are_made_as_the_budget_allows(calls, how):
    chat = priced()
    errors, meter = run(at_once(20), Budget(calls=calls), chat, how)
    made = min(calls, 20)
    assert len(chat.calls) == meter.usage.calls == made
    assert errors.count(None) == made
    for error in filter(None, errors):
        assert error.budget == Budget(calls=calls)
        assert error.usage.calls <= calls
        assert "Budget(calls=...)" in str(error)


@given(
    n=st.integers(0, 12),
    calls=st.none() | st.integers(0, 12),
    limit=st.integers(1, 8),
    how=st.sampled_from(DRIVERS),
    embeds=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_no_interleaving_goes_over_the_budget(n, calls, limit, how, embeds):
    def part(embed):
        try:
            yield Embed(["Ada"], "phrase") if embed else Complete([Message("user", "x")], "answer")
        except BudgetExceededError:
            return False
        return True

    def flow():
        return (yield Each([part(embed) for embed in embeds[:n]]))

    made, meter = run(flow(), Budget(calls=calls), priced(), how, limit=limit)
    assert sum(made) == meter.usage.calls == (n if calls is None else min(n, calls))


@given(
    budget=st.builds(Budget, st.none() | st.integers(0, 4), st.none() | st.integers(0, 40)),
    steps=st.lists(
        st.tuples(st.sampled_from("take settle release".split()), st.integers(0, 15)), max_size=40
    ),
)
def test_what_is_spent_and_reserved_never_goes_over_the_budget(budget, steps):
    account, counted, taken, late = Account(budget), Meter(), [], 0
    for step, number in steps:
        if step == "take":
            try:
                taken.append((Ticket([account], number, counted.add), number))
            except BudgetExceededError:
                pass
        elif taken:
            ticket, reserved = taken.pop(number % len(taken))
            if step == "settle":
                ticket.settle("answer", StageUsage(calls=1, input_tokens=reserved, output_tokens=1))
                late += 1
            ticket.release()  # once more changes nothing
        if budget.calls is not None:
            assert counted.usage.calls + len(taken) <= budget.calls
        if budget.tokens is not None:  # the replies are what it may be passed by
            reserved = sum(tokens for _, tokens in taken)
            assert counted.usage.input_tokens + reserved <= budget.tokens + late


def test_threads_take_from_one_account_exactly(at_once):
    account, meter, refused = Account(Budget(calls=50)), Meter(), Counter()

    def use():
        for _ in range(40):
            try:
                ticket = Ticket([account], 1, meter.add)
            except BudgetExceededError:
                refused["times"] += 1
            else:
                ticket.settle("answer", StageUsage(calls=1))

    at_once(*[use] * 8)
    assert meter.usage.calls == 50


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DRIVERS)
def test_a_prompt_that_does_not_fit_is_not_sent(how):
    chat = priced()
    tokens = count_tokens(PROMPT)
    assert run(in_turn(1), Budget(tokens=tokens - 1), chat, how)[0] == 0
    assert not chat.calls
    assert run(in_turn(1), Budget(tokens=tokens), chat, how)[0] == 1


@pytest.mark.parametrize("how", DRIVERS)
def test_tokens_are_passed_by_the_replies_under_way_only(how):
    prompt = count_tokens(PROMPT)
    chat = priced(prompt, 5)
    allowed, meter = run(in_turn(9), Budget(tokens=3 * (prompt + 5)), chat, how)
    assert allowed == 3
    assert meter.usage.tokens == 3 * (prompt + 5)
    allowed, meter = run(in_turn(9), Budget(tokens=2 * (prompt + 5) + prompt), chat, how)
    assert (allowed, meter.usage.tokens) == (3, 3 * (prompt + 5))


@pytest.mark.parametrize("how", DRIVERS)
def test_prompts_of_calls_that_run_are_reserved(how):
    prompt = count_tokens(PROMPT)
    everyone = threading.Barrier(4)

    class Slow(ScriptedChatModel):
        def complete(self, messages):
            everyone.wait(20)
            return super().complete(messages)

        async def acomplete(self, messages):
            await asyncio.to_thread(everyone.wait, 20)
            return super().complete(messages)

    chat = Slow(lambda _: Completion("fine", TokenUsage(prompt, 0)))
    errors, _ = run(at_once(8), Budget(tokens=4 * prompt + prompt - 1), chat, how)
    assert len(chat.calls) == errors.count(None) == 4


@pytest.mark.parametrize("how", DRIVERS)
def test_a_cached_reply_counts_as_a_call_and_costs_no_tokens(how):
    tokens = count_tokens(PROMPT)
    chat = priced(100, 100, cached=True)
    allowed, meter = run(in_turn(9), Budget(calls=6, tokens=tokens), chat, how)
    assert (allowed, meter.usage.tokens, meter.usage.calls) == (6, 0, 6)


@pytest.mark.parametrize("how", DRIVERS)
def test_embedding_counts_too(how):
    def embed():
        return (yield Embed(["Ada wrote notes."] * 3, "passage"))

    each = 3 * count_tokens("Ada wrote notes.")
    allowed, meter = run(in_turn(5, embed), Budget(tokens=2 * each), None, how)
    assert (allowed, meter.usage.tokens) == (2, 2 * each)
    assert meter.usage.stages["embedding"].estimated


# -- what counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DRIVERS)
def test_a_call_counts_once_however_often_it_is_tried(how):
    replies = [BUSY, BUSY, "fine", BUSY, "fine"]
    chat = ScriptedChatModel(lambda _: replies.pop(0))
    allowed, meter = run(in_turn(3), Budget(calls=2), chat, how)
    assert (allowed, meter.usage.calls, len(chat.calls)) == (2, 2, 5)


@pytest.mark.parametrize("how", DRIVERS)
def test_a_call_that_fails_does_not_count(how):
    replies = [PermanentModelError("401"), "fine"]

    def flow():
        with pytest.raises(PermanentModelError):
            yield from ask()
        return (yield from in_turn(2))

    allowed, meter = run(flow(), Budget(calls=1), ScriptedChatModel(lambda _: replies.pop(0)), how)
    assert (allowed, meter.usage.calls) == (1, 1)


@pytest.mark.parametrize("how", DRIVERS)
def test_local_parts_cost_nothing(how):
    def read():
        return (yield Extract("Ada"))

    assert run(in_turn(3, read), Budget(calls=0, tokens=0), None, how)[0] == 3


@pytest.mark.parametrize("how", DRIVERS)
def test_what_is_counted_apart_is_within_the_budget_around_it(how):
    apart = [Meter(), Meter(Budget(calls=2))]

    def flow():
        yield from ask()
        inner = yield Each([whole(meter) for meter in apart])
        return inner, (yield from in_turn(9))

    def whole(meter):
        return (yield Metered(in_turn(2 if meter is apart[0] else 9), meter))

    (inner, after), meter = run(flow(), Budget(calls=6), priced(), how, limit=1)
    assert (inner, after) == ([2, 2], 1)
    assert [m.usage.calls for m in apart] == [2, 2]
    assert meter.usage.calls == 2  # what was not counted apart


@pytest.mark.parametrize("how", DRIVERS)
def test_calls_that_run_when_the_budget_is_spent_end_and_are_counted(how):
    refused = threading.Event()

    class Slow(ScriptedChatModel):
        def complete(self, messages):
            assert refused.wait(20)
            return super().complete(messages)

        async def acomplete(self, messages):
            return await asyncio.to_thread(self.complete, messages)

    def other():
        try:
            yield from ask()
        finally:
            refused.set()

    def flow():
        try:
            yield Each([ask(), ask(), other()])
        except BudgetExceededError as error:
            return error

    error, meter = run(flow(), Budget(calls=2), Slow(lambda _: "fine"), how)
    assert isinstance(error, BudgetExceededError)
    assert meter.usage.calls == 2


def test_a_late_call_may_still_be_paid_for_and_keeps_its_place_until_it_ends():
    end = threading.Event()
    replies = [RuntimeError("500"), "fine"]

    class Stuck(ScriptedChatModel):
        def complete(self, messages):
            assert end.wait(20)
            return super().complete(messages)

    patience = Patience(call_timeout=0.05, sleep=lambda _: None)
    models = Models(HashEmbedder(), Stuck(lambda _: replies.pop(0)))
    driver = Driver(models, Limiter(8, patience), Meter(Budget(calls=1)))
    try:
        with pytest.raises(BudgetExceededError, match="1 still run"):
            driver.run(ask())
    finally:
        end.set()
    for _ in range(1000):  # until it has failed, and so does not count
        if driver.run(in_turn(1)):
            break
        time.sleep(0.02)
    assert replies == []


# -- the values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["calls", "tokens"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "5", float("nan")])
def test_a_budget_is_a_whole_number_or_none(name, value):
    with pytest.raises(ConfigError, match=name):
        Budget(**{name: value})


def test_the_error_can_be_sent_to_another_process():
    error = BudgetExceededError(
        "spent", Budget(calls=5), Usage({"answer": StageUsage(calls=5, input_tokens=7)})
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.budget, copy.usage) == ("spent", error.budget, error.usage)


def test_a_usage_tells_its_totals():
    usage = Usage(
        {
            "answer": StageUsage(calls=2, input_tokens=3, output_tokens=4),
            "embedding": StageUsage(calls=1, input_tokens=5, texts=9),
        }
    )
    totals = (usage.calls, usage.chat_calls, usage.input_tokens, usage.output_tokens, usage.tokens)
    assert totals == (3, 2, 8, 4, 12)
    assert Usage().tokens == Usage().calls == 0
    assert all(type(total) is int for total in totals)

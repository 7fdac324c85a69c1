"""The two drivers: one body, run by threads or by an event loop, with the same result."""

import asyncio
import contextvars
import time
from types import SimpleNamespace

import numpy as np
import pytest

from hippo_core import (
    Completion,
    Extraction,
    HippoConfig,
    HippoError,
    HippoRAG,
    InputError,
    Message,
    ModelError,
    ModelRequiredError,
    ParseError,
    Passage,
    PermanentModelError,
    RateLimitedError,
    StageUsage,
    Status,
    TokenUsage,
    TransientModelError,
    Triple,
)
from hippo_core.drivers import Driver
from hippo_core.flows import (
    Choose,
    Complete,
    Each,
    Embed,
    Extract,
    Meter,
    Metered,
    Models,
    NameEntities,
)
from hippo_core.limiter import Limiter
from hippo_core.sdk_errors import as_model_error
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

ASK = Complete([Message("user", "Hello?")], "answer")


def driver(limit=8, **models):
    return Driver(Models(**{"embedder": HashEmbedder(), **models}), Limiter(limit), Meter())


def run_both(flow, make=driver):
    """Run a flow with each driver; give both results, or raise the one error of both."""
    results = []
    for run in (lambda d: d.run(flow()), lambda d: asyncio.run(d.arun(flow()))):
        try:
            results.append((run(make()), None))
        except (HippoError, TypeError, ZeroDivisionError) as error:
            results.append((None, error))
    (one, error), (other, other_error) = results
    assert (type(error), str(error)) == (type(other_error), str(other_error))
    if error is not None:
        raise error
    return one, other


class Judge:
    def choose(self, query, candidates):
        return [len(candidates) - 1]


# -- both the same ---------------------------------------------------------------------------------


def test_both_drivers_answer_every_request_alike():
    reading = Extraction(triples=[("a", "is", "b")])

    def part(n):
        rows = yield Embed([f"text {n}"], "phrase")
        inner = yield Each([leaf(n, m) for m in range(3)])
        return rows[0].tolist(), inner

    def leaf(n, m):
        reply = yield Complete([Message("user", f"{n} {m}")], "triples")
        return reply.text

    def flow():
        return [
            (yield ASK),
            (yield Extract("passage")),
            (yield NameEntities("query")),
            (yield Choose("query", [Triple("a", "b", "c")] * 3)),
            (yield Each([part(n) for n in range(5)])),
            (yield Each([])),
        ]

    def make():
        return driver(
            chat=ScriptedChatModel(lambda messages: messages[-1].content.upper()),
            openie=TableOpenIE({"passage": reading}, {"query": ["a"]}),
            recognition=Judge(),
        )

    one, other = run_both(flow, make)
    assert one == other
    completion, extraction, names, chosen, parts, nothing = one
    assert completion.text == "HELLO?"
    assert (extraction, names, chosen, nothing) == (reading, ("a",), (2,), [])
    assert [inner for _, inner in parts] == [[f"{n} {m}" for m in range(3)] for n in range(5)]


def test_a_flow_without_requests_just_returns():
    def flow():
        return 5
        yield

    assert run_both(flow) == (5, 5)


def test_our_errors_are_thrown_into_the_flow_which_may_go_on():
    def flow():
        caught = []
        for request in (ASK, Extract("x"), Choose("q", []), Embed(["a"], "phrase")):
            try:
                yield request
            except (ModelError, ModelRequiredError) as error:
                caught.append(type(error).__name__)
        return caught

    class Down(HashEmbedder):
        def embed(self, texts, kind):
            raise RuntimeError("down")

    one, other = run_both(flow, lambda: driver(embedder=Down()))
    assert one == other == ["ModelRequiredError"] * 3 + ["PermanentModelError"]


def test_an_error_of_a_part_is_thrown_into_the_flow_that_asked_for_the_parts():
    def bad(n):
        if n == 2:
            raise InputError(f"part {n}")
        return (yield Embed(["a"], "phrase"))

    def flow():
        try:
            yield Each([bad(n) for n in range(4)])
        except InputError as error:
            return str(error)

    assert run_both(flow) == ("part 2", "part 2")


@pytest.mark.parametrize("limit", [1, 8])
def test_a_foreign_error_of_a_flow_surfaces(limit):
    def bad():
        yield Embed(["a"], "phrase")
        raise ZeroDivisionError("a bug")

    def flow():
        return (yield Each([bad(), bad()]))

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run_both(flow, lambda: driver(limit))


@pytest.mark.parametrize("on_a_loop", [False, True], ids=["threads", "loop"])
def test_the_sdks_own_error_stays_the_cause(on_a_loop):
    def ask():
        return (yield ASK)

    def flow():
        return (yield Each([ask(), ask()]))

    def down(_messages):
        raise OSError("no route")

    run = driver(chat=ScriptedChatModel(down))
    with pytest.raises(PermanentModelError) as caught:
        asyncio.run(run.arun(flow())) if on_a_loop else run.run(flow())
    assert isinstance(caught.value.__cause__, OSError)


def test_a_flow_is_closed_when_its_run_ends_early():
    closed = []

    def flow():
        try:
            yield Extract("x")
        finally:
            closed.append(True)

    class Wrong(TableOpenIE):
        def extract(self, text):
            return "no extraction"

    with pytest.raises(TypeError) as caught:  # which holds the frames
        driver(openie=Wrong()).run(flow())
    assert closed == [True], caught


def test_costs_can_be_counted_apart():
    apart = Meter()

    def flow():
        yield ASK
        yield Metered(inner(), apart)

    def inner():
        yield ASK
        yield Each([leaf() for _ in range(3)])

    def leaf():
        yield ASK

    for run in (lambda d: d.run(flow()), lambda d: asyncio.run(d.arun(flow()))):
        whole = driver(chat=ScriptedChatModel(lambda _: Completion("x", TokenUsage(2, 1))))
        before = apart.usage.chat_calls
        run(whole)
        assert whole._meter.usage.chat_calls == 1
        assert apart.usage.chat_calls == before + 4


def test_counting_from_many_threads_loses_nothing(at_once):
    meter = Meter()
    one = StageUsage(calls=1, input_tokens=3)
    at_once(*[lambda: [meter.add("answer", one) for _ in range(300)]] * 4)
    assert meter.usage.stages["answer"] == StageUsage(calls=1200, input_tokens=3600)


# -- context ---------------------------------------------------------------------------------------

TENANT = contextvars.ContextVar("tenant", default="nobody")


class Watching(HashEmbedder):
    """Notes the tenant of every call."""

    def __init__(self):
        super().__init__()
        self.tenants = []

    def embed(self, texts, kind):
        self.tenants.append(TENANT.get())
        return super().embed(texts, kind)


@pytest.mark.parametrize("on_a_loop", [False, True], ids=["threads", "loop"])
def test_context_variables_reach_every_call(on_a_loop):
    class Reading(TableOpenIE):
        def extract(self, text):
            read.append(TENANT.get())
            return super().extract(text)

    read, embedder = [], Watching()
    token = TENANT.set("acme")
    try:
        with HippoRAG(None, embedder, openie=Reading()) as memory:
            texts = [f"Text {i}" for i in range(6)]
            if on_a_loop:

                async def use():
                    await memory.aadd(texts)
                    await memory.aretrieve_many(["q"] * 3)

                asyncio.run(use())
            else:
                memory.add(texts)
                memory.retrieve_many(["q"] * 3)
    finally:
        TENANT.reset(token)
    assert read == ["acme"] * 6
    assert set(embedder.tenants) == {"acme"}


# -- retries ---------------------------------------------------------------------------------------


def failing(*errors):
    """A chat model that raises these in turn, then answers."""
    replies = [*errors, "fine"]
    return ScriptedChatModel(lambda _: replies.pop(0))


def ask():
    return (yield ASK)


def both(chat_of):
    for run in (lambda d: d.run(ask()), lambda d: asyncio.run(d.arun(ask()))):
        chat = chat_of()
        yield (lambda run=run, chat=chat: run(driver(chat=chat))), chat


BUSY = TransientModelError("busy", retry_after=0)


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_a_transient_failure_is_tried_again(times):
    for run, chat in both(lambda: failing(*[BUSY] * times)):
        assert run().text == "fine"
        assert len(chat.calls) == times + 1


def test_after_four_tries_it_is_over():
    for run, chat in both(lambda: failing(*[BUSY] * 9)):
        with pytest.raises(TransientModelError, match="busy"):
            run()
        assert len(chat.calls) == 4


@pytest.mark.parametrize(
    "error", [PermanentModelError("401"), ValueError("bad"), ParseError("x", "y"), KeyError("k")]
)
def test_what_is_not_transient_is_tried_once(error):
    for run, chat in both(lambda: failing(error)):
        with pytest.raises((ModelError, ParseError)):
            run()
        assert len(chat.calls) == 1


class HTTPError(Exception):
    def __init__(self, status, headers=None):
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


def test_the_servers_wait_is_honoured():
    for run, chat in both(lambda: failing(HTTPError(429, {"retry-after": "0.2"}))):
        started = time.perf_counter()
        assert run().text == "fine"
        assert time.perf_counter() - started >= 0.2
        assert len(chat.calls) == 2


@pytest.mark.parametrize("asked", [-5, 0, 0.0])
def test_a_wait_that_is_over_is_no_wait(asked):
    for run, _ in both(lambda: failing(TransientModelError("busy", retry_after=asked))):
        started = time.perf_counter()
        assert run().text == "fine"
        assert time.perf_counter() - started < 5


def test_who_waits_holds_no_place():
    """One call waits for the server; with one place, another call runs meanwhile."""
    order = []

    def reply(messages):
        order.append(messages[0].content)
        if order.count("slow") == 1 and messages[0].content == "slow":
            return TransientModelError("busy", retry_after=0.5)
        return "fine"

    def say(word):
        return (yield Complete([Message("user", word)], "answer"))

    chat = ScriptedChatModel(reply)
    models, limiter = Models(HashEmbedder(), chat), Limiter(1)

    async def together():
        await asyncio.gather(
            *(Driver(models, limiter, Meter()).arun(say(w)) for w in ("slow", "quick"))
        )

    asyncio.run(together())
    assert order == ["slow", "quick", "slow"]


# -- conversion of an SDK's errors -----------------------------------------------------------------


class APITimeoutError(Exception):
    pass


class RateLimitError(Exception):
    pass


class APIConnectionError(Exception):
    pass


class ServiceUnavailable(Exception):
    pass


class AuthenticationError(Exception):
    pass


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_may_pass_is_transient(status):
    for error in (HTTPError(status), only_response(status)):
        assert isinstance(as_model_error(error), TransientModelError)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_status_that_stays_is_permanent(status):
    for error in (HTTPError(status), only_response(status)):
        assert isinstance(as_model_error(error), PermanentModelError)


def only_response(status):
    error = Exception("x")
    error.response = SimpleNamespace(status_code=status, headers={})
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("x"), TransientModelError),
        (ConnectionResetError("x"), TransientModelError),
        (APITimeoutError("x"), TransientModelError),
        (RateLimitError("x"), RateLimitedError),
        (APIConnectionError("x"), TransientModelError),
        (ServiceUnavailable("x"), TransientModelError),
        (AuthenticationError("x"), PermanentModelError),
        (ValueError("x"), PermanentModelError),
        (FileNotFoundError("x"), PermanentModelError),
        (StopIteration("x"), PermanentModelError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_without_a_status_the_type_decides(error, kind):
    converted = as_model_error(error)
    assert type(converted) is kind
    assert str(converted) == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
        (None, None),
        (5, None),
    ],
)
def test_the_wait_is_read_from_the_header(headers, seconds):
    error = HTTPError(429)
    error.response.headers = headers
    assert as_model_error(error).retry_after == seconds


# -- what ports return -----------------------------------------------------------------------------


def fixed(**methods):
    """An object whose methods return the same, whatever they are given."""
    made = SimpleNamespace(fingerprint="fixed")
    for name, value in methods.items():
        setattr(made, name, lambda *_args, value=value: value)

        async def twin(*_args, value=value):
            return value

        setattr(made, f"a{name}", twin)
    return made


@pytest.mark.parametrize(
    ("request_", "models"),
    [
        *((ASK, {"chat": fixed(complete=bad)}) for bad in (None, "text", {"text": "x"})),
        (ASK, {"chat": fixed(complete=Completion(None))}),
        (ASK, {"chat": fixed(complete=Completion("x", usage={"input_tokens": 1}))}),
        *(
            (Embed(["a"], "phrase"), {"embedder": fixed(embed=bad)})
            for bad in (None, "x", [["a"]], [{}])
        ),
        *((Extract("x"), {"openie": fixed(extract=bad)}) for bad in (None, [("a", "b", "c")])),
        *(
            (NameEntities("x"), {"openie": fixed(query_entities=bad)})
            for bad in (None, "Ada", 5, [1], [None], {"a": 1})
        ),
        *(
            (Choose("x", []), {"recognition": fixed(choose=bad)})
            for bad in (None, 1, "1", ["1"], [1.5], [None], [True], {0: 1})
        ),
    ],
)  # fmt: skip
def test_a_port_that_returns_something_else_is_a_type_error(request_, models):
    def flow():
        return (yield request_)

    with pytest.raises(TypeError, match="must"):
        run_both(flow, lambda: driver(**models))


@pytest.mark.parametrize("rows", [[], [[1.0]], [[1.0], [2.0], [3.0]], [1.0, 2.0], [[], []], 5.0])
def test_rows_that_do_not_fit_the_texts_are_a_failure_of_the_embedder(rows):
    def flow():
        return (yield Embed(["a", "b"], "phrase"))

    with pytest.raises(PermanentModelError, match="one row per text"):
        run_both(flow, lambda: driver(embedder=fixed(embed=rows)))


@pytest.mark.parametrize("rows", [[[3, 4], [1, 0]], ((3.0, 4.0), (1.0, 0.0)), np.eye(2, dtype=int)])
def test_rows_may_be_lists_tuples_or_any_numbers(rows):
    def flow():
        return (yield Embed(["a", "b"], "phrase"))

    one, _ = run_both(flow, lambda: driver(embedder=fixed(embed=rows)))
    assert one.dtype == np.float32
    assert one.shape == (2, 2)


def test_positions_may_be_numpy_integers():
    def flow():
        return (yield Choose("q", []))

    assert run_both(flow, lambda: driver(recognition=fixed(choose=np.array([2, 0])))) == (
        (2, 0), (2, 0)
    )  # fmt: skip


def test_a_wrong_answer_surfaces_from_the_memory_and_nothing_is_shown():
    for chat in (fixed(complete="text"), fixed(complete=None)):
        with HippoRAG(chat, HashEmbedder()) as memory:
            with pytest.raises(TypeError, match="Completion"):
                memory.add(["Ada."], on_error="skip")
            with pytest.raises(TypeError, match="Completion"):
                asyncio.run(memory.aadd(["Ada."], on_error="skip"))
            assert len(memory) == 0


@pytest.mark.parametrize(
    "ports",
    [
        {"chat_model": "gpt-4"},
        {"chat_model": object()},
        {"embedder": "MiniLM"},
        {"embedder": object()},
        {"embedder": fixed(embed=1), "openie": object()},
        {
            "embedder": fixed(embed=1),
            "openie": SimpleNamespace(extract=print, query_entities=print),
        },
        {"embedder": fixed(embed=1), "recognition": object()},
    ],
    ids=range(7),
)
def test_what_is_no_port_is_refused_at_once(ports):
    with pytest.raises(TypeError, match="must have"):
        HippoRAG(**{"chat_model": None, "embedder": HashEmbedder(), **ports})


# -- event loops -----------------------------------------------------------------------------------


@pytest.fixture
def memory(corpora):
    with HippoRAG(ScriptedChatModel(lambda _: '{"keep": [1]}'), HashEmbedder()) as memory:
        memory.add_extracted(corpora.bridge_items())
        yield memory


async def test_sync_calls_work_inside_a_running_loop(memory, corpora):
    memory.add_extracted([(Passage("New.", id="new"), Extraction())])
    one = memory.retrieve(corpora.one_query)
    two = await memory.aretrieve(corpora.one_query)
    assert one.passages == two.passages
    assert [h.passages for h in memory.retrieve_many([corpora.one_query] * 2)] == [one.passages] * 2
    memory.delete(["new"])


def test_one_handle_serves_one_loop_after_another(memory, corpora):
    async def use():
        found = await memory.aretrieve_many([corpora.one_query] * 20)
        return [[hit.passage.id for hit in each] for each in found]

    results = [asyncio.run(use()) for _ in range(3)]
    assert results[0] == results[1] == results[2]


def test_two_loops_at_once_share_one_handle(memory, corpora, at_once):
    async def use():
        await memory.aadd_extracted([(Passage("Same.", id="same"), Extraction())])
        return len(await memory.aretrieve_many([corpora.one_query] * 10))

    assert at_once(*[lambda: asyncio.run(use())] * 3) == [10] * 3
    assert "same" in memory


def test_the_loop_goes_on_while_a_slow_part_works():
    """An extractor has no async twin: it is called in a thread."""

    class SlowOpenIE(TableOpenIE):
        def extract(self, text):
            time.sleep(0.8)
            return Extraction(triples=[("Ada", "wrote", text)])

    async def use(memory):
        await memory.aadd([f"Text {i}" for i in range(2)])
        await memory.aretrieve("Ada")

    with HippoRAG(None, HashEmbedder(), openie=SlowOpenIE()) as memory:
        assert longest_stall(use(memory)) < 0.4  # one read on the loop would be 0.8


def test_the_loop_goes_on_while_a_flow_computes():
    def flow():
        for _ in range(2):
            time.sleep(0.8)
            yield Embed(["a"], "phrase")

    assert longest_stall(driver().arun(flow())) < 0.4


def longest_stall(work):
    """Run a coroutine beside one that beats every 10 ms; give the longest time between beats."""
    gaps = []

    async def beat():
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.01)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def both():
        heart = asyncio.create_task(beat())
        await work
        heart.cancel()

    asyncio.run(both())
    assert len(gaps) >= 10
    return max(gaps)


class Stalling(ScriptedChatModel):
    """Answers some prompts at once, and others not before it is told to."""

    def __init__(self, stalls):
        super().__init__(lambda messages: '{"named_entities": ["Ada"], "triples": []}')
        self.stalls, self.go = stalls, None

    async def acomplete(self, messages):
        if self.stalls in messages[3].content:
            await self.go.wait()
        return await super().acomplete(messages)


def test_a_cancelled_add_shows_nothing_and_keeps_what_was_read():
    chat = Stalling("Text 3")

    async def cancelled(memory):
        chat.go = asyncio.Event()
        task = asyncio.create_task(memory.aadd([f"Text {i}" for i in range(4)]))
        while len(chat.calls) < 6:  # three texts are read
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with HippoRAG(chat, HashEmbedder()) as memory:
        asyncio.run(cancelled(memory))
        assert len(memory) == 0
        read = len(chat.calls)
        chat.stalls = "nothing"
        assert len(memory.add([f"Text {i}" for i in range(4)]).added) == 4
        assert len(chat.calls) == read + 2
        assert memory.stats().by_status == {"empty": 4}


@pytest.mark.parametrize("wait", [0.0, 0.01, 0.03, 0.1])
def test_an_add_cancelled_at_any_time_is_whole_or_not_there(wait, store_location):
    texts = [f"Text {i}" for i in range(6)]
    openie = TableOpenIE({t: Extraction(triples=[("Ada", "wrote", t)]) for t in texts})

    async def cancelled(memory):
        task = asyncio.create_task(memory.aadd(texts))
        await asyncio.sleep(wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with HippoRAG(None, HashEmbedder(), openie=openie, store=store_location) as memory:
        asyncio.run(cancelled(memory))
        assert len(memory) in (0, 6)
        assert len(memory.add(texts).ids) == 6
        assert memory.stats().by_status == {"ok": 6}
        assert memory.stats().triples == 6


def test_a_timeout_around_an_add_leaves_the_memory_usable(corpora):
    chat = Stalling("Text")

    async def use(memory):
        chat.go = asyncio.Event()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await memory.aadd(["Text"])
        return await memory.aretrieve(corpora.one_query)

    with HippoRAG(chat, HashEmbedder(), config=HippoConfig(recognition_memory=False)) as memory:
        memory.add_extracted(corpora.bridge_items())
        assert len(asyncio.run(use(memory))) == 5
        assert memory.stats().by_status == {Status.OK.value: 7}


@pytest.mark.parametrize("where", ["status_code", "status", "code"])
def test_a_status_is_found_where_sdks_keep_it(where):
    error = RuntimeError("slow down")
    setattr(error, where, 429)
    assert isinstance(as_model_error(error), TransientModelError)


def test_a_status_is_found_in_a_response_that_is_a_dict():
    error = RuntimeError("slow down")
    error.response = {"ResponseMetadata": {"HTTPStatusCode": 429}}
    assert isinstance(as_model_error(error), TransientModelError)


async def test_a_local_part_that_is_at_an_iterators_end_has_failed_and_holds_nobody_up():
    class Ending:
        def choose(self, query, candidates):
            return next(iter(()))

    def flow():
        return (yield Choose("Who?", []))

    with pytest.raises(PermanentModelError, match="StopIteration"):
        driver(recognition=Ending()).run(flow())
    with pytest.raises(PermanentModelError, match="StopIteration"):
        await asyncio.wait_for(driver(recognition=Ending()).arun(flow()), 10)


async def test_a_model_that_cancels_its_own_call_has_failed():
    class Cancelling(ScriptedChatModel):
        def complete(self, messages):
            raise asyncio.CancelledError

        async def acomplete(self, messages):
            raise asyncio.CancelledError

    def flow():
        return (yield Each([ask(), ask()]))

    with pytest.raises(PermanentModelError, match="cancelled"):
        await driver(chat=Cancelling([])).arun(flow())
    with pytest.raises(PermanentModelError, match="cancelled"):
        driver(chat=Cancelling([])).run(flow())


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "GET https://api.example/v1?key=AIza123&x=1 failed",
            "GET https://api.example/v1?... failed",
        ),
        ("at postgresql://ada:secret@host/db", "at postgresql://...@host/db"),
        ("at redis://:sec:ret@host", "at redis://...@host"),
        ("Authorization: Bearer abcdef1234567", "Authorization: Bearer ..."),
        ("Incorrect API key: sk-proj-abc_123456789.", "Incorrect API key: sk-...."),
        ("no such model: gpt-9", "no such model: gpt-9"),
        ("see https://example.org/docs", "see https://example.org/docs"),
    ],
)
def test_what_looks_like_a_key_is_left_out_of_an_error(said, kept):
    assert str(as_model_error(RuntimeError(said))) == f"RuntimeError: {kept}"

"""A call is tried again only where that may help, after the wait that the server asks for."""

import asyncio
import email.message
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import (
    ContextTooLongError,
    HippoConfig,
    HippoRAG,
    Message,
    ModelError,
    PermanentModelError,
    RateLimitedError,
    TransientModelError,
)
from hippo_core.drivers import Driver
from hippo_core.flows import Complete, Extract, Meter, Models
from hippo_core.limiter import Limiter
from hippo_core.retries import Patience, as_ours, wait_after
from hippo_core.sdk_errors import as_model_error
from hippo_core.testing import HashEmbedder, ScriptedChatModel

DRIVERS = ["threads", "loop"]


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds):
        self.sleep(seconds)
        await asyncio.sleep(0)

    def limiter(self, limit=8, tries=4):
        return Limiter(limit, Patience(tries, None, 1.0, self.sleep, self.asleep, lambda: self.now))


class SlowClock(Clock):
    """Lets others run before the time passes."""

    def sleep(self, seconds):
        time.sleep(0.1)
        super().sleep(seconds)

    async def asleep(self, seconds):
        await asyncio.sleep(0.1)
        Clock.sleep(self, seconds)


class SDKError(Exception):
    """An error as SDKs raise it."""

    def __init__(self, status=None, said="", /, headers=None, **attributes):
        super().__init__(said or f"HTTP {status}")
        if status is not None:
            self.status_code = status
        self.response = SimpleNamespace(headers=headers)
        for name, value in attributes.items():
            setattr(self, name, value)


def failing(*errors):
    """A chat model that raises these in turn, then answers."""
    replies = list(errors)
    return ScriptedChatModel(lambda _: replies.pop(0) if replies else "fine")


def ask():
    return (yield Complete([Message("user", "Hello?")], "answer"))


def run(chat, limiter, how, flow=ask):
    driver = Driver(Models(HashEmbedder(), chat), limiter, Meter())
    return driver.run(flow()) if how == "threads" else asyncio.run(driver.arun(flow()))


# -- how often, how long ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", DRIVERS)
@pytest.mark.parametrize("tries", [1, 2, 10])
@pytest.mark.parametrize("error", [SDKError(503), SDKError(429), TimeoutError(), ConnectionError()])
def test_a_call_is_tried_so_often(error, tries, how):
    chat, clock = failing(*[error] * 20), Clock()
    with pytest.raises(TransientModelError):
        run(chat, clock.limiter(tries=tries), how)
    assert len(chat.calls) == tries
    assert len([seconds for seconds in clock.slept if seconds > 0]) in (tries - 1, tries - 2)


@pytest.mark.parametrize("how", DRIVERS)
def test_a_rate_limit_waits_for_the_minute_to_pass_and_a_broken_connection_does_not(how):
    total = {}
    for error in (SDKError(429), ConnectionError("reset")):
        clock = Clock()
        with pytest.raises(TransientModelError):
            run(failing(*[error] * 4), clock.limiter(), how)
        total[type(error)] = sum(clock.slept)
    assert 30 <= total[SDKError] <= 60
    assert total[ConnectionError] <= 4


@given(st.integers(1, 10), st.sampled_from([RateLimitedError, TransientModelError]))
def test_no_wait_is_longer_than_a_minute_and_a_quarter(tries, kind):
    assert 0 <= wait_after(kind("busy"), tries) <= 75


@pytest.mark.parametrize("how", DRIVERS)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("seconds", [0.25, 7, 120])
def test_the_servers_wait_is_kept_to(seconds, status, how):
    clock, error = Clock(), SDKError(status, headers={"Retry-After": str(seconds)})
    chat = failing(error, error)
    assert run(chat, clock.limiter(), how).text == "fine"
    assert [s for s in clock.slept if s] == [seconds] * 2


@pytest.mark.parametrize("how", DRIVERS)
@pytest.mark.parametrize(
    "error",
    [
        SDKError(429, headers={"retry-after": "3600"}),
        SDKError(503, headers={"retry-after": "3600"}),
        RateLimitedError("busy", retry_after=3600),
        TransientModelError("busy", retry_after=3600.0),
    ],
)
def test_a_wait_that_is_too_long_is_told_at_once(error, how):
    chat, clock = failing(error), Clock()
    with pytest.raises(TransientModelError, match="asks to wait 3600 seconds") as caught:
        run(chat, clock.limiter(), how)
    assert (len(chat.calls), clock.slept, caught.value.retry_after) == (1, [], 3600)
    limited = isinstance(error, RateLimitedError) or getattr(error, "status_code", 0) == 429
    assert isinstance(caught.value, RateLimitedError) == limited


@pytest.mark.parametrize("asked", [float("nan"), "5", True, None])
def test_a_port_that_asks_for_no_number_of_seconds_is_waited_for_as_usual(asked):
    assert 0 <= wait_after(TransientModelError("busy", retry_after=asked), 1) <= 0.5


def test_a_memory_tries_as_often_as_it_is_told():
    chat = failing(*[TransientModelError("busy", retry_after=0)] * 9)
    with HippoRAG(chat, HashEmbedder(), config=HippoConfig(tries=2)) as memory:
        memory.add(["Ada."], on_error="skip")
    assert len(chat.calls) == 2


# -- one pause for all -----------------------------------------------------------------------------


@pytest.mark.parametrize("first", DRIVERS)
@pytest.mark.parametrize("then", DRIVERS)
@pytest.mark.parametrize("asked", [30, None])
def test_after_a_rate_limit_no_call_of_the_handle_begins_before_the_wait_is_over(
    first, then, asked
):
    clock = Clock()
    limiter = clock.limiter(tries=1)
    headers = None if asked is None else {"Retry-After": asked}
    with pytest.raises(RateLimitedError):
        run(failing(SDKError(429, headers=headers)), limiter, first)
    assert clock.slept == []
    assert run(failing(), limiter, then).text == "fine"
    assert sum(clock.slept) == pytest.approx(30) if asked else sum(clock.slept) > 4
    waited = list(clock.slept)
    assert run(failing(), limiter, then).text == "fine"
    assert clock.slept == waited  # and then it is over


@pytest.mark.parametrize("how", DRIVERS)
def test_another_failure_makes_no_other_call_wait(how):
    clock = Clock()
    limiter = clock.limiter(tries=1)
    with pytest.raises(TransientModelError):
        run(failing(SDKError(503, headers={"retry-after": "30"})), limiter, how)
    run(failing(), limiter, how)
    assert clock.slept == []


def test_the_longest_wait_counts():
    clock = Clock()
    limiter = clock.limiter()
    for seconds in (5, 30, 10):
        limiter.pause(seconds)
    assert limiter.left() == 30
    clock.now += 29
    limiter.pause(0.5)
    assert limiter.left() == 1
    clock.now += 1
    assert limiter.left() == 0


@pytest.mark.parametrize("how", DRIVERS)
def test_who_waits_for_a_place_when_a_rate_limit_is_met_waits_for_that_too(how):
    clock = SlowClock()
    limiter = clock.limiter(limit=1)
    refused = [SDKError(429, headers={"retry-after": "30"})]
    times, inside = [], threading.Event()

    class Chat(ScriptedChatModel):
        def complete(self, messages):
            times.append(clock.now)
            if refused:
                inside.set()
                time.sleep(0.2)  # so that the other one waits for the place
                raise refused.pop()
            return super().complete(messages)

        async def acomplete(self, messages):
            return await asyncio.to_thread(self.complete, messages)

    driver = Driver(Models(HashEmbedder(), Chat(lambda _: "fine")), limiter, Meter())
    if how == "threads":
        other = threading.Thread(target=lambda: inside.wait(20) and driver.run(ask()))
        other.start()
        driver.run(ask())
        other.join()
    else:

        async def both():
            await asyncio.gather(driver.arun(ask()), driver.arun(ask()))

        asyncio.run(both())
    assert times[0] == 1000
    assert len(times) == 3
    assert min(times[1:]) >= 1030


@pytest.mark.parametrize("how", DRIVERS)
def test_a_local_part_that_asks_a_server_is_tried_again_too(how):
    class Served:
        fingerprint = "served"
        replies = [ConnectionError("reset")]

        def extract(self, text):
            if self.replies:
                raise self.replies.pop()
            return None

        def query_entities(self, query):
            return []

    def flow():
        return (yield Extract("Ada"))

    driver = Driver(Models(HashEmbedder(), openie=Served()), Clock().limiter(), Meter())
    with pytest.raises(TypeError, match="Extraction"):  # by the second try
        driver.run(flow()) if how == "threads" else asyncio.run(driver.arun(flow()))


# -- what cannot change ----------------------------------------------------------------------------

TOO_LONG = [
    SDKError(400, code="context_length_exceeded"),
    SDKError(400, body={"error": {"code": "context_length_exceeded"}}),
    SDKError(400, body={"type": "exceed_context_size_error"}),
    *(
        SDKError(400, said)
        for said in (
            "This model's maximum context length is 8192 tokens. However, you requested 9000",
            "the request exceeds the available context size, try increasing it",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "ValidationException: Input is too long for requested model.",
            "too many tokens: the prompt cannot exceed 4081",
            "The input token count (40000) exceeds the maximum number of tokens allowed",
            "Your input exceeds the context window of this model.",
            "the input length exceeds the context length",
            "Please reduce the length of the messages or completion.",
            "`inputs` must have less than 1024 tokens. Given: 1068",
        )
    ),
    SDKError(413, "prompt too long; exceeded max context length by 5 tokens"),
    SDKError(413, "Request too large for model", body={"error": {"code": "rate_limit_exceeded"}}),
    SDKError(429, "Request too large for gpt-9 on tokens per min (TPM): Limit 10, Requested 20"),
    SDKError(500, "the request exceeds the available context size"),
    ValueError("Requested tokens (5000) exceed context window of 4096"),
    type("ContextWindowExceededError", (Exception,), {})("no"),
]
PERMANENT = [
    *(SDKError(status) for status in (400, 401, 402, 403, 404, 413, 422)),
    SDKError(429, code="insufficient_quota", headers={"retry-after": "1"}),
    SDKError(429, "Error code: 429 - {'error': {'type': 'insufficient_quota'}}"),
    SDKError(429, body={"error": {"type": "insufficient_quota"}}),
    SDKError(400, "filtered by the content policy", code="content_filter"),
    SDKError(404, "no model of a maximum context length"),
]


@pytest.mark.parametrize("how", DRIVERS)
@pytest.mark.parametrize("error", TOO_LONG + PERMANENT, ids=str)
def test_what_cannot_change_is_tried_once(error, how):
    chat, clock = failing(error), Clock()
    with pytest.raises(PermanentModelError) as caught:
        run(chat, clock.limiter(), how)
    assert (len(chat.calls), clock.slept) == (1, [])
    assert isinstance(caught.value, ContextTooLongError) == (error in TOO_LONG)


@pytest.mark.parametrize(
    "error",
    [
        SDKError(429),
        SDKError("429"),
        SDKError(429, "Too many tokens, please wait before trying again."),
        SDKError(429, "You exceeded your current quota"),  # Gemini's, of a minute
        SDKError(400, code="ThrottlingException"),
        SDKError(None, "slow down", status="RESOURCE_EXHAUSTED"),
        type("ThrottledError", (Exception,), {})("slow down"),
        type("TooManyRequests", (Exception,), {})("slow down"),
        type("OwnError", (type("RateLimitError", (Exception,), {}),), {})("slow down"),
    ],
    ids=str,
)
def test_a_rate_limit_is_known_by_status_code_or_name(error):
    assert type(as_model_error(error)) is RateLimitedError


def test_a_throttled_call_of_botocore_is_a_rate_limit():
    error = RuntimeError("Too many tokens")
    error.response = {
        "Error": {"Code": "ThrottlingException"},
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "4"}},
    }
    assert as_model_error(error).retry_after == 4
    assert type(as_model_error(error)) is RateLimitedError


# -- the wait that a server asks for ---------------------------------------------------------------


def plain(headers):
    return headers


def of_httpx(headers):
    return pytest.importorskip("httpx").Headers(headers)


def of_urllib(headers):
    message = email.message.Message()
    for name, value in headers.items():
        message[name] = value
    return message


@pytest.mark.parametrize("make", [plain, of_httpx, of_urllib])
@pytest.mark.parametrize("name", ["retry-after", "Retry-After", "RETRY-AFTER"])
def test_the_wait_is_found_in_headers_of_any_make_and_spelling(name, make):
    assert as_model_error(SDKError(429, headers=make({name: "12"}))).retry_after == 12
    error = SDKError(503)
    error.headers = make({name: "12"})
    assert as_model_error(error).retry_after == 12


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": 9}, 9.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": b"9"}, None),
        ({"retry-after": True}, None),
        ({5: "9"}, None),
        ([("retry-after", "9")], None),
    ],
)
def test_a_wait_is_a_number_of_seconds(headers, seconds):
    assert as_model_error(SDKError(429, headers=headers)).retry_after == seconds


@pytest.mark.parametrize(("ahead", "seconds"), [(60, 60), (-60, 0)])
def test_a_wait_may_be_a_date(ahead, seconds):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    found = as_model_error(SDKError(429, headers={"Retry-After": date})).retry_after
    assert found == pytest.approx(seconds, abs=20)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Please retry in 12.5s.", 12.5),
        ("Please try again in 1m30s.", 90),
        ("Please try again in 7m12.552s.", 432.552),
        ("Please try again in 250ms.", 0.25),
        ("Please retry after 26 seconds.", 26),
        ("try again in 2 minutes", 120),
        ("try again in 1h", 3600),
        ("429 RESOURCE_EXHAUSTED {'@type': 'x/RetryInfo', 'retryDelay': '34s'}", 34),
        (json.dumps({"retryDelay": "34.07s"}), 34.07),
        ("Please retry in a while", None),
        ("retry in 5 days", None),
        ("retry after 500 milliseconds", None),
    ],
)
def test_a_wait_may_be_in_the_message(said, seconds):
    assert as_model_error(SDKError(429, said)).retry_after == seconds


def test_a_wait_may_be_an_attribute():
    assert as_model_error(SDKError(429, retry_after=3)).retry_after == 3
    assert as_model_error(SDKError(429, retry_after="3.5")).retry_after == 3.5
    assert as_model_error(SDKError(429, retry_after=object())).retry_after is None


# -- whatever an SDK raises ------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.none(), st.text(max_size=30), st.integers(), st.floats(), st.booleans(), st.binary()
)


@given(
    status=st.one_of(ANYTHING, st.sampled_from([400, 413, 429, 500])),
    said=st.text(),
    headers=st.one_of(
        ANYTHING, st.dictionaries(st.sampled_from(["retry-after", "Retry-After-Ms"]), ANYTHING)
    ),
    body=st.one_of(ANYTHING, st.dictionaries(st.sampled_from(["error", "code", "type"]), ANYTHING)),
    attribute=ANYTHING,
)
def test_any_error_becomes_one_of_ours_without_its_secrets(status, said, headers, body, attribute):
    error = SDKError(None, f"{said} Bearer abcdef1234567 {said}", headers=headers, code=attribute)
    error.status_code, error.body, error.retry_after = status, body, attribute
    ours = as_ours(error)
    assert isinstance(ours, ModelError)
    assert "abcdef1234567" not in str(ours)
    asked = getattr(ours, "retry_after", None)
    assert asked is None or 0 <= asked < float("inf")


class UnreadableError(Exception):
    """What raises once more when it is looked at."""

    def __str__(self):
        raise ValueError("no text")


class RequestlessError(Exception):
    @property
    def response(self):
        raise RuntimeError("the response was not kept")


@pytest.mark.parametrize("error", [UnreadableError(), RequestlessError("broken")])
def test_an_error_that_cannot_be_looked_at_becomes_one_of_ours_too(error):
    assert type(as_ours(error)) is PermanentModelError
    assert type(error).__name__ in str(as_ours(error))


@pytest.mark.parametrize("status", [401, 429, 503, 400])
@pytest.mark.parametrize("wait", ["1", "3600"])
def test_a_key_is_left_out_of_every_kind_of_error(status, wait):
    said = "key sk-abcdefgh12345: maximum context length"
    ours = as_ours(SDKError(status, said, headers={"retry-after": wait}))
    assert "sk-..." in str(ours)
    assert "abcdefgh" not in str(ours)


@pytest.mark.parametrize("said", ["://" + "a:" * 50_000, "http://" * 20_000, "retry in 1m" * 9_000])
def test_a_long_message_takes_no_long_look(said):
    begun = time.perf_counter()
    as_model_error(SDKError(429, said))
    assert time.perf_counter() - begun < 5  # quadratic time is minutes

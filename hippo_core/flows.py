"""Flows: plain generators that yield what they need from a model, and the two drivers that run them.

An algorithm is written once, as a generator. It yields a request, is sent the answer (or has a `HippoError`
thrown in), and returns its result. `Driver.run` answers from threads, `Driver.arun` on an event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import (
    HippoError,
    ModelError,
    ModelRequiredError,
    PermanentModelError,
    TransientModelError,
)
from hippo_core.ports import ChatModel, Embedder, OpenIE, RecognitionMemory
from hippo_core.types import (
    Completion,
    Extraction,
    Kind,
    Message,
    Stage,
    StageUsage,
    TokenUsage,
    Triple,
    Usage,
)

T = TypeVar("T")

TRIES = 4
CHARACTERS_PER_TOKEN = 4  # the rule for usage that a model does not report
_LONGEST_WAIT = 60.0  # seconds


class Meter:
    """Counts what the calls of one operation cost, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def add(self, stage: Stage, usage: StageUsage) -> None:
        """Add one call."""
        with self._lock:
            self._usage += Usage({stage: usage})

    @property
    def usage(self) -> Usage:
        """What was counted so far."""
        return self._usage


@dataclass(frozen=True, slots=True)
class Complete:
    """Answer this prompt; gives a `Completion`."""

    messages: Sequence[Message]
    stage: Stage


@dataclass(frozen=True, slots=True)
class Embed:
    """Embed these texts in one call; gives float32 (n, d), rows as the embedder made them."""

    texts: Sequence[str]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Extract:
    """Read this passage with the given OpenIE; gives an `Extraction`."""

    text: str


@dataclass(frozen=True, slots=True)
class NameEntities:
    """Name the query's entities with the given OpenIE; gives a tuple of str."""

    query: str


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose among linked triples with the given recognition memory; gives positions."""

    query: str
    candidates: Sequence[Triple]


@dataclass(frozen=True, slots=True)
class Each:
    """Run these flows, several at once; gives their results in order."""

    flows: Iterable[Generator[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Metered:
    """Run this flow with its costs counted apart; gives its result."""

    flow: Generator[Any, Any, Any]
    meter: Meter


Request = Complete | Embed | Extract | NameEntities | Choose | Each | Metered
Flow = Generator[Request, Any, T]


@dataclass(frozen=True, slots=True)
class Models:
    """The user's models."""

    embedder: Embedder
    chat: ChatModel | None = None
    openie: OpenIE | None = None
    recognition: RecognitionMemory | None = None

    @property
    def can_extract(self) -> bool:
        """Whether passages can be read."""
        return self.chat is not None or self.openie is not None

    @property
    def can_recognise(self) -> bool:
        """Whether there is a judge of linked triples."""
        return self.chat is not None or self.recognition is not None


class Limiter:
    """At most `limit` model calls in flight: one semaphore for threads, one per event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.threads = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    def loop(self) -> asyncio.Semaphore:
        """Give the running loop's semaphore."""
        running = asyncio.get_running_loop()
        with self._lock:
            return self._loops.setdefault(running, asyncio.Semaphore(self.limit))


class _Step(NamedTuple):
    done: bool
    value: Any


class Driver:
    """Runs flows with the user's models, counting into a meter."""

    def __init__(self, models: Models, limiter: Limiter, meter: Meter) -> None:
        self._models = models
        self._limiter = limiter
        self._meter = meter

    # -- threads ------------------------------------------------------------------------------

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end in this thread, its parts in others."""
        answer: Any = None
        failure: HippoError | None = None
        try:
            while True:
                step = _step(flow, answer, failure)
                if step.done:
                    return step.value  # type: ignore[no-any-return]
                answer, failure = None, None
                try:
                    answer = self._perform(step.value)
                except HippoError as error:
                    failure = error
        finally:
            flow.close()

    def _perform(self, request: Request) -> Any:
        if isinstance(request, Each):
            return self._run_each(request.flows)
        if isinstance(request, Metered):
            return self._counting_into(request.meter).run(request.flow)
        for attempt in _retrying("Retrying"):
            with attempt, self._limiter.threads:
                started = time.perf_counter()
                try:
                    reply = _call(self._models, request)
                except HippoError:
                    raise
                except Exception as error:  # the port: whatever the user's SDK raises
                    raise as_model_error(error) from error
        return self._accept(request, reply, time.perf_counter() - started)

    def _run_each(self, flows: Iterable[Flow[Any]]) -> list[Any]:
        pending = list(enumerate(flows))
        results: list[Any] = [None] * len(pending)
        if len(pending) <= 1 or self._limiter.limit == 1:
            for position, flow in pending:
                results[position] = self.run(flow)
            return results
        pending.reverse()
        errors: list[BaseException] = []
        context = contextvars.copy_context()

        def work() -> None:
            while pending and not errors:
                try:
                    position, flow = pending.pop()
                except IndexError:  # another worker took the last one
                    return
                try:
                    results[position] = context.copy().run(self.run, flow)
                except BaseException as error:  # handed to the calling thread below
                    errors.append(error)

        workers = [
            threading.Thread(target=work, name="hippo-call", daemon=True)
            for _ in range(min(self._limiter.limit, len(pending)))
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            pending.clear()  # after an interrupt: start nothing more
        if errors:
            raise errors[0]
        return results

    # -- event loop ---------------------------------------------------------------------------

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow to its end on the running loop; the flow's own work is done in threads."""
        answer: Any = None
        failure: HippoError | None = None
        while True:
            step = await asyncio.to_thread(_step, flow, answer, failure)
            if step.done:
                return step.value  # type: ignore[no-any-return]
            answer, failure = None, None
            try:
                answer = await self._aperform(step.value)
            except HippoError as error:
                failure = error

    async def _aperform(self, request: Request) -> Any:
        if isinstance(request, Each):
            return await self._arun_each(request.flows)
        if isinstance(request, Metered):
            return await self._counting_into(request.meter).arun(request.flow)
        async for attempt in _retrying("AsyncRetrying"):
            with attempt:
                async with self._limiter.loop():
                    started = time.perf_counter()
                    try:
                        reply = await _acall(self._models, request)
                    except HippoError:
                        raise
                    except Exception as error:  # the port: whatever the user's SDK raises
                        raise as_model_error(error) from error
        return self._accept(request, reply, time.perf_counter() - started)

    async def _arun_each(self, flows: Iterable[Flow[Any]]) -> list[Any]:
        pending = list(enumerate(flows))
        results: list[Any] = [None] * len(pending)
        workers = min(self._limiter.limit, len(pending))
        pending.reverse()

        async def work() -> None:
            while pending:
                position, flow = pending.pop()
                results[position] = await self.arun(flow)

        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
        except BaseExceptionGroup as failures:  # the first failure cancelled the others
            failure = failures.exceptions[0]
        if failure is not None:
            raise failure
        return results

    # -- both ---------------------------------------------------------------------------------

    def _counting_into(self, meter: Meter) -> Driver:
        return Driver(self._models, self._limiter, meter)

    def _accept(self, request: Request, reply: Any, seconds: float) -> Any:
        """Check what a port gave back, and count it."""
        if isinstance(request, Complete):
            completion = _checked_completion(reply)
            self._meter.add(request.stage, _completion_usage(request, completion, seconds))
            return completion
        if isinstance(request, Embed):
            rows = _checked_rows(reply, len(request.texts))
            self._meter.add(
                "embedding", StageUsage(calls=1, texts=len(request.texts), seconds=seconds)
            )
            return rows
        if isinstance(request, Extract) and not isinstance(reply, Extraction):
            raise TypeError(f"OpenIE.extract must return an Extraction, got {type(reply).__name__}")
        if isinstance(request, NameEntities):
            return _checked_list(reply, str, "OpenIE.query_entities must return a list of str")
        if isinstance(request, Choose):
            return _checked_list(reply, Integral, "RecognitionMemory.choose must return positions")
        return reply


def _step(flow: Flow[Any], answer: Any, failure: HippoError | None) -> _Step:
    try:
        return _Step(False, flow.throw(failure) if failure else flow.send(answer))
    except StopIteration as stop:
        return _Step(True, stop.value)


def _call(models: Models, request: Request) -> Any:
    match request:
        case Complete(messages, _):
            return _required(models.chat, "a chat model").complete(messages)
        case Embed(texts, kind):
            return models.embedder.embed(texts, kind)
        case Extract(text):
            return _required(models.openie, "an OpenIE").extract(text)
        case NameEntities(query):
            return _required(models.openie, "an OpenIE").query_entities(query)
        case Choose(query, candidates):
            return _required(models.recognition, "a recognition memory").choose(query, candidates)
    raise TypeError(f"unknown request {type(request).__name__}")


def _acall(models: Models, request: Request) -> Awaitable[Any]:
    match request:
        case Complete(messages, _):
            return _required(models.chat, "a chat model").acomplete(messages)
        case Embed(texts, kind):
            return models.embedder.aembed(texts, kind)
    return asyncio.to_thread(_call, models, request)  # local parts have no async twin


def _required(part: T | None, name: str) -> T:
    if part is None:
        raise ModelRequiredError(f"this needs {name}, and none was given")
    return part


def _checked_completion(reply: Any) -> Completion:
    if not isinstance(reply, Completion):
        raise TypeError(f"ChatModel.complete must return a Completion, got {type(reply).__name__}")
    if not isinstance(reply.text, str):
        raise TypeError(f"a Completion's text must be a str, got {type(reply.text).__name__}")
    if not isinstance(reply.usage, TokenUsage | None):
        raise TypeError(f"a Completion's usage must be TokenUsage, got {reply.usage!r}")
    return reply


def _checked_rows(reply: Any, texts: int) -> NDArray[np.float32]:
    if reply is None:
        raise TypeError("Embedder.embed must return rows of numbers, got None")
    try:
        rows = np.asarray(reply, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Embedder.embed must return rows of numbers: {error}") from error
    if rows.ndim != 2 or len(rows) != texts or not rows.shape[1]:
        raise PermanentModelError(
            f"the embedder must return one row per text: {texts} texts, got shape {rows.shape}"
        )
    return rows


def _checked_list(reply: Any, kind: type, claim: str) -> tuple[Any, ...]:
    if isinstance(reply, str | Mapping) or not isinstance(reply, Iterable):
        raise TypeError(f"{claim}, got {type(reply).__name__}")
    items = tuple(reply)
    for item in items:
        if not isinstance(item, kind) or isinstance(item, bool):
            raise TypeError(f"{claim}, got a {type(item).__name__} in it")
    return items


def _completion_usage(request: Complete, completion: Completion, seconds: float) -> StageUsage:
    tokens = completion.usage or estimate_tokens(
        sum(len(m.content) for m in request.messages), len(completion.text)
    )
    paid = not completion.cached
    return StageUsage(
        calls=1,
        cached=int(completion.cached),
        input_tokens=tokens.input_tokens if paid else 0,
        output_tokens=tokens.output_tokens if paid else 0,
        seconds=seconds,
        estimated=tokens.estimated and paid,
    )


def estimate_tokens(input_characters: int, output_characters: int) -> TokenUsage:
    """Estimate tokens by the rule of four characters a token, rounded up.

    >>> estimate_tokens(10, 3)
    TokenUsage(input_tokens=3, output_tokens=1, estimated=True)
    """
    return TokenUsage(
        -(-input_characters // CHARACTERS_PER_TOKEN),
        -(-output_characters // CHARACTERS_PER_TOKEN),
        estimated=True,
    )


def as_model_error(error: Exception) -> ModelError:
    """Convert an SDK's exception by its status code, its Retry-After header or its type."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    message = f"{type(error).__name__}: {error}"
    if isinstance(status, int):
        transient = status in (408, 409, 425, 429) or status >= 500
    else:
        name = type(error).__name__.lower()
        transient = isinstance(error, TimeoutError | ConnectionError) or any(
            word in name for word in ("timeout", "ratelimit", "connection", "unavailable")
        )
    if transient:
        return TransientModelError(message, _retry_after(getattr(response, "headers", None)))
    return PermanentModelError(message)


def _retry_after(headers: Any) -> float | None:
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, TypeError, ValueError):  # no headers, no such header, or an HTTP date
        return None
    return seconds if seconds >= 0 else None


def _retrying(kind: str) -> Any:
    """Give tenacity's loop over tries: only transient failures, waiting as the server asks."""
    import tenacity

    backoff = tenacity.wait_random_exponential(multiplier=0.5, max=20)

    def wait(state: Any) -> float:
        asked = getattr(state.outcome.exception(), "retry_after", None)
        return float(backoff(state)) if asked is None else min(max(asked, 0.0), _LONGEST_WAIT)

    make: Callable[..., Any] = getattr(tenacity, kind)
    return make(
        stop=tenacity.stop_after_attempt(TRIES),
        wait=wait,
        retry=tenacity.retry_if_exception_type(TransientModelError),
        reraise=True,
    )

"""One call of a port: made, converted, retried, checked and counted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hippo_core.errors import (
    ModelError,
    ModelRequiredError,
    PermanentModelError,
    TransientModelError,
)
from hippo_core.flows import Choose, Complete, Embed, Extract, Meter, Models, NameEntities, Request
from hippo_core.types import Completion, Extraction, StageUsage, TokenUsage

T = TypeVar("T")

TRIES = 4
CHARACTERS_PER_TOKEN = 4  # the rule for usage that a model does not report
_LONGEST_WAIT = 60.0  # seconds


def call(models: Models, request: Request) -> Any:
    """Make the call that a request asks for."""
    match request:
        case Complete(messages, _):
            return _required(models.chat, "a chat model").complete(messages)
        case Embed(texts, kind):
            return _required(models.embedder, "an embedder").embed(texts, kind)
        case Extract(text):
            return _required(models.openie, "an OpenIE").extract(text)
        case NameEntities(query):
            return _required(models.openie, "an OpenIE").query_entities(query)
        case Choose(query, candidates):
            return _required(models.recognition, "a recognition memory").choose(query, candidates)
    raise TypeError(f"unknown request {type(request).__name__}")


def acall(models: Models, request: Request) -> Awaitable[Any]:
    """Make the call that a request asks for, without blocking the event loop."""
    match request:
        case Complete(messages, _):
            return _required(models.chat, "a chat model").acomplete(messages)
        case Embed(texts, kind):
            return _required(models.embedder, "an embedder").aembed(texts, kind)
    return asyncio.to_thread(call, models, request)  # local parts have no async twin


def accept(request: Request, reply: Any, seconds: float, meter: Meter) -> Any:
    """Check what a port gave back, and count it."""
    if isinstance(request, Complete):
        completion = _checked_completion(reply)
        meter.add(request.stage, _completion_usage(request, completion, seconds))
        return completion
    if isinstance(request, Embed):
        rows = _checked_rows(reply, len(request.texts))
        meter.add("embedding", StageUsage(calls=1, texts=len(request.texts), seconds=seconds))
        return rows
    if isinstance(request, Extract) and not isinstance(reply, Extraction):
        raise TypeError(f"OpenIE.extract must return an Extraction, got {type(reply).__name__}")
    if isinstance(request, NameEntities):
        named = _checked_list(reply, str, "OpenIE.query_entities must return a list of str")
        return tuple(map(str, named))  # of a subclass, such as NumPy's, a plain str
    if isinstance(request, Choose):
        return _checked_list(reply, Integral, "RecognitionMemory.choose must return positions")
    return reply


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


_SECRET = re.compile(
    r"""
      (?P<before> \b https?:// [^\s?'"]* \?) [^\s'"]+   # a URL's query
    | (?P<user> :// ) [^\s/@'"]+ : [^\s/@'"]+ (?= @ )   # user and password
    | (?P<bearer> \b [Bb]earer \s+) [\w.~+/=-]{8,}
    | (?P<key> \b sk-) [\w-]{8,}
    """,
    re.VERBOSE,
)


def as_model_error(error: Exception) -> ModelError:
    """Convert an SDK's exception by its status code, its Retry-After header or its type.

    Its message is kept without what looks like a key: it is logged, and stored with the passage.
    """
    response = getattr(error, "response", None)
    status = _status(error, response)
    message = _SECRET.sub(_hidden, f"{type(error).__name__}: {error}")
    if status is not None:
        transient = status in (408, 409, 425, 429) or status >= 500
    else:
        name = type(error).__name__.lower()
        transient = isinstance(error, TimeoutError | ConnectionError) or any(
            word in name for word in ("timeout", "ratelimit", "connection", "unavailable")
        )
    if transient:
        return TransientModelError(message, _retry_after(getattr(response, "headers", None)))
    return PermanentModelError(message)


def _hidden(secret: re.Match[str]) -> str:
    return f"{next(part for part in secret.groups() if part)}..."


def _status(error: Exception, response: Any) -> int | None:
    """Find the HTTP status where the usual SDKs keep it."""
    found = [getattr(error, name, None) for name in ("status_code", "status", "code")]
    found.append(getattr(response, "status_code", None))
    if isinstance(response, Mapping):  # botocore
        metadata = response.get("ResponseMetadata")
        found.append(metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None)
    return next((s for s in found if type(s) is int and 100 <= s < 600), None)


def _retry_after(headers: Any) -> float | None:
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, TypeError, ValueError):  # no headers, no such header, or an HTTP date
        return None
    return seconds if seconds >= 0 else None


def retrying(kind: str) -> Any:
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

"""One call of a port: made, converted, retried, checked and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hippo_core.costs import Stage, StageUsage, TokenUsage
from hippo_core.errors import ModelRequiredError, PermanentModelError
from hippo_core.flows import Choose, Complete, Embed, Extract, Models, NameEntities, Request
from hippo_core.streaming import acompleted, completed
from hippo_core.tokens import count_tokens
from hippo_core.types import Completion, Extraction

T = TypeVar("T")


def call(models: Models, request: Request) -> Any:
    """Make the call that a request asks for."""
    match request:
        case Complete(messages):
            chat = _required(models.chat, "a chat model")
            if request.listener is None:
                return chat.complete(messages)
            return completed(chat, messages, request.listener)
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
        case Complete(messages):
            chat = _required(models.chat, "a chat model")
            if request.listener is None:
                return chat.acomplete(messages)
            return acompleted(chat, messages, request.listener)
        case Embed(texts, kind):
            return _required(models.embedder, "an embedder").aembed(texts, kind)
    return in_thread(partial(call, models, request))  # local parts have no async twin


async def in_thread(work: Callable[[], T]) -> T:
    """Do the user's work in a thread.

    Raises:
        RuntimeError: It raised StopIteration, for which a future would wait without end.
    """

    def done() -> T:
        try:
            return work()
        except StopIteration as error:
            raise RuntimeError(f"{error!r} was raised") from error

    return await asyncio.to_thread(done)


def input_tokens(request: Request) -> int:
    """Count the tokens that a call begins with; 0 for one that no model is asked for."""
    match request:
        case Complete(messages):
            return sum(count_tokens(message.content) for message in messages)
        case Embed(texts):
            return sum(map(count_tokens, texts))
    return 0


def accept(
    request: Request,
    reply: Any,
    seconds: float,
    settle: Callable[[Stage, StageUsage], None],
    counted: int | None = None,
) -> Any:
    """Check what a port gave back, and count it.

    Args:
        request: What was asked for.
        reply: What was given.
        seconds: How long it took.
        settle: Counts what it cost.
        counted: The request's `input_tokens`, if they are known.
    """
    if isinstance(request, Complete):
        completion = _checked_completion(reply)
        settle(request.stage, _completion_usage(request, completion, seconds, counted))
        return completion
    if isinstance(request, Embed):
        rows = _checked_rows(reply, len(request.texts))
        tokens = input_tokens(request) if counted is None else counted
        usage = StageUsage(
            calls=1,
            input_tokens=tokens,
            texts=len(request.texts),
            seconds=seconds,
            estimated=True,
        )
        settle("embedding", usage)
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
    for tokens in (reply.usage.input_tokens, reply.usage.output_tokens) if reply.usage else ():
        if isinstance(tokens, bool) or not isinstance(tokens, Integral) or tokens < 0:
            raise TypeError(f"a Completion's tokens must be whole numbers, got {reply.usage!r}")
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


def _completion_usage(
    request: Complete, completion: Completion, seconds: float, counted: int | None
) -> StageUsage:
    if completion.cached:
        return StageUsage(calls=1, cached=1, seconds=seconds)
    tokens = completion.usage
    if tokens is None:
        counted = input_tokens(request) if counted is None else counted
        tokens = TokenUsage(counted, count_tokens(completion.text), estimated=True)
    return StageUsage(
        calls=1,
        input_tokens=int(tokens.input_tokens),
        output_tokens=int(tokens.output_tokens),
        seconds=seconds,
        estimated=tokens.estimated,
    )

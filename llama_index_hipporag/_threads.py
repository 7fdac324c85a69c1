"""Work that would block the event loop, done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Set
from inspect import unwrap
from types import CodeType
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """Do what a call does, in a thread.

    Raises:
        RuntimeError: It raised StopIteration, for which a future would wait without end.
    """

    def done() -> T:
        try:
            return call(*args)
        except StopIteration as error:
            raise RuntimeError(f"{error!r} was raised") from error

    return await asyncio.to_thread(done)


async def each_in_thread(items: Iterator[T]) -> AsyncIterator[T]:
    """Take one item after the other in threads."""
    none = object()
    while (item := await in_thread(next, items, none)) is not none:
        yield item


def only_calls(method: Callable[..., Any] | None, sync: Set[str]) -> bool:
    """Say whether an async method does nothing but call sync ones, in the event loop.

    Many models are written so where nothing in them is async.

    >>> async def achat(self, messages, **kwargs):
    ...     return self.chat(messages, **kwargs)
    >>> only_calls(achat, {"chat"})
    True
    """
    code = None if method is None else getattr(unwrap(method), "__code__", None)
    names = set() if code is None else _names(code)
    return bool(names) and names <= sync


def _names(code: CodeType) -> set[str]:
    """Give the names of all that a function reads or calls, but its own variables."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)

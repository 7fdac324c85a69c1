"""Work that would block the event loop, done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

"""Streams: an answer as it is written, from a thread or on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self

from hippo_core.answers import Answer
from hippo_core.errors import InputError
from hippo_core.streaming import Listener

_NOT_YET = "take all pieces of the stream first: the answer stands at its end"


class _End:
    """What stands at the end of the pieces."""

    def __init__(self, answer: Answer | None = None, error: BaseException | None = None) -> None:
        self.answer = answer
        self.error = error


class _Stream:
    """What both kinds of stream know."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._is_over = False

    @property
    def answer(self) -> Answer:
        """The answer.

        Raises:
            InputError: The stream is not at its end.
        """
        if self._answer is None:
            raise InputError(_NOT_YET)
        return self._answer

    def _taken(self, item: str | _End) -> str | None:
        """Give a piece, or None at the end."""
        if isinstance(item, str):
            return item
        self._is_over = True
        self._answer = item.answer
        if item.error is not None:
            raise item.error
        return None


class AnswerStream(_Stream, Iterator[str]):
    """The pieces of a reply, and the answer once all were taken.

    The call ends at its next piece when the stream is closed, or nobody holds it any more.
    """

    def __init__(self, answer: Callable[[Listener], Answer]) -> None:
        super().__init__()
        self._make: Callable[[Listener], Answer] | None = answer
        self._said: queue.SimpleQueue[str | _End] = queue.SimpleQueue()
        self._listener = Listener(self._said.put)

    def __next__(self) -> str:
        if self._is_over:
            raise StopIteration
        if self._make is not None:
            make, self._make = self._make, None
            _begin(make, self._listener, self._said)
        piece = self._taken(self._said.get())
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        """Take no more: who waits for a piece gets none."""
        self._make = None
        self._listener.stop()
        self._said.put(_End())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        listener = getattr(self, "_listener", None)
        if listener is not None:
            listener.stop()


def _begin(
    make: Callable[[Listener], Answer], listener: Listener, said: queue.SimpleQueue[str | _End]
) -> None:
    """Begin a call in a thread, which knows nothing of the stream: that may be let go."""

    def work() -> None:
        try:
            said.put(_End(make(listener)))
        except BaseException as error:  # noqa: BLE001 - raised where the pieces are taken
            said.put(_End(error=error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="hippo-stream", daemon=True).start()


class AsyncAnswerStream(_Stream, AsyncIterator[str]):
    """The pieces of a reply on an event loop, and the answer once all were taken.

    The call is cancelled when the stream is closed, or nobody holds it any more.
    """

    def __init__(self, answer: Callable[[Listener], Awaitable[Answer]]) -> None:
        super().__init__()
        self._make: Callable[[Listener], Awaitable[Answer]] | None = answer
        self._said: asyncio.Queue[str | _End] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __anext__(self) -> str:
        if self._is_over:
            raise StopAsyncIteration
        if self._make is not None:
            make, self._make = self._make, None
            self._task = asyncio.create_task(_abegin(make, self._said))
        piece = self._taken(await self._said.get())
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Take no more, and cancel the call: who waits for a piece gets none."""
        self._make = None
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        self._said.put_nowait(_End())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task: asyncio.Task[Any] | None = getattr(self, "_task", None)
        if task is not None and not task.done() and not (loop := task.get_loop()).is_closed():
            loop.call_soon_threadsafe(task.cancel)


async def _abegin(
    make: Callable[[Listener], Awaitable[Answer]], said: asyncio.Queue[str | _End]
) -> None:
    try:
        said.put_nowait(_End(await make(Listener(said.put_nowait))))
    except asyncio.CancelledError:
        said.put_nowait(_End())
        raise
    except BaseException as error:  # noqa: BLE001 - raised where the pieces are taken
        said.put_nowait(_End(error=error))

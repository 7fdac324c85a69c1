"""Streams: an answer as it is written, from a thread or on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Self

from hippo_core.answers import Answer
from hippo_core.errors import InputError
from hippo_core.reading import OnPiece
from hippo_core.streaming import Stopped

_STOPPED = "the stream was closed before its end"
_NOT_YET = "take all pieces of the stream first: the answer stands at its end"


class AnswerStream(Iterator[str]):
    """The pieces of a reply, and the answer once all were taken."""

    def __init__(self, answer: Callable[[OnPiece], Answer]) -> None:
        self._make = answer
        self._answer: Answer | None = None
        self._is_closed = threading.Event()
        self._pieces = self._run()

    @property
    def answer(self) -> Answer:
        """The answer.

        Raises:
            InputError: The stream is not at its end.
        """
        if self._answer is None:
            raise InputError(_NOT_YET)
        return self._answer

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Take no more; the call ends at its next piece."""
        self._is_closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _run(self) -> Iterator[str]:
        said: queue.SimpleQueue[str | Answer | BaseException] = queue.SimpleQueue()

        def on_piece(piece: str) -> None:
            if self._is_closed.is_set():
                raise Stopped(_STOPPED)
            said.put(piece)

        def work() -> None:
            try:
                said.put(self._make(on_piece))
            except BaseException as error:  # noqa: BLE001 - raised where the pieces are taken
                said.put(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="hippo-stream", daemon=True).start()
        try:
            while not self._is_closed.is_set():
                item = said.get()
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, Answer):
                    self._answer = item
                    return
                yield item
        finally:
            self._is_closed.set()


class AsyncAnswerStream(AsyncIterator[str]):
    """The pieces of a reply on an event loop, and the answer once all were taken."""

    def __init__(self, answer: Callable[[OnPiece], Awaitable[Answer]]) -> None:
        self._make = answer
        self._answer: Answer | None = None
        self._pieces = self._run()

    @property
    def answer(self) -> Answer:
        """The answer.

        Raises:
            InputError: The stream is not at its end.
        """
        if self._answer is None:
            raise InputError(_NOT_YET)
        return self._answer

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Take no more, and cancel the call."""
        await self._pieces.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def _run(self) -> AsyncGenerator[str, None]:
        said: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.ensure_future(self._make(said.put_nowait))
        try:
            while True:
                piece = asyncio.ensure_future(said.get())
                await asyncio.wait({task, piece}, return_when=asyncio.FIRST_COMPLETED)
                if piece.done():
                    yield piece.result()
                    continue
                piece.cancel()
                while not said.empty():
                    yield said.get_nowait()
                self._answer = task.result()
                return
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

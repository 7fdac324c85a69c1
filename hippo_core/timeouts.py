"""A call that may take so many seconds: in a thread of its own, or as a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LateError(Exception):
    """A call did not end in its time."""


class Outcome(Generic[T]):
    """What a call gave, or what it raised."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.error: BaseException | None = None
        try:
            self._value = call()
        except BaseException as error:  # noqa: BLE001 - raised by whoever asks for the value
            self.error = error

    def value(self) -> T:
        """Give what the call gave, or raise what it raised."""
        if self.error is None:
            return self._value
        try:
            raise self.error
        finally:
            self.error = None  # which holds this frame


class _Race(Generic[T]):
    """One call in a thread, and who waits for it: the outcome goes to exactly one of two."""

    def __init__(self, call: Callable[[], T], late: Callable[[Outcome[T]], None]) -> None:
        self._call = call
        self._late = late
        self._lock = threading.Lock()
        self._given_up = False
        self._done = threading.Event()
        self._outcome: Outcome[T] | None = None

    def run(self) -> None:
        outcome = Outcome(self._call)
        with self._lock:
            late = self._given_up
            self._outcome = None if late else outcome
        self._done.set()
        if late:
            self._late(outcome)

    def wait(self, seconds: float) -> Outcome[T] | None:
        """Give the outcome; None if the call is late, and from then on it goes to `late`."""
        try:
            self._done.wait(seconds)
        finally:  # after an interrupt too
            with self._lock:
                self._given_up = self._outcome is None
        return self._outcome


def within(seconds: float | None, call: Callable[[], T], late: Callable[[Outcome[T]], None]) -> T:
    """Make a call that may take so many seconds, in the caller's context.

    It is made in a thread that nobody waits for at the end of the process; with None, in this one.

    Args:
        seconds: How long it may take.
        call: What to do.
        late: Given the outcome of a call that was given up, in that call's thread, when it ends.

    Raises:
        LateError: The call did not end in its time.
    """
    if seconds is None:
        return call()
    race = _Race(call, late)
    thread = threading.Thread(
        target=contextvars.copy_context().run,
        args=(race.run,),
        name=threading.current_thread().name,  # the call is still that of its caller
        daemon=True,
    )
    thread.start()
    outcome = race.wait(seconds)
    if outcome is None:
        raise LateError
    thread.join()  # it has only to end: a process may fork next
    return outcome.value()


async def awithin(seconds: float | None, call: Awaitable[T], grace: float) -> T:
    """Make a call that may take so many seconds, as a task of its own.

    A late call is cancelled, so that no reply comes after its time. One that does not let itself be
    cancelled is left to itself after `grace` seconds.

    Raises:
        LateError: The call did not end in its time.
        asyncio.CancelledError: The call or the running task was cancelled: see `task.cancelling()`.
    """
    task = asyncio.ensure_future(call)
    if isinstance(task, asyncio.Task) and (current := asyncio.current_task()) is not None:
        task.set_name(current.get_name())
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(task, grace)
        raise
    if not task.done():
        await _cancel(task, grace)
        raise LateError
    return task.result()


_left: set[asyncio.Future[Any]] = set()  # the loop itself keeps no task alive


async def _cancel(task: asyncio.Future[Any], grace: float) -> None:
    task.cancel()
    _left.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=grace)


def _forget(task: asyncio.Future[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # seen: nobody asks for it any more

"""What the calls of one handle share: so many places, and the pause after a rate limit."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from hippo_core.retries import Patience


class Limiter:
    """At most `limit` model calls in flight, and none while the handle pauses.

    There is one semaphore for threads, and one per event loop. A call that waits, for a place, for
    the end of the pause or for its next try, holds no place.
    """

    def __init__(self, limit: int, patience: Patience | None = None) -> None:
        self.limit = limit
        self.patience = patience or Patience()
        self._threads = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._pause_ends = 0.0  # by the clock
        self._paused = False

    def pause(self, seconds: float) -> None:
        """Let no call begin for so many seconds."""
        ends = self.patience.clock() + seconds
        with self._lock:
            self._pause_ends = max(ends, self._pause_ends) if self._paused else ends
            self._paused = True

    def left(self) -> float:
        """Give the seconds for which no call begins; 0 for none."""
        if not self._paused:
            return 0.0
        with self._lock:
            left = self._pause_ends - self.patience.clock()
            self._paused = left > 0
            return max(left, 0.0)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for one call, outside of any pause."""
        while True:
            while (left := self.left()) > 0:
                self.patience.sleep(left)
            with self._threads:
                if self.left() > 0:  # a call that ran meanwhile met a rate limit
                    continue
                yield
                return

    @asynccontextmanager
    async def aplace(self) -> AsyncIterator[None]:
        """Hold a place for one call on the running loop, outside of any pause."""
        while True:
            while (left := self.left()) > 0:
                await self.patience.asleep(left)
            async with self._loop():
                if self.left() > 0:
                    continue
                yield
                return

    def _loop(self) -> asyncio.Semaphore:
        running = asyncio.get_running_loop()
        with self._lock:
            return self._loops.setdefault(running, asyncio.Semaphore(self.limit))

"""Whose turn it is: what reads an index and then writes it does both before the next one begins."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

_LOOK_AGAIN = 0.01  # seconds: a turn takes at least a call of a model


class Turns:
    """Turns of threads and of tasks on any event loop, among which no lock is shared.

    >>> turns = Turns()
    >>> with turns.at({"a.txt"}), turns.at({"b.txt"}):
    ...     turns.is_free({"a.txt", "c.txt"}), turns.is_free({"c.txt"})
    (False, True)
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._docstore = threading.RLock()
        self._lock = threading.Lock()
        self._taken: set[str] = set()

    @property
    def docstore(self) -> threading.RLock:
        """For what is done with the docstore at once, in one thread."""
        self._notice_fork()
        return self._docstore

    def is_free(self, ids: Collection[str]) -> bool:
        """Say whether no document of these is being replaced."""
        self._notice_fork()
        return self._taken.isdisjoint(ids)

    @contextmanager
    def at(self, ids: Collection[str]) -> Iterator[None]:
        """Have documents for oneself, all at once, so that no two wait for each other."""
        while not self._take(ids):
            time.sleep(_LOOK_AGAIN)
        try:
            yield
        finally:
            self._give(ids)

    @asynccontextmanager
    async def aat(self, ids: Collection[str]) -> AsyncIterator[None]:
        """Do what `at` does, without blocking the event loop or a thread of its pool."""
        while not self._take(ids):
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            yield
        finally:
            self._give(ids)

    def _notice_fork(self) -> None:
        if self._process != os.getpid():  # a turn may be that of a thread left behind
            self._begin()

    def _take(self, ids: Collection[str]) -> bool:
        self._notice_fork()  # whose lock may be held
        with self._lock:
            if not self.is_free(ids):
                return False
            self._taken.update(ids)
            return True

    def _give(self, ids: Collection[str]) -> None:
        with self._lock:
            self._taken.difference_update(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()  # another process has turns of its own

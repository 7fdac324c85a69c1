"""Forking: no transaction runs while a process forks, and no connection is carried over.

SQLite keeps a process's locks by file, so a child that holds a connection of its parent believes in
locks that it does not have. Hence before a fork everybody leaves, and all connections are closed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

_LOOK_AGAIN = 0.001  # seconds
PATIENCE = 10.0  # seconds that a fork waits for transactions of other threads


class Forkable(Protocol):
    """What holds connections, and is told of forks while nobody is inside the gate."""

    def before_fork(self) -> None:
        """Close idle connections."""

    def after_fork(self, *, child: bool) -> None:
        """Go on; a child with locks and connections of its own."""


class Gate:
    """Counts the threads that are inside, and can be shut: then nobody new comes in.

    Who is inside may go in again, so nobody waits inside for a gate that waits for him.
    """

    def __init__(self) -> None:
        # Not a Condition nor an Event: those are locked by Python code, and an interrupt in the
        # middle of that would leave them locked for ever. Forks are rare: who waits looks again.
        self._lock = threading.Lock()
        self._inside: Counter[int] = Counter()
        self._shut = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Be inside for a while."""
        me = threading.get_ident()
        is_inside = False
        try:
            while not is_inside:
                with self._lock:
                    if not self._shut or self._inside[me]:
                        self._inside[me] += 1
                        is_inside = True
                if not is_inside:
                    time.sleep(_LOOK_AGAIN)
            yield
        finally:
            if is_inside:
                with self._lock:
                    self._inside[me] -= 1
                    self._inside += Counter()  # drops who has left

    def shut(self, seconds: float) -> None:
        """Let nobody new in, and wait until the other threads have left, or for so long."""
        me = {threading.get_ident()}
        until = time.monotonic() + seconds
        self._shut = True
        while time.monotonic() < until:
            with self._lock:
                if not self._inside.keys() - me:
                    return
            time.sleep(_LOOK_AGAIN)

    def open(self) -> None:
        """Let everybody in."""
        self._shut = False

    def reopen(self) -> None:
        """Open in a child, where this thread is the only one."""
        me = threading.get_ident()
        self._lock = threading.Lock()
        self._inside = Counter({me: self._inside[me]})
        self._shut = False


gate = Gate()
"""Every use of a database is inside."""


class _Forks:
    """What is told of forks, one fork after another."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._members: WeakSet[Forkable] = WeakSet()
        self._told: list[Forkable] = []

    def tell(self, member: Forkable) -> None:
        self._members.add(member)

    def before(self) -> None:
        self._turn.acquire()
        gate.shut(PATIENCE)
        self._told = list(self._members)
        for member in self._told:
            member.before_fork()

    def after_in_parent(self) -> None:
        told, self._told = self._told, []
        for member in told:
            member.after_fork(child=False)
        gate.open()
        self._turn.release()

    def after_in_child(self) -> None:
        told, self._told = self._told, []
        self._turn = threading.RLock()
        gate.reopen()
        for member in told:
            member.after_fork(child=True)


_forks = _Forks()
tell_of_forks = _forks.tell
"""Tell a member of forks from now on; it is called inside the gate."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before,
        after_in_parent=_forks.after_in_parent,
        after_in_child=_forks.after_in_child,
    )

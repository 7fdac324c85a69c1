"""When a call is tried again, and after how long."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hippo_core.errors import HippoError, PermanentModelError, RateLimitedError, TransientModelError
from hippo_core.sdk_errors import as_model_error

LONGEST_WAIT = 120.0  # seconds that a server may ask for; beyond, another try is given up


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the calls of a handle are waited for, how often they are tried, and by which clock.

    Tests bring a clock of their own.
    """

    tries: int = 4
    call_timeout: float | None = None
    """Seconds of one try; None: without end."""
    grace: float = 1.0
    """Seconds that a cancelled call has for what it wants to clean up."""
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


class Backoff:
    """The waits of one call between its tries; entered around each, inside of its place.

    Args:
        pause: Given the wait after a rate limit, which is one for all calls of the handle, before
            the place is free for the next of them.
    """

    def __init__(self, pause: Callable[[float], None]) -> None:
        self.seconds = 0.0
        self._pause = pause
        self._failures = 0

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or not _may_be_mended(error):
            return
        self._failures += 1
        self.seconds = wait_after(error, self._failures)
        if isinstance(error, RateLimitedError):
            self._pause(self.seconds)


def retrying(kind: str, patience: Patience, backoff: Backoff) -> Any:
    """Give tenacity's loop over tries: only of what another try may mend, and after a wait.

    Args:
        kind: `Retrying` or `AsyncRetrying`.
        patience: How often, and by which clock.
        backoff: How long in between.
    """
    import tenacity

    make: Callable[..., Any] = getattr(tenacity, kind)
    return make(
        sleep=patience.asleep if kind == "AsyncRetrying" else patience.sleep,
        stop=tenacity.stop_after_attempt(patience.tries),
        wait=lambda _state: backoff.seconds,
        retry=tenacity.retry_if_exception(_may_be_mended),
        reraise=True,
    )


def wait_after(error: BaseException, tries: int) -> float:
    """Give the seconds to wait after so many tries: what the server asked for, or ever longer.

    A broken connection is tried again soon, within 0.5, 1, 2, ... 20 seconds. A rate limit counts
    the calls of a minute: its waits are about 6, 12, 24, ... 60 seconds, give or take a quarter.
    """
    asked = asked_wait(error)
    if asked is not None:
        return asked
    if isinstance(error, RateLimitedError):
        return min(6.0 * 2.0 ** (tries - 1), 60.0) * random.uniform(0.75, 1.25)
    return random.uniform(0, min(0.5 * 2.0 ** (tries - 1), 20.0))


def asked_wait(error: BaseException) -> float | None:
    """Give the seconds that the server asked to wait, at least 0; None if it did not say."""
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, bool) or not isinstance(asked, int | float) or math.isnan(asked):
        return None
    return max(float(asked), 0.0)


def as_ours(error: Exception) -> HippoError:
    """Convert what a port raised; say so where the server asks for a wait that is too long."""
    ours = error if isinstance(error, HippoError) else _converted(error)
    asked = asked_wait(ours)
    if not isinstance(ours, TransientModelError) or asked is None or asked <= LONGEST_WAIT:
        return ours
    kind = RateLimitedError if isinstance(ours, RateLimitedError) else TransientModelError
    return kind(
        f"{ours}; the server asks to wait {asked:g} seconds, and a call waits at most "
        f"{LONGEST_WAIT:g}: do it again later",
        asked,
    )


def _converted(error: Exception) -> HippoError:
    try:
        return as_model_error(error)
    except Exception as another:  # noqa: BLE001 - what its own text, or a property of it, raised
        raised = type(another).__name__
        return PermanentModelError(f"{type(error).__name__}, and to read it raised {raised}")


def _may_be_mended(error: BaseException) -> bool:
    return isinstance(error, TransientModelError) and (asked_wait(error) or 0.0) <= LONGEST_WAIT

"""One call of a port over its tries: what it holds of a budget, and a reply that comes late."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

from hippo_core.accounts import Account, Ticket
from hippo_core.calls import accept
from hippo_core.errors import ClosedError, TransientModelError
from hippo_core.flows import Complete, Embed, Meter, Request
from hippo_core.sdk_errors import without_secrets
from hippo_core.timeouts import Outcome

log = logging.getLogger(__name__)


def must_count(request: Request, accounts: tuple[Account, ...]) -> bool:
    """Whether the tokens of a request have to be known before it is made."""
    if isinstance(request, Complete):
        return any(account.budget.tokens is not None for account in accounts)
    return isinstance(request, Embed)  # no embedder says them


class PaidCall:
    """A call and its ticket, which is held over all its tries, and given back at the end.

    A try that is late in a thread may still be answered and paid for: it keeps the ticket until it
    ends, and the next try takes another. A local part costs nothing and has no time-out.

    Raises:
        BudgetExceededError: The call, or another try beside one that still runs, would go over a
            budget.
    """

    def __init__(
        self,
        request: Request,
        counted: int | None,
        accounts: tuple[Account, ...],
        meter: Meter,
        timeout: float | None,
    ) -> None:
        paid = isinstance(request, Complete | Embed)
        self.timeout = timeout if paid else None
        self._request = request
        self._counted = counted
        self._take = partial(Ticket, accounts if paid else (), counted or 0, meter.add)
        self._ticket = self._take()
        self._is_lent = False  # to a late try
        self._started = 0.0

    def begin(self) -> Callable[[Outcome[Any]], None]:
        """Begin a try; give what takes its outcome if that comes after its time."""
        if self._is_lent:
            self._ticket = self._take()
            self._is_lent = False
        self._started = time.perf_counter()
        return partial(_take_late, self._request, self._counted, self._ticket, self._started)

    def give_up(self, *, goes_on: bool) -> TransientModelError:
        """Give the error of a try that is late; if it goes on, it keeps the ticket."""
        self._is_lent = goes_on
        return TransientModelError(
            f"a call took longer than call_timeout, {self.timeout:g} seconds; where the model "
            "needs more, give it more: HippoConfig(call_timeout=...)"
        )

    def end(self, reply: Any) -> Any:
        """Check and count the reply."""
        seconds = time.perf_counter() - self._started
        return accept(self._request, reply, seconds, self._ticket.settle, self._counted)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_lent:
            self._ticket.release()


def _take_late(
    request: Request, counted: int | None, ticket: Ticket, started: float, outcome: Outcome[Any]
) -> None:
    """Count a late reply, and hand it on; runs in the thread of the late call."""
    try:
        if outcome.error is not None:
            said = without_secrets(f"{type(outcome.error).__name__}: {outcome.error}")
            log.debug("a call that was given up as late failed: %s", said)
            return
        seconds = time.perf_counter() - started
        reply = accept(request, outcome.value(), seconds, ticket.settle, counted)
        if isinstance(request, Complete) and request.late is not None:
            request.late(reply)
    except ClosedError:
        log.warning("a reply came after its call_timeout, when the memory was closed: it is lost")
    except Exception:  # whatever the port gave, or keeping it raised: nobody else would see it
        log.exception("a reply that came after its call_timeout could not be kept")
    finally:
        ticket.release()

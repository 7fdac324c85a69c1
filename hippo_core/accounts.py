"""Accounts: what may still be spent of a budget, exact for any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hippo_core.costs import Budget, Stage, StageUsage, Usage
from hippo_core.errors import BudgetExceededError


class Account:
    """Keeps one operation, and those inside it, within a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.lock = threading.Lock()
        self._spent = Usage()
        self._running = 0  # calls
        self._reserved = 0  # tokens of their prompts

    # Whoever calls these holds the lock.

    def check(self, tokens: int) -> None:
        """Refuse one more call that begins with these tokens.

        Raises:
            BudgetExceededError: It would go over the budget.
        """
        calls = self._spent.calls + self._running
        if self.budget.calls is not None and calls + 1 > self.budget.calls:
            raise self._exceeded(
                f"the budget allows {_many(self.budget.calls, 'call')}: {self._spent.calls} were "
                f"made and {self._running} still run, so no other is made; give a larger "
                "Budget(calls=...)"
            )
        spent = self._spent.tokens + self._reserved
        if self.budget.tokens is not None and spent + tokens > self.budget.tokens:
            raise self._exceeded(
                f"the budget allows {_many(self.budget.tokens, 'token')}: {spent} are spent or in "
                f"calls that still run, and the next prompt has {tokens}; give a larger "
                "Budget(tokens=...)"
            )

    def begin(self, tokens: int) -> None:
        """Take a call that begins with these tokens as running."""
        self._running += 1
        self._reserved += tokens

    def end(self, tokens: int) -> None:
        """Take it as running no more."""
        self._running -= 1
        self._reserved -= tokens

    def charge(self, stage: Stage, usage: StageUsage) -> None:
        """Count what an answered call cost."""
        self._spent += Usage({stage: usage})

    def _exceeded(self, complaint: str) -> BudgetExceededError:
        return BudgetExceededError(complaint, self.budget, self._spent)


class Ticket:
    """One call's place in some accounts: taken before it is made, and given back once.

    Args:
        accounts: From the outermost operation to the innermost.
        tokens: Those that the call begins with.
        count: Counts the usage of the innermost operation.

    Raises:
        BudgetExceededError: The call would go over a budget; none has taken it.
    """

    def __init__(
        self,
        accounts: Sequence[Account],
        tokens: int,
        count: Callable[[Stage, StageUsage], None],
    ) -> None:
        self._accounts = accounts
        self._tokens = tokens
        self._count = count
        with self._locked():
            for account in accounts:
                account.check(tokens)
            for account in accounts:
                account.begin(tokens)
            self._open = True

    def settle(self, stage: Stage, usage: StageUsage) -> None:
        """Count what the answered call cost, in place of what was reserved."""
        with self._locked():
            self._close()
            for account in self._accounts:
                account.charge(stage, usage)
        self._count(stage, usage)

    def release(self) -> None:
        """Give the place back, if the call was not answered."""
        with self._locked():
            self._close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            for account in self._accounts:
                account.end(self._tokens)

    def _locked(self) -> ExitStack:
        """Hold all accounts; all threads take their locks from the outermost inwards."""
        locks = ExitStack()
        for account in self._accounts:
            locks.enter_context(account.lock)
        return locks


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"

"""The two drivers that run flows: one from threads, one on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import Any, NamedTuple, NoReturn, TypeVar

from hippo_core.accounts import Account
from hippo_core.calls import acall, call, input_tokens
from hippo_core.errors import BudgetExceededError, HippoError, PermanentModelError
from hippo_core.flows import Complete, Each, Flow, Meter, Metered, Models, Request
from hippo_core.limiter import Limiter
from hippo_core.paid import PaidCall, must_count
from hippo_core.retries import Backoff, as_ours, retrying
from hippo_core.timeouts import LateError, awithin, within

T = TypeVar("T")

_numbers = count(1)  # of threads


class _Step(NamedTuple):
    done: bool
    value: Any


class Driver:
    """Runs flows with the user's models, counting into a meter."""

    def __init__(
        self,
        models: Models,
        limiter: Limiter,
        meter: Meter,
        *,
        around: tuple[Account, ...] = (),  # of the operations that this one is a part of
    ) -> None:
        self._models = models
        self._limiter = limiter
        self._meter = meter
        own = () if meter.account is None or meter.account in around else (meter.account,)
        self._accounts = (*around, *own)

    # -- threads ------------------------------------------------------------------------------

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end in this thread, its parts in others."""
        answer: Any = None
        failure: HippoError | None = None
        try:
            while True:
                step = _step(flow, answer, failure)
                if step.done:
                    return step.value  # type: ignore[no-any-return]
                answer, failure = None, None
                try:
                    answer = self._perform(step.value)
                except HippoError as error:
                    failure = error
        finally:
            flow.close()

    def _perform(self, request: Request) -> Any:
        if isinstance(request, Each):
            return self._run_each(request.flows)
        if isinstance(request, Metered):
            return self._counting_into(request.meter).run(request.flow)
        counted = input_tokens(request) if must_count(request, self._accounts) else None
        backoff = Backoff(self._limiter.pause)
        with self._paid(request, counted) as paid:
            for attempt in retrying("Retrying", self._limiter.patience, backoff):
                with attempt, self._limiter.place(), backoff:
                    reply = self._try(request, paid)
            return paid.end(reply)

    def _try(self, request: Request, paid: PaidCall) -> Any:
        late = paid.begin()
        try:
            return within(paid.timeout, partial(call, self._models, request), late)
        except LateError:
            raise _given_up(request, paid.give_up(goes_on=True)) from None
        except asyncio.CancelledError as error:  # of a loop inside the port: no thread is cancelled
            raise PermanentModelError("the model cancelled its own call") from error
        except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
            _raise_ours(error)

    def _run_each(self, flows: Iterable[Flow[Any]]) -> list[Any]:
        pending = list(enumerate(flows))
        results: list[Any] = [None] * len(pending)
        if len(pending) <= 1 or self._limiter.limit == 1:
            for position, flow in pending:
                results[position] = self.run(flow)
            return results
        pending.reverse()
        errors: list[BaseException] = []
        context = contextvars.copy_context()

        def work() -> None:
            while pending and not errors:
                try:
                    position, flow = pending.pop()
                except IndexError:  # another worker took the last one
                    return
                try:
                    results[position] = context.copy().run(self.run, flow)
                except BaseException as error:  # noqa: BLE001 - raised by the calling thread below
                    errors.append(error)

        workers = [
            threading.Thread(target=work, name=f"hippo-call-{next(_numbers)}", daemon=True)
            for _ in range(min(self._limiter.limit, len(pending)))
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            pending.clear()  # after an interrupt: start nothing more
        if errors:
            raise errors[0]
        return results

    # -- event loop ---------------------------------------------------------------------------

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow to its end on the running loop; the flow's own work is done in threads."""
        answer: Any = None
        failure: HippoError | None = None
        while True:
            step = await asyncio.to_thread(_step, flow, answer, failure)
            if step.done:
                return step.value  # type: ignore[no-any-return]
            answer, failure = None, None
            try:
                answer = await self._aperform(step.value)
            except HippoError as error:
                failure = error

    async def _aperform(self, request: Request) -> Any:
        if isinstance(request, Each):
            return await self._arun_each(request.flows)
        if isinstance(request, Metered):
            return await self._counting_into(request.meter).arun(request.flow)
        counted = None
        if must_count(request, self._accounts):
            counted = await asyncio.to_thread(input_tokens, request)
        backoff = Backoff(self._limiter.pause)
        with self._paid(request, counted) as paid:
            async for attempt in retrying("AsyncRetrying", self._limiter.patience, backoff):
                with attempt:
                    async with self._limiter.aplace():
                        with backoff:
                            reply = await self._atry(request, paid)
            return paid.end(reply)

    async def _atry(self, request: Request, paid: PaidCall) -> Any:
        paid.begin()
        try:
            asked = acall(self._models, request)
            return await awithin(paid.timeout, asked, self._limiter.patience.grace)
        except LateError:
            raise _given_up(request, paid.give_up(goes_on=False)) from None
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise PermanentModelError("the model cancelled its own call") from error
        except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
            _raise_ours(error)

    async def _arun_each(self, flows: Iterable[Flow[Any]]) -> list[Any]:
        pending = list(enumerate(flows))
        results: list[Any] = [None] * len(pending)
        workers = min(self._limiter.limit, len(pending))
        pending.reverse()

        spent: list[BudgetExceededError] = []

        async def work() -> None:
            while pending and not spent:
                position, flow = pending.pop()
                try:
                    results[position] = await self.arun(flow)
                except BudgetExceededError as error:  # what runs is paid for: let it end
                    spent.append(error)

        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
        except BaseExceptionGroup as failures:  # the first failure cancelled the others
            failure = failures.exceptions[0]
        if failure is None and spent:
            failure = spent[0]
        if failure is not None:
            raise failure
        return results

    # -- both ---------------------------------------------------------------------------------

    def _counting_into(self, meter: Meter) -> Driver:
        return Driver(self._models, self._limiter, meter, around=self._accounts)

    def _paid(self, request: Request, counted: int | None) -> PaidCall:
        timeout = self._limiter.patience.call_timeout
        return PaidCall(request, counted, self._accounts, self._meter, timeout)


def _given_up(request: Request, error: HippoError) -> HippoError:
    """Make an error final where another try would say again what was said."""
    listener = request.listener if isinstance(request, Complete) else None
    if listener is None or not listener.give_up():
        return error
    return PermanentModelError(f"the reply broke off after its beginning: {error}")


def _raise_ours(error: Exception) -> NoReturn:
    ours = as_ours(error)
    if ours is error:
        raise ours
    raise ours from error


def _is_cancelled() -> bool:
    """Whether someone asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _step(flow: Flow[Any], answer: Any, failure: HippoError | None) -> _Step:
    try:
        return _Step(False, flow.throw(failure) if failure else flow.send(answer))
    except StopIteration as stop:
        return _Step(True, stop.value)

"""The two drivers that run flows: one from threads, one on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from hippo_core.calls import acall, accept, as_model_error, call, retrying
from hippo_core.errors import HippoError, PermanentModelError
from hippo_core.flows import Each, Flow, Meter, Metered, Models, Request

T = TypeVar("T")


class Limiter:
    """At most `limit` model calls in flight: one semaphore for threads, one per event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.threads = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    def loop(self) -> asyncio.Semaphore:
        """Give the running loop's semaphore."""
        running = asyncio.get_running_loop()
        with self._lock:
            return self._loops.setdefault(running, asyncio.Semaphore(self.limit))


class _Step(NamedTuple):
    done: bool
    value: Any


class Driver:
    """Runs flows with the user's models, counting into a meter."""

    def __init__(self, models: Models, limiter: Limiter, meter: Meter) -> None:
        self._models = models
        self._limiter = limiter
        self._meter = meter

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
        for attempt in retrying("Retrying"):
            with attempt, self._limiter.threads:
                started = time.perf_counter()
                try:
                    reply = call(self._models, request)
                except HippoError:
                    raise
                except Exception as error:  # the port: whatever the user's SDK raises
                    raise as_model_error(error) from error
        return accept(request, reply, time.perf_counter() - started, self._meter)

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
            threading.Thread(target=work, name="hippo-call", daemon=True)
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
        async for attempt in retrying("AsyncRetrying"):
            with attempt:
                async with self._limiter.loop():
                    started = time.perf_counter()
                    try:
                        reply = await acall(self._models, request)
                    except HippoError:
                        raise
                    except asyncio.CancelledError as error:
                        if _is_cancelled():
                            raise
                        raise PermanentModelError("the model cancelled its own call") from error
                    except Exception as error:  # the port: whatever the user's SDK raises
                        raise as_model_error(error) from error
        return accept(request, reply, time.perf_counter() - started, self._meter)

    async def _arun_each(self, flows: Iterable[Flow[Any]]) -> list[Any]:
        pending = list(enumerate(flows))
        results: list[Any] = [None] * len(pending)
        workers = min(self._limiter.limit, len(pending))
        pending.reverse()

        async def work() -> None:
            while pending:
                position, flow = pending.pop()
                results[position] = await self.arun(flow)

        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
        except BaseExceptionGroup as failures:  # the first failure cancelled the others
            failure = failures.exceptions[0]
        if failure is not None:
            raise failure
        return results

    # -- both ---------------------------------------------------------------------------------

    def _counting_into(self, meter: Meter) -> Driver:
        return Driver(self._models, self._limiter, meter)


def _is_cancelled() -> bool:
    """Whether someone asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _step(flow: Flow[Any], answer: Any, failure: HippoError | None) -> _Step:
    try:
        return _Step(False, flow.throw(failure) if failure else flow.send(answer))
    except StopIteration as stop:
        return _Step(True, stop.value)

"""Runs a generator: many workers at once, everything journaled.

Each worker is one asyncio task that asks the generator, waits for the operation's time, journals
the invocation, lets its client perform it, and journals the completion. An invocation is in the
journal before any byte of it is sent: without that order a killed harness could leave a write in
the cluster that the history lacks, and a correct read of it would look like a value from nowhere.

Processes follow Jepsen: worker w of N acts as process w; after an operation that ended in `info`
the process is done and the worker goes on as process p + N, with a new client. The nemesis is a
worker too, whose process never changes.

An exception from a client is a fault of the harness, not of the system under test. It ends the
run (`HarnessError`); the operation stays without completion, which a checker reads as `info`.

A client that does not return is a fault of the client as well, but the run goes on and ends in
time: its operation is ended after `bound_s` and completed as `info` with error `HUNG`, which is
sound since an `info` claims nothing, and the worker goes on with a new client. The bound is far
above the plan's time-out of operations, which a client keeps by itself.

Only the running loop's time and asyncio's primitives are used, so the interpreter runs unchanged
on a loop with virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable

from checkers.history import Event, EventType
from checkers.runs.answers import HUNG
from harness.run.generators.base import NANOSECONDS, NEMESIS, Context, Done, Generator, Next, Worker
from harness.run.recorder import Recorder
from nemeses.at_once import CLOSE_BOUND_S, OutOfTimeError, in_time, not_cancelled
from workloads.base import Completion, Op, WorkloadClient

ClientFactory = Callable[[Worker, int | str], WorkloadClient]
"""(worker, process) -> its client."""


class HarnessError(Exception):
    """The harness itself failed; the run is no evidence about the system under test."""


class Interpreter:
    """One run of one generator by `concurrency` client workers and the nemesis."""

    def __init__(
        self,
        generator: Generator,
        recorder: Recorder,
        make_client: ClientFactory,
        concurrency: int,
        bound_s: float | None = None,
    ) -> None:
        """`bound_s`: after which an operation of a client is ended; None: never."""
        assert concurrency >= 1, "a run has clients"
        self._generator = generator
        self._recorder = recorder
        self._make_client = make_client
        self._concurrency = concurrency
        self._bound_s = bound_s
        self._workers: tuple[Worker, ...] = (*range(concurrency), NEMESIS)
        self._waiters: list[asyncio.Future[None]] = []
        """Of workers that wait for news; some may have stopped waiting."""
        self._clients: dict[Worker, WorkloadClient] = {}
        self._processes: dict[Worker, int | str] = {worker: worker for worker in self._workers}

    async def run(self, generator: Generator | None = None) -> None:
        """Run until the generator is done for every worker.

        A further generator may be given later: processes and clients go on. Raises HarnessError;
        on cancellation all workers stop at once and open operations stay open in the journal.
        """
        if generator is not None:
            self._generator = generator
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self._workers:
                    work = not_cancelled(self._work(worker))  # what a package raises is no exit
                    group.create_task(work, name=f"worker {worker}")
        except ExceptionGroup as errors:  # not `except*`, which wraps what is raised before 3.11.4
            first = _first(errors)
            raise first from first.__cause__

    async def close(self) -> None:
        """Close every client."""
        clients, self._clients = self._clients, {}
        if self._bound_s is None:
            for worker in self._workers:
                if worker in clients:
                    await clients[worker].close()
            return
        await asyncio.gather(*(_close_in_time(client) for client in clients.values()))

    async def _work(self, worker: Worker) -> None:
        while True:
            now_ns = self._recorder.now_ns()
            answer = self._generator.op(self._context(worker, now_ns))
            if isinstance(answer, Done):
                return
            if isinstance(answer, Next):
                await self._sleep(answer.at_ns - now_ns)
                await self._perform(worker, answer.op)
            elif answer.news:
                await self._wait_for_news(answer.until_ns)
            else:
                assert answer.until_ns is not None, "see Wait"
                await self._sleep(answer.until_ns - now_ns)

    async def _perform(self, worker: Worker, op: Op) -> None:
        process = self._processes[worker]
        client = self._clients.get(worker)
        if client is None:
            client = self._clients[worker] = self._make_client(worker, process)
        self._update(worker, self._recorder.invoke(process, op))
        try:
            completion = await self._invoke(worker, client, op)
        except Exception as error:
            raise HarnessError(
                f"process {process}, {op.f} {op.key or ''}: {type(error).__name__}: {error}"
            ) from error
        assert isinstance(completion, Completion), "a client answers with a completion"
        self._update(worker, self._recorder.complete(process, op, completion))
        if completion.type is EventType.INFO and isinstance(process, int):
            self._processes[worker] = process + self._concurrency
            del self._clients[worker]
            await self._close(client)
        self._wake()

    async def _invoke(self, worker: Worker, client: WorkloadClient, op: Op) -> Completion:
        """Let the client perform an operation, in bounded time."""
        if self._bound_s is None or worker == NEMESIS:  # `nemeses.drive` bounds faults
            return await not_cancelled(client.invoke(op))
        try:
            return await in_time(not_cancelled(client.invoke(op)), self._bound_s)
        except OutOfTimeError:
            return Completion(EventType.INFO, op.value, f"{HUNG} {self._bound_s:g} s")

    async def _close(self, client: WorkloadClient) -> None:
        if self._bound_s is None:
            await client.close()
        else:
            await _close_in_time(client)

    def _update(self, worker: Worker, event: Event) -> None:
        self._generator.update(self._context(worker, event.time_ns), event)

    def _context(self, worker: Worker, now_ns: int) -> Context:
        return Context(now_ns, worker, self._workers, self._wake)

    def _sleep(self, duration_ns: int) -> Coroutine[None, None, None]:
        # Suspends even for no time, so that no worker can starve the others.
        return asyncio.sleep(max(0, duration_ns) / NANOSECONDS)

    async def _wait_for_news(self, until_ns: int | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer: asyncio.TimerHandle | None = None
        if until_ns is not None:
            timeout_s = max(0, until_ns - self._recorder.now_ns()) / NANOSECONDS
            timer = loop.call_later(timeout_s, _release, (waiter,))
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiters:
            # Soon, not now: what is ready already goes first, as with a future that all wait for.
            waiters, self._waiters = self._waiters, []
            asyncio.get_running_loop().call_soon(_release, waiters)


def _release(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


async def _close_in_time(client: WorkloadClient) -> None:
    with contextlib.suppress(OutOfTimeError):
        await in_time(not_cancelled(client.close()), CLOSE_BOUND_S)


def _first(errors: ExceptionGroup[Exception]) -> HarnessError:
    """Return the first error as a HarnessError; other errors (of the journal) are wrapped."""
    error = errors.exceptions[0]
    if isinstance(error, HarnessError):
        return error
    failed = HarnessError(f"{type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed

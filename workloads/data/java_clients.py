"""Kafka's own Java clients as the clients of a run: one JVM for all processes of the run.

`cluster/client/java/Clients.java` is run from its source, with the jar files of the release under
test: whatever is wrong with the clients of this release is in the history. Requests and answers are
lines of fields with tabs between. The JVM is started by the first client and ends with the last
one, or with this process, since it ends with its input; the terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cluster.backends.terms import BackendError
from workloads.base import ClientContext
from workloads.data.leads import Budget, Stopped

JAVA: Final = "java"
SOURCE: Final = Path(__file__).parents[2] / "cluster/client/java/Clients.java"
NOT_READY: Final = "clients-not-ready"
SILENCE: Final = "timed-out"
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
_END_S: Final = 5.0
_LINE_BYTES: Final = 1 << 20


class _Jvm:
    """A JVM with its clients."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[tuple[str, str], asyncio.Future[list[str]]] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.ensure_future(self._read())
        self._count = 0

    @classmethod
    async def start(cls, command: Sequence[str]) -> _Jvm:
        """Start it. Raises BackendError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"{command[0]} cannot be started: {error.strerror}") from error
        return cls(process)

    async def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        async for line in self._process.stdout:
            client, number, *fields = [*line.decode().rstrip("\n").split("\t"), ""]
            if client == "ready":
                self._ready.set_result(None)
            future = self._waiting.pop((client, number), None)
            if future is not None and not future.done():
                future.set_result(fields[:-1])
        error = BackendError(
            "the JVM of Kafka's own clients ended; its class path or its Java does not fit it"
        )
        before, self._ready = self._ready, asyncio.get_running_loop().create_future()
        open_futures: list[asyncio.Future[Any]] = [before, self._ready, *self._waiting.values()]
        for each in open_futures:
            if not each.done():
                each.set_exception(error)
                each.exception()  # nobody may wait for it

    async def wait(self, timeout_ms: float) -> bool:
        """Return whether it can be asked within a time. Raises BackendError where it ended."""
        done, _ = await asyncio.wait({self._ready}, timeout=timeout_ms / 1000.0)
        for future in done:
            future.result()
        return bool(done)

    async def call(self, client: str, fields: Sequence[str], timeout_ms: float) -> list[str] | None:
        """Ask, and return the fields of the answer; None where there is none in time."""
        assert self._process.stdin is not None, "it is a pipe"
        self._count += 1
        number = str(self._count)
        future = asyncio.get_running_loop().create_future()
        self._waiting[client, number] = future
        self.tell(client, number, *fields)
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000.0)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop((client, number), None)

    def tell(self, *fields: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None, "it is a pipe"
        assert not any(set("\t\n") & set(field) for field in fields), "fields have no separators"
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(("\t".join(fields) + "\n").encode())

    async def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()


class _Shared:
    """The JVM of a run, and how many clients it has."""

    def __init__(self, command: Sequence[str]) -> None:
        self.jvm = asyncio.ensure_future(_Jvm.start(command))
        self.users = 0


_shared: dict[asyncio.AbstractEventLoop, _Shared] = {}


class JavaClient:
    """One process's client."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._name = f"{context.worker}.{context.process}"
        self._used: _Shared | None = None

    async def call(self, *fields: str, budget: Budget) -> list[str] | None:
        """Ask; None: it may have been done, and there was no answer in time.

        Raises Stopped where nothing was asked, BackendError where there is no JVM any more.
        """
        loop = asyncio.get_running_loop()
        if self._used is None:
            if loop not in _shared:
                _shared[loop] = _Shared(self._command())
            self._used = _shared[loop]
            self._used.users += 1
        jvm = await asyncio.shield(self._used.jvm)
        if not await jvm.wait(budget.left_ms):
            raise Stopped(NOT_READY, self._context.nodes_at("CLIENT")[0])
        return await jvm.call(self._name, fields, budget.left_ms)

    def _command(self) -> tuple[str, ...]:
        context = self._context
        endpoints = [context.endpoint(node, "CLIENT") for node in context.nodes_at("CLIENT")]
        servers = ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
        java, *path = context.java()
        return (java, *_OPTIONS, *path, str(SOURCE), servers, str(round(context.timeout_ms)))

    async def close(self) -> None:
        """End the client, and the JVM with the last one."""
        if self._used is None:
            return
        used, self._used = self._used, None
        jvm = await asyncio.shield(used.jvm)
        jvm.tell(self._name, "", "close")
        used.users -= 1
        if not used.users:
            _shared.pop(asyncio.get_running_loop(), None)
            await jvm.close()

"""The harness's end of a stream to an agent: requests beside each other, answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from cluster.backends.abilities import Completed
from cluster.backends.agent import frames
from cluster.backends.agent.frames import Message
from cluster.backends.terms import BackendError

ASK_S = 30.0
_GRACE_S = 5.0
"""How much longer than a command may take its answer is waited for."""
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Caller(Protocol):
    """Whatever brings requests to an agent."""

    async def call(
        self, do: str, payload: bytes = b"", *, timeout_s: float | None = ASK_S, **fields: Any
    ) -> Message:
        """Ask the agent. Raises BackendError when it refuses or does not answer."""


async def run(
    agent: Caller, command: Sequence[str], stdin: bytes, limit_s: float, *, wait: bool = False
) -> Completed:
    """Run a command in an agent's host. Raises BackendError as `Host.run` does.

    `wait`: for the answer as long as it takes; the agent may be cut off from here and come back.
    """
    timeout_s = None if wait else limit_s + _GRACE_S
    answer = await agent.call(
        "run", stdin, command=list(command), limit_s=limit_s, timeout_s=timeout_s
    )
    split = int(answer.fields["split"])
    code = int(answer.fields["exit_code"])
    return Completed(code, answer.payload[:split], answer.payload[split:])


class Channel:
    """One agent's. Opened when it is first used, and again after the agent was away.

    `where`: what does not answer then, as "its container".
    """

    def __init__(self, name: str, where: str, open_stream: Callable[[], Awaitable[Stream]]) -> None:
        self._name = name
        self._where = where
        self._open_stream = open_stream
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._seen: list[int] = []
        """Requests with answers that have come since the last request."""

    async def call(
        self, do: str, payload: bytes = b"", *, timeout_s: float | None = ASK_S, **fields: Any
    ) -> Message:
        number = next(self._numbers)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                writer = await self._open()
                self._waiting[number] = answer
                seen, self._seen = self._seen, []
                request = Message({**fields, "do": do, "id": number, "seen": seen}, payload)
                writer.write(frames.encode(request))
                await writer.drain()
                answered = await answer
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"not within {timeout_s:g} s"
            raise BackendError(f"{self._name}: {self._where} does not answer: {reason}") from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answered.fields:
            raise BackendError(f"{self._name}: {answered.fields['error']}")
        return answered

    async def close(self) -> None:
        """Hang up; the agent ends by that. Idempotent."""
        self.hang_up()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
            self._reading = None

    def hang_up(self, why: str = "the connection was closed") -> None:
        """Close the stream; what waits fails."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(why))

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                await self.close()
                reader, self._writer = await self._open_stream()
                self._reading = asyncio.get_running_loop().create_task(self._read(reader))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to their requests.

        Anything else makes the whole stream untrustworthy: an engine, too, writes here, when it
        cannot run the agent.
        """
        try:
            while True:
                answer = await frames.read(reader)
                self._seen.append(answer.fields["id"])
                waiting = self._waiting.get(answer.fields["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except frames.NotAMessageError as error:
            self.hang_up(f"not an answer: {error}")
        except asyncio.IncompleteReadError:
            self.hang_up("the connection ended")
        except OSError as error:
            self.hang_up(str(error))

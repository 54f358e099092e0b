"""A host's agent at the end of an ssh connection that may be lost and come back.

One channel stays open to the agent (`cluster.backends.agent`), so a request costs a round trip
and no new process. Paramiko blocks: one thread reads, one writes; requests are futures that any
thread or coroutine can wait for. When the connection is lost it is made again with growing pauses;
requests under way are sent again and done once (the agent knows their numbers). When no answer
comes in time (`Inventory.reconnect_s`), or the host now shows another key, every request fails with
one line. Only an answer ends an outage: a host whose agent is gone takes every connection and ends
it at once, and would be connected to for ever.

Where a network swallows all packets no connection ends for a quarter of an hour and more. So both
ends listen for each other: the agent is asked something every few seconds, and a connection over
which nothing comes for long is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import paramiko

from cluster.backends.agent import frames
from cluster.backends.agent.channel import ASK_S
from cluster.backends.agent.frames import Message
from cluster.backends.ssh.connection import NotConnectedError, connect, open_channel
from cluster.backends.ssh.inventory import HostEntry, Inventory
from cluster.backends.terms import BackendError

_PAUSE_S = 0.1
_PAUSE_MAX_S = 2.0
_ASK_EVERY_S = 2.0
_SILENCE_S = 15.0
"""A busy host may need long for an answer."""


@dataclass(slots=True)
class _Request:
    message: bytes
    future: Future[Message]


class Session:
    """See the module. `open` blocks; `call` is for coroutines, `call_now` for threads."""

    def __init__(
        self, node: str, entry: HostEntry, inventory: Inventory, relay: Sequence[str]
    ) -> None:
        self.node = node
        self.host = f"host {node} ({entry.where})"
        self.ended: Future[None] = Future()
        """Done when the session was closed."""
        self.reconnects = 0
        """How often a lost connection was made again."""
        self.failure: BackendError | None = None
        """Why every request fails from now on; None: none does."""
        self._entry = entry
        self._inventory = inventory
        self._relay = shlex.join(relay)
        self._lock = threading.Lock()
        self._waiting: dict[int, _Request] = {}
        self._number = 0
        self._seen: list[int] = []
        """Requests with answers that have come since the last request."""
        self._writing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._client: paramiko.SSHClient | None = None
        self._channel: paramiko.Channel | None = None
        self._lost_s: float | None = None
        """Since when the connection is lost; None: an answer has come since."""
        self._pause_s = _PAUSE_S
        self._closed = False

    def open(self, client: paramiko.SSHClient) -> None:
        """Join the agent over this connection, which is the session's from here on."""
        self._join(client)
        for act in (self._read_forever, self._write_forever):
            threading.Thread(target=act, name=f"ssh-{self.node}", daemon=True).start()

    async def call(
        self, do: str, payload: bytes = b"", *, timeout_s: float | None = ASK_S, **fields: Any
    ) -> Message:
        """See `Caller.call`: where the connection is lost it is refused."""
        future = self._submit(do, payload, fields)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise BackendError(f"{self.host} does not answer within {timeout_s:g} s") from None

    def call_now(self, do: str, *, timeout_s: float, **fields: Any) -> Message:
        """Ask the agent without an event loop. Raises BackendError."""
        try:
            return self._submit(do, b"", fields).result(timeout_s)
        except TimeoutError:
            raise BackendError(f"{self.host} does not answer within {timeout_s:g} s") from None

    def close(self) -> None:
        """End the connection; what waits fails. Idempotent."""
        with self._lock:
            self._closed = True
        if not self.ended.done():
            self.ended.set_result(None)
        self._fail(BackendError(f"{self.host}: the connection was closed"))
        self._writing.put(None)
        if self._client is not None:
            self._client.close()

    # -- threads ---------------------------------------------------------------------------------

    def _submit(self, do: str, payload: bytes, fields: dict[str, Any]) -> Future[Message]:
        future: Future[Message] = Future()
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._number += 1
            seen, self._seen = self._seen, []
            request = {**fields, "do": do, "id": self._number, "seen": seen}
            message = frames.encode(Message(request, payload))
            self._waiting[self._number] = _Request(message, future)
            self._writing.put(message)
        return future

    def _write_forever(self) -> None:
        every_s = min(_ASK_EVERY_S, self._inventory.grace_s / 4)
        while True:
            try:
                message = self._writing.get(timeout=every_s)
            except queue.Empty:
                with contextlib.suppress(BackendError):
                    self._submit("ready", b"", {})
                continue
            if message is None:
                return
            # What cannot be written is sent again once the reader has noticed and reconnected.
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                channel = self._channel
                if channel is not None:
                    channel.sendall(message)

    def _read_forever(self) -> None:
        while not self._closed:
            try:
                self._read_answers()
            except (OSError, EOFError, ValueError, paramiko.SSHException) as error:
                if self._closed:
                    return
                try:
                    self._reconnect(error)
                except BackendError as failure:
                    self._fail(failure)
                    return

    def _read_answers(self) -> None:
        channel = self._channel
        assert channel is not None, "joined"
        while True:
            sizes = frames.lengths(_exactly(channel.recv, frames.LENGTHS.size))
            answer = frames.decode(*(_exactly(channel.recv, size) for size in sizes))
            self._lost_s = None
            with self._lock:
                request = self._waiting.pop(answer.fields["id"], None)
                if request is not None:
                    self._seen.append(answer.fields["id"])
            if request is None or not request.future.set_running_or_notify_cancel():
                continue
            if "error" in answer.fields:
                refused = BackendError(f"{self.node}: {answer.fields['error']}")
                request.future.set_exception(refused)
            else:
                request.future.set_result(answer)

    def _reconnect(self, lost: BaseException) -> None:
        """Connect again with growing pauses. Raises BackendError when that is hopeless."""
        reason = " ".join(str(lost).split()) or "the connection ended"
        if self._lost_s is None:
            self._lost_s, self._pause_s = time.monotonic(), _PAUSE_S
        else:
            self._pause(self._lost_s, reason)
        while not self._closed:
            try:
                self._join(connect(self._entry, self._inventory, self.node))
            except NotConnectedError as error:
                reason = str(error)
                if error.final:
                    raise
            except (OSError, EOFError, paramiko.SSHException) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
            else:
                self.reconnects += 1
                with self._lock:
                    for request in self._waiting.values():
                        self._writing.put(request.message)
                self._submit("ready", b"", {})
                return
            self._pause(self._lost_s, reason)

    def _pause(self, lost_s: float, reason: str) -> None:
        """Wait before the next attempt. Raises BackendError when it has lasted too long."""
        if time.monotonic() + self._pause_s > lost_s + self._inventory.reconnect_s:
            raise BackendError(
                f"{self.host}: the connection was lost and did not come back within "
                f"{self._inventory.reconnect_s:g} s: {reason}"
            )
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

    def _join(self, client: paramiko.SSHClient) -> None:
        if self._client is not None:
            self._client.close()
        # A close that came while it connected did not see this client, a later one does.
        with self._lock:
            self._client, closed = client, self._closed
        if closed:
            client.close()
            raise EOFError("the session was closed")
        channel = open_channel(client, self._relay)
        channel.settimeout(_SILENCE_S)
        self._channel = channel

    def _fail(self, failure: BackendError) -> None:
        with self._lock:
            self.failure = self.failure or failure
            waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(failure)


def _exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    """Read that many bytes. Raises EOFError when the stream ends before."""
    parts = bytearray()
    while len(parts) < count:
        part = receive(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError("the connection ended")
        parts += part
    return bytes(parts)

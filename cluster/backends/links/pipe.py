"""One direction of one proxied connection, and the gate that lets it pass or not.

Raw sockets with `add_reader` and `add_writer` instead of transports, for two reasons. A transport
goes on sending what it has buffered while the link is cut; here nothing at all leaves once the
gate is shut. And this is on the path of every replicated record: a readable socket costs one
`recv_into` and one `send`.

Memory is bounded: a pipe holds at most one chunk, on a link with a delay `DELAYED_BYTES`, then it
stops reading, and the kernel's own flow control does the rest.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

CHUNK_BYTES = 64 * 1024
DELAYED_BYTES = 1024 * 1024

_buffer = bytearray(CHUNK_BYTES)  # filled and emptied within one callback of the loop's thread
_view = memoryview(_buffer)


class Gated(Protocol):
    """What waits at a gate."""

    def gate_opened(self) -> None:
        """Go on."""

    def gate_shut(self) -> None:
        """Stop at once."""


class Gate:
    """Whether bytes may travel a directed link; one for all connections, whichever side dialled."""

    def __init__(self) -> None:
        self.shut = False
        self.passed_bytes = 0
        self.passed_at_cut_bytes = 0
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self._members: dict[Gated, None] = {}

    def join(self, member: Gated) -> None:
        """Notify this member from now on when the gate opens or shuts."""
        self._members[member] = None

    def leave(self, member: Gated) -> None:
        """Forget a member; harmless when it is not one."""
        self._members.pop(member, None)

    def close(self) -> None:
        """Shut it: no byte passes after this call."""
        if not self.shut:
            self.shut = True
            self.passed_at_cut_bytes = self.passed_bytes
            for member in tuple(self._members):
                member.gate_shut()

    def open(self) -> None:
        """Open it: what was held flows."""
        if self.shut:
            self.shut = False
            for member in tuple(self._members):
                member.gate_opened()

    def slow_down(self, delay_s: float, jitter_s: float) -> None:
        """Let bytes travel this long from now on; without a delay what is on its way arrives."""
        self.delay_s, self.jitter_s = delay_s, jitter_s
        if not self.shut:
            for member in tuple(self._members):
                member.gate_shut()
                member.gate_opened()

    def travel_s(self) -> float:
        """Draw how long bytes that set out now travel."""
        return max(0.0, self.delay_s + random.uniform(-self.jitter_s, self.jitter_s))

    @property
    def passed_since_cut_bytes(self) -> int | None:
        """What passed since it was shut; None while it is open."""
        return self.passed_bytes - self.passed_at_cut_bytes if self.shut else None


class Pipe:
    """Carries bytes from one socket to another while its gate is open.

    The end of either socket is reported once, with that socket; the pipe is stopped by then.
    A socket that is half closed counts as ended: no Kafka client or node half-closes.
    """

    __slots__ = (
        "_delayed",
        "_delayed_bytes",
        "_ended",
        "_gate",
        "_last_due_s",
        "_loop",
        "_on_dead",
        "_pending",
        "_sink",
        "_source",
        "_stopped",
        "_timer",
    )

    def __init__(
        self,
        gate: Gate,
        source: socket.socket,
        sink: socket.socket,
        early: bytes,
        on_dead: Callable[[socket.socket], None],
    ) -> None:
        """`early`: read from the source before."""
        self._loop = asyncio.get_running_loop()
        self._gate = gate
        self._source = source
        self._sink = sink
        self._pending = early
        self._on_dead = on_dead
        self._stopped = False
        self._delayed: deque[tuple[float, bytes]] = deque()
        """What is on its way: (when it arrives, on the loop's clock, and the bytes)."""
        self._delayed_bytes = 0
        self._last_due_s = 0.0
        self._ended = False
        """The source has said all, and the last of it is still on its way."""
        self._timer: asyncio.TimerHandle | None = None
        gate.join(self)
        if not gate.shut:
            self.gate_opened()

    def gate_opened(self) -> None:
        """Go on where it stopped."""
        assert not self._stopped, "a stopped pipe has left its gate"
        if self._pending:
            self._loop.add_writer(self._sink, self._writable)
        else:
            self._go_on()

    def gate_shut(self) -> None:
        """Neither read nor write."""
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Carry nothing any more; the sockets stay as they are."""
        if not self._stopped:
            self._stopped = True
            self._gate.leave(self)
            self.gate_shut()

    def _readable(self) -> None:
        try:
            size = self._source.recv_into(_buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        data = _view[:size]
        if self._delayed or self._gate.delay_s:
            self._delay(bytes(data))
            return
        if size == 0:
            self._die(self._source)
            return
        sent = self._send(data)
        if sent < size and not self._stopped:
            self._pending = bytes(data[sent:])
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._writable)

    def _writable(self) -> None:
        sent = self._send(memoryview(self._pending))
        self._pending = self._pending[sent:]
        if not self._pending and not self._stopped:
            self._loop.remove_writer(self._sink)
            self._go_on()

    def _go_on(self) -> None:
        """Read, and wait for what is on its way; all that was to be written is."""
        if self._delayed:
            # Without a delay now, nothing travels any longer.
            due_s = self._delayed[0][0] if self._gate.delay_s else 0.0
            self._timer = self._loop.call_at(due_s, self._arrive)
        if not self._ended and self._delayed_bytes < DELAYED_BYTES:
            self._loop.add_reader(self._source, self._readable)

    def _delay(self, data: bytes) -> None:
        """Let bytes travel; none (the source's end) are news that travels, too."""
        self._last_due_s = max(self._last_due_s, self._loop.time() + self._gate.travel_s())
        self._delayed.append((self._last_due_s, data))
        self._delayed_bytes += len(data)
        self._ended = not data
        if self._ended or self._delayed_bytes >= DELAYED_BYTES:
            self._loop.remove_reader(self._source)
        if len(self._delayed) == 1 and not self._pending and not self._gate.shut:
            self._timer = self._loop.call_at(self._last_due_s, self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        _, data = self._delayed.popleft()
        self._delayed_bytes -= len(data)
        if not data:
            self._die(self._source)
            return
        sent = self._send(memoryview(data))
        if self._stopped:
            return
        self._pending = data[sent:]
        if self._pending:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._writable)
        else:
            self._go_on()

    def _send(self, data: memoryview) -> int:
        assert not self._gate.shut, "nothing passes a shut gate"
        try:
            sent = self._sink.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._die(self._sink)
            return 0
        self._gate.passed_bytes += sent
        return sent

    def _die(self, dead: socket.socket) -> None:
        self.stop()
        self._on_dead(dead)

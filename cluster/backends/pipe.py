"""One direction of one proxied connection, and the gate that lets it pass or not.

Raw sockets with `add_reader` and `add_writer` instead of transports, for two reasons. A transport
goes on sending what it has buffered while the link is cut; here nothing at all leaves once the
gate is shut. And this is on the path of every replicated record: a readable socket costs one
`recv_into` and one `send`.

Memory is bounded: a pipe holds at most one chunk, then stops reading, and the kernel's own flow
control does the rest.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from cluster.backends.base import Link

CHUNK_BYTES = 64 * 1024

_buffer = bytearray(CHUNK_BYTES)  # filled and emptied within one callback of the loop's thread
_view = memoryview(_buffer)


class Gated(Protocol):
    """What waits at a gate."""

    def gate_opened(self) -> None:
        """Go on."""

    def gate_shut(self) -> None:
        """Stop at once."""


class Gate:
    """Whether bytes may travel a directed link; one for all connections, whoever dialled them."""

    def __init__(self, link: Link | None) -> None:
        self.link = link
        self.shut = False
        self.passed_bytes = 0
        self.passed_at_cut_bytes = 0
        self._members: dict[Gated, None] = {}

    def join(self, member: Gated) -> None:
        """Tell this member from now on when the gate opens or shuts."""
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

    @property
    def passed_since_cut_bytes(self) -> int | None:
        """What passed since it was shut; None while it is open."""
        return self.passed_bytes - self.passed_at_cut_bytes if self.shut else None


class Pipe:
    """Carries bytes from one socket to another while its gate is open.

    The end of either socket is reported once, with that socket; the pipe is stopped by then.
    A socket that is half closed counts as ended: no Kafka client or node half-closes.
    """

    __slots__ = ("_gate", "_loop", "_on_dead", "_pending", "_sink", "_source", "_stopped")

    def __init__(
        self,
        gate: Gate,
        source: socket.socket,
        sink: socket.socket,
        early: bytes,
        on_dead: Callable[[socket.socket], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._gate = gate
        self._source = source
        self._sink = sink
        self._pending = early  # read from the source before this pipe was there
        self._on_dead = on_dead
        self._stopped = False
        gate.join(self)
        if not gate.shut:
            self.gate_opened()

    def gate_opened(self) -> None:
        """Go on where it stopped."""
        assert not self._stopped, "a stopped pipe has left its gate"
        if self._pending:
            self._loop.add_writer(self._sink, self._writable)
        else:
            self._loop.add_reader(self._source, self._readable)

    def gate_shut(self) -> None:
        """Neither read nor write."""
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)

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
        if size == 0:
            self._die(self._source)
            return
        sent = self._send(_view[:size])
        if sent < size and not self._stopped:
            self._pending = bytes(_view[sent:size])
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._writable)

    def _writable(self) -> None:
        sent = self._send(memoryview(self._pending))
        self._pending = self._pending[sent:]
        if not self._pending and not self._stopped:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._readable)

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

"""One proxied connection: its two directions, and what its ends learn of each other."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable

from cluster.backends.links.pipe import CHUNK_BYTES, Gate, Gated, Pipe

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of zero seconds: close() sends RST


class _HeldClose(Gated):
    """A socket that is to be closed, once the gate lets its peer know."""

    def __init__(self, gate: Gate, held: socket.socket) -> None:
        self._gate = gate
        self._socket = held
        if gate.shut:
            gate.join(self)
        else:
            held.close()

    def gate_opened(self) -> None:
        self._gate.leave(self)
        self._socket.close()

    def gate_shut(self) -> None:
        """Wait on."""


class Connection(Gated):
    """One proxied connection: `near` was accepted from the dialler, `far` goes to the target."""

    def __init__(
        self,
        near: socket.socket,
        target: tuple[str, int],
        forward: Gate,
        back: Gate,
        on_closed: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._near = near
        self._far: socket.socket | None = None
        self._target = target
        self._forward = forward
        self._back = back
        self._on_closed = on_closed
        self._early = b""
        self._pipes: tuple[Pipe, ...] = ()
        self._closed = False
        if forward.shut:
            forward.join(self)
            self._loop.add_reader(near, self._collect)
        else:
            self._connect()

    def gate_opened(self) -> None:
        """Dial the target now that it may hear of the connection."""
        self._forward.leave(self)
        self._loop.remove_reader(self._near)
        self._connect()

    def gate_shut(self) -> None:
        """Nothing: it joins the gate only while that is shut."""

    def has_answer(self) -> bool:
        """Whether bytes from the target have reached this side of it, passed on or not."""
        if self._far is None or self._closed:
            return False
        try:
            return bool(self._far.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        """End both sides at once, whatever the gates say."""
        self._detach()
        self._near.close()
        if self._far is not None:
            self._far.close()

    def _collect(self) -> None:
        """While held: keep the first bytes, and notice when the dialler gives up."""
        try:
            data = self._near.recv(CHUNK_BYTES - len(self._early))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._early += data
        if len(self._early) == CHUNK_BYTES:
            self._loop.remove_reader(self._near)

    def _connect(self) -> None:
        self._far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._far.setblocking(False)  # noqa: FBT003  (takes no keyword)
        self._far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._far.connect_ex(self._target)
        if code in (0, errno.EINPROGRESS):
            self._loop.add_writer(self._far, self._on_connect)
        else:
            self._on_refusal(self._far)

    def _on_connect(self) -> None:
        assert self._far is not None, "connecting"
        self._loop.remove_writer(self._far)
        if self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._on_refusal(self._far)
            return
        near, far = self._near, self._far
        self._pipes = (
            Pipe(self._forward, near, far, self._early, self._dead),
            Pipe(self._back, far, near, b"", self._dead),
        )

    def _on_refusal(self, far: socket.socket) -> None:
        self._near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._dead(far)

    def _dead(self, dead: socket.socket) -> None:
        """Close the socket that ended, and the other one when its peer may hear of it."""
        assert self._far is not None, "only a connection with two ends has news to pass on"
        self._detach()
        dead.close()
        if dead is self._near:
            _HeldClose(self._forward, self._far)
        else:
            _HeldClose(self._back, self._near)

    def _detach(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._forward.leave(self)
        for pipe in self._pipes:
            pipe.stop()
        for sock in (self._near, self._far):
            if sock is not None and sock.fileno() >= 0:
                self._loop.remove_reader(sock)
                self._loop.remove_writer(sock)
        self._on_closed()

"""TCP proxies between nodes: one listener for each ordered pair of nodes, one gate for each link.

Node a reaches node b through the proxy (a, b). A connection carries bytes both ways, so it uses two
links: (a, b) forward and (b, a) back. Cutting the link (a, b) therefore shuts the gate for what a
says to b on connections that a dialled and on connections that b dialled.

What a cut is like, beside a cut of the wire:

- Bytes are held, not lost, and flow after the restore, as TCP would retransmit them. A request that
  its caller has long given up may so arrive late; with real TCP it may, too.
- A connection that is new during the cut is accepted by this machine's kernel, but b hears of it
  only after the restore; if a has closed it by then, never.
- The news that one end closed or reset a connection is information too: it travels the same
  link as the bytes before it, and is held with them.
- With (b, a) alone cut, a new connection from a still reaches b (real TCP could not complete its
  handshake): what a says arrives and what b says does not, which is the harder case for a protocol.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterable, Sequence

from cluster.backends.base import Link, LinkMeasure
from cluster.backends.linkmessages import Sieve, Stream
from cluster.backends.pipe import CHUNK_BYTES, Gate, Gated, Pipe
from cluster.node.ports import Endpoint
from cluster.node.protocol.frames import FrameError, FrameSplitter

HOST = "127.0.0.1"
_BACKLOG = 128
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of zero seconds: close() sends RST
_ACCEPT_AGAIN_S = 0.1
_POLL_S = 0.002


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
        sieves: tuple[Sieve, Sieve] | None,
    ) -> None:
        """`sieves`: of both links, forward and back; None: no message of it is held."""
        self._loop = asyncio.get_running_loop()
        self._near = near
        self._far: socket.socket | None = None
        self._target = target
        self._forward = forward
        self._back = back
        self._on_closed = on_closed
        self._sieves = sieves
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

    def answered(self) -> bool:
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
            self._loop.add_writer(self._far, self._connected)
        else:
            self._refused(self._far)

    def _connected(self) -> None:
        assert self._far is not None, "connecting"
        self._loop.remove_writer(self._far)
        if self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused(self._far)
            return
        near, far = self._near, self._far
        requests = responses = None
        if self._sieves is not None:
            unanswered: dict[int, int] = {}
            requests = Stream(self._sieves[0], unanswered, requests=True)
            responses = Stream(self._sieves[1], unanswered, requests=False)
        self._pipes = (
            Pipe(self._forward, near, far, self._early, self._dead, requests),
            Pipe(self._back, far, near, b"", self._dead, responses),
        )

    def _refused(self, far: socket.socket) -> None:
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


class _Listener:
    """The proxy of one ordered pair: where `link[0]` dials `link[1]`."""

    def __init__(
        self,
        link: Link,
        gates: dict[Link, Gate],
        sieves: dict[Link, Sieve],
        target: Callable[[str], Endpoint],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._forward = gates[link]
        self._back = gates[link[::-1]]
        self._sieves = sieves[link], sieves[link[::-1]]
        self._target = target
        self.connections: dict[int, Connection] = {}
        """By the dialler's port; negative: by our own number, of what we dial."""
        self._dialled = 0
        self.exempt_ports: set[int] = set()
        """Diallers with forward bytes that pass a shut gate; see `LinkProxies.measure`."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind((HOST, 0))
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)  # noqa: FBT003  (takes no keyword)
        self.port: int = self._socket.getsockname()[1]
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        for connection in tuple(self.connections.values()):
            connection.close()

    def _accept(self) -> None:
        try:
            near, (_, port) = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # out of descriptors: the listener would be readable for ever
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_again)
            return
        near.setblocking(False)  # noqa: FBT003  (takes no keyword)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        forward = Gate(None) if port in self.exempt_ports else self._forward
        self._admit(near, port, forward, self._sieves)

    def dial(self) -> socket.socket:
        """Dial the target once more, as the source; no message of this connection is held."""
        ours, near = socket.socketpair()
        for end in (ours, near):
            end.setblocking(False)  # noqa: FBT003  (takes no keyword)
        self._dialled += 1
        self._admit(near, -self._dialled, self._forward, None)
        return ours

    def _admit(
        self, near: socket.socket, port: int, forward: Gate, sieves: tuple[Sieve, Sieve] | None
    ) -> None:
        target = self._target(self._link[1])
        closed_early = False

        def closed() -> None:
            nonlocal closed_early
            closed_early = self.connections.pop(port, None) is None

        address = (target.host, target.port)
        connection = Connection(near, address, forward, self._back, closed, sieves)
        if not closed_early:
            self.connections[port] = connection

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)


class LinkProxies:
    """All proxies between some nodes. Lives in the running event loop; open it there."""

    def __init__(self, nodes: Sequence[str], target: Callable[[str], Endpoint]) -> None:
        links = [(a, b) for a in nodes for b in nodes if a != b]
        self._gates = {link: Gate(link) for link in links}
        self.sieves = {link: Sieve(link) for link in links}
        self._saying: set[asyncio.Task[None]] = set()
        self._listeners: dict[Link, _Listener] = {}
        self._target = target

    def open(self) -> None:
        """Listen for every ordered pair. Raises OSError."""
        assert not self._listeners, "opened once"
        for link in self._gates:
            self._listeners[link] = _Listener(link, self._gates, self.sieves, self._target)

    def close(self) -> None:
        """End every connection and listener at once; idempotent."""
        for saying in self._saying:
            saying.cancel()
        for listener in self._listeners.values():
            listener.close()
        for gate in self._gates.values():
            gate.open()  # lets go of sockets not closed until now
        self._listeners.clear()

    def port(self, source: str, target: str) -> int:
        """Return the port at which `source` dials `target` on this machine."""
        return self._listeners[source, target].port

    def cut(self, links: Iterable[Link]) -> None:
        """Let nothing pass on these links any more, from this call on. KeyError: no such link."""
        for gate in [self._gates[link] for link in links]:
            gate.close()

    def restore(self, links: Iterable[Link]) -> None:
        """Let bytes pass on these links again. KeyError: no such link."""
        for gate in [self._gates[link] for link in links]:
            gate.open()

    def links_cut(self) -> frozenset[Link]:
        """Name the links with shut gates."""
        return frozenset(link for link, gate in self._gates.items() if gate.shut)

    @property
    def are_open(self) -> bool:
        """Whether nodes can be dialled through them now."""
        return bool(self._listeners)

    def slow_down(self, link: Link, delay_ms: float, jitter_ms: float) -> None:
        """Let bytes travel this long over the link from now on; 0 is no time."""
        self._gates[link].slow_down(delay_ms / 1000, jitter_ms / 1000)

    def say_anew(self, link: Link, frames: Sequence[bytes]) -> None:
        """Send requests over the link on a connection of their own; their responses are lost."""
        dialled = self._listeners[link].dial()
        saying = asyncio.get_running_loop().create_task(_say(dialled, frames))
        self._saying.add(saying)
        saying.add_done_callback(self._saying.discard)
        saying.add_done_callback(lambda _: dialled.close())  # cancelled before it began

    async def round_trip_ms(self, link: Link, ping: bytes, timeout_s: float) -> float | None:
        """Time one ping over the link and its answer over the opposite one; None: none came."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(HOST, self.port(*link))
                try:
                    writer.write(ping)
                    if not await reader.read(1):
                        return None
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None
        return (loop.time() - began_s) * 1000

    async def measure(self, link: Link, ping: bytes, timeout_s: float) -> LinkMeasure:
        """Send pings over the link's own proxies, and see whether they pass in its direction.

        Once as the source dialling the target: its ping must reach the target, which shows by
        the answer arriving at the proxy, let through or not. And once as the target dialling the
        source: the answer must come back. There the ping goes the other way, over the opposite
        link, past its gate.
        """
        source, target = link
        by_source, by_target = await asyncio.gather(
            self._probe(source, target, ping, timeout_s, exempt=False),
            self._probe(target, source, ping, timeout_s, exempt=True),
        )
        return LinkMeasure(by_source, by_target, self._gates[link].passed_since_cut_bytes)

    async def _probe(
        self, dialler: str, dialled: str, ping: bytes, timeout_s: float, *, exempt: bool
    ) -> bool:
        listener = self._listeners[dialler, dialled]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)  # noqa: FBT003  (takes no keyword)
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
            if exempt:
                listener.exempt_ports.add(port)
            try:
                await loop.sock_connect(probe, (HOST, listener.port))
                await loop.sock_sendall(probe, ping)
                while loop.time() < deadline:
                    connection = listener.connections.get(port)
                    if not exempt and connection is not None and connection.answered():
                        return True
                    try:
                        return bool(probe.recv(1))
                    except (BlockingIOError, InterruptedError):
                        await asyncio.sleep(_POLL_S)
            except OSError:
                return False
            finally:
                listener.exempt_ports.discard(port)
        return False


async def _say(dialled: socket.socket, frames: Sequence[bytes]) -> None:
    """Send requests and hear their responses out, lest the target takes them for given up."""
    reader, writer = await asyncio.open_connection(sock=dialled)
    splitter, awaited = FrameSplitter(), len(frames)
    try:
        writer.write(b"".join(frames))
        while awaited > 0 and (data := await reader.read(CHUNK_BYTES)):
            awaited -= sum(1 for _ in splitter.feed(data))
    except (OSError, FrameError):
        pass  # the target does not run, or speaks another protocol: they are lost
    finally:
        writer.transport.abort()

"""TCP proxies between nodes: each ordered pair has two, each directed link has one gate.

Node a reaches node b through the proxies (a, b): one stands before b's controller listener, the
other before its broker-type listener, where brokers fetch records from each other. A connection
carries bytes both ways, so it uses two links: (a, b) forward and (b, a) back. Cutting the link
(a, b) therefore shuts the gate for all that a says to b, to whichever listener, on connections that
a dialled and on connections that b dialled.

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
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product

from cluster.backends.base import Link, LinkMeasure
from cluster.backends.links.connection import Connection
from cluster.backends.links.pipe import Gate
from cluster.node.ports import Endpoint
from cluster.systems.base import EVERY_LISTENER, Listener, Listeners

Way = tuple[Link, Listener]
"""What travels a link on connections to this listener, the dialler's requests or its answers."""

HOST = "127.0.0.1"
_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.1
_POLL_S = 0.002


class _Proxy:
    """Where `link[0]` dials one listener of `link[1]`."""

    def __init__(self, link: Link, gates: dict[Link, Gate], target: Callable[[], Endpoint]) -> None:
        self._loop = asyncio.get_running_loop()
        self._forward = gates[link]
        self._back = gates[link[::-1]]
        self._target = target
        self.connections: dict[int, Connection] = {}
        """By the dialler's port."""
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
        forward = Gate() if port in self.exempt_ports else self._forward
        target = self._target()
        closed_early = False

        def on_close() -> None:
            nonlocal closed_early
            closed_early = self.connections.pop(port, None) is None

        address = (target.host, target.port)
        connection = Connection(near, address, forward, self._back, on_close)
        if not closed_early:
            self.connections[port] = connection

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)


class LinkProxies:
    """All proxies between some nodes. Lives in the running event loop; open it there."""

    def __init__(
        self,
        nodes: Sequence[str],
        target: Callable[[str, Listener], Endpoint],
        listeners: Callable[[str], Listeners] = lambda _: EVERY_LISTENER,
    ) -> None:
        """`target`: where a node's listener is; `listeners`: those that a node has."""
        links = [(a, b) for a in nodes for b in nodes if a != b]
        self._gates = {link: Gate() for link in links}
        self._proxies: dict[Way, _Proxy] = {}
        self._target = target
        self._listeners = listeners

    def open(self) -> None:
        """Listen for every ordered pair. Raises OSError."""
        assert not self._proxies, "opened once"
        for link, listener in product(self._gates, EVERY_LISTENER):
            target = partial(self._target, link[1], listener)
            self._proxies[link, listener] = _Proxy(link, self._gates, target)

    def close(self) -> None:
        """End every connection and listener at once; idempotent."""
        for proxy in self._proxies.values():
            proxy.close()
        for gate in self._gates.values():
            gate.open()  # lets go of sockets not closed until now
        self._proxies.clear()

    def port(self, source: str, target: str, listener: Listener = "CONTROLLER") -> int:
        """Return the port at which `source` dials a listener of `target` on this machine."""
        return self._proxies[(source, target), listener].port

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
        return bool(self._proxies)

    def slow_down(self, link: Link, delay_ms: float, jitter_ms: float) -> None:
        """Let bytes travel this long over the link from now on; 0 is no time."""
        self._gates[link].slow_down(delay_ms / 1000, jitter_ms / 1000)

    def ways(self, link: Link) -> tuple[Way, ...]:
        """Name the streams of a link to listeners that its target has."""
        return tuple((link, listener) for listener in self._listeners(link[1]))

    async def round_trip_ms(self, way: Way, ping: bytes, timeout_s: float) -> float | None:
        """Time one ping over a link and its answer over the opposite one; None: none came."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(HOST, self._proxies[way].port)
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

        Once as the source dialling each listener of the target: its ping must reach the target,
        which shows by the answer arriving at the proxy, let through or not. And once as the target
        dialling each of the source's: the answer must come back. There the ping goes the other
        way, over the opposite link, past its gate.
        """
        dialled, dialling = self.ways(link), self.ways(link[::-1])
        passed = await asyncio.gather(
            *(self._probe(way, ping, timeout_s, exempt=False) for way in dialled),
            *(self._probe(way, ping, timeout_s, exempt=True) for way in dialling),
        )
        by_source, by_target = passed[: len(dialled)], passed[len(dialled) :]
        return LinkMeasure(
            any(by_source),
            any(by_target),
            self._gates[link].passed_since_cut_bytes,
            partly=len({*by_source}) > 1 or len({*by_target}) > 1,
        )

    async def _probe(self, way: Way, ping: bytes, timeout_s: float, *, exempt: bool) -> bool:
        proxy = self._proxies[way]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)  # noqa: FBT003  (takes no keyword)
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
            if exempt:
                proxy.exempt_ports.add(port)
            try:
                await loop.sock_connect(probe, (HOST, proxy.port))
                await loop.sock_sendall(probe, ping)
                while loop.time() < deadline:
                    connection = proxy.connections.get(port)
                    if not exempt and connection is not None and connection.has_answer():
                        return True
                    try:
                        return bool(probe.recv(1))
                    except (BlockingIOError, InterruptedError):
                        await asyncio.sleep(_POLL_S)
            except OSError:
                return False
            finally:
                proxy.exempt_ports.discard(port)
        return False

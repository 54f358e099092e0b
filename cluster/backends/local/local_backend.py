"""Backend `local`: plain processes on loopback, a TCP proxy on every link between them.

Works wherever Python does, with no privilege. The proxies live in the event loop of whoever runs
the backend: nodes can talk to each other only while that loop runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cluster.backends.base import Abilities, Ability, BackendError, Link, LinkMeasure, Probe
from cluster.backends.hosts import NODE_OUTPUT, StartedProcess, plain_connect
from cluster.backends.links.proxy import HOST, LinkProxies
from cluster.backends.links.shapes import PERFECT
from cluster.backends.local.abilities import LocalShaping
from cluster.backends.localhost import write_files
from cluster.backends.machine.clocks import library
from cluster.backends.machine.equip import equip, local_machines
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.backends.processes.probe import PROBE_OUTPUT, probe_place
from cluster.backends.processes.records import LocalProcess, RecordedProcess, labels, record_process
from cluster.backends.terms import Need
from cluster.node.ports import Endpoint
from cluster.systems.base import Listener, Placement, System

# Ports for nodes that may be dead for a while.
#
# A proxy's listener holds its port for the whole run. A node does not: between its incarnations
# its port is free, and the kernel may hand it to any outgoing connection, upon which the node
# could not start again; or a connection to it may even meet itself. So ports are taken from below
# the range that the kernel hands out, and on Linux a socket of ours stays bound to each: bound,
# not listening, and with SO_REUSEADDR, which keeps all away but a listener that sets the same
# option, as Kafka and asyncio do.


_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10240
_TRIES = 200


class NodePorts:
    """Ports on one address, reserved until `close`."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Reserve any free port. Raises BackendError when none is found."""
        candidates = _below_kernel_range()
        for _ in range(_TRIES):
            port = random.choice(candidates) if candidates else 0
            with contextlib.suppress(OSError):
                return self._bind(port)
        raise BackendError(f"no free TCP port found on {self._host} in {_TRIES} tries")

    def close(self) -> None:
        """Give all of them back; idempotent."""
        while self._held:
            self._held.pop().close()

    def _bind(self, port: int) -> int:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.bind((self._host, port))  # without SO_REUSEADDR: refuses what others hold as well
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken: int = held.getsockname()[1]
        except OSError:
            held.close()
            raise
        if sys.platform == "linux":
            self._held.append(held)
        else:
            held.close()  # BSD would let no node bind beside it
        return taken


def _below_kernel_range() -> range:
    try:
        lowest_handed_out = int(_KERNEL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        lowest_handed_out = 32768
    return range(_LOWEST, lowest_handed_out)


_IN_USE = "in use"  # strerror(EADDRINUSE), as every system words it


class LocalBackend(ProcessBackend):
    """See `cluster.backends.base.Backend`. Nothing happens before `up`.

    `needs`: see `cluster.backends.machine.equip`.
    """

    name = "local"

    def __init__(
        self,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        needs: Collection[Need] = (),
    ) -> None:
        super().__init__(system, run_folder, node_count, run_id)
        self._ports = NodePorts(HOST)
        self._proxies = LinkProxies(
            self.nodes, self.endpoint, lambda node: system.listeners(int(node[1:]))
        )
        self._shaping = LocalShaping(self._proxies, self.nodes, system.ping)
        abilities = Abilities(shaping=self._shaping)
        self._abilities = equip(self, local_machines(self), needs, abilities, library())

    async def probe(self, ability: Ability) -> Probe:
        return await probe_place(self, ability)

    async def start_beside(self, node: str, arguments: Sequence[str]) -> StartedProcess:
        folder, command = self.node_folder(node), (sys.executable, *arguments)
        return await LocalProcess.start(command, folder, labels(self.run_id), folder / PROBE_OUTPUT)

    async def cut_links(self, links: Iterable[Link]) -> None:
        self._proxies.cut(links)

    async def restore_links(self, links: Iterable[Link]) -> None:
        self._proxies.restore(links)

    def links_cut(self) -> frozenset[Link]:
        return self._proxies.links_cut()

    async def measure_link(self, link: Link, timeout_s: float = 0.5) -> LinkMeasure:
        return await self._proxies.measure(link, self.system.ping, timeout_s)

    def route(self, source: str, target: str, listener: Listener = "CONTROLLER") -> Endpoint:
        """Return where `source` dials a listener of `target`."""
        return Endpoint(int(target[1:]), HOST, self._proxies.port(source, target, listener))

    def abilities(self) -> Abilities:
        return self._abilities

    async def _put(self, node: str, files: Mapping[str, bytes]) -> None:
        write_files(node, self.node_folder(node), files)

    async def _launch(
        self, node: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> StartedProcess:
        folder = self.node_folder(node)
        process = await LocalProcess.start(command, folder, environment, folder / NODE_OUTPUT)
        if process.identity is not None:
            record_process(self._run_folder, RecordedProcess(self.run_id, node, process.identity))
        return process

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        return await plain_connect(endpoint.host, endpoint.port)

    async def _before_goodbye(self) -> None:
        await self._shaping.shape(dict.fromkeys(self._shaping.shapes(), PERFECT))
        self._proxies.restore(self._proxies.links_cut())  # or no leader could say goodbye

    async def _release(self) -> None:
        self._proxies.close()
        self._ports.close()

    async def _start_all(self) -> None:
        """Start all nodes at once; once more on other ports if another process took one first."""
        self._proxies.open()
        try:
            await self._try_ports()
        except (BackendError, OSError) as error:
            if _IN_USE not in str(error):
                raise
            self._kill_all()
            for started in self._incarnations.values():
                await asyncio.gather(*(incarnation.ended for incarnation in started))
                started.clear()
            await self._try_ports()

    async def _try_ports(self) -> None:
        self._ports.close()
        for node in self.nodes:
            for listener in ("CLIENT", "CONTROLLER", *self.system.ports):
                endpoint = Endpoint(int(node[1:]), HOST, self._ports.take())
                self._endpoints[node, listener] = endpoint
        for node in self.nodes:
            await self.configure(node)
        starts = await asyncio.gather(
            *(self.start(node) for node in self.nodes), return_exceptions=True
        )
        errors = [error for error in starts if isinstance(error, BaseException)]
        if errors:
            raise next((error for error in errors if _IN_USE in str(error)), errors[0])

    def _placement(self, node: str) -> Placement:
        peers = [peer for peer in self.nodes if peer != node]
        routes = tuple(self.route(node, peer) for peer in peers)
        return replace(
            super()._placement(node),
            bootstrap=routes,
            routes=routes,
            broker_routes=tuple(self.route(node, peer, "CLIENT") for peer in peers),
        )

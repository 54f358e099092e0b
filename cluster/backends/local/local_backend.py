"""Backend `local`: plain processes on loopback, a TCP proxy on every link between them.

Works wherever Python does, with no privilege. The proxies live in the event loop of whoever runs
the backend: nodes can talk to each other only while that loop runs.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from cluster.backends.base import Abilities, Ability, Link, LinkMeasure, Probe
from cluster.backends.hosts import StartedProcess, plain_connect
from cluster.backends.links.proxy import HOST, LinkProxies
from cluster.backends.links.shapes import PERFECT
from cluster.backends.local import probe
from cluster.backends.local.messages import LocalMessages
from cluster.backends.local.ports import NodePorts
from cluster.backends.local.shaping import LocalShaping
from cluster.backends.localhost import write_files
from cluster.backends.machine.clocks import library
from cluster.backends.machine.equip import equip, local_machines
from cluster.backends.processes.lifecycle import ProcessBackend, command_of
from cluster.backends.processes.records import LocalProcess, RecordedProcess, labels, record_process
from cluster.backends.terms import Need
from cluster.node.ports import Endpoint
from cluster.node.security.connecting import PLAINTEXT
from cluster.systems.base import Listener, Placement, System

_IN_USE = "in use"  # strerror(EADDRINUSE), as every system words it
_SECURED = "the listeners are secured: no message between them can be read or delivered late"


class LocalBackend(ProcessBackend):
    """See `cluster.backends.base.Backend`. Nothing happens before `up`.

    `first_port`: nodes use first_port, first_port + 1, ... (client and controller listener of n1,
    then of n2, ...) instead of free ports. `needs`: see `cluster.backends.machine.equip`.
    """

    name = "local"

    def __init__(
        self,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        first_port: int | None = None,
        needs: Collection[Need] = (),
    ) -> None:
        super().__init__(system, run_folder, node_count, run_id)
        self._first_port = first_port
        self._ports = NodePorts(HOST)
        self._proxies = LinkProxies(
            self.nodes, self.endpoint, lambda node: system.listeners(int(node[1:]))
        )
        self._shaping = LocalShaping(self._proxies, self.nodes, system.ping)
        self._messages = LocalMessages(self._proxies)
        plain = system.client_security == PLAINTEXT
        abilities = Abilities(
            shaping=self._shaping,
            messages=self._messages if plain else None,
            missing={} if plain else {"messages": _SECURED},
        )
        self._abilities = equip(self, local_machines(self), needs, abilities, library())

    async def probe(self, ability: Ability) -> Probe:
        """Try it with a process and a proxy of its own."""
        return await probe.probe(ability)

    async def up(self) -> None:
        """Start all nodes at once; once more on other ports if another process took one first."""
        try:
            self._proxies.open()
            self._make_run_folder()
            await self._start_all(again=self._first_port is None)
        except OSError as error:
            await self.down()
            raise self.not_started(error) from error
        except BaseException:
            await self.down()
            raise

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

    async def _launch(self, node: str, environment: Mapping[str, str]) -> StartedProcess:
        placement = self._placement(node)
        process = await LocalProcess.start(
            command_of(self.system, placement),
            self.node_folder(node),
            {**self.system.environment(placement), **environment, **labels(self.run_id)},
            self.node_folder(node) / "stdout.log",
        )
        if process.identity is not None:
            record_process(self._run_folder, RecordedProcess(self.run_id, node, process.identity))
        return process

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        return await plain_connect(endpoint.host, endpoint.port)

    async def _before_goodbye(self) -> None:
        await self._shaping.shape(dict.fromkeys(self._shaping.shapes(), PERFECT))
        self._messages.forget()
        self._proxies.restore(self._proxies.links_cut())  # or no leader could say goodbye

    async def _release(self) -> None:
        self._proxies.close()
        self._ports.close()

    async def _start_all(self, *, again: bool) -> None:
        self._allocate()
        starts = await asyncio.gather(
            *(self.start(node) for node in self.nodes), return_exceptions=True
        )
        errors = [error for error in starts if isinstance(error, BaseException)]
        if not errors:
            return
        if again and any(_IN_USE in str(error) for error in errors):
            self._kill_all()
            for started in self._incarnations.values():
                await asyncio.gather(*(incarnation.ended for incarnation in started))
                started.clear()
            await self._start_all(again=False)
        else:
            raise errors[0]

    def _allocate(self) -> None:
        self._ports.close()
        ports = None if self._first_port is None else itertools.count(self._first_port)
        for node in self.nodes:
            for listener in ("CLIENT", "CONTROLLER", *self.system.ports):
                port = self._take_port(ports)
                self._endpoints[node, listener] = Endpoint(int(node[1:]), HOST, port)
        for node in self.nodes:
            self._write_files(node)

    async def _configure_node(self, node: str) -> None:
        self._write_files(node)

    def _write_files(self, node: str) -> None:
        files = self.system.files(self._placement(node))
        encoded = {path: text.encode() for path, text in files.items()}
        write_files(node, self.node_folder(node), encoded)

    def _take_port(self, ports: Iterator[int] | None) -> int:
        return self._ports.take() if ports is None else self._ports.take_this(next(ports))

    def _placement(self, node: str) -> Placement:
        peers = [peer for peer in self.nodes if peer != node]
        routes = tuple(self.route(node, peer) for peer in peers)
        return Placement(
            name=node,
            node_id=int(node[1:]),
            run_id=self.run_id,
            release=self.releases[node],
            folder=self.node_folder(node),
            interpreter=sys.executable,
            client=self.endpoint(node, "CLIENT"),
            controller=self.endpoint(node, "CONTROLLER"),
            voters=()
            if node in self._joining
            else tuple(self.endpoint(voter, "CONTROLLER") for voter in self.nodes),
            bootstrap=routes,
            brokers=tuple(self.endpoint(broker, "CLIENT") for broker in self.nodes),
            routes=routes,
            broker_routes=tuple(self.route(node, peer, "CLIENT") for peer in peers),
            ports=self._named_ports(),
        )

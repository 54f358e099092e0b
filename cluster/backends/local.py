"""Backend `local`: plain processes on loopback, a TCP proxy on every link between them.

Works wherever Python does, with no privilege. The proxies live in the event loop of whoever runs
the backend: nodes can talk to each other only while that loop runs.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from cluster.backends import localprobe
from cluster.backends.base import (
    Abilities,
    Ability,
    BackendError,
    ClientNetwork,
    Death,
    Link,
    LinkMeasure,
    Listener,
    NodeState,
    Probe,
    ProcessIdentity,
)
from cluster.backends.linkproxy import HOST, LinkProxies
from cluster.backends.nodeports import NodePorts
from cluster.backends.processes import (
    NodeProcess,
    RecordedProcess,
    labels,
    own_identity,
    record_process,
)
from cluster.ports import Endpoint
from cluster.runtime.network import TcpNetwork
from cluster.systems.base import Placement, System

READY_TIMEOUT_S = 30.0
"""How long a node may take until it answers; an interpreter on a busy machine is slow to start."""

_READY_POLL_S = 0.02
_PING_TIMEOUT_S = 1.0
_KILL_TIMEOUT_S = 10.0
_SIGNAL_TIMEOUT_S = 2.0
_IN_USE = "in use"  # strerror(EADDRINUSE), as every system words it


class LocalBackend:
    """See `cluster.backends.base.Backend`. Nothing happens before `up`.

    `first_port`: nodes use first_port, first_port + 1, ... (client and controller listener of n1,
    then of n2, ...) instead of free ports.
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
    ) -> None:
        assert node_count >= 1, "a cluster has a node"
        self.system = system
        self.run_id = run_id
        self.nodes = tuple(f"n{number}" for number in range(1, node_count + 1))
        self._run_folder = run_folder.absolute()
        self._first_port = first_port
        self._ports = NodePorts(HOST)
        self._endpoints: dict[tuple[str, Listener], Endpoint] = {}
        self._proxies = LinkProxies(self.nodes, self.endpoint)
        self._processes: dict[str, list[NodeProcess]] = {node: [] for node in self.nodes}
        self._locks = {node: asyncio.Lock() for node in self.nodes}
        self._down = False
        self._abilities = Abilities()

    async def probe(self, ability: Ability) -> Probe:
        """Try it with a process and a proxy of its own."""
        return await localprobe.probe(ability)

    async def up(self) -> None:
        """Start all nodes at once; once more on other ports if somebody was faster to take one."""
        try:
            self._proxies.open()
            record_process(
                self._make_run_folder(), RecordedProcess(self.run_id, "harness", own_identity())
            )
            await self._start_all(again=self._first_port is None)
        except OSError as error:
            await self.down()
            raise BackendError(f"cannot start the cluster: {error}") from error
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """See `Backend.down`."""
        self._down = True
        alive = [process for process in self._live() if process.state() is not NodeState.DEAD]
        try:
            self._proxies.restore(self._proxies.links_cut())  # or no leader could say goodbye
            for process in alive:
                process.send(signal.SIGTERM)
                process.send(signal.SIGCONT)
            if alive:
                await asyncio.wait(
                    [process.ended for process in alive], timeout=self.system.stop_timeout_s
                )
        finally:
            self._kill_all()
            self._proxies.close()
            self._ports.close()
        ends = [process.ended for started in self._processes.values() for process in started]
        if ends:
            await asyncio.wait(ends, timeout=_KILL_TIMEOUT_S)

    async def start(self, node: str) -> None:
        """See `Backend.start`."""
        async with self._locks[node]:
            if self._down:
                raise BackendError(f"{node} cannot start: the cluster is down")
            if self._now(node) is not NodeState.DEAD:
                raise BackendError(f"{node} cannot start: it is {self._now(node)}")
            placement = self._placement(node)
            process = await NodeProcess.start(
                self.system.command(placement),
                self.node_folder(node),
                {**self.system.environment(placement), **labels(self.run_id)},
                self.node_folder(node) / "stdout.log",
            )
            self._processes[node].append(process)
            if process.identity is not None:
                record_process(
                    self._run_folder, RecordedProcess(self.run_id, node, process.identity)
                )
            if self._down:  # while the process was being made
                self._kill_all()
                raise BackendError(f"{node} cannot start: the cluster is down")
            await self._wait_ready(node, process)

    async def stop(self, node: str) -> None:
        """See `Backend.stop`. A node that does not end is left running."""
        async with self._locks[node]:
            if self._now(node) is NodeState.PAUSED:
                raise BackendError(f"{node} cannot stop gracefully: it is paused")
            if self._now(node) is NodeState.RUNNING:
                process = self._processes[node][-1]
                process.send(signal.SIGTERM)
                if not await process.wait_ended(self.system.stop_timeout_s):
                    limit_s = self.system.stop_timeout_s
                    raise BackendError(f"{node} did not end within {limit_s:g} s of SIGTERM")

    async def kill(self, node: str) -> None:
        """See `Backend.kill`. Does not wait for a `start` that is under way."""
        if self._now(node) is NodeState.DEAD:
            return
        process = self._processes[node][-1]
        process.send(signal.SIGKILL)
        if not await process.wait_ended(_KILL_TIMEOUT_S):
            raise BackendError(f"{node} did not die within {_KILL_TIMEOUT_S:g} s of SIGKILL")

    async def pause(self, node: str) -> None:
        """See `Backend.pause`."""
        await self._signal(node, signal.SIGSTOP, NodeState.PAUSED)

    async def resume(self, node: str) -> None:
        """See `Backend.resume`."""
        await self._signal(node, signal.SIGCONT, NodeState.RUNNING)

    async def state(self, node: str) -> NodeState:
        """See `Backend.state`."""
        return self._now(node)

    async def process(self, node: str) -> ProcessIdentity | None:
        """See `Backend.process`."""
        return None if self._now(node) is NodeState.DEAD else self._processes[node][-1].identity

    def incarnation(self, node: str) -> int:
        """See `Backend.incarnation`."""
        return len(self._processes[node]) - 1

    def unexpected_deaths(self) -> tuple[Death, ...]:
        """See `Backend.unexpected_deaths`."""
        ended = [
            (process, Death(node, incarnation, process.exit_code, process.last_output))
            for node, started in self._processes.items()
            for incarnation, process in enumerate(started)
            if process.ended.done() and process.ended_unasked and process.exit_code is not None
        ]
        return tuple(death for _, death in sorted(ended, key=lambda one: one[0].ended_s))

    async def cut_links(self, links: Iterable[Link]) -> None:
        """See `Backend.cut_links`."""
        self._proxies.cut(links)

    async def restore_links(self, links: Iterable[Link]) -> None:
        """See `Backend.restore_links`."""
        self._proxies.restore(links)

    def links_cut(self) -> frozenset[Link]:
        """See `Backend.links_cut`."""
        return self._proxies.links_cut()

    async def measure_link(self, link: Link, timeout_s: float = 0.5) -> LinkMeasure:
        """See `Backend.measure_link`."""
        return await self._proxies.measure(link, self.system.ping, timeout_s)

    def endpoint(self, node: str, listener: Listener = "CONTROLLER") -> Endpoint:
        """See `Backend.endpoint`."""
        return self._endpoints[node, listener]

    def route(self, source: str, target: str) -> Endpoint:
        """Tell where `source` dials the controller listener of `target`."""
        return Endpoint(int(target[1:]), HOST, self._proxies.port(source, target))

    def client_network(self) -> ClientNetwork:
        """See `Backend.client_network`."""
        return TcpNetwork()

    def abilities(self) -> Abilities:
        """See `Backend.abilities`."""
        return self._abilities

    def node_folder(self, node: str) -> Path:
        """See `Backend.node_folder`."""
        return self._run_folder / "nodes" / node

    def _make_run_folder(self) -> Path:
        for node in self.nodes:
            self.node_folder(node).mkdir(parents=True, exist_ok=True)
        return self._run_folder

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
            for started in self._processes.values():
                await asyncio.gather(*(process.ended for process in started))
                started.clear()
            await self._start_all(again=False)
        else:
            raise errors[0]

    def _allocate(self) -> None:
        self._ports.close()
        ports = None if self._first_port is None else itertools.count(self._first_port)
        for node in self.nodes:
            for listener in ("CLIENT", "CONTROLLER"):
                port = self._take_port(ports)
                self._endpoints[node, listener] = Endpoint(int(node[1:]), HOST, port)
        for node in self.nodes:
            for path, content in self.system.files(self._placement(node)).items():
                (self.node_folder(node) / path).write_text(content)

    def _take_port(self, ports: Iterator[int] | None) -> int:
        return self._ports.take() if ports is None else self._ports.take_this(next(ports))

    def _placement(self, node: str) -> Placement:
        return Placement(
            name=node,
            node_id=int(node[1:]),
            run_id=self.run_id,
            folder=self.node_folder(node),
            client=self.endpoint(node, "CLIENT"),
            controller=self.endpoint(node, "CONTROLLER"),
            voters=tuple(self.endpoint(voter, "CONTROLLER") for voter in self.nodes),
            brokers=tuple(self.endpoint(broker, "CLIENT") for broker in self.nodes),
            routes=tuple(self.route(node, peer) for peer in self.nodes if peer != node),
        )

    def _live(self) -> list[NodeProcess]:
        return [started[-1] for started in self._processes.values() if started]

    def _now(self, node: str) -> NodeState:
        started = self._processes[node]
        return started[-1].state() if started else NodeState.DEAD

    async def _signal(self, node: str, number: signal.Signals, wanted: NodeState) -> None:
        if self._now(node) is NodeState.DEAD:
            raise BackendError(f"{node} is dead: no {number.name} can reach it")
        process = self._processes[node][-1]
        process.send(number)
        if not await process.wait_state(wanted, _SIGNAL_TIMEOUT_S):
            raise BackendError(f"{node} is {process.state()} after {number.name}, not {wanted}")

    async def _wait_ready(self, node: str, process: NodeProcess) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_TIMEOUT_S
        waiting = [self.endpoint(node, "CONTROLLER"), self.endpoint(node, "CLIENT")]
        while waiting:
            if process.ended.done():
                tail = " | ".join(process.last_output[-3:]) or "it wrote nothing"
                raise BackendError(f"{node} ended with {process.exit_code} as it started: {tail}")
            if loop.time() >= deadline:
                await self.kill(node)
                raise BackendError(f"{node} did not answer within {READY_TIMEOUT_S:g} s")
            if await self._answers(waiting[-1]):
                waiting.pop()
            else:
                await asyncio.sleep(_READY_POLL_S)

    async def _answers(self, endpoint: Endpoint) -> bool:
        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
                try:
                    writer.write(self.system.ping)
                    return bool(await reader.read(1))
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def _kill_all(self) -> None:
        """SIGKILL what lives, and see it dead, without the event loop: it may be cancelled."""
        alive = [process for process in self._live() if process.state() is not NodeState.DEAD]
        for process in alive:
            process.send(signal.SIGKILL)
        deadline = time.monotonic() + _SIGNAL_TIMEOUT_S
        while any(process.state() is not NodeState.DEAD for process in alive):
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)

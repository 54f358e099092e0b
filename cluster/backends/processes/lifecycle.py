"""The life of nodes as processes, the same wherever the processes are.

Nodes start, stop, die, are paused and resumed here; a subclass says where a process is started and
how the node is reached. Every start of a node is one `Incarnation`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path

from cluster.backends.abilities import Surroundings
from cluster.backends.base import (
    BackendError,
    ClientNetwork,
    Death,
    Listener,
    NodeState,
    ProcessIdentity,
)
from cluster.backends.hosts import StartedProcess
from cluster.backends.localhost import read_here
from cluster.backends.processes.labelled import end_escaped
from cluster.backends.processes.records import RecordedProcess, labels, own_identity, record_process
from cluster.node.ports import Endpoint
from cluster.node.runtime.network import TcpNetwork
from cluster.systems.base import Placement, System

_STOPPED = frozenset({0, -signal.SIGTERM})
_READY_POLL_S = 0.02
_PING_TIMEOUT_S = 1.0
_KILL_TIMEOUT_S = 10.0
_SIGNAL_TIMEOUT_S = 2.0
_STATE_POLL_S = 0.002
_STATE_POLL_MAX_S = 0.05

ROOM_BYTES_MIN = 16 << 20
"""Less free space counts as full: a node's failed write may have been as large."""

BeforeStart = Callable[[str], Awaitable[Mapping[str, str]]]
"""Called with a node's name before each of its starts: puts back into its host what is in force
there, and answers variables for the environment of the process."""


def _command_of(system: System, node: Placement) -> tuple[str, ...]:
    """Return a system's command for a node. Raises BackendError where it is none.

    Of a package it may be anything; the words of a text, for one, are its letters.
    """
    command: object = system.command(node)
    words = command if isinstance(command, tuple | list) else ()
    if not words or any(not isinstance(w, str | PathLike) or "\0" in str(w) for w in words):
        shown = ascii(command)[:80]
        raise BackendError(f"system {system.name}: a node's command is {shown}, not some texts")
    return tuple(map(os.fspath, words))


def _texts(system: System, what: str, answer: object) -> dict[str, str]:
    """Return a node's files or variables. Raises BackendError where they are none."""
    pairs = answer.items() if isinstance(answer, Mapping) else [(None, answer)]
    if any(not isinstance(text, str) for pair in pairs for text in pair):
        shown = ascii(answer)[:80]
        raise BackendError(f"system {system.name}: a node's {what} are {shown}, not texts by name")
    return dict(pairs)


class Incarnation:
    """One started node: how it is signalled, and how its end is understood."""

    def __init__(self, process: StartedProcess, stop_codes: Collection[int] = _STOPPED) -> None:
        """`stop_codes`: see `cluster.systems.base.System`."""
        self.process = process
        self._stop_codes = stop_codes
        self._asked: set[signal.Signals] = set()
        self.last_output: tuple[str, ...] = ()
        """Once it has ended: the last lines that it wrote."""
        self.ended_s = 0.0
        """Once it has ended: when that was noticed, on the event loop's clock."""
        self.exit_code: int | None = None
        """Once it has ended, as from `waitpid`."""
        self.ended = asyncio.get_running_loop().create_task(self._wait())

    @property
    def ended_unasked(self) -> bool:
        """Whether it is dead, and not in the way that it was asked to die.

        A node that was asked to stop and crashes while doing so counts; so does one that had
        crashed by itself before a SIGKILL could reach it.
        """
        code = self.exit_code
        if code is None:
            return False
        killed = signal.SIGKILL in self._asked and code == -signal.SIGKILL
        stopped = signal.SIGTERM in self._asked and code in self._stop_codes
        return not (killed or stopped)

    async def state(self) -> NodeState:
        """Ask the operating system."""
        return NodeState.DEAD if self.exit_code is not None else await self.process.state()

    async def send(self, number: signal.Signals) -> None:
        """Signal it if it lives."""
        self._asked.add(number)
        await self.process.send(number)

    def kill_now(self) -> None:
        """SIGKILL it without the event loop."""
        if self.exit_code is None and self.process.kill_now():
            self._asked.add(signal.SIGKILL)

    async def wait_ended(self, timeout_s: float) -> bool:
        """Wait for its end; False when it still lives after that time."""
        done, _ = await asyncio.wait([self.ended], timeout=timeout_s)
        return bool(done)

    async def wait_state(self, state: NodeState, timeout_s: float) -> bool:
        """Wait until the operating system shows this state; False when it does not in time."""
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + timeout_s, _STATE_POLL_S
        while await self.state() is not state:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _STATE_POLL_MAX_S)
        return True

    async def _wait(self) -> None:
        exit_code = await self.process.wait()
        # Now, before a next incarnation appends its own.
        self.last_output = await self.process.output_tail()
        self.ended_s = asyncio.get_running_loop().time()
        self.exit_code = exit_code


class ProcessBackend:
    """The part of `cluster.backends.base.Backend` that is about the nodes' processes."""

    def __init__(self, system: System, run_folder: Path, node_count: int, run_id: str) -> None:
        assert node_count >= 1, "a cluster has a node"
        self.system = system
        self.run_id = run_id
        self.nodes = tuple(f"n{number}" for number in range(1, node_count + 1))
        self.before_start: list[BeforeStart] = []
        """What abilities want done before each start of a node, in this order."""
        self._surroundings: list[Surroundings] = []
        self._run_folder = run_folder.absolute()
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        """By node and name: its listeners, and `System.ports`."""
        self._incarnations: dict[str, list[Incarnation]] = {node: [] for node in self.nodes}
        self._locks = {node: asyncio.Lock() for node in self.nodes}
        self._joining: set[str] = set()
        """Nodes that have no configured voters any more (`Backend.join_anew`)."""
        self.releases = dict.fromkeys(self.nodes, 0)
        """The release that each node is started as: a place in the system's."""
        self._down = False

    # -- what a subclass says --------------------------------------------------------------------

    async def _start_all(self) -> None:
        """Have whatever nodes need, and start them. Raises BackendError, OSError."""
        raise NotImplementedError

    async def _put(self, node: str, files: Mapping[str, bytes]) -> None:
        """Write files, by path below the node's folder. Raises BackendError."""
        raise NotImplementedError

    async def _launch(
        self, node: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> StartedProcess:
        """Start the node's process, in its folder."""
        raise NotImplementedError

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        raise NotImplementedError

    async def _before_goodbye(self) -> None:
        """Let nodes that are about to be stopped speak to each other."""
        raise NotImplementedError

    async def _release(self) -> None:
        """Give back what held the nodes, which are dead."""
        raise NotImplementedError

    def _placement(self, node: str) -> Placement:
        """Return what the node's system is given; here of a node of this very machine."""
        controllers = tuple(self.endpoint(voter, "CONTROLLER") for voter in self.nodes)
        number = int(node[1:])
        return Placement(
            name=node,
            node_id=number,
            run_id=self.run_id,
            release=self.releases[node],
            folder=self.node_folder(node),
            interpreter=sys.executable,
            client=self.endpoint(node, "CLIENT"),
            controller=self.endpoint(node, "CONTROLLER"),
            voters=() if node in self._joining else controllers,
            bootstrap=tuple(other for other in controllers if other.node_id != number),
            brokers=tuple(self.endpoint(broker, "CLIENT") for broker in self.nodes),
            routes=(),
            ports=self._named_ports(),
        )

    def surround(self, surroundings: Surroundings) -> None:
        """Put this in place before each start of a node, and take it away at the end."""
        self._surroundings.append(surroundings)
        self.before_start.append(surroundings.prepare)

    # -- Backend ---------------------------------------------------------------------------------

    async def up(self) -> None:
        try:
            self._make_run_folder()
            await self._start_all()
        except OSError as error:
            await self.down()
            full = full_disk(self._run_folder)
            message = f"cannot start the cluster: {error}{'; ' * bool(full)}{full}"
            raise BackendError(message) from error
        except BaseException:
            await self.down()
            raise

    async def wait_until_lost(self) -> str:
        """See `Backend.wait_until_lost`: for ever, unless a subclass knows of a way."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def down(self) -> None:
        self._down = True
        try:
            for surroundings in self._surroundings:
                await surroundings.relax()  # or no node could bring to disk what it has
            with contextlib.suppress(BackendError):
                await self._before_goodbye()
            with contextlib.suppress(BackendError):  # nodes that cannot be asked are killed
                await self._ask_all_to_end()
        finally:
            self._kill_all()
            end_escaped(self.run_id)
            async with contextlib.AsyncExitStack() as last:  # all of it, whatever interrupts some
                last.callback(end_escaped, self.run_id, supports=True)
                last.push_async_callback(self._release)
                for surroundings in reversed(self._surroundings):
                    last.push_async_callback(surroundings.release)
        ends = [
            incarnation.ended for started in self._incarnations.values() for incarnation in started
        ]
        if ends:
            await asyncio.wait(ends, timeout=_KILL_TIMEOUT_S)

    async def start(self, node: str) -> None:
        async with self._locks[node]:
            self._refuse_when_down(node)
            if (state := await self.state(node)) is not NodeState.DEAD:
                raise BackendError(f"{node} cannot start: it is {state}")
            await self._refuse_taken(node)
            environment: dict[str, str] = {}
            for prepare in self.before_start:
                environment.update(await prepare(node))
            placement = self._placement(node)
            variables = _texts(self.system, "variables", self.system.environment(placement))
            process = await self._launch(
                node,
                _command_of(self.system, placement),
                {**variables, **environment, **labels(self.run_id)},
            )
            incarnation = Incarnation(process, self.system.stop_codes)
            self._incarnations[node].append(incarnation)
            if self._down:  # while the process was being made
                incarnation.kill_now()
            self._refuse_when_down(node)
            await self._wait_ready(node, incarnation)

    async def join_anew(self, node: str) -> None:
        if (state := await self.state(node)) is not NodeState.DEAD:
            raise BackendError(f"{node} cannot be configured anew: it is {state}")
        self._joining.add(node)
        await self.configure(node)

    async def configure(self, node: str) -> None:
        """Write a node's files, as the system has them by now."""
        files = _texts(self.system, "files", self.system.files(self._placement(node)))
        await self._put(node, {path: text.encode() for path, text in files.items()})

    async def configure_release(self, node: str, number: int) -> None:
        """Let a dead node be another of the system's releases from its next start on."""
        if (state := await self.state(node)) is not NodeState.DEAD:
            raise BackendError(f"{node} cannot become another release: it is {state}")
        self.releases[node] = number
        await self.configure(node)

    async def terminate(self, node: str) -> None:
        state = await self.state(node)
        if state is NodeState.PAUSED:
            raise BackendError(f"{node} cannot stop gracefully: it is paused")
        if state is NodeState.RUNNING:
            await self._incarnations[node][-1].send(signal.SIGTERM)

    async def stop(self, node: str) -> None:
        async with self._locks[node]:
            await self.terminate(node)
            limit_s = self.system.stop_timeout_s
            started = self._incarnations[node]
            if started and not await started[-1].wait_ended(limit_s):
                await self.kill(node)
                raise BackendError(f"{node} did not end within {limit_s:g} s of SIGTERM: killed")

    async def kill(self, node: str) -> None:
        """See `Backend.kill`. Does not wait for a `start` that is under way."""
        if await self.state(node) is NodeState.DEAD:
            return
        incarnation = self._incarnations[node][-1]
        await incarnation.send(signal.SIGKILL)
        if not await incarnation.wait_ended(_KILL_TIMEOUT_S):
            raise BackendError(f"{node} did not die within {_KILL_TIMEOUT_S:g} s of SIGKILL")

    async def pause(self, node: str) -> None:
        await self._signal(node, signal.SIGSTOP, NodeState.PAUSED)

    async def resume(self, node: str) -> None:
        await self._signal(node, signal.SIGCONT, NodeState.RUNNING)

    async def state(self, node: str) -> NodeState:
        started = self._incarnations[node]
        return await started[-1].state() if started else NodeState.DEAD

    async def process(self, node: str) -> ProcessIdentity | None:
        if await self.state(node) is NodeState.DEAD:
            return None
        return self._incarnations[node][-1].process.identity

    def incarnation(self, node: str) -> int:
        return len(self._incarnations[node]) - 1

    def unexpected_deaths(self) -> tuple[Death, ...]:
        ended = [
            (incarnation, Death(node, number, incarnation.exit_code, incarnation.last_output))
            for node, started in self._incarnations.items()
            for number, incarnation in enumerate(started)
            if incarnation.ended_unasked and incarnation.exit_code is not None
        ]
        return tuple(death for _, death in sorted(ended, key=lambda pair: pair[0].ended_s))

    def endpoint(self, node: str, listener: Listener = "CONTROLLER") -> Endpoint:
        return self._endpoints[node, listener]

    def client_network(self) -> ClientNetwork:
        return TcpNetwork(connect=self.connect, security=self.system.client_security)

    def node_folder(self, node: str) -> Path:
        return self._run_folder / "nodes" / node

    async def read_trace(self, node: str, offset: int) -> bytes:
        """See `Backend.read_trace`; the node's folder is on this machine."""
        return read_here(Path(self.system.trace_source(self.node_folder(node))), offset)

    # -- parts -----------------------------------------------------------------------------------

    def _make_run_folder(self) -> None:
        """Make the folders and record the harness's process. Raises OSError."""
        for node in self.nodes:
            self.node_folder(node).mkdir(parents=True, exist_ok=True)
        harness = RecordedProcess(self.run_id, "harness", own_identity())
        record_process(self._run_folder, harness)

    def _refuse_when_down(self, node: str) -> None:
        if self._down:
            raise BackendError(f"{node} cannot start: the cluster is down")

    def _latest(self) -> list[Incarnation]:
        return [started[-1] for started in self._incarnations.values() if started]

    async def _ask_all_to_end(self) -> None:
        alive = [
            incarnation
            for incarnation in self._latest()
            if await incarnation.state() is not NodeState.DEAD
        ]
        for incarnation in alive:
            await incarnation.send(signal.SIGTERM)
            await incarnation.send(signal.SIGCONT)
        if alive:
            await asyncio.wait(
                [incarnation.ended for incarnation in alive], timeout=self.system.stop_timeout_s
            )

    def _kill_all(self) -> None:
        """SIGKILL what lives, without the event loop: it may be cancelled."""
        for incarnation in self._latest():
            incarnation.kill_now()

    async def _signal(self, node: str, number: signal.Signals, wanted: NodeState) -> None:
        if await self.state(node) is NodeState.DEAD:
            raise BackendError(f"{node} is dead: no {number.name} can reach it")
        incarnation = self._incarnations[node][-1]
        await incarnation.send(number)
        if not await incarnation.wait_state(wanted, _SIGNAL_TIMEOUT_S):
            state = await incarnation.state()
            raise BackendError(f"{node} is {state} after {number.name}, not {wanted}")

    async def _refuse_taken(self, node: str) -> None:
        """Refuse to start a node where something listens that would be taken for it.

        Such is what left the process group of a node that was killed, or what a supervisor of its
        own started again: the kill hit nothing that serves. A group takes a moment to be gone.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SIGNAL_TIMEOUT_S
        for name in (*self.system.listeners(int(node[1:])), *self.system.ports):
            at = self._endpoints[node, name]
            while await self._is_taken(at):
                if loop.time() >= deadline:
                    raise BackendError(
                        f"{node} cannot start: {at.host}:{at.port} is in use by a process that is "
                        "not, or no more, of its process group"
                    )
                await asyncio.sleep(_READY_POLL_S)

    async def _wait_ready(self, node: str, incarnation: Incarnation) -> None:
        loop = asyncio.get_running_loop()
        limit_s = self.system.ready_timeout_s
        deadline = loop.time() + limit_s
        listeners = self.system.listeners(int(node[1:]))
        if self.system.ready is not None:
            listeners = listeners[:1]  # it answers for all
        elif self.incarnation(node):  # a fault may keep it from its quorum, which others wait for
            listeners = tuple(at for at in listeners if at in self.system.ready_listeners)
        waiting = [self.endpoint(node, listener) for listener in listeners]
        while waiting:
            if incarnation.ended.done():
                words = self._last_words(incarnation.last_output)
                code = incarnation.exit_code
                raise BackendError(f"{node} ended with {code} as it started: {words}")
            if loop.time() >= deadline:
                words = self._last_words(
                    await incarnation.process.output_tail(), "its last output: "
                )
                await self.kill(node)
                at = f"at {waiting[-1].host}:{waiting[-1].port}"
                if self.system.ready is not None:
                    at = "its system's `ready`"  # which knows what it asks, and where
                raise BackendError(f"{node} did not answer {at} within {limit_s:g} s; {words}")
            if await self._is_ready(node, waiting[-1]):
                waiting.pop()
            else:
                await asyncio.sleep(_READY_POLL_S)

    def _last_words(self, output: Sequence[str], before: str = "") -> str:
        """Say what a node wrote last; where the disk is full, that first: it could not write it."""
        tail = " | ".join(output[-3:])
        words = f"{before}{tail}" if tail else "it wrote nothing"
        return f"{full}; {words}" if (full := full_disk(self._run_folder)) else words

    def _named_ports(self) -> Mapping[str, tuple[Endpoint, ...]]:
        ports = self.system.ports
        return {name: tuple(self._endpoints[node, name] for node in self.nodes) for name in ports}

    async def _is_ready(self, node: str, endpoint: Endpoint) -> bool:
        if self.system.ready is None:
            return await self._answers(endpoint)
        own = {name: at for (of, name), at in self._endpoints.items() if of == node}
        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                return await self.system.ready(self.connect, own)
        except (OSError, TimeoutError):
            return False

    async def _is_taken(self, endpoint: Endpoint) -> bool:
        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                (await self.connect(endpoint)).close()
        except (OSError, TimeoutError):
            return False
        return True

    async def _answers(self, endpoint: Endpoint) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                connection = await self.connect(endpoint)
                with connection:
                    await loop.sock_sendall(connection, self.system.ping)
                    return bool(await loop.sock_recv(connection, 1))
        except (OSError, TimeoutError):
            return False


def full_disk(folder: Path) -> str:
    """Say that the disk of this folder is full; empty when it is not, or cannot be asked."""
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError:
        return ""
    full = free_bytes < ROOM_BYTES_MIN
    return f"the disk of {folder} is full ({free_bytes >> 10} KiB are free): make room" * full

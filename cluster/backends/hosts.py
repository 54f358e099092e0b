"""What a place must bring so that nodes can live in hosts of their own: the contract of providers.

A *host* (`cluster.backends.abilities.Host`) is the surroundings of one node: an address, files, a
network namespace, processes. A *provider* makes hosts and runs processes in them; namespaces,
containers and machines behind ssh are three providers. Everything else (nodes' life, packet
filters, probes of links, evidence, the whole of `Backend`) is `cluster.backends.hosted` and is the
same for all of them:

    HostedBackend(provider, system, run_folder, node_count, run_id)

What a provider owes:

- One host a node, each with an address that no other node has. Peers reach each other there and
  nowhere else. The harness has another address than any node, so that no filter by a node's
  address can touch its path.
- The host outlives the node's process: killing the node loses no rule, mount or file.
- An agent (`cluster.backends.agent`) in each host that `AgentHost.call` reaches; `Host.run` goes
  through it, with the privilege that the place gives its faults. It must find `nft` and
  `Host.interpreter`; `tc` and `iptables` where links are to be shaped.
- What is made carries the run's label (`processes.records.labels` in the environment of
  processes, the run id in names or labels of everything else) and is found by `kraftprobe cleanup`.
- A signal at the harness's terminal reaches no process of a host.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

from cluster.backends.abilities import Completed, Host
from cluster.backends.agent import channel
from cluster.backends.agent.channel import ASK_S, Caller
from cluster.backends.agent.frames import Message
from cluster.backends.base import NodeState, ProcessIdentity
from cluster.backends.localhost import read_here, write_files
from cluster.values import valueclass

T = TypeVar("T")

NODE_OUTPUT = "stdout.log"
"""The output file of nodes, in their folders; every process with another one is no node."""


class StartedProcess(Protocol):
    """One process that a provider started. It does not record what was asked of it.

    See `cluster.backends.processes.lifecycle.Incarnation` for that.
    """

    @property
    def identity(self) -> ProcessIdentity | None:
        """Its pid as signals need it and a start time; None when it was gone at once."""

    async def state(self) -> NodeState:
        """Ask the operating system of its host. Raises BackendError when that cannot be asked."""

    async def send(self, number: signal.Signals) -> None:
        """Signal it and the others of its group; nothing when it is dead. Raises BackendError.

        What a node's command starts is the node: a wrapper that is killed alone would leave a
        server that goes on, and the fault would count as one that took effect.
        """

    async def wait(self) -> int:
        """Wait for its end, through lost connections to the host as well; returns its exit code.

        As from `waitpid`: negative for the signal that ended it (docker's 137 is -9 here). By then
        what it left of its group is dead, too: a node has one end.

        Cancelled when the run ends. Several may wait at once.
        """

    async def output_tail(self) -> tuple[str, ...]:
        """Return the last few lines of its output file; empty when it cannot be read."""

    def kill_now(self) -> bool:
        """SIGKILL it without the event loop, for a harness in a hurry; best effort, never raises.

        Blocks for as long as that takes, a few seconds at most, and returns with it dead if it can.
        False: it had ended before.
        """


@valueclass
class HostPorts:
    """Where things listen in one host, on its own address."""

    client: int = 9092
    controller: int = 9093
    agent: int = 9094
    """UDP, for probes of links (`cluster.backends.agent.probes`)."""


class AgentHost(Host, Caller, Protocol):
    """A host with an agent."""


class ByAgent:
    """What its agent does for a host (`AgentHost`)."""

    @property
    def agent(self) -> Caller:
        """What reaches it."""
        raise NotImplementedError

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """See `Host.run`."""
        return await channel.run(self, command, stdin, timeout_s)

    async def call(
        self, do: str, payload: bytes = b"", *, timeout_s: float | None = ASK_S, **fields: Any
    ) -> Message:
        return await self.agent.call(do, payload, timeout_s=timeout_s, **fields)


class HostProvider(Protocol):
    """Makes one host for each node and runs processes there. Nothing happens before `create`."""

    @property
    def name(self) -> str:
        """The backend's: "netns", "docker", "ssh"."""

    @property
    def clock_library(self) -> PurePath | None:
        """Where the library of faked clocks lies inside the hosts; None where there is none."""

    async def create(self, nodes: Sequence[str]) -> Mapping[str, AgentHost]:
        """Make a host for every node, ready for `put` and `start`, and the folders of the nodes.

        Raises BackendError after it removed what it had made. Cancelled: `tear_down` follows.
        """

    def ports(self, node: str) -> HostPorts:  # noqa: ARG002  (some depend on it)
        """Choose where the node listens; the default fits a host that nobody else uses."""
        return HostPorts()

    async def put(self, node: str, files: Mapping[str, bytes]) -> None:
        """Write files, by path relative to the node's folder; parents are made. BackendError."""

    async def start(
        self, node: str, command: Sequence[str], environment: Mapping[str, str], output: str
    ) -> StartedProcess:
        """Start a process in the node's host, in its folder, in a session of its own.

        `environment` comes over what processes there have anyway. stdout and stderr are appended to
        `output`, a path relative to the folder. Returns as soon as it is started; raises
        BackendError when it cannot be. Used for nodes (`output` is NODE_OUTPUT then, and
        `Host.pid` names the latest such process) and for what is tried beside them.
        """

    async def fetch(self, node: str, destination: Path) -> None:
        """Let `destination` here hold an ended node's folder as it is now. Raises BackendError."""

    async def read_from(self, node: str, path: PurePath, offset: int) -> bytes:
        """Read a file of the node's folder from an offset on; empty where there is none."""

    async def connect(self, host: str, port: int) -> socket.socket:
        """Open a TCP connection from the harness to a host's address; non-blocking, OSError.

        As any program does where the harness's machine has a route there.
        """
        return await plain_connect(host, port)

    async def wait_until_lost(self) -> str:
        """See `Backend.wait_until_lost`."""

    async def tear_down(self) -> None:
        """End and remove everything that it made; idempotent, right after a failed `create` too."""

    def abandon(self) -> None:
        """Do what `tear_down` does, without the event loop, as far as a few seconds allow.

        Called when `tear_down` is cancelled. Never raises; `kraftprobe cleanup` finds the rest.
        """


class FoldersHere(HostProvider, Protocol):
    """Has the nodes' folders in the run folder, at the same path inside the hosts."""

    run_folder: Path

    def folder(self, node: str) -> Path:
        """Locate the folder of a node."""
        return self.run_folder / "nodes" / node

    async def put(self, node: str, files: Mapping[str, bytes]) -> None:
        write_files(node, self.folder(node), files)

    async def fetch(self, node: str, destination: Path) -> None:
        """See `HostProvider.fetch`: the files are here already, and this user's."""
        assert self.folder(node) == destination, "the run folder's own"

    async def read_from(self, node: str, path: PurePath, offset: int) -> bytes:
        return read_here(self.folder(node) / path, offset)


async def all_of(acts: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all of them, also when one fails; then raise what the first of them met."""
    results = await asyncio.gather(*acts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def call_whole(call: Callable[[], T]) -> T:
    """Call in a thread; a cancelled caller waits for its end: what it makes is there by then."""
    calling = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait((calling,))
        raise


async def plain_connect(host: str, port: int) -> socket.socket:
    """Connect as any program of this machine does. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return await connect_by(socket.socket(family, socket.SOCK_STREAM), host, port)


async def connect_by(connection: socket.socket, host: str, port: int) -> socket.socket:
    """Connect this socket, which is closed where that fails. Raises OSError."""
    try:
        connection.setblocking(False)  # noqa: FBT003  (takes no keyword)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
    except BaseException:
        connection.close()
        raise
    return connection

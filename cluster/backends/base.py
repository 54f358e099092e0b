"""Where nodes run, and how they are reached and hurt: the contract of every backend.

A *system* (`cluster.systems`) says how a node is configured, started and found ready. A *backend*
says where its process runs. Everything here that touches a process or a link is a coroutine, since
a container or a host answers over a connection.

Nodes are named "n1", "n2", ...; the number is Kafka's `node.id`. What a backend reports about a
node is what the operating system says now, never what was last asked of it.
"""

from __future__ import annotations

import enum
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cluster.backends.abilities import Abilities
from cluster.backends.terms import BackendError, Link, Probe
from cluster.node.ports import Endpoint, Network
from cluster.systems.base import Listener
from cluster.values import valueclass


class NodeState(enum.StrEnum):
    """What the operating system says of a node's process."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"
    """Never started, ended or killed."""


class Ability(enum.StrEnum):
    """What a fault needs of a backend."""

    PROCESSES = "processes"
    """Start, kill and stop nodes."""
    SIGNALS = "signals"
    """Pause and resume them."""
    LINKS = "links"
    """Cut and restore directed links."""


@valueclass
class LinkMeasure:
    """What was seen of one directed link. Bytes travel it on connections dialled by either end."""

    by_source: bool
    """A request passed on a connection that the source dialled."""
    by_target: bool
    """An answer passed on a connection that the target dialled."""
    bytes_since_cut: int | None
    """All that passed since the link was cut; None when it is not cut or cannot be counted."""
    partly: bool = False
    """What passed did so on connections to one listener, and not on those to another."""

    @property
    def works(self) -> bool:
        """Both ways of using the link pass."""
        return self.by_source and self.by_target and not self.partly

    @property
    def silent(self) -> bool:
        """Nothing passes, and nothing has since the cut."""
        return not (self.by_source or self.by_target or self.bytes_since_cut)


@valueclass
class ProcessIdentity:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str
    """The kernel's start time of the process, opaque; equal only for the same process."""


@valueclass
class Death:
    """The end of a node's process that nobody asked for: as a rule evidence for a FAIL."""

    node: str
    incarnation: int
    exit_code: int
    """As from `waitpid`: negative for the signal that ended it."""
    output_tail: tuple[str, ...]
    """Last lines that it wrote to stdout and stderr."""


class ClientNetwork(Network, Protocol):
    """A network of the harness's own, with connections that nobody else shares."""

    def close(self) -> None:
        """End all its connections; what waits gets its failure. Idempotent."""


class Backend(Protocol):
    """A place that runs a fixed set of nodes.

    Commands on a node are idempotent as far as that makes sense: killing or stopping a dead node,
    resuming a running one and cutting a cut link do nothing. Starting a node that is not dead,
    and pausing or stopping what cannot be, raise BackendError: a caller checks first
    (`nemeses.active_faults`).
    """

    name: str
    """"local", "docker", ..."""
    nodes: tuple[str, ...]

    async def probe(self, ability: Ability) -> Probe:
        """Try whether this place can do that, in a cluster that is up and that nobody uses."""

    async def up(self) -> None:
        """Allocate ports, links and folders, start every node, wait until all of them answer.

        Raises BackendError, after it has taken down what it had started.
        """

    async def wait_until_lost(self) -> str:
        """Wait until the place itself is gone (an engine that died); one line that says what to do.

        For ever where a place cannot be lost while the harness lives.
        """

    async def down(self) -> None:
        """Stop gracefully what is alive, kill the rest, remove links and ports.

        Idempotent; safe in a `finally`, also when `up` failed or was cancelled, and when it is
        itself cancelled, in which case it kills at once. Leaves no process behind.
        """

    async def start(self, node: str) -> None:
        """Start a dead node as its next incarnation, and wait until it answers.

        At its first start that is wherever it listens, later where it needs no quorum to answer
        (`cluster.systems.base.System.ready_listeners`). Raises BackendError when it ends or stays
        silent instead; it is then dead.
        """

    async def join_anew(self, node: str) -> None:
        """Let a dead node with an empty disk start, from now on, as a replica of no voter set.

        It is given bootstrap servers (`controller.quorum.bootstrap.servers`) and no voters, as an
        operator must: by its old configuration it would take itself for a voter that it is not.
        Raises BackendError when it is not dead.
        """

    async def terminate(self, node: str) -> None:
        """SIGTERM; returns once it is sent. Raises BackendError where the node is paused."""

    async def stop(self, node: str) -> None:
        """SIGTERM, and wait for the end; what does not end in time is killed: BackendError."""

    async def kill(self, node: str) -> None:
        """SIGKILL, and wait until the process is gone. Works on a paused node."""

    async def pause(self, node: str) -> None:
        """SIGSTOP, and wait until the operating system shows it stopped."""

    async def resume(self, node: str) -> None:
        """SIGCONT, and wait until the operating system shows it running."""

    async def state(self, node: str) -> NodeState:
        """Ask the operating system what the node's process is doing now."""

    async def process(self, node: str) -> ProcessIdentity | None:
        """Identify the node's live process (running or paused), None when there is none."""

    def incarnation(self, node: str) -> int:
        """How often the node was started before its present or last process; -1: never started."""

    def unexpected_deaths(self) -> tuple[Death, ...]:
        """List every process so far that ended unasked, oldest first; it only ever grows.

        A node that crashed while it was being stopped, or before a kill reached it, is one too.
        """

    async def cut_links(self, links: Iterable[Link]) -> None:
        """Let nothing pass on these directed links any more, on old or new connections."""

    async def restore_links(self, links: Iterable[Link]) -> None:
        """Let bytes pass again; what was held flows."""

    def links_cut(self) -> frozenset[Link]:
        """Name the links that are cut."""

    async def measure_link(self, link: Link, timeout_s: float = 0.5) -> LinkMeasure:
        """Try whether bytes pass from the link's source to its target, in that direction only.

        Both nodes must run: what is seen of a link of a dead or paused node depends on the place.
        Silence takes the whole time-out to establish.
        """

    def endpoint(self, node: str, listener: Listener = "CONTROLLER") -> Endpoint:
        """Where the harness reaches the node directly: no link fault is in this path."""

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        """Open a connection from the harness to a node, non-blocking. Raises OSError."""

    def client_network(self) -> ClientNetwork:
        """Make a network for one of the harness's clients; call it inside the running event loop.

        Connections answer in order, so clients that must not wait for each other need their own.
        """

    def abilities(self) -> Abilities:
        """What else this place can do to its nodes; the same objects at every call."""

    def node_folder(self, node: str) -> Path:
        """Locate the node's folder in the run: stdout.log, trace.jsonl, configuration, data."""

    async def read_trace(self, node: str, offset: int) -> bytes:
        """Read of a running node's trace from byte `offset` on, maybe in parts. BackendError."""


__all__ = [
    "Abilities",
    "Ability",
    "Backend",
    "BackendError",
    "ClientNetwork",
    "Death",
    "Link",
    "LinkMeasure",
    "Listener",
    "NodeState",
    "Probe",
    "ProcessIdentity",
]

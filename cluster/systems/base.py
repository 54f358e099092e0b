"""What is installed and started: the contract of every system under test.

A system knows how one node is configured, started and asked for a sign of life. It knows nothing
of where the node runs: a backend places it, describes the place to the system (`Placement`), writes
the files that the system renders, and runs the command that the system names.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePath
from typing import Literal, Protocol, runtime_checkable

from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.node.security.tls import ClientSecurity
from cluster.values import valueclass

Listener = Literal["CONTROLLER", "CLIENT"]
"""CONTROLLER serves peers and controller APIs; CLIENT is the broker-type listener."""
Listeners = tuple[Listener, ...]
"""Those of one node. Without CONTROLLER it never votes, without CLIENT it serves no clients."""
EVERY_LISTENER: Listeners = ("CONTROLLER", "CLIENT")

Ready = Callable[[Connect, Mapping[str, Endpoint]], Awaitable[bool]]
"""(opens a connection, ports of a node by name) -> whether it is up; OSError: not yet."""

Names = Literal["posix", "with-file"]
"""When a changed name is durable, and where a write may be torn: see
`cluster.backends.machine.faultfs.volatile`."""


@valueclass
class Damageable:
    """Where damage to a dead node's file must be noticed when the node starts."""

    path: str
    """Below its data folder."""
    places: Callable[[bytes], Sequence[int]]
    """(the beginning of the file) -> the bytes of which one is flipped, or cut off with all behind
    it: under a checksum, and of what was durable, so with something intact behind it."""
    refuses: bool = True
    """Whether the node must end then. A cut at the end of a log it can hardly notice, so this is
    for flipped bits. Else it may start as well, and clients must not see it: this is for systems
    that promise to survive damage to a minority of the nodes."""


@valueclass
class Placement:
    """One node's place, as the node itself sees it."""

    name: str
    """"n1", "n2", ..."""
    node_id: int
    run_id: str
    folder: PurePath
    """Absolute; the node's working folder, where its files, output, trace and data go."""
    interpreter: str
    """Python there, able to import what this process can."""
    client: Endpoint
    """Where its broker-type listener listens."""
    controller: Endpoint
    """Where its controller listener listens."""
    voters: tuple[Endpoint, ...]
    """Controller listeners of all nodes, itself included, by node id."""
    brokers: tuple[Endpoint, ...]
    """Broker-type listeners of all nodes, itself included, by node id."""
    routes: tuple[Endpoint, ...]
    """Where it must dial each peer instead of at the peer's own address; empty: nowhere else."""
    broker_routes: tuple[Endpoint, ...] = ()
    """The same of each peer's broker-type listener."""
    release: int = 0
    """Which of its system's releases it is started as."""
    bootstrap: tuple[Endpoint, ...] = ()
    """What it asks for the leader when there are no `voters`: it joins a quorum as an observer."""
    ports: Mapping[str, tuple[Endpoint, ...]] = field(default_factory=dict)
    """Name of each of `System.ports` -> where the nodes have it, by node id."""


class TraceReader(Protocol):
    """Makes a node's trace from what the node writes, as it comes."""

    def take(self, data: bytes) -> bytes:
        """Return the whole lines that follow from the next bytes."""

    def end(self) -> bytes:
        """Return what was kept back in case that more came."""


class Layout(Protocol):
    """Where a node's files lie, running or stored. Nodes write their trace to `trace.jsonl`."""

    def data_folder(self, folder: PurePath) -> PurePath:
        """Locate the metadata folder of a node in this folder."""

    def log_folder(self, folder: PurePath) -> PurePath:
        """Locate the folder with the metadata log's segments and the quorum-state file."""

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        """Locate where the logs of topics' partitions may be, one folder each."""

    def trace_file(self, folder: PurePath) -> PurePath:
        """Locate the node's event trace."""
        return folder / "trace.jsonl"

    def trace_source(self, folder: PurePath) -> PurePath:
        """Locate what the node writes while it runs: the trace, or what it is made from."""
        return self.trace_file(folder)

    def trace_reader(self, folder: PurePath) -> TraceReader | None:  # noqa: ARG002  (contract)
        """Make what reads the source anew; None: the source is the trace."""
        return None


@runtime_checkable
class System(Layout, Protocol):
    """How to run one kind of node."""

    name: str
    mutant: str | None = None
    """The deliberately wrong variant that it starts, None for the true program."""
    ping: bytes
    """What a healthy node answers at once on each listener, whatever its role: a whole request,
    or where it speaks TLS the beginning of a handshake."""
    client_security: ClientSecurity
    """How the harness connects to its listeners."""
    stop_timeout_s: float
    """How long a node may take to end after SIGTERM."""
    stop_codes: frozenset[int] = frozenset({0, -signal.SIGTERM})
    """How a node that was asked by SIGTERM may end, as from `waitpid`."""
    ready_timeout_s: float
    """How long a node may take until it answers; one that dies meanwhile is noticed at once."""
    ready_listeners: Listeners = EVERY_LISTENER
    """Where a node that listens there answers once it is ready; others may wait for its quorum."""
    ready: Ready | None = None
    """Asks a node that starts whether it is up, at most a second long, instead of `ping`. It must
    not depend on other nodes, or no node could start while a fault keeps the others away."""
    ports: tuple[str, ...] = ()
    """Names of the ports that a node needs beside CLIENT and CONTROLLER: clients can connect to
    them, and backend `local` has no proxies before them."""

    change_listeners: Callable[[int, Listeners], None] | None = None
    """(node id, listeners) -> the node has those from its next start on; None: never others."""

    releases: tuple[str, ...] = ()
    """Releases of an upgrade, by the names that nodes print; none: nodes are of one release."""
    reads: tuple[Path, ...] = ()
    """Folders of this machine, beside its code, that a node reads at the same path."""
    image: str | None = None
    """Id of the image in whose root file system its nodes run (`cluster.systems.image`); None: they
    run in what the backend brings."""
    mapped: tuple[str, ...] = ()
    """How the names of those files end that a node maps into memory for writing."""

    damageable: Callable[[Mapping[str, int]], Damageable | None] | None = None
    """(files below a dead node's data folder -> bytes) -> what the faults bit-flip and
    truncate-file damage; None: the node has written too little. Of a metadata quorum they know the
    files themselves."""

    names: Names = "posix"
    """What its disk promises when the power is lost."""

    def listeners(self, node_id: int) -> Listeners:  # noqa: ARG002  (contract)
        """Say where the node of this id listens: everywhere."""
        return EVERY_LISTENER

    def files(self, node: Placement) -> Mapping[str, str]:
        """Render the node's configuration: path relative to its folder -> content."""

    def command(self, node: Placement) -> tuple[str, ...]:
        """Name the program and its arguments, to be run in the node's folder."""

    def environment(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        """Give the variables to set beside those that the node inherits.

        By that of Python output reaches the log before a kill can lose it.
        """
        return {"PYTHONUNBUFFERED": "1"}

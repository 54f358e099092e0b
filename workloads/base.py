"""What a workload is: what clients do, how they do it, and which checks judge it.

A workload knows nothing of when: it hands out, for each worker, an endless stream of operations
that is a function of a seeded generator alone. The harness decides how fast and until when, and
journals what comes back. So the same seed gives the same operations in the same order to each
worker, on every backend; only the timing, and how far each stream gets, differs.

A worker is a lasting place from which a process acts. When an operation of a process ends in
`info` the process is done and the worker goes on as a new one (see `checkers.history`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Protocol, runtime_checkable

from checkers.history import EventType, Value
from checkers.registry import CheckSpec
from cluster.backends.base import Listener
from cluster.client.admin_client import Client
from cluster.client.caller import Outcome, Peer
from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.systems.cells import CellOf
from cluster.values import valueclass


class LeaderTracker:
    """The node that is believed to lead, and the epoch of that belief.

    Beliefs come from the quorum's own descriptions (`learn`); a node that refused or did not
    answer is left for the next in order (`suspect`), so that clients find a leader by themselves
    where nothing names it.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        """`nodes`: those that may lead."""
        assert nodes, "a cluster has nodes"
        self.nodes = tuple(nodes)
        self.guess = self.nodes[0]
        """The node to ask next."""
        self.epoch = -1
        """Latest epoch in which a leader was seen; -1 before."""

    def learn(self, node: str, epoch: int) -> None:
        """Believe that `node` leads `epoch`; what is older than the belief is ignored."""
        assert node in self.nodes, f"unknown node {node}"
        if epoch >= self.epoch:
            self.guess, self.epoch = node, epoch

    def suspect(self, node: str) -> None:
        """`node` was asked and does not lead; ignored when the belief has moved on since."""
        if node == self.guess:
            position = self.nodes.index(node)
            self.guess = self.nodes[(position + 1) % len(self.nodes)]


CLIENT, OWN = "client", "own"
"""Option that says whose clients a workload has; these speak the protocol themselves."""
EVERY_NODE = "*"
"""As the node of a final operation: it is performed once at each node that serves clients."""


@valueclass
class Op:
    """What a client is about to do: the part of an invocation that the workload decides."""

    f: str
    key: str | None = None
    value: Value = None
    node: str | None = None
    """The one node to ask; None: the client chooses."""


@valueclass
class Completion:
    """How an operation ended; the fields are those of `checkers.history.Event`."""

    type: EventType
    value: Value = None
    error: str | None = None
    node: str | None = None
    offset: int | None = None
    epoch: int | None = None

    def __post_init__(self) -> None:
        assert self.type is not EventType.INVOKE, "a completion is ok, fail or info"


EndpointOf = Callable[[str, Listener], Endpoint]
"""(node, listener name) -> where it listens for clients of the harness."""


@valueclass
class ClientContext:
    """What a worker's client is given. A new process of the worker gets a new client."""

    client: Client
    endpoint: EndpointOf
    nodes_at: Callable[[Listener], Sequence[str]]
    """Listener name -> the nodes that have it."""
    leader: LeaderTracker
    worker: int
    process: int
    pinned_to: str | None
    """The one node that this worker ever asks; None: it follows the leader."""
    timeout_ms: float
    """How long an operation may take before it is called indeterminate."""
    cell: CellOf
    """Where the system under test keeps what is called by a name."""
    reads_at: Listener
    """Where cells are read."""
    reads_lag: bool
    """See `Workload.checks`."""
    connect: Connect
    """Opens a connection to an endpoint, for clients that do not speak Kafka's protocol."""
    java: Callable[[], Sequence[str]] = tuple
    """Returns the Java and the class path by which the system's own client library is run."""

    def peer(self, node: str, listener: Listener = "CONTROLLER") -> Peer:
        """Return a node to be asked at a listener, within the time of an operation."""
        return Peer(self.endpoint(node, listener), self.timeout_ms)


class WorkloadClient(Protocol):
    """Performs operations, one at a time."""

    async def invoke(self, op: Op) -> Completion:
        """Perform `op`. Ends within the context's timeout.

        Whatever the system under test does is a completion. An exception means that the harness
        itself is broken: the run is aborted, never counted.
        """

    async def close(self) -> None:
        """Let go of what the client holds. Called once."""


def lagging_reads(**options: Any) -> CheckSpec:
    """Return the check of reads that may be stale but never go back at one node."""
    guarantees = ["monotonic-reads", "monotonic-writes", "writes-follow-reads"]
    return CheckSpec("sessions", {**options, "guarantees": guarantees, "per_node": True})


@valueclass
class Option:
    """One option of a workload: a whole number where its default is one, else any number."""

    default: float
    help: str
    minimum: float
    maximum: float


@valueclass
class Choice:
    """One option of a workload that is one of some words."""

    default: str
    help: str
    choices: tuple[str, ...]


class Role(enum.Enum):
    """What a worker is there for.

    A leader that was cut off keeps its clients waiting, for reads or for writes, whichever it does
    right; a client that does both hangs at the first of them, and never sees the other done wrong.
    So of the workers that are pinned to a node some only read and some only write.
    """

    MIXED = "mixed"
    READER = "reader"
    WRITER = "writer"


@runtime_checkable
class Workload(Protocol):
    """See the module. Instances hold validated options and are immutable."""

    @property
    def name(self) -> str:
        """As a plan names it."""

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Stream a worker's operations without end, with no randomness but `random`."""

    def setup_operations(self) -> Sequence[Op]:
        """Operations of the beginning, each repeated until one of them is ok, before any fault."""

    def final_operations(self) -> Sequence[Op]:
        """Operations of the end, each repeated until one of them is ok, after the heal."""

    def cells(self) -> Sequence[str]:
        """Name the cells that it writes, which final reads show."""

    def client(self, context: ClientContext) -> WorkloadClient:
        """Make a client for one process."""

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Name what judges a run of this workload, by what the system promises of reads.

        `reads_lag`: they come from a broker's own image, which may be stale but never goes back.
        """


@valueclass
class WorkloadKind:
    """A workload before its options are known."""

    name: str
    title: str
    """One line for `kraftprobe list workloads`."""
    options: Mapping[str, Option | Choice]
    create: Callable[[Mapping[str, Any]], Workload]
    """Takes every option, validated, defaults filled in."""
    speaks_kafka: bool = True
    """Whether its clients speak the protocol of Kafka; else systems list it among theirs."""
    creates_partitions: bool = False
    """Whether partitions come to be whose leaders the stored metadata log then shows."""
    needs_coordinators: bool = False
    """Whether it is for systems whose brokers coordinate groups and transactions (KIP-98)."""


def completion(outcome: Outcome, node: str, value: Value = None) -> Completion:
    """Render an outcome for the journal; `value` stands where it has none of its own."""
    result = value if outcome.value is None else outcome.value
    return Completion(EventType(outcome.type), result, outcome.error, node)

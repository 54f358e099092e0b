"""What is known of a kind of system before a plan chooses it: what it takes, promises and traces.

The harness asks a kind, never a system by its name: whether a plan's settings fit, where a stored
run's files lie, what proves that a node has caught up, which of its answers are certain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.systems.base import EVERY_LISTENER, Layout, Listener, Listeners, System
from cluster.systems.cells import CellOf, own_cell
from cluster.systems.image import Image
from cluster.systems.secured import RunSecurity
from cluster.values import valueclass


class SettingError(ValueError):
    """A plan asks a system for what it does not have; one line."""


AskLeader = Callable[[Connect, Endpoint, float], Awaitable[tuple[int, int | None] | None]]
"""(opens a connection, a node's listener `SystemKind.leader_at`, bound in ms) -> id of the leader
and its epoch, as that node knows them; None: it knows none, or does not answer. An epoch of None is
for systems that show none: then a node is believed only where it says that it leads itself, and
each leader that differs from the one before counts as of the next epoch."""


@valueclass
class SystemRequest:
    """What a run's plan says about its system."""

    node_settings: Mapping[str, Any]
    options: Mapping[str, str]
    mutant: str | None = None
    security: RunSecurity | None = None
    """Keys and passwords of the run; None: nothing is secured."""
    image: Image | None = None
    """That of the option of this name, once it was found."""


ListenersOf = Callable[[SystemRequest, int], tuple[Listeners, ...]]
"""(what a plan says, number of nodes) -> listeners of n1, n2, ...; raises SettingError where the
plan says what cannot be of so many nodes."""


def everywhere(_: SystemRequest, nodes: int) -> tuple[Listeners, ...]:
    """Let every node vote and serve clients."""
    return (EVERY_LISTENER,) * nodes


WholeTraces = Callable[[SystemRequest, int], tuple[bool, ...]]
"""(what a plan says, number of nodes) -> whether n1, n2, ... trace all of docs/evidence.md."""


def nowhere(_: SystemRequest, nodes: int) -> tuple[bool, ...]:
    """Let no node trace more than all others do."""
    return (False,) * nodes


def _none(_: SystemRequest) -> Mapping[str, str]:
    return {}


def _no_java(_: SystemRequest) -> tuple[str, ...]:
    return ()


@valueclass(kw_only=True)
class SystemKind:
    """See the module."""

    name: str
    """As a plan names it."""
    title: str
    """One line for `kraftprobe list systems`."""
    layout: Layout
    check: Callable[[SystemRequest], None]
    """Raises SettingError for settings or options that the system does not take."""
    create: Callable[[SystemRequest], System]
    """Raises SettingError also where what is to be started is not there."""
    versions: Callable[[SystemRequest], Mapping[str, str]] = _none
    """Name -> version of what is started, to be stored with a run; that of the kind's own name
    stands at the head of the report. Raises what `create` raises."""
    made_of: str = ""
    """What its nodes consist of where not all of it is the system's own: each report says so."""
    metadata_quorum: bool = True
    """Whether it is a metadata quorum of Kafka: it describes itself (DescribeQuorum), shows cells,
    and keeps a log. Else a run is judged by its history alone, without final reads and evidence,
    beside the traces of raft that it leaves: `traced` lists their events."""
    describes_quorum: bool = False
    """Of a system that is no metadata quorum: whether its nodes answer DescribeQuorum all the
    same."""
    ask_leader: AskLeader | None = None
    """Of a system that is no metadata quorum; None: no node leads, so that faults cannot aim at a
    leader, and no election is expected."""
    leader_at: Listener = "CONTROLLER"
    """Where `ask_leader` asks."""
    listeners: ListenersOf = everywhere
    """Where each node listens, and so which of them may vote and which serve clients."""
    cell: CellOf = own_cell
    """Gives as many cells as names."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Name of each option (`system_options` of a plan) -> what it says."""
    backends: frozenset[str] | None = None
    """Where it runs in real time; None: everywhere."""
    simulated: bool = False
    """Whether the nodes of the simulated world are of this kind."""
    workloads: frozenset[str] | None = None
    """What its promises and its interface allow; None: those of Kafka's protocol, for a metadata
    quorum, and those of the package that adds the system."""
    faults: Mapping[str, frozenset[str]] | None = None
    """By backend, the faults that it can be put under; None: all that the backend has, without
    those that only a metadata quorum can have."""
    scripted: Mapping[str, Any] | None = None
    """What strands of steps, which act on single messages and states, need of its node settings;
    None: it plays no strands."""
    mechanisms: frozenset[str] | None = None
    """Of SASL, those by which all its listeners can be secured; None: all."""
    has_mutants: bool = False
    has_coordinators: bool = False
    """Whether its brokers coordinate groups and transactions (KIP-62, KIP-98)."""
    java: Callable[[SystemRequest], tuple[str, ...]] = _no_java
    """Returns the Java and the class path by which its own client library is run."""
    reads_at: Listener = "CONTROLLER"
    """Where clients read cells."""
    reads_lag: bool = False
    """Whether a read of a cell may be stale, as of a broker's own image, though no node goes back,
    not even when it is restarted; else it is linearizable."""
    traced: frozenset[str] | None = None
    """The trace events that can be known of all its nodes; None: all of docs/evidence.md."""
    whole_traces: WholeTraces = nowhere
    """Which of the nodes trace everything where not all do."""
    indefinite: frozenset[ErrorCode] = frozenset()
    """Errors of `cluster.client.failures.DEFINITE_ERRORS` that it also gives to requests which may
    have had their effect."""

    @property
    def is_led(self) -> bool:
        """Whether one of its nodes leads."""
        return self.can_describe or self.ask_leader is not None

    @property
    def can_describe(self) -> bool:
        """Whether its nodes answer DescribeQuorum."""
        return self.metadata_quorum or self.describes_quorum

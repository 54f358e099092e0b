"""What the nodes left behind, in the form that the white-box checks read.

The harness decodes each node's log and state (it knows the file formats; this package does not)
and stores JSON lines in `nodes/<node>/evidence/`:

- `log.jsonl`: one line a record, see `LogRecord`; the node's whole log after the final stop.
- `snapshots.jsonl`: one line a snapshot that the node has on its disk, see `Snapshot`.
- `partition-logs.jsonl`: one line a log of a topic's partition that lies on the node's disk, see
  `PartitionLog`.
- `quorum-state.json`: the node's last quorum-state file, as Kafka writes it, plus
  `"logStartOffset"`, `"logEndOffset"`, `"tornTailBytes"` (left out behind the end as torn),
  `"directoryId"` (of the node's data folder) and `"traceBytes"` (how long its trace was).
- `state.jsonl`: final reads taken from this node over the wire, see `FinalRead`.
- `trace.jsonl` (in `nodes/<node>/`): the node's own event trace, see `docs/evidence.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from checkers.history import Event, seconds
from checkers.history.recorded import statements

FINAL_READS = "final-reads"
"""The nemesis's note on which nodes could be read after the heal."""
PHASE = "phase"
"""The nemesis's note that a phase of the run begins; the first one carries the run's clock."""
WORLD_CLOCK = "simulated world"
"""Name of the one clock that a simulated world has beside those of its nodes."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a node's log."""

    node: str
    offset: int
    epoch: int
    """partitionLeaderEpoch of its batch."""
    batch_crc: int
    """CRC-32C of its batch, which covers neither the base offset nor the epoch."""
    kind: str
    """`control:LEADER_CHANGE` or the metadata record's name, e.g. `TopicRecord`."""
    value: dict[str, Any] = field(default_factory=dict)
    """Decoded fields, JSON-able."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a node has on its disk in place of a log's beginning."""

    node: str
    offset: int
    """Where what it holds ends, exclusive."""
    epoch: int
    records: Sequence[tuple[str, Mapping[str, Any]]]
    """(kind, value) as of `LogRecord`."""


TEXT_MAX = 200
"""Characters of a value that evidence keeps; longer ones are known by the CRC of their batch."""


@dataclass(frozen=True, slots=True)
class DataBatch:
    """One record batch of a partition's log."""

    base_offset: int
    last_offset: int
    epoch: int
    """partitionLeaderEpoch"""
    crc: int
    """CRC-32C, which covers neither base offset nor epoch."""
    values: Sequence[str | None]
    """Of its records, as texts; None for one without a text of at most `TEXT_MAX` characters.
    Empty: a control batch."""


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One replica's log of a partition, as it lay on the disk after the final stop."""

    node: str
    partition: str
    """`d0-3`, the name of its folder."""
    start_offset: int
    """Of its first segment, or where the node's checkpoint says that the log begins."""
    end_offset: int
    high_watermark: int | None
    """As the node last saved it; None: it never did."""
    batches: Sequence[DataBatch]
    """In offset order."""
    damage: str | None = None
    """Why what lies there is no log; then nothing else is known of it."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of a node's trace."""

    node: str
    incarnation: int
    """Counts the process starts of the node, from 0."""
    time_ns: int
    """The node's monotonic clock; comparable within one host only."""
    event: str
    fields: Mapping[str, Any]
    world_ns: int | None = None
    """In a simulated world: its time, which is that of no node's clock."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """The clock that the harness journals by."""

    name: str
    """As a trace's `start` names its own: equal where times can be compared."""
    origin_ns: int
    """What it showed at time 0 of the journal."""


@dataclass(frozen=True, slots=True)
class FinalRead:
    """The whole of what one node serves after healing: topics and configs from its image."""

    node: str
    high_watermark: int
    """Committed offset up to which the read image had replayed."""
    topics: Mapping[str, Mapping[str, Any]]
    """name -> {"id": uuid string, "partitions": int}"""
    configs: Mapping[str, Mapping[str, str]]
    """resource as `<type>:<name>` (`topic:a`, `broker:`) -> {config name: value}"""


@dataclass(frozen=True)
class Evidence:
    """Everything that the nodes of one run left behind."""

    nodes: Sequence[str]
    """All of them."""
    logs: Mapping[str, Sequence[LogRecord]]
    """By node, in offset order."""
    quorum_states: Mapping[str, Mapping[str, Any]]
    traces: Mapping[str, Sequence[TraceEvent]]
    final_reads: Mapping[str, FinalRead]
    snapshots: Mapping[str, Sequence[Snapshot]] = field(default_factory=dict)
    """By node, in offset order."""
    partition_logs: Mapping[str, Sequence[PartitionLog]] = field(default_factory=dict)
    """By node; no entry: they were not looked for, or cannot be read."""
    run_clock: RunClock | None = None
    """None where the journal does not say: then no trace event can be placed in the run."""

    def run_ns(self, event: TraceEvent) -> int | None:
        """Return when an event was traced, on the journal's axis; None where nothing says.

        Sound where the node read the very clock that the harness read: the monotonic clock of one
        kernel since its boot, which all processes and containers on it share, or a simulated
        world's. A node on another host has a clock of its own.
        """
        clock = self.run_clock
        if clock is None:
            return None
        if event.world_ns is not None:
            return event.world_ns - clock.origin_ns if clock.name == WORLD_CLOCK else None
        same = self._clocks.get((event.node, event.incarnation)) == clock.name
        return event.time_ns - clock.origin_ns if same else None

    @cached_property
    def placed_events(self) -> list[tuple[int, TraceEvent]]:
        """Return the trace events that can be placed in the run, with their times, in order."""
        found = [
            (at_ns, event)
            for trace in self.traces.values()
            for event in trace
            if (at_ns := self.run_ns(event)) is not None
        ]
        return sorted(found, key=itemgetter(0))

    def announced_end(self, nodes: Iterable[str] | None = None) -> int:
        """Return the highest high watermark that these nodes traced, or any node; 0: there is none.

        What lies below it is committed.
        """
        marks = (
            event.fields.get("offset")
            for node in (self.traces if nodes is None else nodes)
            for event in self.traces.get(node, ())
            if event.event == "hw"
        )
        return max((mark for mark in marks if type(mark) is int), default=0)

    def when(self, event: TraceEvent) -> str:
        """Say when an event was traced: `12.345000 s`, or `80.100000 s of n2's own clock`."""
        run_ns = self.run_ns(event)
        if run_ns is not None:
            return seconds(run_ns)
        return f"{seconds(event.time_ns)} of {event.node}'s own clock"

    def place(self, event: TraceEvent) -> dict[str, Any]:
        """Return the fields by which an anomaly names the event that shows it."""
        named = {"node": event.node, "incarnation": event.incarnation, "t_ns": event.time_ns}
        run_ns = self.run_ns(event)
        return named if run_ns is None else {**named, "at_ns": run_ns}

    @cached_property
    def _clocks(self) -> Mapping[tuple[str, int], str]:
        """Name the monotonic clock of each (node, incarnation) that its trace names."""
        starts = (e for trace in self.traces.values() for e in trace if e.event == "start")
        named = ((start, start.fields.get("clock")) for start in starts)
        return {(s.node, s.incarnation): name for s, name in named if isinstance(name, str)}


def run_clock(events: Sequence[Event]) -> RunClock | None:
    """Return the clock of a journal's times, as its first phase carries it."""
    for note in statements(events, PHASE):
        name, origin_ns = note.value.get("clock"), note.value.get("origin_ns")
        if isinstance(name, str) and name and type(origin_ns) is int:
            return RunClock(name, origin_ns)
        return None
    return None

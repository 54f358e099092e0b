"""What the nodes left behind, in the form that the white-box checks read.

The harness decodes each node's log and state (it knows the file formats; this package does not)
and stores JSON lines in `nodes/<node>/evidence/`:

- `log.jsonl`: one line a record, see `LogRecord`; the node's whole log after the final stop.
- `quorum-state.json`: the node's last quorum-state file, as Kafka writes it, plus
  `"logStartOffset"`, `"logEndOffset"`.
- `state.jsonl`: final reads taken from this node over the wire, see `FinalRead`.
- `trace.jsonl` (in `nodes/<node>/`): the node's own event trace, see `docs/evidence.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.history import NEMESIS, Event

FINAL_READS = "final-reads"
"""The nemesis's note on which nodes could be read after the heal."""


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
class TraceEvent:
    """One line of a node's trace."""

    node: str
    incarnation: int
    """Counts the process starts of the node, from 0."""
    time_ns: int
    """The node's monotonic clock; comparable within one host only."""
    event: str
    fields: Mapping[str, Any]


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


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the nodes of one run left behind."""

    nodes: Sequence[str]
    """All of them."""
    logs: Mapping[str, Sequence[LogRecord]]
    """By node, in offset order."""
    quorum_states: Mapping[str, Mapping[str, Any]]
    traces: Mapping[str, Sequence[TraceEvent]]
    final_reads: Mapping[str, FinalRead]
    lost: frozenset[str] = frozenset()
    """Nodes whose files a fault damaged for good: of them only the trace is asked for."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Nodes that should have left a log and a state, and serve."""
        return tuple(node for node in self.nodes if node not in self.lost)


def lost_nodes(events: Sequence[Event]) -> frozenset[str]:
    """Name the nodes that the nemesis says are lost for good, in its note on the final reads."""
    lost: set[str] = set()
    for note in events:
        if note.process == NEMESIS and note.f == FINAL_READS and isinstance(note.value, dict):
            told = note.value.get("lost")
            lost.update(map(str, told) if isinstance(told, list) else ())
    return frozenset(lost)

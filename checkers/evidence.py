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
    logs: Mapping[str, Sequence[LogRecord]]
    """By node, in offset order."""
    quorum_states: Mapping[str, Mapping[str, Any]]
    traces: Mapping[str, Sequence[TraceEvent]]
    final_reads: Mapping[str, FinalRead]

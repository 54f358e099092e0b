"""How a simulated world behaves without faults. JSON-able, so that a plan can hold it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from cluster.schemas import Flag, rising
from cluster.values import valueclass

Amount = Annotated[float, Field(strict=True, ge=0, le=1e12)]
Probability = Annotated[float, Field(strict=True, ge=0, le=1)]

Span = Annotated[tuple[Amount, Amount], AfterValidator(rising), Field(description="[least, most]")]
"""(least, most), drawn uniformly."""


@valueclass
class SimSettings:
    """Latencies in milliseconds, probabilities in [0, 1]."""

    latency_ms: Span = (0.1, 0.8)
    """One way, between nodes."""
    slow_probability: Probability = 0.0
    """How often a message takes `slow_ms` instead; later ones overtake it."""
    slow_ms: Span = (5.0, 80.0)
    loss: Probability = 0.0
    """Of raft messages between nodes. (TCP loses none of a client's but with the connection.)"""
    duplication: Probability = 0.0
    """Of raft messages between nodes."""
    cut_keeps: Probability = 0.3
    """How often a message over a cut link is kept and delivered once it is restored, as TCP does
    while the connection lives; the others are lost."""
    client_latency_ms: Span = (0.1, 0.5)
    """One way, between the harness and nodes."""
    sync_ms: Span = (0.2, 1.2)
    """How long an fsync takes."""
    slow_sync_probability: Probability = 0.0
    slow_sync_ms: Span = (5.0, 100.0)
    start_ms: Span = (20.0, 60.0)
    """How long a process takes from its start to its first instruction."""
    drift_ppm: Amount = 100.0
    """Most by which a node's monotonic clock runs fast or slow, in parts per million."""
    skew_ms: Amount = 50.0
    """Most by which a node's wall clock is off when the world begins."""
    power_loss: Literal["any", "nothing", "everything", "written"] = "any"
    """What a kill keeps of unsynced changes: "any" prefix of each file's, the last one torn,
    "nothing", "everything", or what was "written": the process dies, the kernel lives."""
    observers: Annotated[int, Field(strict=True, ge=0, le=1_000)] = 0
    """How many nodes, the last ones, are not among the voters at first. They, and a node
    that lost its disk, are configured with `controller.quorum.bootstrap.servers` (KIP-853)."""
    waits_for_leader: Flag = True
    """Whether the fault phase begins when a leader is established, or as the nodes start."""
    wire: Flag = False
    """Encode and decode every message with `cluster.node.protocol`, as real nodes do."""
    trace_in_memory: Flag = True
    """Keep the nodes' traces; without them there is no white-box evidence."""

    def to_json(self) -> dict[str, Any]:
        """Render for a plan."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }

"""How a simulated world behaves without faults. JSON-able, so that a plan can hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from cluster.names import unknown
from cluster.values import valueclass

Span = tuple[float, float]
"""(least, most), drawn uniformly."""


class SimSettingError(ValueError):
    """A simulation setting that does not exist or cannot be; one line."""


@valueclass
class SimSettings:
    """Latencies in milliseconds, probabilities in [0, 1]."""

    latency_ms: Span = (0.1, 0.8)
    """One way, between nodes."""
    slow_probability: float = 0.0
    """How often a message takes `slow_ms` instead; later ones overtake it."""
    slow_ms: Span = (5.0, 80.0)
    loss: float = 0.0
    """Of raft messages between nodes. (TCP loses none of a client's but with the connection.)"""
    duplication: float = 0.0
    """Of raft messages between nodes."""
    cut_keeps: float = 0.3
    """How often a message over a cut link is kept and delivered once it is restored, as TCP does
    while the connection lives; the others are lost."""
    client_latency_ms: Span = (0.1, 0.5)
    """One way, between the harness and nodes."""
    sync_ms: Span = (0.2, 1.2)
    """How long an fsync takes."""
    slow_sync_probability: float = 0.0
    slow_sync_ms: Span = (5.0, 100.0)
    start_ms: Span = (20.0, 60.0)
    """How long a process takes from its start to its first instruction."""
    drift_ppm: float = 100.0
    """Most by which a node's monotonic clock runs fast or slow, in parts per million."""
    skew_ms: float = 50.0
    """Most by which a node's wall clock is off when the world begins."""
    power_loss: str = "any"
    """What a kill keeps of unsynced changes: "any" prefix of each file's, the last one torn,
    "nothing", or "everything" (the process dies, the kernel lives)."""
    observers: int = 0
    """How many nodes, the last ones, are not among the voters at first. They and who lost its disk
    are configured with `controller.quorum.bootstrap.servers` (KIP-853)."""
    wire: bool = False
    """Encode and decode every message with `cluster.node.protocol`, as real nodes do."""
    trace_in_memory: bool = True
    """Keep the nodes' traces; without them there is no white-box evidence."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, bool):
                    raise SimSettingError(f"{field.name} must be true or false, not {value!r}")
            elif isinstance(field.default, tuple):
                good = isinstance(value, list | tuple) and len(value) == 2
                if not good or not all(map(_is_amount, value)) or value[0] > value[1]:
                    raise SimSettingError(f"{field.name} must be [least, most], not {value!r}")
                object.__setattr__(self, field.name, (float(value[0]), float(value[1])))
            elif isinstance(field.default, int | float) and not _is_amount(value):
                raise SimSettingError(f"{field.name} must be a number from 0 on, not {value!r}")
        if self.power_loss not in _POWER_LOSSES:
            raise SimSettingError(unknown("power loss", str(self.power_loss), _POWER_LOSSES))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SimSettings:
        """Read what `to_json` wrote, or a part of it. Raises SimSettingError."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise SimSettingError(unknown("simulation setting", name, known))
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Render for a plan."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }


_POWER_LOSSES = ("any", "nothing", "everything")
_AMOUNT_MAX = 1e12


def _is_amount(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= _AMOUNT_MAX  # type: ignore[operator]  # is a number

"""Systems by name, so that a plan can name them."""

from __future__ import annotations

from cluster.names import unknown
from cluster.systems import kafka_raft, kraft, mixed
from cluster.systems.kafka import kind as kafka
from cluster.systems.kinds import SettingError, SystemKind
from extensions import Registry

SYSTEMS = Registry(
    "kraftprobe.systems", SystemKind, (kraft.KIND, kafka.KIND, mixed.KIND, kafka_raft.KIND)
)


def system_named(name: str) -> SystemKind:
    """Look a kind of system up. Raises SettingError that suggests the nearest name."""
    if name not in SYSTEMS:
        raise SettingError(unknown("system", name, SYSTEMS))
    return SYSTEMS[name]

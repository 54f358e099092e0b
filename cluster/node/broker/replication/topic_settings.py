"""What a topic's configurations mean to the logs and partitions of a broker (LogConfig.java)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from cluster.node.controller.configs.definitions import TOPIC_SYNONYMS
from cluster.node.controller.configs.sources import broker_sources, topic_setting
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.state import ConfigResource, MetadataState, ResourceType
from cluster.node.log.data.data_config import DataLogConfig
from cluster.node.log.data.log_manager import LogDirs
from cluster.node.ports import Channel, Clock, Network, Random, Trace
from cluster.values import valueclass

_OTHERS: Final = {"producer_id_expiration_ms", "cache_bytes"}
"""Numbers that no topic has a configuration of."""
_NUMBERS: Final = {
    field.name: field.name.replace("_", ".")
    for field in fields(DataLogConfig)
    if field.type == "int" and field.name not in _OTHERS
}
"""Field of `DataLogConfig` -> the topic's configuration."""
_PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"
_OTHER_KEYS: Final = ("message.timestamp.type", "cleanup.policy", "min.insync.replicas")
OF_BROKERS: Final = frozenset(
    {
        _PRODUCER_EXPIRATION,
        *(
            synonym
            for name in (*_NUMBERS.values(), *_OTHER_KEYS)
            for synonym, _ in TOPIC_SYNONYMS.get(name, ())
        ),
    }
)
"""Keys of brokers that say the same for all topics."""


class TopicSettings:
    """The settings of topics by their names, as the metadata have them at the moment.

    Most topics have the same, so that each set of own configurations is resolved once.
    """

    def __init__(self, cluster: ClusterInfo) -> None:
        self._cluster = cluster
        self._state: MetadataState | None = None
        self._resolved: dict[tuple[tuple[str, str], ...], tuple[DataLogConfig, int]] = {}

    def update(self, state: MetadataState, *, brokers_changed: bool) -> None:
        """Take the present metadata; `brokers_changed`: their configurations have."""
        if brokers_changed or self._state is None:
            self._resolved.clear()
        self._state = state

    def of_log(self, topic: str) -> DataLogConfig:
        """Return the settings of a topic's logs."""
        return self._of(topic)[0]

    def min_insync_replicas(self, topic: str) -> int:
        """Return min.insync.replicas as configured."""
        return self._of(topic)[1]

    def _of(self, topic: str) -> tuple[DataLogConfig, int]:
        assert self._state is not None, "nothing is published yet"
        own = self._state.resource_configs(ConfigResource(ResourceType.TOPIC, topic))
        key = tuple(own.items())
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(own, self._state)
        return found

    def _resolve(self, own: dict[str, str], state: MetadataState) -> tuple[DataLogConfig, int]:
        *sources, defaults = broker_sources(state, self._cluster)

        def setting(name: str) -> str:
            value, _ = topic_setting(name, own, sources)
            assert value is not None, f"{name} has a default"
            return value

        numbers = {field: int(setting(name)) for field, name in _NUMBERS.items()}
        found = (lookup(_PRODUCER_EXPIRATION) for _, lookup in (*sources, defaults))
        expiration = next(value for value in found if value is not None)
        config = DataLogConfig(
            **numbers,
            message_timestamp_type=setting("message.timestamp.type"),
            cleanup_policy=tuple(
                item.strip() for item in setting("cleanup.policy").split(",") if item.strip()
            ),
            producer_id_expiration_ms=int(expiration),
        )
        return config, int(setting("min.insync.replicas"))


# What the replicas of a broker are configured with, and the world that they live in.


@valueclass
class ReplicaConfig:
    """Kafka's properties of the same names."""

    broker_id: int
    listener: str
    """inter.broker.listener.name: where other brokers are asked for records."""
    retention_check_interval_ms: float = 300_000.0
    """log.retention.check.interval.ms"""
    lag_time_max_ms: float = 30_000.0
    """replica.lag.time.max.ms"""
    fetch_wait_max_ms: float = 500.0
    """replica.fetch.wait.max.ms"""
    fetch_backoff_ms: float = 1_000.0
    """replica.fetch.backoff.ms"""
    request_timeout_ms: float = 30_000.0
    """replica.socket.timeout.ms, of what other brokers are asked"""
    controller_timeout_ms: float = 30_000.0
    """controller.socket.timeout.ms, of an AlterPartition"""
    fetch_max_bytes: int = 1 << 20
    """replica.fetch.max.bytes, of each partition"""
    fetch_response_max_bytes: int = 10 << 20
    """replica.fetch.response.max.bytes"""


@valueclass
class ReplicaSeams:
    """The world of a broker's data."""

    clock: Clock
    network: Network
    """To other brokers; nothing else uses it, as a Fetch that is parked holds up what follows."""
    log_dirs: LogDirs
    random: Random
    trace: Trace
    channel: Channel
    broker_epoch: Callable[[], int]

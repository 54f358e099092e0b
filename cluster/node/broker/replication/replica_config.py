"""What the replicas of a broker are configured with, and the world that they live in."""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.log.data.log_manager import LogDirs
from cluster.node.ports import Channel, Clock, Network, Random, Trace
from cluster.values import valueclass


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

"""What a node knows of its cluster from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from cluster.node.loggers import Loggers
from cluster.node.ports import Endpoint
from cluster.values import valueclass


@valueclass
class ClusterInfo:
    """Identity and endpoints. Until brokers register, every configured broker counts as alive."""

    cluster_id: str
    node_id: int
    """Of this node."""
    brokers: tuple[Endpoint, ...]
    """Every node with the broker role, at its advertised client listener."""
    registration: bool = False
    """Whether each node's broker registers itself, so that `brokers` is empty."""
    is_controller: bool = True
    """Whether this node has the controller role."""
    controllers: tuple[Endpoint, ...] = ()
    """Every configured voter, at its controller listener."""
    voters: Callable[[], tuple[Endpoint, ...]] | None = None
    """The voters in force, where raft is there to name them."""
    controller_listener: str = "CONTROLLER"
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """This node's own file: Kafka's keys in it, and their values as they were written."""
    min_insync_replicas: int = 1
    """min.insync.replicas"""
    num_partitions: int = 1
    """num.partitions"""
    default_replication_factor: int = 1
    """default.replication.factor"""
    loggers: Loggers = field(default_factory=Loggers, compare=False)
    """What of this node's lines is said; the one thing here that requests change."""

    @property
    def live_controllers(self) -> tuple[Endpoint, ...]:
        """Every voter, at its controller listener."""
        return self.controllers if self.voters is None else self.voters()

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Ids of the brokers, ascending."""
        return tuple(sorted(broker.node_id for broker in self.brokers))

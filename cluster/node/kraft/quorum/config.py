"""A raft client's settings: its identity, and `controller.quorum.*`."""

from __future__ import annotations

import uuid
from dataclasses import field

from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.control_state import (
    DEFAULT_LISTENER,
    Voter,
    VoterSet,
    select_endpoint,
)
from cluster.node.log.batch.control import VoterListener
from cluster.node.ports import Endpoint
from cluster.values import valueclass

MAX_FETCH_WAIT_MS = 500
"""KafkaRaftClient.MAX_FETCH_WAIT_MS: how long a leader may park a replica's Fetch."""

CHECK_QUORUM_FETCH_TIMEOUTS = 1.5
"""LeaderState: how many fetch time-outs a leader leads without a majority."""

MAX_BATCH_SIZE_BYTES = 8 * 1024 * 1024
"""KafkaRaftClient.MAX_BATCH_SIZE_BYTES."""

MAX_COMPLETED_BATCHES = 10
"""Batches that may wait for the log before appends are refused (BatchAccumulator)."""


@valueclass
class RaftConfig:
    """Identity, voters and time-outs of one raft client. Defaults are Apache Kafka's."""

    node_id: int
    directory_id: uuid.UUID
    cluster_id: str
    voters: VoterSet
    """The static voters of `controller.quorum.voters`; empty when the log alone holds them."""
    local_listeners: tuple[VoterListener, ...] = ()
    """This replica's controller listeners, as it wants others to know them."""
    listener_name: str = DEFAULT_LISTENER
    """By which of its listeners another controller is reached."""
    bootstrap_servers: tuple[Endpoint, ...] = ()
    """`controller.quorum.bootstrap.servers`: asked for the leader; their ids are -2, -3, ..."""
    can_become_voter: bool = True
    """Whether it has the controller role."""
    auto_join: bool = False
    """`controller.quorum.auto.join.enable`: an observer asks to be made a voter."""
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    metadata_max_retention_bytes: int = 100 * 1024 * 1024
    metadata_max_retention_ms: int = 7 * 24 * 3600 * 1000
    log_clean_interval_ms: int = 60_000
    """KafkaRaftClient's interval of its cleaner."""
    replica_key: ReplicaKey = field(init=False, repr=False, compare=False)
    """This replica's identity."""

    def __post_init__(self) -> None:
        key = ReplicaKey(self.node_id, self.directory_id)
        object.__setattr__(self, "replica_key", key)

    @property
    def local_endpoint(self) -> Endpoint | None:
        """Where this replica is reached, by its own word or by that of the static voters."""
        found = select_endpoint(self.node_id, self.local_listeners, self.listener_name)
        return self.voters.endpoint(self.node_id) if found is None else found

    @property
    def local_voter(self) -> Voter | None:
        """This replica as it describes itself to others; None where it has no such listener."""
        found = select_endpoint(self.node_id, self.local_listeners, self.listener_name)
        if found is None:
            return None
        return Voter(self.replica_key, found, listeners=self.local_listeners)

    @property
    def update_voter_period_ms(self) -> float:
        """How often a follower looks whether the voter set describes it rightly."""
        return 2.0 * self.fetch_timeout_ms

    @property
    def fetch_wait_ms(self) -> int:
        """How long this replica lets a leader park its Fetch.

        Kafka's constant, but never so long that an idle quorum's followers would take their leader
        for lost while their Fetch is parked, or give the Fetch up before it is answered.
        """
        return min(MAX_FETCH_WAIT_MS, self.fetch_timeout_ms // 2, self.request_timeout_ms // 2)

    @property
    def check_quorum_timeout_ms(self) -> float:
        """How long a leader leads without hearing from a majority (KIP-595, KAFKA-15489)."""
        return CHECK_QUORUM_FETCH_TIMEOUTS * self.fetch_timeout_ms

    @property
    def begin_quorum_epoch_interval_ms(self) -> float:
        """How often a leader reminds voters that do not fetch from it."""
        return self.fetch_timeout_ms / 2

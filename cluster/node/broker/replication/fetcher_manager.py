"""The fetchers of a broker, one for each leader that it follows (ReplicaFetcherManager.scala)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_fetcher import ReplicaFetcher
from cluster.node.broker.replication.topic_settings import ReplicaConfig, ReplicaSeams
from cluster.node.controller.metadata.registrations import broker_endpoint
from cluster.node.controller.metadata.state import MetadataState, PartitionKey
from cluster.node.controller.records.kinds import NO_LEADER


class ReplicaFetcherManager:
    """See the module. Owned by the node's task."""

    def __init__(
        self,
        config: ReplicaConfig,
        seams: ReplicaSeams,
        when_written: Callable[[Callable[[], None]], None],
    ) -> None:
        """`when_written`: calls its argument once a kill can no longer lose what was appended."""
        self._config = config
        self._seams = seams
        self._when_written = when_written
        self._fetchers: dict[int, ReplicaFetcher] = {}
        """By the leader that they ask."""

    def has(self, key: PartitionKey) -> bool:
        """Whether a partition is fetched."""
        return any(fetcher.has(key) for fetcher in self._fetchers.values())

    def add(self, replica: Replica, state: MetadataState) -> None:
        """Fetch a replica from its leader, once it is known where that is."""
        leader = replica.partition.leader
        endpoint = broker_endpoint(state, leader, self._config.listener)
        if endpoint is None:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                self._config,
                endpoint,
                self._seams.clock,
                self._seams.network,
                self._seams.broker_epoch,
                self._when_written,
            )
        fetcher.add(replica.key, replica)

    def remove(self, key: PartitionKey) -> None:
        """Fetch a partition no more."""
        for leader, fetcher in list(self._fetchers.items()):
            fetcher.remove(key)
            if not len(fetcher):
                fetcher.stop()
                del self._fetchers[leader]

    def on_move(self, key: PartitionKey) -> None:
        """Learn that a partition's position has changed by itself."""
        for fetcher in self._fetchers.values():
            fetcher.on_move(key)

    def follow_endpoints(self, replicas: Iterable[Replica], state: MetadataState) -> None:
        """Ask leaders where they are now."""
        for leader, fetcher in list(self._fetchers.items()):
            if broker_endpoint(state, leader, self._config.listener) != fetcher.leader:
                fetcher.stop()
                del self._fetchers[leader]
        for replica in replicas:
            leader = replica.partition.leader
            follows = leader not in (NO_LEADER, self._config.broker_id)
            if follows and not self.has(replica.key):
                self.add(replica, state)

    def stop(self) -> None:
        """Fall silent."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()

"""The replicas that this broker holds, as the committed metadata want them (ReplicaManager.scala).

Each publication of the metadata is applied at once and in this order: what the broker no longer
holds goes, then it leads what it is to lead, then it follows the rest. So a topic that was deleted
and made anew has its old log out of the way, and whoever fetches finds the leader in office.

Logs are opened when the broker has replayed its own registration, and not before: only then do its
metadata contain all that an earlier incarnation may have acted on. A log that they do not assign to
this broker (a stray) is deleted then; by older metadata a log could be taken for a stray whose
topic was created after them. When their folder goes offline the broker
holds no replica any more, and reports the folder with its heartbeats (KIP-858).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from cluster.node.broker.delayed import Purgatory
from cluster.node.broker.fetch_sessions import FetchSessions
from cluster.node.broker.isr_manager import IsrManager
from cluster.node.broker.lifecycle import Channel
from cluster.node.broker.partition import Partition, PartitionLimits
from cluster.node.broker.replica import Replica
from cluster.node.broker.replica_fetcher import FetcherConfig, ReplicaFetcher
from cluster.node.broker.topic_settings import TopicSettings
from cluster.node.controller.cluster_info import ClusterInfo
from cluster.node.controller.delta import LocalReplicaChanges, MetadataDelta
from cluster.node.controller.records.topic import NO_LEADER
from cluster.node.controller.registrations import broker_endpoint, is_active
from cluster.node.controller.state import (
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ResourceType,
)
from cluster.node.errors import ErrorCode
from cluster.node.log.checkpoint import TopicPartition
from cluster.node.log.data_config import StorageError
from cluster.node.log.log_directory import Damage, LogDirectory
from cluster.node.ports import Clock, Disk, Endpoint, Network, Random, Timer, Trace
from cluster.node.protocol.data_messages import NO_EPOCH, FetchResult, ProduceResult, Topic
from cluster.values import valueclass

PRODUCE: Final = "produce"
DELETE: Final = "delete"


Result = TypeVar("Result", ProduceResult, FetchResult)
_NAMES_LEADER: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


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
    disk: Disk
    random: Random
    trace: Trace
    channel: Channel
    broker_epoch: Callable[[], int]


class ReplicaManager:
    """See the module. Owned by the node's task."""

    def __init__(
        self,
        config: ReplicaConfig,
        cluster: ClusterInfo,
        seams: ReplicaSeams,
        on_offline: Callable[[], None],
    ) -> None:
        self.config = config
        self.cluster = cluster
        self.clock = seams.clock
        self.random = seams.random
        self.delayed = Purgatory(seams.clock)
        """Produce and DeleteRecords that wait, by (kind, partition)."""
        self.fetches = Purgatory(seams.clock)
        """Fetches that wait, each by itself: what wakes it is its session."""
        self.fetch_sessions = FetchSessions(seams.clock, seams.random)
        self.settings = TopicSettings(cluster)
        self.directory = LogDirectory(
            seams.disk,
            seams.clock,
            seams.random,
            self.settings.of_log,
            self._went_offline,
            retention_check_interval_ms=config.retention_check_interval_ms,
        )
        self.directory.on_start_moved = self._start_moved
        self._seams = seams
        self._trace = seams.trace
        self._on_offline = on_offline
        self._isr = IsrManager(
            config.broker_id,
            seams.clock,
            seams.channel,
            seams.broker_epoch,
            config.controller_timeout_ms,
        )
        self._replicas: dict[PartitionKey, Replica] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        """By the leader that they ask."""
        self._state: MetadataState | None = None
        self._isr_timer: Timer | None = None
        self._is_started = False
        self._is_stopped = False

    # --- what requests need ---

    @property
    def state(self) -> MetadataState:
        """The committed metadata, as of the last publication."""
        assert self._state is not None, "it has not started"
        return self._state

    @property
    def is_offline(self) -> bool:
        """Whether the folder of the logs is out of use."""
        return self.directory.is_offline

    def hosted(self, topic: Topic, index: int) -> Replica | ErrorCode:
        """Find a replica by its topic's name or id.

        There is none once the logs are being closed: what was appended then would not be in what
        the mark of a clean shutdown vouches for.
        """
        if self._state is None or self._is_stopped:
            return ErrorCode.not_leader_or_follower
        if isinstance(topic, str):
            topic_id = self._state.topic_names.get(topic)
            unknown = ErrorCode.unknown_topic_or_partition
        else:
            topic_id = topic if self._state.topics.get(topic) is not None else None
            unknown = ErrorCode.unknown_topic_id
        if topic_id is None:
            return unknown
        if self.is_offline:
            return ErrorCode.kafka_storage_error
        replica = self._replicas.get((topic_id, index))
        if replica is not None:
            return replica
        exists = self._state.partitions.get((topic_id, index)) is not None
        return ErrorCode.not_leader_or_follower if exists else ErrorCode.unknown_topic_or_partition

    def led(self, topic: Topic, index: int, leader_epoch: int = NO_EPOCH) -> Replica | ErrorCode:
        """Find a replica that this broker leads, in the epoch that the asker knows."""
        replica = self.held(topic, index, leader_epoch)
        if isinstance(replica, Replica) and not replica.partition.leads:
            return ErrorCode.not_leader_or_follower
        return replica

    def held(self, topic: Topic, index: int, leader_epoch: int = NO_EPOCH) -> Replica | ErrorCode:
        """Find a replica that this broker leads or follows, in the epoch that the asker knows."""
        replica = self.hosted(topic, index)
        if isinstance(replica, ErrorCode) or leader_epoch == NO_EPOCH:
            return replica
        if leader_epoch < replica.partition.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if leader_epoch > replica.partition.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return replica

    def with_leader(self, result: Result, listener: str, endpoints: dict[int, Endpoint]) -> Result:
        """Name the leader where this broker is not (KIP-951), and note where it is reached."""
        if result.error not in _NAMES_LEADER or self._state is None:
            return result
        topic = result.topic
        topic_id = self._state.topic_names.get(topic) if isinstance(topic, str) else topic
        key = None if topic_id is None else (topic_id, result.index)
        found = None if key is None else self._state.partitions.get(key)
        if found is None or found.leader == NO_LEADER:
            return result
        endpoint = broker_endpoint(self._state, found.leader, listener)
        if endpoint is not None:
            endpoints[found.leader] = endpoint
        return replace(result, leader_id=found.leader, leader_epoch=found.leader_epoch)

    def low_watermark(self, replica: Replica) -> int:
        """Return the lowest log start among the live replicas of a partition that this one leads.

        A follower of which nothing is known yet counts as -1.
        """
        starts = (
            follower.start_offset
            for follower in replica.partition.followers.values()
            if is_active(self.state, follower.broker_id)
        )
        return min((replica.log.start_offset, *starts))

    def replicas(self) -> Iterable[Replica]:
        """Return what this broker holds."""
        return self._replicas.values()

    def broker_epoch(self, broker_id: int) -> int | None:
        """See `partition.Eligibility`."""
        if not is_active(self.state, broker_id):
            return None
        broker = self.state.brokers.get(broker_id)
        assert broker is not None
        return broker.epoch

    # --- what the metadata say ---

    def start(self, held: LocalReplicaChanges, state: MetadataState) -> None:
        """Open the logs, once caught up; `held` is all that the metadata assign to this broker."""
        assert not self._is_started, "it starts once"
        self._is_started = True
        self._take(state, brokers_changed=True)
        if self._is_stopped:
            return
        self.directory.open()
        self._isr_timer = self.clock.call_later(self.config.lag_time_max_ms / 2, self._shrink)
        if self.is_offline:
            return
        with self._storage():
            self._delete_strays(state)
            self._apply(held)

    def apply(
        self, changes: LocalReplicaChanges, delta: MetadataDelta, state: MetadataState
    ) -> None:
        """Take a publication; before `start` there is nothing to do."""
        if not self._is_started:
            return
        configured = {resource for resource, _ in iter(delta.configs.keys())}
        brokers_changed = any(resource.type == ResourceType.BROKER for resource in configured)
        self._take(state, brokers_changed=brokers_changed)
        if self._is_stopped or self.is_offline:
            return
        topics = None if brokers_changed else {resource.name for resource in configured}
        with self._storage():
            self._configure(topics)
            self._apply(changes)
        if not delta.brokers.is_empty and not self.is_offline:
            self._follow_endpoints()

    def _take(self, state: MetadataState, *, brokers_changed: bool) -> None:
        self._state = state
        self.settings.update(state, brokers_changed=brokers_changed)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """Go on where the folder goes offline: that was reported."""
        try:
            yield
        except StorageError:
            assert self.is_offline, "a log reports what it raises"

    def _apply(self, changes: LocalReplicaChanges) -> None:
        for key in changes.deletes:
            self._delete(key)
        for key, registration in changes.leaders.items():
            self._lead(key, registration)
        for key, registration in changes.followers.items():
            self._follow(key, registration)

    def _delete_strays(self, state: MetadataState) -> None:
        """Delete logs of partitions that this broker does not hold, or whose topic is another."""
        for at in sorted(self.directory.logs):
            topic_id = state.topic_names.get(at.topic)
            held = None if topic_id is None else state.partitions.get((topic_id, at.partition))
            known_id = self.directory.topic_ids.get(at)
            is_ours = held is not None and self.config.broker_id in held.replicas
            if is_ours and known_id in (None, topic_id):
                continue
            self._trace("stray-log", topic=at.topic, partition=at.partition)
            self.directory.delete(at)

    def _configure(self, topics: set[str] | None) -> None:
        """Take over changed configurations of topics, or of all for None."""
        if topics is not None and not topics:
            return
        for replica in self._replicas.values():
            if topics is None or replica.topic in topics:
                self._set_limits(replica)
                replica.log.config = self.settings.of_log(replica.topic)

    def _set_limits(self, replica: Replica) -> None:
        replica.partition.limits = PartitionLimits(
            self.settings.min_insync_replicas(replica.topic), self.config.lag_time_max_ms
        )

    def _hosted(self, key: PartitionKey) -> Replica:
        replica = self._replicas.get(key)
        if replica is None:
            replica = self._replicas[key] = self._made(key)
        return replica

    def _made(self, key: PartitionKey) -> Replica:
        topic_id, index = key
        topic = self.state.topics.get(topic_id)
        assert topic is not None, f"partition {index} of unknown topic {topic_id}"
        at = TopicPartition(topic.name, index)
        log = self.directory.logs.get(at)
        if log is None:
            log = self.directory.create(at, topic_id)
        elif at not in self.directory.topic_ids:
            self.directory.assign_topic_id(at, topic_id)
        partition = Partition(
            self.config.broker_id,
            log,
            self.clock,
            self,
            lambda proposal, on_answer: self._isr.propose(
                key, proposal, replica.hearing(on_answer)
            ),
            lambda: self._progressed(replica),
            log.high_watermark,
        )
        replica = Replica(
            key,
            topic.name,
            log,
            partition,
            self.config.fetch_max_bytes,
            self.config.request_timeout_ms,
            self.clock,
            self._seams.network,
            self._seams.trace,
        )
        self._set_limits(replica)
        return replica

    def _lead(self, key: PartitionKey, registration: PartitionRegistration) -> None:
        replica = self._hosted(key)
        self._fetch_no_more(key)
        replica.hears(registration)
        if replica.partition.make_leader(registration):
            self._trace(
                "replica-leader",
                topic=replica.topic,
                partition=replica.index,
                leader_epoch=registration.leader_epoch,
                start_offset=replica.partition.epoch_start_offset,
                high_watermark=replica.partition.high_watermark,
                isr=list(registration.isr),
                partition_epoch=registration.partition_epoch,
            )
        self._check(key)

    def _follow(self, key: PartitionKey, registration: PartitionRegistration) -> None:
        replica = self._hosted(key)
        if registration.partition_epoch < replica.partition.partition_epoch:
            return
        replica.hears(registration)
        if replica.partition.make_follower(registration):
            self._trace(
                "replica-follower",
                topic=replica.topic,
                partition=replica.index,
                leader_epoch=registration.leader_epoch,
                leader_id=registration.leader,
                end_offset=replica.log.end_offset,
            )
            self._fetch_no_more(key)
        if registration.leader == NO_LEADER:
            self._fetch_no_more(key)
        elif not self._is_fetched(key):
            self._fetch(replica)
        self._check(key)

    def _delete(self, key: PartitionKey) -> None:
        replica = self._replicas.pop(key, None)
        if replica is None:
            return
        self._fetch_no_more(key)
        replica.is_hosted = False
        self.directory.delete(TopicPartition(replica.topic, replica.index))
        self._check(key)

    # --- fetchers ---

    def _is_fetched(self, key: PartitionKey) -> bool:
        return any(fetcher.has(key) for fetcher in self._fetchers.values())

    def _fetch(self, replica: Replica) -> None:
        """Fetch a replica from its leader, once it is known where that is."""
        leader = replica.partition.leader
        endpoint = broker_endpoint(self.state, leader, self.config.listener)
        if endpoint is None:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                FetcherConfig(
                    broker_id=self.config.broker_id,
                    wait_max_ms=self.config.fetch_wait_max_ms,
                    response_max_bytes=self.config.fetch_response_max_bytes,
                    backoff_ms=self.config.fetch_backoff_ms,
                    request_timeout_ms=self.config.request_timeout_ms,
                ),
                endpoint,
                self.clock,
                self._seams.network,
                self._seams.broker_epoch,
                self.directory.when_written,
            )
        fetcher.add(replica.key, replica)

    def _fetch_no_more(self, key: PartitionKey) -> None:
        for leader, fetcher in list(self._fetchers.items()):
            fetcher.remove(key)
            if not len(fetcher):
                fetcher.stop()
                del self._fetchers[leader]

    def _follow_endpoints(self) -> None:
        """Ask leaders where they are now."""
        for leader, fetcher in list(self._fetchers.items()):
            if broker_endpoint(self.state, leader, self.config.listener) != fetcher.leader:
                fetcher.stop()
                del self._fetchers[leader]
        for replica in self._replicas.values():
            leader = replica.partition.leader
            follows = leader not in (NO_LEADER, self.config.broker_id)
            if follows and not self._is_fetched(replica.key):
                self._fetch(replica)

    # --- what changes by itself ---

    def _progressed(self, replica: Replica) -> None:
        replica.log.high_watermark = replica.partition.high_watermark
        self._check(replica.key)

    def _check(self, key: PartitionKey) -> None:
        for kind in (PRODUCE, DELETE):
            self.delayed.check((kind, key))
        self.fetch_sessions.stir(key)

    def _start_moved(self, at: TopicPartition) -> None:
        """Tell both sides of a Fetch that a log begins later than before."""
        topic_id = self.directory.topic_ids.get(at)
        if topic_id is not None and (topic_id, at.partition) in self._replicas:
            key = (topic_id, at.partition)
            self._check(key)
            for fetcher in self._fetchers.values():
                fetcher.moved(key)

    def appended(self, replica: Replica) -> None:
        """Records were appended to a log that this broker leads. Raises StorageError."""
        replica.log.when_written(lambda: self._written(replica))
        self.fetch_sessions.stir(replica.key)

    def _written(self, replica: Replica) -> None:
        if replica.is_hosted and not self.is_offline:
            replica.partition.written()
            self.delayed.check((PRODUCE, replica.key))

    def _shrink(self) -> None:
        self._isr_timer = self.clock.call_later(self.config.lag_time_max_ms / 2, self._shrink)
        for replica in self._replicas.values():
            replica.partition.shrink_if_due()

    # --- ends ---

    def _went_offline(self, damage: Damage) -> None:
        self._trace("log-directory-offline", reason=str(damage))
        self._stop()
        self._on_offline()
        for key in list(self._replicas):
            self._check(key)

    def _stop(self) -> None:
        if self._isr_timer is not None:
            self._isr_timer.cancel()
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._isr.stop()

    def shutdown(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Stop, with everything durable and the mark of a clean shutdown; then call `done`.

        `done` is called at once, and no mark is left, where the folder is offline.
        """
        self._is_stopped = True
        self._stop()
        if self.is_offline:
            done()
        else:
            self.directory.close(broker_epoch, done)

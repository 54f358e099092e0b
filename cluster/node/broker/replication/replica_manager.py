"""The replicas that this broker holds, as the committed metadata want them (ReplicaManager.scala).

Each publication of the metadata is applied at once and in this order: what the broker no longer
holds goes, then it leads what it is to lead, then it follows the rest. So a topic that was deleted
and made anew has its old log out of the way, and whoever fetches finds the leader in office.

Logs are opened when the broker has replayed its own registration, and not before: only then do its
metadata contain all that an earlier incarnation may have acted on. A log that they do not assign to
this broker (a stray) is deleted then; by older metadata a log could be taken for a stray whose
topic was created after them.

When a log directory goes offline, the replicas in it are answered for with KAFKA_STORAGE_ERROR
until the broker is restarted, whatever the metadata say meanwhile; the broker reports the directory
with its heartbeats (KIP-858), and goes on with those in the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from cluster.node.broker.replication.alter_log_dirs import ReplicaAlterLogDirsManager
from cluster.node.broker.replication.delayed import Purgatory
from cluster.node.broker.replication.fetch_sessions import FetchSessions
from cluster.node.broker.replication.fetcher_manager import ReplicaFetcherManager
from cluster.node.broker.replication.isr_manager import IsrManager
from cluster.node.broker.replication.partition import Partition
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.topic_settings import (
    ReplicaConfig,
    ReplicaSeams,
    TopicSettings,
)
from cluster.node.controller.metadata.image import LocalReplicaChanges, MetadataDelta
from cluster.node.controller.metadata.registrations import (
    ClusterInfo,
    broker_endpoint,
    has_online_replica,
    is_active,
    replica_directory,
)
from cluster.node.controller.metadata.state import (
    MetadataState,
    PartitionKey,
    PartitionRegistration,
    ResourceType,
)
from cluster.node.controller.records.kinds import NO_LEADER
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import StorageError
from cluster.node.log.data.log_directory import Damage, LogDirectory
from cluster.node.log.data.log_manager import LogManager
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.ports import Endpoint, Timer
from cluster.node.protocol.data_messages import NO_EPOCH, FetchResult, ProduceResult, Topic

PRODUCE: Final = "produce"
DELETE: Final = "delete"


Result = TypeVar("Result", ProduceResult, FetchResult)
_NAMES_LEADER: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


class ReplicaManager:
    """See the module. Owned by the node's task."""

    def __init__(
        self,
        config: ReplicaConfig,
        cluster: ClusterInfo,
        seams: ReplicaSeams,
        on_offline: Callable[[LogDirectory, Damage], None],
        report_located: Callable[[PartitionKey], None],
    ) -> None:
        """`on_offline`: called once for each log directory that goes offline.

        `report_located`: called when a replica may not be where the metadata say.
        """
        self.config = config
        self.clock = seams.clock
        self.random = seams.random
        self.delayed = Purgatory(seams.clock)
        """Produce and DeleteRecords that wait, by (kind, partition)."""
        self.fetches = Purgatory(seams.clock)
        """Fetches that wait, each by itself: what wakes it is its session."""
        self.fetch_sessions = FetchSessions(seams.clock, seams.random)
        self.settings = TopicSettings(cluster)
        self.logs = LogManager(
            seams.log_dirs,
            seams.clock,
            seams.random,
            self.settings.of_log,
            self._went_offline,
            self._start_moved,
            config.retention_check_interval_ms,
        )
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
        self._fetchers = ReplicaFetcherManager(config, seams, self.logs.when_written)
        self.moves = ReplicaAlterLogDirsManager(
            self.logs,
            seams.clock,
            seams.trace,
            config.fetch_max_bytes,
            self._assigned_directory,
            self._on_move,
            report_located,
        )
        self._offline: dict[PartitionKey, uuid.UUID] = {}
        """Partitions whose log is out of reach, and the directory that it may be in."""
        self._state: MetadataState | None = None
        self._report_located = report_located
        self._isr_timer: Timer | None = None
        self._is_started = False
        self._is_stopped = False

    # --- what requests need ---

    @property
    def state(self) -> MetadataState:
        """The committed metadata, as of the last publication."""
        assert self._state is not None, "it has not started"
        return self._state

    def find_replica(self, topic: Topic, index: int) -> Replica | ErrorCode:
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
        replica = self._replicas.get((topic_id, index))
        if replica is not None:
            return replica
        if (topic_id, index) in self._offline:
            return ErrorCode.kafka_storage_error
        exists = self._state.partitions.get((topic_id, index)) is not None
        return ErrorCode.not_leader_or_follower if exists else ErrorCode.unknown_topic_or_partition

    def find_leader(
        self, topic: Topic, index: int, leader_epoch: int = NO_EPOCH
    ) -> Replica | ErrorCode:
        """Find a replica that this broker leads, in the epoch that the asker knows."""
        replica = self.find_in_epoch(topic, index, leader_epoch)
        if isinstance(replica, Replica) and not replica.partition.leads:
            return ErrorCode.not_leader_or_follower
        return replica

    def find_in_epoch(
        self, topic: Topic, index: int, leader_epoch: int = NO_EPOCH
    ) -> Replica | ErrorCode:
        """Find a replica that this broker leads or follows, in the epoch that the asker knows."""
        replica = self.find_replica(topic, index)
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

    # --- what the metadata say ---

    def start(self, held: LocalReplicaChanges, state: MetadataState) -> None:
        """Open the logs, once caught up; `held` is all that the metadata assign to this broker."""
        assert not self._is_started, "it starts once"
        self._is_started = True
        self._take(state, brokers_changed=True)
        if self._is_stopped:
            return
        self.logs.open(self._assigned_directory)
        self._isr_timer = self.clock.call_later(self.config.lag_time_max_ms / 2, self._shrink)
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
        if self._is_stopped:
            return
        topics = None if brokers_changed else {resource.name for resource in configured}
        self._configure(topics)
        self._apply(changes)
        if not delta.brokers.is_empty:
            for replica in list(self._replicas.values()):
                replica.partition.advance()
            self._fetchers.follow_endpoints(self._replicas.values(), self.state)

    def _take(self, state: MetadataState, *, brokers_changed: bool) -> None:
        self._state = state
        self.settings.update(state, brokers_changed=brokers_changed)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """Go on where a log directory is or goes offline: that was reported."""
        try:
            yield
        except StorageError:
            assert self.logs.has_offline, "a log reports what it raises"

    def _apply(self, changes: LocalReplicaChanges) -> None:
        for key in changes.deletes:
            with self._storage():
                self._delete(key)
        for key, registration in changes.leaders.items():
            with self._storage():
                self._lead(key, registration)
        for key, registration in changes.followers.items():
            with self._storage():
                self._follow(key, registration)

    def _assigned_directory(self, at: TopicPartition) -> uuid.UUID | None:
        """Return where the metadata have this broker's replica of a partition."""
        topic_id = self.state.topic_names.get(at.topic)
        held = None if topic_id is None else self.state.partitions.get((topic_id, at.partition))
        if held is None or self.config.broker_id not in held.replicas:
            return None
        return replica_directory(held, self.config.broker_id)

    def _delete_strays(self, state: MetadataState) -> None:
        """Delete logs of partitions that this broker does not hold, or whose topic is another."""
        for directory in self.logs.online:
            for at in sorted((*directory.logs, *directory.future_logs)):
                topic_id = state.topic_names.get(at.topic)
                known_id = directory.topic_ids.get(at)
                if self._assigned_directory(at) is not None and known_id in (None, topic_id):
                    continue
                self._trace("stray-log", topic=at.topic, partition=at.partition)
                with self._storage():
                    directory.delete(at)

    def _configure(self, topics: set[str] | None) -> None:
        """Take over changed configurations of topics, or of all for None."""
        if topics is not None and not topics:
            return
        for replica in self._replicas.values():
            if topics is None or replica.topic in topics:
                minimum = self.settings.min_insync_replicas(replica.topic)
                replica.partition.min_insync_replicas = minimum
                replica.log.config = self.settings.of_log(replica.topic)

    def locate(self, key: PartitionKey) -> uuid.UUID | None:
        """Return the directory that the controller is to know of; None: there is no replica."""
        replica = self._replicas.get(key)
        if replica is None:
            return self._offline.get(key)
        target = self.moves.directory_to_report(key)
        if target is not None:
            return target
        holder = self.logs.holder(replica.at)
        return None if holder is None else holder.directory_id

    def _host(self, key: PartitionKey, registration: PartitionRegistration) -> Replica | None:
        """Find or make a replica; None where its log is out of reach."""
        if key in self._offline:
            return None
        replica = self._replicas.get(key)
        if replica is None:
            assigned = replica_directory(registration, self.config.broker_id)
            try:
                replica = self._replicas[key] = self._make(key, assigned)
            except StorageError:
                self._offline[key] = assigned
                raise
            self.moves.resume(replica)
        return replica

    def _make(self, key: PartitionKey, assigned: uuid.UUID) -> Replica:
        topic_id, index = key
        topic = self.state.topics.get(topic_id)
        assert topic is not None, f"partition {index} of unknown topic {topic_id}"
        at = TopicPartition(topic.name, index)
        directory = self.logs.directory_for(at, assigned)
        log = directory.logs.get(at)
        if log is None:
            log = directory.create(at, topic_id)
        elif at not in directory.topic_ids:
            directory.assign_topic_id(at, topic_id)
        partition = Partition(
            self.config.broker_id,
            log,
            self.clock,
            self.config.lag_time_max_ms,
            partial(self._eligible_epoch, key),
            lambda proposal, on_answer: self._isr.propose(
                key, proposal, replica.hearing(on_answer)
            ),
            lambda: self._on_progress(replica),
            log.high_watermark,
        )
        partition.min_insync_replicas = self.settings.min_insync_replicas(topic.name)
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
        return replica

    def _eligible_epoch(self, key: PartitionKey, broker_id: int) -> int | None:
        """Return the epoch of a broker whose replica may be in sync (isReplicaIsrEligible).

        Beside Kafka's conditions (unfenced, not shutting down) a replica's log directory must not
        be known to be offline: its broker goes on fetching other partitions and stays unfenced, so
        without this a leader would wait with its high watermark for a replica that is out of reach,
        until that has lagged for `replica.lag.time.max.ms`, and the next record comes.
        """
        if not is_active(self.state, broker_id):
            return None
        partition = self.state.partitions.get(key)
        is_other = broker_id != self.config.broker_id
        if is_other and partition and not has_online_replica(self.state, partition, broker_id):
            return None
        broker = self.state.brokers.get(broker_id)
        assert broker is not None
        return broker.epoch

    def _lead(self, key: PartitionKey, registration: PartitionRegistration) -> None:
        replica = self._host(key, registration)
        if replica is None:
            return
        self._fetchers.remove(key)
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
            if replica.log.written_end_offset < replica.log.end_offset:
                # What it took as a follower counts once it is written, whoever fetches until then.
                replica.log.when_written(lambda: self._on_write(replica))
        self._check(key)

    def _follow(self, key: PartitionKey, registration: PartitionRegistration) -> None:
        replica = self._host(key, registration)
        if replica is None:
            return
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
            self._fetchers.remove(key)
        if registration.leader == NO_LEADER:
            self._fetchers.remove(key)
        elif not self._fetchers.has(key):
            self._fetchers.add(replica, self.state)
        self._check(key)

    def _delete(self, key: PartitionKey) -> None:
        self._offline.pop(key, None)
        replica = self._replicas.pop(key, None)
        if replica is None:
            return
        self._fetchers.remove(key)
        self.moves.cancel(key)
        replica.is_hosted = False
        holder = self.logs.holder(replica.at)
        assert holder is not None, "a replica has a log that is online"
        holder.delete(replica.at)
        self._check(key)

    # --- what changes by itself ---

    def _on_progress(self, replica: Replica) -> None:
        replica.log.high_watermark = replica.partition.high_watermark
        self._check(replica.key)

    def _on_move(self, replica: Replica) -> None:
        """Go on with a log in another directory: who waited for the old one waits for it."""
        self.on_append(replica)
        self._check(replica.key)

    def _check(self, key: PartitionKey) -> None:
        for kind in (PRODUCE, DELETE):
            self.delayed.check((kind, key))
        self.fetch_sessions.stir(key)
        self.moves.poke(key)

    def _start_moved(self, at: TopicPartition) -> None:
        """Tell both sides of a Fetch that a log begins later than before."""
        topic_id = self.logs.topic_id(at)
        if topic_id is not None and (topic_id, at.partition) in self._replicas:
            key = (topic_id, at.partition)
            self._check(key)
            self._fetchers.on_move(key)

    def on_append(self, replica: Replica) -> None:
        """Records were appended to a log that this broker leads. Raises StorageError."""
        replica.log.when_written(lambda: self._on_write(replica))
        self.fetch_sessions.stir(replica.key)
        self.moves.poke(replica.key)

    def _on_write(self, replica: Replica) -> None:
        if replica.is_hosted:
            replica.partition.advance()
            self.delayed.check((PRODUCE, replica.key))

    def _shrink(self) -> None:
        self._isr_timer = self.clock.call_later(self.config.lag_time_max_ms / 2, self._shrink)
        for replica in self._replicas.values():
            replica.partition.shrink_if_due()

    # --- ends ---

    def _went_offline(self, directory: LogDirectory, damage: Damage) -> None:
        self._trace(
            "log-directory-offline",
            directory_id=directory.directory_id,
            log_dir=directory.path,
            reason=str(damage),
        )
        lost = [replica for replica in self._replicas.values() if replica.at in directory.logs]
        for replica in lost:
            del self._replicas[replica.key]
            replica.is_hosted, replica.is_offline = False, True
            self._offline[replica.key] = directory.directory_id
            self._fetchers.remove(replica.key)
        self._on_offline(directory, damage)
        self.moves.went_offline(directory)
        for replica in lost:
            self._check(replica.key)
            self._report_located(replica.key)

    def _stop(self) -> None:
        if self._isr_timer is not None:
            self._isr_timer.cancel()
        self._fetchers.stop()
        self.moves.stop()
        self._isr.stop()

    def shutdown(self, broker_epoch: int, done: Callable[[], None]) -> None:
        """Stop, with all durable and the marks of a clean shutdown where possible; call `done`."""
        self._is_stopped = True
        self._stop()
        self.logs.close(broker_epoch, done)

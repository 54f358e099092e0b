r"""One node, assembled over the four seams; it neither knows nor cares which world is behind them.

requests --> Node.handle --> RaftClient        consensus: Vote, Begin, End, Fetch, ...
                         |-> ControllerApis   topics, configs, metadata --> QuorumController
                         \-> DataApis         records: Produce, Fetch, ... --> ReplicaManager
RaftClient --> QuorumController                committed batches, changes of leader
QuorumController --> BrokerMetadataPublisher   what the committed metadata ask of this broker
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Literal

from cluster.node.broker.lifecycle.assignments import AssignmentsManager
from cluster.node.broker.lifecycle.producer_ids import ProducerIdManager
from cluster.node.broker.lifecycle.publisher import BrokerMetadataPublisher
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH, BrokerLifecycleManager
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.replication.topic_settings import ReplicaSeams
from cluster.node.broker.serving.config_admin import preprocess
from cluster.node.broker.serving.data_apis import DataApis
from cluster.node.config import NodeConfig
from cluster.node.config_values import BROKER_ROLE, CONTROLLER_ROLE
from cluster.node.controller.apis.controller_apis import ControllerApis
from cluster.node.controller.brokers.cluster_control import ControllerRegistrationManager
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.core.feature_control import bootstrap_metadata, features_of
from cluster.node.controller.core.pending import ControllerSettings
from cluster.node.controller.metadata.image import LocalReplicaChanges, MetadataDelta, MetadataImage
from cluster.node.controller.metadata.image_writer import read_bootstrap
from cluster.node.controller.metadata.registrations import replica_directory
from cluster.node.controller.metadata.scram_users import credential_of
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.envelope import EnvelopeError, answer_to, refusal, unseal
from cluster.node.forwarding import ForwardingManager, is_for_controller
from cluster.node.kraft.messages import RaftRequest
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft_version import is_kraft_version_update, update_kraft_version
from cluster.node.log.data.directory_checkpoints import NO_EPOCH
from cluster.node.log.data.log_directory import Damage, LogDirectory
from cluster.node.log.data.log_manager import LogDirs
from cluster.node.log.metadata.log import Log, LogConfig
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.loggers import Loggers
from cluster.node.part_configs import (
    cluster_info,
    controller_registration,
    lifecycle_config,
    raft_config,
    replica_config,
)
from cluster.node.ports import Clock, Disk, Failure, Network, Random, Trace
from cluster.node.protocol.apis import ANONYMOUS, Features, Origin
from cluster.node.protocol.messages import EnvelopeRequest, IncrementalAlterConfigsRequest
from cluster.node.security.mechanisms import ScramCredential
from cluster.values import valueclass

NodeSignal = Literal["resign", "snapshot"]


@valueclass
class Seams:
    """The world of one node."""

    clock: Clock
    network: Network
    """To peers, for raft."""
    forwarding: Network
    """To the active controller, for clients' requests: a Fetch that the leader has parked holds up
    everything behind it on its connection. May be `network` where connections do not exist."""
    replication: Network
    """To other brokers, for records. The same holds."""
    disk: Disk
    """Of the metadata log."""
    log_dirs: LogDirs
    """Where a broker's logs of data are; the metadata's disk may be one of them."""
    random: Random
    trace: Trace


def open_raft(
    config: NodeConfig,
    directory_id: uuid.UUID,
    seams: Seams,
    on_fatal: Callable[[BaseException], None],
    disk_failed: Callable[[OSError], None],
) -> RaftClient:
    """Open the log of a node, and make its raft client. Raises CorruptLogError, OSError."""
    log = Log.open(
        seams.disk,
        METADATA_DIRECTORY,
        LogConfig(
            segment_bytes=config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
        ),
        disk_failed,
    )
    raft = RaftClient(
        raft_config(config, directory_id),
        seams.clock,
        seams.network,
        seams.disk,
        seams.random,
        seams.trace,
        log,
        METADATA_DIRECTORY,
        on_fatal,
    )
    held = raft.log
    seams.trace(
        "recovered",
        start_offset=held.start_offset,
        end_offset=held.end_offset,
        last_epoch=held.last_fetched_epoch,
        truncated_bytes=log.truncated_bytes,
    )
    return raft


class LogDirectoryError(Exception):
    """A log directory without which the node cannot go on. One line."""


class Node:
    """A KRaft node from its configuration. Make it, `start` it, give it requests.

    Making it opens the log: raises CorruptLogError, OSError. `on_fatal` gets the error that ends
    the node; it must end the process, or in a simulated world forget the node.
    """

    def __init__(
        self,
        config: NodeConfig,
        directory_id: uuid.UUID,
        seams: Seams,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._forwarding = seams.forwarding
        self._stopping: list[Callable[[], None]] = []
        """The callers that asked for the shutdown that is under way, or over."""
        self._stopped = False
        self._held: list[Callable[[], None]] | None = None
        """Requests of clients that came before this broker had caught up; None: it has."""
        self.raft = open_raft(config, directory_id, seams, on_fatal, self._disk_failed)
        self.forwarding = ForwardingManager(
            seams.clock,
            seams.forwarding,
            self.raft.leader_endpoint,
            lambda: self.raft.leader_and_epoch.leader_id == config.node_id,
            self._answer,
            holds=config.kraftprobe_forwarding_hold,
        )
        self.controller = QuorumController(
            self.raft,
            seams.clock,
            seams.trace,
            ControllerSettings(
                max_idle_interval_ms=config.metadata_max_idle_interval_ms,
                max_record_bytes_between_snapshots=(
                    config.metadata_log_max_record_bytes_between_snapshots
                ),
                max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
                broker_session_timeout_ms=config.broker_session_timeout_ms,
                min_insync_replicas=config.min_insync_replicas,
                bootstrap=read_bootstrap(seams.disk)
                or bootstrap_metadata(config.kraftprobe_metadata_version),
            ),
            on_leader_change=self.forwarding.leader_changed,
        )
        self.raft.register(self.controller)
        self._cluster = cluster_info(config, self.raft)
        self._apis = ControllerApis(self.controller, self.raft, self._cluster, seams.random)
        registers = config.kraftprobe_registration
        self.publisher: BrokerMetadataPublisher | None = None
        if BROKER_ROLE in config.process_roles:
            self.publisher = BrokerMetadataPublisher(
                config.node_id,
                on_changes=self._on_local_changes if registers else None,
                on_first=None if registers else self._serve_clients,
            )
            self.controller.loader.install(self.publisher)
            self._held = []
        self.lifecycle: BrokerLifecycleManager | None = None
        self.assignments: AssignmentsManager | None = None
        self.registration: ControllerRegistrationManager | None = None
        self.replicas: ReplicaManager | None = None
        self._data: DataApis | None = None
        if CONTROLLER_ROLE in config.process_roles and registers:
            self.registration = ControllerRegistrationManager(
                controller_registration(config),
                seams.clock,
                seams.random,
                seams.trace,
                self._ask_controller,
                lambda: self.controller.image.state,
            )
        if self.publisher is not None:
            self.replicas = self._replica_manager(seams, directory_id)
            producer_ids = ProducerIdManager(
                config.node_id, seams.clock, self._ask_controller, self._broker_epoch
            )
            self._data = DataApis(self.replicas, producer_ids)
            if registers:
                self.replicas.logs.read_marks()
                self.lifecycle = self._lifecycle(seams, self.replicas)
                self.assignments = self._assignments(seams, self.replicas)

    def _broker_epoch(self) -> int:
        return NOT_REGISTERED_EPOCH if self.lifecycle is None else self.lifecycle.broker_epoch

    def _replica_manager(self, seams: Seams, directory_id: uuid.UUID) -> ReplicaManager:
        """Make what holds the broker's data; without a registration it is never given any."""

        def went_offline(directory: LogDirectory, damage: Damage) -> None:
            reason = f"log directory {directory.path} is out of use: {damage}"
            if directory.directory_id == directory_id:
                self.raft.fail(LogDirectoryError(f"{reason}; it is that of the metadata"))
            elif not replicas.logs.online:
                self.raft.fail(LogDirectoryError(f"{reason}; no other is left"))
            elif self.lifecycle is not None:
                self.lifecycle.report_offline(directory.directory_id)

        def report_located(key: PartitionKey) -> None:
            if self.assignments is not None:
                self.assignments.partition_changed(key)

        replicas = ReplicaManager(
            replica_config(self._config),
            self._cluster,
            ReplicaSeams(
                seams.clock,
                seams.replication,
                seams.log_dirs,
                seams.random,
                seams.trace,
                self._ask_controller,
                self._broker_epoch,
            ),
            went_offline,
            report_located,
        )
        return replicas

    def _lifecycle(self, seams: Seams, replicas: ReplicaManager) -> BrokerLifecycleManager:
        previous_epoch = replicas.logs.previous_broker_epoch
        return BrokerLifecycleManager(
            lifecycle_config(
                self._config,
                tuple(directory.directory_id for directory in replicas.logs.online),
                NO_EPOCH if previous_epoch is None else previous_epoch,
            ),
            seams.clock,
            seams.random,
            seams.trace,
            self._ask_controller,
            lambda: self.controller.loader.published_offset,
            self.raft.fail,
            on_caught_up=self._on_caught_up,
            on_unregistered=self.forwarding.release,
        )

    def _on_local_changes(
        self, changes: LocalReplicaChanges, delta: MetadataDelta, image: MetadataImage
    ) -> None:
        assert self.replicas is not None, "a broker that registers has replicas"
        assert self.assignments is not None, "and a manager of their directories"
        self.replicas.apply(changes, delta, image.state)
        self.assignments.on_changes(changes)

    def _on_caught_up(self) -> None:
        """Begin to serve: the broker has replayed its own registration."""
        assert self.publisher is not None, "a broker that registers has a publisher"
        assert self.replicas is not None, "and replicas"
        assert self.assignments is not None, "and a manager of their directories"
        assert self.lifecycle is not None, "and this is its call"
        self.replicas.start(self.publisher.held, self.controller.image.state)
        self.assignments.on_changes(self.publisher.held)
        self.lifecycle.set_ready_to_unfence()
        self._serve_clients()

    def _assignments(self, seams: Seams, replicas: ReplicaManager) -> AssignmentsManager:
        node_id = self._config.node_id

        def directory_of(key: tuple[uuid.UUID, int]) -> uuid.UUID | None:
            partition = self.controller.image.state.partitions.get(key)
            if partition is None or node_id not in partition.replicas:
                return None
            return replica_directory(partition, node_id)

        return AssignmentsManager(
            node_id,
            self._config.broker_session_timeout_ms / 2,
            seams.clock,
            seams.random,
            seams.trace,
            self._ask_controller,
            self._broker_epoch,
            directory_of,
            replicas.locate,
        )

    def start(self) -> None:
        """Take part in the quorum. Raises QuorumStateError."""
        self.raft.start()
        if self.registration is not None:
            self.registration.start()
        if self.lifecycle is not None and self.replicas is not None:
            self.replicas.logs.remove_marks(self._start_broker)

    def _start_broker(self) -> None:
        """Register, once no crash from now on can pass for the stop that went before."""
        if self.lifecycle is not None and not self._stopping:
            self.lifecycle.start()

    def handle(
        self,
        listener: str,
        message: Any,
        reply: Callable[[object], None],
        origin: Origin = ANONYMOUS,
    ) -> None:
        """Answer a request that arrived on a listener (`cluster.node.protocol.server`)."""
        if isinstance(message, EnvelopeRequest):
            self._handle_envelope(listener, message, reply)
            return
        from_client = listener not in self._config.controller_listener_names
        if from_client and self._held is not None:
            self._held.append(lambda: self.handle(listener, message, reply, origin))
            return
        if from_client and isinstance(message, IncrementalAlterConfigsRequest):
            left = preprocess(message, reply, self.controller.image.state, self._cluster)
            if left is None:
                return
            message, reply = left
        if from_client and is_for_controller(message):
            self.forwarding.forward(listener, message, reply, origin)
        else:
            self._answer(listener, message, reply, origin)

    def _answer(
        self, listener: str, message: Any, reply: Callable[[Any], None], origin: Origin
    ) -> None:
        """Answer a request of `origin` here, whoever leads."""
        del origin  # nobody is refused for what it is
        if isinstance(message, RaftRequest):
            self.raft.handle(message, reply)
        elif self._data is not None and self._data.handles(message):
            self._data.handle(listener, message, reply)
        elif is_kraft_version_update(message):
            update_kraft_version(
                self.raft,
                lambda others, then: self._apis.handle(listener, others, then),
                message,
                reply,
            )
        else:
            self._apis.handle(listener, message, reply)

    def _serve_clients(self) -> None:
        """Answer clients from now on, those that wait first.

        What clients have read at this broker was committed before its process began, and so lies
        before the registration of this incarnation. Kafka enables its listeners as late
        (`BrokerServer.startup`): at one broker, reads never go back. Without a registration there
        is nothing to wait for but the first image.
        """
        held, self._held = self._held or [], None
        for handle in held:
            handle()

    def _handle_envelope(
        self, listener: str, envelope: EnvelopeRequest, reply: Callable[[object], None]
    ) -> None:
        try:
            request, origin = unseal(envelope)
        except EnvelopeError as refused:
            reply(refusal(refused.error))
            return
        answer = answer_to(request, reply)
        if request.refusal is not None:
            answer(request.refusal)
        else:
            self.handle(listener, request.message, answer, origin)

    def features(self) -> Features:
        """Return the features that ApiVersions reports on this node's listeners."""
        return features_of(self.controller.image, self.raft.kraft_version)

    def scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential in the committed metadata that this node has."""
        return credential_of(self.controller.image.state, mechanism, user)

    @property
    def loggers(self) -> Loggers:
        """What of its lines is said."""
        return self._cluster.loggers

    def handle_signal(self, what: NodeSignal) -> None:
        """Do at once what an operator asks a running node for.

        "resign": give up leading, if this node leads. "snapshot": snapshot what it has replayed.
        """
        if what == "resign":
            self.raft.resign(self.raft.leader_and_epoch.epoch)
        else:
            self.controller.request_snapshot()

    def shutdown(self, timeout_ms: float, done: Callable[[], None]) -> None:
        """Hand leadership over, stop in time, then call `done`; each `done`, when asked again."""
        if self._stopped:
            done()
            return
        self._stopping.append(done)
        if len(self._stopping) > 1:
            return
        self.forwarding.close()
        if self.registration is not None:
            self.registration.stop()
        if self.assignments is not None:
            self.assignments.stop()
        lifecycle = self.lifecycle
        part_ms = timeout_ms / 3
        if lifecycle is None:
            self._hand_over(part_ms, self._has_stopped)
        else:
            lifecycle.begin_controlled_shutdown(
                part_ms, lambda: self._hand_over(part_ms, self._close_logs)
            )

    def _hand_over(self, part_ms: float, done: Callable[[], None]) -> None:
        """Answer the writes that are under way, then leave the quorum; each within `part_ms`."""
        self.controller.drain(part_ms, lambda: self.raft.shutdown(part_ms, done))

    def _close_logs(self) -> None:
        """Leave the broker's logs with the mark of a clean shutdown, if it was registered."""
        assert self.lifecycle is not None
        assert self.replicas is not None
        if self.lifecycle.broker_epoch == NOT_REGISTERED_EPOCH:
            self._has_stopped()
        else:
            self.replicas.shutdown(self.lifecycle.broker_epoch, self._has_stopped)

    def _has_stopped(self) -> None:
        self._stopped = True
        for done in self._stopping:
            done()

    def _ask_controller(
        self, request: object, timeout_ms: float, on_reply: Callable[[Any], None]
    ) -> None:
        """Send what this node's broker asks to the active controller, wherever that is."""
        endpoint = self.raft.leader_endpoint()
        if self.raft.leader_and_epoch.leader_id == self._config.node_id:
            self._apis.handle(self._config.controller_listener_names[0], request, on_reply)
        elif endpoint is None:
            on_reply(Failure.NOT_SENT)
        else:
            self._forwarding.request(endpoint, request, timeout_ms, on_reply)

    def _disk_failed(self, error: OSError) -> None:
        self.raft.fail(error)

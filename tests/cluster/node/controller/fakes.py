"""A raft client under the test's control, a clock that moves on demand, and a controller on both."""

import random
from dataclasses import dataclass, field

from cluster.node.controller.apis.controller_apis import ControllerApis
from cluster.node.controller.core.controller import QuorumController
from cluster.node.controller.core.feature_control import bootstrap_metadata
from cluster.node.controller.core.pending import ControllerSettings
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.records import encode_record
from cluster.node.kraft.types import CommittedBatch, LeaderAndEpoch, NotLeaderError
from cluster.node.log.metadata.snapshot import SnapshotEncoder, parse_snapshot
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol import messages as m

BOOTSTRAP_END = len(bootstrap_metadata()) + 3
"""The offset of the last bootstrap record: the epoch's start, the transaction's two and the
minimal ISR add up."""
CLIENT = "CLIENT"
CONTROLLER = "CONTROLLER"
CLUSTER = ClusterInfo(
    cluster_id="fake-cluster",
    node_id=1,
    brokers=tuple(Endpoint(node, f"host{node}", 9090 + node) for node in (1, 2, 3)),
    controllers=tuple(Endpoint(node, f"host{node}", 9190 + node) for node in (1, 2, 3)),
)


class FakeTimer:
    def __init__(self, due_ms, callback):
        self.due_ms, self.callback, self.cancelled = due_ms, callback, False

    def cancel(self):
        self.cancelled = True


class FakeClock:
    def __init__(self):
        self.now_ms = 0.0
        self.timers = []

    def monotonic_ms(self):
        return self.now_ms

    def wall_ms(self):
        return int(self.now_ms)

    def call_later(self, delay_ms, callback):
        timer = FakeTimer(self.now_ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def advance(self, duration_ms):
        end_ms = self.now_ms + duration_ms
        while True:
            self.timers = [timer for timer in self.timers if not timer.cancelled]
            due = [timer for timer in self.timers if timer.due_ms <= end_ms]
            if not due:
                break
            timer = min(due, key=lambda timer: timer.due_ms)
            self.timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.callback()
        self.now_ms = end_ms


@dataclass
class FakeWriter:
    id: object
    timestamp_ms: int
    values: list = field(default_factory=list)
    frozen: bool = False

    def append(self, values):
        assert not self.frozen
        self.values += values

    def freeze(self):
        self.frozen = True


@dataclass
class FakeRaft:
    """Holds the log; commits, elects and confirms only when the test calls for it."""

    node_id: int = 1
    log: list = field(default_factory=list)  # CommittedBatch
    committed: int = 0  # batches
    epoch: int = 0
    leader_id: int = -1
    confirmations: list = field(default_factory=list)
    scheduled: int = 0
    resigned: list = field(default_factory=list)
    failure: Exception | None = None
    snapshots: list = field(default_factory=list)
    listener: object = None

    @property
    def leader_and_epoch(self):
        return LeaderAndEpoch(self.leader_id, self.epoch)

    @property
    def high_watermark(self):
        return self.log[self.committed - 1].last_offset + 1 if self.committed else None

    @property
    def reported_high_watermark(self):
        return self.high_watermark

    @property
    def end_offset(self):
        return self.log[-1].last_offset + 1 if self.log else 0

    @property
    def next_append_offset(self):
        return self.end_offset

    def _add(self, records, epoch):
        base = self.end_offset
        last = base + max(1, len(records)) - 1
        self.log.append(CommittedBatch(base, last, epoch, 1000 + base, 100, tuple(records)))
        return last

    def prepare_append(self, epoch, records):
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if self.leader_id != self.node_id or epoch != self.epoch:
            raise NotLeaderError(str(epoch))
        return self._add(records, epoch)

    def schedule_prepared_append(self):
        self.scheduled += 1

    def resign(self, epoch):
        self.resigned.append(epoch)

    def create_snapshot(self, snapshot_id, last_contained_log_timestamp_ms):
        if self.snapshots and self.snapshots[-1].id >= snapshot_id:
            return None
        self.snapshots.append(FakeWriter(snapshot_id, last_contained_log_timestamp_ms))
        return self.snapshots[-1]

    def confirm_leadership(self, done):
        self.confirmations.append(done)

    # what the test does

    def confirm(self, answer=True):
        waiting, self.confirmations = self.confirmations, []
        for done in waiting:
            done(answer)

    def commit(self, batches=None):
        """Commit everything, or so many more batches."""
        end = len(self.log) if batches is None else self.committed + batches
        fresh, self.committed = self.log[self.committed : end], end
        if fresh:
            self.listener.handle_commit(fresh)

    def elect(self):
        """This node leads a new epoch, and its LeaderChange is committed."""
        self.epoch += 1
        self.leader_id = self.node_id
        self._add((), self.epoch)
        self.commit()
        self.listener.handle_leader_change(self.leader_and_epoch)

    def lose(self, keep_uncommitted=False, leader_id=2):
        """Another node leads; what is not committed is truncated, or committed by it."""
        self.epoch += 1
        self.leader_id = leader_id
        if not keep_uncommitted:
            del self.log[self.committed :]
        self.listener.handle_leader_change(self.leader_and_epoch)
        self._add((), self.epoch)


class Node:
    """A controller with its APIs on fakes; replies and trace events are kept."""

    def __init__(self, seed=1, cluster=CLUSTER, **settings):
        settings.setdefault("max_idle_interval_ms", 0)
        self.raft = FakeRaft()
        self.clock = FakeClock()
        self.events = []
        self.controller = QuorumController(
            self.raft, self.clock, self._trace, ControllerSettings(**settings)
        )
        self.raft.listener = self.controller
        self.apis = ControllerApis(self.controller, self.raft, cluster, random.Random(seed))

    def _trace(self, event, /, **fields):
        self.events.append((event, fields))

    def traced(self, name):
        return [fields for event, fields in self.events if event == name]

    def send(self, message, listener=CONTROLLER):
        """Send a request; returns the list that its replies arrive in."""
        replies = []
        self.apis.handle(listener, message, replies.append)
        return replies

    def call(self, message, listener=CONTROLLER):
        """Send a request, commit and confirm, and return the only reply."""
        replies = self.send(message, listener)
        while self.controller._queue._held:
            self.clock.advance(0)
        self.raft.commit()
        self.raft.confirm()
        (reply,) = replies
        return reply


def active(**options):
    node = Node(**options)
    node.raft.elect()
    node.raft.commit()
    return node


def codes(reply):
    """The errors of a reply, one for each that was asked about."""
    for name in ("topics", "responses", "results"):
        if hasattr(reply, name):
            return [item.error_code for item in getattr(reply, name)]
    raise AssertionError(reply)


def creatable(name, partitions=1, factor=1, assignments=(), configs=None):
    return m.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=assignments,
        configs=tuple(
            m.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )


def create(*topics, validate_only=False, timeout_ms=10_000):
    return m.CreateTopicsRequest(
        topics=tuple(creatable(t) if isinstance(t, str) else t for t in topics),
        timeout=m.milliseconds(timeout_ms),
        validate_only=validate_only,
    )


def delete(*names, ids=()):
    states = [m.DeleteTopicState(name=name, topic_id=None) for name in names]
    states += [m.DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
    return m.DeleteTopicsRequest(topics=tuple(states), timeout=m.milliseconds(10_000))


def alter(name, value, op=0, resource=(4, ""), validate_only=False):
    return m.IncrementalAlterConfigsRequest(
        resources=(
            m.AlterConfigsResource(
                resource_type=resource[0],
                resource_name=resource[1],
                configs=(m.AlterableConfig(name=name, config_operation=op, value=value),),
            ),
        ),
        validate_only=validate_only,
    )


def describe(resource=(4, ""), keys=("k",), synonyms=False):
    """`keys`: the names that are asked for; None: all."""
    return m.DescribeConfigsRequest(
        resources=(
            m.DescribeConfigsResource(
                resource_type=resource[0], resource_name=resource[1], configuration_keys=keys
            ),
        ),
        include_synonyms=synonyms,
    )


def describe_cluster(endpoint_type=1, *, fenced=False, operations=False):
    return m.DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=fenced,
    )


def metadata(*names, ids=(), everything=False):
    topics = [m.MetadataRequestTopic(name=name, topic_id=None) for name in names]
    topics += [m.MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return m.MetadataRequest(
        topics=None if everything else tuple(topics), include_topic_authorized_operations=False
    )


def snapshot_of(*records, offset=100, epoch=3):
    snapshot_id = OffsetAndEpoch(offset, epoch)
    encoder = SnapshotEncoder(snapshot_id, 77)
    data = encoder.header()
    if records:
        data += encoder.records([encode_record(record) for record in records])
    return parse_snapshot("s", snapshot_id, data + encoder.footer())

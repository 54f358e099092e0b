"""A broker reports to a real controller where its replicas are, through a channel that can break."""

import random
import uuid

import pytest

from cluster.node.broker.lifecycle.assignments import (
    MAX_ASSIGNMENTS_PER_REQUEST,
    AssignmentsManager,
)
from cluster.node.broker.lifecycle.publisher import BrokerMetadataPublisher
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH
from cluster.node.controller.metadata.registrations import replica_directory
from cluster.node.ports import Failure
from cluster.node.protocol.messages import CreatableReplicaAssignment
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import creatable, create, delete

MINE = uuid.UUID(int=7_001)


class Assigning:
    """Broker 1, which holds everything in MINE but what `located` says."""

    def __init__(self):
        self.cluster = Brokers()
        self.cluster.join(1, log_dirs=(MINE, uuid.UUID(int=7_002)))
        self.cluster.join(2)
        self.node, self.clock = self.cluster.node, self.cluster.node.clock
        self.epoch = self.cluster.epochs[1]
        self.broken, self.sent, self.traced = None, [], []
        self.located = {}
        self.before_reply = lambda: None
        self.manager = AssignmentsManager(
            1,
            4_500,
            self.clock,
            random.Random(1),
            lambda event, **fields: self.traced.append((event, fields)),
            self._channel,
            lambda: self.epoch,
            self._directory_of,
            lambda key: self.located.get(key, MINE),
        )
        publisher = BrokerMetadataPublisher(
            1, on_changes=lambda changes, *_: self.manager.on_changes(changes)
        )
        self.node.controller.loader.install(publisher)

    def _directory_of(self, key):
        partition = self.node.controller.image.state.partitions.get(key)
        if partition is None or 1 not in partition.replicas:
            return None
        return replica_directory(partition, 1)

    def _channel(self, request, timeout_ms, on_reply):
        self.sent.append((self.clock.now_ms, request))
        if self.broken == "silent":
            return
        if self.broken is not None:
            on_reply(self.broken)
            return
        reply = self.node.call(request)
        self.before_reply()
        on_reply(reply)

    def topics(self, *names, replicas=(1,), partitions=1):
        assigned = tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index in range(partitions)
        )
        return self.node.call(create(*(creatable(name, -1, -1, assigned) for name in names)))

    def directories(self, name):
        state = self.node.controller.image.state
        topic = state.topic_by_name(name)
        return [state.partition(topic.id, i).directories for i in range(topic.partition_count)]


def partitions_of(request):
    return sum(len(topic.partitions) for topic in request.directories[0].topics)


def test_what_the_metadata_do_not_know_is_reported_in_one_request():
    life = Assigning()
    life.topics("a", "b", partitions=2)
    life.clock.advance(99)
    assert life.sent == []
    life.clock.advance(1)
    ((_, request),) = life.sent
    assert partitions_of(request) == 4
    assert life.directories("a") == [(MINE,), (MINE,)]
    assert life.traced == [("assign-replicas", {"partitions": 4})]
    life.clock.advance(60_000)
    assert len(life.sent) == 1
    assert life.manager._pending == {}


def test_other_brokers_replicas_are_their_own_affair():
    life = Assigning()
    life.topics("a", replicas=(2,))
    life.clock.advance(1_000)
    assert life.sent == []


def test_what_is_right_already_is_not_reported():
    life = Assigning()
    life.topics("a")
    life.clock.advance(200)
    before = len(life.sent)
    life.cluster.alter(life.node.controller.image.state.topic_by_name("a").id, (1,))
    life.clock.advance(1_000)
    assert len(life.sent) == before == 1


@pytest.mark.parametrize("broken", [Failure.NOT_SENT, Failure.TIMED_OUT, "silent"])
def test_an_assignment_that_fails_is_tried_again_later_each_time(broken):
    life = Assigning()
    life.broken = broken
    life.topics("a")
    life.clock.advance(60_000)
    assert life.directories("a") != [(MINE,)]
    gaps = [
        later - earlier for (earlier, _), (later, _) in zip(life.sent, life.sent[1:], strict=False)
    ]
    assert len(gaps) >= 3
    assert gaps[0] < gaps[-1] <= 12_000 + 4_500
    life.broken = None
    life.clock.advance(20_000)
    assert life.directories("a") == [(MINE,)]


def test_nothing_is_reported_before_the_broker_is_registered():
    life = Assigning()
    life.epoch = NOT_REGISTERED_EPOCH
    life.topics("a")
    life.clock.advance(5_000)
    assert life.sent == []
    life.epoch = life.cluster.epochs[1]
    life.clock.advance(200)
    assert life.directories("a") == [(MINE,)]


def test_a_stale_epoch_is_no_end():
    life = Assigning()
    life.epoch -= 1
    life.topics("a")
    life.clock.advance(1_000)
    assert life.directories("a") != [(MINE,)]
    life.epoch += 1
    life.clock.advance(5_000)
    assert life.directories("a") == [(MINE,)]


def test_a_topic_that_is_deleted_in_the_meantime_is_forgotten():
    life = Assigning()
    life.broken = Failure.NOT_SENT
    life.topics("a")
    life.clock.advance(1_000)
    life.node.call(delete("a"))
    life.broken = None
    sent = len(life.sent)
    life.clock.advance(60_000)
    assert len(life.sent) == sent
    assert life.manager._pending == {}


@pytest.mark.slow
def test_many_assignments_go_in_several_requests():
    life = Assigning()
    for number in range(3):
        life.topics(f"t{number}", partitions=1_000)
    life.clock.advance(1_000)
    assert [partitions_of(request) for _, request in life.sent] == [
        MAX_ASSIGNMENTS_PER_REQUEST,
        3_000 - MAX_ASSIGNMENTS_PER_REQUEST,
    ]
    assert all(directory == (MINE,) for n in range(3) for directory in life.directories(f"t{n}"))


def test_a_manager_that_was_stopped_is_silent():
    life = Assigning()
    life.topics("a")
    life.manager.stop()
    life.topics("b")
    life.clock.advance(60_000)
    assert life.sent == []


def test_replicas_in_several_directories_are_reported_in_one_request():
    life = Assigning()
    life.topics("a", partitions=2)
    topic = life.node.controller.image.state.topic_by_name("a")
    other = uuid.UUID(int=7_002)
    life.located[topic.id, 1] = other
    life.clock.advance(200)
    ((_, request),) = life.sent
    assert {directory.id_ for directory in request.directories} == {MINE, other}
    assert life.directories("a") == [(MINE,), (other,)]


def test_a_replica_that_moves_before_the_reply_comes_is_reported_anew():
    life = Assigning()
    life.topics("a")
    key = (life.node.controller.image.state.topic_by_name("a").id, 0)
    other = uuid.UUID(int=7_002)

    def move():
        life.located[key] = other
        life.manager.partition_changed(key)

    life.before_reply = move
    life.clock.advance(60_000)
    assert life.directories("a") == [(other,)]


def test_a_replica_that_has_moved_is_reported_anew():
    life = Assigning()
    life.topics("a")
    life.clock.advance(200)
    topic = life.node.controller.image.state.topic_by_name("a")
    other = uuid.UUID(int=7_002)
    life.located[topic.id, 0] = other
    life.manager.partition_changed((topic.id, 0))
    life.clock.advance(200)
    assert life.directories("a") == [(other,)]

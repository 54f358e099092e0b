"""AlterPartitionReassignments and ListPartitionReassignments."""

import pytest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsTopics

from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import Node


def reassign(*wanted, resize=True):
    """`wanted`: (topic, index, replicas or None)."""
    return m.AlterPartitionReassignmentsRequest(
        timeout=m.milliseconds(1000),
        allow_replication_factor_change=resize,
        topics=tuple(
            m.ReassignableTopic(
                name=topic,
                partitions=(m.ReassignablePartition(partition_index=index, replicas=replicas),),
            )
            for topic, index, replicas in wanted
        ),
    )


def listing(*names):
    topics = tuple(ListPartitionReassignmentsTopics(name=n, partition_indexes=(0,)) for n in names)
    return m.ListPartitionReassignmentsRequest(timeout=m.milliseconds(1000), topics=topics or None)


class World(Brokers):
    def __init__(self, *ids, replicas=(1, 2), configs=None):
        super().__init__(*ids)
        self.topic_id = self.topic(*replicas, configs=configs)

    def ask(self, replicas, topic="t", index=0, **options):
        reply = self.node.call(reassign((topic, index, replicas), **options))
        assert reply.error_code == ErrorCode.none
        return reply.responses[0].partitions[0].error_code

    @property
    def now(self):
        return self.partition(self.topic_id)

    def ongoing(self, *names):
        reply = self.node.call(listing(*names))
        return {
            topic.name: [
                (p.replicas, p.adding_replicas, p.removing_replicas) for p in topic.partitions
            ]
            for topic in reply.topics
        }


def test_replicas_move_once_the_new_ones_are_in_sync():
    world = World(1, 2, 3, 4)
    assert world.ask((3, 4)) == ErrorCode.none
    under_way = world.now
    assert (under_way.replicas, under_way.adding_replicas) == ((3, 4, 1, 2), (3, 4))
    assert (under_way.removing_replicas, under_way.leader) == ((1, 2), 1)
    assert len(under_way.directories) == 4
    assert world.ongoing() == world.ongoing("t", "none") == {"t": [((3, 4, 1, 2), (3, 4), (1, 2))]}
    world.alter(world.topic_id, [1, 2, 3])
    assert world.now.removing_replicas == (1, 2), "4 is not in sync yet"
    refused = world.alter(world.topic_id, [1, 2, 3, 4])
    assert refused.error_code == ErrorCode.new_leader_elected
    done = world.now
    assert (done.replicas, done.isr, done.leader) == ((3, 4), (3, 4), 3)
    assert (done.adding_replicas, done.removing_replicas) == ((), ())
    assert done.leader_epoch == under_way.leader_epoch + 1
    assert len(done.directories) == 2
    assert world.ongoing() == {}


def test_the_factor_that_may_not_change_is_that_of_the_last_target():
    world = World(1, 2, 3, 4, replicas=(1, 2, 3))
    assert world.ask((2, 3, 4), resize=False) == ErrorCode.none
    assert world.ask((3, 4), resize=False) == ErrorCode.invalid_replication_factor
    assert world.ask((1, 2, 4), resize=False) == ErrorCode.none
    assert (world.now.adding_replicas, world.now.removing_replicas) == ((4,), (3,))


def test_a_reassignment_that_only_removes_is_done_at_once():
    world = World(1, 2)
    assert world.ask((2,)) == ErrorCode.none
    assert (world.now.replicas, world.now.isr, world.now.leader) == ((2,), (2,), 2)
    assert world.ongoing() == {}


def test_a_removal_waits_until_every_replica_that_stays_is_in_sync():
    world = World(4, 5, 6, replicas=(5, 6, 4))
    world.beat(5, fence=True)
    world.beat(5)
    assert (world.now.isr, world.now.leader) == ((6, 4), 6)
    assert world.ask((5, 6)) == ErrorCode.none
    assert (world.now.isr, world.now.removing_replicas) == ((6, 4), (4,))
    world.alter(world.topic_id, [6, 4, 5])
    assert (world.now.replicas, world.now.isr, world.now.removing_replicas) == ((5, 6), (6, 5), ())


def test_a_reassignment_to_what_is_there_changes_only_the_order():
    world = World(1, 2)
    before = world.now
    assert world.ask((1, 2)) == ErrorCode.none
    assert world.now == before
    assert world.ask((2, 1)) == ErrorCode.none
    assert (world.now.replicas, world.now.leader) == ((2, 1), 1)


def test_a_new_target_replaces_one_that_is_under_way():
    world = World(1, 2, 3, 4)
    world.ask((1, 3))
    assert world.ask((1, 4)) == ErrorCode.none
    now = world.now
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == (
        (1, 4, 2, 3),
        (4,),
        (2, 3),
    )


def test_asking_for_the_same_again_does_not_take_a_replica_being_added_for_one_that_is_there():
    world = World(1, 2, 3)
    world.ask((1, 3))
    under_way = world.now
    world.ask((1, 3))
    assert world.now == under_way
    assert world.ongoing() == {"t": [((1, 3, 2), (3,), (2,))]}


def test_a_reassignment_is_cancelled():
    world = World(1, 2, 3)
    world.ask((1, 3))
    world.alter(world.topic_id, [1, 2])
    assert world.ask(None) == ErrorCode.none
    now = world.now
    assert (now.replicas, now.isr) == ((1, 2), (1, 2))
    assert (now.adding_replicas, now.removing_replicas) == ((), ())
    assert world.ask(None) == ErrorCode.no_reassignment_in_progress


@pytest.mark.parametrize("unclean", [False, True])
def test_cancelling_loses_records_only_where_the_topic_allows_it(unclean):
    world = World(
        1, 2, 3, replicas=(1,), configs={"unclean.leader.election.enable": str(unclean).lower()}
    )
    world.ask((2, 3))
    world.alter(world.topic_id, [1, 2])
    world.beat(1, fence=True)
    assert (world.now.isr, world.now.leader) == ((2,), 2)
    if unclean:
        world.beat(1)
        assert world.ask(None) == ErrorCode.none
        now = world.now
        assert (now.replicas, now.isr, now.leader) == ((1,), (1,), 1)
        assert now.leader_recovery_state == 1
    else:
        before = world.now
        assert world.ask(None) == ErrorCode.invalid_replica_assignment
        assert world.now == before


@pytest.mark.parametrize(("topic", "index"), [("none", 0), ("t", 1)])
def test_what_does_not_exist_is_reported(topic, index):
    world = World(1, 2)
    error = ErrorCode.unknown_topic_or_partition
    assert world.ask((1, 2), topic, index) == error
    assert world.ask(None, topic, index) == error


def test_a_partition_named_twice_is_changed_once():
    world = World(1, 2, 3)
    reply = world.node.call(reassign(("t", 0, (1, 3)), ("t", 0, (2, 3))))
    codes = [topic.partitions[0].error_code for topic in reply.responses]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request]
    assert world.now.adding_replicas == (3,)


def test_only_the_active_controller_reassigns_and_lists():
    assert Node().call(reassign(("t", 0, (1,)))).error_code == ErrorCode.not_controller
    assert Node().call(listing()).error_code == ErrorCode.not_controller

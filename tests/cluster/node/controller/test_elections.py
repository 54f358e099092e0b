"""ElectLeaders: elections that an operator asks for."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    milliseconds,
)
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import Node

PREFERRED, UNCLEAN = 0, 1


def elect(election_type, *asked):
    """`asked`: (topic, index) pairs; none of them: all partitions."""
    topics = tuple(ElectLeadersTopicPartitions(topic=t, partitions=(i,)) for t, i in asked)
    return ElectLeadersRequest(
        election_type=election_type, topic_partitions=topics or None, timeout=milliseconds(1000)
    )


def outcomes(reply):
    return {
        (topic.topic, result.partition_id): result.error_code
        for topic in reply.replica_election_results
        for result in topic.partition_result
    }


def away_from_its_first_replica():
    """Topic t on 1, 2: broker 1 was fenced and is back, in sync again; 2 leads."""
    cluster = Brokers(1, 2)
    topic_id = cluster.topic(1, 2)
    cluster.beat(1, fence=True)
    cluster.beat(1)
    cluster.alter(topic_id, [2, 1])
    assert cluster.partition(topic_id).leader == 2
    return cluster, topic_id


def test_a_preferred_election_gives_leadership_back():
    cluster, topic_id = away_from_its_first_replica()
    before = cluster.partition(topic_id)
    assert outcomes(cluster.node.call(elect(PREFERRED, ("t", 0)))) == {("t", 0): ErrorCode.none}
    after = cluster.partition(topic_id)
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
    again = cluster.node.call(elect(PREFERRED, ("t", 0)))
    assert outcomes(again) == {("t", 0): ErrorCode.election_not_needed}
    ((result,),) = (topic.partition_result for topic in again.replica_election_results)
    assert result.error_message == "Leader election not needed for topic partition."
    assert cluster.partition(topic_id) == after


def test_asked_about_all_only_what_was_done_or_refused_is_answered():
    cluster, topic_id = away_from_its_first_replica()
    cluster.topic(2, name="led-by-its-first")
    assert outcomes(cluster.node.call(elect(PREFERRED))) == {("t", 0): ErrorCode.none}
    assert cluster.partition(topic_id).leader == 1
    assert outcomes(cluster.node.call(elect(PREFERRED))) == {}


def test_a_first_replica_that_is_not_alive_or_not_in_sync_is_not_elected():
    cluster = Brokers(1, 2)
    topic_id = cluster.topic(1, 2)
    cluster.beat(1, fence=True)
    refused = {("t", 0): ErrorCode.preferred_leader_not_available}
    assert outcomes(cluster.node.call(elect(PREFERRED, ("t", 0)))) == refused
    cluster.beat(1)  # alive, but not in the ISR
    assert outcomes(cluster.node.call(elect(PREFERRED, ("t", 0)))) == refused
    assert cluster.partition(topic_id).leader == 2


def test_an_unclean_election_takes_a_live_replica_and_marks_the_partition_recovering():
    cluster = Brokers(1, 2)
    topic_id = cluster.topic(1, 2)
    cluster.beat(2, fence=True)
    cluster.beat(1, fence=True)
    dead = cluster.node.call(elect(UNCLEAN, ("t", 0)))
    assert outcomes(dead) == {("t", 0): ErrorCode.eligible_leaders_not_available}
    cluster.beat(2)
    assert cluster.partition(topic_id).leader == -1, "1 alone has everything"
    assert outcomes(cluster.node.call(elect(UNCLEAN, ("t", 0)))) == {("t", 0): ErrorCode.none}
    partition = cluster.partition(topic_id)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_an_unclean_election_is_not_needed_where_there_is_a_leader():
    cluster = Brokers(1)
    cluster.topic(1)
    reply = cluster.node.call(elect(UNCLEAN, ("t", 0)))
    assert outcomes(reply) == {("t", 0): ErrorCode.election_not_needed}


@pytest.mark.parametrize("asked", [("none", 0), ("t", 1)])
def test_what_does_not_exist_is_reported(asked):
    cluster = Brokers(1)
    cluster.topic(1)
    reply = cluster.node.call(elect(PREFERRED, asked))
    assert outcomes(reply) == {asked: ErrorCode.unknown_topic_or_partition}


def test_only_the_active_controller_elects():
    reply = Node().call(elect(PREFERRED, ("t", 0)))
    assert reply.error_code == ErrorCode.not_controller
    assert outcomes(reply) == {("t", 0): ErrorCode.not_controller}

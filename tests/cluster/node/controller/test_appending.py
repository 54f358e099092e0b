"""Writes of many records are appended in parts, one an event, and are atomic to readers."""

import uuid

import pytest

from cluster.node.controller.core.appending import EventQueue
from cluster.node.controller.metadata.registrations import partitions
from cluster.node.controller.metadata.result import RECORDS_PER_PART
from cluster.node.controller.records import decode_record
from cluster.node.controller.records.kinds import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import Brokers, heartbeat, register
from tests.cluster.node.controller.fakes import CONTROLLER, alter, creatable, create

TOPICS = 2 * RECORDS_PER_PART + 500


def cluster_with_many_partitions():
    """Brokers 1 and 2, each in sync for all of 2,500 partitions."""
    cluster = Brokers(1, 2)
    for first in range(0, TOPICS, 500):
        creatables = (creatable(f"t{n}", 1, 2) for n in range(first, first + 500))
        reply = cluster.node.call(create(*creatables))
        assert {topic.error_code for topic in reply.topics} == {ErrorCode.none}
    return cluster


def records(batches):
    return [decode_record(value)[0] for batch in batches for value in batch.records]


def leave(cluster):
    """Broker 1 wants to be fenced; returns its replies and the batches that follow."""
    node = cluster.node
    before = len(node.raft.log)
    return node.send(heartbeat(1, cluster.epochs[1], fence=True)), lambda: node.raft.log[before:]


@pytest.mark.slow
def test_fencing_a_broker_with_many_partitions_takes_a_turn_for_each_part():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    replies, appended = leave(cluster)
    sizes = [len(batch.records) for batch in appended()]
    assert sizes == [RECORDS_PER_PART]
    node.clock.advance(0)
    sizes = [len(batch.records) for batch in appended()]
    assert sizes == [RECORDS_PER_PART, RECORDS_PER_PART, TOPICS - 2 * RECORDS_PER_PART + 1]
    last = records(appended())[-1]
    assert isinstance(last, BrokerRegistrationChangeRecord)
    assert last.fenced == 1
    node.raft.commit()
    assert replies[0].is_fenced
    assert all(partition.isr == (2,) for _, partition in partitions(cluster.state))


@pytest.mark.slow
def test_what_comes_meanwhile_waits_and_sees_all_of_it():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    fenced, appended = leave(cluster)
    later = node.send(alter("k", "v"), CONTROLLER)
    node.raft.commit()
    assert len(appended()) == 1, "neither the write nor the commit is between two parts"
    assert node.controller.image.offset < node.raft.log[-1].base_offset
    node.clock.advance(0)
    node.raft.commit()
    kinds = [type(record).__name__ for record in records(appended())]
    assert kinds[-2:] == ["BrokerRegistrationChangeRecord", "ConfigRecord"]
    assert (len(fenced), len(later)) == (1, 1)


@pytest.mark.slow
def test_a_leader_that_loses_its_epoch_between_two_parts_does_not_know_what_becomes_of_it():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    replies, appended = leave(cluster)
    node.raft.lose(keep_uncommitted=True)
    assert node.controller.is_active, "the news waits behind the parts"
    node.clock.advance(0)
    assert len(appended()) == 2, "the first part, and the start of the next leader's epoch"
    assert [reply.error_code for reply in replies] == [ErrorCode.unknown_server_error]
    assert not node.controller.is_active
    assert node.controller.speculative.is_empty
    node.raft.commit()
    assert (
        sum(partition.isr == (2,) for _, partition in partitions(cluster.state)) == RECORDS_PER_PART
    )


@pytest.mark.slow
def test_a_broker_epoch_is_the_offset_of_its_registration_whatever_raft_appends_between_parts():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    node.clock.advance(60_000)  # no session of broker 1 stands in the way
    node.raft.commit()
    other = uuid.UUID(int=99_999)
    cluster.join(1, incarnation=7)
    for key, partition in list(partitions(cluster.state)):
        assert partition.isr == (2,), key
    replies = node.send(register(2, incarnation_id=other))
    node.raft._add((), node.raft.epoch)  # as a VotersRecord of a change of voters is
    node.clock.advance(0)
    node.raft.commit()
    (registered,) = [
        (batch.base_offset + number, record)
        for batch in node.raft.log
        for number, record in enumerate(records([batch]))
        if isinstance(record, RegisterBrokerRecord) and record.incarnation_id == other
    ]
    offset, record = registered
    assert record.broker_epoch == offset == replies[0].broker_epoch


@pytest.mark.slow
def test_a_broker_is_not_fenced_while_its_heartbeat_waits_behind_the_parts():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    heartbeats = node.controller.heartbeats
    leave(cluster)
    node.clock.now_ms += 8_000  # the parts take their time
    assert node.send(heartbeat(2, cluster.epochs[2])) == [], "it waits for its turn"
    node.clock.now_ms += 8_000
    assert heartbeats.has_valid_session(2, cluster.epochs[2])
    assert not heartbeats.has_valid_session(1, cluster.epochs[1])
    node.clock.now_ms += 2_000
    assert not heartbeats.has_valid_session(2, cluster.epochs[2])


@pytest.mark.slow
def test_a_part_that_cannot_be_made_is_as_fatal_as_before():
    cluster = cluster_with_many_partitions()
    node = cluster.node
    leave(cluster)
    node.controller.speculative.state.topics.remove(
        next(key[0] for key in list(node.controller.image.state.partitions.keys())[1_500:])
    )
    with pytest.raises(AssertionError, match="without its topic"):
        node.clock.advance(0)
    with pytest.raises(RuntimeError, match="has failed"):
        node.send(alter("k", "v"))


def test_events_wait_for_one_that_goes_on_later():
    queue, order = EventQueue(), []
    queue.append(lambda: (order.append("first"), queue.hold()))
    queue.append(lambda: order.append("other"))
    assert order == ["first"]
    queue.resume(lambda: order.append("the rest of the first"))
    assert order == ["first", "the rest of the first", "other"]

"""CreateTopics, DeleteTopics and CreatePartitions: every error code, and what is created."""

import dataclasses
import uuid

import pytest

from cluster.node.controller.core.feature_control import ALL_BROKERS
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from tests.cluster.node.controller.fakes import (
    CLIENT,
    active,
    codes,
    creatable,
    create,
    delete,
    describe_cluster,
    metadata,
)


def assignments(*replicas, indexes=None):
    indexes = indexes or range(len(replicas))
    return tuple(
        m.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in zip(indexes, replicas, strict=True)
    )


def manual(*replicas, indexes=None):
    return creatable("a", -1, -1, assignments(*replicas, indexes=indexes))


def grow(name, count, assigned=None, validate_only=False):
    topic = m.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assigned is None
        else tuple(m.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned),
    )
    return m.CreatePartitionsRequest(
        topics=(topic,), timeout=m.milliseconds(1000), validate_only=validate_only
    )


def names_of(node):
    node.raft.commit()
    return [topic.name for topic in node.call(metadata(everything=True), CLIENT).topics]


def test_a_topic_has_the_id_partitions_and_configs_that_its_creation_returned():
    node = active()
    (result,) = node.call(create(creatable("a", 4, 3, configs={"flush.ms": "1"}))).topics
    assert (result.num_partitions, result.replication_factor) == (4, 3)
    shown = {c.name: (c.value, c.config_source) for c in result.configs}
    assert (len(shown), shown["flush.ms"], shown["segment.ms"]) == (33, ("1", 1), ("604800000", 5))
    (topic,) = node.call(metadata("a"), CLIENT).topics
    assert topic.topic_id == result.topic_id
    assert topic.topic_id.version == 4
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2, 3]
    for partition in topic.partitions:
        assert sorted(partition.replica_nodes) == [1, 2, 3]
        assert partition.isr_nodes == partition.replica_nodes
        assert partition.leader_id == partition.replica_nodes[0]


def test_all_records_of_a_request_are_one_batch():
    node = active()
    before = len(node.raft.log)
    node.call(create(creatable("a", 3, configs={"flush.ms": "1"}), "b"))
    (batch,) = node.raft.log[before:]
    kinds = [value[1] for value in batch.records]
    assert kinds == [2, 4, 3, 3, 3, 2, 3]


def test_minus_one_stands_for_the_configured_defaults():
    node = active()
    (result,) = node.call(create(creatable("a", -1, -1))).topics
    assert (result.num_partitions, result.replication_factor) == (1, 1)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("..", ErrorCode.invalid_topic_exception),
        ("ä", ErrorCode.invalid_topic_exception),
        ("a\n", ErrorCode.invalid_topic_exception),
        ("x" * 249, ErrorCode.none),
        ("A.b_c-9", ErrorCode.none),
        ("...", ErrorCode.none),
    ],
)
def test_topic_names_are_checked(name, error):
    assert codes(active().call(create(name))) == [error]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (creatable("a", 1, -2), ErrorCode.invalid_replication_factor),
        (creatable("a", 10_000), ErrorCode.policy_violation),
        (creatable("a", 2**31 - 1), ErrorCode.policy_violation),
        (creatable("a", configs={"": "1"}), ErrorCode.invalid_config),
        (manual((1, 2), (2, 3)), ErrorCode.none),
    ],
)
def test_partitions_replicas_and_configs_are_checked(topic, error):
    node = active()
    assert codes(node.call(create(topic))) == [error]
    assert names_of(node) == (["a"] if error == ErrorCode.none else [])


def test_a_manual_assignment_is_kept_in_the_order_of_its_indexes():
    node = active()
    node.call(create(manual((3, 1), (2, 3), indexes=(1, 0))))
    (topic,) = node.call(metadata("a"), CLIENT).topics
    assert [p.replica_nodes for p in topic.partitions] == [(2, 3), (3, 1)]


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_names_that_differ_only_in_dot_and_underscore_collide(first, second):
    node = active()
    assert codes(node.call(create(first, second))) == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
    ]
    assert codes(node.call(create(second))) == [ErrorCode.invalid_topic_exception]
    node.call(delete(first))
    assert codes(node.call(create(second))) == [ErrorCode.none]


def test_a_topic_that_is_asked_for_twice_is_described_once():
    """A topic of 1,000 partitions, named 10,000 times in a request, held a node up for a minute."""
    node = active()
    topic_id = node.call(create("a")).topics[0].topic_id
    for request in (metadata("a", "b", "a"), metadata(ids=[topic_id, topic_id])):
        topics = node.call(request, CLIENT).topics
        assert [topic.name for topic in topics] == ["a", "b"][: len(topics)]


def test_a_name_twice_in_one_request_is_refused_and_the_others_are_created():
    node = active()
    reply = node.call(create("a", "b", "a"))
    assert {topic.name: topic.error_code for topic in reply.topics} == {
        "a": ErrorCode.invalid_request,
        "b": ErrorCode.none,
    }
    assert names_of(node) == ["b"]


def test_validate_only_creates_nothing():
    node = active()
    (result,) = node.call(create(creatable("a", 2), validate_only=True)).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 2)
    assert names_of(node) == []


def test_topic_ids_come_from_the_random_seam_alone():
    ids = [active(seed=7).call(create("a")).topics[0].topic_id for _ in range(2)]
    assert ids[0] == ids[1]
    assert active(seed=8).call(create("a")).topics[0].topic_id != ids[0]


def test_topics_are_deleted_by_name_and_by_id():
    node = active()
    created = node.call(create("a", "b", "c")).topics
    reply = node.call(delete("a", ids=(created[1].topic_id,)))
    assert [(item.name, item.error_code) for item in reply.responses] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
    ]
    assert names_of(node) == ["c"]


def test_a_deleted_topic_comes_back_with_another_id_and_no_configs():
    node = active()
    (first,) = node.call(create(creatable("a", configs={"flush.ms": "1"}))).topics
    node.call(delete("a"))
    (second,) = node.call(create("a")).topics
    assert first.topic_id != second.topic_id
    state = node.controller.image.state
    assert list(state.config_names.keys()) == [ALL_BROKERS]
    assert list(state.configs.keys()) == [(ALL_BROKERS, "min.insync.replicas")]
    assert codes(node.call(delete(ids=(first.topic_id,)))) == [ErrorCode.unknown_topic_id]


def state(name=None, topic_id=None):
    return m.DeleteTopicState(name=name, topic_id=topic_id)


def test_what_cannot_be_deleted_is_reported():
    node = active()
    (a,) = node.call(create("a")).topics
    for states, expected in [
        ([state()], [ErrorCode.invalid_request]),
        ([state("a", a.topic_id)], [ErrorCode.invalid_request]),
        ([state("a"), state("a")], [ErrorCode.invalid_request]),
    ]:
        request = m.DeleteTopicsRequest(topics=tuple(states), timeout=m.milliseconds(1000))
        assert codes(node.call(request)) == expected
    assert names_of(node) == ["a"]


def test_a_name_and_an_id_of_one_topic_delete_it_once():
    node = active()
    (a,) = node.call(create("a")).topics
    reply = node.call(delete("a", ids=(a.topic_id,)))
    assert codes(reply) == [ErrorCode.invalid_request, ErrorCode.none]


def test_partitions_are_added_with_the_replication_of_the_topic():
    node = active()
    node.call(create(creatable("a", 1, 2)))
    assert codes(node.call(grow("a", 4))) == [ErrorCode.none]
    (topic,) = node.call(metadata("a"), CLIENT).topics
    assert [len(p.replica_nodes) for p in topic.partitions] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (grow("a", 2), ErrorCode.invalid_partitions),
        (grow("a", 1), ErrorCode.invalid_partitions),
        (grow("a", 4, [(1, 2)]), ErrorCode.invalid_replica_assignment),
        (grow("a", 3, [(1,)]), ErrorCode.invalid_replica_assignment),
        (grow("a", 3, [(1, 9)]), ErrorCode.invalid_replica_assignment),
        (grow("a", 3, [(2, 3)]), ErrorCode.none),
        (grow("a", 20_000), ErrorCode.policy_violation),
        (grow("a", 3, validate_only=True), ErrorCode.none),
    ],
)
def test_added_partitions_are_checked(request_, error):
    node = active()
    node.call(create(creatable("a", 2, 2)))
    assert codes(node.call(request_)) == [error]
    grown = error == ErrorCode.none and not request_.validate_only
    (topic,) = node.call(metadata("a"), CLIENT).topics
    assert len(topic.partitions) == (3 if grown else 2)


def test_metadata_answers_by_name_by_id_and_for_all():
    node = active()
    created = node.call(create("a", "b")).topics
    assert [t.name for t in node.call(metadata(everything=True), CLIENT).topics] == ["a", "b"]
    assert [t.name for t in node.call(metadata(ids=(created[1].topic_id,)), CLIENT).topics] == ["b"]
    reply = node.call(metadata("nope", "a b"), CLIENT)
    assert codes(reply) == [ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception]
    reply = node.call(metadata(ids=(uuid.UUID(int=9),)), CLIENT)
    assert codes(reply) == [ErrorCode.unknown_topic_id]
    assert reply.cluster_id == "fake-cluster"
    assert [(b.node_id, b.host, b.port) for b in reply.brokers] == [
        (1, "host1", 9091),
        (2, "host2", 9092),
        (3, "host3", 9093),
    ]
    assert node.call(metadata(), CLIENT).topics == ()


def test_metadata_by_id_does_not_look_at_names():
    node = active()
    (created,) = node.call(create("a")).topics
    asked = m.MetadataRequestTopic(name="", topic_id=created.topic_id)
    named = m.MetadataRequestTopic(name="nope", topic_id=None)
    request = m.MetadataRequest(topics=(asked, named), include_topic_authorized_operations=False)
    (topic,) = node.call(request, CLIENT).topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("a", created.topic_id, ErrorCode.none)
    unknown = m.MetadataRequestTopic(name="a", topic_id=uuid.UUID(int=9))
    request = dataclasses.replace(request, topics=(unknown,))
    (topic,) = node.call(request, CLIENT).topics
    assert (topic.name, topic.error_code) == (None, ErrorCode.unknown_topic_id)


def test_what_a_client_may_do_is_said_when_it_asks():
    node = active()
    node.call(create("a"))
    request = metadata("a", "nope")
    quiet = node.call(request, CLIENT)
    assert {t.topic_authorized_operations for t in quiet.topics} == {-(2**31)}
    asking = dataclasses.replace(request, include_topic_authorized_operations=True)
    assert {t.topic_authorized_operations for t in node.call(asking, CLIENT).topics} == {3576}
    for asks, operations in ((True, 8096), (False, -(2**31))):
        described = node.call(describe_cluster(operations=asks), CLIENT)
        assert described.cluster_authorized_operations == operations

"""DescribeTopicPartitions: pages of partitions, with who may still lead them."""

import pytest
from kio.schema.describe_topic_partitions.v0.request import Cursor, TopicRequest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import DescribeTopicPartitionsRequest
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import CLIENT, active, creatable, create


def asking(*names, limit=2000, cursor=None):
    if cursor is not None:
        cursor = Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=cursor,
    )


def page(node, *names, **options):
    """Indexes by topic, and where the next page begins."""
    reply = node.call(asking(*names, **options), CLIENT)
    cursor = reply.next_cursor
    return (
        [(t.name, [p.partition_index for p in t.partitions]) for t in reply.topics],
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


@pytest.fixture
def node():
    found = active()
    found.call(create(creatable("b", 2), creatable("a", 3), creatable("c", 1)))
    return found


def test_topics_come_in_the_order_of_their_names(node):
    whole = [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
    assert page(node) == (whole, None)
    assert page(node, "c", "a", "a") == ([whole[0], whole[2]], None)


def test_a_page_ends_within_a_topic_or_between_two(node):
    assert page(node, limit=2) == ([("a", [0, 1])], ("a", 2))
    assert page(node, limit=3) == ([("a", [0, 1, 2])], ("b", 0))
    assert page(node, limit=4) == ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))
    assert page(node, limit=6)[1] is None


@pytest.mark.parametrize("limit", [-1, 0, 1])
def test_a_page_has_one_partition_at_least(node, limit):
    assert page(node, limit=limit) == ([("a", [0])], ("a", 1))


def test_pages_that_follow_their_cursors_are_the_whole(node):
    cursor, found = None, []
    for _ in range(6):
        topics, cursor = page(node, limit=1, cursor=cursor)
        found += [(name, index) for name, indexes in topics for index in indexes]
    assert cursor is None
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_a_page_has_at_most_2000_partitions():
    node = active()
    node.call(create(creatable("many", 2001)))
    ((_, indexes),), cursor = page(node, limit=10_000)
    assert (len(indexes), cursor) == (2000, ("many", 2000))


def test_unknown_topics_are_reported_when_they_are_asked_for(node):
    reply = node.call(asking("a", "nowhere", "no/name"), CLIENT)
    assert [(t.name, t.error_code, t.topic_id is None) for t in reply.topics] == [
        ("a", ErrorCode.none, False),
        ("no/name", ErrorCode.invalid_topic_exception, True),
        ("nowhere", ErrorCode.unknown_topic_or_partition, True),
    ]
    assert {t.topic_authorized_operations for t in reply.topics} == {0b1101_1111_1000}
    assert page(node, cursor=("bb", 0)) == ([("c", [0])], None)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_must_be_among_the_topics_and_at_a_partition(node, cursor):
    reply = node.call(asking("a", "c", cursor=cursor), CLIENT)
    assert [(t.name, t.error_code) for t in reply.topics] == [
        ("a", ErrorCode.invalid_request),
        ("c", ErrorCode.invalid_request),
    ]


def test_eligible_and_last_known_leaders_are_described():
    cluster = Brokers(1, 2, elr=True)
    topic_id = cluster.topic(1, 2, configs={"min.insync.replicas": "2"})
    cluster.alter(topic_id, [1])
    (topic,) = cluster.node.call(asking("t"), CLIENT).topics
    (partition,) = topic.partitions
    held = cluster.partition(topic_id)
    assert topic.topic_id == topic_id
    assert (partition.replica_nodes, partition.isr_nodes) == ((1, 2), (1,))
    assert (partition.leader_id, partition.leader_epoch) == (1, held.leader_epoch)
    assert partition.eligible_leader_replicas == (2,)
    cluster.beat(1, fence=True)
    cluster.beat(2, fence=True)
    (topic,) = cluster.node.call(asking("t"), CLIENT).topics
    (partition,) = topic.partitions
    held = cluster.partition(topic_id)
    assert (partition.leader_id, partition.offline_replicas) == (-1, (1, 2))
    assert partition.eligible_leader_replicas == held.elr
    assert partition.last_known_elr == held.last_known_elr

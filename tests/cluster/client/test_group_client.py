"""A member of a group: what members say to each other is in Kafka's own form."""

import struct

import pytest
from kio.schema.offset_fetch.v9 import response as fetched

from cluster.client.caller import Outcome
from cluster.client.data_client import TopicPartition
from cluster.client.group_client import GroupClient, Member
from cluster.node.protocol import group_messages as g
from tests.cluster.client.test_certainty import NODE, ask
from tests.kio_bytes import filled

MEMBER = Member("g", "a", None, 3)
PARTITIONS = (TopicPartition("t", 1), TopicPartition("t", 4), TopicPartition("u", 0))
ASSIGNMENT = (
    *(b"\0\0", b"\0\0\0\2"),  # version 0, topics
    *(b"\0\1t", b"\0\0\0\2", b"\0\0\0\1", b"\0\0\0\4"),
    *(b"\0\1u", b"\0\0\0\1", b"\0\0\0\0"),
    b"\xff\xff\xff\xff",  # no user data
)


def sync(assignment):
    """Answer a leader that decides with an assignment."""
    named = {"protocol_type": "consumer", "protocol_name": "in-turns"}
    answer = filled(g.SyncGroupResponse, assignment=assignment, **named)
    return ask(answer, lambda c: GroupClient(c).sync(NODE, MEMBER, {"a": PARTITIONS}))


def test_an_assignment_is_written_and_read_as_kafka_does():
    outcome, request = sync(b"".join(ASSIGNMENT))
    assert outcome == Outcome("ok", PARTITIONS)
    assert request.assignments[0].assignment == b"".join(ASSIGNMENT)


def test_a_later_version_is_read_as_the_first_and_no_bytes_are_no_partitions():
    assert sync(b"\0\3" + b"".join(ASSIGNMENT[1:]))[0] == Outcome("ok", PARTITIONS)
    assert sync(b"")[0] == Outcome("ok", ())


def test_a_length_that_the_assignment_does_not_have_is_a_wrong_answer():
    """Kio believes a length and reserves its memory, which may end the process."""
    topics = struct.pack(">hi", 0, 2**31 - 1)
    for assignment in (topics, b"".join([*ASSIGNMENT[:3], topics[2:]]), b"".join(ASSIGNMENT)[:-5]):
        outcome, _ = sync(assignment)
        assert outcome.type == "info"
        assert outcome.error.startswith("wrong-answer: answer to SyncGroupRequest: MalformedError")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("g", Outcome("ok", {PARTITIONS[0]: 7})),
        (
            "h",
            Outcome(
                "info",
                error="wrong-answer: answer to OffsetFetchRequest: group_id is 'h', asked was 'g'",
            ),
        ),
    ],
)
def test_offsets_are_those_of_the_members_group(group, expected):
    offset = {"partition_index": 1, "committed_offset": 7}
    partitions = (filled(fetched.OffsetFetchResponsePartitions, **offset),)
    topic = fetched.OffsetFetchResponseTopics(name="t", partitions=partitions)
    found = filled(fetched.OffsetFetchResponseGroup, group_id=group, topics=(topic,))
    answer = filled(fetched.OffsetFetchResponse, groups=(found,))
    outcome, _ = ask(answer, lambda c: GroupClient(c).offsets(NODE, MEMBER, PARTITIONS[:1]))
    assert outcome == expected

"""A follower asks its leader where the log begins or ends, and waits as long as it is set to."""

import uuid
from types import SimpleNamespace

from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_fetcher import Outcome
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from cluster.node.ports import Endpoint
from cluster.node.protocol.data_messages import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cluster.node.protocol.messages import NO_THROTTLE, TopicName, i32, i64
from tests.cluster.node.controller.fakes import FakeClock

LEADER = Endpoint(1, "h", 9092)
TIMEOUT_MS = 2_000.0


class Asked:
    """A leader that answers when the test says so."""

    def __init__(self):
        self.clock = FakeClock()
        self.requests, self.outcomes = [], []
        key, log = (uuid.UUID(int=1), 0), SimpleNamespace(end_offset=7)
        partition = SimpleNamespace(broker_id=2, leader_epoch=5)
        replica = Replica(key, "t", log, partition, 1, TIMEOUT_MS, self.clock, self, None)
        replica.ask_offsets(LEADER, self.outcomes.append)

    def request(self, destination, request, timeout_ms, on_reply):
        assert (destination, timeout_ms) == (LEADER, TIMEOUT_MS)
        self.requests.append(request)
        self.reply = on_reply


def answer(offset, error=ErrorCode.none):
    row = ListOffsetsPartitionResponse(
        partition_index=i32(0), error_code=error, offset=i64(offset), leader_epoch=i32(5)
    )
    topic = ListOffsetsTopicResponse(name=TopicName("t"), partitions=(row,))
    return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=(topic,))


def test_the_leader_is_asked_in_the_epoch_that_is_known_and_its_offset_taken():
    asked = Asked()
    row = asked.requests[0].topics[0].partitions[0]
    assert (row.current_leader_epoch, row.timestamp) == (5, LATEST_TIMESTAMP)
    asked.reply(answer(7))
    assert asked.requests[1].topics[0].partitions[0].timestamp == EARLIEST_TIMESTAMP
    asked.reply(answer(7))
    assert asked.outcomes == [Outcome.GO_ON]


def test_a_leader_that_refuses_names_no_offset():
    asked = Asked()
    asked.reply(answer(-1, ErrorCode.not_leader_or_follower))
    assert asked.outcomes == [Outcome.RETRY]


def test_a_leader_that_is_silent_for_the_time_out_names_no_offset_and_none_later():
    asked = Asked()
    asked.clock.advance(TIMEOUT_MS - 1)
    assert asked.outcomes == []
    asked.clock.advance(1)
    assert asked.outcomes == [Outcome.RETRY]
    asked.reply(answer(7))
    assert asked.outcomes == [Outcome.RETRY]
    assert len(asked.requests) == 1

"""Following the partitions of another broker, against a leader with real fetch sessions."""

import uuid
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.broker.replication.fetch_sessions import FetchSessions
from cluster.node.broker.replication.replica_fetcher import Outcome, ReplicaFetcher
from cluster.node.broker.replication.topic_settings import ReplicaConfig
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol.data_messages import FetchPartition, FetchResponse, FetchResult
from tests.cluster.node.controller.fakes import FakeClock

TOPIC = uuid.UUID(int=7)
CONFIG = ReplicaConfig(broker_id=2, listener="CLIENT")


class Leader:
    """A broker that leads; each of its logs is as many bytes as it has records."""

    def __init__(self, clock):
        self.clock = clock
        self.sessions = FetchSessions(clock, Random(1))
        self.logs = {}
        self.errors = {}
        self.failure = None
        self.requests = []
        self.replies = []

    def request(self, destination, request, _timeout_ms, on_reply):
        assert destination.node_id == 1
        self.requests.append(request)
        self.replies.append((request, on_reply))

    def answer(self):
        request, on_reply = self.replies.pop(0)
        on_reply(self.failure or self.reply(request))

    def reply(self, request):
        fetching = self.sessions.begin(request)
        if isinstance(fetching, ErrorCode):
            return FetchResponse(fetching)
        return fetching.answer([self.read(at) for at in fetching.partitions])

    def read(self, at):
        error = self.errors.get(at.index, ErrorCode.none)
        if error is not ErrorCode.none:
            return FetchResult(at.topic, at.index, error)
        end = self.logs[at.index]
        records = b"x" * min(end - at.fetch_offset, 3)
        return FetchResult(at.topic, at.index, error, end, records=records)


class Followed:
    is_written = True

    def __init__(self, index):
        self.index, self.end, self.known = index, 0, 0
        self.results, self.asked = [], []

    def position(self):
        return FetchPartition(TOPIC, self.index, self.end, 100)

    def take_fetch(self, result):
        self.results.append(result)
        if result.error is ErrorCode.offset_out_of_range:
            return Outcome.ASK_OFFSETS
        if result.error is ErrorCode.fenced_leader_epoch:
            return Outcome.STOP
        if result.error is not ErrorCode.none:
            return Outcome.RETRY
        self.end += len(result.records)
        self.known = result.high_watermark
        return Outcome.GO_ON

    def ask_offsets(self, leader, done):
        assert leader.node_id == 1
        self.asked.append(done)


class Pair:
    def __init__(self, *ends):
        self.clock = FakeClock()
        self.leader = Leader(self.clock)
        endpoint = Endpoint(1, "host1", 9092)
        self.unwritten = []
        self.holds_writes = False
        self.fetcher = ReplicaFetcher(
            CONFIG, endpoint, self.clock, self.leader, lambda: 12, self.when_written
        )
        self.followed = []
        for end in ends:
            self.follow(end)

    def when_written(self, done):
        if self.holds_writes:
            self.unwritten.append(done)
        else:
            self.clock.call_later(0.0, done)

    def follow(self, end=0):
        index = len(self.followed)
        self.leader.logs[index] = end
        self.followed.append(Followed(index))
        self.fetcher.add((TOPIC, index), self.followed[-1])

    def again(self, index):
        """A new leader epoch of a partition."""
        self.followed[index] = Followed(index)
        self.fetcher.add((TOPIC, index), self.followed[index])

    def go(self, times=1):
        for _ in range(times):
            self.clock.advance(0)
            if self.leader.replies:
                self.leader.answer()
        self.clock.advance(0)

    def ends(self):
        return [followed.end for followed in self.followed]


def named(request):
    return [partition.index for partition in request.partitions]


def test_one_request_at_a_time_names_what_is_new():
    pair = Pair(2, 0)
    pair.go()
    assert pair.ends() == [2, 0]
    pair.go()
    first, second, third = pair.leader.requests
    assert (first.replica_id, first.replica_epoch, first.session_epoch) == (2, 12, 0)
    assert (named(first), named(second), named(third)) == ([0, 1], [0], [])
    assert (second.session_id > 0, second.session_epoch, third.session_epoch) == (True, 1, 2)
    assert len(pair.leader.replies) == 1


def test_a_partition_with_an_error_is_left_out_for_a_while():
    pair = Pair(2, 9)
    pair.leader.errors[0] = ErrorCode.not_leader_or_follower
    pair.go(3)
    assert (len(pair.followed[0].results), pair.ends()) == (1, [0, 9])
    assert pair.leader.requests[1].forgotten == ((TOPIC, 0),)
    del pair.leader.errors[0]
    pair.clock.advance(CONFIG.fetch_backoff_ms)
    pair.go(2)
    assert pair.ends() == [2, 9]


def test_a_fenced_partition_waits_for_the_metadata():
    pair = Pair(2)
    pair.leader.errors[0] = ErrorCode.fenced_leader_epoch
    pair.go(2)
    pair.clock.advance(CONFIG.fetch_backoff_ms * 5)
    assert len(pair.leader.requests) == 1
    pair.leader.errors.clear()
    pair.again(0)
    pair.go(2)
    assert pair.ends() == [2]


def test_the_leaders_offsets_are_asked_for_once():
    pair = Pair(2)
    pair.leader.errors[0] = ErrorCode.offset_out_of_range
    pair.go(3)
    [done] = pair.followed[0].asked
    pair.leader.errors.clear()
    done(Outcome.GO_ON)
    done(Outcome.STOP)  # a faulty network may deliver twice
    pair.go(2)
    assert pair.ends() == [2]


def test_what_an_earlier_epoch_asked_for_is_dropped():
    pair = Pair(2)
    pair.clock.advance(0)
    before = pair.followed[0]
    pair.again(0)
    pair.go()
    assert before.results == []
    pair.go(2)
    assert pair.ends() == [2]


@pytest.mark.parametrize(
    "failure", [Failure.DISCONNECTED, FetchResponse(ErrorCode.unknown_topic_id)]
)
def test_after_a_failure_it_begins_anew_later(failure):
    pair = Pair(2)
    pair.leader.failure = failure
    pair.go(2)
    assert len(pair.leader.requests) == 1
    pair.leader.failure = None
    pair.clock.advance(CONFIG.fetch_backoff_ms)
    pair.go()
    assert pair.ends() == [2]


def test_a_lost_session_is_opened_again_at_once():
    pair = Pair(2)
    pair.go(2)
    pair.leader.sessions = FetchSessions(pair.clock, Random(2))
    pair.leader.logs[0] = 4
    pair.go(3)
    assert pair.ends() == [4]


def test_without_an_answer_it_asks_again_and_drops_what_comes_late():
    pair = Pair(2)
    pair.clock.advance(0)
    late = pair.leader.replies.pop()
    pair.clock.advance(32_000.0)
    assert len(pair.leader.requests) == 2
    late[1](pair.leader.reply(late[0]))
    assert pair.ends() == [0]
    pair.go(2)
    assert pair.ends() == [2]


def test_it_falls_silent():
    pair = Pair(2)
    pair.clock.advance(0)
    pair.fetcher.stop()
    pair.go()
    pair.clock.advance(60_000.0)
    assert (pair.ends(), len(pair.leader.requests)) == ([0], 1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("error"), st.integers(0, 2)),
        st.tuples(st.just("well"), st.integers(0, 2)),
        st.tuples(st.just("again"), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["answer", "fail", "lose", "forget", "wait"]), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_whatever_happens_it_has_all_in_the_end(steps):
    pair = Pair(1, 0, 2)
    removed = set()
    for what, index in steps:
        if what == "append":
            pair.leader.logs[index] += 1
        elif what == "error":
            pair.leader.errors[index] = ErrorCode.unknown_server_error
        elif what == "well":
            pair.leader.errors.pop(index, None)
        elif what == "again":
            removed.discard(index)
            pair.again(index)
        elif what == "remove":
            removed.add(index)
            pair.fetcher.remove((TOPIC, index))
        elif what == "fail":
            pair.leader.failure = Failure.TIMED_OUT
            pair.go()
            pair.leader.failure = None
        elif what == "lose":
            pair.leader.replies.clear()
        elif what == "forget":
            pair.leader.sessions = FetchSessions(pair.clock, Random(3))
        elif what == "wait":
            pair.clock.advance(700.0)
        else:
            pair.go()
    pair.leader.errors.clear()
    for _ in range(4):
        pair.clock.advance(32_000.0)
        pair.go(60)
    for index, followed in enumerate(pair.followed):
        if index not in removed:
            assert followed.end == followed.known == pair.leader.logs[index]


def test_nothing_is_acknowledged_that_a_kill_could_lose():
    pair = Pair(2)
    pair.holds_writes = True
    pair.go(3)
    assert pair.ends() == [2]
    assert len(pair.leader.requests) == 1, "the next Fetch would say that it has both records"
    pair.unwritten.pop()()
    pair.go()
    assert [row.fetch_offset for row in pair.leader.requests[1].partitions] == [2]


def test_a_new_leader_is_told_of_nothing_that_a_kill_could_lose():
    pair = Pair()
    pair.holds_writes = True
    followed = Followed(0)
    pair.leader.logs[0] = followed.end = 2
    followed.is_written = False  # what the leader before sent is on its way to the disk
    pair.fetcher.add((TOPIC, 0), followed)
    pair.clock.advance(0)
    assert pair.leader.requests == []
    pair.unwritten.pop()()
    pair.clock.advance(0)
    assert [row.fetch_offset for row in pair.leader.requests[0].partitions] == [2]

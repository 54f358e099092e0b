"""Producer ids: each is given once, whatever becomes of requests for blocks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.broker.lifecycle import producer_ids
from cluster.node.broker.lifecycle.producer_ids import RETRY_BACKOFF_MS, ProducerIdManager
from cluster.node.errors import ErrorCode
from cluster.node.ports import Failure
from cluster.node.protocol.messages import NO_THROTTLE, AllocateProducerIdsResponse
from tests.cluster.node.controller.fakes import FakeClock


class Broker:
    """A broker, and the controller that gives it blocks."""

    def __init__(self, block=10):
        self.block, self.first = block, 1000
        self.clock = FakeClock()
        self.broker_epoch = 11
        self.requests, self.given = [], []
        self.manager = ProducerIdManager(1, self.clock, self.channel, lambda: self.broker_epoch)

    def channel(self, request, _timeout_ms, on_reply):
        self.requests.append((request, on_reply))

    def want(self, count=1, timeout_ms=1000.0):
        for _ in range(count):
            self.manager.generate(timeout_ms, self.given.append)

    def allocate(self):
        """A block that is given away, whether its broker learns of it or not."""
        first, self.first = self.first, self.first + self.block
        return AllocateProducerIdsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            producer_id_start=first,
            producer_id_len=self.block,
        )

    def reply(self, reply=None):
        self.requests.pop(0)[1](reply or self.allocate())


@pytest.fixture
def broker():
    return Broker()


def test_ids_come_from_a_block_and_the_next_is_asked_for_in_time(broker):
    broker.want(3)
    assert (broker.given, len(broker.requests)) == ([], 1)
    request = broker.requests[0][0]
    assert (request.broker_id, request.broker_epoch) == (1, 11)
    broker.reply()
    broker.want(5)
    assert (broker.given, broker.requests) == (list(range(1000, 1008)), [])
    broker.want()
    assert len(broker.requests) == 1
    broker.reply()
    broker.want(3)
    assert broker.given == list(range(1000, 1012))


@pytest.mark.parametrize("failure", [Failure.DISCONNECTED, Failure.TIMED_OUT])
def test_a_request_that_failed_is_sent_again(broker, failure):
    broker.want()
    broker.reply(failure)
    assert broker.requests == []
    broker.clock.advance(RETRY_BACKOFF_MS)
    broker.reply()
    assert broker.given == [1000]


def test_who_waited_too_long_may_try_again(broker):
    broker.want(timeout_ms=100.0)
    broker.want(timeout_ms=9000.0)
    broker.clock.advance(5_000.0)  # no answer at all
    assert broker.given == [ErrorCode.coordinator_load_in_progress]
    broker.clock.advance(RETRY_BACKOFF_MS)
    broker.requests.pop(0)[1](broker.allocate())  # a late answer is dropped, and its block with it
    assert len(broker.given) == 1
    broker.reply()
    assert broker.given[1:] == [1010]


def test_it_waits_for_the_registration(broker):
    broker.broker_epoch = -1
    broker.want()
    assert broker.requests == []
    broker.broker_epoch = 12
    broker.clock.advance(RETRY_BACKOFF_MS)
    assert broker.requests[0][0].broker_epoch == 12


def test_callers_are_bounded(broker, monkeypatch):
    monkeypatch.setattr(producer_ids, "WAITING_MAX", 2)
    broker.want(3)
    assert broker.given == [ErrorCode.coordinator_load_in_progress]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["want", "reply", "fail", "lose", "wait"]), max_size=60))
def test_no_id_is_given_twice(steps):
    broker = Broker(block=3)
    for step in steps:
        if step == "want":
            broker.want(2, timeout_ms=60_000.0)
        elif step == "wait":
            broker.clock.advance(3_000.0)
        elif broker.requests and step == "lose":
            broker.allocate()
            broker.requests.pop(0)
        elif broker.requests:
            broker.reply(Failure.TIMED_OUT if step == "fail" else None)
    ids = [given for given in broker.given if not isinstance(given, ErrorCode)]
    assert len(set(ids)) == len(ids)
    assert all(1000 <= given < broker.first for given in ids)

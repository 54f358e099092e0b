"""A partition's leader: its ISR and its high watermark, by examples and against a controller."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.node.broker.replication.partition import (
    Acknowledged,
    FetchTimes,
    IsrAnswer,
    Partition,
    StaleReplicaError,
)
from cluster.node.controller.metadata.state import PartitionRegistration
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.fakes import FakeClock


class Log:
    def __init__(self, end_offset=0):
        self.start_offset, self.end_offset = 0, end_offset
        self.epochs = []

    @property
    def written_end_offset(self):
        return self.end_offset

    def initialize_leader_epoch(self, epoch):
        self.epochs.append((epoch, self.end_offset))


class Leader:
    """Broker 1 leads a partition of 1, 2 and 3."""

    def __init__(self, isr=(1, 2, 3), end_offset=0, min_isr=2):
        self.clock, self.log = FakeClock(), Log(end_offset)
        self.brokers = {1: 11, 2: 12, 3: 13}
        """Id -> epoch of those that may be in sync."""
        self.proposals, self.progress = [], 0
        self.state = PartitionRegistration(
            replicas=(1, 2, 3), isr=isr, leader=1, leader_epoch=5, partition_epoch=7
        )
        self.partition = Partition(
            1, self.log, self.clock, 1000.0, self.brokers.get, self.propose, self.progressed
        )
        self.partition.min_insync_replicas = min_isr
        assert self.partition.make_leader(self.state)

    def propose(self, proposal, on_answer):
        self.proposals.append((proposal, on_answer))

    def progressed(self):
        self.progress += 1

    def append(self, count=1):
        self.log.end_offset += count
        self.partition.advance()

    def fetch(self, broker_id, offset, epoch=None):
        self.partition.on_fetch(broker_id, offset, 0, epoch or self.brokers[broker_id])

    def commit(self, isr, partition_epoch=8):
        proposal, on_answer = self.proposals.pop(0)
        assert [member for member, _ in proposal.isr] == list(isr)
        on_answer(IsrAnswer(5, partition_epoch, isr))

    def publish(self, isr, partition_epoch=8):
        self.partition.make_leader(replace(self.state, isr=isr, partition_epoch=partition_epoch))


def test_a_record_is_committed_once_all_in_sync_have_it():
    leader = Leader()
    leader.append(3)
    leader.fetch(2, 3)
    assert leader.partition.high_watermark == 0
    leader.fetch(3, 2)
    assert leader.partition.high_watermark == 2
    assert leader.partition.acknowledgement(2, 5) is Acknowledged.DONE
    assert leader.partition.acknowledgement(3, 5) is Acknowledged.NOT_YET
    assert leader.partition.acknowledgement(2, 4) is Acknowledged.NOT_LEADER


def test_who_lags_is_not_waited_for_when_the_leader_begins_another_epoch():
    leader = Leader(isr=(1, 2))
    leader.append(5)
    times = FetchTimes()

    def fetch(offset):
        times.latest_ms = leader.clock.monotonic_ms()
        leader.partition.on_fetch(3, offset, 0, 13, times)

    fetch(1)
    leader.clock.advance(100)
    fetch(2)
    state = replace(leader.state, leader_epoch=6, partition_epoch=8)
    assert leader.partition.make_leader(state)
    leader.clock.advance(100)
    fetch(3)
    leader.fetch(2, 5)
    assert leader.partition.high_watermark == 5


def test_who_lags_for_too_long_is_left_out_once_the_metadata_say_so():
    leader = Leader()
    leader.append()
    leader.fetch(2, 1)
    leader.clock.now_ms = 1000.0
    leader.partition.shrink_if_due()
    assert leader.proposals == []  # not too long yet
    leader.clock.now_ms = 1500.0
    leader.fetch(2, 1)
    leader.partition.shrink_if_due()
    leader.partition.shrink_if_due()
    assert len(leader.proposals) == 1
    assert leader.partition.high_watermark == 0  # 3 may still be elected
    leader.commit((1, 2))
    assert leader.partition.high_watermark == 0  # the minimum may be another by now
    leader.publish((1, 2))
    assert leader.partition.high_watermark == 1


def test_who_has_all_that_is_committed_joins_and_counts_at_once():
    leader = Leader(isr=(1, 2))
    leader.append(2)
    leader.fetch(2, 2)
    leader.fetch(3, 1)
    assert leader.partition.high_watermark == 2
    assert leader.proposals == []
    leader.fetch(3, 2)
    assert leader.partition.change_in_flight
    leader.clock.now_ms = 5000.0  # it is waited for as a member, not as one that has just fetched
    leader.append()
    leader.fetch(2, 3)
    assert leader.partition.high_watermark == 2  # 3 may be a member already
    leader.commit((1, 2, 3))
    leader.fetch(3, 3)
    assert leader.partition.high_watermark == 3


def test_the_high_watermark_waits_for_who_is_about_to_join():
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    leader.proposals.pop()[1](ErrorCode.ineligible_replica)
    leader.append()
    leader.fetch(2, 1)
    assert leader.partition.high_watermark == 0
    leader.clock.now_ms = 2000.0
    leader.append()
    leader.fetch(2, 2)
    assert leader.partition.high_watermark == 2  # it has not fetched for long


def test_nothing_is_committed_below_min_insync_replicas():
    leader = Leader(isr=(1,))
    leader.append()
    assert leader.partition.is_under_min_isr
    assert leader.partition.high_watermark == 0
    leader.fetch(2, 1)
    assert leader.partition.high_watermark == 0
    leader.commit((1, 2))
    assert leader.partition.high_watermark == 1


def test_fewer_replicas_than_min_insync_replicas_suffice():
    leader = Leader(min_isr=5)
    assert leader.partition.least_in_sync == 3


def test_what_was_committed_by_too_few_is_reported():
    leader = Leader(min_isr=2, isr=(1, 2))
    leader.append()
    leader.clock.now_ms = 5000.0
    leader.partition.shrink_if_due()
    assert leader.partition.acknowledgement(1, 5) is Acknowledged.NOT_YET
    leader.fetch(2, 1)
    assert leader.partition.acknowledgement(1, 5) is Acknowledged.DONE
    leader.commit((1,))
    leader.publish((1,))
    assert leader.partition.acknowledgement(1, 5) is Acknowledged.TOO_FEW_REPLICAS


@pytest.mark.parametrize("epoch", [None, 12])
def test_a_broker_that_the_metadata_do_not_show_does_not_join(epoch):
    leader = Leader(isr=(1, 2))
    fetching = leader.brokers.pop(3)
    if epoch is not None:
        leader.brokers[3] = epoch
    leader.partition.on_fetch(3, 0, 0, fetching)
    assert leader.proposals == []


def test_a_fetch_that_a_broker_sent_before_it_registered_anew_counts_for_nothing():
    leader = Leader()
    leader.append(4)
    leader.brokers[3] = 20
    with pytest.raises(StaleReplicaError):
        leader.fetch(3, 4, epoch=13)
    assert leader.partition.followers[3].end_offset == -1


def test_a_leader_that_is_elected_again_gives_those_in_sync_time_to_fetch():
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.clock.now_ms = 5_000.0
    leader.partition.make_leader(replace(leader.state, leader_epoch=6, partition_epoch=8))
    leader.partition.shrink_if_due()
    assert leader.proposals == []
    leader.clock.now_ms = 6_001.0
    leader.partition.shrink_if_due()
    assert [member for member, _ in leader.proposals[0][0].isr] == [1]


def test_a_follower_of_a_partition_where_nothing_happens_is_caught_up_by_fetches_of_others():
    leader = Leader(isr=(1, 2, 3), end_offset=4)
    times = FetchTimes()
    for broker in (2, 3):
        leader.partition.on_fetch(broker, 4, 0, leader.brokers[broker], times)
    leader.clock.now_ms = 60_000.0
    times.latest_ms = leader.clock.now_ms  # a Fetch of the session that names it not
    leader.partition.appends()
    leader.append()
    leader.clock.now_ms += 999.0
    leader.partition.shrink_if_due()
    assert leader.proposals == []
    leader.clock.now_ms += 2.0
    leader.partition.shrink_if_due()
    assert [member for member, _ in leader.proposals[0][0].isr] == [1]


def test_those_who_wait_at_a_follower_learn_of_its_high_watermark():
    leader = Leader(end_offset=4)
    leader.partition.make_follower(replace(leader.state, leader=2, leader_epoch=6))
    before = leader.progress
    leader.partition.follow_high_watermark(3)
    leader.partition.follow_high_watermark(2)
    assert (leader.partition.high_watermark, leader.progress - before) == (3, 1)


def test_a_fetch_of_an_earlier_incarnation_counts_for_nothing():
    leader = Leader()
    leader.append(4)
    leader.fetch(3, 4, epoch=20)
    with pytest.raises(StaleReplicaError):
        leader.fetch(3, 2, epoch=13)
    with pytest.raises(StaleReplicaError):
        leader.partition.on_fetch(4, 0, 0, 14)
    assert leader.partition.followers[3].end_offset == 4


def test_a_follower_joins_only_with_the_beginning_of_the_epoch():
    leader = Leader(isr=(1, 2), end_offset=4)
    assert leader.log.epochs == [(5, 4)]
    leader.fetch(3, 2)
    assert leader.partition.high_watermark == 0
    assert leader.proposals == []
    leader.fetch(3, 4)
    assert len(leader.proposals) == 1


@pytest.mark.parametrize(
    ("error", "pending", "sent"),
    [
        (ErrorCode.ineligible_replica, False, 0),
        (ErrorCode.operation_not_attempted, False, 0),
        (ErrorCode.invalid_update_version, True, 0),
        (ErrorCode.fenced_leader_epoch, True, 0),
        (ErrorCode.unknown_server_error, True, 1),
    ],
)
def test_what_becomes_of_a_proposal_that_is_refused(error, pending, sent):
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    leader.proposals.pop()[1](error)
    assert leader.partition.change_in_flight is pending
    assert len(leader.proposals) == sent


def test_who_was_refused_and_is_gone_is_waited_for_no_longer():
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    del leader.brokers[3]
    leader.append()
    leader.fetch(2, 1)
    assert leader.partition.high_watermark == 0
    leader.proposals.pop()[1](ErrorCode.ineligible_replica)
    assert leader.partition.high_watermark == 1


def test_the_metadata_decide_a_proposal_whose_answer_comes_later():
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    _, on_answer = leader.proposals.pop()
    leader.partition.make_leader(replace(leader.state, isr=(1,), partition_epoch=9))
    on_answer(IsrAnswer(5, 8, (1, 2, 3)))
    assert leader.partition.isr == (1,)
    assert not leader.partition.make_leader(replace(leader.state, isr=(1, 2), partition_epoch=8))
    assert leader.partition.isr == (1,)


def test_metadata_that_repeat_an_answer_do_not_end_the_next_proposal():
    leader = Leader(isr=(1,), min_isr=1)
    leader.fetch(3, 0)
    leader.commit((1, 3))
    leader.fetch(2, 0)
    leader.partition.make_leader(replace(leader.state, isr=(1, 3), partition_epoch=8))
    assert leader.partition.maximal_isr == (1, 3, 2), "the controller may have committed it"
    leader.append(1)
    leader.fetch(3, 1)
    assert leader.partition.high_watermark == 0


def test_a_follower_keeps_to_its_own_log():
    leader = Leader(end_offset=3)
    assert leader.partition.make_follower(replace(leader.state, leader=2, leader_epoch=6))
    assert leader.progress == 1
    leader.partition.follow_high_watermark(5)
    assert leader.partition.high_watermark == 3
    leader.partition.follow_high_watermark(1)
    assert leader.partition.high_watermark == 3
    leader.log.end_offset = 2
    leader.partition.on_truncation()
    assert leader.partition.high_watermark == 2
    with pytest.raises(StaleReplicaError):
        leader.fetch(2, 0)


class Cluster(RuleBasedStateMachine):
    """A leader, two followers and a controller, with messages that come late or never.

    What is above the high watermark is on every member of the ISR that the controller holds: so
    whoever it elects has it.
    """

    def __init__(self):
        super().__init__()
        self.leader = Leader()
        self.ends = {2: 0, 3: 0}
        self.asked = []
        """Proposals on their way: each may take effect, and be answered, at different times."""
        self.news = []
        self.fetches = []

    @property
    def partition(self):
        return self.leader.partition

    @property
    def state(self):
        return self.leader.state

    @initialize(isr=st.sampled_from([(1, 2, 3), (1, 2), (1,)]))
    def begin(self, isr):
        self.leader = Leader(isr)

    @rule(count=st.integers(1, 3))
    def append(self, count):
        self.leader.append(count)

    @rule(broker=st.sampled_from([2, 3]), count=st.integers(0, 3))
    def fetch(self, broker, count):
        """It asks from its end on, and takes some of what it gets."""
        end = self.ends[broker]
        self.partition.on_fetch(broker, end, 0, self.leader.brokers[broker])
        self.ends[broker] = min(end + count, self.leader.log.end_offset)

    @rule(broker=st.sampled_from([2, 3]))
    def ask(self, broker):
        """It asks, and the request is delayed."""
        self.fetches.append((broker, self.ends[broker], self.leader.brokers[broker]))

    @precondition(lambda self: self.fetches)
    @rule()
    def deliver(self):
        broker, end, epoch = self.fetches.pop(0)
        with contextlib.suppress(StaleReplicaError):
            self.partition.on_fetch(broker, end, 0, epoch)

    @rule(ms=st.sampled_from([10.0, 400.0, 1500.0]))
    def wait(self, ms):
        self.leader.clock.now_ms += ms
        self.partition.shrink_if_due()

    @rule(broker=st.sampled_from([2, 3]))
    def restart_empty(self, broker):
        """A broker comes back without its log: the controller takes it out of the ISR."""
        self.ends[broker] = 0
        self.leader.brokers[broker] = max(self.leader.brokers.values()) + 1
        self.change(tuple(member for member in self.state.isr if member != broker))

    @precondition(lambda self: self.leader.proposals)
    @rule()
    def decide(self):
        """The controller takes a proposal, or refuses it."""
        proposal, on_answer = self.leader.proposals.pop(0)
        isr = tuple(member for member, _ in proposal.isr)
        if proposal.partition_epoch != self.state.partition_epoch:
            self.asked.append((on_answer, ErrorCode.invalid_update_version))
        elif any(self.leader.brokers[member] != epoch for member, epoch in proposal.isr):
            self.asked.append((on_answer, ErrorCode.ineligible_replica))
        else:
            self.change(isr)
            epoch = self.state.partition_epoch
            self.asked.append((on_answer, IsrAnswer(5, epoch, isr)))

    def change(self, isr):
        state = self.state
        self.leader.state = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
        self.news.append(self.leader.state)

    @precondition(lambda self: self.asked)
    @rule()
    def answer(self):
        on_answer, answer = self.asked.pop(0)
        on_answer(answer)

    @precondition(lambda self: self.news)
    @rule()
    def publish(self):
        self.partition.make_leader(self.news.pop(0))

    @invariant()
    def every_member_has_what_is_committed(self):
        for member in self.state.isr:
            if member != 1:
                assert self.ends[member] >= self.partition.high_watermark

    @invariant()
    def the_maximal_isr_holds_the_committed_one_or_news_are_on_their_way(self):
        if not self.news and not self.asked:
            assert set(self.state.isr) <= set(self.partition.maximal_isr)


Cluster.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCluster = pytest.mark.slow(Cluster.TestCase)

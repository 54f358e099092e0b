"""What a leader concludes from what its replicas hold."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.leader_state import (
    OBSERVER_SESSION_TIMEOUT_MS,
    OBSERVERS_MAX,
    Leader,
)
from cluster.node.kraft.types import IllegalStateError
from cluster.node.ports import Endpoint


def key(node_id):
    return ReplicaKey(node_id, uuid.UUID(int=node_id))


def leader(count=3, start=0, local=1, timeout_ms=3000):
    voters = VoterSet.of(Endpoint(i, "n", 9000 + i) for i in range(1, count + 1))
    accumulator = BatchAccumulator(5, start, 0)
    return Leader(5, key(local), None, voters, (1, 2), start, accumulator, timeout_ms, 0.0)


def fetched(state, node_id, offset, now_ms=0.0, end=100):
    return state.update_replica(key(node_id), offset, end, now_ms, int(now_ms))


def held_by_a_majority(offsets):
    """By definition: the largest offset that more than half of the voters hold."""
    for offset in sorted({o for o in offsets if o is not None}, reverse=True):
        if 2 * sum(o is not None and o >= offset for o in offsets) > len(offsets):
            return offset
    return None


offsets_of_voters = st.integers(1, 7).flatmap(
    lambda count: st.lists(st.none() | st.integers(0, 12), min_size=count, max_size=count)
)


@pytest.mark.slow
@given(offsets_of_voters, st.integers(0, 12))
def test_the_high_watermark_is_what_a_majority_holds_past_the_epoch_start(offsets, start):
    state = leader(len(offsets), start)
    for node_id, offset in enumerate(offsets, start=1):
        if offset is not None:
            state.replicas[node_id].end_offset = offset
    mine = offsets[0]
    if mine is not None:
        state.update_local(mine)
    expected = held_by_a_majority(offsets)
    assert state.committed_candidate() == expected
    if mine is not None:
        committed = expected if expected is not None and expected > start else None
        assert state.high_watermark == committed


@pytest.mark.slow
@given(st.integers(1, 7).flatmap(lambda n: st.lists(
    st.tuples(st.integers(1, n), st.integers(0, 12)), max_size=30).map(lambda moves: (n, moves))))  # fmt: skip
def test_the_high_watermark_never_goes_back(case):
    count, moves = case
    state, seen = leader(count), 0
    for node_id, offset in moves:
        if node_id == 1:
            state.update_local(offset)
        else:
            fetched(state, node_id, offset)
        assert (state.high_watermark or 0) >= seen
        seen = state.high_watermark or 0


@given(st.lists(st.integers(0, 12), min_size=3, max_size=3), st.integers(0, 20))
def test_a_leader_that_is_no_voter_is_not_counted(offsets, mine):
    state = leader(3, local=9)
    for node_id, offset in enumerate(offsets, start=1):
        fetched(state, node_id, offset)
    state.update_local(mine)
    assert state.committed_candidate() == held_by_a_majority(offsets)


def test_an_observer_commits_nothing():
    state = leader(3)
    state.update_local(7)
    assert not fetched(state, 9, 7)
    assert state.high_watermark is None
    assert [observer.key for observer in state.observers] == [key(9)]


def test_a_fetch_in_the_leaders_own_name_is_refused():
    with pytest.raises(IllegalStateError):
        fetched(leader(), 1, 3)


def test_caught_up_means_the_leaders_end_not_its_high_watermark():
    state = leader(3)
    fetched(state, 2, 6, now_ms=10, end=7)
    assert state.replicas[2].last_caught_up_wall_ms == -1
    fetched(state, 2, 7, now_ms=20, end=9)  # all that there was at its last fetch
    assert state.replicas[2].last_caught_up_wall_ms == 10
    fetched(state, 2, 9, now_ms=30, end=9)
    assert state.replicas[2].last_caught_up_wall_ms == 30


def test_a_majority_with_the_leader_renews_the_check_quorum_period():
    state = leader(3)
    fetched(state, 2, 0, now_ms=1000)
    assert state.check_quorum_deadline_ms == 4000
    state = leader(5)
    fetched(state, 2, 0, now_ms=1000)
    fetched(state, 2, 0, now_ms=2000)
    assert state.check_quorum_deadline_ms == 3000
    fetched(state, 3, 0, now_ms=2500)
    assert state.check_quorum_deadline_ms == 5500


def test_a_fetch_counts_in_one_check_quorum_period_only():
    state = leader(5)
    for node_id, now_ms in ((2, 100), (3, 200), (4, 300)):
        fetched(state, node_id, 0, now_ms)
    assert state.check_quorum_deadline_ms == 3200  # 4 alone does not renew it again


def test_a_leader_that_is_no_voter_needs_the_whole_majority():
    state = leader(3, local=9)
    fetched(state, 2, 0, now_ms=1000)
    assert state.check_quorum_deadline_ms == 3000
    fetched(state, 3, 0, now_ms=1100)
    assert state.check_quorum_deadline_ms == 4100


def test_observers_do_not_renew_the_check_quorum_period():
    state = leader(3)
    fetched(state, 9, 0, now_ms=1000)
    assert state.check_quorum_deadline_ms == 3000


def test_a_single_voter_needs_no_check_quorum():
    assert leader(1).check_quorum_deadline_ms == float("inf")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_a_read_is_confirmed_by_a_majority_with_the_leader(count):
    state = leader(count)
    confirmed_after = next(
        confirmations
        for confirmations in range(count)
        if _confirm(state, confirmations).confirmed_read(4) == 4
    )
    assert confirmed_after == count // 2


def _confirm(state, confirmations):
    for node_id in range(2, 2 + confirmations):
        state.replicas[node_id].confirmed_read = 4
    return state


def test_successors_are_ordered_by_what_they_hold():
    state = leader(4)
    for node_id, offset in ((2, 3), (4, 8)):
        fetched(state, node_id, offset)
    assert [successor.id for successor in state.successors()] == [4, 2, 3]


def test_silent_observers_are_not_shown_and_forgotten_when_a_new_one_comes():
    state = leader(3)
    fetched(state, 8, 0, now_ms=0)
    fetched(state, 9, 0, now_ms=5)
    (shown,) = state.observers.live(OBSERVER_SESSION_TIMEOUT_MS)
    assert shown.key == key(9)
    assert known(state) == [key(8), key(9)], "a look at them changes nothing"
    fetched(state, 10, 0, now_ms=OBSERVER_SESSION_TIMEOUT_MS)
    assert known(state) == [key(9), key(10)]


def known(state):
    return [observer.key for observer in state.observers]


def test_a_crowd_of_observers_costs_only_those_that_fetched_once_or_longest_ago():
    state = leader(3)
    for now_ms in (0, 1):
        for node_id in (8, 9):
            fetched(state, node_id, 0, now_ms=now_ms)
    for stranger in range(OBSERVERS_MAX + 10):
        fetched(state, 100 + stranger, 0, now_ms=2)
    assert len(state.observers) == OBSERVERS_MAX
    assert {key(8), key(9)} < set(known(state))
    assert key(100) not in known(state)
    for stranger in range(OBSERVERS_MAX):
        fetched(state, 8, 0, now_ms=3)
        for _ in range(2):
            fetched(state, 10_000 + stranger, 0, now_ms=3)
    assert len(state.observers) == OBSERVERS_MAX
    assert key(8) in known(state)
    assert key(9) not in known(state), "it was the idlest of those that fetched again"


def test_an_observer_that_was_forgotten_is_known_again_with_its_next_fetch():
    state = leader(3)
    fetched(state, 9, 100, now_ms=0)
    for stranger in range(OBSERVERS_MAX):
        fetched(state, 100 + stranger, 0, now_ms=1)
    assert not state.is_caught_up(key(9), 2)
    fetched(state, 9, 100, now_ms=2)
    assert state.is_caught_up(key(9), 2)

"""Every legal move between the six states, and every illegal one."""

import pytest

from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.quorum_state_store import ElectionState
from cluster.node.kraft.quorum.states import Follower, Unattached
from cluster.node.kraft.types import IllegalStateError
from tests.cluster.node.kraft.bench import ME, NODE_2, NODE_3, Bench, endpoint, nothing

STATES = {
    "unattached": Bench.unattached,
    "prospective": Bench.prospective,
    "candidate": lambda bench: bench.candidate(2),
    "leader": Bench.leader,
    "follower": Bench.follower,
    "resigned": Bench.resigned,
}
MOVES = {
    "unattached in a later epoch": lambda q: q.to_unattached(6, nothing),
    "unattached in this epoch": lambda q: q.to_unattached(5, nothing),
    "follower in a later epoch": lambda q: q.to_follower(6, 3, endpoint(3), nothing),
    "follower of 3 in this epoch": lambda q: q.to_follower(5, 3, endpoint(3), nothing),
    "follower of 2 elsewhere": lambda q: q.to_follower(5, 2, endpoint(2, 100), nothing),
    "prospective": lambda q: q.to_prospective(nothing),
    "candidate": lambda q: q.to_candidate(nothing),
    "leader": lambda q: q.to_leader(0, BatchAccumulator(5, 0, 0), nothing),
    "resigned": lambda q: q.to_resigned(nothing),
    "vote for 3": lambda q: q.add_vote(5, NODE_3, nothing),
    # never
    "unattached in an earlier epoch": lambda q: q.to_unattached(4, nothing),
    "unattached with itself as leader": lambda q: q.to_unattached(6, nothing, leader_id=1),
    "follower in an earlier epoch": lambda q: q.to_follower(4, 3, endpoint(3), nothing),
    "follower of itself": lambda q: q.to_follower(6, 1, endpoint(1), nothing),
    "follower of nobody": lambda q: q.to_follower(6, -1, endpoint(2), nothing),
    "follower of 2 where it is": lambda q: (
        q.to_follower(5, 2, endpoint(2), nothing)
        if isinstance(q.state, Follower)
        else q.to_follower(4, 2, endpoint(2), nothing)
    ),
    "vote in a later epoch": lambda q: q.add_vote(6, NODE_3, nothing),
    "vote in an earlier epoch": lambda q: q.add_vote(4, NODE_3, nothing),
    "vote for itself": lambda q: q.add_vote(5, ME, nothing),
}
FOLLOW_2 = MOVES["follower of 2 elsewhere"]
ANY = set(STATES)
LEGAL = {
    "unattached in a later epoch": (ANY, "Unattached", 6),
    "unattached in this epoch": ({"prospective"}, "Unattached", 5),
    "follower in a later epoch": (ANY, "Follower", 6),
    "follower of 3 in this epoch": ({"unattached", "prospective", "candidate"}, "Follower", 5),
    "follower of 2 elsewhere": (
        {"unattached", "prospective", "candidate", "follower"},
        "Follower",
        5,
    ),
    "prospective": ({"unattached", "candidate", "follower"}, "Prospective", 5),
    "candidate": ({"prospective"}, "Candidate", 6),
    "leader": ({"candidate"}, "Leader", 5),
    "resigned": ({"leader"}, "Resigned", 5),
    "vote for 3": ({"unattached", "prospective"}, None, 5),
}
CASES = [(source, move) for source in STATES for move in MOVES]


def lose_election(quorum):
    quorum.after_prospective_loss(nothing)


def is_legal(source, move):
    return move in LEGAL and source in LEGAL[move][0]


@pytest.mark.parametrize(("source", "move"), [case for case in CASES if is_legal(*case)])
def test_a_legal_move_is_made_and_is_durable(source, move):
    bench = Bench()
    bench.be(STATES[source](bench))
    MOVES[move](bench.quorum)
    bench.scheduler.run_for(100)
    _, name, epoch = LEGAL[move]
    assert (name or bench.be(STATES[source](bench)).quorum.state.name, epoch) == (
        bench.quorum.state.name,
        bench.quorum.epoch,
    )
    assert not bench.quorum.busy


@pytest.mark.parametrize(("source", "move"), [case for case in CASES if not is_legal(*case)])
def test_an_illegal_move_is_refused_and_changes_nothing(source, move):
    bench = Bench()
    before = STATES[source](bench)
    bench.be(before)
    with pytest.raises(IllegalStateError):
        MOVES[move](bench.quorum)
    bench.scheduler.run_for(100)
    assert bench.quorum.state is before
    assert bench.file() is None


def durable_moves():
    return [
        case for case in CASES if is_legal(*case) and case[1] not in ("prospective", "resigned")
    ]


@pytest.mark.parametrize(("source", "move"), durable_moves())
def test_the_file_is_durable_before_the_memory_changes(source, move):
    bench = Bench()
    before = STATES[source](bench)
    bench.be(before)
    MOVES[move](bench.quorum)
    while bench.quorum.state is before:
        assert bench.quorum.busy
        assert bench.scheduler.step(), "the move was never made"
    state = bench.quorum.state
    assert ElectionState(state.epoch, state.leader_id, voted_in_file(state)) == bench.file()


def voted_in_file(state):
    """Version 0 of the file holds no directory."""
    return None if state.voted_key is None else type(state.voted_key)(state.voted_key.id)


@pytest.mark.parametrize(
    ("source", "move"),
    [("unattached", "prospective"), ("follower", "prospective"), ("leader", "resigned")],
)
def test_prospective_and_resigned_write_nothing(source, move):
    bench = Bench()
    bench.be(STATES[source](bench))
    MOVES[move](bench.quorum)
    bench.scheduler.run_for(100)
    assert (bench.disk.syncs, bench.file()) == (0, None)


@pytest.mark.parametrize(
    ("state", "move", "voted"),
    [
        (lambda b: b.unattached(voted_key=NODE_3), MOVES["prospective"], NODE_3),
        (lambda b: b.follower(voted_key=NODE_3), MOVES["prospective"], NODE_3),
        (lambda b: b.prospective(voted_key=NODE_3), MOVES["unattached in this epoch"], NODE_3),
        (lambda b: b.prospective(voted_key=NODE_3), lose_election, NODE_3),
        (lambda b: b.prospective(2, NODE_3), lose_election, NODE_3),
        (lambda b: b.unattached(voted_key=NODE_3), FOLLOW_2, NODE_3),
        (lambda b: b.prospective(voted_key=NODE_3), FOLLOW_2, NODE_3),
        (lambda b: b.candidate(), MOVES["prospective"], ME),
        (lambda b: b.candidate(), FOLLOW_2, ME),
    ],
)
def test_a_move_within_an_epoch_keeps_the_vote(state, move, voted):
    bench = Bench()
    bench.be(state(bench))
    move(bench.quorum)
    bench.scheduler.run_for(100)
    assert bench.quorum.state.voted_key == voted


@pytest.mark.parametrize(
    ("state", "move"),
    [
        (lambda b: b.unattached(voted_key=NODE_2), "vote for 3"),
        (lambda b: b.unattached(leader_id=2), "vote for 3"),
        (lambda b: b.prospective(leader_id=2), "vote for 3"),
        (lambda b: b.unattached(leader_id=2), "follower of 3 in this epoch"),
        (lambda b: b.prospective(leader_id=2), "follower of 3 in this epoch"),
        (lambda b: b.candidate(), "leader"),
    ],
    ids=[
        "a second vote in the epoch",
        "a vote beside a known leader",
        "a vote beside a known leader, while prospective",
        "a second leader of the epoch",
        "a second leader of the epoch, while prospective",
        "a leader without a majority",
    ],
)
def test_a_move_that_what_is_known_forbids_is_refused(state, move):
    bench = Bench()
    bench.be(state(bench))
    with pytest.raises(IllegalStateError):
        MOVES[move](bench.quorum)


def test_an_observer_never_asks_for_votes():
    bench = Bench(voters=(2, 3))
    bench.be(bench.unattached())
    with pytest.raises(IllegalStateError):
        bench.quorum.to_prospective(nothing)


@pytest.mark.parametrize(
    ("leader_id", "state"),
    [
        (2, Follower(5, 2, endpoint(2), 2000.0)),
        (-1, Unattached(5, 10_000.0)),  # the rest of the time-out is waited for (KAFKA-18345)
    ],
)
def test_a_lost_pre_election_returns_to_the_leader_or_to_no_leader(leader_id, state):
    bench = Bench()
    bench.be(bench.prospective(leader_id))
    lose_election(bench.quorum)
    bench.scheduler.run_for(100)
    assert state == bench.quorum.state


def test_a_single_voter_leaves_resigned_by_standing_again():
    bench = Bench(voters=(1,))
    bench.be(bench.resigned())
    bench.quorum.to_prospective(nothing)
    assert (bench.quorum.state.name, bench.quorum.leader_id) == ("Prospective", -1)


def test_what_stays_the_same_on_disk_is_not_written_again():
    bench = Bench()
    bench.initialize()
    syncs = bench.disk.syncs
    bench.quorum.to_prospective(nothing)
    bench.quorum.after_prospective_loss(nothing)
    assert ("Unattached", syncs) == (bench.quorum.state.name, bench.disk.syncs)

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
    ("state", "move"),
    [
        (lambda b: b.unattached(voted_key=NODE_3), lambda q: q.to_prospective(nothing)),
        (lambda b: b.follower(voted_key=NODE_3), lambda q: q.to_prospective(nothing)),
        (lambda b: b.prospective(voted_key=NODE_3), lambda q: q.to_unattached(5, nothing)),
        (lambda b: b.prospective(voted_key=NODE_3), lambda q: q.after_prospective_loss(nothing)),
        (lambda b: b.prospective(2, NODE_3), lambda q: q.after_prospective_loss(nothing)),
        (
            lambda b: b.unattached(voted_key=NODE_3),
            lambda q: q.to_follower(5, 2, endpoint(2), nothing),
        ),
        (
            lambda b: b.prospective(voted_key=NODE_3),
            lambda q: q.to_follower(5, 2, endpoint(2), nothing),
        ),
    ],
)
def test_a_move_within_an_epoch_keeps_the_vote(state, move):
    bench = Bench()
    bench.be(state(bench))
    move(bench.quorum)
    bench.scheduler.run_for(100)
    assert bench.quorum.state.voted_key == NODE_3


def test_a_candidate_keeps_its_own_vote_when_it_follows_or_asks_again():
    for move in (
        lambda q: q.to_prospective(nothing),
        lambda q: q.to_follower(5, 2, endpoint(2), nothing),
    ):
        bench = Bench()
        bench.be(bench.candidate())
        move(bench.quorum)
        bench.scheduler.run_for(100)
        assert bench.quorum.state.voted_key == ME


def test_a_second_vote_in_an_epoch_is_refused():
    bench = Bench()
    bench.be(bench.unattached(voted_key=NODE_2))
    with pytest.raises(IllegalStateError):
        bench.quorum.add_vote(5, NODE_3, nothing)


def test_no_vote_is_added_where_a_leader_is_known():
    bench = Bench()
    for state in (bench.unattached(leader_id=2), bench.prospective(leader_id=2)):
        bench.be(state)
        with pytest.raises(IllegalStateError):
            bench.quorum.add_vote(5, NODE_3, nothing)


def test_a_second_leader_of_an_epoch_is_refused():
    bench = Bench()
    for state in (bench.unattached(leader_id=2), bench.prospective(leader_id=2), bench.follower(2)):
        bench.be(state)
        with pytest.raises(IllegalStateError):
            bench.quorum.to_follower(5, 3, endpoint(3), nothing)


def test_a_candidate_without_a_majority_cannot_lead():
    bench = Bench()
    bench.be(bench.candidate())
    with pytest.raises(IllegalStateError):
        bench.quorum.to_leader(0, BatchAccumulator(5, 0, 0), nothing)


def test_an_observer_never_asks_for_votes():
    bench = Bench(voters=(2, 3))
    bench.be(bench.unattached())
    with pytest.raises(IllegalStateError):
        bench.quorum.to_prospective(nothing)


def test_a_lost_pre_election_returns_to_the_leader_or_to_no_leader():
    bench = Bench()
    bench.be(bench.prospective(leader_id=2))
    bench.quorum.after_prospective_loss(nothing)
    bench.scheduler.run_for(100)
    assert Follower(5, 2, endpoint(2), 2000.0) == bench.quorum.state
    bench = Bench()
    bench.be(bench.prospective())
    bench.quorum.after_prospective_loss(nothing)
    bench.scheduler.run_for(100)
    # The rest of the time-out is waited for (KAFKA-18345).
    assert Unattached(5, 10_000.0) == bench.quorum.state


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

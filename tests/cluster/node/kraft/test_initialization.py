"""What a replica is after a restart, from its quorum-state file and its log."""

import uuid

import pytest

from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.quorum_state_store import ElectionState, QuorumStateError, encode
from tests.cluster.node.kraft.bench import FILE, ME, NODE_3, Bench


def restarted(persisted, log_epoch=0, version=0, voters=(1, 2, 3)):
    bench = Bench(voters)
    bench.disk.write(FILE, encode(persisted, bench.config.voters.ids, version))
    bench.initialize(offset=7, epoch=log_epoch)
    return bench


def outcome(bench):
    state = bench.quorum.state
    voted = None if state.voted_key is None else state.voted_key.id
    return state.name, state.epoch, state.leader_id, voted


def test_without_a_file_it_begins_in_epoch_0():
    bench = Bench()
    bench.initialize()
    assert outcome(bench) == ("Unattached", 0, -1, None)
    assert ElectionState(0) == bench.file()


def test_a_log_of_a_later_epoch_overrules_the_file_and_its_vote():
    bench = restarted(ElectionState(4, -1, ReplicaKey(3)), log_epoch=6)
    assert outcome(bench) == ("Unattached", 6, -1, None)
    assert ElectionState(6) == bench.file()


ELSEWHERE = ReplicaKey(1, uuid.UUID(int=77))


@pytest.mark.parametrize(
    ("persisted", "restart", "found"),
    [
        (ElectionState(5, 1), {"log_epoch": 5}, ("Resigned", 5, 1, None)),
        (ElectionState(5, -1, ReplicaKey(1)), {"log_epoch": 4}, ("Candidate", 5, -1, 1)),
        (ElectionState(5, -1, ME), {"version": 1}, ("Candidate", 5, -1, 1)),
        (ElectionState(5, 2, ReplicaKey(1)), {"log_epoch": 5}, ("Follower", 5, 2, 1)),
        (ElectionState(5, 2, ReplicaKey(3)), {"log_epoch": 5}, ("Follower", 5, 2, 3)),
        (ElectionState(5, -1, ELSEWHERE), {"version": 1}, ("Unattached", 5, -1, 1)),
        (ElectionState(5, 9, ReplicaKey(9)), {}, ("Unattached", 5, 9, 9)),
        (ElectionState(5, -1, ReplicaKey(2)), {}, ("Unattached", 5, -1, 2)),
    ],
    ids=[
        "a leader",
        "a candidate",
        "a vote for its own directory",
        "a candidate that came to follow another",
        "a follower with its vote",
        "a vote for its id in another directory",
        "a leader that cannot be reached, with the vote",
        "a vote",
    ],
)
def test_a_replica_comes_back_with_its_epoch_leader_and_vote(persisted, restart, found):
    bench = restarted(persisted, **restart)
    assert outcome(bench) == found
    state = bench.quorum.state
    if state.name == "Candidate":
        assert state.election.granting == (1,)
    elif state.name == "Follower":
        assert not state.has_fetched_from_leader
    elif state.name == "Unattached":
        assert not state.can_grant_vote(NODE_3, log_ok=True, pre_vote=False)


def test_an_observer_never_has_an_election_timer():
    bench = restarted(ElectionState(5), voters=(2, 3))
    assert float("inf") == bench.quorum.state.election_deadline_ms


def test_an_unreadable_file_stops_the_node_and_stays_as_it_is():
    bench = Bench()
    bench.disk.write(FILE, b'{"leaderId":2,"leaderEp')
    with pytest.raises(QuorumStateError):
        bench.initialize()
    bench.scheduler.run_for(100)
    assert bench.disk.read(FILE) == b'{"leaderId":2,"leaderEp'

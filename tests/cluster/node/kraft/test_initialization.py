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


def test_a_leader_comes_back_resigned_in_its_epoch():
    assert outcome(restarted(ElectionState(5, 1), log_epoch=5)) == ("Resigned", 5, 1, None)


def test_a_candidate_comes_back_as_candidate_of_the_same_epoch():
    bench = restarted(ElectionState(5, -1, ReplicaKey(1)), log_epoch=4)
    assert outcome(bench) == ("Candidate", 5, -1, 1)
    assert bench.quorum.state.election.granting == (1,)


def test_a_vote_for_its_id_in_another_directory_is_not_its_own():
    elsewhere = ReplicaKey(1, uuid.UUID(int=77))
    bench = restarted(ElectionState(5, -1, elsewhere), version=1)
    assert outcome(bench) == ("Unattached", 5, -1, 1)
    assert not bench.quorum.state.can_grant_vote(NODE_3, log_ok=True, pre_vote=False)


def test_a_vote_for_its_own_directory_is_its_own():
    assert restarted(ElectionState(5, -1, ME), version=1).quorum.state.name == "Candidate"


def test_a_candidate_that_came_to_follow_another_follows_it_again():
    bench = restarted(ElectionState(5, 2, ReplicaKey(1)), log_epoch=5)
    assert outcome(bench) == ("Follower", 5, 2, 1)


def test_a_follower_comes_back_as_follower_with_its_vote():
    bench = restarted(ElectionState(5, 2, ReplicaKey(3)), log_epoch=5)
    assert outcome(bench) == ("Follower", 5, 2, 3)
    assert not bench.quorum.state.has_fetched_from_leader


def test_a_leader_that_cannot_be_reached_is_remembered_with_the_vote():
    bench = restarted(ElectionState(5, 9, ReplicaKey(9)))
    assert outcome(bench) == ("Unattached", 5, 9, 9)
    assert not bench.quorum.state.can_grant_vote(NODE_3, log_ok=True, pre_vote=False)


def test_a_vote_survives_the_restart():
    bench = restarted(ElectionState(5, -1, ReplicaKey(2)))
    assert outcome(bench) == ("Unattached", 5, -1, 2)
    assert not bench.quorum.state.can_grant_vote(NODE_3, log_ok=True, pre_vote=False)


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

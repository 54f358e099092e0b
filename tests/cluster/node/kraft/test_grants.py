"""Which states grant a vote: the whole table of canGrantVote, for every state."""

import uuid

import pytest

from cluster.node.kraft.messages import NO_DIRECTORY, ReplicaKey
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import (
    Candidate,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from cluster.node.ports import Endpoint

VOTERS = VoterSet.of(Endpoint(i, "n", 9000 + i) for i in (1, 2, 3))
ME, ASKER, OTHER = (ReplicaKey(i, uuid.UUID(int=i)) for i in (1, 2, 3))
ASKER_ELSEWHERE = ReplicaKey(2, uuid.UUID(int=99))
ASKER_SOMEWHERE = ReplicaKey(2, NO_DIRECTORY)
THERE = Endpoint(3, "n", 9003)


def unattached(leader_id=-1, voted_key=None):
    return Unattached(5, 0.0, leader_id, voted_key)


def prospective(leader_id=-1, voted_key=None):
    return Prospective(5, 0.0, EpochElection((1, 2, 3)), leader_id, None, voted_key)


def follower(fetched):
    return Follower(5, 3, THERE, 0.0, has_fetched_from_leader=fetched)


def leader():
    return Leader(5, ME, None, VOTERS, (1, 2), 0, BatchAccumulator(5, 0, 0), 1000, 0)


def grants(state, *, log_ok, pre_vote, candidate=ASKER):
    return state.can_grant_vote(candidate, log_ok=log_ok, pre_vote=pre_vote)


# state, (pre-vote with a good log, pre-vote with a stale log, vote good, vote stale)
TABLE = [
    (leader(), (False, False, False, False)),
    (Candidate(5, 0.0, EpochElection((1, 2, 3)), ME), (True, False, False, False)),
    (Resigned(5, 1, 0.0), (True, False, False, False)),
    (follower(fetched=False), (True, False, False, False)),
    (follower(fetched=True), (False, False, False, False)),
    (unattached(), (True, False, True, False)),
    (unattached(leader_id=3), (True, False, False, False)),
    (unattached(voted_key=OTHER), (True, False, False, False)),
    (unattached(voted_key=ASKER), (True, False, True, True)),
    (unattached(voted_key=ASKER_ELSEWHERE), (True, False, False, False)),
    (unattached(voted_key=ASKER_SOMEWHERE), (True, False, True, True)),
    (unattached(leader_id=3, voted_key=ASKER), (True, False, True, True)),
    (prospective(), (True, False, True, False)),
    (prospective(leader_id=3), (True, False, False, False)),
    (prospective(voted_key=OTHER), (True, False, False, False)),
    (prospective(voted_key=ASKER), (True, False, True, True)),
    (prospective(voted_key=ASKER_ELSEWHERE), (True, False, False, False)),
    (prospective(voted_key=ASKER_SOMEWHERE), (True, False, True, True)),
    (prospective(voted_key=ME), (True, False, False, False)),
]


@pytest.mark.parametrize(("state", "expected"), TABLE, ids=lambda value: getattr(value, "name", ""))
def test_each_state_grants_as_the_table_says(state, expected):
    actual = tuple(
        grants(state, log_ok=log_ok, pre_vote=pre_vote)
        for pre_vote in (True, False)
        for log_ok in (True, False)
    )
    assert expected == actual

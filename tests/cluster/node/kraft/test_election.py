"""Counting votes."""

from itertools import product

import pytest

from cluster.node.kraft.quorum.states import EpochElection


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_it_is_won_by_a_majority_and_lost_once_a_majority_is_impossible(count):
    for answers in product((True, False, None), repeat=count):
        election = EpochElection(range(count))
        for voter, answer in enumerate(answers):
            if answer is not None:
                election.record(voter, granted=answer)
        granted, open_ = answers.count(True), answers.count(None)
        assert election.is_won == (2 * granted > count)
        assert election.is_lost == (2 * (granted + open_) <= count)
        assert election.granting == tuple(i for i, a in enumerate(answers) if a)
        assert election.unrecorded == tuple(i for i, a in enumerate(answers) if a is None)


def test_a_replica_that_is_no_voter_has_no_vote():
    with pytest.raises(AssertionError):
        EpochElection((1, 2, 3)).record(4, granted=True)


def test_a_vote_cannot_be_taken_back():
    election = EpochElection((1, 2, 3))
    election.record(2, granted=True)
    with pytest.raises(AssertionError):
        election.record(2, granted=False)


def test_a_repeated_vote_counts_once():
    election = EpochElection((1, 2, 3))
    election.record(2, granted=True)
    election.record(2, granted=True)
    assert not election.is_won

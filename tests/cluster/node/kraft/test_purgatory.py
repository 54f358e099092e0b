"""Waiting for a number to be reached."""

import math

from cluster.node.kraft.quorum.purgatory import Outcome, ThresholdPurgatory


def waiting(*waits):
    purgatory, ended = ThresholdPurgatory(), []
    for name, threshold, deadline_ms in waits:
        purgatory.wait(threshold, deadline_ms, lambda outcome, name=name: ended.append((name, outcome)))  # fmt: skip
    return purgatory, ended


def test_a_threshold_is_reached_at_its_value_and_not_before():
    purgatory, ended = waiting(("a", 5, math.inf))
    purgatory.reach(4)
    assert ended == []
    purgatory.reach(5)
    purgatory.reach(6)
    assert ended == [("a", Outcome.REACHED)]


def test_waiters_complete_in_the_order_in_which_they_came():
    purgatory, ended = waiting(("a", 3, math.inf), ("b", 1, math.inf), ("c", 9, math.inf))
    purgatory.reach(3)
    assert [name for name, _ in ended] == ["a", "b"]
    assert len(purgatory._waiters) == 1


def test_waiters_expire_once_and_are_forgotten():
    purgatory, ended = waiting(("a", 5, 100.0), ("b", 5, 50.0), ("c", 5, math.inf))
    assert purgatory.next_deadline_ms() == 50.0
    purgatory.expire(100.0)
    purgatory.reach(5)
    assert sorted(ended, key=str) == [
        ("a", Outcome.EXPIRED),
        ("b", Outcome.EXPIRED),
        ("c", Outcome.REACHED),
    ]
    assert (len(purgatory._waiters), purgatory.next_deadline_ms()) == (0, math.inf)


def test_deadlines_of_waiters_that_are_gone_are_forgotten():
    purgatory, _ = waiting(("a", 1, 50.0), ("b", 9, 70.0))
    purgatory.reach(1)
    assert purgatory.next_deadline_ms() == 70.0


def test_all_end_when_leadership_does():
    purgatory, ended = waiting(("a", 5, 50.0), ("b", 6, math.inf))
    purgatory.lose_all()
    assert ended == [("a", Outcome.LOST), ("b", Outcome.LOST)]


def test_a_waiter_that_waits_again_while_it_is_called_waits():
    purgatory, again = ThresholdPurgatory(), []
    purgatory.wait(1, math.inf, lambda _: purgatory.wait(1, math.inf, again.append))
    purgatory.reach_all()
    assert (len(purgatory._waiters), again) == (1, [])

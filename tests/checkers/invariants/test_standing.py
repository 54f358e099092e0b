"""When replicas stand, whom they ask, and their votes: each rule, and the closest right schedules."""

import math

import pytest

from checkers.invariants.standing import STANDING, back_off_ms
from checkers.invariants.watcher import Watcher
from tests.checkers.invariants.test_invariants import voters
from tests.checkers.invariants.test_leading import Host

STARTED = 0.0, "start", {"directory_id": "a", "check_quorum_timeout_ms": 150.0}
IDLE, BUSY = True, False
"""Whether the disk has nothing to do."""


def judged(*events):
    """Names of the rules that n1 breaks: (time, event, fields), or (time, whether it is idle)."""
    host = Host()
    watcher = Watcher(host, among=STANDING)
    for at_ms, *event in (STARTED, (0.0, *voters("n1", "123")[1:]), *events):
        host.now_ms = at_ms
        if len(event) == 1:
            (host.disk_is_idle,) = event
        else:
            watcher.take("n1", *event)
    return [violation.property for violation in watcher.violations]


def role(at_ms, state, epoch=2, leader=-1, voted=-1, is_alone=False):
    timers = {"election_ms": 100, "fetch_ms": 80, "backoff_ms": 64, "is_alone": is_alone}
    who = {"state": state, "epoch": epoch, "leader_id": leader, "voted_id": voted}
    return at_ms, "role", {**who, **timers}


def asks(at_ms, peer="n2", kind="Fetch", position=None):
    fields = {"peer": peer, "kind": kind, "position": position, "timeout_ms": 50}
    return at_ms, "peer-asked", fields


def answered(at_ms, peer="n2", kind="Fetch", error=False, epoch=2, leader="n2"):
    fields = {"peer": peer, "kind": kind, "is_error": error, "epoch": epoch, "leader": leader}
    return at_ms, "peer-answered", {**fields, "backoff_ms": 20}


def came(at_ms):
    return at_ms, "vote-asked", {}


def ended(at_ms, *candidates, epoch=2):
    return at_ms, "epoch-end", {"epoch": epoch, "leader": "n2", "candidates": candidates}


FOLLOWS = role(0.0, "Follower", leader=2)
ASKS_BOTH = asks(0.0, "n2", "Vote"), asks(0.0, "n3", "Vote")
OLD = (role(0.0, "Unattached", 1),)
CORRUPT = "corrupt-fetch", {"epoch": 2, "reason": "a checksum"}


@pytest.mark.parametrize(
    ("timer_ms", "found"), [(20.0, []), (20.1, ["wakes-in-time"]), (math.inf, ["wakes-in-time"])]
)
def test_a_replica_wakes_up_when_something_is_due(timer_ms, found):
    shown = {"state": "Follower", "epoch": 2, "in_ms": 20.0, "timer_ms": timer_ms}
    assert judged((0.0, "timer-seen", shown)) == found


@pytest.mark.parametrize(
    ("events", "is_right"),
    [
        ((asks(0), answered(9, error=True), asks(29)), True),
        ((asks(0), answered(9, error=True), asks(28)), False),
        ((asks(0), answered(9, error=True), asks(28, "n3")), True),
        ((asks(0), answered(9, error=True), role(28, "Unattached", 3), asks(28)), True),
        ((asks(0), answered(9, error=True), (9, *voters("n1", "12")[1:]), asks(9)), True),
        ((asks(0), answered(9), asks(9)), True),
        ((asks(0), asks(49)), False),
        ((asks(0), asks(50), answered(60, error=True), asks(80)), True),
        ((asks(0), answered(50, error=True), asks(51)), True),
        ((asks(0), asks(49, "n3")), False),
        ((asks(0, kind="BeginQuorumEpoch"), asks(0, "n3", "BeginQuorumEpoch")), True),
    ],
)
def test_a_replica_is_asked_again_once_it_answered_and_later_after_an_error(events, is_right):
    """An answer that is too late is none, and a new state or other voters end all waits."""
    assert judged(FOLLOWS, *events) == ([] if is_right else ["asks-in-turn"])


@pytest.mark.parametrize(
    ("events", "is_right"),
    [
        ((*ASKS_BOTH, came(1), came(2)), True),
        ((asks(0, "n2", "Vote"), came(0), came(1), asks(1, "n3", "Vote"), came(2)), True),
        ((asks(0, "n2", "Vote"), came(1), came(2)), False),
        ((asks(0, "n2", "Vote"), (0.0, BUSY), came(1), came(2)), True),
        ((asks(0, "n2", "Vote"), came(1), role(1, "Unattached", 4), came(2)), True),
        ((asks(0, "n2", "Vote"), came(1), (1.0, *voters("n1", "1234")[1:]), came(2)), True),
    ],
)
def test_who_stands_asks_all_others_at_once(events, is_right):
    """One that was stopped as it entered its state takes up what came first, and a log is synced."""
    assert judged(role(0.0, "Candidate", voted=1), *events) == (
        [] if is_right else ["asks-in-turn"]
    )


@pytest.mark.parametrize(
    ("events", "stands_ms"),
    [
        ((FOLLOWS,), 80),
        ((FOLLOWS, asks(30), answered(40)), 120),
        ((FOLLOWS, asks(30), answered(40, leader="n3")), 80),
        ((FOLLOWS, asks(30), answered(40, error=True)), 80),
        ((FOLLOWS, asks(30), answered(40), (40, *CORRUPT)), 80),
        ((FOLLOWS, ended(30, "n1", "n3")), 30),
        ((FOLLOWS, ended(30, "n3", "n1")), 94),
        ((FOLLOWS, ended(30, "n3", "n1"), asks(30), answered(40)), 120),
        ((FOLLOWS, ended(30, "n3", "n1", epoch=1)), 80),
        ((came(10), (20.0, BUSY), (50.0, IDLE), role(50, "Follower", leader=2)), 90),
        ((ended(10, "n3", "n1"), role(10, "Follower", leader=2)), 74),
        ((*OLD, ended(10, "n3", "n1"), role(10, "Follower", leader=2)), 74),
        ((ended(10, "n3", "n1", "n2"), ended(10), role(10, "Follower", leader=2)), 26),
        ((ended(9, "n3", "n1"), ended(9, "n1", epoch=1), role(10, "Follower", leader=2)), 73),
        ((*OLD, ended(10, "n3", "n1"), role(10, "Unattached"), role(10, "Follower", leader=2)), 74),
        ((role(0, "Unattached"),), 100),
        ((role(0, "Unattached"), role(60, "Unattached", 3)), 100),
        ((role(0, "Unattached"), came(60), role(60, "Unattached", voted=3)), 160),
        ((role(0, "Prospective"), role(60, "Unattached")), 100),
        ((came(20), role(20, "Candidate", voted=1)), 120),
        ((FOLLOWS, came(30), role(30, "Unattached", 3)), 130),
    ],
)
def test_a_voter_stands_when_its_time_is_over_and_no_sooner(events, stands_ms):
    assert judged(*events, role(stands_ms, "Prospective", 3)) == []
    assert judged(*events, role(stands_ms - 1, "Prospective", 3)) == ["stands-in-time"]
    assert judged(*events, role(stands_ms - 1, "Prospective", 3, is_alone=True)) == []


@pytest.mark.parametrize(
    ("events", "last_ms"), [((ended(30, "n1", "n3"),), 30), ((ended(10, "n3", "n1"),), 74)]
)
def test_a_follower_of_a_leader_that_resigned_does_not_go_on(events, last_ms):
    fetch = {"epoch": 2, "leader_id": 2, "asked_id": 3, "offset": 0, "durable_end_offset": 0}
    late = last_ms + 1, "fetch", fetch
    assert judged(FOLLOWS, *events, (last_ms, "fetch", fetch)) == []
    assert judged(FOLLOWS, *events, late) == ["stands-in-time"]
    says = answered(last_ms, None, "UpdateVoter")
    assert judged(FOLLOWS, *events, says, late) == [], "its leader has answered since"
    assert judged(FOLLOWS, *events, (last_ms, *voters("n1", "23")[1:]), late) == []


def test_the_better_a_successor_the_sooner_it_stands():
    five = ["n1", "n2", "n3", "n4", "n5"]
    assert [back_off_ms(name, five, 1_000) for name in (*five, "n6")] == [
        0,
        62,
        124,
        248,
        1_000,
        1_000,
    ]
    assert [back_off_ms(name, five[:1], 1_000) for name in five[:2]] == [0, 1_000]


def vote(*, granted, own=(2, 7), position=(2, 7), kind="Vote", is_free=True, candidate="n2"):
    who = {"candidate": candidate, "epoch": 3, "kind": kind, "granted": granted}
    return 0.0, "vote-answered", {**who, "position": position, "own": own, "is_free": is_free}


@pytest.mark.parametrize("kind", ["Vote", "PreVote"])
def test_a_vote_goes_to_whose_log_is_as_up_to_date(kind):
    wrong = ["vote-given"]
    assert judged(vote(granted=True, kind=kind)) == []
    assert judged(vote(granted=True, kind=kind, position=(3, 1))) == []
    assert judged(vote(granted=True, kind=kind, position=(2, 6))) == wrong
    assert judged(vote(granted=True, kind=kind, position=(1, 9))) == wrong
    assert judged(vote(granted=False, kind=kind, position=(2, 6))) == []
    assert judged(vote(granted=False, kind=kind)) == wrong
    assert judged(vote(granted=False, kind=kind, is_free=False)) == []


def test_a_vote_is_given_again_to_the_same_candidate_only():
    first, again = vote(granted=True), vote(granted=True, position=(2, 6))
    assert judged(first, again) == []
    assert judged(first, vote(granted=True, position=(2, 6), kind="PreVote")) == ["vote-given"]
    assert judged(first, vote(granted=True, position=(2, 6), candidate="n3")) == ["vote-given"]


def test_who_stands_shows_what_is_durable(monkeypatch):
    monkeypatch.setattr(Host, "durable_end", lambda host, node: 7)
    enters = role(0.0, "Candidate", voted=1)
    assert judged(enters, asks(0.0, kind="Vote", position=(2, 7))) == []
    assert judged(enters, asks(0.0, kind="Vote", position=(2, 8))) == ["vote-given"]

"""What clients are answered of a quorum and of their batches: each invariant, and right answers."""

import pytest

from checkers.invariants.answers import BY_CLIENTS
from checkers.invariants.descriptions import DESCRIPTIONS
from checkers.invariants.electorate import ANY
from checkers.invariants.producers import PRODUCERS
from checkers.invariants.voters import Described
from harness.sim.runner import run
from harness.sim.swarm.draw import draw
from tests.checkers.invariants.watching import broken_by

VOTERS = {"n1": "A", "n2": "B", "n3": "C"}
TIMEOUT_MS, EVERY_MS = 150.0, 20.0
LATEST_MS = 2.25 * TIMEOUT_MS + 2 * EVERY_MS
"""How long a leader may have been without a majority."""


def description(node, epoch=1, leader_id=1, **fields):
    """A node describes the quorum, as it is when its leader has just begun, or as is given."""
    every = {
        "leads": node == f"n{leader_id}",
        "leader_id": leader_id,
        "epoch": epoch,
        "high_watermark": 5,
        "voters": VOTERS,
        "ends": dict.fromkeys(VOTERS, 5),
        "fetched_ms": dict.fromkeys(VOTERS, 0),
        "known": ["n2", "n3"],
        "log_start": 0,
        "timeout_ms": TIMEOUT_MS,
        "wall_ms": 0,
        "at_ms": 0.0,
        "every_ms": EVERY_MS,
    }
    return node, "quorum-answer", {**every, **fields}


def found_in(*events):
    return broken_by(*events, among=DESCRIPTIONS)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"known": ["n3", "n4"]}, ["described"]),
        ({"known": ["n3"], "epoch": 2}, []),
        ({"known": ["n3"], "leads": False}, []),
        ({"voters": {**VOTERS, "n2": ANY}}, ["described"]),
        ({"voters": {**VOTERS, "n2": ANY}, "fetched_ms": dict.fromkeys(VOTERS, -1)}, []),
        ({"voters": {**VOTERS, "n1": ANY}}, []),
    ],
    ids=["no more", "in another", "it resigned", "no directory", "it has not fetched", "its own"],
)
def test_a_leader_describes_who_has_fetched_from_it(changed, found):
    given = description("n1"), description("n1", **changed)
    assert broken_by(*given, among=[Described]) == found


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (description("n2", epoch=4, leader_id=2), ["one-leader-named"]),
        (description("n3", epoch=4, leader_id=2), ["one-leader-named"]),
        (description("n3", epoch=4, leader_id=-1), []),
        (description("n2", epoch=5, leader_id=2), []),
        (description("n3", epoch=4), []),
    ],
    ids=["another", "by hearsay", "none yet", "of the next epoch", "the same"],
)
def test_an_epoch_has_one_leader_whoever_is_asked(second, found):
    assert found_in(description("n1", epoch=4), second) == found
    assert found_in(second, description("n1", epoch=4)) == found


def answers(until_ms, *, every_ms=EVERY_MS, rate=1.0, **fields):
    """What a leader answers whose log grows, and from which n2 alone fetches, as is given."""
    voters = fields.get("voters", VOTERS)
    for number in range(int(until_ms // every_ms) + 1):
        at_ms = number * every_ms
        fetched = {"n1": number} if fields.get("is_alone", True) else {"n1": number, "n2": number}
        yield description(
            "n1",
            wall_ms=int(rate * at_ms),
            at_ms=at_ms,
            ends={**dict.fromkeys(voters, 5), "n1": 5 + number * fields.get("grows", 1)},
            fetched_ms={**dict.fromkeys(voters, 0), **fetched},
            voters=voters,
            log_start=fields.get("log_start", 0),
        )


LATE_MS = LATEST_MS + 4 * EVERY_MS


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (answers(LATE_MS), ["led-by-majority"]),
        (answers(LATEST_MS), []),
        (answers(LATE_MS, grows=0), []),
        (answers(LATE_MS, is_alone=False), []),
        (answers(LATE_MS, log_start=3), []),
        (answers(LATE_MS, every_ms=2 * EVERY_MS), []),
        (answers(LATE_MS, rate=0.5), []),
        (answers(LATE_MS, voters={"n1": "A"}), []),
        (answers(LATE_MS, voters={"n1": "A", "n2": "B"}), ["led-by-majority"]),
        (answers(LATE_MS, voters={"n2": "B", "n3": "C"}), ["led-by-majority"]),
        (answers(LATE_MS, is_alone=False, voters={"n2": "B", "n3": "C"}), ["led-by-majority"]),
    ],
    ids=[
        *("alone", "in time", "it appends nothing", "a majority with itself"),
        *("a voter may download a snapshot", "it may have been stopped", "its clock is slow"),
        *("the only voter", "two voters", "removed, and alone", "removed, and it counts itself"),
    ],
)
def test_a_leader_without_a_majority_by_its_own_word_appends_nothing(given, found):
    assert sorted(set(found_in(*given))) == found


def test_a_leader_is_not_late_by_a_clock_that_jumps_or_when_voters_change():
    early, late = list(answers(LATEST_MS)), list(answers(LATE_MS))
    ahead = [(name, event, {**f, "wall_ms": f["wall_ms"] + 10**6}) for name, event, f in early]
    assert found_in(*early[:3], *ahead[3:]) == []
    others = [(name, event, {**f, "voters": {**VOTERS, "n4": "D"}}) for name, event, f in late]
    assert found_in(*late[:10], *others[10:]) == []


def asked(voter, number):
    return "n1", "voter-asked", {"voter": voter, "number": number}


def acknowledged(voter, number, directory="D", *, adds=True, by="n1"):
    fields = {"voter": voter, "number": number, "directory": directory, "is_addition": adds}
    return by, "voters-acknowledged", fields


ADDED = asked("n4", 1), acknowledged("n4", 1), description("n1", epoch=2)
WITH = {**VOTERS, "n4": "D"}
REMOVED = asked("n3", 1), acknowledged("n3", 1, "C", adds=False), description("n1", epoch=2)
WITHOUT = {"n1": "A", "n2": "B"}
WRONG = ["voters-as-acknowledged"]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ((*ADDED, description("n1", epoch=2)), WRONG),
        ((*ADDED, description("n2", epoch=3, leader_id=2)), WRONG),
        ((*ADDED, description("n1", epoch=2, voters={**VOTERS, "n4": "E"})), WRONG),
        ((*ADDED, description("n1", epoch=2, voters=WITH)), []),
        ((*ADDED, description("n2", epoch=1, leader_id=2)), []),
        ((*ADDED, description("n2", epoch=3, leader_id=3)), []),
        ((*ADDED, asked("n4", 2), description("n1", epoch=2)), []),
        ((asked("n4", 1), asked("n4", 2), acknowledged("n4", 1), *[ADDED[2]] * 2), []),
        ((*REMOVED, description("n2", epoch=3, leader_id=2)), WRONG),
        ((*REMOVED, description("n2", epoch=3, leader_id=2, voters=WITHOUT)), []),
        ((*REMOVED, description("n1", epoch=2, voters={**WITHOUT, "n3": "F"})), []),
    ],
    ids=[
        *("not there", "not with the next leader", "with another disk", "there"),
        *("a leader of before", "one that does not lead", "another change is asked for"),
        *("another was asked for", "there still", "no voter any more", "with a new disk"),
    ],
)
def test_leaders_answer_the_voters_that_were_acknowledged(events, found):
    assert found_in(*events) == found


def test_voters_have_directories_once_kraft_version_1_is_acknowledged():
    upgrade = acknowledged(None, 0, "")
    static = {"n1": "A", "n2": ANY, "n3": "C"}
    before = description("n1", epoch=2, voters=static)
    assert found_in(before, upgrade, before, before) == WRONG
    assert found_in(before, before, upgrade, description("n1", epoch=2)) == []
    assert found_in(before, upgrade, before, description("n1", epoch=2)) == []


def test_a_leader_that_acknowledged_its_own_removal_commits_nothing_more():
    removal = asked("n1", 1), acknowledged("n1", 1, "A", adds=False)
    others = {"n2": "B", "n3": "C"}

    def leading(mark, epoch=2):
        return description("n1", epoch=epoch, voters=others, high_watermark=mark)

    assert found_in(*removal, leading(5), leading(5), leading(6)) == WRONG
    assert found_in(*removal, leading(5), leading(5), leading(5)) == []
    assert found_in(*removal, leading(5), description("n1", 2, -1), leading(6, epoch=9)) == []


def sent(first, count, number, node="n1", producer=7):
    return node, "sequences-asked", batch(first, count, number, producer)


def answered(first, count, number, offset=0, error="none", node="n1", producer=7):
    fields = {**batch(first, count, number, producer), "error": error, "offset": offset}
    return node, "sequences-answer", fields


def batch(first, count, number, producer):
    of = {"partition": "t-0", "producer": (producer, 0)}
    return {**of, "first": first, "next": first + count, "number": number}


def taken(first, count, number, offset=0, node="n1", producer=7):
    asks = sent(first, count, number, node, producer)
    return asks, answered(first, count, number, offset, node=node, producer=producer)


def refused(first, count, number, node="n1"):
    error = "out_of_order_sequence_number"
    return sent(first, count, number, node), answered(first, count, number, -1, error, node=node)


BEGUN = taken(0, 3, 0)
START = "n1", "start", {}
MOVED = taken(0, 1, 90, 40, node="n2", producer=8)
"""Another node leads the partition meanwhile."""
IN_FLIGHT = [sent(3 + number, 1, 1 + number) for number in range(5)]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ((*BEGUN, *refused(3, 2, 1)), ["sequences-taken"]),
        ((*BEGUN, *IN_FLIGHT, *refused(3, 1, 9)), ["sequences-taken"]),
        ((*BEGUN, START, *refused(3, 2, 1)), ["sequences-taken"]),
        ((*BEGUN, *MOVED, *refused(3, 2, 1)), ["sequences-taken"]),
        ((*BEGUN, *refused(5, 2, 1)), []),
        ((*BEGUN, *IN_FLIGHT, *refused(4, 1, 9)), []),
        ((*BEGUN, *refused(3, 2, 1, node="n2")), []),
        ((*BEGUN, START, *IN_FLIGHT, *refused(3, 1, 9)), []),
        ((*BEGUN, *MOVED, *IN_FLIGHT, *refused(3, 1, 9)), []),
        ((*BEGUN, *IN_FLIGHT, sent(8, 1, 8), *refused(3, 1, 9)), []),
        ((sent(0, 3, 0), *refused(3, 2, 1)), []),
        ((sent(3, 2, 1), *BEGUN, answered(3, 2, 1, -1, "out_of_order_sequence_number")), []),
    ],
    ids=[
        *("the next one", "again, with four behind it", "the last one, after a restart"),
        *("the last one, after a reign of another", "one is missing before it"),
        *("the one before it is in flight", "by another leader"),
        *("again, after a restart", "again, after a reign of another", "six are in flight"),
        *("the one before it is not acknowledged", "it came before that was acknowledged"),
    ],
)
def test_a_leader_takes_the_batch_behind_one_that_it_acknowledged(events, found):
    assert broken_by(*events, among=PRODUCERS) == found


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (taken(3, 2, 1, offset=8), ["sequences-taken"]),
        (taken(0, 3, 1, offset=14), ["sequences-taken"]),
        (taken(3, 2, 1, offset=13), []),
        (taken(0, 3, 1, offset=10), []),
        (taken(3, 2, 1, offset=8, producer=8), []),
    ],
    ids=["before it", "again elsewhere", "behind it", "again as it was", "of another producer"],
)
def test_what_is_acknowledged_lies_in_the_order_of_sequences(second, found):
    assert broken_by(*taken(0, 3, 0, offset=10), *second, among=PRODUCERS) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seed", "expected"),
    [
        ("I02", 0, "one-leader-named"),
        ("K13916", 0, "metadata-answered"),
        ("M11", 1, "led-by-majority"),
        ("K17608", 2, "voters-as-acknowledged"),
        ("I04", 8, "voters-as-acknowledged"),
        ("M30U", 0, "voters-as-acknowledged"),
        ("M34O", 25, "sequences-taken"),
    ],
)
def test_clients_alone_find_faulty_nodes(mutant, seed, expected):
    assert expected in BY_CLIENTS
    assert run(draw(seed, mutant=mutant), frozenset({expected}))[1].property == expected

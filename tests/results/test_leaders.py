"""Who said of itself that it leads: from a node's own trace, else from what was seen outside."""

import pytest

from checkers.evidence import TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.runs.faults import Reign
from results.report.leaders import Overlap, leaderships, overlaps


def state(node, at, state_, epoch, incarnation=0):
    return at, TraceEvent(node, incarnation, at, "state", {"state": state_, "epoch": epoch})


def start(node, at, incarnation):
    return at, TraceEvent(node, incarnation, at, "start", {})


def note(at, fault, **value):
    return Event(at, at, NEMESIS, EventType.OK, fault, value=value)


def seen(at, node, epoch):
    return note(at, "leader", leader=node, epoch=epoch)


def test_a_reign_lasts_until_its_own_node_says_otherwise():
    notes = [seen(12, "n1", 1), seen(34, "n2", 2)]
    placed = [
        state("n1", 10, "Leader", 1),
        state("n2", 30, "Leader", 2),
        state("n1", 50, "Resigned", 1),
    ]
    ruled = leaderships(notes, placed, 90)
    assert ruled == [Reign("n1", 1, 10, 50), Reign("n2", 2, 30, 90)]
    assert overlaps(ruled) == [Overlap(30, 50, tuple(ruled))]


@pytest.mark.parametrize("fault", ["kill", "power-loss", "disk-wipe"])
def test_a_reign_ends_with_its_process(fault):
    killed = note(40, fault, phase="inject", targets=["n1"])
    placed = [state("n1", 10, "Leader", 1), start("n1", 60, 1), state("n1", 70, "Follower", 2)]
    assert leaderships([killed], placed, 90) == [Reign("n1", 1, 10, 40)]
    assert leaderships([killed], placed[:1], 90) == [Reign("n1", 1, 10, 40)]
    assert leaderships([], placed, 90) == [Reign("n1", 1, 10, 60)]
    crashed = note(40, "crash", node="n1")
    assert leaderships([crashed], placed[:1], 90) == [Reign("n1", 1, 10, 40)]
    assert leaderships([note(80, "phase", name="stop")], placed[:1], 90)[0].end_ns == 80


def test_an_earlier_death_ends_no_later_reign():
    killed = note(5, "kill", phase="inject", targets=["n1"])
    placed = [start("n1", 8, 1), state("n1", 10, "Leader", 3)]
    assert leaderships([killed], placed, 90) == [Reign("n1", 3, 10, 90)]


def test_a_node_without_a_trace_leads_for_as_long_as_it_was_seen():
    notes = [seen(12, "n1", 1), seen(34, "n2", 2)]
    placed = [state("n2", 30, "Leader", 2)]
    assert leaderships(notes, placed, 90) == [Reign("n1", 1, 12, 34), Reign("n2", 2, 30, 90)]


def test_one_node_in_two_epochs_is_no_overlap_and_three_nodes_are():
    ruled = [Reign("n1", 1, 0, 30), Reign("n1", 2, 20, 50), Reign("n2", 3, 40, 60)]
    assert overlaps(ruled) == [Overlap(40, 50, (ruled[1], ruled[2]))]
    third = Reign("n3", 4, 45, 70)
    assert [len(found.ruled) for found in overlaps([*ruled, third])] == [2, 3, 2]

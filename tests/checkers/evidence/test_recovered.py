"""What was fsynced is there again: no finding where a log may rightly be shorter, else one."""

import pytest

from checkers.evidence.recovered import durable_end
from checkers.history import NEMESIS, Event, EventType
from checkers.registry import RunInput
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import (
    NODES,
    append,
    good_run,
    good_trace,
    high_watermark,
    judged,
    opened,
    state,
    trace,
)

pytestmark = pytest.mark.usefixtures("of_the_quorum_alone")

FLUSHED = ("flush", {"end_offset": 6})


def back(end_offset: int, directory: str = "d2", last_epoch: int = 1):
    started = {"node_id": 2, "mutant": None, "directory_id": directory}
    recovered = {"start_offset": 0, "end_offset": end_offset, "last_epoch": last_epoch}
    return (("start", started, 1), ("recovered", {**recovered, "truncated_bytes": 0}, 1))


def run_of(*events, happened=()) -> RunInput:
    traces = {node: good_trace(node) for node in NODES}
    traces["n2"] = trace("n2", *opened("n2"), state(1), append(0, 5), *events)
    return good_run(traces=traces, events=list(happened))


@pytest.mark.parametrize(("directory", "end"), [("d2", 6), ("d9", 0)])
def test_what_was_flushed_is_durable_until_another_disk_is_there(directory, end):
    assert durable_end(trace("n2", *opened("n2"), FLUSHED, back(6, directory)[0])) == end


def test_a_node_that_comes_back_with_less_than_it_fsynced_fails():
    assert judged(run_of(FLUSHED, *back(5))) == (Status.FAIL, {"recovery"})


@pytest.mark.parametrize(
    "events",
    [
        (FLUSHED, *back(6)),
        (FLUSHED, append(6, 8), *back(9)),
        (append(6, 9), *back(6)),
        (FLUSHED, ("truncate", {"end_offset": 4, "epoch": 1}), *back(4)),
        (FLUSHED, ("truncate-fully", {"start_offset": 3, "epoch": 1}), *back(3)),
        (FLUSHED, ("fetch-snapshot", {"snapshot_offset": 3, "epoch": 1}), *back(3)),
        (FLUSHED, *back(0, "another disk")),
    ],
)
def test_all_that_it_may_lack_is_excused(events):
    assert judged(run_of(*events)) == (Status.PASS, set())


def test_what_was_fsynced_after_a_truncation_counts():
    cut = ("truncate", {"end_offset": 4, "epoch": 1})
    run = run_of(FLUSHED, cut, ("flush", {"end_offset": 5}), *back(4))
    assert judged(run) == (Status.FAIL, {"recovery"})


def test_a_trace_that_lacks_a_line_makes_a_doubt_of_it():
    run = run_of(FLUSHED, ("truncate", {"end_offset": "4"}), *back(4))
    assert judged(run) == (Status.UNKNOWN, {"recovery"})


def hit(fault: str, detail: dict[str, object]) -> Event:
    value = {"phase": "inject", "targets": ["n2"], "detail": detail}
    return Event(0, 0, NEMESIS, EventType.OK, fault, None, value)


def test_damage_that_the_nemesis_did_is_not_the_nodes_fault():
    run = run_of(FLUSHED, *back(5), happened=[hit("bit-flip", {"may_end_node": True})])
    assert judged(run) == (Status.PASS, set())


@pytest.mark.parametrize("fault", ["disk-full", "limit"])
def test_what_was_fsynced_is_there_when_no_more_can_be_written(fault):
    run = run_of(FLUSHED, *back(5), happened=[hit(fault, {"may_end_node": True})])
    assert judged(run) == (Status.FAIL, {"recovery"})


def test_a_torn_write_excuses_neither_loss_nor_death():
    died = ("fatal", {"reason": "CorruptLogError: byte 7"}, 1)
    run = run_of(FLUSHED, *back(5), died, happened=[hit("torn-write", {})])
    assert judged(run) == (Status.FAIL, {"recovery"})
    assert judged(run, "log-agreement")[0] is Status.FAIL


CUT_OFF = "committed-truncated"
CUT = ("truncate", {"end_offset": 6, "epoch": 1}, 1)
OLD_TAIL = (append(6, 6), append(7, 7), ("flush", {"end_offset": 8}))
ANNOUNCED = high_watermark(7, epoch=3)
NEW = (("truncate", {"end_offset": 6, "epoch": 1}), append(6, 6, epoch=3), ANNOUNCED)


def test_a_truncation_that_a_power_loss_undid_may_be_made_again():
    """What was announced was never fsynced; the tail that it had replaced is there again."""
    assert CUT_OFF not in judged(run_of(*OLD_TAIL, *NEW, *back(8), CUT))[1]


@pytest.mark.parametrize(
    "events",
    [
        (*OLD_TAIL, *NEW, ("flush", {"end_offset": 7}), *back(7, last_epoch=3), CUT),
        (*OLD_TAIL, *NEW, *back(7, last_epoch=3), CUT),
        (*OLD_TAIL, *NEW, ("flush", {"end_offset": 7}), *back(8), CUT),
        (*OLD_TAIL, ANNOUNCED, *back(8), CUT),
    ],
)
def test_what_was_announced_and_is_still_there_is_not_cut_off(events):
    assert CUT_OFF in judged(run_of(*events))[1]


def test_another_disk_is_another_log():
    events = (*OLD_TAIL, ANNOUNCED, *back(8, "another disk"), CUT)
    assert CUT_OFF not in judged(run_of(*events))[1]

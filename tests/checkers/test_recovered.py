"""What was fsynced is there again: silent on every right way to have less, loud on a wrong one."""

from __future__ import annotations

import pytest

from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from tests.checkers.run_evidence import NODES, good_run, good_trace, trace

FLUSHED = ("flush", {"end_offset": 6})


def back(end_offset: int, directory: str = "d"):
    told = {"start_offset": 0, "end_offset": end_offset, "last_epoch": 1, "truncated_bytes": 0}
    return (
        ("start", {"node_id": 2, "mutant": None, "directory_id": directory}, 1),
        ("recovered", told, 1),
    )


def run_of(*events, happened=()) -> RunInput:
    first = ("start", {"node_id": 2, "mutant": None, "directory_id": "d"})
    traces = {node: good_trace(node) for node in NODES}
    traces["n2"] = trace("n2", first, *events)
    return good_run(traces=traces, events=list(happened))


def judged(run: RunInput):
    result = run_check(CheckSpec("log-agreement"), run)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


def test_a_node_that_comes_back_with_less_than_it_fsynced_fails():
    assert judged(run_of(FLUSHED, *back(5))) == (Status.FAIL, {"durable-lost"})


@pytest.mark.parametrize(
    "events",
    [
        (FLUSHED, *back(6)),
        (FLUSHED, *back(9)),
        (("append", {"base_offset": 6, "role": "follower"}), *back(0)),
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
    assert judged(run) == (Status.FAIL, {"durable-lost"})


def test_a_trace_that_lacks_a_line_accuses_nobody():
    status, kinds = judged(run_of(FLUSHED, ("truncate", {"end_offset": "4"}), *back(4)))
    assert (status, kinds) == (Status.UNKNOWN, set())


def hit(fault: str, detail: dict[str, object]) -> Event:
    value = {"phase": "inject", "targets": ["n2"], "detail": detail}
    return Event(0, 0, NEMESIS, EventType.OK, fault, None, value)


def test_damage_that_the_nemesis_did_is_not_the_nodes_fault():
    run = run_of(FLUSHED, *back(5), happened=[hit("bit-flip", {"may_end_node": True})])
    assert judged(run) == (Status.PASS, set())


def test_a_torn_write_excuses_neither_loss_nor_death():
    died = ("fatal", {"reason": "CorruptLogError: byte 7"}, 1)
    run = run_of(FLUSHED, *back(5), died, happened=[hit("torn-write", {})])
    assert judged(run) == (Status.FAIL, {"durable-lost", "fatal"})

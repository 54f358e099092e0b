"""What a person reads names times in seconds since the run began, and no sentinel."""

import re

import pytest

from checkers.evidence import WORLD_CLOCK, Evidence, FinalRead, RunClock, TraceEvent, run_clock
from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, Operation, seconds
from checkers.linearizability.columnar import judge_columns
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from porcupine_py.columns import from_operations
from porcupine_py.models import CasRegister, Register
from tests.checkers.evidence.run_evidence import good_run, high_watermark, state, with_trace

_RAW = re.compile(r"\d{4,} ns\b|-1\b|9223372036854775807|\d{10,}")


@pytest.mark.parametrize(
    ("time_ns", "shown"),
    [
        (0, "0 s"),
        (10_958_907_123, "10.958907 s"),
        (1_000, "0.000001 s"),
        (7, "7 ns"),
        (-1, "the run's beginning"),
        (INFINITY_NS, "the run's end"),
    ],
)
def test_a_time_is_shown_in_seconds_and_a_bound_in_words(time_ns, shown):
    assert seconds(time_ns) == shown


def operation(index, f, value, begin_s, end_s):
    write = f != "read"
    return Operation(
        index=index,
        process=index,
        f=f,
        key="k",
        input=value if write else None,
        output=value,
        type=EventType.OK,
        invoke_ns=int(begin_s * 1e9),
        complete_ns=int(end_s * 1e9),
    )


INITIAL_AGAIN = [
    operation(0, "write", 1, 1.5, 2.25),
    operation(1, "read", None, 3.5, 4.25),
    operation(2, "read", 1, 5.5, 6.25),
]
"""The initial value, there from before the run on, is read behind the write that replaced it."""


@pytest.mark.parametrize("algorithm", ["zones", "chains", "frontier", "wgl"])
def test_a_violation_names_seconds_whatever_algorithm_finds_it(algorithm):
    model = "cas-register" if algorithm == "chains" else "register"
    spec = CheckSpec("linearizable", {"model": model, "algorithm": algorithm})
    result = run_check(spec, RunInput([], INITIAL_AGAIN, None))
    assert result.status is Status.FAIL
    for text in (result.summary, *(anomaly["explanation"] for anomaly in result.anomalies)):
        assert _RAW.search(text) is None, text
        assert re.search(r"\d\.\d{6} s", text), text


@pytest.mark.parametrize("model", [Register(), CasRegister()])
@pytest.mark.parametrize("algorithm", [None, "frontier", "wgl"])
def test_a_violation_in_columns_names_seconds(model, algorithm):
    columns = from_operations(INITIAL_AGAIN)
    (result,) = judge_columns(columns, model, algorithm=algorithm)
    assert result.status is Status.FAIL
    assert _RAW.search(result.summary) is None, result.summary
    assert re.search(r"\d\.\d{6} s", result.summary), result.summary


HOST, OTHER_HOST = "boot-1 time:[4026531834]", "boot-2 time:[4026531834]"
ORIGIN_NS = 8_000_000_000_000


def placed(clock=HOST, journaled=HOST, kind=None, **world):
    """n2 acknowledges a write 12.25 s after the run began, before it is committed."""
    value = {"name": "start", "clock": journaled, "origin_ns": ORIGIN_NS}
    note = Event(0, 0, NEMESIS, EventType.OK, "phase", value=kind or value)
    ack = {"epoch": 1, "offset": 5, "high_watermark": 5}
    at_ns = ORIGIN_NS + 12_250_000_000
    trace = [
        TraceEvent("n2", 0, at_ns - 5, "start", {"node_id": 2, "clock": clock}, **world),
        TraceEvent("n2", 0, at_ns, "ack", ack, **world),
    ]
    evidence = good_run().evidence
    traces = {**evidence.traces, "n2": [*evidence.traces["n2"], *trace]}
    run = good_run(traces=traces, run_clock=run_clock([note]))
    return broken(run, "ack-committed")


def broken(run, name):
    found = run_check(CheckSpec("invariants"), run).anomalies
    (anomaly,) = [anomaly for anomaly in found if anomaly["kind"] == name]
    return anomaly


def test_what_a_trace_shows_is_placed_on_the_axis_of_the_run():
    anomaly = placed()
    assert anomaly["explanation"].endswith(", at 12.250000 s")
    assert (anomaly["node"], anomaly["at_ns"]) == ("n2", 12_250_000_000)


@pytest.mark.parametrize(
    "unknown",
    [
        {"clock": OTHER_HOST},
        {"clock": None},
        {"clock": ""},
        {"journaled": ""},
        {"kind": {"name": "start"}},
        {"kind": {"name": "start", "clock": HOST, "origin_ns": "0"}},
        {"world_ns": 5},
    ],
    ids=str,
)
def test_a_time_of_an_unknown_clock_is_said_to_be_the_nodes_own(unknown):
    anomaly = placed(**unknown)
    assert anomaly["explanation"].endswith(", at 8012.250000 s of n2's own clock")
    assert "at_ns" not in anomaly


def test_a_simulated_world_has_one_time_whatever_its_nodes_clocks_show():
    anomaly = placed(journaled=WORLD_CLOCK, world_ns=ORIGIN_NS + 3_000_000_000)
    assert anomaly["explanation"].endswith(", at 3.000000 s")


def test_every_incarnation_has_the_clock_of_its_own_start():
    trace = [
        TraceEvent("n1", 0, 10, "start", {"clock": HOST}),
        TraceEvent("n1", 1, 20, "start", {"clock": OTHER_HOST}),
    ]
    evidence = Evidence(["n1"], {}, {}, {"n1": trace}, {}, run_clock=RunClock(HOST, 4))
    assert [evidence.run_ns(event) for event in trace] == [6, None]


def test_two_leaders_are_named_with_the_nodes_that_say_so():
    anomaly = broken(with_trace("n2", state(1, leader=2)), "election-safety")
    assert anomaly["explanation"] == (
        "epoch 1 is led by n1, as n1 says, and by n2, as n2 says, at 9 ns of n2's own clock"
    )


def test_a_final_state_is_shown_by_its_fields():
    reads = {
        node: FinalRead(node, 6, {"t": {"id": topic_id, "partitions": 1}}, {})
        for node, topic_id in zip(("n1", "n2", "n3"), ("a", "a", "b"), strict=True)
    }
    run = good_run(final_reads=reads)
    result = run_check(CheckSpec("durability", {"workload": "topics"}), run)
    (explanation,) = [a["explanation"] for a in result.anomalies if a["kind"] == "divergent"]
    assert explanation.startswith(
        "'t' is id a, partitions 1 on n1 and id b, partitions 1 on n3, both "
    )


def test_a_high_watermark_is_shown_with_where_the_replicas_were():
    run = with_trace("n1", high_watermark(9, replicas={"1": 9, "2": 6, "3": 6}))
    found = {a["kind"]: a["explanation"] for a in run_check(CheckSpec("invariants"), run).anomalies}
    assert "had only 6 (replica 1 at 9, 2 at 6, 3 at 6)" in found["majority-counted"]


def test_going_back_to_configured_voters_names_no_offset():
    voters = [("voters", {"offset": offset, "voters": {"1": "d"}}) for offset in (-1, 3, -1)]
    run = with_trace("n2", *voters[:2], high_watermark(6), voters[2])
    anomaly = broken(run, "committed-voters")
    assert anomaly["explanation"].startswith("n2 goes by the configured voters again, not by ")
    assert _RAW.search(anomaly["explanation"]) is None

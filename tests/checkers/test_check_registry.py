"""Checks are found by name, validated, run, and merged; figures and exercise of a run."""

import math
import sys
from dataclasses import replace

import pytest

from checkers.history import NEMESIS, Event, EventType, pair
from checkers.registry import (
    CHECKS,
    CheckError,
    CheckSpec,
    KeyCheck,
    RunCheck,
    RunInput,
    find_check,
    group_by_key,
    merge,
    run_check,
)
from checkers.verdict import CheckResult, Status
from tests.checkers.histories import op, read, write

INVOKE, OK, INFO = EventType.INVOKE, EventType.OK, EventType.INFO


def test_the_names_and_scopes_are_those_of_the_plan():
    assert {name: check.scope for name, check in CHECKS.items()} == {
        "linearizable": "key",
        "durability": "evidence",
        "log-agreement": "evidence",
        "snapshots": "evidence",
        "records": "evidence",
        "voter-changes": "evidence",
        "upgrade": "evidence",
        "isr": "evidence",
        "invariants": "evidence",
        "sessions": "key",
        "growth": "key",
        "set-full": "key",
        "transactions": "run",
        "atomic-appends": "run",
        "groups": "run",
        "log": "run",
        "replica-logs": "evidence",
        "monitor": "run",
        "answers": "run",
        "exercised": "run",
        "statistics": "run",
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CheckSpec("linearisable"), "did you mean 'linearizable'"),
        (CheckSpec("linearizable"), "needs the option 'model'"),
        (CheckSpec("linearizable", {"model": "registre"}), "did you mean 'register'"),
        (CheckSpec("linearizable", {"model": "kv", "timelimit": 1}), "did you mean 'time_limit_s'"),
        (CheckSpec("linearizable", {"model": "kv", "time_limit_s": 0}), "must be above 0"),
        (CheckSpec("linearizable", {"model": "kv", "time_limit_s": True}), "cannot be True"),
        (CheckSpec("linearizable", {"model": "kv", "algorithm": "magic"}), "unknown algorithm"),
        (CheckSpec("durability", {"workload": "queue"}), "unknown workload"),
        (CheckSpec("growth", {"model": "set"}), "unknown model 'set'; known: list-append"),
        (CheckSpec("sessions", {"guarantees": ["all"]}), "unknown guarantee 'all'; known: "),
        (CheckSpec("log", {"acks": "2"}), "acks cannot be '2'; known: 0, 1, all"),
        (CheckSpec("log", {"acks": 1}), "option 'acks' of check 'log' cannot be 1"),
        (CheckSpec("log", {"idempotent": True}), "did you mean 'idempotence'"),
        (CheckSpec("exercised", {"expectations": {"fault": []}}), "unknown expectation"),
        (CheckSpec("exercised", {"expectations": {"faults": "kill"}}), "cannot be 'kill'"),
    ],
)
def test_what_a_plan_gets_wrong_is_reported_in_one_line(spec, message):
    with pytest.raises(CheckError, match=message) as error:
        find_check(spec)
    assert "\n" not in str(error.value)


def on(key, *operations):
    return [replace(operation, key=key) for operation in operations]


GOOD = on("a", write(0, 1, 0, 1), read(1, 1, 2, 3))
BAD = on("b", write(2, 1, 0, 1), read(3, 2, 2, 3))
SPEC = CheckSpec("linearizable", {"model": "register"})


def test_each_key_is_judged_and_the_worst_counts():
    assert run_check(SPEC, RunInput([], GOOD)).status is Status.PASS
    result = run_check(SPEC, RunInput([], [*GOOD, *BAD]))
    assert (result.status, result.operations, result.algorithm) == (Status.FAIL, 4, "zones")
    assert result.anomalies[0]["key"] == "b"
    assert result.statistics["by_status"]["FAIL"] == 1


def test_the_order_of_keys_does_not_matter_when_merging():
    check = find_check(SPEC)
    assert isinstance(check, KeyCheck)
    results = [
        check.check_key(group, SPEC.options) for group in group_by_key([*GOOD, *BAD]).values()
    ]
    assert check.merge(results) == check.merge(results[::-1])


def test_of_no_keys_nothing_was_exercised():
    assert merge("linearizable", []).status is Status.UNDER_EXERCISED


def test_a_checker_that_dies_is_unknown_and_the_others_go_on():
    strange = on("c", op(9, "pop", (0, 1)))
    result = run_check(SPEC, RunInput([], [*GOOD, *strange]))
    assert result.status is Status.UNKNOWN
    assert "itself failed: HistoryError" in result.summary


def leave(*_):
    sys.exit(0)


def answer(result):
    return lambda *_: result


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (leave, "SystemExit: 0"),
        (answer(None), "TypeError: a check answers with a CheckResult, not None"),
        (answer(CheckResult("x", "PASS", "")), "TypeError: a check answers with"),
        (answer(CheckResult("x", Status.PASS, "", key=1)), "key of a CheckResult cannot be 1"),
        (answer(CheckResult("x", Status.FAIL, "", anomalies=["lost"])), "are objects"),
        (answer(CheckResult("x", Status.FAIL, "", anomalies=({"of": {1}},))), "not JSON"),
        (answer(CheckResult("x", Status.PASS, "", statistics=None)), "cannot be None"),
        (answer(CheckResult("x", Status.PASS, "", statistics={"counts": 5})), "are objects"),
        (answer(CheckResult("x", Status.PASS, "", statistics={"p": math.nan})), "not JSON"),
        (answer(CheckResult("x", Status.PASS, "", anomalies=({},))), "holds an anomaly"),
    ],
)
def test_a_check_that_exits_or_answers_nonsense_has_judged_nothing(function, error):
    checks = (
        RunCheck("theirs", "run", function).check_run(RunInput([], GOOD), {}),
        KeyCheck("theirs", function).check_key(GOOD, {}),
    )
    for result in checks:
        assert result.status is Status.UNKNOWN
        assert error in result.summary


def test_unknown_does_not_hide_a_failure():
    results = [CheckResult("x", Status.UNKNOWN, ""), CheckResult("x", Status.FAIL, "")]
    assert merge("x", results).status is Status.FAIL


def test_keys_that_were_not_decided_take_no_place_of_one_that_fails():
    dead = [
        CheckResult("x", Status.UNKNOWN, "died", key=f"a{n}", anomalies=({"kind": "dead"},))
        for n in range(30)
    ]
    wrong = CheckResult("x", Status.FAIL, "wrong", key="b", anomalies=({"kind": "stale-read"},))
    assert merge("x", [*dead, wrong]).anomalies[0] == {"key": "b", "kind": "stale-read"}


def journal():
    """A kill at 1 s that bit, another leader, a pause that did not bite, six client operations."""
    rows = [
        (0, NEMESIS, OK, "leader", {"leader": "n1", "epoch": 1}),
        (100, 1, INVOKE, "write", None),
        (110, 1, OK, "write", None),
        (900, NEMESIS, INVOKE, "kill", {"phase": "inject"}),
        (1000, NEMESIS, OK, "kill", {"phase": "inject", "targets": ["n1"], "verified": True}),
        (1100, 2, INVOKE, "write", None),
        (1150, 3, INVOKE, "read", None),
        (1160, 3, OK, "read", None),
        (1200, NEMESIS, OK, "leader", {"leader": "n2", "epoch": 2}),
        (1300, NEMESIS, INFO, "pause", {"phase": "inject", "targets": ["n3"], "verified": False}),
        (2100, 2, INFO, "write", None),
        (2200, 4, INVOKE, "write", None),
        (2400, 4, OK, "write", None),
        (2500, NEMESIS, OK, "kill", {"phase": "heal", "targets": ["n1"], "verified": True}),
    ]
    events = [
        Event(i, ms * 1_000_000, process, kind, f, None, value)
        for i, (ms, process, kind, f, value) in enumerate(rows)
    ]
    return RunInput(events, pair(events))


def test_the_figures_of_a_run():
    figures = run_check(CheckSpec("statistics"), journal()).statistics
    assert figures["by_type"] == {"ok": 3, "fail": 0, "info": 1}
    assert figures["availability"] == 0.75
    assert figures["latency_ms"]["write"] == {
        "count": 2,
        "p50": 10.0,
        "p90": 200.0,
        "p99": 200.0,
        "max": 200.0,
    }
    assert figures["longest_unavailability"]["duration_ms"] == 1240.0
    assert figures["longest_write_outage"] == {
        "duration_ms": 1300.0,
        "from_ns": 1_100_000_000,
        "to_ns": 2_400_000_000,
    }
    kill, pause, heal = figures["recoveries"]
    assert (kill["fault"], kill["phase"], kill["recovery_ms"]) == ("kill", "inject", 1400.0)
    assert (pause["fault"], pause["recovery_ms"]) == ("pause", 1100.0)
    assert (heal["phase"], heal["recovery_ms"]) == ("heal", None)


def test_figures_of_an_empty_run_are_plain_and_under_exercised():
    result = run_check(CheckSpec("statistics"), RunInput([], []))
    assert (result.status, result.statistics["recoveries"]) == (Status.UNDER_EXERCISED, [])

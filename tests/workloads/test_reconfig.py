"""Workload `reconfig` in a simulated cluster, and the check that judges its voter sets."""

from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from checkers.evidence import Evidence, LogRecord
from checkers.history import NEMESIS, Event, EventType, Operation, pair
from checkers.registry import CheckSpec, judged_operations, run_check
from checkers.run_input import RunInput
from checkers.verdict import Status
from harness.evidence.node_disks import decode_log
from tests.harness.sim.quorums import campaign
from workloads import reconfig
from workloads.base import Role
from workloads.registry import workload_named


def sets(*voters, start=0):
    return [
        LogRecord(
            "n1",
            start + i,
            1,
            i,
            "control:KRAFT_VOTERS",
            {"voters": [{"voterId": v, "directoryId": f"d{v}"} for v in ids]},
        )
        for i, ids in enumerate(voters)
    ]


def changed(change, voter, kind=EventType.OK):
    value = {"change": change, "voter": voter}
    return Operation(0, 0, "change-voters", None, None, value, kind, 0, 1)


def judged(log, *operations):
    evidence = Evidence(["n1"], {"n1": log}, {}, {}, {})
    result = run_check(CheckSpec("voter-changes"), RunInput([], list(operations), evidence))
    return result.status, [anomaly["kind"] for anomaly in result.anomalies]


def jumps(log):
    evidence = Evidence(["n1"], {"n1": log}, {}, {}, {})
    result = run_check(CheckSpec("invariants"), RunInput([], [], evidence))
    return {anomaly["kind"] for anomaly in result.anomalies}


def test_sets_that_follow_each_other_by_one_voter_and_hold_what_was_answered_pass():
    log = sets((1, 2, 3), (1, 2), (1, 2, 3), (1, 2, 3), (2, 3))
    done = (changed("remove", 3), changed("add", 3), changed("remove", 1))
    assert judged(log, *done) == (Status.PASS, [])
    assert jumps(log) == set()


def test_what_a_leader_that_was_cut_off_wrote_alone_is_no_change_of_voters():
    alone = sets((1, 2, 3), (1, 2), (1, 2, 3), (1, 2))
    newest = [*sets((1, 2, 3)), replace(sets((2, 3), start=1)[0], epoch=2)]
    evidence = Evidence(["n1", "n2"], {"n1": alone, "n2": newest}, {}, {}, {})
    run = RunInput([], [changed("remove", 1)], evidence)
    assert run_check(CheckSpec("voter-changes"), run).status is Status.PASS


def test_changes_of_which_none_was_acknowledged_show_nothing():
    evidence = Evidence(["n1"], {"n1": sets((1, 2, 3))}, {}, {}, {})
    tried = [changed("remove", 3, EventType.INFO)]
    result = run_check(CheckSpec("voter-changes"), RunInput([], tried, evidence))
    assert result.status is Status.UNDER_EXERCISED
    assert result.summary == "no change of voters was acknowledged"


def test_two_voters_at_once_are_a_jump():
    log = sets((1, 2, 3), (1,))
    assert jumps(log) == {"one-voter-change"}


def test_a_replaced_directory_is_a_jump():
    log = sets((1, 2))
    log += [
        LogRecord(
            "n1",
            1,
            1,
            1,
            "control:KRAFT_VOTERS",
            {"voters": [{"voterId": 1, "directoryId": "d1"}, {"voterId": 2, "directoryId": "x"}]},
        )
    ]
    assert jumps(log) == {"one-voter-change"}


def test_an_answered_change_that_the_log_does_not_hold_is_lost():
    log = sets((1, 2, 3), (1, 2))
    done = (changed("remove", 3), changed("add", 3))
    assert judged(log, *done) == (Status.FAIL, ["change-lost"])


def test_a_removed_voter_that_comes_back_unasked_is_found():
    log = sets((1, 2, 3), (1, 2), (1, 2, 3))
    assert judged(log, changed("remove", 3)) == (Status.FAIL, ["change-uninvited"])
    refused = changed("add", 3, EventType.FAIL)
    assert judged(log, changed("remove", 3), refused) == (Status.FAIL, ["change-uninvited"])


def test_an_uninvited_change_names_its_record_and_the_answer_that_it_takes_back():
    log = sets((1, 2, 3), (1, 2), (1, 2, 3), (1, 2), (1, 2, 3), start=0)
    done = [changed("remove", 3), changed("add", 3), changed("remove", 3)]
    done = [replace(operation, index=7 + number) for number, operation in enumerate(done)]
    evidence = Evidence(["n1"], {"n1": log}, {}, {}, {})
    result = run_check(CheckSpec("voter-changes"), RunInput([], done, evidence))
    [anomaly] = result.anomalies
    place = {name: anomaly[name] for name in ("voter", "offset", "epoch", "operations")}
    assert place == {"voter": 3, "offset": 4, "epoch": 1, "operations": [9]}


@pytest.mark.parametrize("fault", ["voters", "disk-wipe"])
def test_who_asked_is_not_known_beside_a_fault_that_changes_voters(fault):
    log = sets((1, 2, 3), (1, 2), (1, 2, 3))
    note = Event(0, 0, NEMESIS, EventType.INVOKE, fault, {"phase": "inject"})
    evidence = Evidence(["n1"], {"n1": log}, {}, {}, {})
    run = RunInput([note], [changed("remove", 3)], evidence)
    assert run_check(CheckSpec("voter-changes"), run).status is Status.PASS


def test_the_log_need_not_show_a_change_of_unknown_outcome():
    log = sets((1, 2, 3), (1, 2))
    done = (changed("remove", 3), changed("add", 3, EventType.INFO))
    assert judged(log, *done) == (Status.PASS, [])


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ({"change": "add", "voter": 3}, Status.PASS),
        (None, Status.PASS),  # its client did not say what it asked for
        ({"change": "add", "voter": 2}, Status.FAIL),
        ({"change": "remove", "voter": 3}, Status.FAIL),
    ],
)
def test_a_change_of_unknown_outcome_made_no_other_step(output, status):
    log = sets((1, 2, 3), (1, 2), (1, 2, 3))
    unknown = replace(changed("add", 3, EventType.INFO), output=output)
    assert judged(log, changed("remove", 3), unknown)[0] is status


def test_a_log_that_begins_behind_a_snapshot_need_not_show_earlier_answers():
    log = sets((1, 2), (1, 2, 3), start=7)
    earlier = changed("remove", 3)
    assert judged(log, earlier, changed("add", 3)) == (Status.PASS, [])
    assert judged(log, earlier) == (Status.FAIL, ["change-uninvited"])


def test_with_a_return_fraction_of_none_changes_only_ever_remove():
    options = {"change_fraction": 0.5, "return_fraction": 0.0}
    workload = workload_named("reconfig", options)
    drawn = islice(workload.operations(0, Random(1), Role.MIXED), 200)
    asked = [op.value for op in drawn if op.f == reconfig.CHANGE]
    assert asked
    assert all(value == reconfig.REMOVE_ONLY for value in asked)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_voters_come_and_go_under_load(seed, tmp_path):
    backend, monitor, events, reads = campaign(
        seed=seed, duration_s=60, workload="reconfig", workload_options={"change_fraction": 0.1}
    )
    changes = Counter(
        event.value["change"]
        for event in events
        if event.f == "change-voters" and event.type is EventType.OK
    )
    assert min(changes["add"], changes["remove"]) >= 2
    assert monitor.violations == []
    assert reads.missing == {}
    backend.world.write_disks(lambda node: tmp_path / node)
    logs = {
        node: decode_log(node, tmp_path / node / "metadata" / "__cluster_metadata-0").records
        for node in backend.nodes
    }
    run = RunInput(events, pair(events), Evidence(backend.nodes, logs, {}, {}, {}))
    assert run_check(CheckSpec("voter-changes"), run).status is Status.PASS
    spec = CheckSpec("linearizable", {"model": "register", "functions": ["read", "write"]})
    assert {op.f for op in judged_operations(spec, run)} == {"read", "write"}
    assert run_check(spec, run).status is Status.PASS

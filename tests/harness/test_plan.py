import itertools
import json
from dataclasses import replace
from random import Random

import pytest

from checkers.runs import coverage, exercised
from checkers.runs.exercised import OPERATIONS_MIN, SHARE_MIN
from cluster.systems.registry import system_named
from harness.campaigns import campaign_names, load, read_document
from harness.errors import PlanError
from harness.plan.document import from_document
from harness.plan.step_verbs import VERBS
from harness.plan.stored_document import checks_for
from nemeses.active_faults import HOLDS_DOWN
from nemeses.registry import FAULTS
from workloads.base import Role

SCRIPT = [
    {"at_s": 1, "fault": "kill", "parameters": {"targets": "leader"}, "for_s": 3},
    {"at_s": 6, "fault": "partition", "parameters": {"shape": "halves"}, "for_s": 3},
]


def plan(**changes):
    return from_document({"campaign": "test", "seed": 5} | changes)


def error(**changes):
    with pytest.raises(PlanError) as caught:
        plan(**changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"security": "SSL"}, "security must be a table, not 'SSL'"),
        ({"security": {"protocol": "TLS"}}, "security.protocol: unknown protocol 'TLS'"),
        ({"wrokload": "register"}, "unknown key 'wrokload'; did you mean 'workload'?"),
        (
            {"schedule": [{"at_s": 1, "fault": "pause", "targts": "leader"}]},
            "schedule 1: unknown key 'targts' (known: ",
        ),
        (
            {"schedule": [{"at": 1, "fault": "pause"}]},
            "schedule 1: unknown key 'at'; did you mean 'at_s'?",
        ),
        ({"workload": "registr"}, "unknown workload 'registr'; did you mean 'register'?"),
        ({"workload_options": {"key": 3}}, "did you mean 'keys'?"),
        (
            {"workload_options": {"keys": 0}},
            "workload_options.keys must be a whole number from 1 to 10000, not 0",
        ),
        (
            {"workload_options": {"keys": True}},
            "keys must be a whole number from 1 to 10000, not True",
        ),
        (
            {"workload_options": {"write_fraction": "all"}},
            "write_fraction must be a number from 0.01 to 0.99, not 'all'",
        ),
        ({"workload_options": 3}, "workload_options must be a table, not 3"),
        ({"backend": "lokal"}, "unknown backend 'lokal'; did you mean 'local'?"),
        ({"faults": ["kil"]}, "unknown fault 'kil'; did you mean 'kill'?"),
        ({"faults": "kill"}, "faults must be a list of names"),
        ({"mutant": "M155"}, "unknown mutant 'M155'; did you mean 'M15'"),
        ({"mutant": 15}, "mutant must be a name such as M15"),
        ({"nodes": 0}, "nodes must be a whole number from 1 to 15, not 0"),
        ({"nodes": 3.5}, "nodes must be a whole number from 1 to 15, not 3.5"),
        ({"nodes": "3"}, "nodes must be a whole number from 1 to 15, not '3'"),
        ({"duration_s": float("nan")}, "duration_s must be a number from 0.001 to 604800, not nan"),
        (
            {"duration_s": 1e12},
            "duration_s must be a number from 0.001 to 604800, not 1000000000000.0",
        ),
        ({"duration_s": 5}, "5 s are too short for kill, pause, partition: they need 19 s"),
        ({"rate_per_s": -1}, "rate_per_s must be a number from 0 to 100000, not -1"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 1000, not 0"),
        (
            {"campaign": "../escape"},
            "campaign must be a name of at most 64 letters, digits, '.', '_', '-', not '../escape'",
        ),
        (
            {"campaign": 7},
            "campaign must be a name of at most 64 letters, digits, '.', '_', '-', not 7",
        ),
        ({"node_settings": {"metadata.log.segment.byte": 1}}, "did you mean"),
        ({"expectations": {"leader_change": 1}}, "did you mean 'leader_changes'?"),
        (
            {"expectations": {"min_operations": -1}},
            "min_operations must be a whole number from 0 to 1000000000, not -1",
        ),
        ({"schedule": 3}, "schedule must be a list of entries or a table of options, not 3"),
        ({"schedule": {"quiet": [1, 2]}}, "did you mean 'quiet_s'?"),
        ({"schedule": {"quiet_s": [3, 2]}}, "schedule.quiet_s: the least is above the most"),
        ({"schedule": {"quiet_s": [3]}}, "schedule.quiet_s must be [least, most] in seconds"),
        ({"schedule": [3]}, "schedule 1 must be a table"),
        ({"schedule": [{"fault": "kill"}]}, "schedule 1: at_s is missing"),
        ({"schedule": [{"at_s": 1}]}, "schedule 1: fault is missing"),
        ({"schedule": [SCRIPT[0] | {"fault": "kil"}]}, "schedule 1: fault: unknown fault 'kil'"),
        ({"schedule": [SCRIPT[0] | {"when": 1}]}, "schedule 1: unknown key 'when'"),
        (
            {"schedule": [SCRIPT[0] | {"parameters": {"targets": "leeder"}}]},
            "unknown target 'leeder'; did you mean 'leader'?",
        ),
        (
            {"schedule": [SCRIPT[0] | {"at_s": 99}]},
            "schedule 1: at_s must be below 60, where the plan's duration_s ends, not 99",
        ),
        ({"schedule": SCRIPT, "faults": ["pause"]}, "faults: 'pause' is not in the schedule"),
    ],
)
def test_a_wrong_plan_is_reported_in_one_line(changes, message):
    assert message in error(**changes)


def test_defaults_make_a_plan():
    assert plan().workload == "register"
    assert plan().faults == ("kill", "pause", "partition")
    assert plan().expectations["leader_changes"] == 1
    raft = {"system": "kafka-raft", "system_options": {"version": "4.3.1"}, "backend": "sim"}
    assert plan(**raft).workload == "appends", "the only one that this system carries"


def test_a_stored_plan_gives_the_same_plan_again():
    secured = {"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN"}}
    for document in ({}, {"workload": "set", "faults": ["pause"]}, {"schedule": SCRIPT}, secured):
        first = plan(**document)
        stored = json.loads(
            json.dumps(first.to_json() | {"run": "x", "checks": [], "versions": {}})
        )
        assert from_document(stored) == first


def test_alternatives_are_kept_and_checked_like_the_parameters():
    entry = SCRIPT[0] | {"alternatives": [{"targets": "random"}]}
    assert plan(schedule=[entry]).to_json()["schedule"] == [entry]
    assert "did you mean 'random'" in error(
        schedule=[entry | {"alternatives": [{"targets": "randm"}]}]
    )
    assert "a list of tables" in error(schedule=[entry | {"alternatives": {}}])


def test_a_scripted_schedule_is_taken_as_it_is():
    scripted = plan(schedule=SCRIPT)
    assert [entry.to_json() for entry in scripted.schedule] == SCRIPT
    assert scripted.faults == ("kill", "partition")


@pytest.mark.parametrize("name", campaign_names())
def test_a_plan_cannot_expect_less_than_the_floor(name):
    less = {"min_operations": 1, "faults": [], "leader_changes": 0}
    raised = from_document(load(name) | {"seed": 1, "expectations": less})
    possible = raised.rate_per_s * raised.duration_s
    assert raised.expectations["min_operations"] == max(OPERATIONS_MIN, int(SHARE_MIN * possible))
    assert set(raised.expectations["faults"]) == set(raised.faults)
    assert raised.expectations["leader_changes"] == int(bool(raised.faults))  # all depose leaders


def test_of_every_fault_it_is_known_whether_it_can_depose_a_leader():
    slows = {"loss", "delay", "reorder", "duplicate", "bandwidth", "snapshot", "limit"}
    slows |= {"clock-jump", "clock-skew", "clock-drift", "clock-strobe"}
    slows |= {"disk-stall", "disk-slow", "disk-full", "hold", "timer-rate"}
    slows |= {"log-dir-move", "finalize"}
    assert set(FAULTS) - exercised.DEPOSING == slows
    assert set(FAULTS) >= exercised.DEPOSING
    assert set(VERBS) == exercised.VERBS
    assert coverage.ENDING == HOLDS_DOWN


def test_faults_that_depose_no_leader_expect_no_leader_change():
    assert plan(faults=["delay"]).expectations["leader_changes"] == 0
    assert plan(faults=["kill"], nodes=1).expectations["leader_changes"] == 0
    assert plan(faults=[]).expectations["leader_changes"] == 0
    assert plan(faults=[]).schedule == ()


def test_one_seed_gives_one_stream_of_operations_for_each_worker():
    for name in ("register", "topics", "set"):
        workload = plan(workload=name).make_workload()
        one, other = (
            list(itertools.islice(workload.operations(2, Random("7"), Role.MIXED), 50))
            for _ in range(2)
        )
        assert one == other


def test_the_default_campaign_kills_pauses_and_partitions_the_leader_with_any_seed():
    for seed in range(50):
        entries = from_document(load("smoke") | {"seed": seed}).schedule
        aims = {
            (entry.fault, entry.parameters.get("targets") or entry.parameters.get("shape"))
            for entry in entries
        }
        wanted = {("kill", "leader"), ("pause", "leader"), ("partition", "leader")}
        assert wanted <= aims


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", "nodes = ", "cannot be read as a plan"),
        ("a.json", "{", "cannot be read as a plan"),
        ("a.json", "[1]", "a plan is a table of keys and values"),
        ("a.toml", "\udcff", "cannot be read as a plan"),
        ("a.json", "[" * 100_000, "cannot be read as a plan"),
    ],
)
def test_files_that_are_no_plans_are_reported_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(PlanError, match=message) as caught:
        read_document(path)
    assert "\n" not in str(caught.value)


def test_a_plan_file_gives_its_name_to_its_campaign(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("nodes = 5\n")
    assert from_document(load(str(path)) | {"seed": 1}).campaign == "mine"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("system", "kraftt", "unknown system 'kraftt'; did you mean 'kraft'"),
        (
            "system",
            "zookeeper",
            r"unknown system 'zookeeper' \(known: apache-kafka, kafka-raft, kraft, mixed\)",
        ),
        ("system", 3, "system must be a string, not 3"),
        ("version", 2, "version must be 1"),
        ("version", True, "version must be 1"),
        ("checks", [{"name": "statistics"}], "checks cannot be chosen"),
        ("versions", {"python": "3.9"}, "versions cannot be chosen"),
        ("command", "kraftprobe", "command cannot be chosen"),
    ],
)
def test_what_would_be_ignored_in_a_plan_is_refused(key, value, message):
    with pytest.raises(PlanError, match=message):
        from_document({"campaign": "c", key: value})


def test_a_plan_that_a_run_stored_keeps_what_followed_from_it():
    stored = {"campaign": "c", "run": "r", "system": "kraft", "version": 1}
    stored |= {"checks": [], "versions": {}, "command": "kraftprobe run"}
    assert from_document(stored) == from_document({"campaign": "c"})


_ALL, _OF_KAFKA = (1, 1), ("groups", "transactions")


@pytest.mark.parametrize(
    ("workload", "judged"),
    [("register", (0, 0)), ("set", (1, 0)), ("log", _ALL), *((w, _ALL) for w in _OF_KAFKA)],
)
def test_partitions_are_judged_where_a_workload_creates_some_and_logs_where_it_fills_them(
    workload, judged
):
    system = "apache-kafka" if workload in _OF_KAFKA else "kraft"
    names = [spec.name for spec in checks_for(plan(workload=workload, system=system))]
    assert (names.count("isr"), names.count("replica-logs")) == judged


@pytest.mark.parametrize("schedule", [{}, []])
def test_a_system_that_plays_no_script_performs_no_listed_operation(monkeypatch, schedule):
    kind = replace(system_named("kraft"), scripted=None)
    monkeypatch.setattr("harness.plan.plan.system_named", lambda _: kind)
    read = {"f": "read", "key": "k0"}
    faults = {} if schedule == {} else {"faults": []}
    assert "plays no strands" in error(operations=[read], schedule=schedule, **faults)
    assert plan(schedule=schedule, **faults)

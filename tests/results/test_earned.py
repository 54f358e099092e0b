"""Every condition of a PASS, taken away from a real run that passes, takes its PASS away."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checkers.earned import CONDITIONS, EARNED, Judged, earn, verdict
from checkers.earned.observed import checks_ran, observations
from checkers.earned.outages import nodes_answered
from checkers.earned.phases import faults_wanted, final_reads, last_phase
from checkers.earned.processes import KEEPS_PROCESS, STARTS_AT_ONCE
from checkers.evidence import FINAL_READS, TraceEvent
from checkers.history import EventType, pair
from checkers.nodes import agreement, durability
from checkers.run_input import RunInput
from checkers.runs.exercised import DEPOSING
from checkers.verdict import Status
from harness.policy.document import Policy
from harness.policy.gate import gate_folder, rules_of
from nemeses.registry import FAULTS
from results.gate.refusals import specs_of
from results.judge.pipeline import judge
from tests.alterations.runs import copy_of, unpack
from tests.gate.bench import forge

Change = Callable[[Judged], Judged]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return unpack("register", tmp_path_factory.mktemp("run") / "register")


@pytest.fixture(scope="module")
def sound(store):
    """The run as its judgement has it: it passes."""
    plan, events = store.plan(), store.events()
    run = RunInput(events, pair(events), store.evidence(plan).evidence)
    checks = [check for check in judge(store, keep=False).checks if check.checker != EARNED]
    specs = specs_of(plan)
    judged = Judged(run, checks, [spec.name for spec in specs], plan)
    assert verdict([*checks, earn(judged)]) is Status.PASS
    return judged


def events(change: Callable[[Any], Any]) -> Change:
    """Change events of the journal; None takes one away."""

    def act(judged: Judged) -> Judged:
        kept = [new for event in judged.run.events if (new := change(event)) is not None]
        return replace(judged, run=replace(judged.run, events=kept))

    return act


def operations(change: Callable[[Any], Any]) -> Change:
    def act(judged: Judged) -> Judged:
        begin_ns = judged.phases["heal"]
        kept = [change(op, op.invoke_ns >= begin_ns) for op in judged.run.operations]
        return replace(judged, run=replace(judged.run, operations=kept))

    return act


def plan(**fields: Any) -> Change:
    return lambda judged: replace(judged, plan={**judged.plan, **fields})


def with_value(event: Any, **fields: Any) -> Any:
    return replace(event, value={**event.value, **fields})


def heal_fails(event):
    healed = event.f == "kill" and event.type is not EventType.INVOKE
    if not healed or event.value["phase"] != "heal":
        return event
    return with_value(event, verified=False, detail={"reason": "n3 does not answer"})


def no_kill(event):
    return None if event.f == "kill" else event


def no_final_reads(event):
    return with_value(event, missing={"n2": "does not answer"}) if event.f == FINAL_READS else event


def failed(op):
    return replace(op, type=EventType.FAIL)


def crashed(judged: Judged) -> Judged:
    """A system without a metadata quorum of which a node ends by itself."""
    of_nodes = {agreement.NAME, durability.NAME}
    note = judged.notes[-1]
    value = {"node": "n2", "exit_code": 1}
    crash = replace(note, f="crash", type=EventType.INFO, value=value)
    run = replace(judged.run, events=[*judged.run.events, crash])
    return replace(judged, run=run, wanted=[n for n in judged.wanted if n not in of_nodes])


def other_release(judged: Judged) -> Judged:
    """Nodes of a release of Kafka of which a process printed another one."""
    evidence = judged.run.evidence
    of = {"n1": "4.4.0", "n2": "4.4.0", "n3": "4.3.1"}
    traces = {
        node: [*trace, TraceEvent(node, 1, 0, "release", {"version": of[node], "commit": "ab12"})]
        for node, trace in evidence.traces.items()
    }
    run = replace(judged.run, evidence=replace(evidence, traces=traces))
    stored = {**judged.plan, "versions": {"apache-kafka": "4.4.0, commit ab12"}}
    return replace(judged, run=run, plan=stored)


def killed_for_long(event):
    """The heal of the kill begins in the moment in which it is done."""
    begins = event.f == "kill" and event.type is EventType.INVOKE and event.value["phase"] == "heal"
    return None if begins else event


def all_killed(event):
    """The kill is one of all nodes, and clients go on."""
    hit = event.f == "kill" and event.value["phase"] == "inject"
    return with_value(event, targets=["n1", "n2", "n3"]) if hit else killed_for_long(event)


def lone(judged: Judged) -> Judged:
    """A file of its writes alone."""
    kept = [op for op in judged.run.operations if op.f == "write"]
    return replace(judged, plan=None, run=RunInput([], kept))


TAKEN: dict[str, tuple[Change, Status]] = {
    "whole-input": (lambda judged: replace(judged, dropped_bytes=3), Status.UNKNOWN),
    "checks-ran": (lambda judged: replace(judged, checks=judged.checks[1:]), Status.UNKNOWN),
    "exercise": (
        lambda judged: replace(
            judged,
            checks=[
                replace(c, status=Status.UNDER_EXERCISED) if c.checker == "exercised" else c
                for c in judged.checks
            ],
        ),
        Status.UNDER_EXERCISED,
    ),
    "faults-wanted": (plan(faults=[], schedule=[]), Status.UNDER_EXERCISED),
    "faults-healed": (events(heal_fails), Status.UNKNOWN),
    "deaths-meant": (crashed, Status.FAIL),
    "restarts-meant": (events(no_kill), Status.UNKNOWN),
    "releases-run": (other_release, Status.UNKNOWN),
    "load-phase": (
        operations(lambda op, after: op if after else failed(op)),
        Status.UNDER_EXERCISED,
    ),
    "service-share": (
        operations(lambda op, after: op if after or op.index < 30 else failed(op)),
        Status.UNDER_EXERCISED,
    ),
    "writes-served": (plan(expectations={"write_outage_max_s": 1e-6}), Status.UNKNOWN),
    "nodes-answered": (events(all_killed), Status.UNKNOWN),
    "last-phase": (operations(lambda op, after: failed(op) if after else op), Status.UNKNOWN),
    "final-reads": (events(no_final_reads), Status.UNKNOWN),
    "observations": (lone, Status.UNDER_EXERCISED),
}


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_a_condition_that_is_taken_away_takes_the_pass_away(sound, condition):
    change, status = TAKEN[condition.name]
    outcome = condition.function(change(sound))
    assert (outcome.status, bool(outcome.sentence)) == (status, True)
    earned = earn(change(sound))
    assert condition.name in [anomaly["kind"] for anomaly in earned.anomalies]
    assert verdict([*sound.checks, earned]) is not Status.PASS


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_a_condition_says_in_one_sentence_what_must_be_true(condition):
    assert condition.sentence.endswith((".", ". ")) or condition.sentence.endswith(").")
    assert len(condition.sentence) < 110


def of_other_system(judged: Judged, **fields: Any) -> Judged:
    """The run as one of a system without a metadata quorum."""
    of_nodes = {agreement.NAME, durability.NAME}
    return replace(judged, wanted=[n for n in judged.wanted if n not in of_nodes], **fields)


def test_a_run_of_writes_alone_shows_nothing(sound):
    writes = [op for op in sound.run.operations if op.f == "write"]
    assert observations(of_other_system(sound)).status is Status.PASS
    found = observations(of_other_system(sound, run=replace(sound.run, operations=writes)))
    assert found.status is Status.UNDER_EXERCISED


def test_checks_that_had_nothing_to_look_at_are_no_pass(sound):
    nothing = [replace(check, operations=0) for check in sound.checks]
    assert checks_ran(replace(sound, checks=nothing)).status is Status.UNKNOWN


def test_checks_of_how_the_run_went_are_of_no_promise(sound):
    for name in ("answers", "exercised", "statistics"):
        alone = replace(sound, checks=[c for c in sound.checks if c.checker == name], wanted=[name])
        assert len(alone.checks) == 1
        assert checks_ran(alone).status is Status.UNKNOWN


def aimed_at(node):
    """After the heal every operation is for one node alone, and n1 answers each."""

    def act(judged: Judged) -> Judged:
        heal_ns = judged.phases["heal"]
        changed = events(
            lambda e: (
                replace(e, node=node if e.type is EventType.INVOKE else "n1")
                if e.time_ns >= heal_ns and e.process != "nemesis"
                else e
            )
        )(judged)
        return replace(changed, run=replace(changed.run, operations=pair(changed.run.events)))

    return act


@pytest.mark.parametrize(("node", "status"), [("n1", Status.PASS), ("n2", Status.UNKNOWN)])
def test_what_one_node_is_asked_for_in_the_end_no_other_serves(sound, node, status):
    assert last_phase(aimed_at(node)(sound)).status is status


def test_an_operation_that_was_under_way_at_the_heal_is_none_of_the_last(sound):
    """As a worker of a plan of strands begins it in the moment in which the strands end."""
    heal_ns, final_ns = (sound.phases[name] for name in ("heal", "final-reads"))
    (last,) = sound.run.operations[-1:]
    late = replace(last, type=EventType.FAIL, error="not_controller", invoke_ns=heal_ns + 1)
    before = [o for o in sound.run.operations if o.invoke_ns < heal_ns]
    run = replace(sound.run, operations=[*before, replace(late, complete_ns=heal_ns + 2)])
    assert heal_ns + 1 < final_ns
    assert last_phase(replace(sound, run=run)).status is Status.PASS


@pytest.mark.parametrize("has_key", [False, True])
def test_the_last_operation_that_was_never_served_is_named_with_its_error(sound, has_key):
    """A replica's log that cannot be read has the key of the leader's, a group's join has none."""
    (last,) = sound.run.operations[-1:]
    key = last.key if has_key else None
    tried = replace(last, f="join-all", key=key, type=EventType.FAIL, error="not_coordinator")
    end_ns = last.complete_ns
    tried = replace(tried, invoke_ns=end_ns + 1, complete_ns=end_ns + 2)
    operations = [*sound.run.operations, tried]
    outcome = last_phase(replace(sound, run=replace(sound.run, operations=operations)))
    assert outcome.status is Status.UNKNOWN
    of = f" of {key}" if has_key else ""
    assert f"no join-all{of} was ok; the last ended in not_coordinator" in outcome.sentence


@pytest.mark.parametrize("fields", [{"sentinel": None}, {"read": []}, None])
def test_final_reads_were_taken_behind_a_committed_write(sound, fields):
    changed = events(
        lambda e: e if e.f != FINAL_READS else None if fields is None else with_value(e, **fields)
    )(sound)
    assert final_reads(changed).status is Status.UNKNOWN
    assert final_reads(of_other_system(changed)).status is None


@pytest.mark.parametrize(("said", "status"), [(True, "PASS"), ("yes", "UNDER-EXERCISED")])
def test_a_run_without_faults_was_asked_for_in_so_many_words(sound, said, status):
    outcome = faults_wanted(plan(faults=[], schedule=[], without_faults=said)(sound))
    assert outcome.status == Status(status)


def test_while_a_node_is_left_it_may_have_answered(sound):
    assert nodes_answered(events(killed_for_long)(sound)).status is Status.PASS
    strands = plan(strands=[{}])(events(all_killed)(sound))
    assert nodes_answered(strands).status is None, "a heal may be under way"


@pytest.mark.parametrize("f", ["read", "write"])
def test_no_read_and_no_write_is_served_while_all_are_dead(sound, f):
    killed = events(all_killed)(sound)
    kept = [op for op in killed.run.operations if op.f == f]
    found = nodes_answered(replace(killed, run=replace(killed.run, operations=kept)))
    assert found.status is Status.UNKNOWN


def test_what_was_under_way_when_all_were_killed_may_have_been_answered(sound):
    killed = events(all_killed)(sound)
    (hit_ns,) = (
        n.time_ns
        for n in killed.notes
        if n.f == "kill" and n.type is EventType.OK and n.value["phase"] == "inject"
    )
    early = [replace(o, invoke_ns=min(o.invoke_ns, hit_ns)) for o in killed.run.operations]
    run = replace(killed.run, operations=early)
    assert nodes_answered(replace(killed, run=run)).status is Status.PASS


def test_without_the_conditions_there_is_no_pass(sound):
    assert verdict(sound.checks) is Status.UNKNOWN
    assert verdict([]) is Status.UNKNOWN


def test_what_does_not_apply_is_named_with_its_reason(sound):
    earned = earn(sound)
    absent = [row for row in earned.statistics["conditions"] if row["status"] is None]
    assert [row["name"] for row in absent] == ["releases-run", "observations"]
    assert all(row["sentence"] and row["sentence"] in earned.summary for row in absent)


def test_each_fault_leaves_processes_and_leaders_alone_or_is_known_not_to():
    ending = {"kill", "stop", "power-loss", "torn-write"}
    ending |= {"restart", "upgrade", "address-change", "role-change"}
    ending |= {"bit-flip", "truncate-file", "disk-wipe", "disk-error", "log-dir-loss"}
    limiting = {"limit", "disk-full"}
    slow = {"bandwidth", "delay", "duplicate", "hold", "loss", "reorder", "timer-rate"}
    slow |= {"disk-slow", "disk-stall", "log-dir-move"}
    aside = {"clock-drift", "clock-jump", "clock-skew", "clock-strobe", "finalize", "snapshot"}
    assert set(FAULTS) - KEEPS_PROCESS == ending | limiting
    assert set(FAULTS) - DEPOSING == slow | aside | limiting
    assert set(FAULTS) >= KEEPS_PROCESS | DEPOSING | STARTS_AT_ONCE


def test_what_decides_the_verdict_is_named_first(sound):
    found = earn(crashed(events(heal_fails)(sound)))
    assert [row["kind"] for row in found.anomalies] == ["deaths-meant", "faults-healed"]
    assert found.status is Status.FAIL
    assert found.summary.startswith("n2 ended by")


def test_the_gate_recomputes_the_conditions_of_a_forged_pass(store, tmp_path):
    """The journal tells of a heal that failed; digests and the old PASS were made to follow."""

    def heal_failed(rows):
        for row in rows:
            if row["f"] == "kill" and row["type"] == "ok" and row["value"]["phase"] == "heal":
                row["value"] |= {"verified": False, "detail": {"reason": "n3 does not answer"}}

    run = copy_of(store, tmp_path)
    judge(run.store)
    run.edit_rows("history.jsonl", heal_failed)
    forge(run.store, rejudge=False)
    entry = gate_folder(run.store.folder, rules_of(Policy()))
    assert entry.status is Status.UNKNOWN
    assert "not healed: n3" in entry.line

"""What must have been tried before a PASS means anything; no plan gets below the floor."""

from dataclasses import replace

import pytest

from checkers.history import NEMESIS, Event, EventType, pair
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.runs.exercised import can_depose, options_of, shortfalls, total
from checkers.verdict import Status

OK, INFO = EventType.OK, EventType.INFO
KILL = {"phase": "inject", "targets": ["n1"], "verified": True, "entry": 0}


def nemesis(f, value, kind=OK):
    return NEMESIS, kind, f, value


def leader(name, epoch):
    return nemesis("leader", {"leader": name, "epoch": epoch})


def run_of(reads=30, writes=30, *notes, refused_reads=0):
    """A journal of so many operations that were ok, and what the nemesis notes."""
    rows = list(notes)
    for f, kind, count in (
        ("read", OK, reads),
        ("write", OK, writes),
        ("read", EventType.FAIL, refused_reads),
    ):
        for _ in range(count):
            rows += [(0, EventType.INVOKE, f, None), (0, kind, f, None)]
    events = [
        Event(index, index, process, kind, f, None, value)
        for index, (process, kind, f, value) in enumerate(rows)
    ]
    return RunInput(events, pair(events))


def judged(run, **options):
    return run_check(CheckSpec("exercised", options), run)


def kinds(result):
    return [anomaly["kind"] for anomaly in result.anomalies]


TYPICAL = (
    leader("n1", 1),
    nemesis("kill", KILL),
    leader("n2", 2),
    nemesis("pause", {**KILL, "verified": False}, INFO),
)


def test_a_run_that_met_its_expectations_is_exercised():
    expectations = {"min_operations": 60, "faults": ["kill"], "leader_changes": 1}
    result = judged(run_of(30, 30, *TYPICAL), expectations=expectations)
    assert (result.status, result.anomalies) == (Status.PASS, ())
    summary = "60 operations ok (30 reads, 30 writes), faults that bit: kill 1, 1 leader change"
    assert result.summary == summary


@pytest.mark.parametrize(
    ("expectations", "kind"),
    [
        ({"min_operations": 61}, "too-few-operations"),
        ({"faults": ["kill", "pause"]}, "fault-did-not-bite"),
        ({"faults": ["partition"]}, "fault-did-not-bite"),
        ({"leader_changes": 2}, "too-few-leader-changes"),
    ],
)
def test_a_run_that_fell_short_is_under_exercised(expectations, kind):
    result = judged(run_of(30, 30, *TYPICAL), expectations=expectations)
    assert (result.status, kinds(result)) == (Status.UNDER_EXERCISED, [kind])


@pytest.mark.parametrize(
    ("reads", "writes", "short"),
    [
        (25, 25, []),
        (25, 24, ["too-few-operations"]),
        (10, 90, []),
        (9, 90, ["too-few-reads"]),
        (90, 9, ["too-few-writes"]),
        (90, 0, ["too-few-writes"]),
        (0, 90, []),
        (4, 4, ["too-few-operations", "too-few-reads", "too-few-writes"]),
    ],
)
def test_what_expects_nothing_needs_so_many_operations(reads, writes, short):
    for expectations in ({}, {"min_operations": 0}):
        assert kinds(judged(run_of(reads, writes), expectations=expectations)) == short


def test_reads_that_were_tried_and_never_ok_are_missed():
    assert kinds(judged(run_of(0, 90, refused_reads=1))) == ["too-few-reads"]
    short = ["too-few-operations", "too-few-reads"]
    assert kinds(judged(run_of(9, 40, refused_reads=90))) == short


def test_how_much_was_tried_can_be_read_by_a_machine():
    result = judged(run_of(20, 40, *TYPICAL), expectations={"faults": ["kill", "pause"]})
    assert result.statistics == {
        "ok": 60,
        "reads": 20,
        "writes": 40,
        "faults_planned": ["kill", "pause"],
        "faults_tried": {"kill": 1, "pause": 1},
        "faults_verified": {"kill": 1},
        "leader_changes": 1,
        "without_faults": False,
        "skipped": [],
        "needed": {"ok": 50, "reads": 10, "writes": 10, "leader_changes": 0},
    }


def test_a_run_of_which_every_fault_was_skipped_tried_nothing():
    run, skipped = run_of(30, 30, *TYPICAL), {"skipped": ["loss"]}
    assert kinds(judged(run, **skipped, nothing_left=True)) == ["nothing-left"]
    assert judged(run, **skipped).summary.endswith("SKIPPED as impossible there: loss")


@pytest.mark.parametrize("faults", [[], ["pause"]])
@pytest.mark.parametrize(("verified", "kind"), [(False, OK), (True, INFO), ("yes", OK)])
def test_a_run_is_without_faults_where_none_bit(faults, verified, kind):
    pause = nemesis("pause", {**KILL, "verified": verified}, kind)
    run = run_of(30, 30, pause, nemesis("kill", {**KILL, "phase": "heal"}))
    result = judged(run, expectations={"faults": faults})
    assert result.statistics["without_faults"] is True


@pytest.mark.parametrize(
    ("detail", "status"),
    [({}, Status.PASS), ({"ended_early": ["nothing is lost"]}, Status.UNDER_EXERCISED)],
)
@pytest.mark.parametrize(
    ("injected", "healed"),
    [({"entry": 0}, {"entry": 0}), ({"entry": "1.1"}, {"entry": "1.3"}), ({"entry": "1.1"}, {})],
    ids=["by the schedule", "by a step", "at the end"],
)
def test_a_fault_that_had_ended_when_it_was_healed_did_not_bite(detail, status, injected, healed):
    fields = {"verified": True, "targets": ["n1"]}
    run = run_of(
        30,
        30,
        nemesis("loss", {"phase": "inject", **fields, **injected}),
        nemesis("loss", {"phase": "heal", **fields, **healed, "detail": detail}),
    )
    assert judged(run, expectations={"faults": ["loss"]}).status is status


def test_the_end_of_another_fault_takes_nothing_from_one_that_bit():
    """An attempt that took no effect is healed, and tells that of itself, beside one that did."""
    fields, gone = {"verified": True, "targets": ["n1"]}, {"ended_early": ["nothing is lost"]}
    run = run_of(
        30,
        30,
        nemesis("loss", {"phase": "inject", "entry": 0, **fields}),
        nemesis("loss", {"phase": "inject", "entry": 1, **fields, "verified": False}, INFO),
        nemesis("loss", {"phase": "heal", "entry": 1, **fields, "detail": gone}),
        nemesis("loss", {"phase": "heal", "entry": 0, **fields}),
    )
    assert judged(run, expectations={"faults": ["loss"]}).status is Status.PASS


def test_the_same_node_may_win_the_next_epoch():
    again = run_of(30, 30, leader("n1", 1), leader("n1", 2))
    assert judged(again).statistics["leader_changes"] == 1
    twice_seen = run_of(30, 30, leader("n1", 1), leader("n2", 2), leader("n1", 1))
    assert judged(twice_seen).statistics["leader_changes"] == 1


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [((1, 2), (), 0), ((1, 2), (2, 3), 1), ((), (1, 2), 1), ((), (), 0)],
)
def test_elections_before_the_first_fault_are_no_exercise(before, after, changes):
    notes = [leader("n1", epoch) for epoch in before]
    notes += [nemesis("kill", KILL), *(leader("n1", epoch) for epoch in after)]
    assert judged(run_of(30, 30, *notes)).statistics["leader_changes"] == changes


def test_elections_while_nodes_are_upgraded_in_turn_are_exercise():
    done = {"phase": "inject", "verified": True, "detail": {"took_ms": 2500}}
    led = [leader("n1", epoch) for epoch in (1, 2, 3)]
    run = run_of(30, 30, *led, nemesis("upgrade", done))
    assert judged(run).statistics["leader_changes"] == 2


def test_a_run_without_operations_is_never_exercised():
    assert judged(RunInput([], [])).status is Status.UNDER_EXERCISED


def test_operations_of_the_end_are_no_exercise():
    """They are repeated until they are ok, however often that is."""
    heal = Event(0, 0, NEMESIS, OK, "phase", None, {"name": "heal"})
    run = run_of(30, 30)
    after = RunInput([heal, *run.events], run.operations)
    assert judged(after).statistics["ok"] == 0
    assert judged(after).status is Status.UNDER_EXERCISED


PLAN = {"rate_per_s": 100, "duration_s": 60, "nodes": 3, "faults": ["kill"]}


def expected(**changes):
    return options_of({**PLAN, **changes})["expectations"]


def test_the_floor_is_a_tenth_of_the_rate_each_fault_and_a_leader_change():
    floor = {"min_operations": 600, "faults": ["kill"], "leader_changes": 1}
    assert expected() == floor
    none = {"min_operations": 0, "faults": [], "leader_changes": 0}
    assert expected(expectations=none) == floor
    assert options_of(PLAN, {"expectations": none})["expectations"] == floor


def test_no_leader_changes_where_none_leads():
    assert [expected(leaderless=value)["leader_changes"] for value in (True, "yes")] == [0, 1]


def test_a_plan_may_expect_more_than_the_floor():
    more = {"min_operations": 700, "faults": ["pause"], "leader_changes": 3}
    wanted = {**more, "faults": ["kill", "pause"]}
    assert expected(expectations=more) == wanted
    assert options_of(PLAN, {"expectations": more})["expectations"] == wanted


def test_of_two_bounds_on_an_outage_the_lower_one_is_kept():
    loose, strict = ({"expectations": {"write_outage_max_s": bound}} for bound in (40, 1.5))
    for plan, own in ((loose, strict), (strict, loose), (strict, {})):
        kept = options_of({**PLAN, **plan}, own)["expectations"]
        assert kept["write_outage_max_s"] == 1.5


def test_the_shortest_plan_still_needs_the_absolute_floor():
    wanted = {"min_operations": 50, "faults": [], "leader_changes": 0}
    assert expected(rate_per_s=0.5, duration_s=1, faults=[]) == wanted
    for plan in ({}, {"rate_per_s": 10_000}, {"duration_s": 10_000}):
        assert options_of(plan)["expectations"] == wanted


def test_scheduled_faults_are_planned_too_and_a_verb_of_a_strand_is_none():
    schedule = [{"fault": "pause"}, {"fault": "kill"}]
    assert expected(schedule=schedule)["faults"] == ["kill", "pause"]
    steps = [{"kind": kind} for kind in ("cast", "op", "hold", "wait", "release", "heal", "expect")]
    assert expected(schedule=[{"steps": steps}], faults=[])["faults"] == ["hold"]


def test_a_strand_can_depose_a_leader_as_a_timed_fault_can():
    for targets, changes in (("leader", 1), ("followers", 0)):
        schedule = [{"steps": [{"kind": "kill", "targets": targets}]}]
        assert expected(schedule=schedule, faults=[])["leader_changes"] == changes


def test_skipped_faults_are_named_and_a_plan_without_any_left_is_marked():
    skipped = [{"fault": "loss", "reason": "no nft"}]
    assert options_of({**PLAN, "skipped": skipped})["nothing_left"] is False
    left = options_of({**PLAN, "faults": [], "skipped": skipped})
    assert (left["skipped"], left["nothing_left"]) == (["loss"], True)


@pytest.mark.parametrize(
    ("entry", "can"),
    [
        ({"fault": "kill"}, True),
        ({"fault": "kill", "parameters": {"targets": "leader"}}, True),
        ({"fault": "kill", "parameters": {"targets": "node:n2"}}, True),
        ({"fault": "kill", "parameters": {"targets": "followers"}}, False),
        ({"fault": "partition", "parameters": {"shape": "isolate", "targets": "leader"}}, True),
        ({"fault": "partition", "parameters": {"shape": "halves"}}, True),
        ({"fault": "partition", "parameters": {"shape": "bridge"}}, False),
        ({"fault": "partition", "parameters": {"shape": "one-way"}}, False),
        (
            {
                "fault": "partition",
                "parameters": {"shape": "isolate", "targets": "leader", "direction": "outgoing"},
            },
            True,
        ),
        ({"fault": "delay", "parameters": {"targets": "leader"}}, False),
    ],
)
def test_which_faults_can_depose_a_leader(entry, can):
    assert can_depose({"nodes": 3, "schedule": [entry]}) is can
    assert can_depose({"nodes": 1, "schedule": [entry]}) is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate_per_s", "x"),
        ("rate_per_s", float("nan")),
        ("duration_s", 10**400),
        ("duration_s", -1),
        ("nodes", True),
        ("faults", "kill"),
        ("schedule", [3]),
        ("schedule", [{"fault": ["kill"]}]),
        ("schedule", [{"fault": "kill", "parameters": True}]),
        ("schedule", [{"steps": [{"kind": ["kill"]}]}]),
        ("skipped", ["loss"]),
        ("expectations", [1]),
        ("expectations", {"min_operations": -5}),
    ],
)
def test_a_plan_that_is_none_is_refused(field, value):
    with pytest.raises(ValueError, match=field.removesuffix("s")):
        options_of({**PLAN, field: value})


@pytest.mark.parametrize("parameters", [{"targets": ["leader"]}, {"shape": {}}])
def test_a_fault_with_an_aim_that_is_no_name_is_refused(parameters):
    entry = {"fault": "partition", "parameters": parameters}
    with pytest.raises(ValueError, match=f"{min(parameters)} must be a name"):
        can_depose({"nodes": 3, "schedule": [entry]})


def test_runs_are_added_up_with_what_each_of_them_needed():
    quiet = judged(run_of(5, 5), expectations={"faults": ["kill"]}).statistics
    busy = judged(run_of(100, 100, *TYPICAL), expectations={"faults": ["kill"]}).statistics
    both = total([quiet, busy])
    assert (both["ok"], both["needed"]["ok"]) == (210, 100)
    assert shortfalls(both) == []
    missed = [anomaly["kind"] for anomaly in shortfalls(total([quiet] * 3))]
    wanted = ["too-few-operations", "too-few-reads", "too-few-writes", "fault-did-not-bite"]
    assert missed == wanted
    assert shortfalls(total([])) == []


def missing(place, **more):
    return nemesis("missing", {"place": place, "kind": "kill", **more}, INFO)


def test_steps_that_never_came_are_said_and_too_little_where_the_plan_wants_them():
    others = missing("step 4"), missing("step 2", until={"state": "Leader"})
    passed = judged(run_of(30, 30, *TYPICAL, *others))
    assert passed.status is Status.PASS
    never, unmet = "never came: 1, first step 4 (kill)", "without their condition: 1, first step 2"
    assert (never in passed.summary, unmet in passed.summary) == (True, True)
    wanted = judged(run_of(30, 30, *TYPICAL, missing("step 3", wanted=True), *others))
    assert (wanted.status, kinds(wanted)) == (Status.UNDER_EXERCISED, ["step-never-came"])
    assert shortfalls(total([wanted.statistics, passed.statistics])) == []
    both = shortfalls(total([wanted.statistics, wanted.statistics]))
    assert [anomaly["kind"] for anomaly in both] == ["step-never-came"]


def test_too_little_that_was_ok_names_what_clients_met_most_often():
    run = run_of(5, 5)
    errors = ["timeout"] * 3 + ["10003"] * 9 + ["refused"] * 2 + ["rare"]
    rows = [(e, kind) for e in errors for kind in (EventType.INVOKE, EventType.FAIL)]
    events = [
        Event(index, index, 1, kind, "read", None, None, error if kind is EventType.FAIL else None)
        for index, (error, kind) in enumerate(rows, len(run.events))
    ]
    found = judged(RunInput([*run.events, *events], run.operations)).summary
    assert found.endswith("commonest errors of clients: 10003 (9), timeout (3), refused (2)")
    assert "commonest" not in judged(run).summary


def test_what_a_workload_does_first_and_last_is_no_load():
    phase = [nemesis("phase", {"name": name}) for name in ("faults", "heal")]
    setup = run_of(3, 0).events
    rows = [*setup, *run_of(0, 60, phase[0]).events, *run_of(4, 0, phase[1]).events]
    events = [replace(event, index=n, time_ns=n) for n, event in enumerate(rows)]
    tried = judged(RunInput(events, pair(events))).statistics
    assert (tried["reads"], tried["writes"], tried["needed"]["reads"]) == (0, 60, 0)

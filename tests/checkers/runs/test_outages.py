"""An outage of writes while most nodes are whole is no PASS, beyond the bound of the plan."""

from dataclasses import replace

import pytest

from checkers.earned.base import Judged
from checkers.earned.outages import OUTAGE_MAX_S, writes_served
from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.run_input import RunInput
from checkers.runs.faults import fault_spans
from checkers.verdict import Status

S = 10**9
LEADER = ("n1",)
PLAN = {"nodes": 3, "backend": "local", "operation_timeout_ms": 800, "expectations": {}}


def fault(name, targets, begin_s, end_s, detail=None):
    def note(at_s, kind, phase):
        value = {"phase": phase, "fault": name, "targets": list(targets), "verified": True}
        return Event(0, int(at_s * S), NEMESIS, kind, name, value={**value, "detail": detail or {}})

    return [note(begin_s, EventType.OK, "inject"), note(end_s, EventType.OK, "heal")]


def phase(name, at_s):
    return Event(0, at_s * S, NEMESIS, EventType.OK, "phase", value={"name": name})


def judged(faults=(), *, down=(10, 40), f="write", every_s=0.5, plan=None):
    """A minute in which one write and one read are tried at a time; in `down` no write is ok."""
    operations, ends = [], []
    notes = [phase("faults", 0), *faults, phase("heal", 58)]
    for number in range(int(60 / every_s)):
        begin = int(number * every_s * S)
        served = not down[0] * S <= begin < down[1] * S
        kind = EventType.OK if served else EventType.INFO
        for name, ended in ((f, kind), ("read", EventType.OK)):
            index, end, at = len(operations), begin + S // 100, len(notes) + len(ends)
            ends.append(Event(at, end, index, ended, name))
            operations.append(
                Operation(index, index, name, None, 1, 1, ended, begin, end, end_index=at)
            )
    run = RunInput([*notes, *ends], operations)
    return Judged(run, [], [], {**PLAN, **(plan or {})})


def status(*args, **fields):
    return writes_served(judged(*args, **fields)).status


def test_an_outage_without_any_fault_is_no_pass():
    outcome = writes_served(judged())
    assert outcome.status is Status.UNKNOWN
    assert "30.0 s from 10.0 s" in outcome.sentence
    assert status(down=(10, 10 + OUTAGE_MAX_S)) is Status.PASS
    assert status(down=(0, 0)) is Status.PASS


def test_clients_that_hang_until_one_long_time_out_miss_something():
    whole = judged(down=(0, 0))
    begin, end = 10 * S, 50 * S
    events = [*whole.run.events, Event(3, end, 1, EventType.INFO, "write")]
    kept = [op for op in whole.run.operations if not begin <= op.invoke_ns < end]
    hung = replace(kept[0], type=EventType.INFO, invoke_ns=begin, end_index=len(events) - 1)
    operations = sorted([*kept, hung], key=lambda op: op.invoke_ns)
    found = writes_served(replace(whole, run=RunInput(events, operations)))
    assert found.status is Status.UNKNOWN
    assert "no write was ok for 35.0 s from 10.0 s" in found.sentence


@pytest.mark.parametrize(
    "kind",
    [
        *("clock-jump", "clock-skew", "clock-drift", "clock-strobe", "snapshot", "finalize"),
        *("pause", "kill", "partition", "resign", "voters"),
    ],
)
def test_a_fault_on_a_minority_is_no_reason_for_an_outage(kind):
    assert status(fault(kind, LEADER, 10, 40)) is Status.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        ("kill", ("n1", "n2")),
        ("partition", ("n1", "n2", "n3")),
        ("delay", LEADER),
        ("disk-slow", LEADER),
        ("fault-of-a-package", LEADER),
    ],
)
def test_a_fault_that_takes_the_majority_or_cripples_a_leader_is(kind, targets):
    assert status(fault(kind, targets, 10, 40)) is Status.PASS
    # Behind it the bound begins anew.
    assert status(fault(kind, targets, 10, 26)) is Status.PASS
    assert status(fault(kind, targets, 10, 24)) is Status.UNKNOWN


def test_two_faults_that_overlap_may_take_the_majority_together():
    both = [*fault("kill", ("n1",), 10, 40), *fault("pause", ("n2",), 11, 39)]
    assert status(both) is Status.PASS
    assert status(both, plan={"nodes": 5}) is Status.UNKNOWN


@pytest.mark.parametrize(("major_s", "minor_s"), [(5, 50), (50, 5)])
def test_faults_of_other_times_are_no_reason(major_s, minor_s):
    major = fault("kill", ("n1", "n2"), major_s, major_s + 2)
    minor = fault("kill", ("n3",), minor_s, minor_s + 2)
    notes = sorted([*major, *minor], key=lambda event: event.time_ns)
    assert status(notes) is Status.UNKNOWN


def test_a_plan_states_its_bound():
    allowed = {"expectations": {"write_outage_max_s": 40}}
    assert status(plan=allowed) is Status.PASS
    strict = {"expectations": {"write_outage_max_s": 1.5}}
    assert status(down=(10, 14), plan=strict) is Status.UNKNOWN


def test_where_nobody_tries_nothing_is_missed():
    assert status(every_s=9) is Status.PASS
    patient = {"operation_timeout_ms": 8_000}
    assert status(every_s=9, plan=patient) is Status.UNKNOWN


def test_who_is_needed_is_unknown_of_nodes_with_roles_and_of_systems_without_a_leader():
    roles = {"nodes": 6, "system_options": {"roles": "controller,broker"}}
    assert status(fault("kill", ("n1",), 10, 40), plan=roles) is Status.PASS
    assert status(plan=roles) is Status.UNKNOWN
    others = {"system_options": {"acks": "all"}}
    assert status(fault("kill", ("n1",), 10, 40), plan=others) is Status.UNKNOWN
    leaderless = {"leaderless": True}
    assert status(fault("kill", ("n1",), 10, 40), plan=leaderless) is Status.PASS
    assert status(plan=leaderless) is Status.UNKNOWN
    # A lock that is taken may be refused to everybody else for long.
    assert status(f="acquire", plan=leaderless) is Status.PASS


def test_one_of_two_voters_that_clients_left_is_needed():
    def with_change(*faults):
        run = judged(faults)
        index, end = len(run.run.operations), len(run.run.events)
        change = Operation(
            index, 0, "change-voters", None, None, None, EventType.OK, S, 2 * S, end_index=end
        )
        ended = Event(end, 2 * S, 0, EventType.OK, "change-voters")
        more = RunInput([*run.run.events, ended], [*run.run.operations, change])
        return writes_served(Judged(more, [], [], run.required_plan)).status

    assert with_change(*fault("kill", LEADER, 10, 40)) is Status.PASS
    assert with_change() is Status.UNKNOWN


def test_simulated_time_has_no_such_bound():
    assert status(plan={"backend": "sim"}) is None


def test_the_end_of_a_run_is_not_of_this_condition():
    assert status(down=(50, 60)) is Status.PASS


def test_a_fault_for_good_is_over_when_it_worked_and_began_when_it_was_applied():
    took = {"took_ms": 20_000}
    done = fault("upgrade", ("n1",), 30, 58, took)
    [span] = fault_spans(done)
    assert (span.begin_ns, span.end_ns, span.healed) == (10 * S, 30 * S, True)
    pair = [*done, *fault("kill", ("n2",), 12, 28)]
    assert status(pair, down=(12, 28)) is Status.PASS, "two of three were down"
    assert status([*done, *fault("kill", ("n2",), 31, 58)], down=(31, 57)) is Status.UNKNOWN


def test_a_fault_that_began_before_it_was_journaled_lasts_until_its_heal():
    [span] = fault_spans(fault("role-change", ("n1",), 30, 58, {"since_ms": 20_000}))
    assert (span.begin_ns, span.end_ns, span.healed) == (10 * S, 58 * S, True)


@pytest.mark.parametrize(
    ("f", "write"),
    [
        *((f, "write") for f in ("read", "poll", "consume", "abandon", "join-all", "offsets")),
        *(("move-leader", "send"), ("leave", "send")),  # served by others than partitions' leaders
    ],
)
def test_what_is_no_write_of_clients_hides_no_outage(f, write):
    found = judged(f=write)
    named = [replace(o, f=f) if o.f == "read" else o for o in found.run.operations]
    assert writes_served(replace(found, run=replace(found.run, operations=named))).status is (
        Status.UNKNOWN
    )


SHOWN = {"records": {"g0-0": [[7, "w1.1"]]}}


def group(down, *, f="consume", wanted=("groups",), shown=SHOWN):
    """Producers are served all the time; in `down` no member of the group is."""
    found = judged(f=f, down=down)
    served = [
        replace(o, f="send") if o.f == "read" else replace(o, output=shown)
        for o in found.run.operations
    ]
    return writes_served(replace(found, run=replace(found.run, operations=served), wanted=wanted))


@pytest.mark.parametrize("f", ["consume", "commit"])
def test_a_group_that_stands_still_while_producers_are_served_is_no_pass(f):
    outcome = group((10, 40), f=f)
    assert outcome.status is Status.UNKNOWN
    assert "the consumer group stood still: no member was served for 30.0 s" in outcome.sentence


def test_a_rebalance_holds_a_group_up_for_less_than_the_bound():
    assert group((10, 10 + OUTAGE_MAX_S)).status is Status.PASS


def test_consumes_that_are_of_no_group_are_not_asked_for():
    assert group((10, 40), wanted=("queue",)).status is Status.PASS


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ({"partitions": [], "committed": {}}, Status.PASS),
        ({"records": {"g0-0": []}}, Status.UNKNOWN),
        ({"records": {}}, Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_a_poll_that_shows_nothing_is_no_service(shown, status):
    """Kafka's own consumer answers a poll so while no node runs at all."""
    assert group((0, 0), shown=shown).status is status


def test_what_waits_for_the_start_of_a_group_is_no_outage():
    found = judged(down=(0, 30))
    notes = [phase("faults", 25) if e.value == {"name": "faults"} else e for e in found.run.events]
    later = replace(found, run=RunInput(notes, found.run.operations))
    assert writes_served(found).status is Status.UNKNOWN
    assert writes_served(later).status is Status.PASS

"""Check quorum by traces: a violation only where no voter can have followed the leader."""

from typing import Any

import pytest

from checkers.evidence import TraceEvent, run_clock
from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.leader_age import leaders_by_their_word
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status
from tests.checkers.evidence.run_evidence import good_run, with_evidence

pytestmark = pytest.mark.usefixtures("of_the_quorum_alone")

TIMEOUT_MS = 1500.0
ALONE_FROM_S = 3.0
END_S = 30.0


def start(node: str, **fields: Any) -> tuple[float, str, dict[str, Any]]:
    settings = {"node_id": int(node[1:]), "directory_id": "d"}
    settings |= {"clock": "boot", "check_quorum_timeout_ms": TIMEOUT_MS}
    return 0.0, "start", settings | fields


def state(at_s: float, node: str, leader: int, epoch: int = 1) -> tuple[float, str, dict[str, Any]]:
    name = "Leader" if node == f"n{leader}" else "Follower"
    voted = int(node[1:]) if name == "Leader" else -1
    return at_s, "state", {"state": name, "epoch": epoch, "leader_id": leader, "voted_id": voted}


def vote(at_s: float, *, granted: bool) -> tuple[float, str, dict[str, Any]]:
    fields = {"epoch": 1, "candidate_id": 1, "pre_vote": False, "granted": granted}
    return at_s, "vote", fields


def events(node: str, *happened: tuple[float, str, dict[str, Any]]) -> list[TraceEvent]:
    in_order = sorted(happened, key=lambda event: event[0])
    return [TraceEvent(node, 0, int(at * 1e9), name, fields) for at, name, fields in in_order]


def voters(*ids: int) -> tuple[float, str, dict[str, Any]]:
    directories = {str(voter): "d" for voter in ids}
    return 0.1, "voters", {"offset": -1, "kraft_version": 0, "voters": directories}


def leader(
    *,
    appends_until_s: float,
    ids: tuple[int, ...] = (1, 2, 3),
    paused_s: tuple[float, float] = (0.0, 0.0),
    **fields: Any,
):
    """n1 leads from 1 s on, and appends twice a second."""
    times = (1.0 + 0.5 * n for n in range(int((appends_until_s - 1) * 2) + 1))
    appended = [
        (at_s, "append", {"epoch": 1, "base_offset": n, "last_offset": n, "role": "leader"})
        for n, at_s in enumerate(at for at in times if not paused_s[0] < at < paused_s[1])
    ]
    stands = {"state": "Candidate", "epoch": 1, "leader_id": -1, "voted_id": 1}
    led = ((0.8, "state", stands), state(0.9, "n1", 1))
    return events("n1", start("n1", **fields), voters(*ids), *led, *appended)


def follower(node: str, *, until_s: float, asked: int = 1, epoch: int = 1, **fields: Any):
    """Votes for n1, fetches three times a second, and is heard of at the very end."""
    fetch = {"epoch": epoch, "asked_id": asked, "leader_id": asked}
    fetch |= {"offset": 6, "durable_end_offset": 6}
    fetches = [(0.95 + n / 3, "fetch", fetch) for n in range(int((until_s - 0.95) * 3))]
    votes = (vote(0.85, granted=True), vote(END_S, granted=False))
    return events(node, start(node, **fields), state(0.9, node, asked, epoch), *votes, *fetches)


def run_of(*traces: list[TraceEvent], happened: tuple[Event, ...] = ()) -> RunInput:
    by_node = {trace[0].node: trace for trace in traces}
    run = good_run(traces=by_node, events=list(happened))
    assert run.evidence is not None
    nodes = tuple(sorted({*run.evidence.nodes, *by_node}))
    return with_evidence(run, nodes=nodes)


def found(run: RunInput) -> set[str]:
    result = run_check(CheckSpec("invariants"), run)
    assert result.status is not Status.UNKNOWN or not result.summary.startswith("the checker")
    return {str(anomaly["kind"]) for anomaly in result.anomalies}


def lonely(until_s: float, **fields: Any) -> RunInput:
    return run_of(
        leader(appends_until_s=until_s),
        follower("n2", until_s=ALONE_FROM_S, **fields),
        follower("n3", until_s=ALONE_FROM_S),
    )


def test_a_leader_that_leads_on_alone_is_reported():
    result = run_check(CheckSpec("invariants"), lonely(10))
    assert result.status is Status.FAIL
    (anomaly,) = result.anomalies
    assert (anomaly["kind"], anomaly["node"]) == ("led-alone", "n1")


def test_a_leader_that_goes_on_after_the_other_traces_ended_is_in_doubt():
    """Their traces may have been cut off: they may have fetched on."""
    run = lonely(10)
    assert run.evidence is not None
    cut = {
        node: [event for event in trace if node == "n1" or event.time_ns < ALONE_FROM_S * 1e9]
        for node, trace in run.evidence.traces.items()
    }
    run = with_evidence(run, traces=cut)
    result = run_check(CheckSpec("invariants"), run)
    assert result.status is Status.UNKNOWN
    assert "n1 still led" in result.summary


def test_a_leader_that_stops_in_time_passes():
    assert found(lonely(ALONE_FROM_S + 2 * (TIMEOUT_MS / 1000 + 1))) == set()


def test_one_follower_of_two_is_enough_and_none_is_needed_alone():
    followers = (follower("n2", until_s=12), follower("n3", until_s=ALONE_FROM_S))
    assert found(run_of(leader(appends_until_s=10), *followers)) == set()
    assert found(run_of(leader(appends_until_s=10, ids=(1,)))) == set()


@pytest.mark.parametrize(("until_s", "kinds"), [(12.0, set()), (15.0, {"led-alone"})])
def test_a_leader_that_removes_itself_may_wait_for_both_others(until_s, kinds):
    """The period that n2 began goes on, and n2 may end it with n3 a time-out later."""
    _, name, fields = voters(2, 3)
    trace = leader(appends_until_s=until_s)
    trace = sorted([*trace, *events("n1", (9.0, name, fields))], key=lambda event: event.time_ns)
    run = run_of(trace, follower("n2", until_s=END_S), follower("n3", until_s=ALONE_FROM_S))
    assert found(run) == kinds


def test_a_minority_that_follows_is_not_enough():
    few = [follower(f"n{n}", until_s=ALONE_FROM_S) for n in (3, 4, 5)]
    five = run_of(leader(appends_until_s=10, ids=(1, 2, 3, 4, 5)), follower("n2", until_s=12), *few)
    assert found(five) == {"led-alone"}


@pytest.mark.parametrize("fetches", [{"asked": 3}, {"epoch": 2}])
def test_a_voter_that_asks_another_or_in_another_epoch_does_not_follow(fetches):
    gone = (follower("n2", until_s=12, **fetches), follower("n3", until_s=2))
    assert "led-alone" in found(run_of(leader(appends_until_s=10), *gone))


@pytest.mark.parametrize(
    "fields",
    [{"clock": "another"}, {"clock": ""}, {"clock": None}, {"check_quorum_timeout_ms": None}],
)
def test_clocks_that_cannot_be_compared_leave_it_out_of_the_result(fields):
    assert found(lonely(10, **fields)) == set()
    result = run_check(CheckSpec("invariants"), lonely(10, **fields))
    assert "led-alone" in result.statistics["left_out"]


def test_clocks_that_can_be_compared_keep_it_in_the_result():
    result = run_check(CheckSpec("invariants"), lonely(10))
    assert "led-alone" not in result.statistics["left_out"]


def test_a_leader_of_an_unnamed_clock_is_not_judged():
    run = run_of(leader(appends_until_s=10, clock=""), follower("n2", until_s=3))
    assert found(run) == set()


def test_a_fetch_line_without_the_asked_node_is_no_violation():
    malformed = follower("n2", until_s=2)
    malformed += events("n2", (2.5, "fetch", {"offset": 6, "durable_end_offset": 6}))
    run = run_of(leader(appends_until_s=10), malformed, follower("n3", until_s=2))
    assert found(run) == set()


def test_a_leader_that_was_paused_may_go_on_for_one_time_out_after_it():
    paused = leader(appends_until_s=15, paused_s=(3, 13))
    followers = (follower("n2", until_s=ALONE_FROM_S), follower("n3", until_s=ALONE_FROM_S))
    assert found(run_of(paused, *followers)) == set()


@pytest.mark.parametrize(
    ("fault", "parameters"), [("delay", {"delay_ms": 3_000}), ("bandwidth", {"kbit_s": 16})]
)
def test_links_that_the_nemesis_made_slow_count_in_the_leaders_favour(fault, parameters):
    value = {"phase": "inject", "fault": fault, "entry": 0, "parameters": parameters}
    slow = (Event(0, 0, NEMESIS, EventType.INVOKE, fault, None, value),)
    until_s = 10.0
    followers = (follower("n2", until_s=ALONE_FROM_S), follower("n3", until_s=ALONE_FROM_S))
    assert found(run_of(leader(appends_until_s=until_s), *followers)) == {"led-alone"}
    assert found(run_of(leader(appends_until_s=until_s), *followers, happened=slow)) == set()
    other = (Event(0, 0, NEMESIS, EventType.INVOKE, "pause", None, {**value, "fault": "pause"}),)
    alone = run_of(leader(appends_until_s=until_s), *followers, happened=other)
    assert found(alone) == {"led-alone"}


def said(*times_s: float, node: str = "n1", epoch: int = 1) -> list[Event]:
    """Answers of a node, to whoever asked 100 ms before, that it leads an epoch."""
    value = {"node": node, "epoch": epoch, "took_ms": 100.0}
    return [note(at_s, "leads", value) for at_s in times_s]


def note(at_s: float, f: str, value: dict[str, Any]) -> Event:
    return Event(0, int(at_s * 1e9), NEMESIS, EventType.OK, f, value=value)


def every(step_s: float, begin_s: float, end_s: float) -> list[float]:
    return [begin_s + step_s * n for n in range(int((end_s - begin_s) / step_s) + 1)]


def deposed(
    *happened: Event, changed: bool = False, of_five: bool = False, appends: bool = False
) -> set[str]:
    """n1 leads epoch 1; n2 begins epoch 2 at 8 s, and n3, of five n5 as well, votes at 10 s."""
    clock = {"name": "start", "clock": "boot", "origin_ns": 0, "run": "r"}
    ids = (1, 2, 3, 4, 5) if of_five else (1, 2, 3)
    traces = [
        leader(appends_until_s=5, ids=ids)
        if appends
        else events("n1", start("n1"), voters(*ids), state(0.9, "n1", 1)),
        events("n2", start("n2"), voters(*ids), state(8.0, "n2", 2, epoch=2)),
        events("n3", start("n3"), voters(*ids[changed:]), state(10.0, "n3", 2, epoch=2)),
    ]
    if of_five:
        traces.append(events("n5", start("n5"), voters(*ids), state(10.0, "n5", 2, epoch=2)))
    in_order = sorted(happened, key=lambda event: event.time_ns)
    run = run_of(*traces, happened=(note(0.0, "phase", clock), *in_order))
    evidence = with_evidence(run, run_clock=run_clock(run.notes)).evidence
    assert evidence is not None
    return {str(found["kind"]) for found in leaders_by_their_word(evidence, run.notes)}


def test_who_says_for_too_long_that_it_leads_an_earlier_epoch_is_reported():
    assert deposed(*said(*every(0.3, 10.2, 13.0))) == {"led-alone"}


@pytest.mark.parametrize(
    "times_s",
    [
        every(0.3, 10.2, 12.4),  # a Fetch of the majority came just before the second answer
        every(0.3, 7.0, 12.4),  # n3 may have fetched until it left the epoch
        [10.2, 12.6],  # it may have been paused, with Fetches in its sockets
        [*every(0.3, 10.2, 11.2), *every(0.3, 13.0, 15.0)],
    ],
)
def test_a_deposed_leader_may_say_so_for_a_while(times_s):
    assert deposed(*said(*times_s)) == set()


@pytest.mark.parametrize(("end_s", "found"), [(13.0, set()), (15.0, {"led-alone"})])
def test_of_five_one_that_stays_may_end_a_period_that_another_began(end_s, found):
    assert deposed(*said(*every(0.3, 10.2, end_s)), of_five=True) == found


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("clock-jump", {"phase": "inject", "targets": ["n1"]}),
        ("delay", {"phase": "inject", "parameters": {"delay_ms": 3000}}),
    ],
)
def test_a_clock_that_was_touched_and_late_messages_excuse_it(f, value):
    answers = said(*every(0.3, 10.2, 13.0))
    assert deposed(note(9.0, f, value), *answers) == set()
    assert deposed(*answers, note(14.0, f, value)) == {"led-alone"}


def test_a_node_that_traces_appends_may_say_so_while_a_later_epoch_waits_for_its_disk():
    assert deposed(*said(*every(0.3, 10.2, 13.0)), appends=True) == set()


@pytest.mark.parametrize(("healed_s", "found"), [(9.0, {"led-alone"}), (11.0, set())])
def test_a_fetch_sent_before_a_partition_may_arrive_after_its_heal(healed_s, found):
    heal = note(healed_s, "partition", {"phase": "heal", "targets": ["n1"]})
    assert deposed(heal, *said(*every(0.3, 10.2, 17.0))) == found


def test_majorities_of_changed_voters_need_not_meet():
    assert deposed(*said(*every(0.3, 10.2, 13.0)), changed=True) == set()

"""The story with which the report of a FAIL begins."""

from dataclasses import replace

import pytest
from factory import CLOCK, SECOND, make_run

from checkers.evidence import Evidence, TraceEvent, run_clock
from checkers.history import NEMESIS, Event, EventType, pair
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from checkers.verdict import CheckResult, Status
from results.judge.pipeline import judge
from results.report.brief import headline_of
from results.report.narration import Line, answer_text, fault_text, shorten
from results.report.story import LINES_MAX, story_of


def story(store):
    results, plan, events = judge(store), store.plan(), store.events()
    evidence = replace(store.evidence(plan).evidence, run_clock=run_clock(events))
    return story_of(results.checks, plan, events, pair(events), evidence)


def failed(anomaly, name="linearizable"):
    return (CheckResult(name, Status.FAIL, "it is wrong", anomalies=(anomaly,)),)


def note(index, at_s, kind, fault, phase, **value):
    value = {"phase": phase, "fault": fault, "entry": 0, **value}
    return Event(index, int(at_s * SECOND), NEMESIS, kind, fault, value=value)


def write(index, at_s, kind, node=None, value="a"):
    return Event(index, int(at_s * SECOND), 1, kind, "write", "k", value, node=node)


CLOCKED = Event(
    0, 0, NEMESIS, EventType.OK, "phase", value={"name": "start", "clock": CLOCK, "origin_ns": 0}
)
CUT_OFF = (
    CLOCKED,
    note(1, 1, EventType.INVOKE, "kill", "inject", parameters={"targets": "leader"}),
    note(2, 1.5, EventType.OK, "kill", "inject", targets=["n2"], verified=True),
    write(3, 2, EventType.INVOKE),
    write(4, 3, EventType.OK, "n1"),
    note(5, 9, EventType.INVOKE, "kill", "heal"),
    note(6, 9.5, EventType.OK, "kill", "heal", targets=["n2"], verified=True),
)


def traced(*events, clock=CLOCK):
    """Evidence of one node, n1, of which each event is (seconds, name, fields)."""
    start = TraceEvent("n1", 0, 0, "start", {"node_id": 1, "clock": clock})
    trace = [TraceEvent("n1", 0, int(at * SECOND), name, fields) for at, name, fields in events]
    return Evidence(("n1",), {}, {}, {"n1": [start, *trace]}, {}, run_clock=run_clock(CUT_OFF))


def of_cut_off(anomaly, evidence=None, backend="local"):
    plan = {"backend": backend}
    return story_of(failed(anomaly), plan, CUT_OFF, pair(CUT_OFF), evidence)


def texts(found):
    return [step.text for step in found.steps]


@pytest.mark.slow
def test_a_stale_read_is_shown_with_its_values_its_nodes_and_who_led(tmp_path):
    found = story(make_run(tmp_path, stale_reads=1))
    assert found.check == "linearizable"
    assert found.steps[-1].violation
    assert found.steps[-1].text.startswith("linearizable, stale-read: ")
    shown = " | ".join(texts(found))
    assert "became leader of epoch 4" in shown
    assert " acknowledged write k" in shown
    assert 'with "w' in shown
    answered = [step for step in found.steps if "answered read" in step.text]
    assert answered[-1].role == "leader in epoch 4"
    assert all(step.source.startswith("history.jsonl, index ") for step in answered)


@pytest.mark.slow
def test_the_steps_are_in_the_order_of_time(tmp_path):
    found = story(make_run(tmp_path, stale_reads=1))
    times = [float(step.at.removesuffix(" s")) for step in found.steps]
    assert times == sorted(times)
    assert len(times) <= LINES_MAX


@pytest.mark.slow
def test_a_run_that_passed_has_no_story(tmp_path):
    assert story(make_run(tmp_path)) is None


@pytest.mark.parametrize("operations", [None, [99, "x", None]])
def test_what_only_the_end_shows_has_a_story_from_the_last_fault_to_the_end(operations):
    anomaly = {"kind": "divergent", "explanation": "they differ", "operations": operations}
    found = of_cut_off(anomaly)
    assert texts(found) == [
        "n2 was killed (SIGKILL)",
        "n2 was started",
        "linearizable, divergent: they differ",
    ]
    assert found.end_ns == int(9.5 * SECOND)


def test_a_decision_in_the_metadata_log_stands_where_its_record_was_appended():
    append = {"role": "leader", "epoch": 4, "base_offset": 50, "last_offset": 60}
    evidence = traced((2.5, "append", append | {"epoch": 3}), (4, "append", append))
    anomaly = {"kind": "unclean-election", "explanation": "e", "partition": "d0-1"}
    found = of_cut_off(anomaly | {"offset": 59, "epoch": 4}, evidence)
    assert found.end_ns == 4 * SECOND
    assert texts(found)[0] == "n2 was killed (SIGKILL)"
    assert found.steps[-1].violation


@pytest.mark.parametrize(
    ("after", "ends"),
    [
        ((8, "hw", {"epoch": 2, "offset": 6, "role": "follower"}), "8.0000 s"),
        ((8, "hw", {"epoch": 2, "offset": 5, "role": "follower"}), "9.5000 s"),
        ((7, "state", {"state": "Leader", "epoch": 3, "leader_id": 1, "voted_id": -1}), "7.0000 s"),
    ],
)
def test_of_a_node_that_traces_no_appends_it_stands_within_the_reign_of_its_epoch(after, ends):
    led = (0.5, "state", {"state": "Leader", "epoch": 2, "leader_id": 1, "voted_id": -1})
    decided = {"kind": "fenced-into-isr", "explanation": "it is", "offset": 5, "epoch": 2}
    found = of_cut_off(decided, traced(led, after))
    assert found.steps[-1].at == ends
    assert "n2 was killed" in texts(found)[1]


def test_a_violation_at_the_instant_of_an_election_is_of_a_leader():
    leads = {"state": "Leader", "epoch": 5, "leader_id": 1, "voted_id": -1}
    anomaly = {"kind": "leader-completeness", "explanation": "e", "node": "n1", "at_ns": 6 * SECOND}
    assert of_cut_off(anomaly, traced((6, "state", leads))).steps[-1].role == "leader in epoch 5"


def test_a_loss_ends_where_the_next_leader_begins_if_no_log_is_seen_to_be_cut():
    leads = {"state": "Leader", "epoch": 5, "leader_id": 1, "voted_id": -1}
    anomaly = {"kind": "acknowledged-lost", "explanation": "e", "operations": [3]}
    assert of_cut_off(anomaly, traced((6, "state", leads))).end_ns == 6 * SECOND
    cut = (7, "truncate", {"end_offset": 3, "epoch": 5})
    assert of_cut_off(anomaly, traced((6, "state", leads), cut)).end_ns == 7 * SECOND
    assert of_cut_off(anomaly).end_ns == 3 * SECOND


def test_a_loss_of_one_partition_does_not_end_where_the_log_of_another_is_cut():
    mine = {"topic": "d0", "partition": 1, "leader_epoch": 1, "from_offset": 9, "to_offset": 3}
    mine |= {"high_watermark": 3}
    cuts = ((5, "replica-truncated", mine | {"partition": 2}), (6, "replica-truncated", mine))
    anomaly = {"kind": "lost-write", "explanation": "e", "operations": [3], "key": "d0-1"}
    assert of_cut_off(anomaly, traced(*cuts)).end_ns == 6 * SECOND


def test_a_wrong_value_comes_before_an_answer_of_an_old_state():
    old = {"kind": "stale-answer", "explanation": "e", "operations": [3]}
    events = (
        *CUT_OFF,
        write(7, 10, EventType.INVOKE, value="b"),
        write(8, 11, EventType.OK, "n1", "b"),
    )
    stale = {"kind": "stale-read", "explanation": "e", "operations": [7]}
    checks = (*failed(old, "records"), *failed(stale))
    assert story_of(checks, {}, events, pair(events), None).check == "linearizable"
    assert story_of(checks[:1], {}, events, pair(events), None).check == "records"


def test_a_fault_that_was_there_is_shown_from_its_beginning():
    found = of_cut_off({"kind": "stale-read", "explanation": "e", "operations": [3]})
    assert texts(found) == [
        "n2 was killed (SIGKILL)",
        'n1 acknowledged write k = "a", asked by process 1 at 2.0000 s',
        "linearizable, stale-read: e",
    ]
    assert found.begin_ns == SECOND
    assert found.end_ns == 3 * SECOND


def test_a_fault_that_was_refused_at_first_begins_when_it_was_tried_again():
    refused = {"targets": [], "verified": False, "applied": False}
    events = (
        *CUT_OFF[:2],
        note(2, 1.2, EventType.INFO, "kill", "inject", **refused),
        note(3, 1.2, EventType.OK, "kill", "heal", **(refused | {"verified": True})),
        *(replace(event, index=event.index + 2) for event in CUT_OFF[2:]),
    )
    anomaly = {"kind": "stale-read", "operations": [5]}
    first = story_of(failed(anomaly), {"backend": "local"}, events, pair(events), None).steps[0]
    assert (first.at, first.text) == ("1.2000 s", "n2 was killed (SIGKILL)")


def test_a_step_that_was_journaled_late_is_shown_when_it_began():
    since = {"since_ms": 3_000}
    step = note(
        5, 4, EventType.OK, "role-change", "inject", targets=["n2"], verified=True, detail=since
    )
    heal = note(6, 9, EventType.OK, "role-change", "heal", targets=["n2"], verified=True)
    events = (*(event for event in CUT_OFF if event.process != NEMESIS or event.f == "phase"),)
    found = story_of(
        failed({"kind": "stale-read", "operations": [3]}),
        {"backend": "local"},
        (*events, step, heal),
        pair(events),
        traced(),
    )
    assert found is not None
    first = found.steps[0]
    assert (found.begin_ns, first.text) == (SECOND, "n2 was started as a broker alone")


def test_a_kill_in_the_simulated_world_is_a_power_loss():
    anomaly = {"kind": "stale-read", "explanation": "e", "operations": [3]}
    assert texts(of_cut_off(anomaly, backend="sim"))[0] == "n2 lost power"


def test_the_way_of_what_was_lost_goes_on_to_where_a_log_was_cut():
    evidence = traced(
        (2.5, "append", {"epoch": 1, "base_offset": 7, "last_offset": 7, "role": "leader"}),
        (8.0, "truncate", {"end_offset": 7, "epoch": 2}),
        (8.5, "truncate", {"end_offset": 3, "epoch": 2}),
    )
    anomaly = {"kind": "acknowledged-lost", "explanation": "e", "operations": [3]}
    assert texts(of_cut_off(anomaly, evidence))[-2:] == [
        "n1 cut its log back to offset 7",
        "linearizable, acknowledged-lost: e",
    ]
    over = {"epoch": 2, "base_offset": 7, "last_offset": 7, "role": "leader"}
    written_over = traced(
        (2.5, "append", {"epoch": 1, "base_offset": 7, "last_offset": 7, "role": "leader"}),
        (4.0, "append", {**over, "base_offset": 8, "last_offset": 8, "epoch": 1}),
        (5.0, "truncate", {"end_offset": 8, "epoch": 2}),
        (6.0, "append", over),
        (8.0, "truncate", {"end_offset": 7, "epoch": 2}),
    )
    assert of_cut_off(anomaly, written_over).end_ns == 6 * SECOND
    seen = {**anomaly, "kind": "stale-read"}
    assert "n1 cut its log back to offset 7" not in texts(of_cut_off(seen, evidence))


def test_an_open_write_is_shown_when_it_was_asked():
    events = (CLOCKED, write(1, 2, EventType.INVOKE, "n3"))
    anomaly = {"kind": "x", "explanation": "e", "operations": [1], "at_ns": 4 * SECOND}
    found = story_of(failed(anomaly), {}, events, pair(events), None)
    assert texts(found)[0] == 'process 1 asked n3 to write k = "a"'


def test_of_two_violations_the_earlier_that_clients_saw_is_shown():
    checks = (
        *failed({"kind": "early", "explanation": "e", "at_ns": 2 * SECOND + 1}, "invariants"),
        *failed({"kind": "stale-read", "explanation": "e", "operations": [3]}),
    )
    found = story_of(checks, {}, CUT_OFF, pair(CUT_OFF), None)
    assert found.check == "linearizable"
    assert "invariants, early: e" in texts(found)


def test_a_node_of_another_clock_is_named():
    evidence = traced((2.5, "truncate", {"end_offset": 7, "epoch": 2}), clock="of another host")
    found = of_cut_off({"kind": "x", "explanation": "e", "operations": [3]}, evidence)
    assert found.silent == ("n1",)
    untraced = replace(traced(), traces={"n1": []})
    assert of_cut_off(found.anomaly, untraced).silent == (), "nobody expects a trace of it"
    assert not any("cut its log" in text for text in texts(found))


def test_a_damaged_line_of_a_trace_is_left_out():
    evidence = traced((2.5, "state", {"state": "Leader", "epoch": "nine"}))
    found = of_cut_off({"kind": "x", "explanation": "e", "operations": [3]}, evidence)
    assert not any("became leader" in text for text in texts(found))


@pytest.mark.parametrize("parameters", [{"direction": "up"}, {"keep": ["odd"]}, {"links": 7}])
def test_parameters_that_no_fault_has_are_shown_as_they_are(parameters):
    events = [CLOCKED, note(1, 1, EventType.OK, "kill", "inject", targets=["n2"], verified=True)]
    events[1] = replace(events[1], value={**events[1].value, "parameters": parameters})
    events.append(write(3, 2, EventType.INVOKE))
    anomaly = {"kind": "x", "explanation": "e", "operations": [3]}
    found = story_of(failed(anomaly), {}, events, pair(events), None)
    assert "n2 lost power" in texts(found)[0] or "n2 was killed" in texts(found)[0]


def test_braces_in_a_name_stay_text():
    assert fault_text("pause", ["{nodes}{0}"], (), {}, undone=False).startswith("{nodes}{0} was")


# -- long stories ---------------------------------------------------------------------------------


def test_appends_in_a_row_are_one_line_before_the_one_of_their_commits():
    appends = [Line(t, 1, "", "n1", 2, "appended {offsets}", (t, t)) for t in (1, 3, 5)]
    commits = [Line(t, 1, "", "n1", 2, "committed below {last}", (t, t)) for t in (2, 4, 6)]
    first, second = shorten([*appends, *commits], 10)
    assert (first.at_ns, first.text) == (1, "n1 appended offsets 1 to 5")
    assert (second.at_ns, second.text) == (6, "n1 committed below 6")


def test_details_go_first_when_a_story_is_too_long():
    facts = [Line(t, 0, f"fault {t}") for t in range(0, 20, 2)]
    details = [Line(t, 1, f"vote {t}", detail=1) for t in range(1, 20, 2)]
    assert shorten([*facts, *details], 15) == facts
    assert len(shorten([*facts, *details], 20)) == 20


def test_then_the_middle_goes_and_the_end_stays():
    kept = shorten([Line(t, 0, f"fault {t}") for t in range(100)], 30)
    assert len(kept) == 30
    assert kept[10].text == "... 71 events more ..."
    assert kept[-1].text == "fault 99"


def test_links_and_a_single_record_are_named_for_what_they_are():
    slow = {"direction": "incoming", "delay_ms": 300}
    assert fault_text("partition", ["n1", "n5"], [], {}, undone=False) == "n1 and n5 were cut off"
    assert fault_text("delay", ["n1"], [], slow, undone=False) == (
        "links of n1 became slow: what is sent to it; delay_ms 300"
    )
    assert fault_text("loss", ["n1"], [], {}, undone=True) == "the links of n1 lost nothing more"
    cut = fault_text("partition", ["n1"], [], {"shape": "links", "links": "n1>n2"}, undone=False)
    assert cut == "links were cut: on n1 to n2"
    polled = {"records": [[51, "a"]], "high_watermark": 52}
    assert answer_text(polled) == "the record at offset 51, high watermark 52"


def test_the_story_of_a_torn_transaction_has_the_late_end_before_it_and_what_is_there():
    def at(index, process, f, steps, kind=EventType.INVOKE, **fields):
        return Event(index, index * SECOND, process, kind, f, value=steps, node="n2", **fields)

    late, torn = [["append", "x", "1"]], [["append", "x", "2"], ["append", "y", "3"]]
    asked = [["r", "x", None]], [["r", "y", None]]
    shown = [["r", "x", []]], [["r", "y", ["3"]]]
    events = (
        CLOCKED,
        at(1, 1, "abort-late", late),
        at(2, 1, "abort-late", late, EventType.FAIL, error="aborted"),
        at(3, 1, "txn", torn),
        at(4, 1, "txn", torn, EventType.OK),
        at(5, 2, "read-all", asked[0]),
        at(6, 2, "read-all", shown[0], EventType.OK),
        at(7, 2, "read-all", asked[1]),
        at(8, 2, "read-all", shown[1], EventType.OK),
    )
    result = run_check(CheckSpec("atomic-appends"), RunInput(events, pair(events)))
    assert headline_of("atomic-appends", result.anomalies[0], ()) == (
        "Transaction torn: the transaction of process 1 at 3.000000 s committed; in the end consumers "
        "with read_committed see '3' in y, but not '2' in x; the abort of this client's transaction "
        "before arrives once more, late"
    )
    found = texts(story_of((result,), {}, events, pair(events), None))
    assert [text.partition(" = ")[0] for text in found[:4]] == [
        "n2 refused abort-late",
        "n2 acknowledged txn",
        "n2 answered read-all",
        "n2 answered read-all",
    ]
    assert found[0].startswith('n2 refused abort-late = [["append", "x", "1"]] (aborted)')
    assert found[-1].startswith("atomic-appends, torn-transaction: the transaction of process 1")

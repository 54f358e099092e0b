"""The first screen of a FAIL, the story of a partition, and what a reader should do next."""

import pytest
from factory import CLOCK, SECOND

from checkers.evidence import Evidence, TraceEvent, run_clock
from checkers.history import NEMESIS, Event, EventType, Operation, pair
from checkers.runs.faults import FaultSpan, Reign
from checkers.verdict import CheckResult, Status
from results.report.advice import advice_of, tool_text
from results.report.brief import brief_of, headline_of
from results.report.node_output import LINES_MAX, errors_logged, lines_around
from results.report.story import story_of
from results.report.timeline import Zone, draw, zones_of


def operation(index, process, f, value, begin, end, node="n1", kind=EventType.OK):
    given = {"input": value} if f == "write" else {}
    return Operation(
        index=index,
        process=process,
        f=f,
        key="k1",
        type=kind,
        invoke_ns=begin,
        complete_ns=end,
        node=node,
        **({"input": None} | given),
        output=value,
        error=None,
    )


STALE = (
    operation(1, 4, "write", "a", 0, 10),
    operation(2, 5, "write", "b", 20, 30),
    operation(3, 14, "read", "a", 40, 50, node="n3"),
)


def test_a_stale_read_is_one_sentence_with_values_process_and_node():
    said = headline_of("linearizable", {"kind": "stale-read", "key": "k1"}, STALE)
    assert said == 'Stale read of k1: process 14 read "a" from n3 after "b" had replaced it'


def test_a_stale_read_of_nothing_names_what_had_been_written():
    read = operation(3, 14, "read", None, 40, 50, node="n3")
    late = operation(2, 5, "write", "b", 20, 45)
    anomaly = {"kind": "stale-read", "key": "k1", "explanation": "k1: no order (of 3) exists"}
    said = headline_of("linearizable", anomaly, (STALE[0], read))
    assert said == 'Stale read of k1: process 14 read nothing from n3 after "a" had been written'
    said = headline_of("linearizable", anomaly, (late, read))
    assert said == "Stale read of k1: no order exists"


@pytest.mark.parametrize(
    "replacing",
    [
        operation(2, 5, "write", "b", 5, 30),
        operation(2, 5, "write", "b", 20, 45),
        operation(2, 5, "write", "b", 20, 30, kind=EventType.INFO),
    ],
    ids=["began before the value was there", "ended after the read began", "may not have happened"],
)
def test_nothing_is_said_to_be_replaced_that_may_not_have_been(replacing):
    anomaly = {"kind": "stale-read", "key": "k1", "explanation": "k1: no order (of 3) exists"}
    said = headline_of("linearizable", anomaly, (STALE[0], replacing, STALE[2]))
    assert said == "Stale read of k1: no order exists"


def test_a_lost_write_names_its_value_and_who_acknowledged_it():
    said = headline_of("records", {"kind": "acknowledged-lost"}, STALE[:1])
    assert said.startswith('Acknowledged write lost in k1: "a" of process 4 was acknowledged by n1')


WORLDS_ALONE = ("succession", "lag-allowed", "valid-brokers")


@pytest.mark.parametrize(
    ("checker", "kind"),
    [
        ("invariants", "read-confirmed"),
        *(("monitor", k) for k in ("read-confirmed", *WORLDS_ALONE)),
    ],
)
def test_an_invariant_is_no_finding_by_its_name(checker, kind):
    said = headline_of(checker, {"kind": kind, "explanation": "n2 leads still"}, ())
    assert said == f"Invariant {kind} broken: n2 leads still"


@pytest.mark.parametrize(
    ("checker", "anomaly", "said"),
    [
        (
            "isr",
            {
                "kind": "unclean-election",
                "partition": "d0-1",
                "explanation": "d0-1 elects 1, which was neither in ISR (3) nor in ELR (none), "
                "though unclean elections are off, by the record at offset 59, epoch 4: leader 1",
            },
            (
                "Unclean election: d0-1 elects 1, which was neither in ISR nor in ELR, though "
                "unclean elections are off"
            ),
        ),
        (
            "voter-changes",
            {
                "kind": "change-lost",
                "explanation": "add of voter 4 was acknowledged once, and the longest log holds no "
                "such change",
            },
            (
                "Acknowledged voter change lost: add of voter 4 was acknowledged once, and the longest "
                "log holds no such change"
            ),
        ),
        (
            "linearizable",
            {"kind": "stale-read", "key": "k1", "explanation": "stale read: the read of 1 began"},
            "Stale read of k1: the read of 1 began",
        ),
        (
            "replica-logs",
            {
                "kind": "acknowledged-missing",
                "key": "d0-1",
                "explanation": "d0-1: the log of n1 lacks 'a'; faults since: pause of n1",
            },
            "Acknowledged record lost in d0-1: the log of n1 lacks 'a'",
        ),
        (
            "isr",
            {
                "kind": "fenced-into-isr",
                "partition": "s4-7-0",
                "explanation": "s4-7-0 takes up broker 3 while it is fenced, by the record at "
                "offset 9, epoch 2: leader 1, ISR 1, 3, ELR none, replicas 1, 2, 3",
            },
            "Fenced broker taken into the ISR: s4-7-0 takes up broker 3 while it is fenced",
        ),
        (
            "durability",
            {
                "kind": "lost-write",
                "key": "a (b)",
                "explanation": "a (b) of its leader's log (epoch 'x)') lacks 'v (1), by the record "
                """at offset 2' and "w; faults since: (2)" (of n1)""",
            },
            (
                "Acknowledged record lost: a (b) of its leader's log lacks 'v (1), by the record "
                """at offset 2' and "w; faults since: (2)\""""
            ),
        ),
    ],
)
def test_a_headline_names_what_broke_and_leaves_places_and_faults_to_the_page(
    checker, anomaly, said
):
    assert headline_of(checker, anomaly, ()) == said


def test_an_answer_from_an_old_state_names_value_node_and_offsets():
    anomaly = {"kind": "stale-answer", "answered_offset": 119, "committed_offset": 120}
    said = headline_of("records", anomaly, STALE[2:])
    assert said == (
        'Answer from an old state in k1: process 14 read "a" from n3 as of offset 119, though all '
        "up to offset 120 was committed before it asked"
    )


def note(index, at_s, kind, fault, **value):
    return Event(index, int(at_s * SECOND), NEMESIS, kind, fault, value=value)


START = note(0, 0, EventType.OK, "phase", name="start", clock=CLOCK, origin_ns=0)


def poll(index, at_s, kind, value=None):
    return Event(index, int(at_s * SECOND), 1, kind, "poll", "d0-3", value, node="n2", epoch=1)


def test_the_story_of_a_partition_has_its_own_leaders_epochs_and_offsets():
    of_it = {"topic": "d0", "partition": 3}
    led = {**of_it, "leader_epoch": 1, "partition_epoch": 7, "start_offset": 52, "isr": [1, 2]}
    trace = [
        (0, "start", {"node_id": 2, "clock": CLOCK}),
        (1, "replica-follower", {**of_it, "leader_epoch": 0, "leader_id": 3, "end_offset": 52}),
        (2, "replica-leader", {**led, "high_watermark": 48}),
        (2.1, "replica-leader", {**led, "partition": 4, "high_watermark": 1}),
        (2.2, "append", {"epoch": 9, "base_offset": 52, "last_offset": 52, "role": "leader"}),
        (
            2.5,
            "replica-truncated",
            {**led, "from_offset": 54, "to_offset": 52, "high_watermark": 48},
        ),
    ]
    lines = [TraceEvent("n2", 0, int(at * SECOND), name, fields) for at, name, fields in trace]
    answer = {"records": [[50, "a"], [52, "a"]], "high_watermark": 54}
    events = (START, poll(1, 1.5, EventType.INVOKE), poll(2, 3, EventType.OK, answer))
    evidence = Evidence(("n2",), {}, {}, {"n2": lines}, {}, run_clock=run_clock(events))
    anomaly = {"kind": "duplicate", "key": "d0-3", "explanation": "e", "operations": [1]}
    checks = (CheckResult("log", Status.FAIL, "wrong", anomalies=(anomaly,)),)
    story = story_of(checks, {}, events, pair(events), evidence)
    assert story.partition == "d0-3"
    texts = [step.text for step in story.steps]
    assert texts[0] == (
        "n2 leads d0-3 in leader epoch 1, which begins at offset 52: high watermark 48, "
        "partition epoch 7, ISR n1, n2"
    )
    assert texts[1].startswith("n2 cut its log of d0-3 back from offset 54 to 52")
    assert "2 records, offsets 50 to 52, high watermark 54 in leader epoch 1" in texts[2]
    assert story.steps[2].role == "leader of d0-3, leader epoch 1"
    assert len(texts) == 4


def test_the_brief_names_both_leaders_and_the_fault_that_was_on():
    events = (
        START,
        Event(1, SECOND, 1, EventType.INVOKE, "read", "k1", None, node="n3"),
        Event(2, 2 * SECOND, 1, EventType.OK, "read", "k1", "a", node="n3"),
    )
    anomaly = {"kind": "stale-read", "key": "k1", "explanation": "e", "operations": [1]}
    checks = (
        CheckResult("linearizable", Status.FAIL, "wrong", anomalies=(anomaly,)),
        CheckResult("invariants", Status.FAIL, "wrong"),
    )
    story = story_of(checks, {}, events, pair(events), None)
    ruled = [Reign("n3", 1, 0, 5 * SECOND), Reign("n1", 3, 0, 9 * SECOND)]
    span = FaultSpan("partition", ("n3",), 0, None, verified=True, healed=False, detail="")
    brief = dict(brief_of(story, checks, ruled, [span]))
    assert brief["node"].startswith("n3 answered operation 1")
    assert brief["leader"] == (
        "n3 (metadata epoch 1, from 0 s to 5.0 s) and n1 (metadata epoch 3, from 0 s to 9.0 s)"
        ", at the same time"
    )
    assert brief["fault"] == "partition of n3 from 0 s on"
    assert brief["also failed"] == "invariants"
    ruled = [Reign("n3", 1, 0, SECOND), Reign("n1", 3, SECOND + 1, 9 * SECOND)]
    in_turn = dict(brief_of(story, checks, ruled, []))["leader"]
    assert in_turn.split(" and ")[0].startswith("n3 (metadata epoch 1")
    assert in_turn.split(" and ")[1].startswith("n1 (metadata epoch 3")
    assert not in_turn.endswith("at the same time")
    ruled = [Reign("n3", epoch, SECOND, 2 * SECOND) for epoch in range(1, 9)]
    many = dict(brief_of(story, checks, ruled, []))["leader"].split(" and ")
    assert many[0] == "n3 (metadata epoch 1, from 1.0 s to 2.0 s), 5 more"
    none = dict(brief_of(story, checks[:1], [], []))
    assert none["leader"] == "none is known at 1.0 s"
    assert none["fault"] == "none had taken effect before"


def test_what_a_register_must_have_held_is_drawn():
    rows = [
        {"index": n, "process": 1, "f": f, "input": v if f == "write" else None, "output": v}
        | {"type": "ok", "invoke_ns": begin, "complete_ns": end}
        for n, f, v, begin, end in (
            (1, "write", "a", 0, 10),
            (2, "write", "b", 20, 30),
            (3, "read", "a", 40, 50),
        )
    ]
    zones = zones_of(rows)
    assert zones == [Zone('"a"', 10, 40, throughout=True), Zone('"b"', 20, 30, throughout=False)]
    picture = draw(rows, zones=zones)
    assert [bar.kind for bar in picture.bars][:2] == ["zone", "zone"]
    assert picture.has_zones


def test_what_decides_nothing_says_what_to_do():
    checks = [
        CheckResult("durability", Status.UNKNOWN, "no final read of n2"),
        CheckResult("exercised", Status.UNDER_EXERCISED, "5 of 50"),
        CheckResult("log", Status.PASS, "fine"),
    ]
    checks.append(CheckResult("answers", Status.UNKNOWN, "1 answers made no sense"))
    unknown, under, unread = advice_of(checks)
    assert "kraftprobe check RUN" in unknown
    assert "correct the client" in unread
    assert "kraftprobe run --campaign RUN/plan.json --duration S" in under


def test_the_page_says_how_late_the_tool_itself_was():
    plan = {"schedule": [{"at_s": 2.0, "fault": "kill"}], "operation_timeout_ms": 1000}
    notes = [
        note(0, 10, EventType.OK, "phase", name="faults"),
        note(1, 13.5, EventType.INVOKE, "kill", phase="inject", entry=0),
    ]
    late = operation(1, 4, "write", "a", 0, int(1.25 * SECOND))
    said = tool_text(plan, notes, [late])
    assert "the latest 1.500 s" in said
    assert "by more than 250 ms" in said


def test_a_starved_machine_and_steps_of_its_clock_are_said():
    notes = [
        note(0, 12, EventType.INFO, "harness", clock_step_s=-3600.0),
        note(1, 20, EventType.INFO, "harness", late_ms=2100, load=9.0, processors=2),
    ]
    said = tool_text({}, notes, [])
    for part in ("late by 2100 ms", "9.0 processes wanted its 2", "at 12.000 s", "-3600.000 s"):
        assert part in said
    under = CheckResult("exercised", Status.UNDER_EXERCISED, "12 operations ok")
    passed = CheckResult("exercised", Status.PASS, "")
    assert [len(advice_of([check], notes)) for check in (under, passed)] == [2, 0]
    assert "the machine was starved" in advice_of([under], notes)[-1]


@pytest.mark.parametrize(("late_ms", "said"), [(2100, ["stood still for 2.1 s"]), (900, [])])
def test_a_machine_with_a_quota_of_processor_time_is_starved_without_a_load(late_ms, said):
    notes = [note(0, 20, EventType.INFO, "harness", late_ms=late_ms, load=0.4, processors=2)]
    under = CheckResult("exercised", Status.UNDER_EXERCISED, "12 operations ok")
    found = advice_of([under], notes)[1:]
    assert [line.partition("harness ")[2].partition(";")[0] for line in found] == said


def test_a_node_s_own_lines_are_those_around_the_violation(tmp_path):
    (tmp_path / "n1").mkdir()
    (tmp_path / "n2").mkdir()
    timed = [f"[2026-11-21 01:{n // 60:02}:{n % 60:02},000] INFO {n}" for n in range(1800)]
    (tmp_path / "n1" / "stdout.log").write_text("\n".join(timed))
    (tmp_path / "n2" / "stdout.log").write_text("\n".join(map(str, range(100))))
    run = "20261121T010203Z-seed7"
    found = lines_around(tmp_path, ("n1", "n2", "n3"), run, 60 * SECOND)
    assert list(found) == ["n1", "n2"]
    assert "01:03:03" in found["n1"]
    assert len(found["n1"].splitlines()) == LINES_MAX
    assert found["n2"].splitlines() == [str(n) for n in range(80, 100)]


def test_lines_of_kafka_are_those_around_the_violation_by_the_run_s_clock(tmp_path):
    (tmp_path / "n1").mkdir()
    lines = "".join(f"{n}000000000|INFO|a.B|{n}\n" for n in range(1000, 2000))
    (tmp_path / "n1" / "stdout.log").write_text(lines)
    found = lines_around(tmp_path, ("n1",), "run", 60 * SECOND, 1000 * SECOND)
    assert [line.rpartition("|")[2] for line in found["n1"].splitlines()] == [
        str(n) for n in range(1050, 1070)
    ]
    unplaced = lines_around(tmp_path, ("n1",), "run", 60 * SECOND)
    assert unplaced["n1"].endswith("|1999"), "without a clock, the last"


def test_errors_of_kafka_are_counted_by_kind(tmp_path):
    slow = "Exceptionally slow controller event"
    for node in ("n1", "n2"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "stdout.log").write_text(
            f"1|INFO|a.B|no error\n2|ERROR|c.d.E|[Controller id=1] Lost 3 of <b>\n\tat 4|ERROR|x\n"
            f"5|ERROR|c.d.E|[Controller id=2] Lost 17 of <b>\n6|ERROR|f.G|{slow} x took 9 ms.\n"
        )
    lost, known = errors_logged(tmp_path, ("n1", "n2", "n3"))
    assert (lost.logger, lost.text, lost.count) == ("E", "Lost … of <b>", 4)
    assert (lost.nodes, lost.reason) == (["n1", "n2"], "")
    assert (known.count, known.reason) == (2, "the machine is slow")

"""What is left of faults when a run ends, by the journal's injections, heals and sweeps."""

import pytest

from checkers.history import NEMESIS, Event, EventType
from checkers.runs.faults import fault_spans, not_healed


def journal(*rows):
    """Rows: (fault, phase, targets, verified, further fields)."""
    return [
        Event(n, n, NEMESIS, EventType.OK, f, None, dict(phase=phase, targets=[*on], **more))
        for n, (f, phase, on, more) in enumerate(rows)
    ]


def inject(on, *, verified=True, **more):
    return "pause", "inject", on, {"verified": verified, **more}


def heal(on, *, verified=True, **more):
    return "pause", "heal", on, {"verified": verified, **more}


def sweep(on, *, verified):
    return "sweep", "heal", on, {"verified": verified}


def test_the_heal_of_another_entry_ends_no_fault_of_the_same_targets():
    rows = [inject("a", entry=0), inject("a", entry=1, verified=False), heal("a", entry=1)]
    first, second = fault_spans(journal(*rows))
    assert (first.end_ns, second.end_ns) == (None, 2)
    (alone,) = fault_spans(journal(inject("a", entry=0), heal("a", entry=1)))
    assert alone.end_ns is None


@pytest.mark.parametrize(
    ("killed", "ended"), [("a", [None, None]), ("ab", [1, None]), ("abc", [1, None])]
)
def test_a_pause_ends_with_the_last_process_that_it_stopped(killed, ended):
    """One that was killed and started again is paused no more, whenever the pause is healed."""

    def of(nodes, after):
        return {"processes_before": dict.fromkeys(nodes, "1"), "processes_after": after}

    stopped = inject("ab", entry=0, detail=of("ab", {"a": "1", "b": "1"}))
    kill = "kill", "inject", killed, {"verified": True, "entry": 1}
    kill[3]["detail"] = of(killed, dict.fromkeys(killed))
    spans = fault_spans(journal(stopped, kill))
    assert [span.end_ns for span in spans] == ended
    spans = fault_spans(journal(stopped, kill, heal("ab", entry=0)))
    assert spans[0].end_ns == (ended[0] or 2)
    assert not not_healed(journal(stopped, kill, heal("ab", entry=0)), tried=True)


def test_a_fault_that_had_ended_early_had_whatever_its_next_heal_measures():
    gone = heal("a", verified=False, detail={"ended_early": ["nothing is lost"]})
    (span,) = fault_spans(journal(inject("a"), gone, heal("a")))
    assert (span.healed, span.ended_early) == (True, True)


@pytest.mark.parametrize(
    ("rows", "left", "tried"),
    [
        ([inject("a")], ["a"], []),
        ([inject("a"), heal("a")], [], []),
        ([inject("a"), heal("a", verified=False)], ["a"], ["a"]),
        ([inject("a"), heal("a", verified=False), heal("a")], [], []),
        ([inject("a"), heal("a", applied=False)], ["a"], []),
        ([inject("a"), inject("b"), heal("b")], ["a"], []),
        ([inject("a"), inject("a"), heal("a")], ["a"], []),
        ([inject("a"), inject("a"), heal("a"), heal("a")], [], []),
        ([inject("a", verified=False)], [], []),
        ([inject("a", verified=False), heal("a", verified=False)], ["a"], ["a"]),
        ([inject("a", over=True)], [], []),
        ([inject("a", detail={"took_ms": 1})], [], []),
        ([inject("a", detail={"since_ms": 1})], ["a"], []),
        ([sweep("a", verified=False)], ["a"], ["a"]),
        ([sweep("a", verified=False), sweep("ab", verified=True)], [], []),
        ([sweep("ab", verified=False), sweep("a", verified=True)], ["a, b"], ["a, b"]),
        ([sweep("a", verified=False), sweep("b", verified=False)], ["a", "b"], ["a", "b"]),
        ([inject("a"), sweep("a", verified=True)], ["a"], []),
    ],
)
def test_what_was_not_measured_to_be_gone_is_left(rows, left, tried):
    for found, on in (
        (not_healed(journal(*rows)), left),
        (not_healed(journal(*rows), tried=True), tried),
    ):
        assert len(found) == len(on)
        assert all(f"{of} " in line for line, of in zip(found, on, strict=True))

import itertools
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.history import EventType
from harness.run.generators.flow import EachWorker, Of, Phases, Together, UntilOk
from harness.run.generators.timing import At, BackOff, Patience, Rate, Spaced, TimeLimit, Until
from tests.harness.world import Limit, invocations, play, times_s
from workloads.base import Completion, Op

REFUSED = {"not_controller"}


def refused(_=None):
    return Completion(EventType.FAIL, error="not_controller")


def numbered(f="op"):
    return (Op(f, None, number) for number in itertools.count())


def endless(f="op"):
    return Of(numbered(f))


@given(st.integers(0, 40), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_limit_counts_over_all_workers(count, concurrency):
    events, _ = play(Together(Limit(count, endless())), concurrency)
    assert [event.value for event in invocations(events)] == list(range(count))


@given(st.floats(1, 50), st.floats(0.5, 5), st.integers(1, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_rate_is_never_exceeded_by_much_and_reached_where_clients_keep_up(rate, s, n, jitter):
    random = Random(7) if jitter else None
    events, _ = play(Together(TimeLimit(s, Rate(rate, endless(), random))), n, latency_s=0.001)
    count = len(invocations(events))
    if jitter:
        assert count <= 2 * rate * s + 5 * n
    else:
        assert rate * s - n - 1 <= count <= rate * s + 1


def test_rate_without_jitter_spaces_operations_evenly():
    events, _ = play(Together(Limit(5, Rate(10, endless()))), 2, latency_s=0.001)
    assert times_s(events) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_a_rate_of_next_to_nothing_is_one_operation():
    events, _ = play(Together(TimeLimit(5, Rate(5e-324, endless(), Random(7)))), 2, latency_s=0.001)
    assert times_s(events) == [0]


def test_rate_does_not_make_up_for_a_pause():
    def latency(op):
        return 5 if op.value == 0 else 0.001

    events, _ = play(Together(Limit(4, Rate(10, endless()))), 1, latency_s=latency)
    assert times_s(events) == pytest.approx([0, 5, 5.1, 5.2])


def test_time_limit_begins_no_operation_after_its_end():
    events, _ = play(Together(TimeLimit(1.0, endless())), 3, latency_s=0.3)
    assert max(times_s(events)) < 1.0
    assert len(invocations(events)) == 12


def test_time_limit_ends_a_generator_that_waits_for_ever():
    stuck = UntilOk(Op("never"))
    events, _ = play(
        Together(TimeLimit(1.0, stuck)), 2, latency_s=0.4, answer=lambda _: EventType.FAIL
    )
    assert len(invocations(events)) == 3


def test_a_time_limit_does_not_make_waiting_workers_deaf():
    """A worker that only ever fails must not keep the attempt from the others."""
    ops = TimeLimit(10.0, BackOff(0.25, REFUSED, UntilOk(Op("read"))))
    attempts = itertools.count()
    answer = lambda _: EventType.OK if next(attempts) == 1 else refused()  # noqa: E731
    events, _ = play(Together(ops), 3, latency_s=0.01, answer=answer)
    assert [event.process for event in invocations(events)] == [0, 1]
    assert events[-1].time_ns < 0.1e9


def test_back_off_pauses_a_worker_after_a_refusal_only():
    answers = {0: refused(), 1: EventType.FAIL, 2: EventType.INFO, 3: EventType.OK}
    events, _ = play(
        Together(BackOff(1.0, REFUSED, Limit(4, endless()))),
        1,
        latency_s=0.1,
        answer=lambda op: answers[op.value],
    )
    assert times_s(events) == pytest.approx([0, 1.1, 1.2, 1.3])


def test_back_off_delays_no_other_worker():
    def answer(op):
        return refused() if op.value == 0 else EventType.OK

    events, _ = play(
        Together(BackOff(10.0, REFUSED, Limit(6, endless()))), 2, latency_s=0.1, answer=answer
    )
    processes = [event.process for event in invocations(events)]
    assert processes == [0, 1, 1, 1, 1, 1]


def test_no_operation_of_a_phase_is_open_when_the_next_begins():
    phases = Phases(Limit(7, endless("first")), Limit(7, endless("second")))
    events, _ = play(Together(phases), 3, latency_s=lambda op: 0.1 * (1 + op.value % 3))
    first_ends = max(event.time_ns for event in events if event.f == "first")
    second_begins = min(event.time_ns for event in events if event.f == "second")
    assert first_ends <= second_begins
    assert Counter(event.f for event in invocations(events)) == {"first": 7, "second": 7}


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_phases_end_whatever_their_lengths(sizes, concurrency):
    phases = Phases(*(Limit(size, endless(str(index))) for index, size in enumerate(sizes)))
    events, _ = play(phases, concurrency)
    order = [event.f for event in invocations(events)]
    assert order == [str(index) for index, size in enumerate(sizes) for _ in range(size)]


def test_until_ok_stops_at_the_first_success():
    answers = iter([EventType.FAIL, EventType.INFO, EventType.OK, EventType.OK])
    events, _ = play(Together(UntilOk(Op("read"))), 3, answer=lambda _: next(answers))
    assert [event.type for event in events if event.type is not EventType.INVOKE] == [
        EventType.FAIL,
        EventType.INFO,
        EventType.OK,
    ]


@pytest.mark.parametrize(("lost", "asked"), [(None, "abc"), ("b", "ab"), ("a", "a")])
def test_what_waited_for_one_that_was_served_late_is_asked_for_once_the_time_is_over(lost, asked):
    """Each attempt takes 0.4 s, and of the first operation the third is the last before 1 s."""
    attempts = itertools.count(1)

    def answer(op):
        late = op.f == "a" and next(attempts) < 3
        return EventType.FAIL if late or op.f == lost else EventType.OK

    ops = Phases(*(UntilOk(Op(f)) for f in "abc"))
    events, _ = play(Together(Patience(1.0, ops)), 3, latency_s=0.4, answer=answer)
    assert [event.f for event in invocations(events)] == ["a", "a", *asked]


def test_each_worker_has_a_stream_of_its_own():
    streams = EachWorker(lambda worker: Of(Op(f"w{worker}", None, n) for n in range(4)))
    events, _ = play(Together(streams), 3, latency_s=lambda op: 0.1 * (1 + op.value))
    for worker in range(3):
        mine = [event for event in invocations(events) if event.process == worker]
        assert [(event.f, event.value) for event in mine] == [(f"w{worker}", n) for n in range(4)]


def test_clients_and_nemesis_do_their_own_things_together():
    events, _ = play(Together(Limit(4, endless("op")), At([(1.0, Op("kill")), (2.5, Op("heal"))])))
    by_nemesis = [event for event in invocations(events) if event.process == "nemesis"]
    assert [(event.f, event.time_ns / 1e9) for event in by_nemesis] == [
        ("kill", 1.0),
        ("heal", 2.5),
    ]
    assert Counter(event.f for event in invocations(events))["op"] == 4


def test_spaced_operations_come_each_its_pause_after_the_one_before():
    paced = Spaced([(1.0, Op("a")), (0.0, Op("b")), (2.5, Op("c"))])
    events, _ = play(Together(nemesis=paced), latency_s=0.5)
    assert [(e.f, at) for e, at in zip(invocations(events), times_s(events), strict=True)] == [
        ("a", 1.0),
        ("b", 1.5),
        ("c", 4.5),
    ]
    assert paced.over


def test_a_spaced_operation_is_asked_for_after_the_one_before_it_was_completed():
    asked = []

    def paced():
        for number in range(3):
            asked.append(number)
            yield 1.0, Op("op", None, number)

    seen = []
    play(
        Together(nemesis=Spaced(paced())), answer=lambda _: seen.append(len(asked)) or EventType.OK
    )
    assert seen == [1, 2, 3]


def test_clients_go_on_until_the_nemesis_is_over():
    turns = Spaced([(1.0, Op("turn")), (1.0, Op("turn"))])
    events, _ = play(Together(Until(lambda: turns.over, endless()), turns), latency_s=0.1)
    begun = [e.time_ns / 1e9 for e in invocations(events) if e.process != "nemesis"]
    assert 2.0 <= max(begun) <= 2.2


def test_a_late_moment_comes_at_once():
    events, _ = play(Together(nemesis=At([(1.0, Op("a")), (1.5, Op("b"))])), latency_s=2.0)
    assert times_s(events) == pytest.approx([1.0, 3.0])

"""Requests that wait for partitions."""

import pytest

from cluster.node.broker.replication import delayed
from cluster.node.broker.replication.delayed import Purgatory
from tests.cluster.node.controller.fakes import FakeClock


class Waits:
    def __init__(self, log, name, *, ready=False):
        self.log, self.name, self.ready = log, name, ready
        self.tried = 0

    def try_complete(self):
        self.tried += 1
        if self.ready:
            self.log.append(self.name)
        return self.ready

    def expire(self):
        self.log.append(f"{self.name} expired")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def purgatory(clock):
    return Purgatory(clock)


def test_what_is_ready_does_not_wait(purgatory):
    log = []
    purgatory.try_or_watch(Waits(log, "a", ready=True), ["p"], 10.0)
    assert (log, len(purgatory._waiting)) == (["a"], 0)


def test_it_is_tried_again_when_something_that_it_watches_changes(purgatory, clock):
    log = []
    first, second = Waits(log, "a"), Waits(log, "b")
    purgatory.try_or_watch(first, ["p", "q"], 10.0)
    purgatory.try_or_watch(second, ["p"], 10.0)
    purgatory.check("r")
    assert (first.tried, second.tried) == (1, 1)
    first.ready = second.ready = True
    purgatory.check("q")
    purgatory.check("p")
    purgatory.check("p")
    clock.advance(100.0)
    assert (log, len(purgatory._waiting)) == (["a", "b"], 0)


def test_it_ends_when_its_time_is_over(purgatory, clock):
    log = []
    waits = Waits(log, "a")
    purgatory.try_or_watch(waits, ["p", "q"], 10.0)
    clock.advance(10.0)
    waits.ready = True
    purgatory.check("p")
    assert (log, len(purgatory._waiting)) == (["a expired"], 0)


def test_an_answer_may_complete_another(purgatory):
    log = []
    last = Waits(log, "b")

    class First(Waits):
        def try_complete(self):
            done = super().try_complete()
            if done:
                last.ready = True
                purgatory.check("p")
            return done

    first = First(log, "a")
    purgatory.try_or_watch(first, ["p"], 10.0)
    purgatory.try_or_watch(last, ["p"], 10.0)
    first.ready = True
    purgatory.check("p")
    assert (log, len(purgatory._waiting)) == (["a", "b"], 0)


def test_beyond_its_bound_the_oldest_is_over_before_its_time(clock, monkeypatch):
    log = []
    monkeypatch.setattr(delayed, "OPERATIONS_MAX", 2)
    purgatory = Purgatory(clock)
    for name in ("a", "b", "c"):
        purgatory.try_or_watch(Waits(log, name), ["p"], 10.0)
    assert (log, len(purgatory._waiting)) == (["a expired"], 2)
    clock.advance(20.0)
    assert (log, len(purgatory._waiting)) == (["a expired", "b expired", "c expired"], 0)


def test_what_was_answered_is_not_answered_again_when_its_time_is_over():
    class Late(FakeClock):
        """Of a process that was stopped: a timer that was due can be cancelled no more."""

        def call_later(self, delay_ms, callback):
            super().call_later(delay_ms, callback)
            return self

        def cancel(self):
            pass

    log, late = [], Late()
    purgatory = Purgatory(late)
    waits = Waits(log, "a")
    purgatory.try_or_watch(waits, ["p"], 10.0)
    waits.ready = True
    purgatory.check("p")
    late.advance(20.0)
    assert (log, len(purgatory._waiting)) == (["a"], 0)

"""What a measured wall clock must show for a fault to count."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cluster.backends.abilities import ClockMeasure
from nemeses.base import application
from nemeses.clocks import wall_clocks
from nemeses.fault_kind import FaultKind


@pytest.mark.parametrize(("gain_ms", "drifts"), [(2.0, False), (400.0, True)])
def test_what_a_reading_takes_is_no_drift(monkeypatch, gain_ms, drifts):
    seen = bitten(monkeypatch, wall_clocks.ClockDrift(), {"rate": 2.0}, [0.0, 0.0, gain_ms])
    assert (seen.wrong == "") is drifts


@pytest.mark.parametrize(
    ("asked_ms", "seen_ms", "is_off"),
    [(40.0, 0.0, False), (40.0, 30.0, True), (-3_000.0, -2_960.0, True), (3_000.0, 0.0, False)],
)
def test_a_clock_that_shows_the_true_time_is_not_off_by_a_little(
    monkeypatch, asked_ms, seen_ms, is_off
):
    seen = bitten(monkeypatch, wall_clocks.ClockSkew(), {"offset_ms": asked_ms}, [seen_ms])
    assert (seen.wrong == "") is is_off


@pytest.mark.parametrize(
    ("fault", "chosen", "stands_still", "goes_on"),
    [
        (wall_clocks.ClockStrobe(), {"period_ms": 20}, [0.0] * 14, [0.0, 5e3, 0.0]),
        (wall_clocks.ClockDrift(), {"rate": 2.0}, [5e3] * 4, [5e3, 5e3, 9e4]),
        (wall_clocks.ClockJump(), {"jump_ms": 60_000}, [0.0] * 2, [6e4]),
    ],
)
def test_a_clock_that_was_right_again_before_its_heal_had_no_fault(
    monkeypatch, fault, chosen, stands_still, goes_on
):
    """Of a heal that failed the next one cannot say: the first has set the clock right."""
    gone = healed(monkeypatch, fault, chosen, [*stands_still, 900.0, 0.0])
    assert ["ended_early" in each.detail for each in gone] == [True, False]
    assert [each.verified for each in gone] == [False, True]
    there = healed(monkeypatch, fault, chosen, [*goes_on, 900.0, 0.0])
    assert ["ended_early" in each.detail for each in there] == [False, False]


def healed(monkeypatch, fault, chosen, offsets_ms):
    """Heal an injection twice."""
    show(monkeypatch, offsets_ms)
    injection = application(fault.name, {}, ("n2",), {"chosen": {"n2": chosen}})
    injection, view = replace(injection, verified=True), SimpleNamespace(backend=FaultKind())

    async def heal():
        return [await fault.heal(view, injection) for _ in range(2)]

    return asyncio.run(heal())


def bitten(monkeypatch, fault, chosen, offsets_ms):
    show(monkeypatch, offsets_ms)
    injection = SimpleNamespace(detail={"chosen": {"n2": chosen}})
    return asyncio.run(fault.bites(None, "n2", injection))


def show(monkeypatch, offsets_ms):
    """Let a clock be measured to be off by these, one after the other."""

    class Clocks:
        async def measure(self, node):
            return ClockMeasure(offsets_ms.pop(0), 0.0, None)

        async def set(self, node, setting):
            """Set no clock."""

    monkeypatch.setattr(wall_clocks, "clocks_of", lambda view: Clocks())

"""What a measured wall clock must show for a fault to count."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.backends.abilities import ClockMeasure
from nemeses.clocks import wall_clocks


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


def bitten(monkeypatch, fault, chosen, offsets_ms):
    class Clocks:
        async def measure(self, node):
            return ClockMeasure(offsets_ms.pop(0), 0.0, None)

    monkeypatch.setattr(wall_clocks, "clocks_of", lambda view: Clocks())
    injection = SimpleNamespace(detail={"chosen": {"n2": chosen}})
    return asyncio.run(fault.bites(None, "n2", injection))

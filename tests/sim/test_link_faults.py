"""Faults of links in the simulated world: they bite, are measured, heal, and repeat exactly."""

from __future__ import annotations

import asyncio
import random

import pytest

from cluster.backends.abilities import LinkShape
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.node.kraft.messages import FetchRequest
from nemeses.base import Injection
from nemeses.drive import heal, inject


class View:
    def __init__(self, backend: SimBackend) -> None:
        self.backend = backend
        self.random = random.Random(3)
        self.active: list[Injection] = []

    async def leader(self) -> str:
        return "n2"


def run(body, nodes: int = 3) -> list[object]:
    """Run an async test body on a view of a simulated cluster; returns what it collects."""
    scheduler = Scheduler()
    backend = SimBackend(nodes, 5, "run", scheduler=scheduler)
    told: list[object] = []

    async def whole() -> None:
        try:
            await backend.up()
            await body(View(backend), told)
        finally:
            await backend.down()

    loop.run(whole(), scheduler)
    assert backend.unexpected_deaths() == ()
    assert backend.abilities().shaping.shaped() == {}
    return told


@pytest.mark.parametrize("name", ["delay", "duplicate", "loss", "reorder"])
def test_a_link_fault_bites_heals_and_repeats_exactly(name):
    async def body(view: View, told: list[object]) -> None:
        assert (await view.backend.abilities().shaping.probe(LinkShape(loss=0.1))).possible
        injected = await inject(view, name, {"targets": "leader", "direction": "incoming"})
        assert injected.verified, injected.detail
        assert injected.links == (("n1", "n2"), ("n3", "n2"))
        clean = await view.backend.abilities().shaping.measure(("n1", "n3"))
        assert (clean.lost, clean.duplicated) == (0.0, 0.0)
        assert clean.round_trip_ms == 0.0
        healed = await heal(view, injected)
        assert healed.verified, healed.detail
        assert "ended_early" not in healed.detail
        told += [injected, healed]

    assert run(body) == run(body)


def test_delays_add_up_over_both_directions():
    async def body(view: View, told: list[object]) -> None:
        shaping = view.backend.abilities().shaping
        both = LinkShape(delay_ms=40.0)
        await shaping.shape({("n1", "n2"): both, ("n2", "n1"): both})
        told.append((await shaping.measure(("n1", "n2"))).round_trip_ms)

    (round_trip_ms,) = run(body)
    assert round_trip_ms == 80.0


def test_a_rate_cannot_be_put_on_messages_without_a_size():
    async def body(view: View, told: list[object]) -> None:
        told.append(await inject(view, "bandwidth", {}))
        told.append(await view.backend.abilities().shaping.probe(LinkShape(rate_kbit_s=100.0)))

    refused, probe = run(body)
    assert not refused.applied
    assert "have no size: try --backend netns" in refused.detail["reason"]
    assert not probe.possible


def sent(backend: SimBackend, count: int) -> list[float]:
    """Send messages of raft from n1 to n2, and note when each arrives."""
    world, arrived = backend.world, []
    link = world.mesh.link("n1", "n2")

    def note() -> None:
        arrived.append(world.scheduler.now_ms)

    for _ in range(count):
        world.mesh.carry(link, FetchRequest.__new__(FetchRequest), note, None, note, None)
    return arrived


@pytest.mark.parametrize("cut", [False, True])
def test_a_link_carries_messages_when_its_measure_says_so(cut):
    async def body(view: View, told: list[object]) -> None:
        if cut:
            await view.backend.cut_links([("n1", "n2")])
        there = await view.backend.measure_link(("n1", "n2"))
        back = await view.backend.measure_link(("n2", "n1"))
        assert (there.works, there.silent, back.works) == (not cut, cut, True)
        arrived = sent(view.backend, 10)
        await asyncio.sleep(1)
        assert len(arrived) == (0 if cut else 10)
        await view.backend.restore_links([("n1", "n2")])
        assert (await view.backend.measure_link(("n1", "n2"))).works

    run(body)


def test_a_link_to_a_node_that_does_not_run_is_measured_as_not_working():
    async def body(view: View, told: list[object]) -> None:
        await view.backend.pause("n2")
        assert not (await view.backend.measure_link(("n1", "n2"))).works
        assert (await view.backend.measure_link(("n1", "n3"))).works
        await view.backend.resume("n2")

    run(body)


def test_messages_meet_what_the_measure_of_a_shape_says():
    async def body(view: View, told: list[object]) -> None:
        shaping = view.backend.abilities().shaping
        shape = LinkShape(loss=0.4, duplicate=0.5, delay_ms=700.0)
        await shaping.shape({("n1", "n2"): shape})
        measured = await shaping.measure(("n1", "n2"))
        at_ms = view.backend.world.scheduler.now_ms
        arrived = sent(view.backend, 1_000)
        await asyncio.sleep(2)
        assert min(arrived) >= at_ms + measured.round_trip_ms
        expected = 1_000 * (1 - measured.lost + measured.duplicated)
        assert len(arrived) == pytest.approx(expected, rel=0.1)
        await shaping.shape({("n1", "n2"): LinkShape(loss=1.0)})
        assert (await shaping.measure(("n1", "n2"))).lost == 1.0
        assert not (await view.backend.measure_link(("n1", "n2"))).works
        lost = sent(view.backend, 100)
        await asyncio.sleep(1)
        assert lost == []
        await shaping.shape({("n1", "n2"): LinkShape()})

    run(body)

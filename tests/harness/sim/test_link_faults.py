"""Faults of links in the simulated world: they bite, are measured, heal, and repeat exactly."""

import pytest

from cluster.backends.abilities import LinkShape
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.sim_backend import SimBackend
from cluster.backends.sim.world import SimWorld
from nemeses.drive import heal, inject
from tests.running import running
from tests.views import StubView


def run(body, nodes: int = 3) -> list[object]:
    """Run an async test body on a view of a simulated cluster; returns what it collects."""
    scheduler = Scheduler()
    backend = SimBackend(SimWorld(nodes, 5, run_id="run", scheduler=scheduler))
    found: list[object] = []

    async def whole() -> None:
        async with running(backend):
            await body(StubView(backend), found)

    loop.run(whole(), scheduler)
    assert backend.unexpected_deaths() == ()
    assert backend.abilities().shaping.shapes() == {}
    return found


@pytest.mark.parametrize("name", ["delay", "duplicate", "loss", "reorder"])
def test_a_link_fault_bites_heals_and_repeats_exactly(name):
    async def body(view: StubView, found: list[object]) -> None:
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
        found += [injected, healed]

    assert run(body) == run(body)


@pytest.mark.parametrize("direction", ["outgoing", "incoming"])
def test_what_a_loss_of_everything_hides_was_not_seen_to_end(direction):
    async def body(view: StubView, found: list[object]) -> None:
        delayed = await inject(view, "delay", {"targets": "leader", "direction": "outgoing"})
        everything = {"targets": "leader", "direction": direction, "percent": 100}
        lost = await inject(view, "loss", everything)
        hidden = await inject(view, "reorder", {"targets": "leader", "direction": "outgoing"})
        healed = [await heal(view, each) for each in (hidden, delayed, lost)]
        found += [each.verified for each in (delayed, lost, hidden)]
        found += ["ended_early" in each.detail for each in healed]

    assert run(body) == [True, True, False, False, False, False]


def test_delays_add_up_over_both_directions():
    async def body(view: StubView, found: list[object]) -> None:
        shaping = view.backend.abilities().shaping
        both = LinkShape(delay_ms=40.0)
        await shaping.shape({("n1", "n2"): both, ("n2", "n1"): both})
        found.append((await shaping.measure(("n1", "n2"))).round_trip_ms)

    (round_trip_ms,) = run(body)
    assert round_trip_ms == 80.0


def test_a_rate_cannot_be_put_on_messages_without_a_size():
    async def body(view: StubView, found: list[object]) -> None:
        found.append(await inject(view, "bandwidth", {}))
        found.append(await view.backend.abilities().shaping.probe(LinkShape(rate_kbit_s=100.0)))

    refused, probe = run(body)
    assert not refused.applied
    assert "have no size: try --backend netns" in refused.detail["reason"]
    assert not probe.possible

"""Faults of links on real packets between fake nodes in namespaces: bite, are measured, heal."""

import re

import pytest
from waiting import works

from cluster.backends.abilities import LinkShape
from cluster.backends.base import BackendError
from cluster.backends.links.shapes import PERFECT
from nemeses.drive import heal, heal_all, inject
from nemeses.links.shaping import LINK_FAULTS
from nemeses.registry import FAULTS
from tests.play import play
from tests.views import bite, mend

pytestmark = pytest.mark.slow

QUICK = {
    "loss": {"percent": 30},
    "delay": {"delay_ms": 60, "jitter_ms": 30},
    "reorder": {"percent": 30},
    "duplicate": {"percent": 30},
    "bandwidth": {"kbit_s": 500},
}


async def measured(shaping, link):
    """Measure a link; again where a busy machine lost packets by itself, as it does not always."""
    for _ in range(50):
        seen = await shaping.measure(link)
        if seen.lost == 0.0:
            break
    return seen


@pytest.mark.parametrize("name", sorted(LINK_FAULTS))
@play("with_hosts_view")
async def test_a_link_fault_bites_in_its_direction_only_and_heals(view, *, name):
    parameters = {"targets": "leader", "direction": "outgoing", **QUICK[name]}
    injected = await bite(view, name, parameters)
    assert injected.links == (("n2", "n1"), ("n2", "n3"))
    shaping = view.backend.abilities().shaping
    assert set(shaping.shapes()) == set(injected.links)
    other = await measured(shaping, ("n1", "n3"))
    assert (other.lost, other.duplicated) == (0.0, 0.0)
    healed = await mend(view, injected)
    assert "ended_early" not in healed.detail, healed.detail
    assert shaping.shapes() == {}
    assert view.active == []
    await mend(view, injected)  # once more: a heal is idempotent


@play("with_hosts_view")
async def test_everything_may_be_lost(view):
    injected = await bite(view, "loss", {"targets": "leader", "percent": 100})
    assert injected.detail["measured"]["n2->n1"]["lost"] == 1.0
    cut = await bite(view, "partition", {"shape": "links", "links": "n1>n3"})
    await mend(view, cut)
    await mend(view, injected)


@play("with_hosts_view", node_count=2)
async def test_a_fault_that_ends_by_itself_is_reported_at_its_heal(view):
    injected = await bite(view, "delay", {"targets": "leader", "delay_ms": 80})
    for host in view.backend.shaping._hosts.values():
        await host.call("shape", links={}, queue=0, mark=0, address=host.address)
    healed = await mend(view, injected)
    assert "round trip of 160 ms asked" in healed.detail["ended_early"][0]


@play("with_hosts_view", node_count=2)
async def test_a_shape_that_does_not_take_effect_is_not_verified(view):
    shaping = view.backend.shaping

    async def nothing(node: str) -> None:
        """Pretend."""

    shaping.reapply, reapply = nothing, shaping.reapply
    injected = await inject(view, "loss", {"targets": "all"})
    assert injected.applied
    assert not injected.verified
    assert re.search(r"loss 20\.0% asked, [01]\.\d% seen", injected.detail["reason"])
    shaping.reapply = reapply
    await mend(view, injected)


@play("with_hosts_view", node_count=2)
async def test_faults_of_links_compose_with_each_other_and_with_a_cut_and_survive_a_restart(view):
    shaping = view.backend.shaping
    link = ("n1", "n2")
    loss = await inject(view, "loss", {"targets": "node:n1", "percent": 30})
    delay = await inject(view, "delay", {"targets": "all", "delay_ms": 50})
    assert loss.verified, loss.detail
    assert delay.verified, delay.detail
    assert shaping.shapes()[link] == LinkShape(loss=0.3, delay_ms=50.0)
    killed = await inject(view, "kill", {"targets": "node:n1"})
    await mend(view, killed)
    cut = await inject(view, "partition", {"shape": "halves"})
    assert cut.detail["leaking"] == []
    await mend(view, cut)
    await mend(view, loss)
    assert shaping.shapes()[link] == LinkShape(delay_ms=50.0)
    left = await mend(view, delay)
    assert "ended_early" not in left.detail
    assert shaping.shapes() == {}


@play("with_hosts_view", node_count=2)
async def test_a_sweep_removes_shapes_that_no_injection_accounts_for(view):
    shaping = view.backend.shaping
    await shaping.shape({("n1", "n2"): LinkShape(loss=0.5)})
    (swept,) = await heal_all(view)
    assert (swept.fault, swept.targets, swept.verified) == ("sweep", ("n1,n2",), True)
    assert shaping.shapes() == {}
    assert (await measured(shaping, ("n1", "n2"))).lost == 0.0


@play("with_hosts_view", node_count=2)
async def test_a_perfect_shape_changes_nothing(view):
    shaping = view.backend.shaping
    await shaping.shape({("n1", "n2"): PERFECT})
    assert shaping.shapes() == {}


@play("with_view")
async def test_plain_processes_can_be_delayed(view):
    assert (await FAULTS["delay"].probe(view)).possible
    parameters = {"targets": "leader", "direction": "outgoing", "delay_ms": 60, "jitter_ms": 20}
    injected = await bite(view, "delay", parameters)
    for _ in range(50):  # a busy machine delays as well, but not always
        other = await view.backend.abilities().shaping.measure(("n1", "n3"))
        if other.round_trip_ms < 30:
            break
    assert other.round_trip_ms < 30, "what is delayed takes 40 ms at least"
    assert await works(view.backend, ("n2", "n1"))
    healed = await mend(view, injected)
    assert "ended_early" not in healed.detail, healed.detail


@pytest.mark.parametrize("name", sorted(set(LINK_FAULTS) - {"delay"}))
@play("with_view", node_count=2)
async def test_a_backend_without_packets_refuses_and_names_the_reason(view, *, name):
    probe = await FAULTS[name].probe(view)
    assert not probe.possible
    assert probe.remedy == "--backend netns"
    refused = await inject(view, name, {})
    assert not refused.applied
    assert probe.reason in refused.detail["reason"]


@play("with_view")
async def test_a_delay_that_cannot_be_measured_when_it_is_healed_has_not_ended_early(view):
    """Of plain processes one that is dead answers no probe."""
    injected = await bite(view, "delay", {"targets": "node:n1", "delay_ms": 60})
    killed = await bite(view, "kill", {"targets": "all"})
    healed = await heal(view, injected)
    assert "ended_early" not in healed.detail
    await mend(view, killed)
    await mend(view, injected)


@play("with_view")
async def test_a_delay_is_healed_though_its_measurement_before_fails(view):
    injected = await bite(view, "delay", {"targets": "node:n1", "delay_ms": 60})
    shaping = view.backend.abilities().shaping
    measure = shaping.measure

    async def unreachable(link) -> None:
        shaping.measure = measure
        raise BackendError(f"{link} cannot be measured")

    shaping.measure = unreachable
    await mend(view, injected)
    assert shaping.shapes() == {}

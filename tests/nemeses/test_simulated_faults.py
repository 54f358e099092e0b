"""Faults that only the simulated world can do, and what a kill keeps and a stop ends."""

import asyncio

import pytest
from simulated import WorldView, in_world

from cluster.backends.base import NodeState
from cluster.backends.sim.settings import SimSettings
from cluster.node.kraft.messages import FetchRequest
from nemeses.drive import heal, heal_all, inject
from nemeses.links.hold import Hold
from nemeses.queries import epoch_of
from nemeses.registry import FAULTS
from tests.play import play
from tests.views import bite, mend, refusal

NODES = ("n1", "n2", "n3")
LONGER_THAN_A_FETCH_S = 0.8
"""A leader answers a Fetch after half a second: by then each follower has sent another."""


async def states(view: WorldView) -> list[NodeState]:
    return [await view.backend.state(node) for node in view.backend.nodes]


R, D = NodeState.RUNNING, NodeState.DEAD


@pytest.mark.parametrize(
    ("keep", "left"), [("nothing", b"durable"), ("everything", b"durable, written")]
)
@play(in_world)
async def test_a_kill_keeps_what_its_parameter_names(view: WorldView, *, keep, left):
    disk = view.backend.world.nodes["n1"].disk
    disk.replace({**disk.files(), "mark": b"durable"})
    disk.append("mark", b", written")
    killed = await bite(view, "kill", {"targets": "node:n1", "keep": keep})
    assert killed.detail["keeps"] == keep
    assert disk.read("mark") == left
    await mend(view, killed)


@play(in_world)
async def test_a_power_loss_takes_the_disk_of_a_node_that_ended_meanwhile(view: WorldView):
    host = view.backend.world.nodes["n1"]
    host.disk.replace({**host.disk.files(), "mark": b"durable"})
    host.disk.append("mark", b", written", at_once=True)
    lost = asyncio.ensure_future(
        inject(view, "power-loss", {"targets": "node:n1", "held_ms": 1_000})
    )
    await asyncio.sleep(0.5)
    view.backend.world.kill("n1", "written")
    assert host.disk.read("mark") == b"durable, written"
    assert (await lost).verified
    assert host.disk.read("mark") == b"durable"
    await mend(view, await lost)


@pytest.mark.parametrize("keep", ["any", "everything", "written"])
def test_a_kill_without_keep_reports_what_the_simulation_keeps(keep):
    async def body(view: WorldView) -> None:
        killed = await inject(view, "kill", {"targets": "node:n1"})
        assert killed.detail["keeps"] == keep
        await mend(view, killed)

    in_world(body, settings=SimSettings(power_loss=keep))


@play(in_world)
async def test_a_stopped_node_ends_gracefully_and_is_down_until_the_heal(view: WorldView):
    leader = await view.leader()
    before = await epoch_of(view, leader)
    stopped = await inject(view, "stop", {"targets": "leader"})
    assert (stopped.targets, stopped.verified) == ((leader,), True)
    await asyncio.sleep(5)
    assert await view.backend.state(leader) is D
    assert await epoch_of(view, await view.leader()) > before
    await mend(view, stopped)
    assert await states(view) == [R, R, R]
    incarnation = view.backend.incarnation(leader)
    await mend(view, stopped)  # once more: a heal is idempotent
    assert view.backend.incarnation(leader) == incarnation == 1


@play(in_world)
async def test_a_stop_that_its_disk_holds_up_did_not_bite_and_is_healed_after_the_disk(
    view: WorldView,
):
    leader = await view.leader()
    stalled = await inject(view, "disk-stall", {"targets": "leader"})
    stopped = await inject(view, "stop", {"targets": f"node:{leader}"})
    assert (stopped.applied, stopped.verified) == (True, False)
    assert stopped.detail["reason"].startswith(f"{leader} did not end within")
    first, second = await heal_all(view)
    assert (first.fault, second.fault) == ("disk-stall", "stop")
    assert (first.verified, second.verified) == (True, True), second.detail
    assert await states(view) == [R, R, R]
    assert stalled.verified


@play(in_world)
async def test_a_paused_node_is_not_stopped(view: WorldView):
    await inject(view, "pause", {"targets": "node:n1"})
    reason = await refusal(view, "stop", {"targets": "node:n1"})
    assert reason == "n1: it is paused and cannot stop gracefully"
    await heal_all(view)


@play(in_world)
async def test_a_fault_may_be_healed_while_it_is_measured(view: WorldView):
    injecting = asyncio.ensure_future(inject(view, "stop", {"targets": "leader"}))
    await asyncio.sleep(0)
    (active,) = view.active
    await mend(view, active)
    await injecting
    assert view.active == []
    assert await states(view) == [R, R, R]


@play(in_world)
async def test_held_messages_are_delivered_at_the_heal_and_not_before(view: WorldView):
    leader = await view.leader()
    follower = next(node for node in NODES if node != leader)
    link = view.backend.world.mesh.link(follower, leader)
    held = await bite(view, "hold", {"links": f"{follower}>{leader}", "types": "FetchRequest"})
    assert held.links == ((follower, leader),)
    await asyncio.sleep(LONGER_THAN_A_FETCH_S)
    passed = link.passed
    messages = view.backend.abilities().messages
    count = await messages.count_held(held.detail["hold"])
    assert count > 0
    healed = await mend(view, held)
    assert healed.detail["delivered"] == count
    assert link.passed == passed + count


@play(in_world)
async def test_only_messages_of_the_types_are_held(view: WorldView):
    leader = await view.leader()
    held = await inject(view, "hold", {"types": "VoteRequest,VoteResponse"})
    await asyncio.sleep(2)
    assert await view.leader() == leader, "no fetch was held"
    resigned = await inject(view, "kill", {"targets": "leader"})
    await asyncio.sleep(3)
    assert await view.leader() is None, "no vote passes"
    await mend(view, held)
    await mend(view, resigned)


@play(in_world)
async def test_held_messages_may_be_dropped(view: WorldView):
    held = await inject(view, "hold", {"types": "FetchRequest", "then": "drop"})
    await asyncio.sleep(LONGER_THAN_A_FETCH_S)
    passed = sum(link.passed for link in view.backend.world.mesh._links.values())
    healed = await heal(view, held)
    assert healed.detail["dropped"] > 0
    now = sum(link.passed for link in view.backend.world.mesh._links.values())
    assert now == passed


@play(in_world)
async def test_a_hold_may_end_on_some_links_first_and_two_holds_are_distinguished(view: WorldView):
    first = await inject(view, "hold", {"types": "FetchRequest"})
    second = await inject(view, "hold", {"types": "FetchRequest"})
    leader = await view.leader()
    one, _ = (node for node in NODES if node != leader)
    await asyncio.sleep(LONGER_THAN_A_FETCH_S)
    messages = view.backend.abilities().messages
    count = await messages.count_held(first.detail["hold"])
    out = await Hold.release(view, first, [(one, leader)])
    assert 0 < out < count
    assert await messages.count_held(first.detail["hold"]) == count - out
    assert (await heal(view, first)).detail["delivered"] == count - out
    await asyncio.sleep(0.3)
    assert await messages.count_held(second.detail["hold"]) > 0
    await mend(view, second)
    assert await messages.count_held(second.detail["hold"]) is None


@play(in_world)
async def test_held_messages_are_delivered_in_the_order_in_which_they_were_sent(view: WorldView):
    mesh = view.backend.world.mesh
    messages = view.backend.abilities().messages
    name = await messages.hold([("n1", "n2")], [])
    arrived: list[int] = []
    link = mesh.link("n1", "n2")
    link.low_ms, link.span_ms, link.slow_probability = 1.0, 0.0, 0.0
    for number in range(3):
        deliver = [lambda number=number: arrived.append(number)] * 2
        mesh.carry(link, FetchRequest, deliver[0], None, deliver[1], None)
    assert await messages.release(name) >= 3
    await asyncio.sleep(0.01)
    assert arrived == [0, 1, 2]


@play(in_world)
async def test_a_timer_rate_is_beside_the_hosts_own_and_healed_to_it(view: WorldView):
    clock = view.backend.world.nodes["n1"].clock
    own = clock.rate
    assert own != 1.0
    hurried = await bite(view, "timer-rate", {"targets": "node:n1", "rate": 5})
    assert clock.rate == 5 * own
    again = await inject(view, "timer-rate", {"targets": "node:n1", "rate": 2})
    assert again.detail["reason"] == "n1: timer-rate acts on it already"
    await mend(view, hurried)
    assert clock.rate == own


@play(in_world)
async def test_a_clock_with_a_rate_does_not_jump_and_runs_faster(view: WorldView):
    clock = view.backend.world.nodes["n1"].clock
    own, before_ms = clock.rate, clock.monotonic_ms()
    await inject(view, "timer-rate", {"targets": "node:n1", "rate": 20})
    assert clock.monotonic_ms() == pytest.approx(before_ms)
    await asyncio.sleep(1)
    assert clock.monotonic_ms() == pytest.approx(before_ms + 20_000 * own)
    await heal_all(view)
    assert clock.monotonic_ms() == pytest.approx(before_ms + 20_000 * own)


@play("with_view")
async def test_real_backends_refuse_faults_of_the_simulation(view):
    probe = await FAULTS["timer-rate"].probe(view)
    assert not probe.possible
    assert "try --backend sim" in probe.reason
    refused = await inject(view, "timer-rate", {})
    assert not refused.applied or not refused.verified
    assert probe.reason in refused.detail["reason"]


@play("with_view")
async def test_a_real_kill_keeps_everything_and_cannot_keep_less(view):
    for keep, way in (("any", ""), ("nothing", "; power-loss does")):
        reason = await refusal(view, "kill", {"targets": "leader", "keep": keep})
        assert reason == f"a kill on backend local cannot keep {keep} of unsynced writes{way}"
    for parameters in ({}, {"keep": "everything"}):
        killed = await inject(view, "kill", {"targets": "leader", **parameters})
        assert killed.detail["keeps"] == "everything"
        await mend(view, killed)


@pytest.mark.slow
@play("with_view")
async def test_a_process_that_was_asked_to_stop_is_started_by_the_heal(view):
    stopped = await inject(view, "stop", {"targets": "leader,node:n1"})
    assert (stopped.targets, stopped.verified) == (("n2", "n1"), True), stopped.detail
    assert await states(view) == [D, D, R]
    assert view.backend.unexpected_deaths() == ()
    await mend(view, stopped)
    assert await states(view) == [R, R, R]
    await mend(view, stopped)  # once more: a heal is idempotent
    assert view.backend.incarnation("n2") == 1

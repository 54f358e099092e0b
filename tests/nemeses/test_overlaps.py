"""Faults that overlap on a simulated cluster: each heal undoes its own, and the last of them all."""

import asyncio
import random

import pytest
from simulated import WorldView, in_world

from cluster.backends.abilities import Damage
from cluster.backends.base import NodeState
from cluster.backends.sim.settings import SimSettings
from nemeses.active_faults import applying, leave_to_keeper
from nemeses.base import application
from nemeses.disks.corruption import CHECKED_FROM, BitFlip
from nemeses.disks.log_files import metadata_segments
from nemeses.drive import heal, heal_all, inject
from nemeses.queries import leading, until
from nemeses.registry import FAULTS
from tests.play import play
from tests.views import bite, refusal

QUICK = sorted(set(FAULTS) - {"limit", "bandwidth"})


def healthy(view: WorldView) -> dict[str, object]:
    """Everything about the world that faults change and heals restore."""
    world = view.backend.world
    links = [world.mesh.link(a, b) for a in world.names for b in world.names if a != b]
    return {
        "states": [node.state for node in world.nodes.values()],
        "cut": world.mesh.cuts(),
        "shapes": [link.shape for link in links],
        "holds": [hold for hold in world.mesh.holds if hold.links],
        "rates": [node.clock.rate for node in world.nodes.values()],
        "skews": [round(node.clock.skew_ms, 6) for node in world.nodes.values()],
        "disks": [
            (disk.stalled, disk.full, disk.sync_ms, disk._next_error)
            for disk in (node.disk for node in world.nodes.values())
        ],
    }


async def voters(view: WorldView) -> list[int]:
    found = await until(lambda: leading(view), 20)
    assert found is not None
    return sorted(voter.replica_id for voter in found[1].voters)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@play(in_world, 5, SimSettings(observers=0))
async def test_everything_is_as_before_when_all_is_healed(view: WorldView, *, seed):
    draw = random.Random(seed)
    before, members = healthy(view), await voters(view)
    if seed % 2:
        await heal(view, await inject(view, "voters", {"change": "upgrade"}))
    running: set[asyncio.Task[object]] = set()
    healing: set[object] = set()

    async def undo(injection) -> None:
        await heal(view, injection)
        healing.discard(injection.key)

    for _ in range(25):
        fault = draw.choice(QUICK)
        parameters = dict(draw.choice(FAULTS[fault].options(view.backend.nodes)))
        if fault == "disk-wipe" and draw.random() < 0.5:
            parameters["back_ms"] = draw.choice((0, 300, 3_000))
        running.add(asyncio.ensure_future(inject(view, fault, parameters)))
        await asyncio.sleep(draw.uniform(0, 1))
        idle = [injection for injection in view.active if injection.key not in healing]
        if len(idle) > 3:
            injection = draw.choice(idle)
            healing.add(injection.key)
            running.add(asyncio.ensure_future(undo(injection)))
    await asyncio.wait(running)
    assert [task.exception() for task in running] == [None] * len(running)
    healed = await heal_all(view)
    left = [(injection.fault, injection.detail) for injection in healed if not injection.verified]
    assert left == []
    assert view.active == []
    assert healthy(view) == before
    assert await voters(view) == members


@play(in_world)
async def test_a_node_is_stalled_once(view: WorldView):
    first = await inject(view, "disk-stall", {"targets": "node:n1"})
    reason = await refusal(view, "disk-stall", {"targets": "node:n1"})
    assert reason == "n1: disk-stall acts on it already"
    other = await inject(view, "disk-slow", {"targets": "node:n1"})
    assert other.applied
    assert all(injection.verified for injection in await heal_all(view))
    assert first.verified


@play(in_world)
async def test_a_stall_that_begins_in_a_loss_of_power_outlasts_it(view: WorldView):
    disk = view.backend.world.nodes["n1"].disk
    lost = asyncio.ensure_future(inject(view, "power-loss", {"targets": "node:n1", "held_ms": 300}))
    await asyncio.sleep(0.1)
    await bite(view, "disk-stall", {"targets": "node:n1"})
    assert (await lost).verified
    assert disk.stalled
    assert all(injection.verified for injection in await heal_all(view))
    assert not disk.stalled


@pytest.mark.parametrize("is_applied", [False, True])
@play(in_world, 3, SimSettings(observers=0))
async def test_a_heal_starts_no_node_whose_disk_is_being_taken(view: WorldView, *, is_applied):
    stopped = await inject(view, "stop", {"targets": "node:n2"})
    with applying(view, "disk-wipe", ["n2"]):
        healing = asyncio.ensure_future(heal(view, stopped))
        await asyncio.sleep(5)
        assert not healing.done()
        if is_applied:
            view.active.append(application("disk-wipe", {}, ("n2",), {}))
    assert (await healing).verified
    assert (await view.backend.state("n2") is NodeState.DEAD) is is_applied


@play(in_world)
async def test_of_two_heals_at_one_time_that_held_a_node_down_one_starts_it(view):
    killed = await inject(view, "kill", {"targets": "node:n2"})
    stopped = application("stop", {"targets": "node:n2"}, ("n2",), {})
    view.active.append(stopped)
    assert await leave_to_keeper(view, "n2", killed) == "stop"
    assert await leave_to_keeper(view, "n2", stopped) == ""
    await view.backend.start("n2")


@play(in_world)
async def test_a_node_that_another_fault_ended_is_not_blamed_for_damage_that_it_has_still(view):
    await inject(view, "kill", {"targets": "node:n2"})
    disks = view.backend.abilities().disks
    path = metadata_segments(await disks.files("n2"), "n2")[0]
    await disks.damage("n2", Damage.BIT_FLIP, path, CHECKED_FROM, 0)
    damage = {"n2": {"damage": {"file": path, "byte": CHECKED_FROM}}}
    flipped = application("bit-flip", {"file": "partition"}, ("n2",), {"nodes": damage})
    seen = await BitFlip().check_gone(view, "n2", flipped)
    assert (seen.wrong, seen.violation, seen.detail["left_to"]) == ("", None, "kill")

"""In a simulated world faults act at the very instruction from which they are called.

Stepped once by hand, an injection has hit all its targets, whatever it goes on to wait for.
"""

import asyncio
from collections.abc import Callable

import pytest
from simulated import WorldView, begun, frozen, in_world

from cluster.backends.base import NodeState
from nemeses.base import Injection
from nemeses.drive import heal, heal_all, inject
from tests.harness.sim.hooks import at_event
from tests.play import play

TWO = "node:n1,node:n3"
Hit = Callable[[WorldView, str], bool]


def state_of(view: WorldView, node: str) -> NodeState:
    return view.backend.world.nodes[node].state


def disk_of(view: WorldView, node: str):
    return view.backend.world.nodes[node].disk


HITS: list[tuple[str, dict[str, object], Hit]] = [
    ("kill", {}, lambda view, node: state_of(view, node) is NodeState.DEAD),
    ("kill", {"keep": "nothing"}, lambda view, node: state_of(view, node) is NodeState.DEAD),
    ("pause", {}, lambda view, node: state_of(view, node) is NodeState.PAUSED),
    ("power-loss", {"held_ms": 0}, lambda view, node: state_of(view, node) is NodeState.DEAD),
    ("partition", {}, lambda view, node: ("n2", node) in view.backend.links_cut()),
    ("disk-stall", {}, lambda view, node: disk_of(view, node).stalled),
    ("disk-slow", {"delay_ms": 70}, lambda view, node: disk_of(view, node).sync_ms == 70.0),
    ("disk-full", {}, lambda view, node: disk_of(view, node).full),
    ("disk-error", {}, lambda view, node: disk_of(view, node)._next_error is not None),
    ("timer-rate", {"rate": 4}, lambda view, node: view.backend.world.nodes[node].clock.rate > 3.9),
    (
        "clock-jump",
        {"jump_ms": 10**6},
        lambda view, node: view.backend.world.nodes[node].clock.skew_ms > 9 * 10**5,
    ),
    (
        "delay",
        {"delay_ms": 30},
        lambda view, node: view.backend.world.mesh.link(node, "n2").shape is not None,
    ),
]


@pytest.mark.parametrize(("fault", "parameters", "hit"), HITS)
@play(in_world, 5)
async def test_all_targets_are_hit_in_the_first_step(view: WorldView, *, fault, parameters, hit):
    assert not any(hit(view, node) for node in ("n1", "n3"))
    begun(inject(view, fault, {**parameters, "targets": TWO}))
    assert [hit(view, node) for node in ("n1", "n3")] == [True, True]


@play(in_world)
async def test_a_node_is_asked_to_stop_in_the_first_step(view: WorldView):
    leader = await view.leader()
    process = view.backend.world.nodes[leader].process
    begun(inject(view, "stop", {"targets": "leader"}))
    assert process.node._stopping != []
    assert state_of(view, leader) is NodeState.RUNNING, "it hands over first"


@play(in_world)
async def test_a_bit_flip_kills_and_damages_in_the_first_step(view: WorldView):
    disk, path = disk_of(view, "n1"), "__cluster_metadata-0/quorum-state"
    before = disk.read(path)
    begun(inject(view, "bit-flip", {"targets": "node:n1", "file": "quorum-state"}))
    assert disk.read(path) == bytes([before[0] ^ 1]) + before[1:]


@pytest.mark.slow
@play(in_world, 5)
async def test_a_kill_within_a_nodes_own_event_ends_it_there(view: WorldView):
    world = view.backend.world
    done: list[Injection] = []
    leader = await view.leader()

    def kill() -> None:
        done.append(begun(inject(view, "kill", {"targets": "leader,follower"})))

    at_event(world, "append", kill, node=leader)
    await asyncio.sleep(5)
    (killed,) = done
    assert (killed.targets[0], len(killed.targets), killed.verified) == (leader, 2, True)
    assert all(injection.verified for injection in await heal_all(view))


MEASURED_AT_ONCE = [
    *(row[:2] for row in HITS if row[0] != "disk-error"),
    ("hold", {}),
    ("partition", {"shape": "bridge"}),
    ("loss", {"percent": 100}),
    ("duplicate", {"percent": 80}),
    ("reorder", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "parameters"), MEASURED_AT_ONCE)
@play(in_world, 5)
async def test_it_is_measured_without_time_or_events_or_draws(
    view: WorldView, *, fault, parameters
):
    plain = fault == "hold" or parameters.get("shape") == "bridge"
    targets = {} if plain else {"targets": TWO}
    injection = await frozen(view, fault, {**parameters, **targets})
    assert injection.verified, injection.detail
    assert (await heal(view, injection)).verified


@pytest.mark.parametrize("fault", ["clock-drift", "clock-strobe"])
@play(in_world)
async def test_a_rate_is_read_and_not_waited_for(view: WorldView, *, fault):
    world = view.backend.world
    at_ms = world.scheduler.now_ms
    injection = await inject(view, fault, {"targets": TWO})
    assert injection.verified, injection.detail
    healed = await heal(view, injection)
    assert healed.verified, healed.detail
    assert world.scheduler.now_ms == at_ms

"""Names, parameters, and how faults are driven so that a schedule never dies of one."""

import asyncio
import json
import os
from dataclasses import replace

import pytest
from waiting import eventually

from cluster.backends.base import BackendError, NodeState
from nemeses.drive import SWEEP, heal, heal_all, inject, start_ended
from nemeses.registry import FAULTS
from tests.play import play


@pytest.mark.parametrize("name", ["kill", "partition", "pause", "restart"])
@play("with_view")
async def test_every_fault_of_nodes_and_cuts_is_possible_without_privilege(view, *, name):
    probe = await FAULTS[name].probe(view)
    assert probe.possible, probe.reason


@play("with_view", node_count=1)
async def test_one_node_alone_cannot_be_partitioned(view):
    assert not (await FAULTS["partition"].probe(view)).possible
    assert FAULTS["partition"].options(view.backend.nodes) == ()


@play("with_view")
async def test_an_error_becomes_an_unverified_injection_and_not_an_exception(view):
    async def broken() -> str:
        raise RuntimeError("lost my way")

    view.leader = broken
    result = await inject(view, "kill", {"targets": "leader"})
    assert (result.applied, result.verified) == (True, False)
    assert result.detail["reason"].startswith("RuntimeError: lost my way")
    assert (await heal(view, result)).verified
    assert view.active == []
    unknown = await inject(view, "kil", {})
    assert not unknown.applied
    assert "did you mean 'kill'" in unknown.detail["reason"]


@play("with_view")
async def test_a_backend_that_fails_before_a_fault_acts_makes_a_refusal(view):
    async def broken(_node: str) -> NodeState:
        raise BackendError("the host does not answer")

    view.backend.state = broken
    for name in ("kill", "pause", "clock-jump", "disk-wipe"):
        result = await inject(view, name, {"targets": "node:n1"})
        assert (result.applied, result.detail["reason"]) == (False, "the host does not answer")
    assert view.active == []


@play("with_view")
async def test_a_partition_that_fails_in_part_is_no_refusal(view):
    cut_links = view.backend.cut_links

    async def some(links) -> None:
        await cut_links(sorted(links)[:1])
        raise BackendError("n3 does not answer")

    view.backend.cut_links = some
    result = await inject(view, "partition", {"shape": "links", "links": "n1>n2,n1>n3"})
    assert (result.applied, result.verified) == (True, False)
    assert "n3 does not answer" in result.detail["reason"]
    assert (await heal(view, result)).verified
    assert view.backend.links_cut() == frozenset()


@play("with_view")
async def test_healing_what_was_not_applied_does_nothing(view):
    view.leads = None
    refused = await inject(view, "kill", {"targets": "leader"})
    assert (await heal(view, refused)).verified


@play("with_view")
async def test_cancellation_passes_through(view):
    async def endless() -> str:
        await asyncio.sleep(600)
        return "n1"

    view.leader = endless
    task = asyncio.create_task(inject(view, "kill", {"targets": "leader"}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@play("with_view")
async def test_heal_all_undoes_everything_newest_first(view):
    cut = await inject(view, "partition", {"shape": "isolate", "targets": "leader"})
    paused = await inject(view, "pause", {"targets": "node:n1"})
    killed = await inject(view, "kill", {"targets": "leader"})
    results = await heal_all(view)
    assert [injection.fault for injection in results] == ["kill", "pause", "partition"]
    assert all(injection.verified for injection in results), results
    assert view.active == []
    assert view.backend.links_cut() == frozenset()
    for node in view.backend.nodes:
        assert await view.backend.state(node) is NodeState.RUNNING
    assert await heal_all(view) == ()
    for injection in (cut, paused, killed, *results):
        json.dumps([injection.value("inject"), injection.value("heal")])


@play("with_view")
async def test_heal_all_sweeps_up_after_an_injection_that_is_not_active(view):
    await view.backend.cut_links([("n1", "n2")])
    await view.backend.pause("n1")
    await view.backend.kill("n3")
    (swept,) = await heal_all(view)
    assert (swept.fault, swept.verified) == (SWEEP, True)
    assert view.backend.links_cut() == frozenset()
    for node in view.backend.nodes:
        assert await view.backend.state(node) is NodeState.RUNNING


@play("with_view")
async def test_heal_all_does_not_bring_a_crashed_node_back(view):
    process = await view.backend.process("n3")
    os.kill(process.pid, 6)
    await eventually(view.backend.unexpected_deaths)
    assert await heal_all(view) == ()
    assert await view.backend.state("n3") is NodeState.DEAD


async def healed_of_a_storage_fault(view, fault: str) -> None:
    """Heal a fault that says of itself that n3 may end over it."""
    injection = await inject(view, fault, {"targets": "node:n3"})
    detail = {**injection.detail, "may_end_node": True}
    assert (await heal(view, replace(injection, detail=detail))).verified


async def crash(view, node: str) -> None:
    process = await view.backend.process(node)
    os.kill(process.pid, 6)
    await eventually(view.backend.unexpected_deaths)


@play("with_view")
async def test_a_node_that_ended_over_a_storage_fault_after_its_heal_is_started_again(view):
    await healed_of_a_storage_fault(view, "pause")
    assert await start_ended(view) == ()
    await crash(view, "n3")
    (started,) = await start_ended(view)
    assert (started.fault, started.targets, started.verified) == (SWEEP, ("n3",), True)
    assert await view.backend.state("n3") is NodeState.RUNNING
    assert await start_ended(view) == ()


@play("with_view")
async def test_a_node_that_a_fault_holds_down_is_not_started_for_an_earlier_storage_fault(view):
    await healed_of_a_storage_fault(view, "pause")
    await inject(view, "kill", {"targets": "node:n3"})
    assert await start_ended(view) == ()
    assert await view.backend.state("n3") is NodeState.DEAD


@play("with_view")
async def test_a_node_that_a_heal_has_started_and_that_crashes_then_stays_down(view):
    await healed_of_a_storage_fault(view, "kill")
    await crash(view, "n3")
    assert await start_ended(view) == ()
    assert await heal_all(view) == ()
    assert await view.backend.state("n3") is NodeState.DEAD

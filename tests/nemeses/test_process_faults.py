"""Kill, pause and restart on a cluster of fake nodes, and how they compose."""

import pytest

from cluster.backends.base import BackendError, NodeState
from nemeses.drive import heal, inject
from tests.play import play
from tests.views import bite, mend, refusal


async def states(view) -> list[NodeState]:
    return [await view.backend.state(node) for node in view.backend.nodes]


R, P, D = NodeState.RUNNING, NodeState.PAUSED, NodeState.DEAD


@play("with_view")
async def test_kill_of_the_leader_is_measured_and_heal_starts_another_process(view):
    before = await view.backend.process("n2")
    killed = await inject(view, "kill", {"targets": "leader"})
    assert (killed.targets, killed.verified) == (("n2",), True)
    assert await states(view) == [R, D, R]
    assert view.active == [killed]
    await mend(view, killed)
    assert await states(view) == [R, R, R]
    assert await view.backend.process("n2") != before
    assert view.active == []
    await mend(view, killed)  # once more: a heal is idempotent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "count"), [("random", 1), ("minority", 2), ("majority", 3), ("all", 5)]
)
@play("with_view", node_count=5)
async def test_kill_hits_the_nodes_of_its_target(view, *, target, count):
    killed = await bite(view, "kill", {"targets": target})
    assert len(killed.targets) == count
    assert (await states(view)).count(D) == count
    await mend(view, killed)
    assert await states(view) == [R] * 5


@play("with_view")
async def test_a_named_node_and_the_followers_can_be_hit(view):
    named = await inject(view, "kill", {"targets": "node:n3"})
    assert named.targets == ("n3",)
    rest = await inject(view, "kill", {"targets": "followers"})
    assert rest.targets == ("n1",), "n2 leads and n3 is dead already"


@play("with_view")
async def test_a_pause_that_somebody_ended_before_its_heal_did_not_bite(view):
    paused = await bite(view, "pause", {"targets": "leader"})
    await view.backend.resume("n2")
    first, again = await heal(view, paused), await heal(view, paused)
    assert first.detail["ended_early"] == ["n2 is running"]
    assert (first.verified, "ended_early" in again.detail) == (True, False)


@pytest.mark.slow
@play("with_view")
async def test_pause_is_seen_by_the_kernel_and_heal_resumes(view):
    paused = await bite(view, "pause", {"targets": "leader"})
    assert await states(view) == [R, P, R]
    before, after = paused.detail["processes_before"], paused.detail["processes_after"]
    assert before == after, "a paused process stays the same"
    await mend(view, paused)
    assert await states(view) == [R, R, R]


@pytest.mark.parametrize("graceful", [False, True])
@play("with_view")
async def test_restart_brings_another_process(view, *, graceful):
    again = await bite(view, "restart", {"targets": "leader", "graceful": graceful})
    assert again.detail["processes_before"]["n2"] != again.detail["processes_after"]["n2"]
    assert await states(view) == [R, R, R]
    assert view.backend.incarnation("n2") == 1
    await mend(view, again)
    assert view.backend.incarnation("n2") == 1, "heal had nothing to do"
    assert view.backend.unexpected_deaths() == ()


@play("with_view")
async def test_a_dead_node_is_not_paused_restarted_or_killed_again(view):
    await inject(view, "kill", {"targets": "node:n2"})
    for fault in ("pause", "restart", "kill"):
        refused = await inject(view, fault, {"targets": "node:n2"})
        assert not refused.applied
        assert not refused.verified
        assert refused.targets == ()
        assert refused.detail["reason"].startswith("n2: it is dead")
    assert await states(view) == [R, D, R]


@play("with_view")
async def test_a_majority_is_not_made_of_fewer_nodes_than_that(view):
    await inject(view, "kill", {"targets": "minority"})
    await inject(view, "kill", {"targets": "random"})
    refused = await inject(view, "kill", {"targets": "majority"})
    assert not refused.applied
    assert "majority is 2 nodes and 1 can be hit" in refused.detail["reason"]
    assert (await states(view)).count(D) == 2


@play("with_view")
async def test_a_paused_node_can_be_killed_and_both_heals_work_in_either_order(view):
    for first_healed in (0, 1):
        paused = await inject(view, "pause", {"targets": "leader"})
        killed = await bite(view, "kill", {"targets": "leader"})
        assert await states(view) == [R, D, R]
        faults = [paused, killed]
        await mend(view, faults[first_healed])
        await mend(view, faults[1 - first_healed])
        assert await states(view) == [R, R, R]


@play("with_view")
async def test_the_heal_of_a_pause_leaves_a_later_process_to_its_own_pause(view):
    first = await bite(view, "pause", {"targets": "leader"})
    await mend(view, await bite(view, "kill", {"targets": "leader"}))
    second = await bite(view, "pause", {"targets": "leader"})
    await mend(view, first)
    assert await states(view) == [R, P, R]
    await mend(view, second)
    assert await states(view) == [R, R, R]


@pytest.mark.parametrize("fault", ["kill", "pause", "restart"])
@play("with_view")
async def test_what_died_while_a_target_was_chosen_was_not_hit(view, *, fault):
    async def kill_it() -> str:
        await view.backend.kill("n2")
        return "n2"

    view.leader = kill_it
    assert await refusal(view, fault, {"targets": "leader"}) == "n2 died meanwhile"


@play("with_view")
async def test_a_paused_node_does_not_stop_gracefully_and_is_not_paused_twice(view):
    await inject(view, "pause", {"targets": "node:n1"})
    graceful = await inject(view, "restart", {"targets": "node:n1", "graceful": True})
    assert not graceful.applied
    assert not (await inject(view, "pause", {"targets": "node:n1"})).applied
    await bite(view, "restart", {"targets": "node:n1"})


@play("with_view")
async def test_without_a_leader_a_fault_on_the_leader_is_refused(view):
    view.leads = None
    assert await refusal(view, "kill", {"targets": "leader"}) == "no leader is known"
    assert await states(view) == [R, R, R]


@play("with_view")
async def test_a_kill_that_does_not_kill_is_not_verified(view):
    async def spare(node: str) -> None:
        """Pretend."""

    view.backend.kill = spare
    killed = await inject(view, "kill", {"targets": "leader"})
    assert killed.applied
    assert not killed.verified
    assert killed.detail["reason"] == "n2 is running"


@play("with_view")
async def test_a_restart_that_keeps_the_process_is_not_verified(view):
    async def nothing(node: str) -> None:
        """Pretend."""

    view.backend.kill = view.backend.start = nothing
    again = await inject(view, "restart", {"targets": "leader"})
    assert not again.verified
    assert again.detail["reason"] == "n2 is the same process as before"


@play("with_view")
async def test_a_node_that_does_not_come_back_makes_the_heal_fail_and_stay_active(view):
    async def refuse(node: str) -> None:
        raise BackendError(f"{node} ended with 3 as it started")

    killed = await inject(view, "kill", {"targets": "leader"})
    start, view.backend.start = view.backend.start, refuse
    failed = await heal(view, killed)
    assert not failed.verified
    assert failed.detail["reason"] == "n2 ended with 3 as it started"
    assert view.active == [killed]
    view.backend.start = start
    await mend(view, killed)
    assert view.active == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "hit"), [("minority", 1), ("majority", 2), ("followers", 2), ("all", 5)]
)
@play("with_view", node_count=5)
async def test_targets_of_the_quorum_are_nodes_that_can_vote(view, *, target, hit):
    view.controllers = ("n1", "n2", "n3")
    killed = await inject(view, "kill", {"targets": target})
    assert len(killed.targets) == hit
    assert target == "all" or set(killed.targets) <= set(view.controllers)
    view.active.clear()
    view.controllers = ("n1",)
    refused = await inject(view, "kill", {"targets": "minority"})
    assert (refused.applied, "minority is 0 nodes" in refused.detail["reason"]) == (False, True)

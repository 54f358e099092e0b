"""`disk-wipe`: where voters are in the log the one that lost its disk is replaced (KIP-853)."""

import asyncio
from uuid import UUID

import pytest
from simulated import in_world
from test_quorum_faults import LiveView, simulated, with_observer

from cluster.backends.base import NodeState
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.sim_backend import SimBackend
from cluster.systems.kraft import KraftSystem
from nemeses.base import View
from nemeses.disks import wipe
from nemeses.drive import heal, heal_all, inject
from nemeses.queries import leading, until
from nemeses.quorum.membership import (
    CHANGE_TIMEOUT_S,
    directories,
    fetching_directory,
    is_dynamic,
    node_id,
)
from tests.play import play
from tests.running import running
from tests.views import bite, mend, refusal


async def voters(view: View) -> dict[int, object]:
    found = await until(lambda: leading(view), 600)
    assert found is not None
    return dict(directories(found[1]))


async def upgrade(view: View) -> None:
    """Let the voters be in the log."""
    replaced = await inject(view, "voters", {"change": "replace"})
    await mend(view, replaced)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["leader", "node:n1", "minority"])
@play(simulated, 5)
async def test_a_voter_in_the_log_comes_back_as_another_replica(view: View, *, target):
    await upgrade(view)
    before = await voters(view)
    wiped = await bite(view, "disk-wipe", {"targets": target})
    await asyncio.sleep(3)
    healed = await mend(view, wiped)
    after = await voters(view)
    assert after.keys() == before.keys()
    changed = {node for node in after if after[node] != before[node]}
    assert changed == {node_id(node) for node in wiped.targets}
    for node in wiped.targets:
        detail = healed.detail["nodes"][node]
        assert detail["directory_before"] == str(before[node_id(node)])
        assert detail["directory_now"] == str(after[node_id(node)])
    again = await inject(view, "disk-wipe", {"targets": target})
    assert (again.verified, (await heal(view, again)).verified) == (True, True)


@play(simulated)
async def test_a_configured_voter_gets_its_files_back(view: View):
    found = await leading(view)
    assert found is not None
    assert not is_dynamic(found[1])
    files = view.backend.abilities().disks.files
    before = await files("n1")
    wiped = await bite(view, "disk-wipe", {"targets": "node:n1"})
    healed = await mend(view, wiped)
    assert "directory_now" not in healed.detail["nodes"]["n1"]
    assert before.keys() <= (await files("n1")).keys()


@play(simulated)
async def test_a_voter_whose_removal_cannot_commit_gets_its_files_back(view: View):
    await upgrade(view)
    before = await voters(view)
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
    killed = await inject(view, "kill", {"targets": "node:n2"})
    assert (wiped.verified, killed.verified) == (True, True)
    # One of the three is left, and commits nothing: n1 is given its files and is the voter that
    # it was. Whether it and n3 elect a leader in time to say so is theirs.
    healed = await heal(view, wiped)
    if healed.verified:
        place = healed.detail["nodes"]["n1"]
        assert place["directory_now"] == place["directory_before"] == str(before[1])
        assert view.active == [killed]
    else:
        assert "n1 as a voter" in healed.detail["reason"]
        assert view.active == [wiped, killed]
    assert all(injection.verified for injection in await heal_all(view))
    assert await voters(view) == before
    await asyncio.sleep(5)
    assert await voters(view) == before


SMALL_FETCHES = {"controller.quorum.fetch.max.bytes": 1}


@pytest.mark.slow
@play(in_world, 3, SimSettings(latency_ms=(90.0, 110.0)), SMALL_FETCHES)
async def test_a_heal_waits_as_long_as_the_empty_node_catches_up(view: View):
    await upgrade(view)
    before = await voters(view)
    await asyncio.sleep(60)  # records of an idle leader: some 120 batches, and a Fetch for each
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
    began_s = asyncio.get_running_loop().time()
    await mend(view, wiped)
    assert asyncio.get_running_loop().time() - began_s > CHANGE_TIMEOUT_S
    assert (await voters(view))[1] != before[1]


@pytest.mark.slow
@play(simulated, 5)
async def test_a_voter_is_replaced_beside_another_that_was_removed(view: View):
    await upgrade(view)
    before = await voters(view)
    removed = await inject(view, "voters", {"change": "remove", "targets": "node:n1"})
    wiped = await inject(view, "disk-wipe", {"targets": "node:n2"})
    assert (removed.verified, wiped.verified) == (True, True)
    assert all(injection.verified for injection in await heal_all(view))
    after = await voters(view)
    assert after.keys() == before.keys()
    assert {node for node in after if after[node] != before[node]} == {2}


@play(simulated, 5)
async def test_a_voter_is_not_given_up_while_the_voters_change(view: View):
    await upgrade(view)
    before = await voters(view)
    cut = await inject(view, "partition", {"targets": "leader"})
    changing = asyncio.ensure_future(inject(view, "voters", {"targets": "node:n1"}))
    await asyncio.sleep(0.2)
    reason = await refusal(view, "disk-wipe", {"targets": "node:n2", "back_ms": 0})
    assert reason == "n2 cannot be replaced now, and must not come back empty"
    wiped = await inject(view, "disk-wipe", {"targets": "node:n2"})
    assert (cut.verified, wiped.verified) == (True, True)
    await changing
    assert all(injection.verified for injection in await heal_all(view))
    assert await voters(view) == before


@play(simulated, 5)
async def test_a_node_does_not_become_a_voter_while_its_disk_is_about_to_be_lost(
    view: View, *, monkeypatch
):
    """Found by 2,000 long seeds: added between the look at the voters and the loss of its disk."""
    all_know = wipe._all_know_directories

    async def slowly(*arguments) -> bool:
        await asyncio.sleep(0.5)
        return await all_know(*arguments)

    monkeypatch.setattr(wipe, "_all_know_directories", slowly)
    await upgrade(view)
    await bite(view, "voters", {"change": "remove", "targets": "node:n1"})
    wiping = asyncio.ensure_future(inject(view, "disk-wipe", {"targets": "node:n1", "back_ms": 0}))
    await asyncio.sleep(0.3)  # it has decided, and has not acted
    adding = asyncio.ensure_future(inject(view, "voters", {"change": "add", "targets": "node:n1"}))
    leaving = asyncio.ensure_future(
        inject(view, "voters", {"change": "remove", "targets": "leader"})
    )
    wiped, added, left = await wiping, await adding, await leaving
    assert (wiped.applied, left.applied) == (True, False), left.detail
    lost = {UUID(was) for was in wiped.detail["nodes"]["n1"]["damage"]["was"]}
    assert len(lost) == 1
    assert (await voters(view)).get(1) not in lost
    results = await heal_all(view)
    assert all(injection.verified for injection in results), (added.detail, results)
    after = await voters(view)
    assert after.keys() == {1, 2, 3, 4, 5}
    assert after[1] not in lost


@pytest.mark.slow
@play(simulated, 5)
async def test_what_was_given_up_is_never_added_again(view: View):
    """Until the new replica fetches, the leader remembers only the one that is lost."""
    await upgrade(view)
    removed = await inject(view, "voters", {"change": "remove", "targets": "node:n1"})
    before = await fetching_directory(view, "n1")
    assert before is not None
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1", "back_ms": 0})
    assert (removed.verified, wiped.verified) == (True, True)
    await view.backend.cut_links({(node, "n1") for node in ("n2", "n3", "n4", "n5")})
    await view.backend.cut_links({("n1", node) for node in ("n2", "n3", "n4", "n5")})
    await asyncio.sleep(0.5)
    found = await leading(view)
    assert before in {observer.directory_id for observer in found[1].observers}
    assert await fetching_directory(view, "n1") is None
    healing = asyncio.ensure_future(heal(view, removed))
    await asyncio.sleep(3)
    assert 1 not in await voters(view)
    await view.backend.restore_links(view.backend.links_cut())
    assert (await healing).verified
    assert (await voters(view))[1] != before


@pytest.mark.slow
@play(simulated, 5)
async def test_what_a_new_leader_had_not_heard_of_is_never_added_again(view: View, *, monkeypatch):
    """Seed 1091 of 120 s: the lost replica fetched from the leader just before its disk was lost."""
    all_know = wipe._all_know_directories
    before: list[UUID | None] = []
    others = ("n2", "n3", "n4", "n5")
    links = {(node, "n1") for node in others} | {("n1", node) for node in others}

    async def slowly(*arguments) -> bool:
        assert await fetching_directory(view, "n1") is None
        await view.backend.restore_links(links)
        before.append(await until(lambda: fetching_directory(view, "n1"), 20))
        return await all_know(*arguments)

    monkeypatch.setattr(wipe, "_all_know_directories", slowly)
    await upgrade(view)
    removed = await bite(view, "voters", {"change": "remove", "targets": "node:n1"})
    await view.backend.cut_links(links)
    await bite(view, "resign", {})
    wiped = await bite(view, "disk-wipe", {"targets": "node:n1", "back_ms": 0})
    lost = before[0]
    assert wiped.detail["nodes"]["n1"]["damage"]["was"] == [str(lost)]
    held = await bite(view, "hold", {"links": "n1>n2,n1>n3,n1>n4,n1>n5", "types": "FetchRequest"})
    healing = asyncio.ensure_future(heal(view, removed))
    await asyncio.sleep(3)
    assert 1 not in await voters(view)
    await mend(view, held)
    assert (await healing).verified
    assert (await voters(view))[1] not in (None, lost)


@play(simulated)
async def test_two_losses_at_once_are_no_more_than_a_minority(view: View):
    await upgrade(view)
    both = await asyncio.gather(
        inject(view, "disk-wipe", {"targets": "node:n1"}),
        inject(view, "bit-flip", {"targets": "node:n2"}),
    )
    assert sorted(injection.applied for injection in both) == [False, True]
    (refused,) = (injection for injection in both if not injection.applied)
    assert "n1, n2 would be" in refused.detail["reason"]
    assert all(injection.verified for injection in await heal_all(view))


def files_of(view: View, node: str) -> dict[str, bytes]:
    return view.backend.world.nodes[node].disk.files()


@play(simulated)
async def test_a_node_comes_back_empty_while_the_voter_that_it_was_counts_still(view: View):
    await upgrade(view)
    before = await voters(view)
    leader = await view.leader()
    node = next(node for node in view.backend.nodes if node != leader)
    wiped = await bite(view, "disk-wipe", {"targets": f"node:{node}", "back_ms": 500})
    assert (await view.backend.state(node), files_of(view, node)) == (NodeState.DEAD, {})
    await asyncio.sleep(3)
    assert await view.backend.state(node) is NodeState.RUNNING
    assert await voters(view) == before
    now = await fetching_directory(view, node)
    assert now not in (None, before[node_id(node)])
    await mend(view, wiped)
    assert await voters(view) == {**before, node_id(node): now}
    await mend(view, wiped)  # once more: a heal is idempotent
    assert await voters(view) == {**before, node_id(node): now}


@pytest.mark.slow
@play(simulated)
async def test_a_node_that_is_healed_before_its_return_is_replaced_once(view: View):
    await upgrade(view)
    before = await voters(view)
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1", "back_ms": 60_000})
    await mend(view, wiped)
    after, incarnation = await voters(view), view.backend.incarnation("n1")
    assert after[1] != before[1]
    await asyncio.sleep(70)
    assert (view.backend.incarnation("n1"), await voters(view)) == (incarnation, after)


@play(simulated, 5)
async def test_a_heal_that_is_repeated_wipes_no_voter_again(view: View, *, monkeypatch):
    """The node was a voter again, and was stopped before its heal saw it alive."""
    joined: list[str] = []
    join_anew = SimBackend.join_anew

    async def counted(backend: SimBackend, node: str) -> None:
        joined.append(node)
        await join_anew(backend, node)

    monkeypatch.setattr(SimBackend, "join_anew", counted)
    await upgrade(view)
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
    await mend(view, wiped)
    after = await voters(view)
    await view.backend.kill("n1")
    view.active.append(wiped)
    await mend(view, wiped)
    assert await voters(view) == after
    assert joined == ["n1"]


@play(simulated)
async def test_a_node_that_came_back_and_was_killed_is_started_by_the_heal_of_its_kill(view: View):
    await upgrade(view)
    before = await voters(view)
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1", "back_ms": 100})
    await asyncio.sleep(2)
    killed = await inject(view, "kill", {"targets": "node:n1", "keep": "nothing"})
    await mend(view, killed)
    assert await view.backend.state("n1") is NodeState.RUNNING
    await mend(view, wiped)
    assert (await voters(view))[1] != before[1]


@play(simulated, 5)
async def test_no_other_heal_starts_a_node_on_the_empty_disk_of_the_voter_that_it_was(view: View):
    await upgrade(view)
    failing = await inject(view, "disk-full", {"targets": "node:n1"})
    wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
    assert (failing.applied, wiped.verified) == (True, True)
    await mend(view, failing)
    assert await view.backend.state("n1") is NodeState.DEAD
    await mend(view, wiped)


@play(simulated)
async def test_a_configured_voter_does_not_come_back_empty(view: View):
    reason = await refusal(view, "disk-wipe", {"targets": "node:n1", "back_ms": 0})
    assert reason == "n1 cannot be replaced now, and must not come back empty"
    assert await view.backend.state("n1") is NodeState.RUNNING


@pytest.mark.cluster
@pytest.mark.usefixtures("patient")
@play(asyncio.run)
async def test_a_real_voter_comes_back_as_another_replica(*, tmp_path):
    backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
    async with running(backend):
        view = LiveView(backend)
        await voters(view)  # there is a leader
        await upgrade(view)
        before = await voters(view)
        wiped = await bite(view, "disk-wipe", {"targets": "leader"})
        await mend(view, wiped)
        after = await voters(view)
        changed = {node for node in after if after[node] != before[node]}
        assert changed == {node_id(node) for node in wiped.targets}
        (node,) = wiped.targets
        properties = (backend.node_folder(node) / "server.properties").read_text()
        assert "controller.quorum.voters" not in properties
        assert "controller.quorum.bootstrap.servers" in properties
    assert backend.unexpected_deaths() == ()


@play(with_observer)
async def test_a_node_that_never_votes_comes_back_empty_and_counts_for_no_minority(view: View):
    view.controllers = ("n1", "n2", "n3")
    await upgrade(view)
    reason = await refusal(view, "voters", {"change": "add", "targets": "node:n4"})
    assert reason == "n4: it never votes"
    before = await fetching_directory(view, "n4")
    wiped = await inject(view, "disk-wipe", {"targets": "node:n4"})
    beside = await inject(view, "disk-wipe", {"targets": "node:n1"})
    assert (wiped.verified, beside.verified) == (True, True), "one of three voters"
    assert all(injection.verified for injection in await heal_all(view))
    assert sorted(await voters(view)) == [1, 2, 3]
    assert before != await until(lambda: fetching_directory(view, "n4"), 10) is not None

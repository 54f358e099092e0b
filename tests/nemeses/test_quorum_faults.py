"""Faults `voters`, `resign` and `snapshot`, on simulated nodes and on real ones."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from simulated import in_world

from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.sim.settings import SimSettings
from cluster.systems.kraft import KraftSystem
from nemeses.base import Injection, View
from nemeses.drive import heal, heal_all, heal_order, inject
from nemeses.queries import describe, leading, until
from nemeses.quorum import voters
from nemeses.quorum.membership import (
    add_voter,
    directories,
    fetching_directory,
    is_dynamic,
    quorum_in_force,
)
from nemeses.registry import FAULTS
from tests.play import play
from tests.running import running
from tests.views import StubView, bite, mend, refusal

NODES = ("n1", "n2", "n3")


class LiveView(StubView):
    """A view that asks the nodes themselves which leads."""

    async def leader(self) -> str | None:
        found = [(node, await describe(self, node)) for node in self.backend.nodes]
        leading = [(quorum.leader_epoch, node) for node, quorum in found if quorum is not None]
        return max(leading)[1] if leading else None


simulated = partial(in_world, view=LiveView)


@pytest.mark.parametrize("parameters", FAULTS["voters"].options(NODES))
@play(simulated)
async def test_a_voter_is_removed_and_added_again(view: View, *, parameters):
    gone = await bite(view, "voters", parameters)
    expected = 3 if parameters["change"] == "replace" else 2
    assert len(gone.detail["voters_after"]) == expected
    healed = await mend(view, gone)
    assert healed.detail["voters_healed"] == list(NODES)


@play(simulated)
async def test_two_voters_always_stay(view: View):
    first = await inject(view, "voters", {"change": "remove"})
    second = await inject(view, "voters", {"change": "remove"})
    assert first.verified
    assert not second.applied
    assert "only 2 voters are left" in second.detail["reason"]
    await heal_all(view)


@play(simulated)
async def test_a_leader_resigns_and_a_later_epoch_begins(view: View):
    resigned = await bite(view, "resign", {})
    assert resigned.detail["epoch_after"] > resigned.detail["epoch_before"]
    assert (await heal(view, resigned)).detail["leader_after"] in NODES


@play(simulated)
async def test_a_node_that_does_not_lead_does_not_resign(view: View):
    leader = await view.leader()
    follower = next(node for node in NODES if node != leader)
    reason = await refusal(view, "resign", {"targets": f"node:{follower}"})
    assert reason == f"{follower} does not lead"
    both = await inject(view, "resign", {"targets": f"node:{follower},node:{leader}"})
    assert (both.targets, both.verified) == ((leader,), True)
    await mend(view, both)


@play(simulated)
async def test_a_resignation_is_not_over_while_no_node_leads(view: View):
    resigned = await inject(view, "resign", {})
    killed = await inject(view, "kill", {"targets": "majority"})
    assert resigned.verified
    assert killed.verified
    healed = await heal(view, resigned)
    assert not healed.verified
    assert healed.detail["leader_after"] is None
    assert "no node leads" in healed.detail["reason"]
    assert [injection.fault for injection in view.active] == ["resign", "kill"]
    first, second = await heal_all(view)
    assert (first.fault, second.fault) == ("kill", "resign")
    assert second.verified
    assert second.detail["leader_after"] in NODES


@play(simulated)
async def test_all_nodes_snapshot_when_asked(view: View):
    made = await bite(view, "snapshot", {"targets": "all"})
    assert made.targets == NODES
    await bite(view, "snapshot", {"targets": "leader"})


@play(simulated)
async def test_a_dead_node_is_not_asked(view: View):
    await view.backend.kill("n1")
    refused = await inject(view, "snapshot", {"targets": "node:n1"})
    assert not refused.applied
    assert refused.detail["reason"] == "n1: it is dead"
    await view.backend.start("n1")


@pytest.mark.cluster
@pytest.mark.usefixtures("patient")
@play(asyncio.run)
async def test_real_nodes_resign_snapshot_and_change_their_voters(*, tmp_path):
    backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
    async with running(backend):
        view = LiveView(backend)
        for name, parameters in (
            ("voters", {"change": "replace", "targets": "leader"}),
            ("resign", {}),
            ("snapshot", {"targets": "all"}),
            ("voters", {"change": "remove", "targets": "random"}),
        ):
            assert await until(lambda: leading(view), 600) is not None
            done = await inject(view, name, parameters)
            assert done.verified, (name, done.detail)
            healed = await heal(view, done)
            assert healed.verified, (name, healed.detail)
    assert backend.unexpected_deaths() == ()


@play(simulated)
async def test_a_voter_comes_back_after_the_nodes_without_which_no_change_commits(view: View):
    # The first change upgrades to kraft.version 1, which needs every voter.
    await heal(view, await inject(view, "voters", {"change": "replace"}))
    leader = await view.leader()
    follower = next(node for node in NODES if node != leader)
    killed = await inject(view, "kill", {"targets": f"node:{follower}"})
    leaving = await inject(view, "voters", {"change": "remove", "targets": f"node:{leader}"})
    assert killed.verified
    assert (leaving.applied, leaving.verified) == (True, False)  # one of the two left is dead
    healed = await heal_all(view)
    assert [(injection.fault, injection.verified) for injection in healed] == [
        ("kill", True),
        ("voters", True),
    ]
    assert view.active == []


def test_everything_but_voters_is_healed_newest_first():
    faults = ["voters", "kill", "voters", "partition", "resign", "log-dir-loss"]
    active = [Injection(fault, {}, (), verified=True, applied=True) for fault in faults]
    partition, kill, directory, newer, older, resign = heal_order(active)
    assert resign is active[4], "it shows that the quorum went on, when all others are healed"
    assert (partition, kill) == (active[3], active[1])
    assert directory is active[5], "a quorum must register the broker that gets it back"
    assert newer is active[2]
    assert older is active[0]


def with_observer(body: Callable[[View], Awaitable[None]], nodes: int = 4) -> None:
    """Run a body where the last node is an observer."""
    in_world(body, nodes, SimSettings(observers=1))


@play(in_world)
async def test_an_upgrade_lets_the_voters_be_in_the_log_and_leaves_nothing_to_heal(view: View):
    found = await leading(view)
    assert not is_dynamic(found[1])
    upgraded = await inject(view, "voters", {"change": "upgrade"})
    assert (upgraded.applied, upgraded.verified) == (True, True), upgraded.detail
    await mend(view, upgraded)
    found = await leading(view)
    assert is_dynamic(found[1])


@play(simulated)
async def test_kraft_version_is_asked_for_until_it_is_known_to_be_in_force(
    view: View, *, monkeypatch
):
    """A leader that is cut off answers no such request, and a removal must reach it."""
    asked = []
    upgrade = voters._upgrade

    async def count(view: View) -> bool | None:
        asked.append(view)
        return await upgrade(view)

    monkeypatch.setattr(voters, "_upgrade", count)
    await inject(view, "voters", {"change": "upgrade"})
    before = len(asked)
    removed = await inject(view, "voters", {"targets": "node:n2"})
    assert (removed.verified, before > 0, len(asked)) == (True, True, before)


@play(with_observer)
async def test_an_observer_becomes_a_voter_and_the_heal_leaves_it(view: View):
    added = await bite(view, "voters", {"change": "add", "targets": "node:n4"})
    assert added.detail["voters_after"] == ["n1", "n2", "n3", "n4"]
    reason = await refusal(view, "voters", {"change": "add", "targets": "node:n4"})
    assert reason == "n4: it is a voter"
    await mend(view, added)
    found = await leading(view)
    assert len(found[1].voters) == 4


@play(with_observer)
async def test_an_addition_that_only_the_leader_has_is_no_fact(view: View):
    """`sim --seed 74000068`: it was taken for committed, and then too many disks for lost."""
    await heal(view, await inject(view, "voters", {"change": "upgrade"}))
    leader = await view.leader()
    rest = [node for node in NODES if node != leader]
    cut = [link for node in rest for link in ((leader, node), (node, leader))]
    directory = await fetching_directory(view, "n4")
    where = view.backend.endpoint("n4", "CONTROLLER")
    await view.backend.cut_links(cut)
    asked = asyncio.create_task(add_voter(view, "n4", directory, (where.host, where.port)))
    await asyncio.sleep(0.3)
    named, force = await leading(view), await quorum_in_force(view)
    assert named is not None
    assert (named[0], 4 in directories(named[1])) == (leader, True)
    assert force is None or 4 not in directories(force[1])
    await view.backend.restore_links(cut)
    assert await asked is None
    assert await until(lambda: quorum_in_force(view), 10) is not None


@play(in_world)
async def test_two_removals_at_once_leave_two_voters(view: View):
    await inject(view, "voters", {"change": "upgrade"})
    removals = await asyncio.gather(
        *(inject(view, "voters", {"targets": f"node:{node}"}) for node in NODES)
    )
    assert [injection.verified for injection in removals].count(True) == 1
    found = await leading(view)
    assert len(found[1].voters) == 2
    assert all(injection.verified for injection in await heal_all(view))
    found = await leading(view)
    assert len(found[1].voters) == 3


@play(in_world, 5)
async def test_no_voter_is_removed_while_a_lost_one_counts(view: View):
    await inject(view, "voters", {"change": "upgrade"})
    await bite(view, "disk-wipe", {"targets": "node:n1"})
    reason = await refusal(view, "voters", {"targets": "node:n2"})
    assert reason == "n1 lost the disk of a voter that counts still"
    assert all(injection.verified for injection in await heal_all(view))


@play(with_observer)
async def test_a_change_that_does_not_commit_did_not_bite_and_is_made_later(view: View):
    await heal(view, await inject(view, "voters", {"change": "upgrade"}))
    cut = await inject(view, "partition", {"targets": "leader,node:n4"})
    added = await inject(view, "voters", {"change": "add", "targets": "node:n4"})
    assert (cut.verified, added.applied, added.verified) == (True, True, False)
    assert added.detail["reason"] == "it is no voter yet"
    assert [injection.fault for injection in await heal_all(view)] == ["partition", "voters"]
    assert view.active == []
    found = await leading(view)
    assert len(found[1].voters) == 4

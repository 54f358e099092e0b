"""`disk-wipe`: where voters are in the log the one that lost its disk is replaced (KIP-853)."""

from __future__ import annotations

import asyncio

import pytest
from test_quorum_faults import LiveView, simulated

from cluster.backends.local import LocalBackend
from cluster.systems.kraft import KraftSystem
from nemeses.asking import leading, until
from nemeses.base import View
from nemeses.drive import heal, heal_all, inject
from nemeses.membership import directories, is_dynamic, node_id


async def voters(view: View) -> dict[int, object]:
    found = await until(lambda: leading(view), 20)
    assert found is not None
    return dict(directories(found[1]))


async def upgrade(view: View) -> None:
    """Let the voters be in the log."""
    replaced = await inject(view, "voters", {"change": "replace"})
    assert (await heal(view, replaced)).verified


@pytest.mark.parametrize("target", ["leader", "node:n1", "minority"])
def test_a_voter_in_the_log_comes_back_as_another_replica(target: str):
    async def body(view: View) -> None:
        await upgrade(view)
        before = await voters(view)
        wiped = await inject(view, "disk-wipe", {"targets": target})
        assert wiped.verified, wiped.detail
        await asyncio.sleep(3)
        healed = await heal(view, wiped)
        assert healed.verified, healed.detail
        after = await voters(view)
        assert after.keys() == before.keys()
        changed = {node for node in after if after[node] != before[node]}
        assert changed == {node_id(node) for node in wiped.targets}
        for node in wiped.targets:
            told = healed.detail["nodes"][node]
            assert told["directory_before"] == str(before[node_id(node)])
            assert told["directory_now"] == str(after[node_id(node)])
        again = await inject(view, "disk-wipe", {"targets": target})
        assert (again.verified, (await heal(view, again)).verified) == (True, True)

    simulated(body, 5)


def test_a_configured_voter_gets_its_files_back():
    async def body(view: View) -> None:
        found = await leading(view)
        assert found is not None
        assert not is_dynamic(found[1])
        files = view.backend.abilities().disks.files
        before = await files("n1")
        wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
        assert wiped.verified
        healed = await heal(view, wiped)
        assert healed.verified, healed.detail
        assert "directory_now" not in healed.detail["nodes"]["n1"]
        assert before.keys() <= (await files("n1")).keys()

    simulated(body)


def test_a_voter_whose_removal_cannot_commit_gets_its_files_back():
    async def body(view: View) -> None:
        await upgrade(view)
        before = await voters(view)
        wiped = await inject(view, "disk-wipe", {"targets": "node:n1"})
        killed = await inject(view, "kill", {"targets": "node:n2"})
        assert (wiped.verified, killed.verified) == (True, True)
        healed = await heal(view, wiped)  # one of the three is left, and commits nothing
        assert not healed.verified
        assert "no leader tells that n1 is a voter" in healed.detail["reason"]
        assert view.active == [wiped, killed]
        assert all(one.verified for one in await heal_all(view))
        assert await voters(view) == before
        await asyncio.sleep(5)
        assert await voters(view) == before

    simulated(body)


def test_a_voter_is_not_given_up_while_the_voters_change():
    async def body(view: View) -> None:
        await upgrade(view)
        before = await voters(view)
        removed = await inject(view, "voters", {"change": "remove", "targets": "node:n1"})
        wiped = await inject(view, "disk-wipe", {"targets": "node:n2"})
        assert (removed.verified, wiped.verified) == (True, True)
        assert all(one.verified for one in await heal_all(view))
        assert await voters(view) == before

    simulated(body, 5)


@pytest.mark.cluster
def test_a_real_voter_comes_back_as_another_replica(tmp_path):
    async def body() -> None:
        backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
        try:
            await backend.up()
            view = LiveView(backend)
            await upgrade(view)
            before = await voters(view)
            wiped = await inject(view, "disk-wipe", {"targets": "leader"})
            assert wiped.verified, wiped.detail
            healed = await heal(view, wiped)
            assert healed.verified, healed.detail
            after = await voters(view)
            changed = {node for node in after if after[node] != before[node]}
            assert changed == {node_id(node) for node in wiped.targets}
            (node,) = wiped.targets
            properties = (backend.node_folder(node) / "server.properties").read_text()
            assert "controller.quorum.voters" not in properties
            assert "controller.quorum.bootstrap.servers" in properties
        finally:
            await backend.down()
        assert backend.unexpected_deaths() == ()

    asyncio.run(body())

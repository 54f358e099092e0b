"""One set of bodies on the simulated and on the real cluster: both must behave alike."""

import asyncio

import pytest

from cluster.backends.base import NodeState


def test_a_cluster_elects_commits_and_reads(arm, tmp_path):
    async def body(cluster):
        leader = await cluster.leader()
        assert (await cluster.read(leader)).value is None
        assert (await cluster.write(leader, "1")).type == "ok"
        assert (await cluster.read(leader)).value == "1"
        followers = [node for node in cluster.backend.nodes if node != leader]
        for node in followers:
            refused = await cluster.write(node, "2")
            assert (refused.type, refused.error) == ("fail", "not_controller")
        await cluster.converged("1")

    arm.run(body, tmp_path)


@pytest.mark.slow
def test_a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(arm, tmp_path):
    async def body(cluster):
        leader = await cluster.leader()
        for value in range(20):
            assert (await cluster.write(leader, str(value))).type == "ok"
        await cluster.backend.kill(leader)
        assert await cluster.backend.state(leader) is NodeState.DEAD
        dead = await cluster.read(leader)
        assert (dead.type, dead.error) == ("fail", "not-sent")
        successor = await cluster.leader(but=leader)
        assert (await cluster.read(successor)).value == "19"
        await cluster.backend.start(leader)
        assert cluster.backend.incarnation(leader) == 1
        await cluster.converged("19")

    arm.run(body, tmp_path)


@pytest.mark.slow
def test_a_leader_cut_off_refuses_while_the_majority_goes_on(arm, tmp_path):
    async def body(cluster):
        leader = await cluster.leader()
        assert (await cluster.write(leader, "before")).type == "ok"
        links = cluster.links_of(leader)
        await cluster.backend.cut_links(links)
        assert cluster.backend.links_cut() == frozenset(links)
        measured = await cluster.backend.measure_link(links[0], 0.2)
        assert measured.silent
        assert (await cluster.read(leader)).type != "ok", "no majority confirms that it leads"
        assert (await cluster.write(leader, "lost")).type != "ok"
        successor = await cluster.write_somewhere("after", but=leader)
        assert successor != leader
        assert (await cluster.read(leader)).type != "ok"
        await cluster.backend.restore_links(links)
        await cluster.converged("after")
        measured = await cluster.backend.measure_link(links[0], 300.0)
        assert measured.works

    arm.run(body, tmp_path)


@pytest.mark.slow
def test_a_stopped_leader_is_replaced_and_follows_when_it_goes_on(arm, tmp_path):
    async def body(cluster):
        leader = await cluster.leader()
        assert (await cluster.write(leader, "before")).type == "ok"
        await cluster.backend.pause(leader)
        assert await cluster.backend.state(leader) is NodeState.PAUSED
        assert await cluster.write_somewhere("after", but=leader) != leader
        await cluster.backend.resume(leader)
        assert await cluster.backend.state(leader) is NodeState.RUNNING
        read = await cluster.read(leader)
        assert (read.type, read.value) != ("ok", "before"), "it does not lead any more"
        await cluster.converged("after")

    arm.run(body, tmp_path)


@pytest.mark.slow
def test_all_nodes_restarted_hold_what_was_acknowledged(arm, tmp_path):
    async def body(cluster):
        backend = cluster.backend
        await cluster.write_somewhere("kept")
        await asyncio.gather(*(backend.kill(node) for node in backend.nodes))
        await asyncio.gather(*(backend.start(node) for node in backend.nodes))
        leader = await cluster.leader()
        assert (await cluster.read(leader)).value == "kept"
        for node in backend.nodes:
            await backend.stop(node)
        for node in backend.nodes:
            await backend.start(node)
        await cluster.converged("kept")
        assert [backend.incarnation(node) for node in backend.nodes] == [2, 2, 2]

    arm.run(body, tmp_path)

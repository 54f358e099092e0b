"""A log directory that goes and comes back, and replicas that move, in the simulated world."""

import asyncio
from pathlib import Path

import pytest

from cluster.backends.base import BackendError, NodeState
from cluster.backends.localhost import LocalHost
from cluster.backends.machine.equip import HostDetachable
from nemeses.drive import heal, heal_all, inject
from tests.cluster.node.controller.fakes import creatable, create
from tests.nemeses.simulated import WorldView, in_world
from tests.play import play

TWO = {"kraftprobe.log.dirs": 2}


def logs(view: WorldView, node: str):
    return view.backend.world.nodes[node].process.node.replicas.logs


async def with_topic(view: WorldView, name: str = "t", partitions: int = 2) -> None:
    """Let every node hold a partition in each of its log directories."""
    await asyncio.sleep(2)
    leader = await view.leader()
    replies: list[object] = []
    node = view.backend.world.nodes[leader].process.node
    node.handle("CONTROLLER", create(creatable(name, partitions, 3)), replies.append)
    await asyncio.sleep(2)
    assert replies[0].topics[0].error_code.value == 0  # type: ignore[attr-defined]


@play(in_world, node_settings=TWO)
async def test_a_directory_that_is_lost_goes_offline_alone_and_comes_back(view: WorldView):
    await with_topic(view)
    lost = await inject(view, "log-dir-loss", {"targets": "node:n1"})
    # Nothing is written there: nobody met the loss.
    assert (lost.applied, lost.verified) == (True, False)
    assert "did not notice" in lost.detail["reason"]
    logs(view, "n1").directories[1].save_recovery_points(lambda: None)
    await asyncio.sleep(1)
    assert [each.path for each in logs(view, "n1").online] == ["/sim/n1/metadata"]
    assert await view.backend.state("n1") is NodeState.RUNNING
    healed = await heal(view, lost)
    assert healed.verified, healed.detail
    assert len(logs(view, "n1").online) == 2
    assert view.backend.incarnation("n1") == 1


@pytest.mark.slow
@play(in_world, node_settings=TWO)
async def test_a_node_that_starts_without_its_directory_goes_on_without_it(view: WorldView):
    await with_topic(view)
    detachable = view.backend.abilities().detachable
    assert await detachable.detach("n1") == "log-2"
    await view.backend.kill("n1")
    await view.backend.start("n1")
    await asyncio.sleep(3)
    assert logs(view, "n1").offline_paths == ("/sim/n1/log-2",)
    lost = await inject(view, "log-dir-loss", {"targets": "node:n1"})
    assert lost.verified, lost.detail
    assert (await heal(view, lost)).verified
    assert logs(view, "n1").offline_paths == ()


@play(in_world, node_settings=TWO)
async def test_a_replica_is_moved(view: WorldView):
    await with_topic(view)
    moved = await inject(view, "log-dir-move", {"targets": "node:n2"})
    assert moved.verified, moved.detail
    chosen = moved.detail["chosen"]["n2"]
    directory = logs(view, "n2").at_path(chosen["to"])
    assert (chosen["topic"], chosen["partition"]) in [
        (at.topic, at.partition) for at in directory.logs
    ]
    assert (await heal(view, moved)).verified


@play(in_world, node_settings=TWO)
async def test_a_replica_that_is_on_its_way_goes_back(view: WorldView):
    await with_topic(view, partitions=1)
    await inject(view, "disk-stall", {"targets": "node:n2"})
    there = asyncio.create_task(inject(view, "log-dir-move", {"targets": "node:n2"}))
    await asyncio.sleep(1)
    back = await inject(view, "log-dir-move", {"targets": "node:n2"})
    assert back.verified, back.detail
    assert back.detail["chosen"]["n2"]["to"] == (await there).detail["chosen"]["n2"]["from"]


@play(in_world, node_settings=TWO)
async def test_a_broker_gets_its_directory_back_when_a_quorum_can_register_it(view: WorldView):
    """`sim --seed 72000051`: it was given back first, and waited for a leader in vain."""
    await with_topic(view)
    for node in ("n2", "n3"):
        assert (await inject(view, "kill", {"targets": f"node:{node}"})).verified
    await inject(view, "log-dir-loss", {"targets": "node:n1"})
    assert all(healed.verified for healed in await heal_all(view))


@pytest.mark.parametrize("fault", ["log-dir-loss", "log-dir-move"])
@play(in_world)
async def test_a_node_with_one_directory_is_left_alone(view: WorldView, *, fault):
    await with_topic(view)
    refused = await inject(view, fault, {"targets": "node:n1"})
    assert not refused.verified
    assert "log directory" in refused.detail["reason"]
    assert (await heal(view, refused)).verified
    assert await view.backend.state("n1") is NodeState.RUNNING


def test_a_directory_on_a_host_is_taken_away_and_given_back(tmp_path: Path):
    async def body() -> None:
        first, second, third = (tmp_path / name for name in ("metadata", "log-2", "log-3"))
        for folder in (first, second):
            folder.mkdir()
        (second / "meta.properties").write_text("own")
        detachable = HostDetachable({"n1": host}, {"n1": (first, second, third)})
        assert await detachable.detach("n1") == "log-2"
        with pytest.raises(OSError, match="Not a directory"):
            (second / "meta.properties").read_text()
        with pytest.raises(FileExistsError):
            second.mkdir(parents=True)
        with pytest.raises(BackendError, match="one log directory"):
            await detachable.detach("n1")
        for _ in range(2):
            await detachable.attach("n1")
            assert (second / "meta.properties").read_text() == "own"

    host = local_host(tmp_path)
    asyncio.run(body())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log-2", "metadata"]


def local_host(folder: Path) -> LocalHost:
    async def nothing(_: str) -> None:
        return None

    return LocalHost("n1", folder, {}, nothing)

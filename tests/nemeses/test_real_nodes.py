"""The local backend and its faults on real KRaft nodes: what fakes cannot show."""

import asyncio
import json
from pathlib import Path

import pytest

from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.processes.records import identify, read_recorded
from cluster.systems.kraft import KraftSystem
from nemeses.drive import heal_all, inject
from tests.play import play
from tests.running import running
from tests.views import StubView, bite, mend

pytestmark = pytest.mark.usefixtures("patient")


@pytest.mark.cluster
def test_a_real_cluster_is_hurt_healed_and_taken_down(tmp_path: Path):
    async def body() -> None:
        backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
        async with running(backend):
            view = StubView(backend)
            killed = await bite(view, "kill", {"targets": "random"})
            await mend(view, killed)
            cut = await bite(view, "partition", {"shape": "majorities-ring"})
            await mend(view, cut)
            await bite(view, "pause", {"targets": "minority"})
            assert [injection.fault for injection in await heal_all(view)] == ["pause"]
            await bite(view, "restart", {"targets": "random", "graceful": True})
        assert backend.unexpected_deaths() == ()

    asyncio.run(body())
    nodes = [node for node in read_recorded(tmp_path) if node.role != "harness"]
    assert len(nodes) == 5, "three starts, node after a kill, node of a restart"
    assert all(identify(node.identity.pid) is None for node in nodes)
    for node in ("n1", "n2", "n3"):
        trace = (tmp_path / "nodes" / node / "trace.jsonl").read_text().splitlines()
        assert json.loads(trace[0])["e"] == "start"
        log = tmp_path / "nodes" / node / "metadata" / "__cluster_metadata-0"
        assert (log / "quorum-state").exists()


def states_of(folder: Path, node: str) -> list[str]:
    """Read the quorum states that a node has announced; none while it starts."""
    trace = (folder / "nodes" / node / "trace.jsonl").read_text().splitlines()
    events = (json.loads(line) for line in trace if line.endswith("}"))
    return [event["state"] for event in events if event["e"] == "state"]


@pytest.mark.cluster
@play(asyncio.run)
async def test_held_messages_keep_real_nodes_apart_and_come_when_they_are_released(
    *, tmp_path: Path
):
    nodes = ("n1", "n2", "n3")

    async def until(condition) -> None:
        async with asyncio.timeout(600):
            while not condition([state for n in nodes for state in states_of(tmp_path, n)[-1:]]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
    async with running(backend):
        view = StubView(backend)
        await until(lambda states: sorted(states) == ["Follower", "Follower", "Leader"])
        held = await bite(view, "hold", {"types": "VoteRequest,FetchRequest"})
        await until(lambda states: "Leader" not in states and "Follower" not in states)
        cut = await inject(view, "partition", {"shape": "links", "links": "n1>n2"})
        assert cut.verified, "a connection can be made and measured under a hold"
        await mend(view, cut)
        healed = await mend(view, held)
        assert healed.detail["delivered"] > 0
        await until(lambda states: sorted(states) == ["Follower", "Follower", "Leader"])
    assert backend.unexpected_deaths() == ()

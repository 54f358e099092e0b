"""The local backend and its faults on real KRaft nodes: what fakes cannot show."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.processes.records import identify, read_recorded
from cluster.systems.kraft import KraftSystem
from nemeses.drive import heal, heal_all, inject
from tests.play import play
from tests.views import StubView


@pytest.mark.cluster
def test_a_real_cluster_is_hurt_healed_and_taken_down(tmp_path: Path):
    async def body() -> None:
        backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
        try:
            await backend.up()
            view = StubView(backend)
            killed = await inject(view, "kill", {"targets": "random"})
            assert killed.verified
            assert (await heal(view, killed)).verified
            cut = await inject(view, "partition", {"shape": "majorities-ring"})
            assert cut.verified, cut.detail
            assert (await heal(view, cut)).verified
            paused = await inject(view, "pause", {"targets": "minority"})
            assert paused.verified
            assert [injection.fault for injection in await heal_all(view)] == ["pause"]
            again = await inject(view, "restart", {"targets": "random", "graceful": True})
            assert again.verified, again.detail
        finally:
            await backend.down()
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
        async with asyncio.timeout(30):
            while not condition([state for n in nodes for state in states_of(tmp_path, n)[-1:]]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    backend = LocalBackend(KraftSystem(), tmp_path, 3, "run-1")
    try:
        await backend.up()
        view = StubView(backend)
        await until(lambda states: sorted(states) == ["Follower", "Follower", "Leader"])
        held = await inject(view, "hold", {"types": "VoteRequest,FetchRequest"})
        assert held.verified, held.detail
        await until(lambda states: "Leader" not in states and "Follower" not in states)
        cut = await inject(view, "partition", {"shape": "links", "links": "n1>n2"})
        assert cut.verified, "a connection can be made and measured under a hold"
        assert (await heal(view, cut)).verified
        healed = await heal(view, held)
        assert healed.verified, healed.detail
        assert healed.detail["delivered"] > 0
        await until(lambda states: sorted(states) == ["Follower", "Follower", "Leader"])
    finally:
        await backend.down()
    assert backend.unexpected_deaths() == ()

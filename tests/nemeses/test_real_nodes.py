"""The local backend and its faults on real KRaft nodes: what fakes cannot show."""

import asyncio
import json
from pathlib import Path

import pytest

from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.processes.records import identify, read_recorded
from cluster.systems.kraft import KraftSystem
from nemeses.drive import heal_all
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

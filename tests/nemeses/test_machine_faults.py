"""Clocks, disks and limits of real nodes on this machine: each fault bites, and heals."""

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from waiting import eventually

from cluster.backends.base import NodeState
from cluster.backends.local.local_backend import LocalBackend
from cluster.backends.machine.mounts import mounts
from cluster.systems.kraft import KraftSystem
from nemeses.drive import heal, heal_all, inject
from nemeses.processes import limits
from nemeses.queries import request
from nemeses.registry import FAULTS, needs_of
from tests.cluster.client.nodes import STEADY
from tests.running import running
from tests.views import StubView

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("patient")]

FUSE = Path("/dev/fuse").exists() and os.geteuid() == 0


def on_real_nodes(folder: Path, body, **settings: int) -> LocalBackend:
    if not FUSE:
        pytest.skip("needs root and /dev/fuse")

    async def whole() -> LocalBackend:
        backend = LocalBackend(KraftSystem(settings), folder, 3, "run-1", needs=("clocks", "disks"))
        async with running(backend):
            await body(StubView(backend))
        return backend

    backend = asyncio.run(whole())
    assert [mount for mount in mounts() if mount.folder.is_relative_to(folder)] == []
    return backend


async def bites_and_heals(view: StubView, fault: str, **parameters: object):
    injection = await inject(view, fault, parameters)
    assert injection.verified, (fault, injection.detail)
    healed = await heal(view, injection)
    assert healed.verified, (fault, healed.detail)
    return injection


def test_clocks_and_limits_bite_and_heal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "request", partial(request, timeout_ms=10_000.0))

    async def body(view: StubView) -> None:
        jump = await bites_and_heals(view, "clock-jump", targets="node:n1", jump_ms=-3_600_000)
        assert abs(jump.detail["nodes"]["n1"]["seen_ms"] + 3_600_000) < 50
        assert jump.detail["nodes"]["n1"]["monotonic_ms"] == 0.0
        await bites_and_heals(view, "clock-skew", targets="all", max_ms=600_000)
        await bites_and_heals(view, "clock-drift", targets="node:n2", rate=2.0)
        await bites_and_heals(view, "clock-strobe", targets="node:n3")
        # A node without descriptors ends itself if it has a file to write, as it has at its start
        # and, for the first time, five seconds later.
        folder = tmp_path / "nodes" / "n1"
        log = folder / "stdout.log"
        await eventually(lambda: "the broker is unfenced" in log.read_text())
        await eventually(lambda: any(folder.rglob("replication-offset-checkpoint")))
        limit = await bites_and_heals(view, "limit", targets="node:n1")
        detail = limit.detail["nodes"]["n1"]
        assert (detail["now"], detail["room"]) == (16, 0)
        assert detail["unanswered"]
        roomy = await inject(view, "limit", {"targets": "node:n2", "value": 900})
        assert "n2 answers on 129 more connections" in roomy.detail["reason"]
        assert not roomy.verified
        assert (await heal(view, roomy)).verified

    # Nor may it have an election to note.
    backend = on_real_nodes(tmp_path, body, **STEADY)
    assert backend.unexpected_deaths() == ()


def test_nodes_that_end_themselves_over_a_file_size_limit_were_bitten_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "NOTICED_S", 120.0)

    async def body(view: StubView) -> None:
        injection = await inject(
            view, "limit", {"targets": "all", "limit": "file-size", "value": 0}
        )
        assert injection.verified, injection.detail
        await eventually(view.backend.unexpected_deaths)  # the leader appends twice a second
        dead = {death.node for death in view.backend.unexpected_deaths()}
        late = await FAULTS["limit"].verify(view, injection)
        assert late.verified
        assert all(late.detail["nodes"][node]["ended_itself"] for node in dead)
        for node in sorted(dead):
            trace = (view.backend.node_folder(node) / "trace.jsonl").read_text()
            (fatal,) = [line for line in trace.splitlines() if '"e":"fatal"' in line]
            assert "File too large" in fatal
        healed = await heal(view, injection)
        assert healed.verified, healed.detail

    on_real_nodes(tmp_path, body)


def test_a_node_whose_every_write_fails_ends_all_the_same(tmp_path: Path):
    """Its trace, its log and its standard error are files that may not grow."""
    code = (
        "import resource, sys\n"
        "from cluster.node.process import _die\n"
        "from cluster.node.runtime.trace import no_trace\n"
        "def broken(event, /, **fields):\n    raise OSError(27, 'File too large')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try:\n    _die(broken if sys.argv[1] == 'broken' else no_trace, 'an invariant broke')\n"
        "finally:\n    print('it lives on')\n"
    )
    for trace in ("broken", "none"):
        with (tmp_path / "stderr").open("w") as stderr:
            done = subprocess.run(
                (sys.executable, "-c", code, trace),
                stdout=subprocess.PIPE,
                stderr=stderr,
                check=False,
            )
        assert (done.returncode, done.stdout) == (1, b"")


def test_disks_in_use_stall_slow_down_fill_up_and_fail(tmp_path: Path):
    async def body(view: StubView) -> None:
        stall = await bites_and_heals(view, "disk-stall", targets="node:n1")
        assert stall.detail["nodes"]["n1"]["fsync_ms"] is None
        slow = await bites_and_heals(view, "disk-slow", targets="node:n1", delay_ms=300)
        assert slow.detail["nodes"]["n1"]["fsync_ms"] >= 270
        assert view.backend.unexpected_deaths() == ()
        full = await bites_and_heals(view, "disk-full", targets="all")
        assert {detail["error"] for detail in full.detail["nodes"].values()} == {"ENOSPC"}
        await log_grows(view, "n1", times=2)  # there is a leader again, and n1 follows it
        error = await bites_and_heals(view, "disk-error", targets="node:n1")
        assert error.detail["nodes"]["n1"]["ended_itself"]
        assert "violations" not in error.detail

    on_real_nodes(tmp_path, body)


async def log_grows(view: StubView, node: str, times: int):
    """Wait until a node's log was longer than before, so often."""
    disks = view.backend.abilities().disks

    async def log_bytes():
        files = await disks.files(node)
        return sum(size for path, size in files.items() if path.endswith(".log"))

    seen = 0
    while times:
        if (now := await log_bytes()) > seen:
            seen, times = now, times - 1
        await asyncio.sleep(0.2)


def test_lost_power_and_damaged_files(tmp_path: Path):
    async def body(view: StubView) -> None:
        lost = await bites_and_heals(view, "power-loss", targets="all", held_ms=100)
        assert set(lost.detail["nodes"]) == set(view.backend.nodes)
        await log_grows(view, "n1", times=3)  # so that there are batches behind a first one
        flip = await bites_and_heals(view, "bit-flip", targets="node:n1")
        assert "CRC is" in flip.detail["nodes"]["n1"]["refused"]
        state = await bites_and_heals(view, "bit-flip", targets="node:n2", file="quorum-state")
        assert state.detail["nodes"]["n2"]["refused"]
        wipe = await inject(view, "disk-wipe", {"targets": "node:n3"})
        assert wipe.detail["nodes"]["n3"]["left"] == 0
        more = await inject(view, "bit-flip", {"targets": "node:n1"})
        assert "more than a minority" in more.detail["reason"]
        assert all(injection.verified for injection in await heal_all(view))
        assert await view.backend.state("n3") is NodeState.RUNNING

    on_real_nodes(tmp_path, body)


def test_nodes_are_surrounded_only_by_what_the_plan_needs():
    assert needs_of(["kill", "partition", "limit", "bit-flip"]) == frozenset()
    assert needs_of(["clock-drift", "torn-write"]) == {"clocks", "disks"}

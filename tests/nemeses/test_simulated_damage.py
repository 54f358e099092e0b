"""Damaged files on simulated disks: each kind bites every time, and is healed."""

from __future__ import annotations

import asyncio

import pytest
from test_quorum_faults import simulated

from cluster.backends.base import NodeState
from nemeses.base import View
from nemeses.damage import _longest, _segments
from nemeses.drive import heal, inject

DAMAGE = [
    ("bit-flip", {"file": "log"}),
    ("bit-flip", {"file": "quorum-state"}),
    ("truncate-file", {}),
    ("disk-wipe", {}),
]


@pytest.mark.parametrize(("fault", "parameters"), DAMAGE)
def test_damage_bites_each_time_though_a_kill_is_a_power_loss(
    fault: str, parameters: dict[str, str]
):
    async def body(view: View) -> None:
        for node in ("n1", "n2", "n3", "n1"):
            injected = await inject(view, fault, {**parameters, "targets": f"node:{node}"})
            assert injected.verified, injected.detail
            healed = await heal(view, injected)
            assert healed.verified, healed.detail
            await asyncio.sleep(3)

    simulated(body)


def test_a_node_that_cannot_stop_is_killed_before_its_log_is_cut():
    async def body(view: View) -> None:
        await view.backend.pause("n1")
        injected = await inject(view, "truncate-file", {"targets": "node:n1"})
        detail = injected.detail["nodes"]["n1"]
        assert injected.applied
        assert await view.backend.state("n1") is NodeState.DEAD
        assert injected.verified or "nothing below its recovery point" in str(injected.detail), (
            detail
        )
        assert (await heal(view, injected)).verified

    simulated(body)


def test_the_metadata_log_and_those_of_partitions_are_distinguished():
    first, second = "00000000000000000000.log", "00000000000000000100.log"
    files = {
        f"__cluster_metadata-0/{first}": 10,
        f"__cluster_metadata-0/{second}": 20,
        "__cluster_metadata-0/quorum-state": 30,
        f"a-0/{first}": 40,
        f"topic-1/{second}": 50,
        "topic-1/00000000000000000100.index": 60,
    }
    assert _segments(files, "n1") == [
        f"__cluster_metadata-0/{first}",
        f"__cluster_metadata-0/{second}",
    ]
    assert _longest(files, "n1") == f"topic-1/{second}"

"""Damaged files on simulated disks: each kind bites every time, and is healed."""

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_quorum_faults import simulated

from cluster.backends.base import NodeState
from cluster.node.log.batch.records import with_place
from cluster.node.log.storage.index import OffsetIndex
from nemeses.base import View
from nemeses.disks.log_files import (
    is_damaged,
    longest_of_partitions,
    metadata_segments,
    misleading_flip,
)
from nemeses.drive import heal, inject
from tests.cluster.node.log.data_helpers import batch
from tests.play import play

DAMAGE = [
    ("bit-flip", {"file": "log"}),
    ("bit-flip", {"file": "quorum-state"}),
    ("truncate-file", {}),
    ("disk-wipe", {}),
]


@pytest.mark.parametrize(("fault", "parameters"), DAMAGE)
@play(simulated)
async def test_damage_bites_each_time_though_a_kill_is_a_power_loss(
    view: View, *, fault, parameters
):
    for node in ("n1", "n2", "n3", "n1"):
        injected = await inject(view, fault, {**parameters, "targets": f"node:{node}"})
        assert injected.verified, injected.detail
        healed = await heal(view, injected)
        assert healed.verified, healed.detail
        await asyncio.sleep(3)


@play(simulated)
async def test_a_node_that_cannot_stop_is_killed_before_its_log_is_cut(view: View):
    await view.backend.pause("n1")
    injected = await inject(view, "truncate-file", {"targets": "node:n1"})
    detail = injected.detail["nodes"]["n1"]
    assert injected.applied
    assert await view.backend.state("n1") is NodeState.DEAD
    assert injected.verified or "below its recovery point" in str(injected.detail), detail
    assert (await heal(view, injected)).verified


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [("bit-flip", {"file": "index"}), ("restart", {"graceful": True}), ("stop", {})],
)
@play(simulated)
async def test_no_node_ends_behind_the_heal_of_a_fault_that_asked_it_to_stop(
    view: View, *, fault, parameters
):
    injecting = asyncio.create_task(inject(view, fault, {**parameters, "targets": "node:n1"}))
    await asyncio.sleep(0)  # it is asked to end
    while view.backend.world.nodes["n1"].state is not NodeState.PAUSED:
        await view.backend.pause("n1")
    injected = await injecting
    assert (await heal(view, injected)).verified
    if await view.backend.state("n1") is NodeState.PAUSED:
        await view.backend.resume("n1")
    await asyncio.sleep(3)
    assert await view.backend.state("n1") is NodeState.RUNNING


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
    assert metadata_segments(files, "n1") == [
        f"__cluster_metadata-0/{first}",
        f"__cluster_metadata-0/{second}",
    ]
    assert longest_of_partitions(files, "n1") == f"topic-1/{second}"


INCREASING = st.lists(st.integers(0, 2**20), min_size=2, max_size=12, unique=True).map(sorted)


@pytest.mark.slow
@given(INCREASING)
def test_the_flip_of_an_index_misleads_and_no_entry_shows_it(offsets: list[int]):
    entries = [(offset, 100 * (number + 1)) for number, offset in enumerate(offsets)]
    index = b"".join(struct.pack(">ii", *entry) for entry in entries)
    found = misleading_flip(index, segment_bytes=2000)
    if found is None:
        assert offsets[0] == 0, "the first offset can be lowered to any with a bit less"
        return
    position, bit = found
    damaged = bytearray(index)
    damaged[position] ^= 1 << bit
    read = OffsetIndex.decode(bytes(damaged), 2000)
    assert read.positions == [position for _, position in entries]
    (changed,) = [
        number for number in range(len(offsets)) if read.offsets[number] != offsets[number]
    ]
    assert read.offsets[changed] < offsets[changed]
    assert changed < len(offsets) - 1


def test_an_index_with_one_entry_or_none_or_rubbish_is_left_alone():
    for index in (b"", struct.pack(">ii", 7, 100), b"\xff" * 16, b"\x00" * 5):
        assert misleading_flip(index, segment_bytes=2000) is None


def test_a_batch_is_damaged_while_it_is_there_and_not_intact():
    whole = with_place(batch(b"one"), 0, 0) + with_place(batch(b"two"), 1, 0)
    first_bytes = len(whole) // 2
    torn = whole[:-10]
    assert not is_damaged(whole, first_bytes)
    assert is_damaged(torn, len(torn) - 1)
    assert is_damaged(torn + whole, len(torn) - 1), "kept, and appended behind"
    assert not is_damaged(whole[:first_bytes], len(torn) - 1), "cut off"

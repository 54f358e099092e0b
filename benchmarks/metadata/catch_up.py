"""How a live quorum of three catches up with much metadata: by log and by snapshot, like for like.

The same follower comes back with an empty folder to the same leader with the same records, first
while the leader has the whole log and no snapshot, then when it has a snapshot and no log below.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.metadata.quorum import POLL_S, TIMEOUT_S, Quorum, topic_name
from cluster.systems.kraft import REGISTRATION


@dataclass(frozen=True)
class CatchUp:
    """One return of an empty follower. Seconds since its process traced its start."""

    held_s: float
    """Until its log (or its snapshot) held all."""
    caught_up_s: float
    """Until its image held the last topic, so that clients see it."""
    processor_s: float
    """Processor time of its process until then."""
    longest_answer_s: float
    """The longest that a Metadata request waited meanwhile."""


@dataclass
class QuorumFigures:
    create_s: float = 0.0
    resident_bytes: int = 0
    by_log: list[CatchUp] = field(default_factory=list)
    by_snapshot: list[CatchUp] = field(default_factory=list)
    snapshot_s: float = 0.0
    snapshot_bytes: int = 0
    restart_s: list[float] = field(default_factory=list)
    """From the start of all three nodes to the first acknowledged write."""
    registered_s: float = 0.0
    """The same, until all brokers, which registered for the first time, were unfenced."""
    elections: int = 0
    """Epochs that began meanwhile."""


async def measure(folder: Path, topics: int, rounds: int) -> QuorumFigures:
    quorum, found = Quorum(folder), QuorumFigures()
    await quorum.backend.up()
    try:
        leader = await quorum.find_writer()
        began = time.monotonic()
        await quorum.create(leader, topics)
        found.create_s = time.monotonic() - began
        progress(f"created in {found.create_s:.2f} s")
        found.resident_bytes = quorum.resident_bytes(leader)
        for _ in range(rounds):
            found.by_log.append(await come_back(quorum, topics, by_snapshot=False))
            progress(found.by_log[-1])
        for _ in range(rounds):
            found.restart_s.append(await restart(quorum))
            progress(f"restart {found.restart_s[-1]:.2f} s")
        await shorten_log(quorum, found)
        progress(f"snapshot {found.snapshot_s:.2f} s, {found.snapshot_bytes} bytes")
        for _ in range(rounds):
            found.by_snapshot.append(await come_back(quorum, topics, by_snapshot=True))
            progress(found.by_snapshot[-1])
        await register(quorum, found)
    finally:
        await quorum.down()
    return found


def progress(what: object) -> None:
    """Report how far it is: all of it takes minutes, on a busy machine many."""
    sys.stderr.write(f"{what}\n")


async def come_back(quorum: Quorum, topics: int, *, by_snapshot: bool) -> CatchUp:
    """Empty a follower's folder and wait until it is as far as the leader was."""
    backend, leader = quorum.backend, quorum.leader()
    follower = next(node for node in quorum.nodes if node != leader)
    committed = quorum.last(leader, "hw")
    assert committed is not None
    await backend.kill(follower)
    shutil.rmtree(backend.system.data_folder(backend.node_folder(follower)))
    began = time.monotonic()
    await backend.start(follower)
    longest_s, known = 0.0, False
    while not known:
        if time.monotonic() > began + TIMEOUT_S:
            raise SystemExit("the follower did not come back")
        known, answer_s = await quorum.knows(follower, topic_name(topics - 1))
        longest_s = max(longest_s, answer_s)
        if not known:
            await asyncio.sleep(POLL_S)
    answered_ns, processor_s = time.monotonic_ns(), quorum.processor_s(follower)
    started = quorum.last(follower, "start")
    assert started is not None
    loads = [e for e in quorum.events(follower, "load-snapshot") if e["t"] > started["t"]]
    assert bool(loads) == by_snapshot, "it came back another way"
    moves = (e for e in quorum.events(follower, "hw") if e["t"] > started["t"])
    held = next(e for e in moves if e["offset"] >= committed["offset"] - 1)
    held_s, caught_up_s = (held["t"] - started["t"]) / 1e9, (answered_ns - started["t"]) / 1e9
    return CatchUp(held_s, caught_up_s, processor_s, longest_s)


async def restart(quorum: Quorum) -> float:
    """Kill all, start all; seconds until a write is acknowledged."""
    for node in quorum.nodes:
        await quorum.backend.kill(node)
    began = time.monotonic()
    for node in quorum.nodes:
        await quorum.backend.start(node)
    await quorum.find_writer()
    return time.monotonic() - began


async def shorten_log(quorum: Quorum, found: QuorumFigures) -> None:
    """Two snapshots on every node: then its log begins at the second."""
    await asyncio.sleep(2)  # a node that replays still makes none
    for node in quorum.nodes:
        found.snapshot_s, found.snapshot_bytes = await quorum.snapshot(node)
        await asyncio.sleep(2)  # something is committed in between
        await quorum.snapshot(node)
    deadline = time.monotonic() + TIMEOUT_S
    while not all(quorum.last(node, "log-start") for node in quorum.nodes):
        if time.monotonic() > deadline:
            raise SystemExit("the log was not shortened")
        await asyncio.sleep(POLL_S)


async def register(quorum: Quorum, found: QuorumFigures) -> None:
    """Let the nodes register as brokers: each leaves every ISR, then leads again."""
    before = {node: len(quorum.events(node, "broker-state")) for node in quorum.nodes}
    epochs = sum(len(quorum.events(node, "epoch-start")) for node in quorum.nodes)
    for node in quorum.nodes:
        await quorum.backend.kill(node)
        quorum.set(node, REGISTRATION, "true")
    began = time.monotonic()
    for node in quorum.nodes:
        await quorum.backend.start(node)
    while not all(_is_running(quorum, node, before[node]) for node in quorum.nodes):
        if time.monotonic() > began + TIMEOUT_S:
            raise SystemExit("the brokers were not unfenced")
        await asyncio.sleep(POLL_S)
    found.registered_s = time.monotonic() - began
    await quorum.find_writer()
    found.elections = sum(len(quorum.events(node, "epoch-start")) for node in quorum.nodes) - epochs


def _is_running(quorum: Quorum, node: str, before: int) -> bool:
    states = quorum.events(node, "broker-state")
    return len(states) > before and states[-1]["state"] == "running"

"""A small simulated quorum of raft clients, for tests of the consensus core."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.network import NodeNetwork, SimNetwork
from cluster.backends.sim.scheduler import Scheduler
from cluster.kraft.client import RaftClient
from cluster.kraft.config import RaftConfig
from cluster.kraft.leader_state import Leader
from cluster.kraft.types import CommittedBatch, LeaderAndEpoch
from cluster.kraft.voters import VoterSet
from cluster.log.log import Log, LogConfig
from cluster.ports import Endpoint

DIRECTORY = "__cluster_metadata-0"


class Listener:
    """A state machine that remembers what it was told."""

    def __init__(self):
        self.values: list[tuple[int, bytes]] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.next_offset = 0

    def handle_commit(self, batches: list[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.next_offset
            self.values += [(batch.base_offset + i, v) for i, v in enumerate(batch.records)]
            self.next_offset = batch.last_offset + 1

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


class NodeClock:
    def __init__(self, scheduler: Scheduler, is_alive):
        self._scheduler = scheduler
        self._is_alive = is_alive

    def monotonic_ms(self) -> float:
        return self._scheduler.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self._scheduler.now_ms)

    def call_later(self, delay_ms, callback):
        return self._scheduler.call_later(delay_ms, lambda: self._is_alive() and callback())


@dataclass
class Node:
    world: World
    node_id: int
    disk: MemoryDisk
    incarnation: int = -1
    client: RaftClient | None = None
    listener: Listener | None = None
    trace: list[tuple[float, int, str, dict]] = field(default_factory=list)
    fatal: BaseException | None = None

    def start(self, **settings) -> None:
        assert self.client is None
        self.incarnation += 1
        mine = self.incarnation

        def is_alive() -> bool:
            return self.client is not None and self.incarnation == mine

        self.fatal = None
        world = self.world

        def trace(event, /, **fields):
            self.trace.append((world.scheduler.now_ms, mine, event, fields))

        def on_fatal(error):
            self.fatal = error
            if world.fatal_is_error:
                raise AssertionError(f"node {self.node_id} died") from error

        log = Log.open(self.disk, DIRECTORY, LogConfig(segment_bytes=world.segment_bytes), on_fatal)
        config = RaftConfig(
            self.node_id,
            uuid.UUID(int=1000 + self.node_id),
            "cluster",
            world.voters,
            **{**world.settings, **settings},
        )
        self.client = RaftClient(
            config,
            NodeClock(world.scheduler, is_alive),
            NodeNetwork(world.network, self.node_id, is_alive),
            self.disk,
            random.Random(f"{world.seed}/{self.node_id}/{mine}"),
            trace,
            log,
            DIRECTORY,
            on_fatal,
        )
        self.listener = Listener()
        self.client.register(self.listener)
        client = self.client
        world.network.handlers[self.node_id] = client.handle
        client.start()

    def crash(self, keep="any") -> None:
        """Kill -9 and power loss in one."""
        self.client = None
        self.world.network.handlers.pop(self.node_id, None)
        self.disk.crash(self.world.random, keep)

    @property
    def state(self):
        return self.client._quorum.state

    @property
    def log(self):
        return self.client._core.log

    def events(self, name):
        return [fields for _, _, event, fields in self.trace if event == name]


class World:
    def __init__(self, count=3, seed=0, segment_bytes=1 << 20, sync_ms=0.5, **settings):
        self.seed = seed
        self.random = random.Random(f"{seed}/world")
        self.scheduler = Scheduler()
        self.settings = settings
        self.segment_bytes = segment_bytes
        self.fatal_is_error = True
        self.network = SimNetwork(
            self.scheduler, self.random, lambda: 0.2 + self.random.random() * 0.6
        )
        ids = range(1, count + 1)
        self.ids = tuple(ids)
        self.voters = VoterSet.of(Endpoint(i, "n", 9000 + i) for i in ids)
        self.nodes = {i: Node(self, i, MemoryDisk(self.scheduler.call_later, sync_ms)) for i in ids}

    def start(self) -> World:
        for node in self.nodes.values():
            node.start()
        return self

    @property
    def running(self):
        return [node for node in self.nodes.values() if node.client is not None]

    def leaders(self):
        return [node for node in self.running if isinstance(node.state, Leader)]

    def leader(self):
        """The leader of the highest epoch."""
        return max(self.leaders(), key=lambda node: node.state.epoch, default=None)

    def elect(self, timeout_ms=30_000):
        """Run until a leader has committed its epoch's start."""

        def established():
            leader = self.leader()
            return leader is not None and leader.state.high_watermark is not None

        assert self.scheduler.run_until(established, timeout_ms), "no leader was elected"
        return self.leader()

    def append(self, node, *values):
        epoch = node.state.epoch
        offset = node.client.prepare_append(epoch, [v.encode() for v in values])
        node.client.schedule_prepared_append()
        return offset

    def commit(self, node, *values, timeout_ms=10_000):
        offset = self.append(node, *values)
        assert self.scheduler.run_until(lambda: node.listener.next_offset > offset, timeout_ms), (
            "not committed"
        )
        return offset

    def settle(self, duration_ms=3_000):
        self.scheduler.run_for(duration_ms)

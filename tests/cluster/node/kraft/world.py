"""A small simulated quorum of raft clients, for tests of the consensus core."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from types import SimpleNamespace

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.errors import ErrorCode
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.types import CommittedBatch, LeaderAndEpoch
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.metadata.log import Log, LogConfig
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import LISTENER_APIS, ListenerType
from cluster.node.protocol.messages import ApiVersionsRequest
from tests.cluster.node.kraft.network import NodeNetwork, SimNetwork

DIRECTORY = "__cluster_metadata-0"
FOR_LONG_MS = 1_000_000


def listeners_of(node_id):
    return (VoterListener("CONTROLLER", "n", 9000 + node_id),)


CONTROLLER_APIS = tuple(LISTENER_APIS[ListenerType.CONTROLLER])


def versions_of(lowest, highest, api_keys=CONTROLLER_APIS):
    return SimpleNamespace(
        error_code=ErrorCode.none,
        api_keys=tuple(SimpleNamespace(api_key=key) for key in api_keys),
        supported_features=(
            SimpleNamespace(name="kraft.version", min_version=lowest, max_version=highest),
        ),
    )


class Listener:
    """A state machine that remembers what it was given."""

    def __init__(self):
        self.values: list[tuple[int, bytes]] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.next_offset = 0
        self.loaded: list = []

    def handle_commit(self, batches: list[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.next_offset
            self.values += [(batch.base_offset + i, v) for i, v in enumerate(batch.records)]
            self.next_offset = batch.last_offset + 1

    def handle_load_snapshot(self, snapshot, done) -> None:
        assert snapshot.id.offset > self.next_offset
        self.values = [
            (int(offset), value)
            for offset, _, value in (v.partition(b":") for v in snapshot.values())
        ]
        self.next_offset = snapshot.id.offset
        self.loaded.append(snapshot.id)
        done()

    def handle_high_watermark(self) -> None:
        pass

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
        def due():
            if self._is_alive():
                callback()

        return self._scheduler.call_later(delay_ms, due)


@dataclass(eq=False, repr=False)  # an assertion that fails would print every event of its trace
class Node:
    world: World
    node_id: int
    sync_ms: float
    disk: MemoryDisk = field(init=False)
    incarnation: int = -1
    client: RaftClient | None = None
    listener: Listener | None = None
    trace: list[tuple[float, int, str, dict]] = field(default_factory=list)
    fatal: BaseException | None = None
    directory_id: uuid.UUID = field(init=False)
    versions: object = field(default_factory=lambda: versions_of(0, 1))
    """What it answers ApiVersions with."""

    def __post_init__(self):
        self.directory_id = uuid.UUID(int=1000 + self.node_id)
        self.disk = MemoryDisk(self.world.scheduler.call_later, self.sync_ms)

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
            raise AssertionError(f"node {self.node_id} died") from error

        log = Log.open(self.disk, DIRECTORY, LogConfig(segment_bytes=world.segment_bytes), on_fatal)
        if world.dynamic:
            settings = {"local_listeners": listeners_of(self.node_id), **settings}
        config = RaftConfig(
            self.node_id,
            self.directory_id,
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

        def handle(request, reply):
            if isinstance(request, ApiVersionsRequest):
                reply(self.versions)
            elif is_alive():
                client.handle(request, reply)

        world.network.handlers[self.node_id] = handle
        client.start()

    def wipe(self) -> None:
        """Lose the disk: what starts next is another replica with the same id."""
        self.crash()
        self.directory_id = uuid.UUID(int=self.directory_id.int + 1000)
        self.disk = MemoryDisk(self.world.scheduler.call_later, self.sync_ms)

    def crash(self, keep="any") -> None:
        """Kill -9 and power loss in one."""
        self.client = None
        self.world.network.handlers.pop(self.node_id, None)
        self.disk.crash(self.world.random, keep)

    def durable_file(self, name="quorum-state") -> bytes | None:
        """What a power loss that keeps nothing else would leave of a file; None without one."""
        folder = self.disk._folders.get(DIRECTORY)
        file = None if folder is None else folder.synced.get(name)
        return None if file is None else bytes(file.synced)

    @property
    def is_busy(self):
        return self.client._quorum.busy

    @property
    def state(self):
        return self.client._quorum.state

    @property
    def log(self):
        return self.client._core.log

    def events(self, name):
        return [fields for _, _, event, fields in self.trace if event == name]


class World:
    def __init__(
        self, count=3, seed=0, segment_bytes=1 << 20, sync_ms=0.5, observers=0, **settings
    ):
        self.seed = seed
        self.random = random.Random(f"{seed}/world")
        self.scheduler = Scheduler()
        self.settings = settings
        self.segment_bytes = segment_bytes
        self.dynamic = False
        """Nodes report where they listen, as voters in the log need (KIP-853)."""
        self.network = SimNetwork(self.scheduler, lambda: 0.2 + self.random.random() * 0.6)
        ids = range(1, count + 1)
        self.ids = tuple(ids)
        self.voters = VoterSet.of(Endpoint(i, "n", 9000 + i) for i in ids)
        self.nodes = {i: Node(self, i, sync_ms) for i in range(1, count + observers + 1)}

    def start(self) -> World:
        for node in self.nodes.values():
            node.start()
        return self

    @property
    def voter_nodes(self):
        return [self.nodes[i] for i in self.ids]

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

    def keep_still(self, *nodes):
        """Let these nodes not stand for election for long, and no leader count as heard of."""
        for node in nodes:
            state = node.state
            if isinstance(state, Follower):
                state.has_fetched_from_leader = False
                state.fetch_deadline_ms = self.scheduler.now_ms + FOR_LONG_MS
            elif not isinstance(state, Leader):
                state.election_deadline_ms = self.scheduler.now_ms + FOR_LONG_MS

    def stand(self, node):
        """Let a node's time-out be over now."""
        if isinstance(node.state, Follower):
            node.state.fetch_deadline_ms = self.scheduler.now_ms
        else:
            node.state.election_deadline_ms = self.scheduler.now_ms
        node.client._submit(lambda: None)

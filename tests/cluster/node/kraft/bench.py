"""A quorum state on a simulated disk, without a client around it."""

import random
import uuid

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.accumulator import BatchAccumulator
from cluster.node.kraft.quorum.config import RaftConfig
from cluster.node.kraft.quorum.control_state import ControlState, VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.quorum_state import QuorumState
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateStore, decode
from cluster.node.kraft.quorum.states import (
    Candidate,
    EpochElection,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from tests.cluster.node.kraft.world import NodeClock

FOLDER = "__cluster_metadata-0"
FILE = f"{FOLDER}/quorum-state"
ME = ReplicaKey(1, uuid.UUID(int=1001))
NODE_2, NODE_3 = (ReplicaKey(i, uuid.UUID(int=1000 + i)) for i in (2, 3))


def endpoint(node_id, port=9000):
    return Endpoint(node_id, "n", port + node_id)


def nothing():
    pass


class Bench:
    """Epoch 5 is the present. `disk` may come from an earlier bench."""

    def __init__(self, voters=(1, 2, 3), disk=None, scheduler=None):
        self.scheduler = scheduler or Scheduler()
        self.disk = disk or MemoryDisk(self.scheduler.call_later, sync_ms=1.0)
        if disk is None:
            self.disk.replace({f"{FOLDER}/partition.metadata": b""})  # a folder with a durable name
        self.failures = []
        self.config = RaftConfig(1, ME.directory_id, "c", VoterSet.of(map(endpoint, voters)))
        self.store = QuorumStateStore(self.disk, FOLDER, self.failures.append)
        self.traced = []
        self.quorum = QuorumState(
            self.config,
            self.store,
            NodeClock(self.scheduler, lambda: True),
            random.Random(1),
            lambda event, /, **fields: self.traced.append((event, fields)),
            lambda continuation: continuation(),
            ControlState(self.config.voters),
        )

    def initialize(self, offset=0, epoch=0):
        self.quorum.initialize(OffsetAndEpoch(offset, epoch), nothing)
        self.scheduler.run_for(100)
        return self.quorum.state

    def be(self, state):
        self.quorum._be(state)
        return self

    def file(self):
        """What is durable."""
        file = self.disk._folders[FOLDER].synced.get("quorum-state")
        return None if file is None else decode(bytes(file.synced))

    def election(self, *granting):
        election = EpochElection(self.config.voters.ids)
        for voter in granting:
            election.record(voter, granted=True)
        return election

    # states of epoch 5

    def unattached(self, leader_id=-1, voted_key=None):
        return Unattached(5, 10_000.0, leader_id, voted_key)

    def prospective(self, leader_id=-1, voted_key=None):
        where = endpoint(leader_id) if leader_id > 0 else None
        return Prospective(5, 10_000.0, self.election(1), leader_id, where, voted_key)

    def candidate(self, *granting):
        return Candidate(5, 10_000.0, self.election(1, *granting), ME)

    def follower(self, leader_id=2, voted_key=None):
        return Follower(5, leader_id, endpoint(leader_id), 10_000.0, voted_key)

    def leader(self):
        accumulator = BatchAccumulator(5, 0, 0)
        return Leader(5, ME, endpoint(1), self.config.voters, (1, 2), 0, accumulator, 3000, 0.0)

    def resigned(self):
        return Resigned(5, 1, 10_000.0, {2: None, 3: None}, (), endpoint(1))

"""Simulated quorums for tests: driven by hand, or by a campaign's plan."""

import asyncio

from cluster.backends.base import NodeState
from cluster.backends.sim import loop
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.sim_backend import SimBackend
from cluster.backends.sim.world import SimWorld
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import NoOpRecord
from cluster.node.kraft.quorum.leader_state import Leader
from harness.plan.document import from_document
from harness.run.phases import Run, conduct
from harness.run.recorder import Recorder
from harness.sim.sights.images import ImageWatch
from harness.sim.sights.world import watch
from tests.harness.world import Journal


class Quorum:
    """A world with its monitor, elected and ready."""

    def __init__(self, nodes=3, seed=1, run_node_settings=None, **settings):
        self.world = SimWorld(
            nodes, seed, settings=SimSettings(**settings), node_settings=run_node_settings
        )
        self.monitor = watch(self.world)
        for name in self.world.names:
            self.world.start(name)

    @property
    def scheduler(self):
        return self.world.scheduler

    def node(self, name):
        return self.world.nodes[name].process.node

    def running(self):
        return [n for n in self.world.names if self.world.nodes[n].state is NodeState.RUNNING]

    def leader(self):
        found = [
            (self.node(name).raft.state.epoch, name)
            for name in self.running()
            if self.node(name) is not None and isinstance(self.node(name).raft.state, Leader)
        ]
        return max(found)[1] if found else None

    def elect(self, timeout_ms=20_000):
        def claimed():
            leader = self.leader()
            return leader is not None and self.node(leader).controller.is_active

        assert self.scheduler.run_until(claimed, timeout_ms), "no leader was elected"
        return self.leader()

    def append(self, leader, count=1):
        """Append NoOp records as the leader's controller would; returns the last offset."""
        raft = self.node(leader).raft
        offset = -1
        for _ in range(count):
            offset = raft.prepare_append(raft.leader_and_epoch.epoch, [encode_record(NoOpRecord())])
        raft.schedule_prepared_append()
        return offset

    def run(self, ms):
        self.scheduler.run_for(ms)


def campaign(seed=1, nodes=3, settings=None, monitor=True, **plan):
    """Conduct a plan in memory; returns backend, monitor, journal and final reads."""
    scheduler = Scheduler()
    document = {"seed": seed, "nodes": nodes, "duration_s": 25, "concurrency": 6, "rate_per_s": 60}
    document |= plan
    backend = SimBackend(
        SimWorld(nodes, seed, run_id="test", settings=settings, scheduler=scheduler)
    )
    watching = watch(backend.world) if monitor else None
    if watching is not None:
        ImageWatch(backend.world, watching)
    journal = Journal()

    async def work():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        return await conduct(Run(from_document(document), backend, recorder, backend.clock))

    reads = loop.run(work(), scheduler)
    return backend, watching, journal.events, reads

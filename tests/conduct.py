"""A plan that is conducted on real nodes of a test's own."""

import asyncio

from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.trace import clock_name
from harness.evidence import node_disks
from harness.run.phases import Run, conduct
from harness.run.recorder import Recorder
from results.store.evidence_files import STATE_FILE


def perform(plan, store, make_backend):
    """Conduct a plan on real nodes, and store what it leaves: its evidence is whole."""

    async def work(journal):
        loop = asyncio.get_running_loop()
        recorder = Recorder(journal, loop.time, clock_name())
        reads = await conduct(Run(plan, make_backend(), recorder, LoopClock(loop)))
        for read in reads.reads.values():
            store.write_evidence(read.node, STATE_FILE, [read])
        problems = node_disks.collect(store, plan.node_names)
        recorder.note("evidence", {"problems": problems})
        assert problems == []

    with store.journal_writer() as journal:
        asyncio.run(work(journal))

"""Run a campaign and print a digest of its journal and of every node's trace and disk."""

import hashlib
import json
import sys

from cluster.backends.sim.settings import SimSettings
from cluster.node.runtime.trace import encode_line
from tests.harness.sim.quorums import campaign


def show(*parts):
    sys.stdout.write(" ".join(str(part) for part in parts) + "\n")


def main(seed):
    settings = SimSettings(
        loss=0.02, duplication=0.02, slow_probability=0.02, slow_sync_probability=0.01
    )
    backend, monitor, events, _ = campaign(
        seed=seed, settings=settings, faults=["kill", "pause", "partition"], workload="topics"
    )
    assert monitor.violations == []
    journal = hashlib.sha256("\n".join(repr(event) for event in events).encode())
    show("journal", len(events), journal.hexdigest())
    for node, evidence in backend.evidence().items():
        trace, disk = hashlib.sha256(), hashlib.sha256()
        for t, n, e, fields, w in evidence.trace:
            trace.update(encode_line({"t": t, "w": w, "n": n, "e": e, **fields}))
        for name, data in evidence.segments:
            disk.update(json.dumps([name, data.hex()]).encode())
        show(node, len(evidence.trace), trace.hexdigest(), disk.hexdigest())
    show("events", backend.world.scheduler.events)


if __name__ == "__main__":
    main(int(sys.argv[1]))

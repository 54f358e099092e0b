"""Play seeds of five voters of Kafka's raft module, or stored plans; print a digest of each run.

python -m tests.harness.sim.kafka_runs 4.3.1 0 1 2 runs/sim/.../failures/*.json
"""

import hashlib
import sys
from pathlib import Path

from cluster.node.runtime.trace import encode_line
from harness.plan.document import in_simulation
from harness.sim.play import play
from tests.harness.sim.plans import read_plan


def plan_of(release, seed, **more):
    return in_simulation(
        {
            "campaign": "five-voters",
            "system": "kafka-raft",
            "system_options": {"version": release},
            "workload": "appends",
            "nodes": 5,
            "duration_s": 7,
            "rate_per_s": 20,
            "concurrency": 4,
            "operation_timeout_ms": 2000.0,
            "faults": ["kill", "partition", "pause"],
            "schedule": {"quiet_s": [0.5, 1.0], "fault_s": [1.0, 2.0]},
            "seed": seed,
            **more,
        }
    )


def digest(played):
    found = hashlib.sha256(repr(played.events).encode())
    for host in played.backend.world.nodes.values():
        for t, n, e, fields, w in host.trace:
            found.update(encode_line({"t": t, "w": w, "n": n, "e": e, **fields}))
    return found.hexdigest()


def main(release, runs):
    for each in runs:
        plan = plan_of(release, int(each)) if each.isdigit() else read_plan(Path(each))
        sys.stdout.write(f"{each} {digest(play(plan))}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

"""Play seeds of five voters of Kafka's raft module, and print a digest of each run."""

import hashlib
import sys

from cluster.node.runtime.trace import encode_line
from harness.plan.plan import in_simulation
from harness.sim.play import MemoryJournal, play


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


def main(release, seeds):
    for seed in seeds:
        journal = MemoryJournal()
        played = play(plan_of(release, seed), journal, journal.events)
        sys.stdout.write(f"{seed} {digest(played)}\n")


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]])

"""The swarm's draws of partitions' logs (see `harness.sim.swarm.draw`).

They use a stream of their own. A plan's brokers register then, and its clients, those of strands
too, send to replicated partitions and poll them while leaders move: with one replica or several,
acks of all, one or none, with retries and without. Time-outs of replication are of the scale of
the plan's others, so that its faults shrink an ISR and move a leader.

A kill spares what was written to a disk, and no disk is wiped: Kafka's logs are not fsynced before
an acknowledgement, and what all replicas in sync lose at one time is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from cluster.systems.kraft import REGISTRATION
from harness.plan.plan import Plan
from harness.plan.strands import Step, Strand
from workloads import log

_SHARE: Final = 0.3
"""As often as `register` is left."""
_SHAPED_SHARE: Final = 0.6


def with_logs(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's clients send to partitions and poll them, and how."""
    random = Random(f"swarm/{plan.seed}/log")
    if random.random() >= _SHARE:
        return plan
    replicas = min(plan.nodes, random.choice((1, 2, 3, 3, 3)))
    topics, partitions = random.choice(((1, 1), (1, 3), (2, 2)))
    options = {
        "topics": topics,
        "partitions": partitions,
        "replication_factor": replicas,
        "min_insync_replicas": min(replicas, random.choice((1, 2, 2))),
        "acks": random.choice(("all",) * 6 + ("1", "1", "0")),
        "idempotence": random.choice((0, 1)),
        "retries": random.choice((0, 0, 2)),
        "batch": random.choice((1, 3, 8)),
        "send_fraction": random.choice((0.3, 0.5, 0.8)),
        "again_fraction": random.choice((0.1, 0.5)),
        "move_fraction": random.choice((0.0, 0.01, 0.05)),
    }

    def adapt(step: Step) -> Step:
        """Leave what a kill keeps to the world."""
        kept = {key: value for key, value in step.options.items() if key != "keep"}
        return replace(step, options=kept)

    settings = _settings(random, unit_ms)
    strands = [
        replace(strand, steps=tuple(adapt(step) for step in strand.steps))
        for strand in plan.strands
        if not any(step.kind == "disk-wipe" for step in strand.steps)
    ]
    if random.random() < _SHAPED_SHARE:
        strands += _behind(random, plan, settings, unit_ms)
    return replace(
        plan,
        node_settings={**plan.node_settings, **settings},
        world=replace(plan.world, power_loss="written"),
        workload=log.KIND.name,
        workload_options=options,
        strands=tuple(strands),
    )


def _behind(
    random: Random, plan: Plan, settings: Mapping[str, int], unit_ms: float
) -> Iterator[Strand]:
    """Draw strands that leave a replica behind, beside the plan's others."""
    lag_ms = settings["replica.lag.time.max.ms"]
    out_ms = max(lag_ms, settings["broker.session.timeout.ms"])
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        one, other = (f"node:n{n}" for n in random.sample(range(1, plan.nodes + 1), 2))
        if random.random() < 0.3:
            steps = [_slow(random, one, lag_ms, unit_ms)]
        else:
            steps = _left_behind(random, one, other, out_ms, unit_ms)
        yield Strand(round(at_ms, 1), tuple(steps))
        at_ms += out_ms + unit_ms * (3.0 + random.expovariate(0.3))


def _left_behind(random: Random, one: str, other: str, out_ms: float, unit_ms: float) -> list[Step]:
    """A replica is away until the ISR has shrunk; as it returns, another one goes."""
    away = random.choice(("pause", "partition", "kill"))
    options = {"shape": "isolate"} if away == "partition" else {}
    lost = random.choice(("kill", "pause"))
    return [
        Step(away, targets=one, options=options),
        Step(
            lost,
            targets=other,
            after_ms=round(out_ms * random.uniform(0.5, 2.0), 1),
            for_ms=round(out_ms + unit_ms * random.uniform(0.5, 3.0), 1),
        ),
        Step(
            "heal",
            targets=one,
            after_ms=round(unit_ms * random.uniform(0.0, 0.5), 1),
            options={"fault": away},
        ),
    ]


def _slow(random: Random, node: str, lag_ms: float, unit_ms: float) -> Step:
    """A replica hears everything late, but not so late that it leaves the ISR."""
    options = {"direction": "incoming", "delay_ms": round(lag_ms * random.uniform(0.1, 0.5), 1)}
    span_ms = round(unit_ms * random.uniform(2.0, 6.0), 1)
    return Step("delay", targets=node, for_ms=span_ms, options=options)


def _settings(random: Random, unit_ms: float) -> dict[str, int]:
    session_ms = round(unit_ms * random.choice((0.5, 1.0, 3.0)))
    return {
        REGISTRATION: 1,
        "metadata.max.retention.bytes": 100 << 20,  # what a replica owes is read from the whole log
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * random.choice((0.1, 0.3)))),
        "replica.lag.time.max.ms": max(1, round(unit_ms * random.choice((0.3, 1.0, 3.0)))),
        "replica.fetch.wait.max.ms": max(1, round(unit_ms * random.choice((0.05, 0.2)))),
        "replica.fetch.backoff.ms": max(1, round(unit_ms * random.choice((0.05, 0.2)))),
        "replica.socket.timeout.ms": max(1, round(unit_ms * random.choice((0.5, 2.0)))),
        "replica.fetch.max.bytes": random.choice((1, 300, 1 << 20)),
        "log.index.interval.bytes": random.choice((100, 4096)),
    }

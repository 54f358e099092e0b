"""What the swarm draws of brokers that register (see `harness.sim.draw`).

It has a stream of its own, so that what a seed draws otherwise does not depend on it. In three
seeds of ten every node's broker registers, with sessions short enough to end within a fault. Where
no strand asks for operations of its own, clients then do what brokers, lists or topics are for.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cluster.systems.kraft import REGISTRATION
from harness.sim.scenario import Scenario

_SHARE = 0.3
_GROWING = ("partitions", "set")
"""Workloads that add a partition with every write and never remove one."""
_GROWTH_MAX_PER_S = 8.0
"""Rate of those: every broker that is fenced rewrites all partitions, on every node."""


def with_brokers(scenario: Scenario, unit_ms: float) -> Scenario:
    """Draw whether a scenario's nodes register, and what its clients do then."""
    random = Random(f"swarm/{scenario.seed}/brokers")
    if random.random() >= _SHARE:
        return scenario
    session_ms = round(unit_ms * random.choice((0.5, 1.0, 3.0)))
    settings = {
        **scenario.settings,
        REGISTRATION: 1,
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * random.choice((0.1, 0.3)))),
    }
    load = scenario.workload
    name, options = _workload(random)
    if not any(step.kind == "op" for strand in scenario.strands for step in strand.steps):
        load = replace(load, name=name, options=options)
    if load.name in _GROWING:
        load = replace(load, rate_per_s=min(load.rate_per_s, _GROWTH_MAX_PER_S))
    return replace(scenario, settings=settings, workload=load)


def _workload(random: Random) -> tuple[str, dict[str, Any]]:
    name = random.choice(("brokers", "brokers", "append", "partitions", "unique-ids", "topics"))
    options: dict[str, dict[str, Any]] = {
        "brokers": {
            "brokers": random.choice((2, 6)),
            "group": random.choice((1, 2)),
            "stage": random.choice((5, 20)),
        },
        "append": {"keys": random.choice((1, 3))},
        "partitions": {"topics": random.choice((1, 4))},
        "topics": {"names": random.choice((2, 6)), "partitions_max": random.choice((1, 3))},
    }
    return name, options.get(name, {})

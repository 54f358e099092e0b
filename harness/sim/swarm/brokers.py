"""The swarm's draws of registered brokers (see `harness.sim.swarm.draw`).

In four of ten seeds whose clients do not send to partitions every node's broker registers, with
sessions short enough to expire within a fault. The workload is then drawn from those that need
brokers, lists or topics.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cluster.systems.kraft import REGISTRATION
from harness.plan.plan import Plan
from harness.sim.swarm.steps import Draw, stream

_SHARE = 0.4
GROWING = ("partitions", "set")
"""Workloads that add a partition with every write and never remove one."""
_GROWTH_MAX_PER_S = 8.0
"""Rate of those: every broker that is fenced rewrites all partitions, on every node."""


def with_brokers(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's nodes register, and the workload if they do."""
    draw = stream(plan, "brokers", unit_ms)
    if not draw.chance(_SHARE):
        return plan
    settings = {**plan.node_settings, REGISTRATION: 1, **session_settings(draw)}
    workload, options = _workload(draw.random)
    rate_per_s = plan.rate_per_s
    if workload in GROWING:
        rate_per_s = min(rate_per_s, _GROWTH_MAX_PER_S)
    return replace(
        plan,
        node_settings=settings,
        workload=workload,
        workload_options=options,
        rate_per_s=rate_per_s,
    )


def session_settings(draw: Draw) -> dict[str, int]:
    """Draw the length of brokers' sessions, and how often they say that they live."""
    session_ms = round(draw.unit_ms * draw.random.choice((0.5, 1.0, 3.0)))
    return {
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * draw.random.choice((0.1, 0.3)))),
    }


def _workload(random: Random) -> tuple[str, dict[str, Any]]:
    others = ("topics", "append", "partitions", "unique-ids", "topics")
    name = random.choice(("brokers", "brokers", "partitions", *others))
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

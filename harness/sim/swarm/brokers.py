"""The swarm's draws of registered brokers (see `harness.sim.swarm.draw`).

They use a stream of their own, so that the other draws of a seed do not depend on them. In four
of ten seeds whose clients do not send to partitions every node's broker registers, with sessions
short enough to expire within a fault. The workload is then drawn from those that need brokers,
lists or topics.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from cluster.systems.kraft import REGISTRATION
from harness.plan.plan import Plan

_SHARE = 0.4
GROWING = ("partitions", "set")
"""Workloads that add a partition with every write and never remove one."""
_GROWTH_MAX_PER_S = 8.0
"""Rate of those: every broker that is fenced rewrites all partitions, on every node."""


def with_brokers(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a plan's nodes register, and the workload if they do."""
    random = Random(f"swarm/{plan.seed}/brokers")
    if random.random() >= _SHARE:
        return plan
    session_ms = round(unit_ms * random.choice((0.5, 1.0, 3.0)))
    settings = {
        **plan.node_settings,
        REGISTRATION: 1,
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * random.choice((0.1, 0.3)))),
    }
    workload, options = _workload(random)
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

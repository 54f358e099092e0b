"""The swarm's draws of registered brokers, and of what they and controllers are asked for.

See `harness.sim.swarm.draw`. In four of ten seeds whose clients do not send to partitions every
node's broker registers, with sessions short enough to expire within a fault. The workload is then
drawn from those that need brokers, lists or topics.

Administrators ask beside all else: levels of features go down and up again, which no node of these
worlds acts by. Where clients send to partitions, brokers get other sizes of their parts, some of
which they must refuse, and are asked what they know of the cluster; and the topic grows that
nothing else uses. Few brokers are asked for more producer ids than a controller gives at one time.
Some clusters are asked for all that they must refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from cluster.systems.kraft import METADATA_VERSION, REGISTRATION
from harness.plan.plan import Plan
from harness.plan.strands import Strand
from harness.sim.swarm.steps import Draw, do, strand, stream
from harness.sim.swarm.topics import RENEWED
from workloads.data import log
from workloads.data.log_client import ASK_WRONG, DESCRIBE, GROW, PRODUCERS, RESIZE
from workloads.data.wrong_requests import WRONG

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
    settings = {**plan.node_settings, REGISTRATION: 1, **session_settings(plan, draw)}
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


def session_settings(plan: Plan, draw: Draw) -> dict[str, int]:
    """Draw the length of brokers' sessions, and how often they say that they live."""
    latency_ms, sync_ms = plan.world.latency_ms[1], plan.world.sync_ms[1]
    # A registration has half a session, as in Kafka, from its request to the answer that it is
    # committed: four ways, two syncs and the linger. Without that no broker would register.
    linger_ms = plan.node_settings["controller.quorum.append.linger.ms"]
    commit_ms = 4 * latency_ms + 2 * sync_ms + linger_ms
    session_ms = round(draw.unit_ms * draw.random.choice((0.5, 1.0, 3.0)))
    session_ms = max(session_ms, round(2.2 * commit_ms))
    settings = {
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": max(1, round(session_ms * draw.random.choice((0.1, 0.3)))),
    }
    if 2 * plan.nodes * (2 * latency_ms + sync_ms) > 0.8 * session_ms:
        # Behind a backlog every broker is fenced and unfenced once in a session. With the fifth
        # of an idle leader's own it is more than followers fetch, one by one: it would never end.
        settings["controller.quorum.fetch.max.bytes"] = 8 << 20
    return settings


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


_LEVELS_SHARE: Final = 0.2
_REQUESTS_SHARE: Final = 0.5
_PRODUCERS_SHARE: Final = 0.1
_PRODUCERS: Final = 1_010
"""More than a block (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""
_WRONG_SHARE: Final = 0.2
_WRONG_AT_ONCE: Final = 5
_RELEASE_SHARE: Final = 0.15
_RELEASES: Final = (26, 27, 28)
"""Levels of 4.1 and 4.2: from all of them a way up to 4.3, and one down to 4.0, is left."""
_FEATURES: Final = ("group.version", "share.version", "streams.version")
_SIZES: Final = (
    *(("num.io.threads", size) for size in (3, 4, 16, 17)),
    *(("num.recovery.threads.per.data.dir", size) for size in (0, 1, 4, 5)),
    *(("log.cleaner.dedupe.buffer.size", size) for size in (1 << 20, 64 << 20)),
)
"""Those that a broker with Kafka's defaults takes, and the ones next to them."""


def with_administration(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether levels of features change, and whether brokers are asked for this and that."""
    draw = stream(plan, "administration", unit_ms)
    has_levels, has_requests = draw.chance(_LEVELS_SHARE), draw.chance(_REQUESTS_SHARE)
    plan = _with_release(plan, unit_ms)
    strands = list(plan.strands)
    if has_levels:
        strands += _levels(draw, plan)
    if has_requests and plan.workload == log.KIND.name:
        strands += _requests(draw, plan)
    if plan.workload == log.KIND.name:
        strands += _producers(plan)
        strands += _wrong(plan, unit_ms)
    return replace(plan, strands=tuple(strands))


def _with_release(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether the cluster begins at the level of an earlier release, and leaves it."""
    draw = stream(plan, "release", unit_ms)
    if not draw.chance(_RELEASE_SHARE):
        return plan
    settings = {**plan.node_settings, METADATA_VERSION: draw.random.choice(_RELEASES)}
    at_ms = plan.duration_ms * draw.random.uniform(0.1, 1.5)
    up = (strand(at_ms, do("finalize")),) if at_ms < plan.duration_ms - unit_ms else ()
    return replace(plan, node_settings=settings, strands=(*plan.strands, *up))


def _producers(plan: Plan) -> Iterator[Strand]:
    draw = stream(plan, "producers", 0.0)
    if draw.chance(_PRODUCERS_SHARE):
        at_ms = plan.duration_ms * draw.random.uniform(0.2, 0.9)
        yield strand(at_ms, do("op", "random", f=PRODUCERS, key="d0-0", value=_PRODUCERS))


def _wrong(plan: Plan, unit_ms: float) -> Iterator[Strand]:
    draw = stream(plan, "asked-wrong", unit_ms)
    random = draw.random
    if not draw.chance(_WRONG_SHARE) or plan.duration_ms < 2 * unit_ms:
        return
    names = random.sample(list(WRONG), len(WRONG))
    for first in range(0, len(names), _WRONG_AT_ONCE):
        at_ms = unit_ms + (plan.duration_ms - 2 * unit_ms) * random.random()
        target = random.choice(("leader", "leader", "leader", "random"))
        steps = (
            do(
                "op",
                "node:n1" if WRONG[name].is_of_broker else target,
                f=ASK_WRONG,
                key="d0-0",
                value=name,
            )
            for name in names[first : first + _WRONG_AT_ONCE]
        )
        yield strand(at_ms, *steps)


def _levels(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random = draw.unit_ms, draw.random
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        feature = random.choice(_FEATURES)
        up_ms = draw.span(1.0, 4.0)
        down = do("finalize", feature=feature, level=0, change="safe-downgrade")
        yield strand(at_ms, down, do("finalize", "", up_ms, feature=feature))
        at_ms += up_ms + unit_ms * (3.0 + random.expovariate(0.2))


def _requests(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random = draw.unit_ms, draw.random
    at_ms = unit_ms * random.uniform(1.0, 4.0)
    while at_ms < plan.duration_ms - unit_ms:
        name, size = random.choice(_SIZES)
        resize = {"name": name, "value": str(size)}
        yield strand(
            at_ms,
            do("op", "random", f=RESIZE, key="d0-0", value=resize),
            do("op", "random", f=DESCRIBE, key="d0-0"),
            do("op", f=GROW, key=RENEWED),
        )
        at_ms += unit_ms * (2.0 + random.expovariate(0.3))

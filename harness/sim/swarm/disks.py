"""The swarm's draws of what disks lose (see `harness.sim.swarm.draw`).

One node at a time finds a flipped bit, or the end missing, of what was durable in its metadata log.
A correct node refuses to start on it, and the heal brings its files back.

Kafka's logs of partitions are not fsynced before an acknowledgement. What one node loses of them
another one in sync has, if that loses nothing: so in worlds of such logs one node loses its power,
or a disk, again and again, nothing else ends a process, and no replica acknowledges alone. Short
segments and syncs by time or by number give its recovery something to trust, and to cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.logs import ends_process
from harness.sim.swarm.steps import Draw, do, is_torn, strand, stream
from harness.sim.swarm.topics import configure
from workloads.data import log

_DAMAGE_SHARE: Final = 0.25
_KINDS: Final = ("bit-flip", "truncate-file")
_TARGETS: Final = ("leader", "follower", "random")
_POWER_SHARE: Final = 0.4
"""Of the worlds in which no replica acknowledges alone, and no log is torn."""
_MOMENTS: Final = (
    *(None,) * 5,
    *("replica-leader", "replica-follower", "replica-isr"),
    *("replica-truncated", "replica-begun", "replica-moved"),
)
"""Events of the node at which it loses power."""


def with_damage(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether metadata logs are damaged, once they have grown."""
    draw = stream(plan, "disks", unit_ms)
    random = draw.random
    if random.random() >= _DAMAGE_SHARE:
        return plan
    strands = list(plan.strands)
    at_ms = plan.duration_ms * random.uniform(0.3, 0.6)
    while at_ms < plan.duration_ms - unit_ms:
        down_ms = draw.span(0.5, 2.0)
        kind, target = random.choice(_KINDS), random.choice(_TARGETS)
        strands.append(strand(at_ms, do(kind, target, for_ms=down_ms, file="log")))
        at_ms += down_ms + unit_ms * random.uniform(2.0, 8.0)
    return replace(plan, strands=tuple(strands))


def with_power_losses(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether one node of a world of logs loses its power."""
    draw = stream(plan, "lost-power", unit_ms)
    if not draw.chance(_POWER_SHARE) or plan.workload != log.KIND.name:
        return plan
    if is_torn(plan) or plan.workload_options["min_insync_replicas"] < 2:
        return plan
    return replace(
        plan,
        world=replace(plan.world, power_loss="any"),
        strands=(
            *(each for each in plan.strands if not ends_process(each)),
            *_losses(draw, plan),
            strand(unit_ms, *_settings(draw, plan)),
        ),
    )


def _losses(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random, node = draw.unit_ms, draw.random, draw.node()
    session_ms = plan.node_settings["broker.session.timeout.ms"]
    at_ms = unit_ms * random.uniform(1.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        down_ms = round(unit_ms * random.choice((0.1, 0.5, 2.0)) * random.uniform(0.5, 1.5), 1)
        step = do("disk-error", node, for_ms=down_ms)
        if random.random() >= 0.2:
            moment = random.choice(_MOMENTS)
            until = None if moment is None else Condition(at=node, event=moment)
            keep = draw.keep("any", "any", "nothing")
            step = do("kill", node, for_ms=down_ms, until=until, within_ms=4 * unit_ms, **keep)
        yield strand(at_ms, step)
        at_ms += down_ms + session_ms + unit_ms * (1.0 + random.expovariate(0.5))


def _settings(draw: Draw, plan: Plan) -> Iterator[Step]:
    roll_ms = max(1, round(plan.duration_ms / draw.random.choice((3, 10, 30))))
    ways = (
        ("segment.ms", roll_ms),
        ("flush.messages", draw.random.choice((1, 1, 5))),
        ("flush.ms", draw.whole_ms(0.1, 1.0)),
    )
    for name, value in ways:
        if draw.chance(0.5):
            for topic in range(plan.workload_options["topics"]):
                yield configure(f"d{topic}-0", name, value)

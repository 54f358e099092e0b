"""The swarm's draws of a node that loses power beside partitions' logs (see `draw`).

They use a stream of their own. Kafka's logs are not fsynced before an acknowledgement. What one
node loses of them another one in sync has, if that loses nothing: so one node loses its power, or a
disk, again and again, nothing else ends a process, and no replica acknowledges alone. Short
segments and syncs by time or by number give its recovery something to trust, and to cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.fragments import kill_parameters
from harness.sim.swarm.logs import ends_process
from harness.sim.swarm.topics import configure
from workloads.data import log

_SHARE: Final = 0.4
"""Of the worlds in which no replica acknowledges alone, and no log is torn."""
_MOMENTS: Final = (
    *(None,) * 5,
    *("replica-leader", "replica-follower", "replica-isr"),
    *("replica-truncated", "replica-begun", "replica-moved"),
)
"""Events of the node at which it loses power."""


def with_power_losses(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether one node of a world of logs loses its power."""
    random = Random(f"swarm/{plan.seed}/lost-power")
    if random.random() >= _SHARE or plan.workload != log.KIND.name:
        return plan
    steps = [step for strand in plan.strands for step in strand.steps]
    is_torn = any(step.options.get("file") == "partition" for step in steps)
    if is_torn or plan.workload_options["min_insync_replicas"] < 2:
        return plan
    return replace(
        plan,
        world=replace(plan.world, power_loss="any"),
        strands=(
            *(strand for strand in plan.strands if not ends_process(strand)),
            *_losses(random, plan, unit_ms),
            Strand(round(unit_ms, 1), tuple(_settings(random, plan, unit_ms))),
        ),
    )


def _losses(random: Random, plan: Plan, unit_ms: float) -> Iterator[Strand]:
    node = f"node:n{random.randint(1, plan.nodes)}"
    session_ms = plan.node_settings["broker.session.timeout.ms"]
    at_ms = unit_ms * random.uniform(1.0, 6.0)
    while at_ms < plan.duration_ms - unit_ms:
        down_ms = round(unit_ms * random.choice((0.1, 0.5, 2.0)) * random.uniform(0.5, 1.5), 1)
        if random.random() < 0.2:
            step = Step("disk-error", targets=node, for_ms=down_ms)
        else:
            moment = random.choice(_MOMENTS)
            step = Step(
                "kill",
                targets=node,
                for_ms=down_ms,
                until=None if moment is None else Condition(at=node, event=moment),
                within_ms=4 * unit_ms,
                options=kill_parameters(random.choice(("any", "any", "nothing"))),
            )
        yield Strand(round(at_ms, 1), (step,))
        at_ms += down_ms + session_ms + unit_ms * (1.0 + random.expovariate(0.5))


def _settings(random: Random, plan: Plan, unit_ms: float) -> Iterator[Step]:
    roll_ms = max(1, round(plan.duration_ms / random.choice((3, 10, 30))))
    ways = (
        ("segment.ms", roll_ms),
        ("flush.messages", random.choice((1, 1, 5))),
        ("flush.ms", max(1, round(unit_ms * random.choice((0.1, 1.0))))),
    )
    for name, value in ways:
        if random.random() < 0.5:
            for topic in range(plan.workload_options["topics"]):
                yield configure(f"d{topic}-0", name, value)

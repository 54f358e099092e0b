"""The swarm's draws of topics that change beside the workload `log` (see `harness.sim.swarm.draw`).

They use a stream of their own. A topic that nothing else uses is deleted and made anew, while a
broker is down that comes back with the old one's logs; and what it holds is deleted. It gets
another min.insync.replicas, also while its ISR is small: who was eligible to lead by the one before
is so no more (KIP-966). Where the ISR is empty then, nobody is left who may lead: so it is no topic
of the workload, which must be read in the end. The logs of these get a segment now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from checkers.partition_logs.columns import CONFIGURE, RENEW
from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from workloads.data import log
from workloads.data.log_client import DELETE, FILL

_SHARE: Final = 0.25
_SYNCED_SHARE: Final = 0.3
RENEWED: Final = "e0-0"
"""A partition of the topic that is made anew."""


def with_topics(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether topics change, once the first ones are there."""
    random = Random(f"swarm/{plan.seed}/topics")
    if plan.workload != log.KIND.name or random.random() >= _SHARE:
        return plan
    session_ms = plan.node_settings["broker.session.timeout.ms"]
    return replace(plan, strands=(*plan.strands, *_strands(random, plan, unit_ms, session_ms)))


def _strands(random: Random, plan: Plan, unit_ms: float, session_ms: float) -> Iterator[Strand]:
    at_ms = unit_ms * random.uniform(1.0, 4.0)
    while at_ms < plan.duration_ms - unit_ms:
        node = f"node:n{random.randint(1, plan.nodes)}"
        away_ms = round(session_ms + unit_ms * random.uniform(0.5, 3.0), 1)
        away = Step("stop", targets=node, for_ms=away_ms)
        wait_ms = round(unit_ms * random.uniform(0.2, 1.0), 1)
        shape = random.random()
        if shape < 0.15:
            # A read ends with its segment: with too many the whole log cannot be read in time.
            roll_ms = round(plan.duration_ms / random.choice((3, 10, 30)))
            key = f"d{random.randrange(plan.workload_options['topics'])}-0"
            steps = [configure(key, "segment.ms", max(1, roll_ms))]
        elif shape < 0.5:
            alone = 1 if plan.world.power_loss == "written" else 2  # what may be lost is not alone
            least = random.randint(alone, plan.workload_options["replication_factor"])
            steps = [configure(RENEWED, "min.insync.replicas", least)]
            if random.random() < 0.7:
                late_ms = round(session_ms + wait_ms, 1)
                steps = [away, replace(steps[0], after_ms=late_ms)]
        else:
            renew = _ask_leader({"f": RENEW, "key": RENEWED})
            wait = Step("wait", after_ms=wait_ms)
            syncs = _syncs(plan, unit_ms, at_ms)
            steps = [renew, wait, *syncs, away, replace(renew, after_ms=wait_ms)]
            steps += _deletions(random, unit_ms)
        yield Strand(round(at_ms, 1), tuple(steps))
        at_ms += away_ms + unit_ms * (2.0 + random.expovariate(0.3))


def _syncs(plan: Plan, unit_ms: float, at_ms: float) -> list[Step]:
    """Draw whether the topic's log has a sync to come when it is deleted, or grows by syncs."""
    random = Random(f"swarm/{plan.seed}/sync-first/{at_ms}")
    ways = (("flush.ms", round(unit_ms * random.uniform(1.0, 4.0))), ("flush.messages", 1))
    way = random.choice(ways)
    if random.random() >= _SYNCED_SHARE:
        return []
    known_ms = round(unit_ms * random.uniform(0.1, 0.5), 1)  # brokers know of the setting by then
    fill = Step("op", after_ms=known_ms, options={"f": FILL, "key": RENEWED, "value": 1})
    return [configure(RENEWED, *way), fill]


def _deletions(random: Random, unit_ms: float) -> Iterator[Step]:
    """Draw what is deleted of the new topic, which has one record or none."""
    for _ in range(random.randint(0, 3)):
        wait_ms = round(unit_ms * random.uniform(0.1, 1.0), 1)
        options = {"f": DELETE, "key": RENEWED, "value": random.choice((-2, -1, 0, 1, 1, 2))}
        yield Step("op", after_ms=wait_ms, options=options)


def configure(key: str, name: str, value: object) -> Step:
    """Make the step that sets a configuration of a topic."""
    set_to = {"name": name, "value": str(value)}
    return _ask_leader({"f": CONFIGURE, "key": key, "value": set_to})


def _ask_leader(options: dict[str, Any]) -> Step:
    """Ask the leader once there is one: clients try nothing twice, and other nodes refuse."""
    return Step("op", targets="leader", until=Condition(established=True), options=options)

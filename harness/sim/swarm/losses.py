"""The swarm's draws of topics that may lose records (see `harness.sim.swarm.draw`).

They use a stream of their own, and topics that nothing else uses: of those of the workload nothing
may be lost. One has short segments, which go by time or by size; so its followers find that a
leader's log begins later than theirs end. Of another with two replicas one is left behind, and the
other, the only one in sync, is lost: with unclean.leader.election.enable the first one leads, and
what it lacks is gone. The other has to cut that, in some plans within a later, short segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from checkers.partition_logs.columns import UNCLEAN
from harness.plan.plan import Plan
from harness.plan.strands import Step, Strand
from harness.sim.swarm.topics import configure
from workloads.data import log
from workloads.data.log_client import FILL, MOVE

_RETENTION_SHARE: Final = 0.3
_UNCLEAN_SHARE: Final = 0.8
"""Of the plans with two replicas."""
_SEGMENTS_SHARE: Final = 0.22
"""Of those with such a topic."""
RETAINED: Final = "r0-0"
LED_UNCLEANLY: Final = "u0-0"


def with_losses(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether there are such topics."""
    random = Random(f"swarm/{plan.seed}/losses")
    has_retention, has_unclean = random.random() < _RETENTION_SHARE, random.random()
    if plan.workload != log.KIND.name:
        return plan
    strands, settings = list(plan.strands), dict(plan.node_settings)
    if has_retention:
        check_ms = round(unit_ms * random.choice((0.3, 1.0, 3.0)))
        settings["log.retention.check.interval.ms"] = max(1, check_ms)
        strands += _retention(random, plan, unit_ms)
    if has_unclean < _UNCLEAN_SHARE and plan.workload_options["replication_factor"] == 2:
        strands += _unclean(random, plan, unit_ms)
    return replace(plan, node_settings=settings, strands=tuple(strands))


def _retention(random: Random, plan: Plan, unit_ms: float) -> Iterator[Strand]:
    ways = (
        ("retention.bytes", random.choice((0, 300, 1_000))),
        ("retention.ms", max(1, round(unit_ms * random.choice((0.5, 2.0, 5.0))))),
    )
    configs = [
        ("segment.ms", max(1, round(unit_ms * random.choice((0.05, 0.5))))),
        ("segment.index.bytes", random.choice((12, 24, 10 << 20))),  # of segments made since
        *random.choice((ways, ways[:1], ways[1:])),
        ("file.delete.delay.ms", round(unit_ms * random.choice((0.0, 0.5, 2.0)))),
    ]
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        fill = _fill(RETAINED, random.randint(2, 6))
        steps = [fill, *(configure(RETAINED, name, value) for name, value in configs)]
        if random.random() < 0.3:
            node = f"node:n{random.randint(1, plan.nodes)}"
            away_ms = round(unit_ms * random.uniform(1.0, 4.0), 1)
            steps += [Step("pause", targets=node, for_ms=away_ms), fill]
        later_ms = round(unit_ms * random.uniform(0.2, 1.0), 1)
        yield Strand(round(at_ms, 1), (*steps, replace(fill, after_ms=later_ms)))
        at_ms += unit_ms * (2.0 + random.expovariate(0.3))


def _unclean(random: Random, plan: Plan, unit_ms: float) -> Iterator[Strand]:
    settings = plan.node_settings
    out_ms = max(settings["replica.lag.time.max.ms"], settings["broker.session.timeout.ms"])
    segments = _segments(plan, out_ms + unit_ms)
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        leader = random.randrange(plan.nodes)
        other, one = (f"node:n{(leader + n) % plan.nodes + 1}" for n in (0, 1))
        move = Step("op", options={"f": MOVE, "key": LED_UNCLEANLY, "value": leader})
        away = random.choice(("pause", "partition"))
        options = {"shape": "isolate"} if away == "partition" else {}
        fill = _fill(LED_UNCLEANLY, random.randint(1, 4))
        configured = (  # the first attempts come before the topic, or before clients find who leads
            configure(LED_UNCLEANLY, UNCLEAN, "true"),
            configure(LED_UNCLEANLY, "min.insync.replicas", "1"),
            *segments,
        )
        wait_ms = round(0.5 * unit_ms, 1)
        steps = (
            fill,
            *configured,
            replace(fill, after_ms=wait_ms),
            *configured,
            replace(fill, after_ms=wait_ms),
            *configured,
            move,
            replace(move, after_ms=round(unit_ms * random.uniform(0.5, 2.0), 1)),
            Step(away, after_ms=wait_ms, targets=one, options=options),
            replace(fill, after_ms=round(out_ms * random.uniform(1.5, 3.0), 1)),
            Step(
                "pause",
                targets=other,
                after_ms=round(unit_ms * random.uniform(0.0, 0.5), 1),
                for_ms=round(out_ms + unit_ms * random.uniform(2.0, 6.0), 1),
            ),
            Step("heal", targets=one, options={"fault": away}),
            replace(fill, after_ms=round(out_ms + unit_ms * random.uniform(0.0, 1.0), 1)),
        )
        yield Strand(round(at_ms, 1), steps)
        at_ms += 3 * out_ms + unit_ms * (3.0 + random.expovariate(0.3))


def _segments(plan: Plan, turn_ms: float) -> tuple[Step, ...]:
    """Draw whether segments are short, and have entries of indexes before and behind a cut."""
    random = Random(f"swarm/{plan.seed}/short")
    if random.random() >= _SEGMENTS_SHARE:
        return ()
    roll_ms = max(1, round(turn_ms * random.choice((0.5, 1.5, 3.0))))
    return (
        configure(LED_UNCLEANLY, "segment.ms", roll_ms),
        configure(LED_UNCLEANLY, "index.interval.bytes", "50"),
    )


def _fill(key: str, count: int) -> Step:
    return Step("op", options={"f": FILL, "key": key, "value": count})

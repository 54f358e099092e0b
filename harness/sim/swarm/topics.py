"""The swarm's draws of topics beside those of the workload `log` (see `harness.sim.swarm.draw`).

Nothing else uses them, and of those of the workload nothing may be lost.

A topic is deleted and made anew, while a broker is down that comes back with the old one's logs;
and what it holds is deleted. It gets another min.insync.replicas, also while its ISR is small: who
was eligible to lead by the one before is so no more (KIP-966). Where the ISR is empty then, nobody
is left who may lead: so it is no topic of the workload, which must be read in the end. The logs of
these get a segment now and then.

Other topics may lose records. One has short segments, which go by time or by size; so its followers
find that a leader's log begins later than theirs end. Of another with two replicas one is left
behind, and the other, the only one in sync, is lost: with unclean.leader.election.enable the first
one leads, and what it lacks is gone. The other has to cut that, in some plans within a later, short
segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from checkers.partition_logs.columns import CONFIGURE, RENEW, UNCLEAN
from harness.plan.plan import Plan
from harness.plan.strands import Step, Strand
from harness.sim.swarm.steps import ESTABLISHED, Draw, cut_off, do, heal, is_torn, strand, stream
from workloads.data import log
from workloads.data.log_client import DELETE, FILL, MOVE

_SHARE: Final = 0.25
_SYNCED_SHARE: Final = 0.3
_RETENTION_SHARE: Final = 0.3
_UNCLEAN_SHARE: Final = 0.8
"""Of the plans with two replicas."""
_SEGMENTS_SHARE: Final = 0.22
"""Of those with such a topic."""
RENEWED: Final = "e0-0"
"""A partition of the topic that is made anew."""
RETAINED: Final = "r0-0"
LED_UNCLEANLY: Final = "u0-0"


def with_topics(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether topics change, once the first ones are there."""
    draw = stream(plan, "topics", unit_ms)
    if plan.workload != log.KIND.name or not draw.chance(_SHARE):
        return plan
    return replace(plan, strands=(*plan.strands, *_changes(draw, plan)))


def _changes(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random = draw.unit_ms, draw.random
    session_ms = plan.node_settings["broker.session.timeout.ms"]
    is_lossy = is_torn(plan) or plan.world.power_loss != "written"
    at_ms = unit_ms * random.uniform(1.0, 4.0)
    while at_ms < plan.duration_ms - unit_ms:
        node = draw.node()
        away_ms = draw.span(0.5, 3.0, session_ms)
        away = do("pause" if is_lossy else "stop", node, for_ms=away_ms)
        wait_ms = draw.span(0.2, 1.0)
        shape = random.random()
        if shape < 0.15:
            # A read ends with its segment: with too many the whole log cannot be read in time.
            roll_ms = round(plan.duration_ms / random.choice((3, 10, 30)))
            key = f"d{random.randrange(plan.workload_options['topics'])}-0"
            steps = [configure(key, "segment.ms", max(1, roll_ms))]
        elif shape < 0.5:
            alone = 2 if is_lossy else 1  # what may be lost is not alone
            least = random.randint(alone, plan.workload_options["replication_factor"])
            steps = [configure(RENEWED, "min.insync.replicas", least)]
            if random.random() < 0.7:
                late_ms = round(session_ms + wait_ms, 1)
                steps = [away, replace(steps[0], after_ms=late_ms)]
        else:
            renew = _ask_leader({"f": RENEW, "key": RENEWED})
            wait = do("wait", after_ms=wait_ms)
            syncs = _syncs(plan, unit_ms, at_ms)
            steps = [renew, wait, *syncs, away, replace(renew, after_ms=wait_ms)]
            steps += _deletions(draw)
        yield strand(at_ms, *steps)
        at_ms += away_ms + unit_ms * (2.0 + random.expovariate(0.3))


def _syncs(plan: Plan, unit_ms: float, at_ms: float) -> list[Step]:
    """Draw whether the topic's log has a sync to come when it is deleted, or grows by syncs."""
    draw = stream(plan, f"sync-first/{at_ms}", unit_ms)
    ways = (("flush.ms", round(unit_ms * draw.random.uniform(1.0, 4.0))), ("flush.messages", 1))
    way = draw.random.choice(ways)
    if not draw.chance(_SYNCED_SHARE):
        return []
    known_ms = draw.span(0.1, 0.5)  # brokers know of the setting by then
    return [configure(RENEWED, *way), replace(_fill(RENEWED, 1), after_ms=known_ms)]


def _deletions(draw: Draw) -> Iterator[Step]:
    """Draw what is deleted of the new topic, which has one record or none."""
    for _ in range(draw.random.randint(0, 3)):
        wait_ms = draw.span(0.1, 1.0)
        offset = draw.random.choice((-2, -1, 0, 1, 1, 2))
        yield do("op", "", wait_ms, f=DELETE, key=RENEWED, value=offset)


def with_losses(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether there are topics that may lose records."""
    draw = stream(plan, "losses", unit_ms)
    has_retention, has_unclean = draw.chance(_RETENTION_SHARE), draw.chance(_UNCLEAN_SHARE)
    if plan.workload != log.KIND.name:
        return plan
    strands, settings = list(plan.strands), dict(plan.node_settings)
    if has_retention:
        settings["log.retention.check.interval.ms"] = draw.whole_ms(0.3, 1.0, 3.0)
        strands += _retention(draw, plan)
    if has_unclean and plan.workload_options["replication_factor"] == 2:
        strands += _unclean(draw, plan)
    return replace(plan, node_settings=settings, strands=tuple(strands))


def _retention(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random = draw.unit_ms, draw.random
    ways = (
        ("retention.bytes", random.choice((0, 300, 1_000))),
        ("retention.ms", draw.whole_ms(0.5, 2.0, 5.0)),
    )
    configs = [
        ("segment.ms", draw.whole_ms(0.05, 0.5)),
        ("segment.index.bytes", random.choice((12, 24, 10 << 20))),  # of segments made since
        *random.choice((ways, ways[:1], ways[1:])),
        ("file.delete.delay.ms", round(unit_ms * random.choice((0.0, 0.5, 2.0)))),
    ]
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        fill = _fill(RETAINED, random.randint(2, 6))
        steps = [fill, *(configure(RETAINED, name, value) for name, value in configs)]
        if random.random() < 0.3:
            steps += [do("pause", draw.node(), for_ms=draw.span(1.0, 4.0)), fill]
        yield strand(at_ms, *steps, replace(fill, after_ms=draw.span(0.2, 1.0)))
        at_ms += unit_ms * (2.0 + random.expovariate(0.3))


def _unclean(draw: Draw, plan: Plan) -> Iterator[Strand]:
    unit_ms, random, settings = draw.unit_ms, draw.random, plan.node_settings
    out_ms = max(settings["replica.lag.time.max.ms"], settings["broker.session.timeout.ms"])
    segments = _segments(plan, out_ms + unit_ms)
    at_ms = unit_ms * random.uniform(1.0, 3.0)
    while at_ms < plan.duration_ms - unit_ms:
        leader = random.randrange(plan.nodes)
        other, one = (f"node:n{(leader + n) % plan.nodes + 1}" for n in (0, 1))
        move = do("op", f=MOVE, key=LED_UNCLEANLY, value=leader)
        wait_ms = round(0.5 * unit_ms, 1)
        away = random.choice(("pause", "partition"))
        goes = cut_off(one, wait_ms) if away == "partition" else do(away, one, wait_ms)
        fill = _fill(LED_UNCLEANLY, random.randint(1, 4))
        configured = (  # the first attempts come before the topic, or before clients find who leads
            configure(LED_UNCLEANLY, UNCLEAN, "true"),
            configure(LED_UNCLEANLY, "min.insync.replicas", "1"),
            *segments,
        )
        steps = (
            fill,
            *configured,
            replace(fill, after_ms=wait_ms),
            *configured,
            replace(fill, after_ms=wait_ms),
            *configured,
            move,
            replace(move, after_ms=draw.span(0.5, 2.0)),
            goes,
            replace(fill, after_ms=round(out_ms * random.uniform(1.5, 3.0), 1)),
            do("pause", other, draw.span(0.0, 0.5), for_ms=draw.span(2.0, 6.0, out_ms)),
            heal(away, one),
            replace(fill, after_ms=draw.span(0.0, 1.0, out_ms)),
        )
        yield strand(at_ms, *steps)
        at_ms += 3 * out_ms + unit_ms * (3.0 + random.expovariate(0.3))


def _segments(plan: Plan, turn_ms: float) -> tuple[Step, ...]:
    """Draw whether segments are short, and have entries of indexes before and behind a cut."""
    draw = stream(plan, "short", turn_ms)
    if not draw.chance(_SEGMENTS_SHARE):
        return ()
    return (
        configure(LED_UNCLEANLY, "segment.ms", draw.whole_ms(0.5, 1.5, 3.0)),
        configure(LED_UNCLEANLY, "index.interval.bytes", "50"),
    )


def _fill(key: str, count: int) -> Step:
    return do("op", f=FILL, key=key, value=count)


def configure(key: str, name: str, value: object) -> Step:
    """Make the step that sets a configuration of a topic."""
    set_to = {"name": name, "value": str(value)}
    return _ask_leader({"f": CONFIGURE, "key": key, "value": set_to})


def _ask_leader(options: dict[str, Any]) -> Step:
    """Ask the leader once there is one: clients try nothing twice, and other nodes refuse."""
    return do("op", "leader", until=ESTABLISHED, **options)

"""The swarm's draws of leaders that are lost early, or late to know it (see `draw`).

Some clusters are as even as clusters never are: all processes start at one time, and each message
and each fsync takes as long as any other. So voters stand for election in lockstep until their
random time-outs part them. Others lose their first leaders, one after another, as each is about to
write what a cluster begins with.

Later a leader is cut off, another one comes sooner than it gives up, and acknowledges a write; then
the first one is asked for what was written. Its wall clock may go back meanwhile, and a minority
may follow it still. Only workload `register` promises that no such read is answered with what was
before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.steps import Draw, cast, cut_off, do, heal, strand, stream
from workloads import register

_EVEN_SHARE: Final = 0.06
_LEADERS_SHARE: Final = 0.06
_READS_SHARE: Final = 0.6
_KEY: Final = "k0"


def with_starts(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a cluster is even, or loses its first leaders."""
    draw = stream(plan, "starts", unit_ms)
    drawn = draw.random.random()
    if drawn < _EVEN_SHARE:
        return _even(plan)
    if drawn < _EVEN_SHARE + _LEADERS_SHARE and plan.nodes - plan.world.observers > 2:
        return _without_leaders(draw, plan)
    return plan


def _even(plan: Plan) -> Plan:
    world = plan.world
    return replace(
        plan,
        world=replace(
            world,
            latency_ms=(world.latency_ms[1], world.latency_ms[1]),
            sync_ms=(world.sync_ms[1], world.sync_ms[1]),
            start_ms=(world.start_ms[1], world.start_ms[1]),
            drift_ppm=0.0,
            slow_probability=0.0,
            slow_sync_probability=0.0,
            loss=0.0,
            duplication=0.0,
        ),
    )


def _without_leaders(draw: Draw, plan: Plan) -> Plan:
    """Cut each new leader off as it claims to be the controller, and heal the one before."""
    claim = Condition(event="claim")
    voters = plan.nodes - plan.world.observers
    steps: list[Step] = []
    for number in range(voters + draw.random.randint(0, 2)):
        names = {f"A{number}": "leader"}
        steps.append(do("cast", until=claim, within_ms=8 * draw.unit_ms, names=names))
        steps.append(cut_off(f"@A{number}"))
        if number:
            steps.append(heal("partition", f"@A{number - 1}"))
    steps.append(heal("partition"))
    world = replace(plan.world, waits_for_leader=False)
    return replace(plan, world=world, strands=(Strand(0.0, tuple(steps)), *plan.strands))


def with_stale_reads(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether deposed leaders are asked."""
    draw = stream(plan, "stale-reads", unit_ms)
    random = draw.random
    if plan.workload != register.KIND.name or random.random() >= _READS_SHARE:
        return plan
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - 3 * unit_ms:
        has_minority = plan.nodes - plan.world.observers > 3 and random.random() < 0.5
        cut = "@A,@C" if has_minority else "@A"
        strands.append(strand(at_ms, *_read_late(draw, f"late-{len(strands)}", cut)))
        at_ms += unit_ms * (8.0 + random.expovariate(0.2))
    return replace(plan, strands=tuple(strands))


def _read_late(draw: Draw, name: str, cut: str) -> list[Step]:
    unit_ms = draw.unit_ms
    steps = [cast(unit_ms, A="leader", B="follower", C="follower")]
    if draw.chance(0.5):
        back_ms = round(unit_ms * draw.random.uniform(1.0, 5.0))
        steps.append(do("clock-jump", "@A", jump_ms=-back_ms))
    rate = round(draw.random.uniform(3.0, 12.0), 1)
    later = Condition(established=True, epoch="later")
    read = do("op", "@A", f="read", key=_KEY)
    return [
        *steps,
        do("timer-rate", "@B", for_ms=round(unit_ms, 1), rate=rate),
        cut_off(cut),
        do("cast", until=later, within_ms=4 * unit_ms, names={"D": "leader"}),
        do("op", "@D", f="write", key=_KEY, value=name, id=name),
        do("wait", until=Condition(ok=name), within_ms=unit_ms),
        read,
        do("op", "@A"),  # who follows it fetches again, and hears what it appends
        replace(read, after_ms=draw.span(0.0, 0.2)),
        do("heal", after_ms=draw.span(0.5, 2.0)),
    ]

"""The swarm's draws of how a cluster begins (see `harness.sim.swarm.draw`).

They use a stream of their own. Some clusters are as even as clusters never are: all processes start
at one time, and each message and each fsync takes as long as any other. So voters stand for
election in lockstep until their random time-outs part them. Others lose their first leaders, one
after another, as each is about to write what a cluster begins with.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand

_EVEN_SHARE: Final = 0.06
_LEADERS_SHARE: Final = 0.06


def with_starts(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether a cluster is even, or loses its first leaders."""
    random = Random(f"swarm/{plan.seed}/starts")
    drawn = random.random()
    if drawn < _EVEN_SHARE:
        return _even(plan)
    if drawn < _EVEN_SHARE + _LEADERS_SHARE and plan.nodes - plan.world.observers > 2:
        return _without_leaders(random, plan, unit_ms)
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


def _without_leaders(random: Random, plan: Plan, unit_ms: float) -> Plan:
    """Cut each new leader off as it claims to be the controller, and heal the one before."""
    claim = Condition(event="claim")
    voters = plan.nodes - plan.world.observers
    steps: list[Step] = []
    for number in range(voters + random.randint(0, 2)):
        cast = {f"A{number}": "leader"}
        steps += [
            Step("cast", until=claim, within_ms=8 * unit_ms, options={"names": cast}),
            Step("partition", targets=f"@A{number}", options={"shape": "isolate"}),
        ]
        if number:
            steps.append(Step("heal", targets=f"@A{number - 1}", options={"fault": "partition"}))
    steps.append(Step("heal", options={"fault": "partition"}))
    world = replace(plan.world, waits_for_leader=False)
    return replace(plan, world=world, strands=(Strand(0.0, tuple(steps)), *plan.strands))

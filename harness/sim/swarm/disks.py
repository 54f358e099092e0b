"""The swarm's draws of damaged metadata logs (see `harness.sim.swarm.draw`).

They use a stream of their own. One node at a time finds a flipped bit, or the end missing, of what
was durable in its log. A correct node refuses to start on it, and the heal brings its files back.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Step, Strand

_SHARE: Final = 0.25
_KINDS: Final = ("bit-flip", "truncate-file")
_TARGETS: Final = ("leader", "follower", "random")


def with_damage(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether metadata logs are damaged, once they have grown."""
    random = Random(f"swarm/{plan.seed}/disks")
    if random.random() >= _SHARE:
        return plan
    strands = list(plan.strands)
    at_ms = plan.duration_ms * random.uniform(0.3, 0.6)
    while at_ms < plan.duration_ms - unit_ms:
        down_ms = round(unit_ms * random.uniform(0.5, 2.0), 1)
        step = Step(
            random.choice(_KINDS),
            targets=random.choice(_TARGETS),
            for_ms=down_ms,
            options={"file": "log"},
        )
        strands.append(Strand(round(at_ms, 1), (step,)))
        at_ms += down_ms + unit_ms * random.uniform(2.0, 8.0)
    return replace(plan, strands=tuple(strands))

"""The swarm's second tries of faults that a plan has too seldom (see `harness.sim.swarm.draw`).

A fault that is drawn once may meet no leader, a node that is dead
already, or a condition that does not come; a plan says nothing of a fault that never acted. So a
kind that is drawn once or twice has another try: by itself, and once there is a leader.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.strands import Step
from harness.sim.swarm.steps import ESTABLISHED, Draw, do, strand, stream

_TARGETS: Final = ("leader", "follower", "random")
_INSTANT: Final = frozenset({"finalize", "log-dir-move", "resign", "snapshot", "voters"})
"""Faults that leave nothing to heal."""
_FEW: Final = 2
_TORN_ONCE: Final = "partition"
"""See `harness.sim.swarm.logs`."""


def with_second_tries(plan: Plan, unit_ms: float) -> Plan:
    """Add a try of each kind of fault that a plan has once or twice."""
    draw = stream(plan, "second-tries", unit_ms)
    steps: dict[str, list[Step]] = {}
    for each in plan.strands:
        for step in each.steps:
            if is_fault(step.kind):
                steps.setdefault(step.kind, []).append(step)
    added = (
        strand(plan.duration_ms * draw.random.uniform(0.3, 0.9), _again(draw, plan, found[0]))
        for found in steps.values()
        if len(found) <= _FEW and found[0].options.get("file") != _TORN_ONCE
    )
    return replace(plan, strands=(*plan.strands, *added))


def _again(draw: Draw, plan: Plan, step: Step) -> Step:
    """Free a step of what it waited for, and of the names of its strand."""
    for_ms, options, is_of_names = step.for_ms, dict(step.options), "@" in step.targets
    if for_ms is None and step.kind not in _INSTANT:
        for_ms = draw.span(0.3, 1.5)
    if "@" in str(options.get("links", "")):
        del options["links"]
        if step.kind == "partition":
            options, is_of_names = {"shape": "isolate"}, True
    targets = draw.random.choice(_TARGETS) if is_of_names else step.targets
    within_ms = plan.duration_ms
    return do(step.kind, targets, for_ms=for_ms, until=ESTABLISHED, within_ms=within_ms, **options)

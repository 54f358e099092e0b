"""The swarm's second tries of faults that a plan has too seldom (see `harness.sim.swarm.draw`).

They use a stream of their own. A fault that is drawn once may meet no leader, a node that is dead
already, or a condition that does not come; a plan says nothing of a fault that never acted. So a
kind that is drawn once or twice has another try: by itself, and once there is a leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from harness.plan.plan import Plan
from harness.plan.step_verbs import is_fault
from harness.plan.strands import Condition, Step, Strand

_TARGETS: Final = ("leader", "follower", "random")
_INSTANT: Final = frozenset({"finalize", "log-dir-move", "resign", "snapshot", "voters"})
"""Faults that leave nothing to heal."""
_FEW: Final = 2
_TORN_ONCE: Final = "partition"
"""See `harness.sim.swarm.logs`."""


def with_second_tries(plan: Plan, unit_ms: float) -> Plan:
    """Add a try of each kind of fault that a plan has once or twice."""
    random = Random(f"swarm/{plan.seed}/second-tries")
    steps: dict[str, list[Step]] = {}
    for strand in plan.strands:
        for step in strand.steps:
            if is_fault(step.kind):
                steps.setdefault(step.kind, []).append(step)
    added = (
        Strand(
            round(plan.duration_ms * random.uniform(0.3, 0.9), 1),
            (_again(random, plan, unit_ms, found[0]),),
        )
        for found in steps.values()
        if len(found) <= _FEW and found[0].options.get("file") != _TORN_ONCE
    )
    return replace(plan, strands=(*plan.strands, *added))


def _again(random: Random, plan: Plan, unit_ms: float, step: Step) -> Step:
    """Free a step of what it waited for, and of the names of its strand."""
    for_ms = step.for_ms
    if for_ms is None and step.kind not in _INSTANT:
        for_ms = round(unit_ms * random.uniform(0.3, 1.5), 1)
    options: Mapping[str, Any] = step.options
    is_of_names = "@" in step.targets
    if "@" in str(options.get("links", "")):
        options = {key: value for key, value in options.items() if key != "links"}
        if step.kind == "partition":
            options, is_of_names = {"shape": "isolate"}, True
    targets = random.choice(_TARGETS) if is_of_names else step.targets
    return Step(
        step.kind,
        targets=targets,
        for_ms=for_ms,
        until=Condition(established=True),
        within_ms=plan.duration_ms,
        options=options,
    )

"""Draws from a stream of their own, and the steps and strands that they make.

The streams have names, so that what is drawn from one does not depend on the other draws of a seed.
Times are in *units*: one unit is about the time that a quorum needs to detect the loss of its
leader and to elect the next, with the plan's time-outs.
"""

from __future__ import annotations

from random import Random
from typing import Any

from cluster.values import valueclass
from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand

ESTABLISHED = Condition(established=True)


@valueclass
class Draw:
    """The draws of one stream."""

    random: Random
    unit_ms: float
    nodes: int

    def span(self, low: float, high: float, beside_ms: float = 0.0) -> float:
        """Draw a time between so many units, in ms, and add what is given beside them."""
        return round(beside_ms + self.unit_ms * self.random.uniform(low, high), 1)

    def whole_ms(self, *units: float) -> int:
        """Draw one of these times, as a setting has it."""
        return max(1, round(self.unit_ms * self.random.choice(units)))

    def chance(self, probability: float) -> bool:
        """Draw whether an event of this probability occurs."""
        return self.random.random() < probability

    def keep(self, *words: str) -> dict[str, Any]:
        """Draw what a kill keeps of these, as its parameters."""
        return kill_parameters(self.random.choice(words))

    def node(self) -> str:
        """Draw a node, as targets."""
        return f"node:n{self.random.randint(1, self.nodes)}"


def stream(plan: Plan, name: str, unit_ms: float) -> Draw:
    """Make the stream of this name for a plan."""
    return Draw(Random(f"swarm/{plan.seed}/{name}"), unit_ms, plan.nodes)


def kill_parameters(keep: str) -> dict[str, Any]:
    """Return the parameters of a kill; `any` is the world's default of a power loss."""
    return {} if keep == "any" else {"keep": keep}


def strand(at_ms: float, *steps: Step) -> Strand:
    """Make a strand, its time to a tenth of a millisecond."""
    return Strand(round(at_ms, 1), steps)


def do(
    kind: str,
    targets: str = "",
    after_ms: float = 0.0,
    *,
    for_ms: float | None = None,
    until: Condition | None = None,
    within_ms: float = 10_000.0,
    strict: bool = False,
    **options: Any,
) -> Step:
    """Make a step; `options` are those of its verb, or the parameters of its fault."""
    return Step(kind, after_ms, targets, for_ms, until, within_ms, strict, options)


def cut_off(targets: str, after_ms: float = 0.0, **options: Any) -> Step:
    """Cut nodes off from all others."""
    return do("partition", targets, after_ms, shape="isolate", **options)


def heal(fault: str, targets: str = "", after_ms: float = 0.0) -> Step:
    """Heal faults of these kinds."""
    return do("heal", targets, after_ms, fault=fault)


def cast(unit_ms: float, **names: str) -> Step:
    """Name nodes once there is a leader."""
    return do("cast", until=ESTABLISHED, within_ms=4 * unit_ms, names=names)


def has(plan: Plan, *kinds: str) -> bool:
    """Whether any strand has a step of one of these kinds."""
    return any(step.kind in kinds for strand in plan.strands for step in strand.steps)


def is_torn(plan: Plan) -> bool:
    """Whether any strand damages the log of a partition."""
    return any(s.options.get("file") == "partition" for each in plan.strands for s in each.steps)

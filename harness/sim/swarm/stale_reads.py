"""The swarm's draws of reads at a leader that is deposed and lacks the news (see `draw`).

They use a stream of their own. A leader is cut off, another one comes sooner than it gives up, and
acknowledges a write; then the first one is asked for what was written. Its wall clock may go back
meanwhile, and a minority may follow it still. Only workload `register` promises that no such read
is answered with what was before.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from harness.plan.plan import Plan
from harness.plan.strands import Condition, Step, Strand
from harness.sim.swarm.voters import cast
from workloads import register

_SHARE: Final = 0.6
_KEY: Final = "k0"


def with_stale_reads(plan: Plan, unit_ms: float) -> Plan:
    """Draw whether deposed leaders are asked."""
    random = Random(f"swarm/{plan.seed}/stale-reads")
    if plan.workload != register.KIND.name or random.random() >= _SHARE:
        return plan
    strands = list(plan.strands)
    at_ms = unit_ms * random.uniform(2.0, 6.0)
    while at_ms < plan.duration_ms - 3 * unit_ms:
        has_minority = plan.nodes - plan.world.observers > 3 and random.random() < 0.5
        cut = "@A,@C" if has_minority else "@A"
        steps = _steps(random, unit_ms, f"late-{len(strands)}", cut)
        strands.append(Strand(round(at_ms, 1), tuple(steps)))
        at_ms += unit_ms * (8.0 + random.expovariate(0.2))
    return replace(plan, strands=tuple(strands))


def _steps(random: Random, unit_ms: float, name: str, cut: str) -> list[Step]:
    steps = [cast(unit_ms, A="leader", B="follower", C="follower")]
    if random.random() < 0.5:
        back_ms = round(unit_ms * random.uniform(1.0, 5.0))
        steps.append(Step("clock-jump", targets="@A", options={"jump_ms": -back_ms}))
    rate = round(random.uniform(3.0, 12.0), 1)
    later = Condition(established=True, epoch="later")
    write = {"f": "write", "key": _KEY, "value": name, "id": name}
    read = Step("op", targets="@A", options={"f": "read", "key": _KEY})
    return [
        *steps,
        Step("timer-rate", targets="@B", for_ms=round(unit_ms, 1), options={"rate": rate}),
        Step("partition", targets=cut, options={"shape": "isolate"}),
        Step("cast", until=later, within_ms=4 * unit_ms, options={"names": {"D": "leader"}}),
        Step("op", targets="@D", options=write),
        Step("wait", until=Condition(ok=name), within_ms=unit_ms),
        read,
        Step("op", targets="@A"),  # who follows it fetches again, and hears what it appends
        replace(read, after_ms=round(unit_ms * random.uniform(0.0, 0.2), 1)),
        Step("heal", after_ms=round(unit_ms * random.uniform(0.5, 2.0), 1)),
    ]

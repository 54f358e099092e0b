"""Searches the simulated world for the violation of a failed run on real nodes.

A run that failed on containers cannot be stepped through: its nodes are gone, and the same faults
at the same times need not violate the property again. Its plan is converted to a simulated world:
the same nodes, settings, clients and mutant, and the faults of its journal. Variations of that plan
are run until one violates a property that the run violated:

| varied | how |
|---|---|
| draws of the world | another seed each time |
| times of the faults | as in the run, then jittered, more with each round |
| nodes that they hit | by the role that the target had in the run, or the same nodes |
| writes that survive a kill | all, as of SIGKILL |

The result is an ordinary failing plan, which can be shrunk and described as a story. A search
without a result proves nothing: it reports how many worlds it tried and which other properties they
violated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from checkers.history import Event, EventType
from checkers.history.recorded import statements
from checkers.runs.faults import phases
from checkers.verdict import Status
from cluster.backends.registry import SIM
from cluster.names import unknown
from cluster.values import valueclass
from harness.errors import UsageError
from harness.plan.plan import Plan
from harness.plan.schedule import LEAD_OUT_S
from harness.plan.strands import Step, Strand, step_name
from harness.sim.runner import run
from results.store.model import RunResults

_NS_PER_MS = 1e6
_NOT_SIMULATED = frozenset({"limit"})
_JITTER_MS = 250.0
"""Range of the jitter in the first round with one; it grows with each round."""
_ROUND = 6
"""Tries in a round: three aims, with and without jitter."""


@valueclass
class Acted:
    """A fault of the run, from its journal."""

    fault: str
    parameters: Mapping[str, Any]
    targets: tuple[str, ...]
    role: str
    """Target word of the targets' role: `leader`, `follower`, `followers`; empty: none of them."""
    at_ms: float
    """After the fault phase began."""
    for_ms: float | None


@valueclass
class RedRun:
    """A failed run: its plan, violated properties and faults."""

    plan: Plan
    wanted: frozenset[str]
    """Properties that it violated."""
    acted: tuple[Acted, ...]
    left_out: tuple[str, ...]
    """Faults that the simulated world does not have."""


@dataclass(slots=True)
class Search:
    """Progress and result of a search."""

    tried: int = 0
    others: Counter[str] = field(default_factory=Counter)
    """Other violated property -> number of worlds."""
    found: Plan | None = None
    property: str = ""


def red_run(plan: Plan, results: RunResults, events: Sequence[Event]) -> RedRun:
    """Make the failed run of a plan, results and journal.

    Raises UsageError if nothing failed, or no simulated node is of the plan's system.
    """
    if not plan.kind.simulated:
        raise UsageError(f"system {plan.system} has no nodes in the simulated world (backend sim)")
    failed = [check for check in results.checks if check.status is Status.FAIL]
    if not failed:
        raise UsageError(f"{results.run}: {results.status} violates nothing; nothing to reproduce")
    wanted = {check.checker for check in failed}
    for check in failed:
        wanted |= {str(row.get("property") or row.get("kind")) for row in check.anomalies}
    acted = list(_acts(plan, events))
    left_out = sorted({act.fault for act in acted} & _NOT_SIMULATED)
    kept = tuple(act for act in acted if act.fault not in _NOT_SIMULATED)
    return RedRun(plan, frozenset(wanted), kept, tuple(left_out))


def only(red: RedRun, wanted: str) -> RedRun:
    """Restrict the search to one violated property. Raises UsageError for any other."""
    if wanted not in red.wanted:
        raise UsageError(unknown("violated property", wanted, red.wanted))
    return replace(red, wanted=frozenset({wanted}))


def search(
    red: RedRun, goes_on: Callable[[], bool], report: Callable[[Search], None] = lambda _: None
) -> Search:
    """Try plans until one violates a wanted property, or `goes_on` returns False."""
    state = Search()
    for candidate in neighbours(red):
        if not goes_on():
            break
        state.tried += 1
        violated = run(candidate, red.wanted)[1].property
        if violated is not None and violated in red.wanted:
            state.found, state.property = candidate, violated
            break
        if violated is not None:
            state.others[violated] += 1
        report(state)
    return state


def neighbours(red: RedRun) -> Iterator[Plan]:
    """Yield simulated plans near a run, the nearest first, without end.

    A run of the simulated world is a function of its plan, which is nearest of all.
    """
    number = 0
    if red.plan.backend == SIM.name:
        yield red.plan
        number = 1
    while True:
        random = Random(f"{red.plan.seed}/reproduce/{number}")
        in_round, rounds = number % _ROUND, number // _ROUND
        jitter_ms = 0.0 if in_round < _ROUND // 2 and rounds == 0 else _JITTER_MS * (rounds + 1)
        by_role = in_round % 3 != 2
        strands = tuple(_strand(act, random, jitter_ms, by_role=by_role) for act in red.acted)
        yield convert_to_sim(red.plan, red.plan.seed + number, strands)
        number += 1


def convert_to_sim(plan: Plan, seed: int, strands: tuple[Strand, ...]) -> Plan:
    """Convert a plan to the simulated world, with these faults; some came after its schedule."""
    plain = Plan()
    last_ms = max((strand.at_ms for strand in strands), default=0.0)
    return replace(
        plan,
        backend="sim",
        inventory=None,
        security=plain.security,
        seed=seed,
        schedule=(),
        strands=strands,
        duration_s=max(plan.duration_s, last_ms / 1000.0 + LEAD_OUT_S),
        skipped=(),
        faults=(),
        expectations={},
    )


def _strand(act: Acted, random: Random, jitter_ms: float, *, by_role: bool) -> Strand:
    parameters = {key: value for key, value in act.parameters.items() if key != "targets"}
    if act.fault == "kill":
        parameters["keep"] = "everything"
    targets = ""
    if "targets" in act.parameters:
        nodes = ",".join(f"node:{node}" for node in act.targets)
        targets = act.role if by_role and act.role else nodes
    at_ms = max(0.0, act.at_ms + random.uniform(-jitter_ms, jitter_ms))
    for_ms = act.for_ms
    if for_ms is not None and jitter_ms:
        for_ms = round(for_ms * random.uniform(0.7, 1.3), 1)
    return Strand(
        round(at_ms, 1), (Step(act.fault, targets=targets, for_ms=for_ms, options=parameters),)
    )


def _acts(plan: Plan, events: Sequence[Event]) -> Iterator[Acted]:
    """Yield every verified fault, in order."""
    began_ms = next((at / _NS_PER_MS for name, at in phases(events) if name == "faults"), 0.0)
    invoked: dict[tuple[str, int | str], Event] = {}
    healed = _heals(events)
    leader = ""
    for event in statements(events):
        value = event.value
        if event.f == "leader":
            leader = str(value.get("leader"))
        entry = value.get("entry")
        if value.get("phase") != "inject" or not isinstance(entry, int | str):
            continue
        if event.type is EventType.INVOKE:
            invoked[event.f, entry] = event
        elif value.get("verified") is True:
            begun = invoked.get((event.f, entry), event)
            at_ms = begun.time_ns / _NS_PER_MS
            targets = tuple(map(str, value.get("targets", ())))
            ends_ms = (end_ms for end_ms in healed.get((event.f, entry), ()) if end_ms > at_ms)
            yield Acted(
                event.f,
                _parameters(plan, begun, entry),
                targets,
                _role(targets, leader, plan.node_names),
                round(at_ms - began_ms, 1),
                next((round(end_ms - at_ms, 1) for end_ms in ends_ms), None),
            )


def _parameters(plan: Plan, begun: Event, entry: int | str) -> Mapping[str, Any]:
    if isinstance(begun.value, dict) and isinstance(begun.value.get("parameters"), dict):
        given: Mapping[str, Any] = begun.value["parameters"]
        return given
    if isinstance(entry, int):
        return plan.schedule[entry].parameters if entry < len(plan.schedule) else {}
    steps = (
        step.parameters
        for number, strand in enumerate(plan.strands)
        for position, step in enumerate(strand.steps)
        if step_name(number, position) == entry
    )
    return next(steps, {})


def _role(targets: tuple[str, ...], leader: str, nodes: tuple[str, ...]) -> str:
    if targets == (leader,):
        return "leader"
    if len(targets) == 1:
        return "follower"
    return "followers" if set(targets) == set(nodes) - {leader} else ""


def _heals(events: Sequence[Event]) -> dict[tuple[str, int | str], list[float]]:
    """Return (fault, entry) -> times at which its heals ended, in ms of the run."""
    found: dict[tuple[str, int | str], list[float]] = {}
    for event in statements(events):
        value = event.value
        done = value.get("phase") == "heal" and event.type is not EventType.INVOKE
        if done and isinstance(value.get("entry"), int | str):
            found.setdefault((event.f, value["entry"]), []).append(event.time_ns / _NS_PER_MS)
    return found

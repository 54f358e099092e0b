"""Strands: scripted steps of a schedule, and the conditions that they wait for.

    [[schedule]]
    at_ms = 2000
    steps = [
      { kind = "cast", names = { A = "leader" }, until = { established = true } },
      { kind = "partition", targets = "@A", shape = "isolate", for_ms = 900 },
      { kind = "op", f = "write", key = "k0", value = "x", targets = "@A", id = "x" },
    ]

A *strand* is a list of consecutive steps; strands run concurrently, each from `at_ms` after the
beginning of the fault phase. A step waits `after_ms`, then for its condition `until` (at most
`within_ms`), and then acts; a fault with `for_ms` is healed after that time, while the next step
goes on. A step of kind `cast` gives names to nodes (`{"A": "leader"}`), which later steps of the
strand use as `@A`.

Every run is judged by the invariants; a step of kind `expect` adds a condition that must hold at
its point of the script.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from cluster.names import unknown
from cluster.schemas import Flag, Place, Schema, Text, where_of
from cluster.values import valueclass
from harness.errors import PlanError
from harness.plan.field_types import Json
from harness.plan.step_verbs import TARGETS, VERBS, is_fault, options_of, takes_for, takes_targets
from nemeses.base import ParameterError
from nemeses.links.grudges import ends_of
from nemeses.registry import FAULTS, check_fault

STEPS_MAX = 10_000
Ms = Annotated[float, Field(strict=True, ge=0, le=86_400_000)]


@valueclass
class ScriptedOp:
    """One operation of a client, at a time, asked of a given node or of the supposed leader."""

    f: Text
    at_ms: Ms = 0.0
    worker: Annotated[int, Field(strict=True, ge=0, le=999)] = 0
    key: Text | None = None
    value: Json = None
    node: Text | None = None


def _only_true(flag: object) -> object:
    if flag is False:  # it would ask for nothing, and not for the opposite
        raise ValueError("must be true, or left out")
    return flag


_True = Annotated[Flag, AfterValidator(_only_true)]
State = Literal[
    "Unattached",
    "Prospective",
    "Candidate",
    "Voted",
    "Leader",
    "Follower",
    "Resigned",
    "Starting",
    "Dead",
]


@valueclass
class Condition:
    """What a step waits for or expects. All given fields must hold at the same node of `at`."""

    at: Text = "all"
    """Nodes to evaluate it on: a word for some nodes, such as `followers`, means any of them."""
    event: Annotated[Text, Field(min_length=1)] | None = None
    """The next trace event of this name (docs/evidence.md) ..."""
    where: Mapping[str, Json] = field(default_factory=dict)
    """... with these fields; a string that begins with @ is the id of the node of that name."""
    state: State | None = None
    """The node's epoch state."""
    not_state: State | None = None
    epoch: Literal["same", "later"] | None = None
    """`same`: at most the highest epoch when the names were cast; `later`: above it."""
    established: _True = False
    """The node leads and has committed its epoch's start."""
    synced: _True = False
    """The node's whole log is durable."""
    ok: Text | None = None
    """The operation of this id ended ok."""
    ended: Text | None = None
    """The operation of this id ended."""


def _says_something(condition: Condition) -> Condition:
    if condition.where and condition.event is None:
        raise ValueError("where needs an event, of which it names fields")
    if condition.at != "leader" and not differences(condition).keys() - {"at"}:
        raise ValueError("must say something of nodes or of an operation")
    return condition


_Condition = Annotated[Condition, AfterValidator(_says_something)]
CONDITION: Schema[Condition] = Schema(_Condition, PlanError)


@valueclass
class Step:
    """A step of a strand: a fault or a verb (`harness.plan.step_verbs`)."""

    kind: Text
    after_ms: Ms = 0.0
    targets: Text = ""
    for_ms: Ms | None = None
    """A fault's length; None: until a `heal`, at the latest the end of the fault phase."""
    until: _Condition | None = None
    within_ms: Ms = 10_000.0
    """How long to wait for `until`; then the step acts without it, unless `strict`."""
    strict: Flag = False
    """If its condition does not come, the strand ends here."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a verb, or the parameters of a fault beside `targets`."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a fault."""
        return {**({"targets": self.targets} if self.targets else {}), **self.options}


def _gather(row: object) -> object:
    """Check the options of a verb, which stand beside the step's fields, and gather them.

    They are kept as given; a missing option has the default of the version that runs the plan. A
    fault's parameters are checked once the nodes are known (`check_strand`).
    """
    if not isinstance(row, dict):
        return row
    kind = row.get("kind")
    if not isinstance(kind, str) or not (kind in VERBS or is_fault(kind)):
        raise ValueError(unknown("kind", str(kind)[:80], (*VERBS, *FAULTS)))
    own = {key: value for key, value in row.items() if key in _STEP_FIELDS}
    if own.get("for_ms") is not None and not takes_for(kind):
        raise ValueError(f"a {kind} takes no for_ms")
    if own.get("targets") and not takes_targets(kind):
        raise ValueError(f"targets would mean nothing to {kind}: leave them out")
    options = {key: value for key, value in row.items() if key not in own}
    if kind in VERBS:
        for key in options:
            if key not in VERBS[kind]:
                raise ValueError(unknown("key", str(key)[:80], (*_STEP_FIELDS, *VERBS[kind])))
        options_of(kind).read(options)
    if kind == "expect":
        CONDITION.read(options["that"], place=("that",))
    return {**own, "options": options}


_STEP_FIELDS = frozenset(item.name for item in fields(Step)) - {"options"}


@valueclass
class Strand:
    """Steps one after the other, the first `at_ms` after the fault phase began."""

    at_ms: Ms = 0.0
    steps: tuple[Annotated[Step, BeforeValidator(_gather)], ...] = ()


def step_name(strand: int, step: int) -> str:
    """Name a step by its numbers from 0, unlike an entry of a schedule, which has a number."""
    return f"strand {strand + 1}, step {step + 1}"


SILENT = frozenset({"cast", "wait", "expect"})
"""Verbs that neither act on the cluster nor send it a request."""


def strand_to_json(strand: Strand) -> dict[str, Any]:
    """Render a strand as a plan holds it."""
    return {"at_ms": strand.at_ms, "steps": [step_to_json(step) for step in strand.steps]}


def step_to_json(step: Step) -> dict[str, Any]:
    """Render one step; its options stand beside its fields."""
    found = differences(step)
    found.pop("options", None)
    if step.until is not None:
        found["until"] = differences(step.until)
    return {"kind": step.kind, **found, **step.options}


def differences(value: Any) -> dict[str, Any]:
    """Render the fields of a dataclass that differ from their defaults."""
    found: dict[str, Any] = {}
    for item in fields(value):
        current = getattr(value, item.name)
        default = item.default_factory() if callable(item.default_factory) else item.default
        if current != default:
            found[item.name] = list(current) if isinstance(current, tuple) else current
    return found


def without_faults(strand: Strand, kinds: Collection[str]) -> Strand:
    """Drop faults of a strand; the steps after a dropped fault keep their times."""
    kept: list[Step] = []
    owed_ms = 0.0
    for step in strand.steps:
        if step.kind in kinds:
            owed_ms += step.after_ms
        else:
            kept.append(replace(step, after_ms=step.after_ms + owed_ms))
            owed_ms = 0.0
    return Strand(strand.at_ms, tuple(kept))


def check_strand(
    strand: Strand,
    nodes: tuple[str, ...],
    traced: Collection[str] | None,
    ids: Collection[str],
    place: Place,
) -> None:
    """Refuse unknown names, and events that are never `traced`. Raises PlanError with one line.

    `ids`: of the operations of all strands.
    """
    if len(strand.steps) > STEPS_MAX:
        raise PlanError(f"{where_of(place)}: steps must be at most {STEPS_MAX}")
    names: tuple[str, ...] = ()
    for number, step in enumerate(strand.steps):
        try:
            _check(step, names, nodes, ids)
            if traced is not None:
                _check_traced(step, traced)
        except (ParameterError, ValueError) as error:
            raise PlanError(f"{where_of((*place, 'steps', number))}: {error}") from error
        names += tuple(f"@{name}" for name in step.options.get("names", ()))


def _check(step: Step, names: Sequence[str], nodes: tuple[str, ...], ids: Collection[str]) -> None:
    """Refuse unknown target words, and parameters that a fault does not take."""
    known = {*TARGETS, *names, *(f"node:{node}" for node in nodes)}
    for word in _words(step):
        if word not in known:
            raise PlanError(unknown("target", word, known))
    for condition in _conditions(step):
        if condition.at in _DRAWN:
            raise PlanError(f"at: {condition.at} nodes are drawn, and those of a condition are not")
        for name in (condition.ok, condition.ended):
            if name is not None and name not in ids:
                raise PlanError(unknown("id", name, ids))
    if is_fault(step.kind):
        # The nodes of cast names are not known yet; any node serves to check the other parameters.
        parameters = step.parameters
        if step.targets.startswith("@"):
            parameters["targets"] = f"node:{nodes[0]}"
        if step.options.get("links"):
            parameters["links"] = f"{nodes[0]}>{nodes[-1]}"
        check_fault(step.kind, parameters, nodes)


_DRAWN = frozenset({"random", "minority", "majority"})


def _check_traced(step: Step, traced: Collection[str]) -> None:
    """Refuse what a step waits for or expects where it can never be seen."""
    wanted: set[str] = set()
    for condition in _conditions(step):
        wanted |= {"append", "flush"} if condition.synced else set()
        wanted |= {"state"} if _asks_for_state(condition) else set()
        wanted |= {condition.event} if condition.event is not None else set()
    if step.kind == "cast" and _LED.intersection(step.options["names"].values()):
        wanted.add("state")
    events = sorted(name for name in traced if "." not in name)  # a dot: what an event tells
    if missing := sorted(wanted.difference(events)):
        known = f"it traces {', '.join(events) or 'nothing'}"
        raise ParameterError(f"the system does not trace {missing[0]}; {known}")


_LED = frozenset({"leader", "follower", "followers"})


def _asks_for_state(condition: Condition) -> bool:
    """Whether it looks at a node's state or epoch, or for the node that leads."""
    return (
        condition.established
        or condition.at in _LED
        or bool(condition.state or condition.not_state or condition.epoch)
    )


def _conditions(step: Step) -> list[Condition]:
    """Return what a step waits for or expects."""
    that = [CONDITION.read(step.options["that"])] if step.kind == "expect" else []
    return that if step.until is None else [step.until, *that]


def _words(step: Step) -> Iterator[str]:
    """Yield every target word of a step."""
    if step.targets:
        yield from step.targets.split(",")
    yield from (end for ends in ends_of(str(step.options.get("links", ""))) for end in ends[:2])
    if step.kind == "cast":
        yield from step.options["names"].values()
    for condition in _conditions(step):
        yield condition.at
        yield from (word for word in condition.where.values() if str(word).startswith("@"))

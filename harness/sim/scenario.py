"""A scenario: everything that decides a simulated run, as data.

Running a scenario is a function: the same scenario gives the same run, event by event, on every
machine. Nothing is drawn when it runs except *micro-randomness* (latencies, time-outs, what of an
unsynced write survives a power loss), which comes from streams that are named by the scenario's
seed and by purpose, so that taking one event away disturbs little of the rest. So a stored scenario
replays after the way in which scenarios are drawn (`harness.sim.draw`) has changed.

    {"version": 1, "name": "...", "seed": 7, "nodes": 3, "duration_ms": 20000, "mutant": null,
     "settings": {"controller.quorum.fetch.max.bytes": 1},
     "world": {"latency_ms": [0.2, 0.8], "sync_ms": [0.2, 1.2], ...},
     "workload": {"name": "register", "rate_per_s": 20, "concurrency": 5, ...},
     "strands": [{"at_ms": 2000, "steps": [{"kind": "kill", "targets": "leader", "for_ms": 900}]}]}

A *strand* is a list of steps that follow each other; strands run side by side. A step waits
`after_ms`, then for its condition `until` (at most `within_ms`), and then acts; a fault with
`for_ms` is undone so much later, without holding up the next step. Names that a step of kind
`cast` gives to nodes (`{"A": "leader"}`) are used by later steps of the strand as `@A`.

What must never happen is judged in every run; a script can add what must be true at one point of
it by a step of kind `expect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from checkers.exercised import UNDOING
from cluster.backends.sim.settings import SimSettings
from cluster.names import unknown
from cluster.schemas import Flag, Schema, Text
from cluster.systems.kraft import NODE_SETTINGS, NodeSettings
from cluster.values import valueclass
from harness.errors import ScenarioError
from harness.fields import Mutant, Nodes, Seed, Version, node_names
from harness.sim.kinds import FAULTS, KINDS, options_of

VERSION = 1
Json = dict[str, Any]
Ms = Annotated[float, Field(strict=True, ge=0, le=86_400_000)]
Length = Annotated[float, Field(strict=True, ge=1, le=86_400_000)]


@valueclass
class ScriptedOp:
    """One operation of a client, at a time, asked of a given node or of the supposed leader."""

    f: Text
    at_ms: Ms = 0.0
    worker: Annotated[int, Field(strict=True, ge=0, le=999)] = 0
    key: Text | None = None
    value: Any = None
    node: Text | None = None


@valueclass
class Load:
    """What the clients do: a seeded stream at a rate, or (`operations`) exactly this."""

    name: Text = "register"
    options: Mapping[str, Any] = field(default_factory=dict)
    concurrency: Annotated[int, Field(strict=True, ge=1, le=1000)] = 5
    rate_per_s: Annotated[float, Field(strict=True, ge=0, le=100_000)] = 20.0
    """0: no operations but those of the list and of the strands."""
    timeout_ms: Annotated[float, Field(strict=True, ge=1, le=600_000)] = 800.0
    operations: tuple[ScriptedOp, ...] = ()


@valueclass
class Condition:
    """What a step waits for or expects. All that is given must hold at one node of `at`."""

    at: Text = "all"
    """Where to look: target words as for faults, `all` meaning any of them."""
    event: Text | None = None
    """The next trace event of this name (docs/evidence.md) ..."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """... with these fields; a string that begins with @ is the id of the node of that name."""
    state: Text | None = None
    """The node's epoch state: Leader, Follower, Candidate, ..."""
    not_state: Text | None = None
    epoch: Literal["same", "later"] | None = None
    """`same`: no later than the highest when the names were cast; `later`: above it."""
    established: Flag = False
    """It leads and has committed its epoch's start."""
    synced: Flag = False
    """Everything in its log is durable."""
    ok: Text | None = None
    """The operation of this id ended ok."""
    ended: Text | None = None
    """The operation of this id ended."""


def _says_something(table: object) -> object:
    if table == {}:
        raise ValueError("must say something of nodes or of an operation")
    return table


CONDITION = Schema(Condition, ScenarioError)


@valueclass
class Step:
    """One thing that a strand does; `harness.sim.kinds` lists the kinds and their options."""

    kind: Text
    after_ms: Ms = 0.0
    targets: Text = ""
    for_ms: Ms | None = None
    """A fault's length; None: until something undoes it, at the latest the end of the phase."""
    until: Annotated[Condition, BeforeValidator(_says_something)] | None = None
    within_ms: Ms = 10_000.0
    """How long to wait for `until`; then the step acts all the same, unless `strict`."""
    strict: Flag = False
    """Without its condition the strand ends here."""
    options: Mapping[str, Any] = field(default_factory=dict)


def _gathered(row: object) -> object:
    """Check the options of a step, which stand beside its fields, and gather them.

    They are kept as they are given; what is not given has the default of the day it is run.
    """
    if not isinstance(row, dict):
        return row
    kind = KINDS.get(row["kind"]) if isinstance(row.get("kind"), str) else None
    if kind is None:
        raise ValueError(unknown("kind", str(row.get("kind"))[:80], KINDS))
    own = {key: value for key, value in row.items() if key in _STEP_FIELDS}
    if own.get("for_ms") is not None and not kind.takes_for:
        raise ValueError(f"a {kind.name} takes no for_ms")
    options = {key: value for key, value in row.items() if key not in own}
    for key in options:
        if key not in kind.options:
            raise ValueError(unknown("key", str(key)[:80], (*_STEP_FIELDS, *kind.options)))
    options_of(kind.name).read(options)
    if kind.name == "expect":
        CONDITION.read(options["that"], place=("that",))
    return {**own, "options": options}


_STEP_FIELDS = frozenset(item.name for item in fields(Step)) - {"options"}


@valueclass
class Strand:
    """Steps one after the other, the first `at_ms` after the fault phase began."""

    at_ms: Ms = 0.0
    steps: tuple[Annotated[Step, BeforeValidator(_gathered)], ...] = ()


@valueclass
class Bounds:
    """How long things may take after the last heal before that is a violation of its own."""

    liveness_ms: Length = 30_000.0
    """From the heal until every node is up, follows one leader and has replayed a new write."""
    events_max: Annotated[int, Field(strict=True, ge=1, le=10**12)] = 20_000_000
    """Callbacks in the whole run: more is a world that never comes to rest."""


@valueclass
class Scenario:
    """See the module. Made by `harness.sim.parse.from_document` or `harness.sim.draw.draw`."""

    seed: Seed = 0
    name: Text = "scenario"
    about: Text = ""
    nodes: Nodes = 3
    duration_ms: Length = 20_000.0
    """Length of the fault phase."""
    mutant: Mutant | None = None
    exposes: tuple[Text, ...] = ()
    """Of a script: mutants that it finds. For people and tests; decides nothing."""
    settings: NodeSettings = field(default_factory=dict)
    """Kafka's configuration keys, for every node."""
    world: SimSettings = field(default_factory=SimSettings)
    """How network, disks and clocks behave when no fault acts on them."""
    workload: Load = Load()
    strands: tuple[Strand, ...] = ()
    bounds: Bounds = Bounds()
    version: Version = VERSION

    @property
    def node_names(self) -> tuple[str, ...]:
        """n1, n2, ..."""
        return node_names(self.nodes)

    @property
    def fault_steps(self) -> int:
        """How many steps do something to the world or ask it something."""
        return sum(step.kind not in _SILENT for strand in self.strands for step in strand.steps)

    @property
    def events(self) -> int:
        """Fault and operation events, the measure of a shrunk scenario; a stream's by its rate."""
        streamed = round(self.workload.rate_per_s * self.duration_ms / 1000.0)
        return self.fault_steps + len(self.workload.operations) + streamed

    @property
    def plan_fields(self) -> Json:
        """What a plan would say of this run; `checkers.exercised` goes by it."""
        kinds = {step.kind for strand in self.strands for step in strand.steps}
        return {
            "nodes": self.nodes,
            "duration_s": self.duration_ms / 1000.0,
            "rate_per_s": self.workload.rate_per_s,
            "faults": sorted(kinds & set(FAULTS) - UNDOING),
        }

    def to_json(self) -> Json:
        """Render as a document that gives the same scenario again.

        Every knob is written out, also where it has its default, which may be another tomorrow.
        """
        document: Json = {"version": self.version, "seed": self.seed, "nodes": self.nodes}
        document |= {"name": self.name, "duration_ms": self.duration_ms, "mutant": self.mutant}
        if self.about:
            document["about"] = self.about
        if self.exposes:
            document["exposes"] = list(self.exposes)
        document["settings"] = {**NODE_SETTINGS, **self.settings}
        document["world"] = self.world.to_json()
        document["bounds"] = asdict(self.bounds)
        document["workload"] = {
            **{item.name: getattr(self.workload, item.name) for item in fields(self.workload)},
            "operations": [_differences(op) for op in self.workload.operations],
        }
        document["strands"] = [
            {"at_ms": strand.at_ms, "steps": [step_to_json(step) for step in strand.steps]}
            for strand in self.strands
        ]
        return document


_SILENT = frozenset({"cast", "wait", "expect"})


def step_to_json(step: Step) -> Json:
    """Render one step; its options stand beside its fields."""
    told = _differences(step)
    told.pop("options", None)
    if step.until is not None:
        told["until"] = _differences(step.until)
    return {"kind": step.kind, **told, **step.options}


def _differences(value: Any) -> Json:
    """Fields of a dataclass that differ from their defaults, JSON-able."""
    told: Json = {}
    for item in fields(value):
        current = getattr(value, item.name)
        default = item.default_factory() if callable(item.default_factory) else item.default
        if current != default:
            told[item.name] = list(current) if isinstance(current, tuple) else current
    return told

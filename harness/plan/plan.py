"""A plan: everything that a campaign needs to know before it starts.

Plans come as TOML (to be written by hand) or JSON (as runs store them), are completed with defaults
and options of the command line, and are checked as a whole before anything starts
(`harness.plan.document`). An error is one line that names the place, and for an unknown name the
nearest known one.

| key | meaning | default |
|---|---|---|
| `campaign` | name; runs are stored below it | file name |
| `workload`, `workload_options` | what clients do | `register`, or the only one that the system carries |
| `version` | of this table | 1 |
| `system` | which kind of node (`kraftprobe list systems`) | `kraft` |
| `system_options` | options of the system (docs/kafka.md): where it is installed, such as `image`; a list counts as its parts with commas between | none |
| `backend` | where nodes run: `local`, `netns`, `docker`, `ssh` or `sim` | `local` |
| `inventory` | for `ssh`: file that names the hosts (`cluster.backends.ssh.inventory`) | none |
| `nodes` | how many | 3 |
| `node_settings` | configuration keys for every node | none |
| `security` | `protocol` of all listeners (`SSL`, ...), `mechanism` of SASL | `PLAINTEXT` |
| `mutant` | a faulty variant of the node | none |
| `duration_s` | length of the fault phase in seconds | 60 |
| `seed` | of schedule and operations | drawn anew |
| `rate_per_s` | operations a second over all clients | 150 |
| `concurrency` | client workers; the first ones are pinned to one node each | 15 |
| `operation_timeout_ms` | after which an operation is indeterminate | 800 |
| `faults` | kinds of fault that must be injected; `[]`: none, else a run without any is UNDER-EXERCISED | kill, pause, partition |
| `schedule` | a list of timed faults (`Entry`) and of strands of steps (`harness.plan.strands`), or options of a random one (`RandomSchedule`) | random |
| `operations` | a list of single operations with their times (`ScriptedOp`), beside the rate | none |
| `world`, `bounds` | of a simulated run: how network, disks and clocks behave when no fault acts on them; how long it may take to come back to life | |
| `about`, `exposes` | documentation: what the plan is for, and which mutants it finds | none |
| `skipped` | what an earlier run had to leave out, never written by hand | none |
| `expectations` | `min_operations`, `faults`, `leader_changes`, else UNDER-EXERCISED; `write_outage_max_s`: longest time without a write while most nodes are whole (15), else UNKNOWN | below |

A plan's default expectation is a quarter of the operations that its rate would give; with strands,
which may run without a stream of operations, it is the floor. No plan can expect less than the
floor (`checkers.runs.exercised`).

A plan decides a simulated run: the same plan gives the same run, event by event, on every machine.
Nothing is drawn when it runs except *micro-randomness* (latencies, time-outs, what of an unsynced
write survives a power loss), which comes from streams that are named by the plan's seed and by
purpose, so that removing one event changes little of the rest. A stored plan therefore replays even
after `harness.sim.swarm.draw` has changed.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from cluster.backends.registry import BACKENDS, SIM
from cluster.backends.sim.settings import SimSettings
from cluster.names import unknown
from cluster.schemas import Schema, Text
from cluster.systems.base import Listener
from cluster.systems.cells import Cell
from cluster.systems.image import OPTION as IMAGE
from cluster.systems.kinds import SystemKind, SystemRequest
from cluster.systems.registry import system_named
from cluster.systems.secured import SecuritySettings
from cluster.values import valueclass
from harness.errors import PlanError, WrongAnswerError
from harness.plan.field_types import Mutant, Nodes, Seed, Version, node_names
from harness.plan.schedule import Entry, FaultName
from harness.plan.step_verbs import is_fault
from harness.plan.strands import SILENT, ScriptedOp, Strand, differences, strand_to_json
from nemeses.base import Parameters
from workloads.base import Workload
from workloads.registry import WORKLOADS, workload_named

T = TypeVar("T")
EXPECTED_MAX = 10**9
"""Most operations, or leader changes, that a plan can expect."""

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="a name of at most 64 letters, digits, '.', '_', '-'",
    ),
]
Faults = Annotated[tuple[FaultName, ...], Field(description="a list of names")]
Count = Annotated[int, Field(strict=True, ge=0, le=EXPECTED_MAX)]


def _join(value: object) -> object:
    """Make the text of a list: options of systems are texts."""
    is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return ",".join(value) if isinstance(value, list) and is_list else value


Option = Annotated[Text, BeforeValidator(_join)]
OPTIONS: Schema[dict[str, str]] = Schema(dict[str, Option], PlanError)


def _backend(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(unknown("backend", name, BACKENDS))
    return name


@valueclass
class Skipped:
    """A fault that was asked for and left out, since it cannot work where the plan runs."""

    fault: Text
    reason: Text = ""
    remedy: Text = ""


class Expectations(TypedDict, total=False):
    """What a plan expects of its run; missing keys follow from the rest of the plan."""

    min_operations: Count
    faults: Annotated[list[FaultName], Field(description="a list of names")]
    leader_changes: Count
    write_outage_max_s: Annotated[float, Field(strict=True, ge=0.001, le=86_400)]


@valueclass
class Bounds:
    """Limits of a simulated run; exceeding one is a violation."""

    liveness_ms: Annotated[float, Field(strict=True, ge=1, le=86_400_000)] = 30_000.0
    """From the heal until every node is up, follows one leader and has replayed a new write."""
    events_max: Annotated[int, Field(strict=True, ge=1, le=10**12)] = 20_000_000
    """Callbacks in the whole run; more mean a livelock."""


@valueclass(kw_only=True)
class Plan:
    """A plan whose every part was checked. Made by `document.from_document`."""

    version: Version = 1
    campaign: Name = "campaign"
    about: Text = ""
    exposes: tuple[Text, ...] = ()
    """Mutants that it finds. For readers and tests; decides nothing."""
    system: Annotated[str, AfterValidator(lambda name: system_named(name).name)] = "kraft"
    system_options: dict[str, Option] = field(default_factory=dict)
    backend: Annotated[str, AfterValidator(_backend)] = "local"
    inventory: Annotated[Path, Field(description="the path of a file")] | None = None
    """Of the hosts of backend ssh; None for any other."""
    nodes: Nodes = 3
    node_settings: dict[str, Any] = field(default_factory=dict)
    security: SecuritySettings = SecuritySettings()
    mutant: Mutant | None = None
    world: SimSettings = field(default_factory=SimSettings)
    """How a simulated world's network, disks and clocks behave when no fault acts on them."""
    bounds: Bounds = Bounds()
    workload: Text = "register"
    workload_options: dict[str, Any] = field(default_factory=dict)
    operations: tuple[ScriptedOp, ...] = ()
    duration_s: Annotated[float, Field(strict=True, ge=0.001, le=7 * 86_400)] = 60
    """Length of the fault phase."""
    seed: Seed = 0
    rate_per_s: Annotated[float, Field(strict=True, ge=0, le=100_000)] = 150
    """0: no operations but those of `operations` and of strands."""
    concurrency: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 15
    # Below the nodes' fetch time-out: clients of a leader that was cut off time out and write to
    # the next leader while the old one may still consider itself leader.
    operation_timeout_ms: Annotated[float, Field(strict=True, ge=1, le=600_000)] = 800
    faults: Faults = ("kill", "pause", "partition")
    without_faults: bool = False
    """Whether a run without any fault was asked for in so many words; follows from `faults`."""
    schedule: tuple[Entry, ...] = ()
    """The timed faults of the document's schedule ..."""
    strands: tuple[Strand, ...] = ()
    """... and its rows that have steps."""
    expectations: Expectations = field(default_factory=Expectations)
    skipped: tuple[Skipped, ...] = ()

    @property
    def kind(self) -> SystemKind:
        """What is known of the system."""
        return system_named(self.system)

    @property
    def node_names(self) -> tuple[str, ...]:
        """n1, n2, ..."""
        return node_names(self.nodes)

    def nodes_at(self, listener: Listener) -> tuple[str, ...]:
        """Name the nodes that have this listener: CONTROLLER to vote, CLIENT to serve clients."""
        of_nodes = self._of_nodes(self.kind.listeners)
        return tuple(node for node, listeners in of_nodes if listener in listeners)

    @property
    def whole_traces(self) -> tuple[str, ...]:
        """Name the nodes that trace everything where not all do."""
        return tuple(node for node, whole in self._of_nodes(self.kind.whole_traces) if whole)

    def _of_nodes(
        self, ask: Callable[[SystemRequest, int], tuple[T, ...]]
    ) -> Iterator[tuple[str, T]]:
        """Return each node with what the system says of it. Raises WrongAnswerError."""
        found: object = ask(SystemRequest(self.node_settings, self.system_options), self.nodes)
        if not isinstance(found, tuple) or len(found) != self.nodes:
            raise WrongAnswerError(ask, found)
        return zip(self.node_names, found, strict=True)

    @property
    def duration_ms(self) -> float:
        """Length of the fault phase."""
        return self.duration_s * 1000.0

    @property
    def is_scripted(self) -> bool:
        """Whether clients perform more than a stream of operations, or none."""
        return bool(self.strands or self.operations) or self.rate_per_s == 0

    @property
    def fault_steps(self) -> int:
        """How many steps of strands inject, heal, release or request something."""
        return sum(step.kind not in SILENT for strand in self.strands for step in strand.steps)

    @property
    def events(self) -> int:
        """Fault and operation events, which shrinking reduces; a stream counts by its rate."""
        streamed = round(self.rate_per_s * self.duration_s)
        return len(self.schedule) + self.fault_steps + len(self.operations) + streamed

    def make_workload(self) -> Workload:
        """Make the workload, with its options. Raises WrongAnswerError where a package has none."""
        made: object = workload_named(self.workload, self.workload_options)
        if not isinstance(made, Workload):
            raise WrongAnswerError(WORKLOADS[self.workload].create, made)
        names: object = made.cells()
        if not isinstance(names, list | tuple) or {*map(type, names)} - {str}:
            raise WrongAnswerError(made, names)
        for name in names:
            if not isinstance(cell := self.kind.cell(name), Cell):
                raise WrongAnswerError(self.kind.cell, cell)
        return made

    def judged_by(self) -> dict[str, Any]:
        """Return the document that decides what a run must have tried (`checkers.runs.exercised`)."""
        return self.to_json() | ({} if self.kind.is_led else {"leaderless": True})

    def to_json(self) -> dict[str, Any]:
        """Render a document that gives the same plan again."""
        document: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        del document["strands"]
        document |= {
            "exposes": list(self.exposes),
            "inventory": None if self.inventory is None else str(self.inventory),
            "security": self.security.to_json(),
            "world": self.world.to_json(),
            "bounds": asdict(self.bounds),
            "operations": [differences(operation) for operation in self.operations],
            "faults": list(self.faults),
            "schedule": [
                *(entry.to_json() for entry in self.schedule),
                *(strand_to_json(strand) for strand in self.strands),
            ],
            "skipped": [asdict(row) for row in self.skipped],
        }
        if self.backend == SIM.name:  # where a run of an image is looked for as well
            document["system_options"] = {
                key: value for key, value in self.system_options.items() if key != IMAGE
            }
        if not document["system_options"]:
            del document["system_options"]
        if self.backend != SIM.name:
            del document["world"], document["bounds"]
        return document


def fault_kinds(plan: Plan) -> tuple[str, ...]:
    """Name the kinds of fault in a plan's schedule, in order."""
    steps = (step.kind for strand in plan.strands for step in strand.steps)
    kinds = [*(entry.fault for entry in plan.schedule), *filter(is_fault, steps)]
    return tuple(dict.fromkeys(kinds))


def parameters_in(plan: Plan, kind: str) -> list[Parameters]:
    """Return all parameters with which a plan's schedule asks for a kind of fault."""
    steps = (step for strand in plan.strands for step in strand.steps)
    entries = (entry for entry in plan.schedule if entry.fault == kind)
    timed = [given for entry in entries for given in (entry.parameters, *entry.alternatives)]
    return [*timed, *(step.parameters for step in steps if step.kind == kind)]

"""A plan: everything that a campaign needs to know before it starts.

Plans come as TOML (to be written and copied by people) or JSON (as runs store them), are
completed with defaults and options of the command line, and are checked as a whole before
anything starts. What is wrong is one line that names the place, and the nearest known name.

| key | meaning | default |
|---|---|---|
| `campaign` | name; runs are stored below it | file name |
| `workload`, `workload_options` | what clients do | `register` |
| `version` | of this table | 1 |
| `system` | which kind of node; `kraft` is the only one | `kraft` |
| `backend` | where nodes run: `local`, `netns`, `docker`, `ssh` or `sim` | `local` |
| `inventory` | for `ssh`: file that names the hosts (`cluster.backends.ssh.inventory`) | none |
| `nodes` | how many | 3 |
| `node_settings` | Kafka configuration keys for every node | none |
| `security` | `protocol` of all listeners (`SSL`, ...), `mechanism` of SASL | `PLAINTEXT` |
| `mutant` | a faulty variant of the node | none |
| `duration_s` | length of the fault phase in seconds | 60 |
| `seed` | of schedule and operations | drawn anew |
| `rate_per_s` | operations a second over all clients | 150 |
| `concurrency` | client workers; the first ones are pinned to one node each | 15 |
| `operation_timeout_ms` | after which an operation is indeterminate | 800 |
| `faults` | kinds of fault that must come | kill, pause, partition |
| `schedule` | a list of entries, or options of a random one (`RandomSchedule`) | random |
| `skipped` | what an earlier run had to leave out, never written by hand | none |
| `expectations` | `min_operations`, `faults`, `leader_changes`, else UNDER-EXERCISED | below |

Unless a plan says otherwise it expects a quarter of what its rate would give. Whatever it says, it
expects no less than the floor (`checkers.exercised`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from typing_extensions import TypedDict

from checkers import exercised
from cluster.schemas import Schema, Text, shown, where_of
from cluster.systems.kraft import NodeSettings
from cluster.systems.secured import SecuritySettings
from cluster.values import valueclass
from harness.errors import PlanError
from harness.fields import Mutant, Nodes, Seed, Version, node_names
from harness.schedule import Entry, FaultName, RandomSchedule, ScheduleError, draw
from nemeses.base import ParameterError
from nemeses.registry import fault_named
from workloads.base import Workload
from workloads.registry import WorkloadError, workload_named

BackendName = Literal["local", "netns", "docker", "ssh", "sim"]
BACKENDS: tuple[str, ...] = get_args(BackendName)
_STORED_ONLY = ("checks", "versions", "command")
"""What a run stored beside its plan, computed anew when that is run again: chooses nothing."""
EXPECTED_MAX = 10**9
"""Most operations, or leader changes, that a plan can expect."""
_OK_FRACTION = 0.25
"""Share of the possible operations that a run must at least have made, unless the plan says."""

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="a name of at most 64 letters, digits, '.', '_', '-'",
    ),
]
Faults = Annotated[tuple[FaultName, ...], Field(description="a list of names")]
Count = Annotated[int, Field(strict=True, ge=0, le=EXPECTED_MAX)]


@valueclass
class Skipped:
    """A fault that was asked for and left out, since it cannot work where the plan runs."""

    fault: Text
    reason: Text = ""
    remedy: Text = ""


class Expectations(TypedDict, total=False):
    """What a plan expects of its run; what it does not say follows from the rest of it."""

    min_operations: Count
    faults: Annotated[list[FaultName], Field(description="a list of names")]
    leader_changes: Count


@valueclass(kw_only=True)
class Plan:
    """A plan whose every part was checked. Made by `from_document`."""

    version: Version = 1
    campaign: Name = "campaign"
    system: Literal["kraft"] = "kraft"
    backend: BackendName = "local"
    inventory: Annotated[Path, Field(description="the path of a file")] | None = None
    """Of the hosts of backend ssh; None for any other."""
    nodes: Nodes = 3
    node_settings: NodeSettings = field(default_factory=dict)
    security: SecuritySettings = SecuritySettings()
    mutant: Mutant | None = None
    workload: Text = "register"
    workload_options: dict[str, Any] = field(default_factory=dict)
    duration_s: Annotated[float, Field(strict=True, ge=1, le=7 * 86_400)] = 60
    seed: Seed = 0
    rate_per_s: Annotated[float, Field(strict=True, ge=0.1, le=100_000)] = 150
    concurrency: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 15
    # Below the nodes' fetch time-out: clients that wait for a leader that was cut off are free
    # again, and write to the next one, while the old one may still believe in itself.
    operation_timeout_ms: Annotated[float, Field(strict=True, ge=50, le=60_000)] = 800
    faults: Faults = ("kill", "pause", "partition")
    schedule: Annotated[
        tuple[Entry, ...], Field(max_length=10_000, description="a list of at most 10000 entries")
    ] = ()
    expectations: Expectations = field(default_factory=Expectations)
    skipped: tuple[Skipped, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """n1, n2, ..."""
        return node_names(self.nodes)

    def make_workload(self) -> Workload:
        """Make what clients do."""
        return workload_named(self.workload, self.workload_options)

    def to_json(self) -> dict[str, Any]:
        """Render a document that gives the same plan again."""
        document: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        document |= {
            "inventory": None if self.inventory is None else str(self.inventory),
            "security": self.security.to_json(),
            "faults": list(self.faults),
            "schedule": [entry.to_json() for entry in self.schedule],
            "skipped": [asdict(row) for row in self.skipped],
        }
        return document


PLAN = Schema(Plan, PlanError)
RANDOM_SCHEDULE = Schema(RandomSchedule, PlanError)


def from_document(document: Mapping[str, Any]) -> Plan:
    """Complete and check a plan. Raises PlanError with one line."""
    stated = {key: value for key, value in document.items() if key != "run"}
    for key in _STORED_ONLY:
        if stated.pop(key, None) is not None and "run" not in document:
            raise PlanError(
                f"{key} cannot be chosen: it follows from the rest of a plan; remove it"
            )
    schedule = stated.pop("schedule", {})
    if not isinstance(schedule, list | dict):
        given = f"a list of entries or a table of options, not {shown(schedule)}"
        raise PlanError(f"schedule must be {given}")
    is_scripted = isinstance(schedule, list)
    plan = PLAN.read({**stated, "schedule": schedule if is_scripted else []})
    plan = replace(plan, faults=tuple(dict.fromkeys(plan.faults)))
    try:
        plan.make_workload()
        if is_scripted:
            plan = _scripted(plan, asks_for_faults="faults" in document)
        else:
            options = RANDOM_SCHEDULE.read(schedule, place=("schedule",))
            drawn = draw(plan.seed, plan.faults, plan.duration_s, plan.node_names, options)
            plan = replace(plan, schedule=drawn)
    except (ParameterError, ScheduleError, WorkloadError) as error:
        raise PlanError(str(error)) from error
    return replace(
        plan,
        inventory=_inventory(plan),
        expectations=_expectations(plan),
        skipped=tuple({row.fault: row for row in plan.skipped}.values()),
    )


def _scripted(plan: Plan, *, asks_for_faults: bool) -> Plan:
    """Check a list of entries against the rest of the plan, and name its faults."""
    for number, entry in enumerate(plan.schedule):
        where = where_of(("schedule", number))
        for key, moment_s in (("at_s", entry.at_s), ("for_s", entry.for_s)):
            if moment_s > plan.duration_s:
                most = f"from 0 to {plan.duration_s:g}, the plan's duration_s"
                raise PlanError(f"{where}: {key} must be a number {most}, not {moment_s:g}")
        try:
            for parameters in (entry.parameters, *entry.alternatives):
                fault_named(entry.fault).check(parameters, plan.node_names)
        except ParameterError as error:
            raise PlanError(f"{where}: {error}") from error
    present = tuple(dict.fromkeys(entry.fault for entry in plan.schedule))
    missing = [kind for kind in plan.faults if kind not in present]
    if asks_for_faults and missing:
        raise PlanError(f"faults names {missing[0]!r}, but the schedule has none")
    return plan if asks_for_faults else replace(plan, faults=present)


def _expectations(plan: Plan) -> Expectations:
    """What the plan expects, or a quarter of the rate; in no case less than the floor."""
    possible = plan.rate_per_s * plan.duration_s
    least = Expectations(min_operations=math.floor(possible * _OK_FRACTION))
    document = {**plan.to_json(), "expectations": {**least, **plan.expectations}}
    expected: Expectations = exercised.options_of(document)["expectations"]
    return expected


def _inventory(plan: Plan) -> Path | None:
    if plan.backend == "sim" and plan.security.to_json():
        raise PlanError("security: messages of the simulated world cross as objects, without TLS")
    if plan.backend == "ssh" and plan.inventory is None:
        raise PlanError("backend ssh needs an inventory of hosts: --inventory FILE")
    if plan.backend != "ssh" or plan.inventory is None:
        return None  # a plan may name one and be run elsewhere
    return plan.inventory.absolute()

"""A plan: everything that a campaign needs to know before it starts.

Plans come as TOML (to be written and copied by people) or JSON (as runs store them), are
completed with defaults and options of the command line, and are checked as a whole before
anything starts. What is wrong is told in one line that names the key, and the nearest known name.

| key | meaning | default |
|---|---|---|
| `campaign` | name; runs are stored below it | file name |
| `workload`, `workload_options` | what clients do | `register` |
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
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from checkers import exercised
from cluster.mutants import UnknownMutantError, find
from cluster.names import unknown
from cluster.systems.kraft import KraftSystem, SettingError
from cluster.systems.secured import SecurityError, SecuritySettings
from cluster.values import valueclass
from harness.errors import PlanError
from harness.plan_schedule import bounded, random_options, scripted
from harness.schedule import Entry, ScheduleError, draw
from nemeses.base import ParameterError
from nemeses.registry import fault_named
from workloads.base import Workload
from workloads.registry import WorkloadError, workload_named

VERSION = 1
BACKENDS = ("local", "netns", "docker", "ssh", "sim")
_DERIVED = frozenset({"version", "run", "system", "checks", "versions", "command"})
"""Keys of a stored plan that are computed anew when it is run again."""
_STORED_ONLY = ("checks", "versions", "command")
"""Of these, what would choose nothing: taken from a plan that a run stored, and from no other."""
SYSTEMS = (KraftSystem.name,)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
EXPECTED_MAX = 10**9
"""Most operations, or leader changes, that a plan can expect."""
_OK_FRACTION = 0.25
"""Share of the possible operations that a run must at least have made, unless the plan says."""


@valueclass
class Number:
    """What a number in a plan may be."""

    default: float
    minimum: float
    maximum: float
    whole: bool = True


NUMBERS: Mapping[str, Number] = {
    "nodes": Number(3, 1, 15),
    "duration_s": Number(60, 1, 7 * 86_400, whole=False),
    "seed": Number(0, 0, 2**63 - 1),
    "rate_per_s": Number(150, 0.1, 100_000, whole=False),
    "concurrency": Number(15, 1, 1_000),
    # Below the nodes' fetch time-out: clients that wait for a leader that was cut off are free
    # again, and write to the next one, while the old one may still believe in itself.
    "operation_timeout_ms": Number(800, 50, 60_000, whole=False),
}


@valueclass
class Skipped:
    """A fault that was asked for and left out, since it cannot work where the plan runs."""

    fault: str
    reason: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Render it as plans and results hold it."""
        return {"fault": self.fault, "reason": self.reason, "remedy": self.remedy}


@valueclass
class Plan:
    """A plan whose every part was checked. Made by `from_document`."""

    campaign: str
    workload: Workload
    workload_options: Mapping[str, Any]
    backend: str
    nodes: int
    node_settings: Mapping[str, int]
    security: SecuritySettings
    mutant: str | None
    duration_s: float
    seed: int
    rate_per_s: float
    concurrency: int
    operation_timeout_ms: float
    faults: tuple[str, ...]
    schedule: tuple[Entry, ...]
    expectations: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    inventory: Path | None = None
    """Of the hosts of backend ssh."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """n1, n2, ..."""
        return node_names(self.nodes)

    def to_json(self) -> dict[str, Any]:
        """Render a document that gives the same plan again."""
        return {
            "version": VERSION,
            "campaign": self.campaign,
            "seed": self.seed,
            "backend": self.backend,
            **({} if self.inventory is None else {"inventory": str(self.inventory)}),
            "nodes": self.nodes,
            "node_settings": dict(self.node_settings),
            **({"security": told} if (told := self.security.to_json()) else {}),
            "mutant": self.mutant,
            "workload": self.workload.name,
            "workload_options": dict(self.workload_options),
            "duration_s": self.duration_s,
            "rate_per_s": self.rate_per_s,
            "concurrency": self.concurrency,
            "operation_timeout_ms": self.operation_timeout_ms,
            "faults": list(self.faults),
            "schedule": [entry.to_json() for entry in self.schedule],
            "expectations": dict(self.expectations),
            "skipped": [one.to_json() for one in self.skipped],
        }


def node_names(count: int) -> tuple[str, ...]:
    """Names of `count` nodes."""
    return tuple(f"n{number}" for number in range(1, count + 1))


def from_document(document: Mapping[str, Any]) -> Plan:
    """Complete and check a plan. Raises PlanError with one line."""
    known = [*NUMBERS, "campaign", "backend", "workload", "workload_options", "node_settings"]
    known += ["mutant", "faults", "schedule", "expectations", "skipped", "inventory", "security"]
    for key in document:
        if key not in known and key not in _DERIVED:
            raise PlanError(unknown("plan key", key, known))
    _refuse_derived(document)
    numbers = {name: _number(name, spec, document) for name, spec in NUMBERS.items()}
    nodes, concurrency = int(numbers["nodes"]), int(numbers["concurrency"])
    options = _mapping(document, "workload_options")
    try:
        workload = workload_named(_string(document, "workload", "register"), options)
    except WorkloadError as error:
        raise PlanError(str(error)) from error
    backend = _string(document, "backend", "local")
    if backend not in BACKENDS:
        raise PlanError(unknown("backend", backend, BACKENDS))
    faults, schedule = _faults(document, nodes, numbers)
    return Plan(
        campaign=_campaign(document),
        workload=workload,
        workload_options=options,
        backend=backend,
        nodes=nodes,
        node_settings=_settings(document),
        security=_security(document, backend),
        mutant=_mutant(document),
        duration_s=numbers["duration_s"],
        seed=int(numbers["seed"]),
        rate_per_s=numbers["rate_per_s"],
        concurrency=concurrency,
        operation_timeout_ms=numbers["operation_timeout_ms"],
        faults=faults,
        schedule=schedule,
        expectations=_expectations(document, faults, schedule, numbers),
        skipped=_skipped(document.get("skipped", [])),
        inventory=_inventory(document, backend),
    )


def _refuse_derived(document: Mapping[str, Any]) -> None:
    """Refuse what a plan cannot choose: it would be ignored, and look as if it held."""
    version = document.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise PlanError(
            f"version must be {VERSION}, the one that this Kraftprobe reads: {version!r}"
        )
    system = _string(document, "system", KraftSystem.name)
    if system not in SYSTEMS:
        raise PlanError(unknown("system", system, SYSTEMS))
    for key in _STORED_ONLY:
        if key in document and "run" not in document:
            raise PlanError(
                f"{key} cannot be chosen: it follows from the rest of a plan; remove it"
            )


def _faults(
    document: Mapping[str, Any], nodes: int, numbers: Mapping[str, float]
) -> tuple[tuple[str, ...], tuple[Entry, ...]]:
    """Return the kinds that must come, and the schedule in which they do."""
    names = node_names(nodes)
    asked = document.get("faults")
    scheduled = document.get("schedule", {})
    try:
        if isinstance(scheduled, list):
            schedule = scripted(scheduled, names, numbers["duration_s"])
            present = tuple(dict.fromkeys(entry.fault for entry in schedule))
            kinds = present if asked is None else _kinds(asked)
            missing = [kind for kind in kinds if kind not in present]
            if missing:
                raise PlanError(f"faults names {missing[0]!r}, but the schedule has none")
            return kinds, schedule
        kinds = _kinds(["kill", "pause", "partition"] if asked is None else asked)
        options = random_options(scheduled)
        return kinds, draw(int(numbers["seed"]), kinds, numbers["duration_s"], names, options)
    except (ParameterError, ScheduleError) as error:
        raise PlanError(str(error)) from error


def _kinds(asked: Any) -> tuple[str, ...]:
    if not isinstance(asked, list) or not all(isinstance(kind, str) for kind in asked):
        raise PlanError("faults must be a list of names")
    try:
        for kind in asked:
            fault_named(kind)
    except ParameterError as error:
        raise PlanError(str(error)) from error
    return tuple(dict.fromkeys(asked))


def _expectations(
    document: Mapping[str, Any],
    faults: tuple[str, ...],
    schedule: tuple[Entry, ...],
    numbers: Mapping[str, float],
) -> dict[str, Any]:
    """What the document expects, or a quarter of the rate; in no case less than the floor."""
    possible = numbers["rate_per_s"] * numbers["duration_s"]
    told: dict[str, Any] = {"min_operations": math.floor(possible * _OK_FRACTION)}
    for key, value in _mapping(document, "expectations").items():
        if key not in exercised.KNOWN:
            raise PlanError(unknown("expectation", key, exercised.KNOWN))
        if key == "faults":
            told[key] = list(_kinds(value))
        else:
            told[key] = _whole(f"expectations.{key}", value, 0, EXPECTED_MAX)
    plan = {
        **numbers,
        "faults": list(faults),
        "schedule": [entry.to_json() for entry in schedule],
        "expectations": told,
    }
    expected: dict[str, Any] = exercised.options_of(plan)["expectations"]
    return expected


def _inventory(document: Mapping[str, Any], backend: str) -> Path | None:
    path = document.get("inventory")
    if path is not None and not isinstance(path, str):
        raise PlanError(f"inventory must be the path of a file, not {path!r}")
    if backend == "ssh" and path is None:
        raise PlanError("backend ssh needs an inventory of hosts: --inventory FILE")
    if backend != "ssh" or path is None:
        return None  # a plan may name one and be run elsewhere
    return Path(path).absolute()


def _skipped(rows: Any) -> tuple[Skipped, ...]:
    good = isinstance(rows, list) and all(
        isinstance(row, dict)
        and {"fault"} <= row.keys() <= {"fault", "reason", "remedy"}
        and all(isinstance(value, str) for value in row.values())
        for row in rows
    )
    if not good:
        raise PlanError("skipped must be a list of tables of a fault, a reason and a remedy")
    found = [Skipped(row["fault"], row.get("reason", ""), row.get("remedy", "")) for row in rows]
    return tuple({one.fault: one for one in found}.values())


def _settings(document: Mapping[str, Any]) -> dict[str, int]:
    settings = _mapping(document, "node_settings")
    try:
        KraftSystem(settings)
    except SettingError as error:
        raise PlanError(str(error)) from error
    return settings


def _security(document: Mapping[str, Any], backend: str) -> SecuritySettings:
    try:
        security = SecuritySettings.parse(_mapping(document, "security"))
    except SecurityError as error:
        raise PlanError(str(error)) from error
    if backend == "sim" and security.to_json():
        raise PlanError("security: messages of the simulated world cross as objects, without TLS")
    return security


def _mutant(document: Mapping[str, Any]) -> str | None:
    mutant = document.get("mutant")
    if mutant is None:
        return None
    if not isinstance(mutant, str):
        raise PlanError("mutant must be a name such as M15")
    try:
        return find(mutant).id
    except UnknownMutantError as error:
        raise PlanError(str(error)) from error


def _campaign(document: Mapping[str, Any]) -> str:
    campaign = _string(document, "campaign", "campaign")
    if not _NAME.fullmatch(campaign):
        raise PlanError(f"campaign {campaign[:80]!r} is no name: letters, digits, '.', '_', '-'")
    return campaign


def _string(document: Mapping[str, Any], key: str, default: str) -> str:
    value = document.get(key, default)
    if not isinstance(value, str):
        raise PlanError(f"{key} must be a string, not {value!r}")
    return value


def _mapping(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise PlanError(f"{key} must be a table, not {value!r}")
    return dict(value)


def _number(name: str, spec: Number, document: Mapping[str, Any]) -> float:
    value = document.get(name, spec.default)
    if spec.whole:
        return _whole(name, value, spec.minimum, spec.maximum)
    return bounded(name, value, spec.minimum, spec.maximum)


def _whole(name: str, value: Any, low: float, high: float) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(f"{name} must be a whole number, not {value!r}")
    return int(bounded(name, value, low, high))

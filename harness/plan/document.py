"""From a document to a plan that was completed and checked as a whole.

What each value may be is said at the fields of `harness.plan.plan.Plan`. Here is what they must be
together: what a system takes, promises and runs on, and what its schedule names.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.runs import exercised
from cluster.backends.registry import DOCKER, SIM
from cluster.names import unknown
from cluster.schemas import Place, Schema, render, where_of
from cluster.systems.image import OPTION as IMAGE
from cluster.systems.kafka.installation import RELEASES
from cluster.systems.kinds import SettingError, SystemKind, SystemRequest
from cluster.systems.registry import SYSTEMS
from harness.errors import PlanError
from harness.plan.field_types import check_moment
from harness.plan.plan import Expectations, Plan, fault_kinds
from harness.plan.schedule import RandomSchedule, ScheduleError, draw, read_rows, strand_of
from nemeses.base import ParameterError
from nemeses.processes.upgrade import UPGRADE
from workloads.base import CLIENT, OWN
from workloads.registry import WORKLOADS, WorkloadError, check_operations

_STORED_ONLY = ("checks", "leaderless", "versions", "made_of", "command")
"""Keys that a run stores beside its plan. They follow from it and cannot be chosen."""
_OK_FRACTION = 0.25
"""Default of the share of the possible operations that a run must have completed."""

PLAN = Schema(Plan, PlanError)
RANDOM_SCHEDULE = Schema(RandomSchedule, PlanError)


def from_document(document: Mapping[str, Any]) -> Plan:
    """Complete and check a plan. Raises PlanError with one line."""
    stated = {key: value for key, value in document.items() if key not in ("run", "found")}
    for key in _STORED_ONLY:
        if stated.pop(key, None) is not None and "run" not in document:
            raise PlanError(
                f"{key} cannot be chosen: it follows from the rest of a plan; remove it"
            )
    schedule = stated.pop("schedule", {})
    if schedule == [] and "faults" not in document:
        raise PlanError("schedule: is empty; a plan that wants no fault says so: faults = []")
    if not isinstance(schedule, list | dict):
        given = f"a list of entries or a table of options, not {render(schedule)}"
        raise PlanError(f"schedule must be {given}")
    if "strands" in stated:
        raise PlanError("unknown key 'strands': strands are rows of schedule, with steps")
    plan = PLAN.read(stated)
    plan = replace(plan, faults=tuple(dict.fromkeys(plan.faults)))
    try:
        plan = replace(plan, workload=stated.get("workload", _usual_workload(plan)))
        _check_system(plan)
        plan.make_workload()
        _check_operations(plan)
        if isinstance(schedule, list):
            plan = _read_script(plan, schedule, asks_for_faults="faults" in document)
        else:
            options = RANDOM_SCHEDULE.read(schedule, place=("schedule",))
            drawn = draw(
                plan.seed,
                plan.faults,
                plan.duration_s,
                plan.node_names,
                options,
                is_led=plan.kind.is_led,
            )
            plan = replace(plan, schedule=drawn)
        _check_script(plan, schedule)
    except (ParameterError, ScheduleError, SettingError, WorkloadError) as error:
        raise PlanError(str(error)) from error
    if not (plan.rate_per_s or plan.strands or "operations" in document):
        raise PlanError("rate_per_s must be above 0 where a plan lists no operations itself")
    if UPGRADE in (*plan.faults, *fault_kinds(plan)) and RELEASES not in plan.system_options:
        raise PlanError(
            "faults: upgrade goes from one release to another: --system apache-kafka "
            "--kafka-version OLD,NEW, in a plan releases of system_options"
        )
    # A rendered plan has both keys, and an empty list in it was not typed by anybody.
    asked_for_none = document.get("without_faults", document.get("faults") == [])
    return replace(
        plan,
        without_faults=asked_for_none and not fault_kinds(plan),
        inventory=_inventory(plan),
        expectations=expectations_of(plan),
        skipped=tuple({row.fault: row for row in plan.skipped}.values()),
    )


def _usual_workload(plan: Plan) -> str:
    """Return the workload of a plan that names none: the only one of its system, or the default."""
    carried = plan.kind.workloads or ()
    return next(iter(carried)) if len(carried) == 1 else plan.workload


def in_simulation(document: Mapping[str, Any], mutant: str | None = None) -> Plan:
    """Make a plan of a document as the simulation plays it. Raises PlanError."""
    changed = {"mutant": mutant} if mutant is not None else {}
    plan = in_strands(from_document({**document, **changed, "backend": SIM.name}))
    _check_simulated_faults(plan)
    return plan


def _check_simulated_faults(plan: Plan) -> None:
    """Refuse what the system's simulated nodes cannot be put under. Raises PlanError."""
    possible = None if plan.kind.faults is None else plan.kind.faults.get(SIM.name)
    if possible is None:
        return
    repeats = ("duplicate",) if plan.world.duplication else ()
    for kind in (*plan.faults, *fault_kinds(plan), *repeats):
        if kind not in possible:
            raise PlanError(
                f"faults: system {plan.system} cannot be put under {kind} in the simulated world"
            )


def in_strands(plan: Plan) -> Plan:
    """Rewrite timed faults as strands of one step, the only form that the simulation plays."""
    alone = map(strand_of, plan.schedule)
    return replace(plan, schedule=(), strands=(*alone, *plan.strands))


def _check_system(plan: Plan) -> None:
    """Refuse what the system does not take, promise or run on. Raises PlanError, SettingError."""
    kind = plan.kind
    _check_image(plan)
    request = SystemRequest(plan.node_settings, plan.system_options)
    kind.check(request)
    kind.listeners(request, plan.nodes)
    for key in plan.system_options:
        if key not in kind.options:
            line = unknown("option", key, kind.options)
            raise PlanError(f"system_options: {line} of system {kind.name}")
    if plan.backend == SIM.name and not kind.simulated:
        raise PlanError(
            f"backend: system {kind.name} has no nodes in the simulated world (backend sim)"
        )
    if kind.backends is not None and plan.backend not in kind.backends:
        raise PlanError(f"backend: system {kind.name} runs on backend {_either(kind.backends)}")
    if kind.workloads is not None and plan.workload not in kind.workloads:
        raise PlanError(f"workload: system {kind.name} carries workload {_either(kind.workloads)}")
    if kind.workloads is None:
        _check_workload(plan.workload, kind)
    if plan.mutant is not None and not kind.has_mutants:
        raise PlanError(f"mutant: system {kind.name} has no faulty variants")
    own = plan.workload_options.get(CLIENT, OWN)
    if own != OWN and (plan.security.to_json() or IMAGE in plan.system_options):
        raise PlanError(
            f"workload_options.{CLIENT}: clients in Java are of a release on this machine, and of "
            "runs that are not secured"
        )
    mechanism = plan.security.mechanism
    if mechanism is not None and kind.mechanisms is not None and mechanism not in kind.mechanisms:
        known = _either(kind.mechanisms)
        raise PlanError(f"security: system {kind.name} takes mechanism {known}, not {mechanism}")


def _check_workload(workload: str, kind: SystemKind) -> None:
    """Refuse a workload that none of the system's nodes would understand. Raises PlanError.

    Those that come with Kraftprobe speak Kafka's protocol. One of a package that adds systems as
    well speaks theirs; of any other package, Kafka's.
    """
    if workload not in WORKLOADS:
        return  # the workload's own error suggests the nearest name
    package = WORKLOADS.package(workload)
    if package is None and not WORKLOADS[workload].speaks_kafka:
        systems = [name for name, of in SYSTEMS.items() if workload in (of.workloads or ())]
        raise PlanError(
            f"workload: {workload} is none of system {kind.name}; "
            f"it is of system {_either(systems)}"
        )
    if package is None:
        if not kind.metadata_quorum:
            raise PlanError(
                f"workload: {workload} speaks Kafka's protocol, and system {kind.name} does not: "
                "name a workload of its own (--workload), or those that it can have in the "
                "system's `workloads`"
            )
        if WORKLOADS[workload].needs_coordinators and not kind.has_coordinators:
            systems = [name for name, of in SYSTEMS.items() if of.has_coordinators]
            raise PlanError(
                f"workload: our node has no groups or transactions; {workload} is of system "
                f"{_either(systems)}"
            )
        return
    systems = [name for name in SYSTEMS if SYSTEMS.package(name) == package]
    if kind.name not in systems and (systems or not kind.metadata_quorum):
        of = f"it is of systems of the same package: --system {_either(systems)}" if systems else ""
        raise PlanError(
            f"workload: {workload} of package {package} is none of system {kind.name}; "
            f"{of or 'it speaks the protocol of Kafka'}"
        )


def _check_image(plan: Plan) -> None:
    if IMAGE not in plan.system_options:
        return
    if IMAGE not in plan.kind.options:
        raise PlanError(f"system_options.image: system {plan.system} runs in no image of yours")
    if not plan.system_options[IMAGE]:
        raise PlanError("system_options.image: the name of an image is missing")
    if plan.backend != DOCKER.name:
        given = f"--backend {DOCKER.name} only, not on {plan.backend}"
        raise PlanError(f"system_options.image: nodes of an image run on {given}")


def _either(names: Collection[str]) -> str:
    *others, last = sorted(names)
    return f"{', '.join(others)} or {last}" if others else last


FIND_BROKERS = frozenset({"log", "groups", "transactions"})
"""Workloads whose clients find by themselves whom to ask."""


def _check_operations(plan: Plan) -> None:
    """Refuse operations that would not be performed as they say. Raises PlanError."""
    for number, operation in enumerate(plan.operations):
        place = ("operations", number)
        check_moment(place, "at_ms", operation.at_ms, plan.duration_ms)
        if operation.node is not None and operation.node not in plan.node_names:
            line = unknown("node", operation.node, plan.node_names)
            raise PlanError(f"{where_of(place)}: {line}")
        if operation.node is not None and plan.workload in FIND_BROKERS:
            why = f"clients of workload {plan.workload} find brokers by themselves: leave it out"
            raise PlanError(f"{where_of(place)}: node: {why}")
        if operation.worker >= plan.concurrency:
            most = f"below {plan.concurrency}, the plan's concurrency"
            raise PlanError(f"{where_of(place)}: worker must be {most}, not {operation.worker}")


def _check_script(plan: Plan, rows: object) -> None:
    """Refuse what system or workload cannot play. Raises PlanError, WorkloadError."""
    if (plan.strands or plan.operations) and plan.kind.scripted is None:
        raise PlanError(f"system {plan.system} plays no strands of steps and single operations")
    check_operations(plan.make_workload(), _client_operations(plan, rows))


def _client_operations(plan: Plan, rows: object) -> Iterator[tuple[Place, str, dict[str, Any]]]:
    """Yield place, name, and key and value of what clients perform beside their stream."""
    for number, op in enumerate(plan.operations):
        yield ("operations", number), op.f, {"key": op.key, "value": op.value}
    numbered = enumerate(rows if isinstance(rows, list) else ())
    places = [number for number, row in numbered if isinstance(row, dict) and "steps" in row]
    for number, strand in zip(places, plan.strands, strict=True):
        for at, step in enumerate(strand.steps):
            if step.kind == "op":
                said = {part: step.options.get(part) for part in ("key", "value")}
                place = ("schedule", number, "steps", at)
                yield place, step.options.get("f", "write"), said


def _read_script(plan: Plan, rows: Sequence[object], *, asks_for_faults: bool) -> Plan:
    """Read the rows of a schedule, and name its faults."""
    entries, strands = read_rows(rows, plan.node_names, plan.duration_s, plan.kind.traced)
    plan = replace(plan, schedule=entries, strands=strands)
    if strands:
        plan = replace(plan, node_settings={**(plan.kind.scripted or {}), **plan.node_settings})
    present = fault_kinds(plan)
    missing = [kind for kind in plan.faults if kind not in present]
    if asks_for_faults and missing:
        raise PlanError(f"faults: {missing[0]!r} is not in the schedule")
    return plan if asks_for_faults else replace(plan, faults=present)


def expectations_of(plan: Plan) -> Expectations:
    """Return a plan's expectations, with the default of a quarter of its rate and the floor."""
    possible = 0.0 if plan.strands else plan.rate_per_s * plan.duration_s
    least = Expectations(min_operations=math.floor(possible * _OK_FRACTION))
    document = {**plan.judged_by(), "expectations": {**least, **plan.expectations}}
    expected: Expectations = exercised.options_of(document)["expectations"]
    return expected


def _inventory(plan: Plan) -> Path | None:
    if plan.backend == SIM.name and plan.security.to_json():
        raise PlanError("security: messages of the simulated world cross as objects, without TLS")
    if plan.backend == "ssh" and plan.inventory is None:
        raise PlanError("backend ssh needs an inventory of hosts: --inventory FILE")
    if plan.backend != "ssh" or plan.inventory is None:
        return None  # the plan of an ssh run may be run on another backend
    return plan.inventory.absolute()

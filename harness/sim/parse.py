"""Scenario files: TOML to be written by people, JSON as failing runs are stored.

Everything is checked before anything runs: types and bounds by the annotations of
`harness.sim.scenario`, here that all that is named exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.documents import read_document
from cluster.names import unknown
from cluster.schemas import Schema, where_of
from cluster.systems.kraft import REGISTRATION
from harness.errors import ScenarioError
from harness.sim.kinds import KINDS, TARGETS
from harness.sim.scenario import Scenario, Step
from workloads.registry import WorkloadError, workload_named

_FILE_BYTES_MAX = 20_000_000
_STEPS_MAX = 10_000
_SCENARIO = Schema(Scenario, ScenarioError)


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file, TOML or JSON. Raises ScenarioError."""
    document = _document(path)
    document.setdefault("name", path.stem)
    try:
        return from_document(document)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def read_found(path: Path) -> dict[str, Any] | None:
    """Read what a scenario file says was found when it was stored. Raises ScenarioError."""
    found = _document(path).get("found")
    return found if isinstance(found, dict) else None


def _document(path: Path) -> dict[str, Any]:
    return read_document(path, "a scenario", ScenarioError, bytes_max=_FILE_BYTES_MAX)


def from_document(document: Mapping[str, Any]) -> Scenario:
    """Make a scenario from a document. Raises ScenarioError with one line."""
    stated = {key: value for key, value in document.items() if key != "found"}
    scenario = _SCENARIO.read(stated)
    try:
        load = scenario.workload
        workload_named(load.name, load.options, place=("workload", "options"))
    except WorkloadError as error:
        raise ScenarioError(str(error)) from error
    for number, operation in enumerate(scenario.workload.operations):
        if operation.node is not None and operation.node not in scenario.node_names:
            where = where_of(("workload", "operations", number))
            raise ScenarioError(f"{where}: {unknown('node', operation.node, scenario.node_names)}")
    if sum(len(strand.steps) for strand in scenario.strands) > _STEPS_MAX:
        raise ScenarioError(f"strands must have at most {_STEPS_MAX} steps in all")
    for number, strand in enumerate(scenario.strands):
        names = {*TARGETS, *(f"node:{node}" for node in scenario.node_names)}
        for place, step in enumerate(strand.steps):
            for target in _targets(step):
                if target not in names:
                    where = where_of(("strands", number, "steps", place))
                    raise ScenarioError(f"{where}: {unknown('target', target, names)}")
            names |= {f"@{name}" for name in step.options.get("names", ())}
    # A schedule was written for the messages that it names; who wants brokers says so.
    return replace(scenario, settings={REGISTRATION: 0, **scenario.settings})


def _targets(step: Step) -> Iterator[str]:
    """Return every word of a step that stands for nodes."""
    of_shape = step.kind == "partition" and step.options.get("shape", "targets") == "targets"
    if step.targets or of_shape or KINDS[step.kind].needs_targets:
        yield from step.targets.split(",")
    for link in filter(None, step.options.get("links", "").split(",")):
        yield from link.replace("-", ">").split(">")
    if step.kind == "cast":
        yield from step.options["names"].values()
    if step.until is not None:
        yield step.until.at
    if step.kind == "expect":
        yield step.options["that"].get("at", "all")

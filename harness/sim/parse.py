"""Scenario files: TOML to be written by people, JSON as failing runs are stored.

Everything is checked before anything runs; what is wrong is told in one line that names the place
and the nearest known name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from cluster.backends.sim.settings import SIM_SETTINGS, SimSettingError, SimSettings
from cluster.documents import read_document
from cluster.mutants import UnknownMutantError, find
from cluster.names import unknown
from cluster.systems.kraft import REGISTRATION, KraftSystem, SettingError
from harness.errors import ScenarioError
from harness.sim.kinds import KINDS, MESSAGE_TYPES, TARGETS, Kind, Option
from harness.sim.scenario import (
    VERSION,
    Bounds,
    Condition,
    Load,
    Scenario,
    ScriptedOp,
    Step,
    Strand,
)
from workloads.registry import WorkloadError, workload_named

_FILE_BYTES_MAX = 20_000_000
_NODES_MAX = 15
_STEPS_MAX = 10_000
_DAY_MS = 86_400_000.0
_NAMES = ("version", "seed", "name", "about", "nodes", "duration_ms", "mutant", "exposes")
_PARTS = ("settings", "world", "workload", "strands", "bounds")
T = TypeVar("T")


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file, TOML or JSON. Raises ScenarioError."""
    document = read_document(path, "a scenario", ScenarioError, bytes_max=_FILE_BYTES_MAX)
    if path.suffix == ".toml":
        document.setdefault("version", VERSION)
        document.setdefault("name", path.stem)
    try:
        return from_document(document)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def from_document(document: Mapping[str, Any]) -> Scenario:
    """Make a scenario from a document. Raises ScenarioError with one line."""
    _known("scenario key", document, (*_NAMES, *_PARTS, "found"))
    if document.get("version") != VERSION:
        raise ScenarioError(f"version must be {VERSION}, not {document.get('version')!r}")
    nodes = int(_number("nodes", document.get("nodes", 3), 1, _NODES_MAX, whole=True))
    bounds = _table(document, "bounds")
    return Scenario(
        seed=int(_number("seed", document.get("seed", 0), 0, 2**63 - 1, whole=True)),
        name=_text("name", document.get("name", "scenario")),
        about=_text("about", document.get("about", "")),
        nodes=nodes,
        duration_ms=_number("duration_ms", document.get("duration_ms", 20_000.0), 1, _DAY_MS),
        mutant=_mutant(document.get("mutant")),
        exposes=_texts("exposes", document.get("exposes", [])),
        settings=_settings(_table(document, "settings")),
        world=_world(_table(document, "world")),
        workload=_load(_table(document, "workload"), nodes),
        strands=_strands(document.get("strands", []), nodes),
        bounds=Bounds(
            **_numbers("bounds", bounds, {"liveness_ms": (1, _DAY_MS), "events_max": (1, 1e12)})
        ),
    )


def _load(told: Mapping[str, Any], nodes: int) -> Load:
    plain = ("name", "options", "concurrency", "rate_per_s", "timeout_ms", "operations")
    _known("key of workload", told, plain)
    name = _text("workload.name", told.get("name", "register"))
    options = _table(told, "options", "workload.options")
    try:
        workload_named(name, options)
    except WorkloadError as error:
        raise ScenarioError(str(error)) from error
    operations = told.get("operations", [])
    if not isinstance(operations, list):
        raise ScenarioError("workload.operations must be a list")
    concurrency = int(
        _number("workload.concurrency", told.get("concurrency", 5), 1, 1000, whole=True)
    )
    return Load(
        name=name,
        options=options,
        concurrency=concurrency,
        rate_per_s=_number("workload.rate_per_s", told.get("rate_per_s", 20.0), 0, 100_000),
        timeout_ms=_number("workload.timeout_ms", told.get("timeout_ms", 800.0), 1, 600_000),
        operations=tuple(_op(row, number, nodes) for number, row in enumerate(operations, 1)),
    )


def _op(row: Any, number: int, nodes: int) -> ScriptedOp:
    where = f"operation {number}"
    if not isinstance(row, dict) or not isinstance(row.get("f"), str):
        raise ScenarioError(f"{where} must be a table with an f")
    _known(f"key of {where}", row, ("at_ms", "worker", "f", "key", "value", "node"))
    node = row.get("node")
    if node is not None and node not in [f"n{n}" for n in range(1, nodes + 1)]:
        raise ScenarioError(f"{where}: there is no node {node!r}")
    return ScriptedOp(
        _number(f"{where}: at_ms", row.get("at_ms", 0), 0, _DAY_MS),
        int(_number(f"{where}: worker", row.get("worker", 0), 0, 999, whole=True)),
        row["f"],
        None if row.get("key") is None else _text(f"{where}: key", row["key"]),
        row.get("value"),
        node,
    )


def _strands(rows: Any, nodes: int) -> tuple[Strand, ...]:
    if not isinstance(rows, list):
        raise ScenarioError("strands must be a list")
    strands = []
    steps = 0
    for number, row in enumerate(rows, 1):
        where = f"strand {number}"
        if not isinstance(row, dict) or not isinstance(row.get("steps", []), list):
            raise ScenarioError(f"{where} must be a table with a list of steps")
        _known(f"key of {where}", row, ("at_ms", "steps"))
        steps += len(row.get("steps", []))
        if steps > _STEPS_MAX:
            raise ScenarioError(f"a scenario has at most {_STEPS_MAX} steps")
        names: set[str] = set()
        parsed = tuple(
            _step(step, f"{where}, step {place}", nodes, names)
            for place, step in enumerate(row.get("steps", []), 1)
        )
        at_ms = _number(f"{where}: at_ms", row.get("at_ms", 0), 0, _DAY_MS)
        strands.append(Strand(at_ms, parsed))
    return tuple(strands)


_STEP_FIELDS = ("kind", "after_ms", "targets", "for_ms", "until", "within_ms", "strict")


def _step(row: Any, where: str, nodes: int, names: set[str]) -> Step:
    if not isinstance(row, dict):
        raise ScenarioError(f"{where} must be a table")
    named = row.get("kind", "")
    kind = KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise ScenarioError(f"{where}: {unknown('kind', str(row.get('kind')), KINDS)}")
    known = dict(kind.options)
    _known(f"key of {where}", row, (*_STEP_FIELDS, *known))
    options = {key: row[key] for key in known if key in row}
    for key, value in options.items():
        _check_option(f"{where}: {key}", known[key], value)
    if kind.name == "cast":
        _cast(options, where, nodes, names)
    _check_words(kind, row, options, where, nodes, names)
    if row.get("for_ms") is not None and not kind.takes_for:
        raise ScenarioError(f"{where}: a {kind.name} takes no for_ms")
    until = None if row.get("until") is None else condition(row["until"], where, nodes, names)
    if kind.name == "expect":
        condition(options.get("that"), where, nodes, names)
    for_ms = row.get("for_ms")
    return Step(
        kind=kind.name,
        after_ms=_number(f"{where}: after_ms", row.get("after_ms", 0), 0, _DAY_MS),
        targets=str(row.get("targets", "")),
        for_ms=None if for_ms is None else _number(f"{where}: for_ms", for_ms, 0, _DAY_MS),
        until=until,
        within_ms=_number(f"{where}: within_ms", row.get("within_ms", 10_000.0), 0, _DAY_MS),
        strict=bool(row.get("strict", False)),
        options=options,
    )


def _cast(options: Mapping[str, Any], where: str, nodes: int, names: set[str]) -> None:
    told = options.get("names")
    if not isinstance(told, dict) or not told:
        raise ScenarioError(f"{where}: a cast needs names, such as {{A = 'leader'}}")
    for name, target in told.items():
        _check_target(f"{where}: {name}", target, nodes, names)
        names.add(name)


def condition(told: Any, where: str, nodes: int, names: set[str]) -> Condition:
    """Make a condition from its table. Raises ScenarioError."""
    if not isinstance(told, dict) or not told:
        raise ScenarioError(f"{where}: a condition is a table that says something")
    known = tuple(field.name for field in fields(Condition))
    _known(f"key of the condition of {where}", told, known)
    _check_target(f"{where}: at", told.get("at", "all"), nodes, names)
    for key in ("event", "state", "not_state", "ok", "ended"):
        if not isinstance(told.get(key, ""), str):
            raise ScenarioError(f"{where}: {key} must be a string")
    if told.get("epoch") not in (None, "same", "later"):
        raise ScenarioError(f"{where}: epoch must be 'same' or 'later'")
    if not isinstance(told.get("where", {}), dict):
        raise ScenarioError(f"{where}: where must be a table")
    return Condition(**told)


def _check_words(
    kind: Kind,
    row: Mapping[str, Any],
    options: Mapping[str, Any],
    where: str,
    nodes: int,
    names: set[str],
) -> None:
    targets = row.get("targets", "")
    needs = kind.needs_targets or (
        kind.name == "partition" and options.get("shape", "targets") == "targets"
    )
    if needs or targets:
        for target in str(targets).split(","):
            _check_target(f"{where}: targets", target, nodes, names)
    for link in filter(None, options.get("links", "").split(",")):
        ends = link.replace("-", ">").split(">")
        if len(ends) != 2:
            raise ScenarioError(f"{where}: a link is written @A>@B or @A-@B, not {link!r}")
        for end in ends:
            _check_target(f"{where}: links", end, nodes, names)
    for name in filter(None, options.get("types", "").split(",")):
        if name not in MESSAGE_TYPES:
            raise ScenarioError(f"{where}: {unknown('type of message', name, MESSAGE_TYPES)}")


def _check_target(where: str, target: Any, nodes: int, names: set[str]) -> None:
    known = (
        *TARGETS,
        *(f"node:n{number}" for number in range(1, nodes + 1)),
        *(f"@{name}" for name in sorted(names)),
    )
    if target not in known:
        raise ScenarioError(f"{where}: {unknown('target', str(target), known)}")


def _check_option(where: str, option: Option, value: Any) -> None:
    types = option.type if isinstance(option.type, tuple) else (option.type,)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ScenarioError(f"{where} cannot be {value!r}")
    if option.choices and value not in option.choices:
        raise ScenarioError(f"{where}: {unknown('value', str(value), option.choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _number(where, value, option.least, option.most)


def _world(told: Mapping[str, Any]) -> SimSettings:
    try:
        return SIM_SETTINGS.read(told, place=("world",))
    except SimSettingError as error:
        raise ScenarioError(str(error)) from error


def _settings(told: Mapping[str, Any]) -> Mapping[str, int]:
    try:
        KraftSystem(told)
    except SettingError as error:
        raise ScenarioError(str(error)) from error
    # A schedule was written for the messages that it names; who wants brokers says so.
    return {REGISTRATION: 0, **told}


def _mutant(told: Any) -> str | None:
    if told is None:
        return None
    try:
        return find(_text("mutant", told)).id
    except UnknownMutantError as error:
        raise ScenarioError(str(error)) from error


def _known(what: str, told: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in told:
        if key not in known:
            raise ScenarioError(unknown(what, key, known))


def _table(told: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
    value = told.get(key, {})
    if not isinstance(value, dict):
        raise ScenarioError(f"{where or key} must be a table")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10_000:
        raise ScenarioError(f"{where} must be a string")
    return value


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ScenarioError(f"{where} must be a list of strings")
    return tuple(_text(where, item) for item in value)


def _numbers(
    where: str, told: Mapping[str, Any], limits: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    _known(f"key of {where}", told, tuple(limits))
    return {
        key: _number(f"{where}.{key}", value, *limits[key], whole=key == "events_max")
        for key, value in told.items()
    }


def _number(where: str, value: Any, least: float, most: float, *, whole: bool = False) -> float:
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise ScenarioError(f"{where} must be {kind} from {least:g} to {most:g}, not {value!r}")
    return int(value) if whole else float(value)

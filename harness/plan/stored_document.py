"""What a run stores as `plan.json`: its plan, its checks, and the versions that it ran with."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Any, Final

from checkers.nodes import durability, isr, records, upgrades
from checkers.registry import CheckSpec, find_check
from checkers.runs import answers, exercised
from cluster.backends.registry import SIM
from cluster.node.kraft.quorum.config import CHECK_QUORUM_FETCH_TIMEOUTS
from cluster.systems.kafka.kafka_system import NAME as KAFKA
from cluster.systems.kafka.kafka_system import SESSION_TIMEOUT
from cluster.systems.kafka.kafka_system import SETTINGS as KAFKA_SETTINGS
from cluster.systems.kraft import FETCH_TIMEOUT, NODE_SETTINGS
from harness.errors import WrongAnswerError, is_expected, one_line
from harness.plan.document import from_document
from harness.plan.plan import Plan, parameters_in
from harness.source_digest import source_digest
from results.store.files import StoreError
from workloads.registry import WORKLOADS

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NOT_DERIVED = frozenset({"versions", "command", "run"})
"""Fields of a stored plan that record when and how it was made; they decide nothing."""
_ONE_CLOCK: Final = frozenset({"local", "netns", "sim"})
"""Backends with nodes that read the harness's clock: those of its kernel, or of its world.

An engine of containers may run on another kernel (a virtual machine), and hosts are others.
"""


def checks_for(plan: Plan) -> tuple[CheckSpec, ...]:
    """List the checks of a run of this plan. Raises CheckError and WrongAnswerError."""
    traced, whole = plan.kind.traced, list(plan.whole_traces)
    of_traces = {} if traced is None else {"traced": sorted(traced)}
    of_starts = {"starts": _starts(plan), "pids": plan.backend in _ONE_CLOCK - {SIM.name}}
    of_answers = {
        "timeout_ms": float(plan.operation_timeout_ms),
        "one_clock": plan.backend in _ONE_CLOCK,
    }
    brokers = plan.nodes_at("CLIENT")
    # What serves no clients has no state that they could read in the end.
    serving = {} if brokers == plan.node_names else {"nodes": list(brokers)}
    # Of a mixed quorum the longer one.
    default = (KAFKA_SETTINGS if plan.system == KAFKA else NODE_SETTINGS)[SESSION_TIMEOUT]
    session_ms = int(plan.node_settings.get(SESSION_TIMEOUT, default))
    given: dict[str, dict[str, Any]] = {
        durability.NAME: serving,
        isr.NAME: {"session_ms": session_ms},
    }
    of_logs = (
        CheckSpec("log-agreement"),
        CheckSpec("snapshots"),
        CheckSpec(records.NAME, {"workload": plan.workload, **of_answers, **of_traces, **serving}),
        CheckSpec("invariants", of_traces | of_starts | ({"whole": whole} if whole else {})),
        *_of_upgrades(plan, session_ms),
        *([CheckSpec(isr.NAME)] if WORKLOADS[plan.workload].creates_partitions else []),
    )
    # Of what is no metadata quorum no file is stored, but its trace, where it has events of raft.
    of_traces_alone = [CheckSpec("invariants", {**of_traces, "files": False})] if traced else []
    workload = plan.make_workload()
    of_workload: Any = workload.checks(reads_lag=plan.kind.reads_lag)
    if not isinstance(of_workload, tuple) or not {*map(type, of_workload)} <= {CheckSpec}:
        raise WrongAnswerError(workload, of_workload)
    specs = (
        *of_workload,
        *([CheckSpec("monitor")] if plan.strands else []),
        *(of_logs if plan.kind.metadata_quorum else of_traces_alone),
        CheckSpec(answers.NAME),
        CheckSpec(exercised.NAME, exercised.options_of(plan.judged_by())),
        CheckSpec("statistics"),
    )
    complete = tuple(CheckSpec(s.name, {**s.options, **given.get(s.name, {})}) for s in specs)
    for spec in complete:
        find_check(spec)
    return complete


def _of_upgrades(plan: Plan, session_ms: int) -> Iterator[CheckSpec]:
    """List the check of upgrades, for a plan that has any."""
    kinds = (upgrades.UPGRADE, upgrades.FINALIZE)
    steps = {kind: len(parameters_in(plan, kind)) for kind in kinds}
    if any(steps.values()):
        yield CheckSpec(upgrades.NAME, {"steps": steps, "session_ms": session_ms})


def _starts(plan: Plan) -> dict[str, Any]:
    """Return what the plan has of the fields of a `start`, where nodes trace them."""
    settings = {**NODE_SETTINGS, **plan.node_settings}
    if plan.kind.traced is not None and not plan.whole_traces:
        return {}
    timeout_ms = CHECK_QUORUM_FETCH_TIMEOUTS * int(settings[FETCH_TIMEOUT])
    return {"mutant": plan.mutant, "check_quorum_timeout_ms": timeout_ms}


def plan_document(
    plan: Plan, run: str, command: str, started: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """Render everything that `plan.json` holds; `started`: versions of what the nodes run."""
    document = plan.judged_by()
    return {
        **document,
        "run": run,
        "expectations": exercised.options_of(document)["expectations"],
        "checks": [{"name": spec.name, "options": spec.options} for spec in checks_for(plan)],
        "versions": {**versions(), **started},
        **({"made_of": plan.kind.made_of} if plan.kind.made_of else {}),
        "command": command,
    }


def derive(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Derive a stored plan's fields again from those that decide a run.

    Raises StoreError when this version refuses the plan.
    """
    try:
        made = plan_document(from_document(plan), str(plan.get("run")), "")
    except Exception as error:
        if not is_expected(error):
            raise
        raise StoreError(f"its plan is none that this version runs: {one_line(error)}") from error
    return {key: value for key, value in made.items() if key not in _NOT_DERIVED}


_PACKAGES = ("kraftprobe", "pyspark", "pyarrow", "pandas", "numpy", "kio", "aiokafka")


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and packages, the platform, and the number of processors.

    `code` is a digest of the sources of Kraftprobe, which a release's number does not distinguish.
    """
    found = {
        "code": source_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    found["cpus"] = str(os.cpu_count())
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found

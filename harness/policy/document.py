"""A policy file: TOML, checked as plans are; a mistake is one line with place and nearest name.

| table | what it says |
|---|---|
| (top) | `version` (1); `judge_again`, `allow_skipped`, `allow_no_faults`, `no_canary`: options |
| `[each]` | what every run must be, and keep; a run that does not closes the gate |
| `[[require]]` | what must be among the runs: so many that match, on so many seeds, with faults |
| `[[canary]]` | a run of a mutant that must be there and must have FAILed |
| `[baseline]` | runs of an earlier build, to which no figure may have got worse beyond noise |

Files and folders in it are relative to the policy's own folder. docs/gate.md has each key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from checkers.earned import EARNED
from checkers.registry import CHECKS
from cluster.backends.registry import BACKENDS
from cluster.documents import read_document
from cluster.mutants import find
from cluster.names import unknown
from cluster.schemas import Flag, Schema, Text
from cluster.systems.registry import system_named
from cluster.values import valueclass
from harness.errors import UsageError
from harness.plan.field_types import Mutant, Nodes, Version
from harness.plan.schedule import FaultName
from results.catalogue.comparison import FIGURES
from workloads.registry import WORKLOADS

_COUNT_MAX = 10**9
_SECONDS_MAX = 7 * 86_400.0
_HOURS_MAX = 10 * 366 * 24.0


class PolicyError(UsageError):
    """The policy cannot be used; one line says why."""


def _validate_names(kind: str, names: Collection[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(unknown(kind, name, names))
        return name

    return AfterValidator(check)


Backend = Annotated[str, _validate_names("backend", tuple(BACKENDS))]
CheckName = Annotated[str, _validate_names("check", (*CHECKS, EARNED))]
Workload = Annotated[str, _validate_names("workload", tuple(WORKLOADS))]
System = Annotated[str, AfterValidator(lambda name: system_named(name).name)]
Figure = Annotated[str, _validate_names("figure", tuple(FIGURES))]
Count = Annotated[int, Field(strict=True, ge=0, le=_COUNT_MAX)]
AtLeastOne = Annotated[int, Field(strict=True, ge=1, le=_COUNT_MAX)]
Seconds = Annotated[float, Field(strict=True, ge=0.001, le=_SECONDS_MAX)]
Hours = Annotated[float, Field(strict=True, ge=0.001, le=_HOURS_MAX)]
Level = Annotated[float, Field(strict=True, ge=1e-6, le=0.5)]
_SOME = Field(min_length=1, description="a list of at least one; leave out what is not asked for")
Tolerance = Annotated[float, Field(strict=True, ge=0, le=100)]


@valueclass(kw_only=True)
class Each:
    """What every run must be and keep. A missing list, and a missing limit, ask for nothing."""

    campaigns: Annotated[tuple[Text, ...], _SOME] = ()
    systems: Annotated[tuple[System, ...], _SOME] = ()
    backends: Annotated[tuple[Backend, ...], _SOME] = ()
    builds: Annotated[tuple[Text, ...], _SOME] = ()
    """Patterns, of which one must match a name of the build under test (results.store.facts)."""
    age_max_h: Hours | None = None
    operations_min: Count = 0
    """That were ok."""
    leader_changes_min: Count = 0
    unavailability_max_s: Seconds | None = None
    recovery_max_s: Seconds | None = None
    signed_by: Annotated[tuple[Text, ...], _SOME] = ()
    """Principals of whom one must have signed the run (ssh-keygen -Y sign)."""
    allowed_signers: Text | None = None
    """The file with their public keys."""


@valueclass(kw_only=True)
class Require:
    """What must be among the runs: those that match every key that is given."""

    campaign: Text | None = None
    workload: Workload | None = None
    system: System | None = None
    backend: Backend | None = None
    build: Text | None = None
    nodes: Nodes | None = None
    runs: AtLeastOne = 1
    seeds: AtLeastOne = 1
    """How many different ones."""
    faults: Annotated[tuple[FaultName, ...], _SOME] = ()
    """Each of which bit in at least one of these runs."""
    operations: Count = 0
    leader_changes: Count = 0


@valueclass(kw_only=True)
class Canary:
    """A run of a mutant that must have FAILed."""

    mutant: Mutant
    campaign: Text | None = None
    check: CheckName | None = None
    """The check that must have found it; None: any."""


@valueclass(kw_only=True)
class Baseline:
    """Runs of an earlier build, and what counts as worse."""

    runs: Annotated[tuple[Text, ...], Field(min_length=1, description="a list of folders")]
    figures: Annotated[tuple[Figure, ...], _SOME] = (
        "write_p99_ms",
        "read_p99_ms",
        "throughput_per_s",
        "unavailability_s",
        "recovery_s",
    )
    level: Level = 0.05
    """Probability of a false alarm, over all comparisons together."""
    tolerance: Tolerance = 0.1
    """A shift by less than this share is of no interest, however certain it is."""


@valueclass(kw_only=True)
class Policy:
    """A policy whose every part was checked. Made by `read_policy`."""

    version: Version = 1
    about: Text = ""
    judge_again: Flag = False
    allow_skipped: Flag = False
    allow_no_faults: Flag = False
    no_canary: Flag = False
    each: Each = Each()
    require: Annotated[tuple[Require, ...], _SOME] = ()
    canary: Annotated[tuple[Canary, ...], _SOME] = ()
    baseline: Baseline | None = None

    @property
    def canaries(self) -> frozenset[str]:
        """Identifiers of the mutants of which runs are wanted."""
        return frozenset(find(canary.mutant).id for canary in self.canary)


_POLICY = Schema(Policy, PolicyError)


def read_policy(path: Path) -> Policy:
    """Read and check a policy, its paths made relative to where we are.

    A policy that lost its content would let everything pass, so one that asks for nothing is none.

    Raises PolicyError, one line that begins with the path.
    """
    try:
        document = read_document(path, "a policy", PolicyError)
        policy = _POLICY.read(document)
        _refuse_empty(document, policy)
    except PolicyError as error:
        said = str(error)
        raise PolicyError(said if said.startswith(f"{path}: ") else f"{path}: {said}") from error

    def beside(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(path.parent / name) for name in names)

    each = policy.each
    if (each.allowed_signers is None) != (not each.signed_by):
        raise PolicyError(f"{path}: each: signed_by and allowed_signers go together")
    if each.allowed_signers is not None:
        each = replace(each, allowed_signers=str(path.parent / each.allowed_signers))
    baseline = policy.baseline
    if baseline is not None:
        baseline = replace(baseline, runs=beside(baseline.runs))
    return replace(policy, each=each, baseline=baseline)


def _refuse_empty(document: Mapping[str, Any], policy: Policy) -> None:
    """Raise PolicyError for a policy without a version, or that asks for nothing."""
    if "version" not in document:
        raise PolicyError("version is missing: a policy begins with version = 1")
    if "each" in document and policy.each == Each():
        raise PolicyError("each asks for nothing: say what, or leave it out")
    asked = (policy.judge_again, policy.each != Each(), policy.require, policy.canary)
    if not any(asked) and policy.baseline is None:
        raise PolicyError("it asks for nothing: say what every run must be, or which must be there")

"""What a gate's policy asks about a run, recomputed from its plan and its journal.

Nothing here is believed: the plan is what the chain of digests says was recorded, and every figure
is counted in the journal. Times are seconds and milliseconds of the run's own clock; the moment at
which the run began is in its name, which is part of its plan.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkers.history import INFINITY_NS, Event, EventType, Operation
from checkers.history.recorded import columns_of, ended_ns
from checkers.run_input import RunInput
from checkers.runs.faults import HEAL, phases
from checkers.runs.statistics import READS, figures_of, waited_until
from porcupine_py.columns import OK, Int64s

_STARTED = re.compile(r"(\d{8}T\d{6}Z)-")
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one run, or of a batch of simulated seeds as a whole."""

    campaign: str
    workload: str | None
    """None: of each seed of a batch another."""
    system: str
    builds: tuple[str, ...]
    """Every name of the build under test: in full first, then version, commit, image, digest."""
    backend: str
    nodes: int | None
    mutant: str | None
    seeds: tuple[int, ...]
    started: dt.datetime | None
    """When the run began, in UTC; None where its name does not say."""
    duration_s: float
    ok: int
    leader_changes: int
    faults: Mapping[str, int]
    """Kind -> how many bit."""
    asked: str = ""
    """Digest of what its plan asks for (`results.store.facts.asked_of`)."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """By the names of `catalogue.comparison.FIGURES`, without those that the run does not have."""
    of_seeds: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Of a batch: seed -> operations that were ok, and leader changes, of its world."""
    signer: str | None = None
    """Principal who signed the run, of those that were asked for."""
    unsigned: str = ""
    """Why there is no signer."""

    @property
    def build(self) -> str:
        """The build under test, for a person."""
        return self.builds[0] if self.builds else "of no known build"

    @property
    def stratum(self) -> Stratum:
        """What the run did."""
        plan = self.asked
        return Stratum(self.campaign, self.workload, self.system, self.backend, self.nodes, plan)


def facts_of(
    plan: Mapping[str, Any], run: RunInput, tried: Mapping[str, Any], *, measure: bool
) -> Facts:
    """Collect the facts of a run, with its figures if it is to be measured.

    `tried`: statistics of the check `exercised`, counted anew.
    """
    seed, nodes = plan.get("seed"), plan.get("nodes")
    return Facts(
        campaign=str(plan.get("campaign")),
        workload=str(plan.get("workload")),
        system=str(plan.get("system", "kraft")),
        builds=builds_of(plan),
        backend=str(plan.get("backend")),
        nodes=nodes if isinstance(nodes, int) else None,
        mutant=None if plan.get("mutant") is None else str(plan["mutant"]),
        seeds=(seed,) if isinstance(seed, int) else (),
        started=started_of(str(plan.get("run"))),
        duration_s=float(tried["duration_s"]),
        ok=int(tried["ok"]),
        leader_changes=int(tried["leader_changes"]),
        faults=dict(tried["faults_verified"]),
        asked=asked_of(plan),
        figures=_figures(run) if measure else {},
    )


def builds_of(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the build under test in every way that a policy may name it.

    `versions` of a plan holds "VERSION, commit ID, image NAME sha256:..." under the system's name.
    Nodes of the system `kraft` outside of an image run the code that ran the harness. What `run
    --build` said, under "build", comes beside what was found, never in its place.
    """
    versions = plan.get("versions")
    if not isinstance(versions, dict):
        return ()
    system = str(plan.get("system", "kraft"))
    parts_of = {"mixed": ("kraft", "apache-kafka")}.get(system, (system,))
    said = [versions[name] for name in parts_of if name in versions]
    if not said and system == "kraft" and "kraftprobe" in versions:
        code = versions.get("code")
        said = [f"{versions['kraftprobe']}{'' if code is None else f', code {code}'}"]
    names: list[str] = []
    for text in dict.fromkeys(map(str, said)):
        names += [text, *_parts(text)]
    if "image" in versions:
        names += [str(versions["image"]), *str(versions["image"]).rsplit(" ", 1)]
    if "build" in versions:
        text = str(versions["build"])
        whole = f"{names[0]}, build {text}" if names else text
        names = [whole, *names, text, *_parts(text)]
    return tuple(dict.fromkeys(names))


def _parts(text: str) -> list[str]:
    """Return what stands between commas, without a word such as `commit` before it."""
    parts = [part.strip() for part in text.split(",")]
    return [part.partition(" ")[2] or part for part in parts]


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Return whether a pattern matches one of these names: `*` and `?` stand for any, no more."""
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for name in names)


def started_of(run: str) -> dt.datetime | None:
    """Return when a run of this name began."""
    match = _STARTED.match(run)
    if match is None:
        return None
    try:
        return dt.datetime.strptime(match[1], "%Y%m%dT%H%M%S%z")
    except ValueError:
        return None


def _figures(run: RunInput) -> dict[str, float]:
    figures = figures_of(run)
    found = {"throughput_per_s": float(figures["throughput_per_s"])}
    done = [operation for operation in run.operations if operation.type is EventType.OK]
    for kind, is_read in (("read", True), ("write", False)):
        took_ms = [(o.complete_ns - o.invoke_ns) / 1e6 for o in done if (o.f in READS) is is_read]
        if took_ms:
            p50, p99 = np.percentile(took_ms, (50, 99), method="inverted_cdf")
            found |= {f"{kind}_p50_ms": float(p50), f"{kind}_p99_ms": float(p99)}
    end_ns = load_end_ns(run.notes)
    columns = columns_of(run.operations)
    ends_ns = ended_ns(run.operations, run.events)
    points = served_points(
        columns.invoke_ns, columns.complete_ns, ends_ns, columns.type == OK, end_ns
    )
    if len(points):
        # Reads that are served, maybe stale, do not end an outage of writes.
        writes = figures["longest_write_outage"] or {"duration_ms": 0.0}
        outage_s = writes["duration_ms"] / 1000
        found["unavailability_s"] = max(int(np.diff(points).max()) / _NS_PER_S, outage_s)
    recoveries = _recoveries_s(figures["recoveries"], run.operations)
    if recoveries:
        found["recovery_s"] = max(recoveries)
    return found


def load_end_ns(events: Sequence[Event]) -> int:
    """Return when clients stopped for the heal: later nobody asks, and nothing can be unavailable.

    Without such a mark (another tool's journal) the load lasts to the end.
    """
    return next((at_ns for name, at_ns in phases(events) if name == HEAL), INFINITY_NS)


def served_points(
    invoke_ns: Int64s, complete_ns: Int64s, ends_ns: Int64s, ok: NDArray[np.bool_], stop_ns: int
) -> Int64s:
    """Return the times between which clients asked, and nothing was served; empty: nobody asked.

    The first invocation, each `ok` completion in order, and when clients waited no more for what
    they had invoked before `stop_ns`. `ends_ns`: see `checkers.runs.statistics.waited_until`.
    """
    asked = invoke_ns <= stop_ns
    if not asked.any():
        return np.zeros(0, np.int64)
    done = np.sort(complete_ns[asked & ok])
    waited_ns = waited_until(invoke_ns[asked], ends_ns[asked], stop_ns)
    last_ns = max([int(waited_ns.max()), *done[-1:].tolist()])
    return np.concatenate([[invoke_ns[asked].min()], done, [last_ns]])


def _recoveries_s(
    recoveries: Sequence[Mapping[str, Any]], operations: Sequence[Operation]
) -> list[float]:
    """Return how long each recovery took, and of each that did not come how long it was awaited.

    The last is what is certain: a fault after the last write was not recovered from by a write, and
    nobody had waited for it.
    """
    last_ns = max((o.invoke_ns for o in operations if o.f not in READS), default=0)
    found = []
    for recovery in recoveries:
        took_ms = recovery["recovery_ms"]
        awaited_s = max(0.0, (last_ns - recovery["at_ns"]) / _NS_PER_S)
        found.append(awaited_s if took_ms is None else took_ms / 1000)
    return found


class Stratum(NamedTuple):
    """What a run did. Runs of one stratum did the same and can be compared."""

    campaign: str
    workload: str | None
    """None: of each seed of a batch another."""
    system: str
    backend: str
    nodes: int | None
    plan: str
    """Digest of what else its plan asks for (`asked_of`)."""

    def __str__(self) -> str:
        campaign, workload, system, backend, nodes, plan = self
        what = f"campaign {campaign}, {workload} on {nodes} nodes of {system}, backend {backend}"
        return f"{what}, plan {plan}"


_ASIDE = frozenset(
    {
        *("run", "seed", "about", "exposes"),  # what it is called
        *("versions", "system_options"),  # which build: what is compared
        *("checks", "command", "leaderless", "mutant"),  # from the rest, or no observation
    }
)


def asked_of(plan: Mapping[str, Any]) -> str:
    """Digest what a plan asks for, but for its name and seed, and the build that it runs.

    Of a schedule that was drawn from the seed only the kinds of fault count. Its entries are known
    by their alternatives, which nobody writes by hand.
    """
    asked = {name: value for name, value in plan.items() if name not in _ASIDE}
    schedule = asked.get("schedule")
    if isinstance(schedule, list):
        rows = [row for row in schedule if isinstance(row, dict)]
        drawn = sorted({str(row.get("fault")) for row in rows if "alternatives" in row})
        asked["schedule"] = [drawn, [row for row in rows if "alternatives" not in row]]
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def by_stratum(
    runs: Iterable[tuple[Stratum, Mapping[str, float]]],
) -> dict[Stratum, dict[str, list[float]]]:
    """Collect each figure of the runs of each stratum, by name; a run may lack any."""
    found: dict[Stratum, dict[str, list[float]]] = {}
    for stratum, figures in runs:
        samples = found.setdefault(stratum, {})
        for name, value in figures.items():
            samples.setdefault(name, []).append(value)
    return found

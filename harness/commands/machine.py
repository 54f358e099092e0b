"""`doctor` and `cleanup`: what this machine can do, and what was left on it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cluster.backends.base import BackendError
from cluster.backends.cleanup import (
    Leftover,
    abandoned_mounts,
    abandoned_trials,
    clean,
    find_leftovers,
    remove_trial,
)
from cluster.backends.docker.engine import connect, engine_expected
from cluster.backends.docker.leftovers import find_things, remove_things
from cluster.backends.machine.mounts import heal, unmount
from cluster.backends.processes.records import has_harness
from cluster.backends.registry import BACKENDS
from cluster.backends.ssh.leftovers import abandoned_hosts, clean_host
from harness.commands.options import Command, json_option, runs_option, shown_options
from harness.doctor.examination import examine, explain, shortcomings, tables
from harness.errors import EXIT_USAGE, UsageError
from harness.terminal.answers import Shown, answer, print_document
from harness.terminal.progress import Steps, console_of


@click.command(cls=Command)
@json_option
@click.option(
    "--backend",
    "backends",
    type=click.Choice(list(BACKENDS)),
    multiple=True,
    help="Only this backend; may be repeated.  [default: all]",
)
@click.option("--inventory", metavar="FILE", help="TOML file that names the hosts of backend ssh.")
def doctor(*, as_json: bool, backends: tuple[str, ...], inventory: str | None) -> int:
    """Probe what works on this machine: each fault on each backend is tried.

    Exit code 0 when campaigns can run on one of the backends here, else 2.
    """
    if inventory is not None and "ssh" not in (backends or BACKENDS):
        raise UsageError("--inventory names the hosts of --backend ssh, which is not examined")
    steps = Steps(console_of(Shown.JSON if as_json else Shown.LINES))
    found = examine(backends or BACKENDS, inventory, steps)
    if as_json:
        print_document(found.to_json())
    else:
        for what, probe in found.machine.items():
            click.echo(f"{'yes' if probe.possible else 'NO '}  {what}: {explain(probe)}")
        console = Console(soft_wrap=True)
        for table in tables(found):
            console.print()
            console.print(table)
        console.print()
        for line in shortcomings(found):
            click.echo(line)
    return 0 if found.can_run else EXIT_USAGE


@click.command(cls=Command)
@runs_option
@click.option(
    "--run", "run_id", metavar="ID", help="Only this run, even if its harness still lives."
)
@click.option(
    "--all", "everywhere", is_flag=True, help="Runs of every folder, not of --runs alone."
)
@shown_options(
    json="Print a list of what was found, and whether it is gone.",
    quiet="Print nothing but what stays, on stderr.",
)
def cleanup(runs: Path, run_id: str | None, *, everywhere: bool, shown: Shown) -> int:
    """Remove what killed runs left behind, and nothing else.

    Processes, containers, their networks, mounts, files on ssh hosts, folders of probes.
    """
    where = None if everywhere else runs
    found = _Found(shown)
    leftovers = find_leftovers(where, run_id)
    ending = {}
    for leftover in leftovers:
        command, pid = leftover.command or "?", str(leftover.identity.pid)
        line = f"ending {pid} of run {leftover.run_id}: {command}"
        ending[leftover.identity] = found.note(line, "process", pid, leftover.run_id)
    # A node's mounts and helpers end after the node: else it would log a failing disk.
    mounts = abandoned_mounts(where, run_id)
    for mount in mounts:
        heal(mount)
    clean(leftover for leftover in leftovers if not leftover.supports)
    contained = any(leftover.contained for leftover in leftovers)
    _clean_containers(where, run_id, found, contained=contained)
    for mount in mounts:
        name = str(mount.folder)
        row = found.note(f"unmounting {name} of run {mount.run_id}", "mount", name, mount.run_id)
        if not unmount(mount):
            found.stays(row, f"{name} stays mounted")
    for leftover in clean(leftovers):
        found.stays(ending[leftover.identity], f"process {leftover.identity.pid} does not end")
    _clean_hosts(runs, run_id, found)
    for folder in [] if run_id is not None else abandoned_trials():
        gone = remove_trial(folder)
        action = "removing" if gone else "could not remove all of"
        found.note(f"{action} {folder}", "folder", str(folder))["gone"] = gone
    others = _not_healed(runs, run_id)
    others += [] if everywhere else _elsewhere(leftovers, run_id)
    answer(shown, found.rows, [] if found.rows or others else ["nothing was left behind"])
    for line in others:
        click.echo(f"kraftprobe: {line}", err=True)
    return EXIT_USAGE if found.some_stay else 0


def _elsewhere(known: Collection[Leftover], run_id: str | None) -> list[str]:
    """Name the runs of other folders whose nodes outlived their harness; they are left alone."""
    ids = {leftover.identity for leftover in known}
    others = [each for each in find_leftovers(None, run_id) if each.identity not in ids]
    lines = []
    for run, count in sorted(Counter(leftover.run_id for leftover in others).items()):
        commands = " ".join(leftover.command for leftover in others if leftover.run_id == run)
        place = re.search(rf"(/\S*)/[^/\s]+/{re.escape(run)}(?=[/\s]|$)", commands)
        where = "--all" if place is None else f"--runs {shlex.quote(place[1])}"
        command = f"kraftprobe cleanup {where} --run {run}"
        lines.append(f"run {run} of another folder left {count} processes behind: {command}")
    return lines


def _not_healed(runs: Path, run_id: str | None) -> list[str]:
    """Name the faults of stored runs with heals that did not work: what they changed may be there.

    Only a run whose harness was killed is asked by its journal; judging said it of the others.
    """
    # numpy takes longer to import than all else takes here
    from checkers.earned import EARNED, FAULTS_HEALED  # noqa: PLC0415
    from checkers.history import HistoryError  # noqa: PLC0415
    from checkers.runs.faults import not_healed  # noqa: PLC0415
    from results.store.files import StoreError  # noqa: PLC0415
    from results.store.run_store import list_runs  # noqa: PLC0415

    lines = []
    for store in list_runs(runs):
        if run_id not in (None, store.name) or has_harness(store.folder):
            continue
        try:
            stored = [check for check in store.read_results().checks if check.checker == EARNED]
            left = [
                str(row.get("explanation"))
                for check in stored
                for row in check.anomalies
                if row.get("kind") == FAULTS_HEALED.name
            ]
        except StoreError:
            try:
                left = not_healed(store.events(), tried=True)
            except (StoreError, HistoryError):
                continue
        lines += [f"run {store.name}: {sentence}" for sentence in left]
    return lines


class _Found:
    """What was found: a row for each thing."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.rows: list[dict[str, Any]] = []
        self.some_stay = False

    def note(self, line: str, kind: str, name: str, run: str | None = None) -> dict[str, Any]:
        """Note a thing that is about to be removed; `line` says so. Returns its row."""
        if self._shown is Shown.LINES:
            click.echo(line)
        self.rows.append({"kind": kind, "name": name, "run": run, "gone": True})
        return self.rows[-1]

    def stays(self, row: dict[str, Any], line: str) -> None:
        """Report that a thing could not be removed."""
        row["gone"], self.some_stay = False, True
        click.echo(f"kraftprobe: {line}", err=True)


def _clean_containers(
    runs: Path | None, run_id: str | None, found: _Found, *, contained: bool
) -> None:
    """Remove what runs left in the docker engine.

    `contained`: processes of containers were found, so there must be containers.
    """
    if not engine_expected():
        return
    try:
        client = connect()
    except BackendError as error:
        again = "; then run cleanup again, since containers are left" if contained else ""
        click.echo(f"kraftprobe: containers were not examined: {error}{again}", err=True)
        found.some_stay |= contained
        return
    try:
        rows = {}
        for thing in find_things(client, runs, run_id):
            line = f"removing {thing.kind} {thing.name} of run {thing.run_id}"
            rows[thing] = found.note(line, thing.kind, thing.name, thing.run_id)
        for thing in remove_things(client, list(rows)):
            found.stays(rows[thing], f"{thing.kind} {thing.name} stays")
    finally:
        client.close()


def _clean_hosts(runs: Path, run_id: str | None, found: _Found) -> None:
    """Clean the ssh hosts that runs used."""
    hosts = list(abandoned_hosts(runs, run_id))
    unclean = set()
    for host in hosts:
        line = f"cleaning {host.node} ({host.entry.where}) of run {host.run_id}"
        row = found.note(line, "host", host.entry.where, host.run_id)
        if reason := clean_host(host):
            found.stays(row, reason)
            unclean.add(host.stored)
    for stored in {host.stored for host in hosts} - unclean:
        stored.unlink()

"""`doctor` and `cleanup`: what this machine can do, and what was left on it."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from cluster.backends.base import BackendError
from cluster.backends.cleanup import abandoned_mounts, clean, find_leftovers
from cluster.backends.docker.engine import connect, engine_expected
from cluster.backends.docker.leftovers import find_things, remove_things
from cluster.backends.machine.mounts import heal, unmount
from cluster.backends.registry import BACKENDS
from cluster.backends.ssh.leftovers import abandoned_hosts, clean_host
from cluster.backends.trials import abandoned_trials, remove_trial
from harness.commands.options import runs_option
from harness.doctor import examine, explained, shortcomings, tables
from harness.errors import EXIT_USAGE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    found = examine(backends or BACKENDS, inventory)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        for what, probe in found.machine.items():
            click.echo(f"{'yes' if probe.possible else 'NO '}  {what}: {explained(probe)}")
        console = Console(soft_wrap=True)
        for table in tables(found):
            console.print()
            console.print(table)
        console.print()
        for line in shortcomings(found):
            click.echo(line)
    return 0 if found.can_run else EXIT_USAGE


@click.command()
@runs_option
@click.option(
    "--run",
    "run_id",
    metavar="ID",
    help="Only this run, even if its harness still lives.",
)
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Runs of every folder, not of --runs alone.",
)
def cleanup(runs: Path, run_id: str | None, *, everywhere: bool) -> int:
    """Remove what killed runs left behind, and nothing else.

    Processes, containers, their networks, mounts, files on ssh hosts, folders of probes.
    """
    where = None if everywhere else runs
    leftovers = find_leftovers(where, run_id)
    for leftover in leftovers:
        command = leftover.command or "?"
        click.echo(f"ending {leftover.identity.pid} of run {leftover.run_id}: {command}")
    # A node's mounts and helpers end after the node: else it would log a failing disk.
    mounts = abandoned_mounts(where, run_id)
    for mount in mounts:
        heal(mount)
    clean(leftover for leftover in leftovers if not leftover.supports)
    contained = any(leftover.contained for leftover in leftovers)
    things, stubborn = _clean_containers(where, run_id, contained=contained)
    staying = []
    for mount in mounts:
        click.echo(f"unmounting {mount.folder} of run {mount.run_id}")
        if not unmount(mount):
            staying.append(mount)
            click.echo(f"kraftprobe: {mount.folder} stays mounted", err=True)
    remaining = clean(leftovers)
    for leftover in remaining:
        click.echo(f"kraftprobe: process {leftover.identity.pid} does not end", err=True)
    hosts, unclean = _clean_hosts(runs, run_id)
    trials = [] if run_id is not None else abandoned_trials()
    for folder in trials:
        action = "removing" if remove_trial(folder) else "could not remove all of"
        click.echo(f"{action} {folder}")
    if not (leftovers or things or mounts or hosts or trials):
        click.echo("nothing was left behind")
    return EXIT_USAGE if remaining or stubborn or staying or unclean else 0


def _clean_containers(runs: Path | None, run_id: str | None, *, contained: bool) -> tuple[int, int]:
    """Remove what runs left in the docker engine; returns (found, not removed).

    `contained`: processes of containers were found, so there must be containers.
    """
    if not engine_expected():
        return 0, 0
    try:
        client = connect()
    except BackendError as error:
        again = "; then run cleanup again, since containers are left" if contained else ""
        click.echo(f"kraftprobe: containers were not examined: {error}{again}", err=True)
        return 0, int(contained)
    try:
        things = find_things(client, runs, run_id)
        for thing in things:
            click.echo(f"removing {thing.kind} {thing.name} of run {thing.run_id}")
        staying = remove_things(client, things)
    finally:
        client.close()
    for thing in staying:
        click.echo(f"kraftprobe: {thing.kind} {thing.name} stays", err=True)
    return len(things), len(staying)


def _clean_hosts(runs: Path, run_id: str | None) -> tuple[int, int]:
    """Clean the ssh hosts that runs used; returns (found, not cleaned)."""
    hosts = list(abandoned_hosts(runs, run_id))
    unclean = []
    for host in hosts:
        click.echo(f"cleaning {host.node} ({host.entry.where}) of run {host.run_id}")
        if reason := clean_host(host):
            click.echo(f"kraftprobe: {reason}", err=True)
            unclean.append(host)
    for stored in {host.stored for host in hosts} - {host.stored for host in unclean}:
        stored.unlink()
    return len(hosts), len(unclean)

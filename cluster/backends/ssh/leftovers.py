"""Hosts on which a killed harness left something: found by what its run folder says, and cleaned.

A host cleans itself when no harness has spoken to it for `Inventory.grace_s`; this is for users
that do not want to wait, and for hosts with a dead agent, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cluster.backends.base import BackendError
from cluster.backends.processes.records import is_orphaned
from cluster.backends.ssh.inventory import HOSTS_FILE, HostEntry, Inventory
from cluster.values import valueclass


@valueclass
class AbandonedHost:
    """A host on which a run may have left something."""

    run_id: str
    node: str
    entry: HostEntry
    inventory: Inventory
    stored: Path
    """The file that names it."""


def abandoned_hosts(runs: Path, run_id: str | None = None) -> Iterator[AbandonedHost]:
    """List the hosts of runs below `runs` with a dead harness, or of this run in any case.

    Only where this user stored them: they say what runs there, with this user's keys.
    Raises BackendError when a stored inventory is damaged.
    """
    for stored in sorted({*runs.glob(HOSTS_FILE), *runs.glob(f"*/*/{HOSTS_FILE}")}):
        folder = stored.parent.absolute()
        try:
            if stored.stat().st_uid != os.geteuid():
                continue
            text = stored.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue  # its run, or another clean-up, was quicker
        if folder.name == run_id or (run_id is None and is_orphaned(folder)):
            inventory = Inventory.from_json(text)
            for number, entry in enumerate(inventory.hosts, 1):
                yield AbandonedHost(folder.name, f"n{number}", entry, inventory, stored)


def clean_host(host: AbandonedHost) -> str | None:
    """Remove all that the run left on this host, and nothing else; says why if it cannot."""
    from cluster.backends.ssh.ssh_hosts import end_run  # noqa: PLC0415  (imports paramiko)

    try:
        end_run(host.entry, host.inventory, host.node, host.run_id)
    except BackendError as error:
        return str(error)
    return None

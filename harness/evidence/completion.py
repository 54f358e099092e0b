"""Evidence of a run whose harness was killed before it could decode the nodes' logs."""

from __future__ import annotations

from cluster.backends.cleanup import find_leftovers
from harness.errors import UsageError
from harness.evidence import node_disks
from results.store.run_store import RunStore


def complete(store: RunStore, nodes: tuple[str, ...]) -> list[str]:
    """Store these nodes' evidence; returns one line for each node without any or with damage.

    Raises UsageError while nodes of the run are alive: their logs still grow.
    """
    run = store.folder.resolve().name
    if find_leftovers(run_id=run):
        raise UsageError(
            f"nodes of {run} still run; end them first: kraftprobe cleanup --run {run}"
        )
    node_disks.conceal(store, nodes)
    return node_disks.collect(store, nodes)

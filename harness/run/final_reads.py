"""Final reads: after the heal, read what every node serves to clients once it has caught up.

A node does not report the offset up to which it has replayed the log. So a sentinel is written
last, in a cell that the system names (`cluster.systems.kinds.Cell`) and no workload uses. Every
write acknowledged before it is committed below it, so a node whose image shows the sentinel has
replayed them all. A read counts when it shows the sentinel and equals the read before it.

A node that does not catch up in time is reported as missing and not read: its stale image would
look like lost writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.evidence import FinalRead
from cluster.backends.base import Backend, NodeState
from cluster.client.admin_client import CLUSTER_RESOURCE, TOPIC_RESOURCE, Client, resource_name
from cluster.client.caller import CallFailed, Peer, RequestRefused
from cluster.systems.cells import CellOf
from cluster.values import valueclass
from harness.run.observer import Observer
from nemeses.at_once import OutOfTimeError, in_time

SENTINEL_PREFIX = "kraftprobe.sentinel."
_PAUSE_S = 0.1
_REQUEST_TIMEOUT_MS = 5_000.0
_REQUESTS_MIN = 3
"""Requests without an answer that a node is sent within the bound, or more of 5 s each."""
_STATE_BOUND_S = 5.0


NAMED = resource_name(CLUSTER_RESOURCE)
"""Of the configs of a final read, those that hold cells by their names, wherever they are kept."""


@valueclass
class Cells:
    """What the nodes are asked for beside topics and the brokers' own configurations."""

    cell: CellOf
    names: Sequence[str]
    """Of the cells that the workload writes."""
    nodes: Sequence[str] | None = None
    """Those that are asked; None: all."""


@valueclass
class FinalReads:
    """The state that each node serves, and the nodes that did not catch up, with the reason."""

    reads: Mapping[str, FinalRead]
    missing: Mapping[str, str]
    sentinel: str | None
    """Name of the committed sentinel; None when none could be committed in time."""

    def value(self) -> dict[str, Any]:
        """Render for the journal."""
        return {
            "read": sorted(self.reads),
            "missing": dict(self.missing),
            "sentinel": self.sentinel,
        }


async def read_all(
    backend: Backend, client: Client, observer: Observer, cells: Cells, bound_s: float
) -> FinalReads:
    """Write the sentinel and then read every node: at most about `bound_s` for a commit.

    As long for each node to show it, however long the commit took, and as long again for a node
    that shows it to show the same twice: a busy broker takes a while to describe its topics.
    """
    loop = asyncio.get_running_loop()
    nodes = backend.nodes if cells.nodes is None else cells.nodes
    committed = await _commit_sentinel(backend, client, observer, cells, loop.time() + bound_s)
    if committed is None:
        reason = f"no write was committed within {bound_s:g} s after the heal"
        return FinalReads({}, dict.fromkeys(nodes, reason), None)
    results = await asyncio.gather(
        *(_read_node(backend, client, node, cells, committed, bound_s) for node in nodes)
    )
    reads: dict[str, FinalRead] = {}
    missing: dict[str, str] = {}
    for node, result in zip(nodes, results, strict=True):
        if isinstance(result, FinalRead):
            reads[node] = result
        else:
            missing[node] = result
    return FinalReads(reads, missing, committed[0])


async def _commit_sentinel(
    backend: Backend, client: Client, observer: Observer, cells: Cells, deadline_s: float
) -> tuple[str, int] | None:
    """Write a sentinel until one is acknowledged: its name, and the high watermark after it."""
    attempt = 0
    while asyncio.get_running_loop().time() < deadline_s:
        leadership = await observer.ask()
        if leadership is not None:
            # Each attempt has its own name: an earlier attempt without an answer may commit later,
            # and seeing its sentinel would prove nothing about this one.
            attempt += 1
            name = f"{SENTINEL_PREFIX}{attempt}"
            peer = Peer(backend.endpoint(leadership.leader, "CONTROLLER"), _REQUEST_TIMEOUT_MS)
            to = cells.cell(name)
            outcome = await client.alter_config(peer, to.resource, to.key, "set", "1")
            if outcome.type == "ok":
                with contextlib.suppress(CallFailed):
                    quorum = await client.describe_quorum(peer)
                    if quorum.high_watermark >= 0:
                        return name, quorum.high_watermark
        await asyncio.sleep(_PAUSE_S)
    return None


async def _read_node(
    backend: Backend,
    client: Client,
    node: str,
    cells: Cells,
    committed: tuple[str, int],
    bound_s: float,
) -> FinalRead | str:
    """Read until two consecutive reads are equal and show the sentinel; else return the reason."""
    sentinel, high_watermark = committed
    names = (sentinel, *cells.names)
    # Topics are shown with their configurations as far as they exist.
    resources = (cells.cell(name).resource for name in names)
    also = tuple(dict.fromkeys(r for r in resources if r[0] != TOPIC_RESOURCE))
    before: dict[str, Any] | None = None
    reason, was_extended = "was not asked", False
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + bound_s
    timeout_ms = max(_REQUEST_TIMEOUT_MS, 1000.0 * bound_s / _REQUESTS_MIN)
    peer = Peer(backend.endpoint(node, "CLIENT"), timeout_ms)
    while loop.time() < deadline_s:
        try:
            if await in_time(backend.state(node), _STATE_BOUND_S) is NodeState.DEAD:
                return "is not running"
            read = await client.final_read(peer, also=also)
        except (CallFailed, RequestRefused) as error:
            before, reason = None, f"does not answer ({error})"
        except OutOfTimeError:
            before, reason = None, "its backend does not say whether it runs"
        else:
            _call_by_name(read["configs"], names, cells.cell)
            caught_up = sentinel in read["configs"].get(NAMED, {})
            if caught_up and read == before:
                return FinalRead(node, high_watermark, read["topics"], read["configs"])
            if caught_up and not was_extended:
                deadline_s, was_extended = loop.time() + bound_s, True
            before = read
            reason = "keeps changing" if caught_up else f"has not replayed {sentinel}"
        await asyncio.sleep(_PAUSE_S)
    return reason


def _call_by_name(
    configs: dict[str, dict[str, str]], names: Sequence[str], cell_of: CellOf
) -> None:
    """Move what cells hold to where it is called by their names."""
    held = {}
    for name in names:
        cell = cell_of(name)
        value = configs.get(resource_name(cell.resource), {}).pop(cell.key, None)
        if value is not None:
            held[name] = cell.decode(value)
    if held:
        configs.setdefault(NAMED, {}).update(held)
    for resource in [resource for resource, values in configs.items() if not values]:
        del configs[resource]

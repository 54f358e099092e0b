"""Which node a client asks: the one that it is pinned to, or the one believed to lead.

Where these have no listener for what it asks, as controllers have none for what brokers answer, it
asks all that have it in turn.

Both kinds are needed. Followers of the leader make the load and notice a new leader quickly.
A pinned client goes on asking a leader that was cut off or deposed, and so sees a stale
read or an acknowledgement that must not be.
"""

from __future__ import annotations

import functools
import itertools

from cluster.backends.base import Listener
from cluster.client.admin_client import Outcome
from workloads.base import ClientContext

LEADS_NOT = frozenset({"not_controller", "not_leader_or_follower", "not-sent"})
"""Errors that say at once that this node is not the one to ask."""


class Target:
    """The choice of one process, and what it learns from the answers."""

    def __init__(self, context: ClientContext) -> None:
        self._pinned_to = context.pinned_to
        self._leader = context.leader
        self._nodes_at = functools.cache(context.nodes_at)
        self._turns = itertools.count(context.worker)

    def choose(self, listener: Listener = "CONTROLLER") -> str:
        """Name the node to ask now at this listener."""
        nodes = self._nodes_at(listener)
        for node in (self._pinned_to, self._leader.guess):
            if node is not None and node in nodes:
                return node
        return nodes[next(self._turns) % len(nodes)]

    def learn(self, node: str, outcome: Outcome) -> None:
        """Use how `node` answered for the next choice."""
        if node == self._pinned_to or outcome.type == "ok":
            return
        if outcome.type == "info" or outcome.error in LEADS_NOT:
            self._leader.suspect(node)

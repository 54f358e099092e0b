"""Which node a client asks: the one that it is pinned to, or the one believed to lead.

Both kinds are needed. Followers of the leader make the load and notice a new leader quickly.
A pinned client goes on asking a leader that was cut off or deposed, and so sees a stale
read or an acknowledgement that must not be.
"""

from __future__ import annotations

from cluster.client.admin_client import Outcome
from workloads.base import ClientContext

LEADS_NOT = frozenset({"not_controller", "not_leader_or_follower", "not-sent"})
"""Errors that say at once that this node is not the one to ask."""


class Target:
    """The choice of one process, and what it learns from the answers."""

    def __init__(self, context: ClientContext) -> None:
        self._pinned_to = context.pinned_to
        self._leader = context.leader

    def choose(self) -> str:
        """Name the node to ask now."""
        return self._leader.guess if self._pinned_to is None else self._pinned_to

    def learn(self, node: str, outcome: Outcome) -> None:
        """Use how `node` answered for the next choice."""
        if self._pinned_to is not None or outcome.type == "ok":
            return
        if outcome.type == "info" or outcome.error in LEADS_NOT:
            self._leader.suspect(node)

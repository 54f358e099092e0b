"""Observes the quorum from outside: its leader and epoch, and nodes that died unexpectedly.

The observer asks the nodes in turn to describe the quorum, believes the answer with the highest
epoch, and journals changes. The verdict takes leader changes from it, clients a hint, and the
report its strip of leaders. A node that says that it leads is asked in every turn, and each such
answer is journaled: one that goes on for too long ignores that no majority follows it
(`checkers.nodes.leader_age`).
"""

from __future__ import annotations

import asyncio
import itertools

from checkers.history import EventType
from checkers.runs.faults import LEADS
from cluster.backends.base import Backend, Listener
from cluster.client.admin_client import Client
from cluster.client.caller import CallFailed, Peer
from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.systems.kinds import AskLeader
from cluster.values import valueclass
from harness.run.recorder import Recorder
from workloads.base import LeaderTracker

POLL_INTERVAL_S = 0.2
ASK_TIMEOUT_MS = 400.0


def describing(client: Client) -> AskLeader:
    """Ask nodes of a metadata quorum by DescribeQuorum."""

    async def ask(_: Connect, endpoint: Endpoint, bound_ms: float) -> tuple[int, int | None] | None:
        try:
            response = await client.describe_quorum(Peer(endpoint, bound_ms))
        except CallFailed:
            return None
        return response.leader_id, response.leader_epoch

    return ask


def in_bound(ask: AskLeader) -> AskLeader:
    """Ask in the bound that a package's question has, whether it keeps it itself or not.

    A node that is paused never answers: without a bound no first leader would end the wait for one,
    and a crash would be journaled when the node goes on, perhaps under a fault that excuses it.
    """

    async def ask_in_time(
        connect: Connect, endpoint: Endpoint, bound_ms: float
    ) -> tuple[int, int | None] | None:
        async with asyncio.timeout(bound_ms / 1000):
            return await ask(connect, endpoint, bound_ms)

    return ask_in_time


@valueclass
class Leadership:
    """The leader and its epoch, as one node reported."""

    leader: str
    epoch: int
    by_itself: bool
    """Whether the leader reported it itself, not a follower."""


class Observer:
    """Asks the nodes, and while `watch` runs, journals changes.

    Without `ask` there is no leader to learn of, and what it watches are deaths.
    """

    def __init__(
        self,
        backend: Backend,
        ask: AskLeader | None,
        recorder: Recorder,
        tracker: LeaderTracker,
        leader_at: Listener = "CONTROLLER",
    ) -> None:
        self._leader_at: Listener = leader_at
        self._backend = backend
        self._ask_leader = ask
        self._recorder = recorder
        self._tracker = tracker
        self._known: Leadership | None = None
        self._leading: set[str] = set()
        """Nodes that said, when they were last asked, that they lead."""
        self._deaths_journaled = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that may lead, which are asked."""
        return self._tracker.nodes

    async def ask(self) -> Leadership | None:
        """Ask all of them now; returns the leader of the highest epoch that any of them knows."""
        answers = await asyncio.gather(*(self._ask_node(node) for node in self.nodes))
        known = [answer for answer in answers if answer is not None]
        if not known:
            return None
        freshest = max(known, key=lambda leadership: (leadership.epoch, leadership.by_itself))
        self._note(freshest)
        return freshest

    async def watch(self) -> None:
        """Ask one node after the other until cancelled.

        A majority of the nodes takes part in an epoch, so a turn over all nodes finds its leader.
        """
        for node in itertools.cycle(self.nodes):
            for asked in sorted({node, *self._leading}):
                await self._look_at(asked)
            self.journal_deaths()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _look_at(self, node: str) -> None:
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        answer = await self._ask_node(node)
        if answer is not None:
            self._note(answer)
        if answer is None or not answer.by_itself:
            self._leading.discard(node)
            return
        self._leading.add(node)
        took_ms = round((loop.time() - asked_s) * 1000, 3)
        self._recorder.note(LEADS, {"node": node, "epoch": answer.epoch, "took_ms": took_ms})

    def journal_deaths(self) -> None:
        """Journal the unexpected deaths of nodes since the last call."""
        deaths = self._backend.unexpected_deaths()
        for death in deaths[self._deaths_journaled :]:
            value = {
                "node": death.node,
                "incarnation": death.incarnation,
                "exit_code": death.exit_code,
                "output_tail": list(death.output_tail),
            }
            self._recorder.note("crash", value, EventType.INFO)
        self._deaths_journaled = len(deaths)

    async def _ask_node(self, node: str) -> Leadership | None:
        if self._ask_leader is None:
            return None
        endpoint = self._backend.endpoint(node, self._leader_at)
        try:
            found = await self._ask_leader(self._backend.connect, endpoint, ASK_TIMEOUT_MS)
        except OSError:  # TimeoutError, too
            return None
        if found is None or f"n{found[0]}" not in self.nodes:
            return None
        leader, epoch = f"n{found[0]}", found[1]
        if epoch is None:
            if leader != node:
                return None
            known = self._known
            epoch = 0 if known is None else known.epoch + (known.leader != leader)
        return Leadership(leader, epoch, by_itself=leader == node)

    def _note(self, seen: Leadership) -> None:
        if seen.by_itself:
            self._tracker.learn(seen.leader, seen.epoch)  # a client may have suspected it since
        if self._known is not None and seen.epoch <= self._known.epoch:
            return
        self._known = seen
        self._tracker.learn(seen.leader, seen.epoch)
        self._recorder.note("leader", {"leader": seen.leader, "epoch": seen.epoch})

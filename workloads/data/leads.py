"""Leaders of partitions as one process of a workload finds them, and what makes them certain.

**A lead is confirmed.** Metadata may be ahead of the broker that it names as leader, or behind. So
before a lead is used its broker is asked for the end of the log in the very epoch that the metadata
names (OffsetForLeaderEpoch), which it refuses in any other. What is sent there afterwards is
appended in this epoch or a later one; a Fetch names the epoch again, and so is answered in it or
refused. A client that is pinned to a node takes the lead from that node's own metadata: so a leader
that was cut off goes on being asked.

**A lead in which all brokers agree is the last one.** A leader of a later epoch that had
acknowledged something would be one of them, and would name its own.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

from cluster.client.caller import Outcome, Peer
from cluster.client.data_client import NO_LEADER, DataClient, PartitionView, TopicPartition
from cluster.node.errors import ErrorCode
from cluster.systems.base import Listener
from cluster.values import valueclass
from workloads.base import ClientContext
from workloads.keyed import Plain, Target

_UNKNOWN_TOPIC: Final = ErrorCode.unknown_topic_or_partition.name


@valueclass
class Topics(Plain):
    """A workload of partitions, by what its topics are created with."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int


@valueclass
class Lead:
    """A leader that has confirmed its epoch."""

    node: str
    epoch: int
    end_offset: int
    """Of its log, when it did."""
    replicas: tuple[int, ...]


class Stopped(Exception):  # noqa: N818 - an answer, not an error
    """An operation ended before anything with an effect was sent."""

    def __init__(self, error: str | None, node: str) -> None:
        super().__init__(error)
        self.error = error
        self.node = node


class Budget:
    """The time that is left of an operation."""

    def __init__(self, timeout_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + timeout_ms / 1000.0

    @property
    def left_ms(self) -> float:
        """At least a millisecond: a request with no time has no sense."""
        return max(1.0, (self._deadline_s - self._loop.time()) * 1000.0)

    @property
    def over(self) -> bool:
        """Whether nothing more should be begun."""
        return self._loop.time() >= self._deadline_s


class Leads:
    """The leaders that one process knows. Its methods raise Stopped where there is none."""

    def __init__(self, context: ClientContext, topics: Topics) -> None:
        self._context = context
        self._topics = topics
        self._data = DataClient(context.client)
        self.controllers = Target(context)
        self.brokers = tuple(context.nodes_at("CLIENT"))
        self.own = context.pinned_to if context.pinned_to in self.brokers else None
        """The broker that the process is pinned to."""
        self._turns = itertools.cycle(self.brokers)
        for _ in range(context.worker % len(self.brokers)):
            next(self._turns)
        self.asked = self.own or next(self._turns)
        """The broker whose metadata is used."""
        self._leads: dict[TopicPartition, Lead] = {}

    async def lead(self, of: TopicPartition, budget: Budget) -> Lead:
        """Return the leader as this process knows it."""
        lead = self._leads.get(of)
        if lead is None:
            view = await self.view(self.asked, of, budget)
            lead = self._leads[of] = await self.confirm(self.asked, view, of, budget)
        return lead

    async def common_lead(self, of: TopicPartition, budget: Budget) -> Lead:
        """Return the leader that every broker names, which has confirmed it."""
        views = [await self.view(node, of, budget) for node in self.brokers]
        if len({(view.leader, view.epoch) for view in views}) > 1:
            raise Stopped("leaders-differ", self.brokers[0])
        return await self.confirm(self.brokers[0], views[0], of, budget)

    async def view(self, node: str, of: TopicPartition, budget: Budget) -> PartitionView:
        """Look a partition up at a broker; makes its topic if there is none."""
        found = await self._data.describe(self.peer(node, budget.left_ms), of.topic)
        if found.type != "ok" and node == self.asked:
            self.ask_next()
        views = self.got(found, node)
        if views is None:
            await self._create(of.topic, budget)
        view = None if views is None else views.get(of.index)
        if view is None:
            raise Stopped(_UNKNOWN_TOPIC, node)
        assert isinstance(view, PartitionView)
        return view

    async def confirm(
        self, asked: str, view: PartitionView, of: TopicPartition, budget: Budget
    ) -> Lead:
        """Have a leader confirm its epoch."""
        node = node_name(view.leader)
        if view.leader == NO_LEADER or node not in self.brokers:
            raise Stopped(ErrorCode.leader_not_available.name, asked)
        peer = self.peer(node, budget.left_ms)
        end = await self._data.end_of_reign(peer, of, view.epoch)
        return Lead(node, view.epoch, self.read(end, of, node), view.replicas)

    def forget(self, of: TopicPartition) -> None:
        """Look a partition's leader up again before it is asked again."""
        self._leads.pop(of, None)

    def ask_next(self) -> None:
        """Use another broker's metadata, unless the process is pinned to one."""
        if self.own is None:
            self.asked = next(self._turns)

    def peer(self, node: str, timeout_ms: float, listener: Listener = "CLIENT") -> Peer:
        """Return a node to be asked, as a client does where nothing else is said."""
        return Peer(self._context.endpoint(node, listener), timeout_ms)

    def got(self, outcome: Outcome, node: str) -> Any:
        """Return the value of a request without effect."""
        if outcome.type != "ok":
            raise Stopped(outcome.error, node)
        return outcome.value

    def read(self, outcome: Outcome, of: TopicPartition, node: str) -> Any:
        """As `got`, of a node that is believed to lead: the belief ends where it refuses."""
        if outcome.type != "ok":
            self.forget(of)
            self.ask_next()
        return self.got(outcome, node)

    async def _create(self, topic: str, budget: Budget) -> None:
        """Ask for a topic; whether it is there then, a later operation sees."""
        node = self.controllers.choose("CONTROLLER")
        factor = min(self._topics.replication_factor, len(self.brokers))
        least = min(self._topics.min_insync_replicas, factor)
        outcome = await self._context.client.create_topic(
            self.peer(node, budget.left_ms, "CONTROLLER"),
            topic,
            self._topics.partitions,
            replication_factor=factor,
            configs={"min.insync.replicas": str(least)},
        )
        self.controllers.learn(node, outcome)


def node_name(node_id: int) -> str:
    """Name a node as plans do."""
    return f"n{node_id}"


def partition_of(key: str) -> TopicPartition:
    """Return the partition that a key names."""
    topic, _, index = key.rpartition("-")
    return TopicPartition(topic, int(index))

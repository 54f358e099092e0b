"""The consumers of one process of workload `transactions`, and its last reads.

A read goes on up to the last stable offset, or to the high watermark where what is uncommitted is
read too; both are the leader's own, in the epoch that it confirmed. A consumer goes on where it was
and begins anew from time to time: what it has seen stays (KIP-98), unless something is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from checkers.history import EventType, Value
from checkers.transactions.atomic_rules import OPEN
from cluster.client.data_client import DataClient, Fetched, TopicPartition
from workloads.base import Completion, Op
from workloads.data.leads import Budget, Lead, Leads, Stopped, partition_of

_BYTES: Final = 1024 * 1024
_PAUSE_S: Final = 0.02
"""Between two looks at a partition in which something is undecided."""
_AGAIN: Final = 8
"""Every so many reads of a partition a consumer begins anew."""


class _Consumer:
    """What a consumer of one partition has seen so far."""

    def __init__(self) -> None:
        self.position = 0
        self.reads = 0
        self.high_watermark = 0
        self.values: list[Value] = []

    def take(self, fetched: Fetched) -> None:
        """Go on behind what was fetched."""
        self.values += [text for _, text in fetched.records]
        self.position = fetched.next_offset
        self.high_watermark = fetched.high_watermark


class Consumers:
    """One consumer for each partition and isolation level. Its methods raise Stopped."""

    def __init__(self, leads: Leads, data: DataClient, share: Callable[[Budget], float]) -> None:
        """`share`: how long one request may take, in ms."""
        self._leads = leads
        self._data = data
        self._share = share
        self._consumers: dict[tuple[TopicPartition, bool], _Consumer] = {}

    async def read(
        self, steps: Sequence[Any], budget: Budget, *, committed: bool
    ) -> tuple[list[Value], str | None]:
        """Perform the reads among steps; returns all with what these showed, and who led last."""
        done: list[Value] = []
        node: str | None = None
        for step in steps:
            if step[0] != "r":
                done.append(step)
                continue
            lead = await self._leads.lead(partition_of(step[1]), budget)
            shown = await self._consume(partition_of(step[1]), lead, budget, committed=committed)
            done.append(["r", step[1], list(shown.values)])
            node = lead.node
        return done, node

    async def read_all(self, op: Op, budget: Budget) -> Completion:
        """Read a partition from its beginning, once no transaction is open in it.

        The leader is the one in which all brokers agree, and all of its log counts. Where time runs
        out first the completion has the offset at which something is open.
        """
        assert isinstance(op.value, list), "a list of steps"
        ((_, key, _),) = op.value
        partition = partition_of(key)
        lead = await self._leads.common_lead(partition, budget)
        while True:
            self._consumers.clear()
            shown = await self._consume(partition, lead, budget, committed=True)
            if shown.position >= lead.end_offset:
                return Completion(EventType.OK, [["r", key, shown.values]], None, lead.node)
            if budget.over and shown.high_watermark < lead.end_offset:
                raise Stopped("not-committed-in-time", lead.node)
            if budget.over:
                return Completion(
                    EventType.FAIL, op.value, OPEN, lead.node, shown.position, lead.epoch
                )
            await asyncio.sleep(_PAUSE_S)

    async def _consume(
        self, of: TopicPartition, lead: Lead, budget: Budget, *, committed: bool
    ) -> _Consumer:
        consumer = self._consumers.pop((of, committed), None)
        if consumer is None or consumer.reads == _AGAIN:
            consumer = _Consumer()
        while True:
            fetched: Fetched = self._leads.read(
                await self._data.fetch(
                    self._leads.peer(lead.node, self._share(budget)),
                    of,
                    consumer.position,
                    lead.epoch,
                    max_wait_ms=0.0,
                    max_bytes=_BYTES,
                    committed_only=committed,
                ),
                of,
                lead.node,
            )
            consumer.take(fetched)
            end = fetched.last_stable_offset if committed else fetched.high_watermark
            if consumer.position >= end:
                break
            if budget.over:
                raise Stopped("not-read-in-time", lead.node)
        consumer.reads += 1
        self._consumers[of, committed] = consumer
        return consumer

"""Where a partition's replicas are and which of them leads, changed on purpose.

Each call is one request to one controller, as in `cluster.client.caller`, with the same
outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cluster.client.caller import Caller, Outcome, only
from cluster.client.data_client import TopicPartition
from cluster.node.ports import Endpoint
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, TopicName, i8, i32

_PREFERRED: Final = i8(0)
"""The type of an election that gives the lead to the first replica."""


class PlacementClient:
    """Moves partitions through a client that never retries."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def reassign(
        self,
        controller: Endpoint,
        partition: TopicPartition,
        replicas: Sequence[int],
        timeout_ms: float,
    ) -> Outcome:
        """Ask for these replicas, the first of which is to lead. Ok: the change has begun."""
        target = messages.ReassignablePartition(
            partition_index=i32(partition.index), replicas=tuple(map(BrokerId, replicas))
        )
        request = messages.AlterPartitionReassignmentsRequest(
            timeout=messages.milliseconds(timeout_ms),
            topics=(
                messages.ReassignableTopic(name=TopicName(partition.topic), partitions=(target,)),
            ),
        )

        def read(response: Any) -> Outcome:
            failed = self._client.judge(response.error_code)
            if failed is not None:
                return failed
            topic = only(response.responses, name=partition.topic)
            result = only(topic.partitions, partition_index=partition.index)
            return self._client.judge(result.error_code) or Outcome("ok", list(replicas))

        return await self._client.attempt(controller, request, read, timeout_ms)

    async def elect_preferred(
        self, controller: Endpoint, partition: TopicPartition, timeout_ms: float
    ) -> Outcome:
        """Have the first replica lead."""
        asked = messages.ElectLeadersTopicPartitions(
            topic=TopicName(partition.topic), partitions=(i32(partition.index),)
        )
        request = messages.ElectLeadersRequest(
            election_type=_PREFERRED,
            topic_partitions=(asked,),
            timeout=messages.milliseconds(timeout_ms),
        )

        def read(response: Any) -> Outcome:
            failed = self._client.judge(response.error_code)
            if failed is not None:
                return failed
            topic = only(response.replica_election_results, topic=partition.topic)
            result = only(topic.partition_result, partition_id=partition.index)
            return self._client.judge(result.error_code) or Outcome("ok")

        return await self._client.attempt(controller, request, read, timeout_ms)

"""Brokers of one topic `d0` for clients of workload `log`: two partitions, three replicas each.

Every broker has metadata, logs and a lead of its own, which a test sets, so that they may disagree
as those of a real cluster do. Requests are answered at once, or as a test says.
"""

import asyncio

from kio.schema.offset_fetch.v9 import response as fetched

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import check_batch, with_place
from cluster.node.ports import Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.node.protocol import transaction_messages as t
from tests.kio_bytes import filled

NONE = ErrorCode.none
REPLICAS = (1, 2, 3)
PARTITIONS = 2
COORDINATOR = 2


class Broker:
    """One node: what it believes of who leads, and its logs."""

    def __init__(self, node_id):
        self.node_id = node_id
        self.views = dict.fromkeys(range(PARTITIONS), (1, 0))
        """Partition -> (leader, epoch) of its metadata."""
        self.leads = dict.fromkeys(range(PARTITIONS), 0) if node_id == 1 else {}
        """Partition -> epoch in which it leads."""
        self.logs = {index: [] for index in range(PARTITIONS)}
        """Partition -> batches."""
        self.high_watermarks = {}
        """Partition -> high watermark, where it is not the end of the log."""

    def end(self, index):
        batches = self.logs[index]
        return check_batch(batches[-1]).next_offset if batches else 0

    def append(self, index, batch, epoch):
        offset = self.end(index)
        self.logs[index].append(with_place(batch, offset, epoch))
        return offset

    def refusal(self, index, epoch, *, leader_only):
        if index not in self.leads:
            return ErrorCode.not_leader_or_follower if leader_only or epoch != -1 else NONE
        if epoch == -1 or epoch == self.leads[index]:
            return NONE
        older = epoch < self.leads[index]
        return ErrorCode.fenced_leader_epoch if older else ErrorCode.unknown_leader_epoch


class Brokers:
    """The network of a client: a `Network` whose other ends are `Broker`s."""

    def __init__(self):
        self.brokers = {node_id: Broker(node_id) for node_id in REPLICAS}
        self.asked = []
        """(node id, name of the request's class), in order."""
        self.requests = []
        self.topic_exists = True
        self.rules = []
        """[class of request, what it gets instead of an answer, whether it is served all the same];
        each is used once."""
        self.producer_ids = 0
        self.coordinator = COORDINATOR
        """Id of the broker that is named as coordinator of transactions or groups."""
        self.offsets = {}
        """Partition -> committed offset."""
        self.pending = {}
        """Partition -> offset that the open transaction commits."""

    def request(self, destination, message, timeout_ms, on_reply):
        self.asked.append((destination.node_id, type(message).__name__))
        self.requests.append(message)
        reply = None
        rule = next((rule for rule in self.rules if isinstance(message, rule[0])), None)
        if rule is None or rule[2]:
            serve = getattr(self, f"_{type(message).__name__}")
            reply = serve(self.brokers[destination.node_id], message)
        if rule is not None:
            self.rules.remove(rule)
            reply = rule[1]
        asyncio.get_running_loop().call_soon(on_reply, reply)

    def sent(self, kind):
        return [message for message in self.requests if isinstance(message, kind)]

    def lead(self, node_id, index, epoch, *, known_to=REPLICAS):
        """Let another node lead; `known_to` have heard of it."""
        for broker in self.brokers.values():
            broker.leads.pop(index, None)
        self.brokers[node_id].leads[index] = epoch
        for other in known_to:
            self.brokers[other].views[index] = (node_id, epoch)

    def replicate(self, index, source=1):
        for broker in self.brokers.values():
            broker.logs[index] = list(self.brokers[source].logs[index])

    def _MetadataRequest(self, broker, message):  # noqa: N802 - the name of the class
        (asked,) = message.topics
        partitions = tuple(
            filled(
                m.MetadataResponsePartition,
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=REPLICAS,
                isr_nodes=REPLICAS,
            )
            for index, (leader, epoch) in broker.views.items()
        )
        error = NONE if self.topic_exists else ErrorCode.unknown_topic_or_partition
        shown = partitions if self.topic_exists else ()
        topic = filled(m.MetadataResponseTopic, error_code=error, name=asked.name, partitions=shown)
        return filled(m.MetadataResponse, brokers=(), controller_id=1, topics=(topic,))

    def _CreateTopicsRequest(self, broker, message):  # noqa: N802
        self.topic_exists = True
        (topic,) = message.topics
        result = filled(m.CreatableTopicResult, name=topic.name, configs=None)
        return filled(m.CreateTopicsResponse, topics=(result,))

    def _OffsetForLeaderEpochRequest(self, broker, message):  # noqa: N802
        (asked,) = message.topics[0].partitions
        index, epoch = asked.partition, asked.current_leader_epoch
        error = broker.refusal(index, epoch, leader_only=True)
        end = broker.end(index) if error is NONE else -1
        result = d.EpochEndOffset(
            partition=index, error_code=error, leader_epoch=epoch, end_offset=end
        )
        topic = d.OffsetForLeaderTopicResult(topic=message.topics[0].topic, partitions=(result,))
        return filled(d.OffsetForLeaderEpochResponse, topics=(topic,))

    def _ListOffsetsRequest(self, broker, message):  # noqa: N802
        (asked,) = message.topics[0].partitions
        index = asked.partition_index
        error = broker.refusal(index, asked.current_leader_epoch, leader_only=True)
        offset = broker.end(index) if asked.timestamp == -1 else 0
        result = d.ListOffsetsPartitionResponse(
            partition_index=index, error_code=error, offset=offset if error is NONE else -1
        )
        topic = d.ListOffsetsTopicResponse(name=message.topics[0].name, partitions=(result,))
        return filled(d.ListOffsetsResponse, topics=(topic,))

    def _FindCoordinatorRequest(self, broker, message):  # noqa: N802
        (key,) = message.coordinator_keys
        found = filled(t.Coordinator, key=key, node_id=self.coordinator, host="h", port=1)
        return filled(t.FindCoordinatorResponse, coordinators=(found,))

    def _OffsetFetchRequest(self, broker, message):  # noqa: N802
        assert message.require_stable
        (group,) = message.groups
        (topic,) = group.topics
        results = []
        for index in topic.partition_indexes:
            error = ErrorCode.unstable_offset_commit if index in self.pending else NONE
            offset = m.i64(self.offsets.get(index, -1) if error is NONE else -1)
            result = {"partition_index": index, "committed_offset": offset, "error_code": error}
            results.append(filled(fetched.OffsetFetchResponsePartitions, **result))
        answer = fetched.OffsetFetchResponseTopics(name=topic.name, partitions=tuple(results))
        found = fetched.OffsetFetchResponseGroup(group_id=group.group_id, topics=(answer,))
        return filled(fetched.OffsetFetchResponse, groups=(found,))

    def _InitProducerIdRequest(self, broker, message):  # noqa: N802
        self.producer_ids += 1
        return filled(
            d.InitProducerIdResponse, producer_id=1000 + self.producer_ids, producer_epoch=0
        )

    def _ProduceRequest(self, broker, message):  # noqa: N802
        (asked,) = message.partitions
        error = broker.refusal(asked.index, -1, leader_only=True)
        offset = -1
        if error is NONE:
            offset = broker.append(asked.index, asked.records, broker.leads[asked.index])
        if message.acks == 0:
            return d.UNANSWERED
        return d.ProduceResponse((d.ProduceResult(asked.topic, asked.index, error, offset),))

    def _FetchRequest(self, broker, message):  # noqa: N802
        (asked,) = message.partitions
        index = asked.index
        error = broker.refusal(index, asked.current_leader_epoch, leader_only=False)
        end = broker.end(index)
        mark = broker.high_watermarks.get(index, end)
        if error is NONE and asked.fetch_offset > end:
            error = ErrorCode.offset_out_of_range
        batches = (b for b in broker.logs[index] if check_batch(b).last_offset < mark)
        shown = b""
        for batch in (b for b in batches if check_batch(b).next_offset > asked.fetch_offset):
            if shown and len(shown) + len(batch) > message.max_bytes:
                break
            shown += batch
        result = d.FetchResult(
            asked.topic, index, error, mark, mark, 0, records=shown if error is NONE else b""
        )
        return d.FetchResponse(NONE, (result,))

    def _AlterPartitionReassignmentsRequest(self, broker, message):  # noqa: N802
        (topic,) = message.topics
        (asked,) = topic.partitions
        result = filled(m.ReassignablePartitionResponse, partition_index=asked.partition_index)
        answer = m.ReassignableTopicResponse(name=topic.name, partitions=(result,))
        return filled(m.AlterPartitionReassignmentsResponse, responses=(answer,))

    def _ElectLeadersRequest(self, broker, message):  # noqa: N802
        (asked,) = message.topic_partitions
        error, (index,) = ErrorCode.election_not_needed, asked.partitions
        result = filled(m.ElectLeadersPartitionResult, partition_id=index, error_code=error)
        answer = m.ElectLeadersTopicResult(topic=asked.topic, partition_result=(result,))
        return filled(m.ElectLeadersResponse, replica_election_results=(answer,))

    def _DeleteTopicsRequest(self, broker, message):  # noqa: N802
        self.topic_exists = False
        (topic,) = message.topics
        result = filled(m.DeletableTopicResult, name=topic.name)
        return filled(m.DeleteTopicsResponse, responses=(result,))

    def _IncrementalAlterConfigsRequest(self, broker, message):  # noqa: N802
        (resource,) = message.resources
        result = filled(
            m.AlterConfigsResourceResponse,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        return filled(m.IncrementalAlterConfigsResponse, responses=(result,))

    def _DeleteRecordsRequest(self, broker, message):  # noqa: N802
        ((topic, (row,)),) = ((each.name, each.partitions) for each in message.topics)
        result = filled(
            d.DeleteRecordsPartitionResult,
            partition_index=row.partition_index,
            low_watermark=row.offset,
        )
        named = d.DeleteRecordsTopicResult(name=topic, partitions=(result,))
        return filled(d.DeleteRecordsResponse, topics=(named,))


LOST = Failure.TIMED_OUT

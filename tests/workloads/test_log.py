"""Workload `log` against brokers that are scripted."""

import asyncio
from itertools import islice
from random import Random

import pytest

from checkers.history import EventType, Operation
from checkers.partition_logs.columns import CONFIGURE, RENEW
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from cluster.client.admin_client import Client
from cluster.client.batches import batch_of
from cluster.client.data_client import TopicPartition
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import parse_header
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.systems import kraft
from tests.client_context import client_context
from tests.cluster.client.test_certainty import ImpatientClock
from tests.workloads.scripted_brokers import LOST, Brokers
from workloads.base import LeaderTracker, Op, Role
from workloads.data.log_client import (
    ASK_WRONG,
    DELETE,
    FILL,
    MOVE,
    PRODUCERS,
    RESIZE,
    AtReplica,
    Producer,
)
from workloads.data.wrong_requests import WRONG
from workloads.registry import WorkloadError, workload_named

NODES = ("n1", "n2", "n3")
KEY = "d0-1"
OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO


class LoopClock(ImpatientClock):
    def call_later(self, delay_ms, callback):
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


def context_of(brokers, **given):
    usual = {"worker": 0, "process": 0, "timeout_ms": 200.0}
    return client_context(
        client=Client(brokers, LoopClock()),
        endpoint=lambda node, listener: Endpoint(int(node[1:]), listener, 1),
        nodes_at=lambda _listener: NODES,
        leader=LeaderTracker(NODES),
        cell=kraft.KIND.cell,
        reads_at="CLIENT",
        reads_lag=True,
        **usual | given,
    )


def perform(brokers, *ops, workload="log", pinned_to=None, timeout_ms=200.0, worker=0, **options):
    """Let one client perform operations, and what stands between them; returns the completions."""

    async def main():
        context = context_of(brokers, worker=worker, pinned_to=pinned_to, timeout_ms=timeout_ms)
        client = workload_named(workload, options).client(context)
        done = []
        for op in ops:
            if callable(op):
                op()
            else:
                done.append(await client.invoke(op))
        await client.close()
        return done

    return asyncio.run(main())


def send(*values):
    return Op("send", KEY, list(values) if len(values) > 1 else values[0])


def poll(position=None):
    return Op("poll", KEY, position)


def seen(completion):
    return [value for _, value in completion.value["records"]]


def test_a_send_finds_the_leader_and_has_its_epoch_confirmed_before_anything_is_appended():
    brokers = Brokers()
    brokers.lead(2, 1, epoch=5)
    (done,) = perform(brokers, send("a", "b"), idempotence=0)
    assert (done.type, done.node, done.offset, done.epoch) == (OK, "n2", 0, 5)
    assert brokers.asked == [
        (1, "MetadataRequest"),
        (2, "OffsetForLeaderEpochRequest"),
        (2, "ProduceRequest"),
    ]


def test_a_confirmed_leader_is_asked_without_a_look_at_metadata():
    brokers = Brokers()
    perform(brokers, send("a"), send("b"), poll(0), idempotence=0)
    assert len(brokers.sent(m.MetadataRequest)) == 1
    assert len(brokers.sent(d.OffsetForLeaderEpochRequest)) == 1


@pytest.mark.parametrize(
    ("epoch", "error"), [(7, "fenced_leader_epoch"), (4, "unknown_leader_epoch")]
)
def test_nothing_is_sent_to_a_leader_of_another_epoch_than_metadata_names(epoch, error):
    brokers = Brokers()
    brokers.lead(2, 1, epoch=5)
    brokers.brokers[2].leads[1] = epoch
    (done,) = perform(brokers, send("a"))
    assert (done.type, done.error) == (FAIL, error)
    assert not brokers.sent(d.ProduceRequest)


def test_a_topic_that_is_missing_is_created_and_the_operation_fails():
    brokers = Brokers()
    brokers.topic_exists = False
    first, second = perform(brokers, send("a"), send("b"), topics=1, partitions=2)
    assert (first.type, first.error) == (FAIL, "unknown_topic_or_partition")
    assert second.type is OK
    ((topic,),) = (request.topics for request in brokers.sent(m.CreateTopicsRequest))
    (config,) = topic.configs
    assert (topic.num_partitions, topic.replication_factor) == (2, 3)
    assert (config.name, config.value) == ("min.insync.replicas", "2")


def test_replicas_are_never_more_than_brokers_and_those_in_sync_never_more_than_replicas():
    brokers = Brokers()
    brokers.topic_exists = False
    perform(brokers, send("a"), replication_factor=5, min_insync_replicas=4)
    ((topic,),) = (request.topics for request in brokers.sent(m.CreateTopicsRequest))
    assert (topic.replication_factor, topic.configs[0].value) == (3, "3")


@pytest.mark.parametrize(
    ("failure", "kind"), [(Failure.NOT_SENT, FAIL), (LOST, INFO), (Failure.DISCONNECTED, INFO)]
)
def test_a_send_without_an_answer_is_never_tried_again_unless_the_option_says_so(failure, kind):
    brokers = Brokers()
    brokers.rules.append([d.ProduceRequest, failure, False])
    (done,) = perform(brokers, send("a"))
    assert (done.type, done.error) == (kind, failure.value)
    assert len(brokers.sent(d.ProduceRequest)) == 1


def test_a_retry_is_the_same_batch_with_the_same_sequence():
    brokers = Brokers()
    brokers.rules.append([d.ProduceRequest, LOST, True])
    (done,) = perform(brokers, send("a"), retries=1)
    assert done.type is OK
    first, again = (request.partitions[0].records for request in brokers.sent(d.ProduceRequest))
    assert first == again


def test_a_send_that_was_refused_by_its_last_leader_is_uncertain_after_one_without_an_answer():
    brokers = Brokers()
    refused = d.ProduceResponse((d.ProduceResult("d0", 1, ErrorCode.not_leader_or_follower),))
    brokers.rules += [[d.ProduceRequest, LOST, False], [d.ProduceRequest, refused, False]]
    (done,) = perform(brokers, send("a"), retries=1)
    assert (done.type, done.error) == (INFO, "not_leader_or_follower")


def test_a_retried_send_has_the_epoch_of_its_first_attempt():
    brokers = Brokers()
    brokers.rules.append([d.ProduceRequest, LOST, True])
    leading = [lambda: brokers.lead(1, 1, epoch=1)]
    (done,) = perform(brokers, *leading, send("a"), retries=1)
    assert done.epoch == 1


def test_a_retry_at_a_leader_that_is_deposed_has_that_leaders_epoch():
    brokers = Brokers()
    brokers.lead(1, 1, epoch=5)

    def ask_the_deposed():
        brokers.brokers[1].views[1] = (2, 4)
        brokers.brokers[2].leads[1] = 4
        brokers.rules.append([d.ProduceRequest, LOST, False])

    _, done = perform(brokers, send("a"), ask_the_deposed, send("b"), retries=1, idempotence=0)
    assert (done.type, done.node, done.epoch) == (OK, "n2", 4)


def test_sequences_go_on_by_records_in_each_partition_by_itself():
    brokers = Brokers()
    other = Op("send", "d0-0", "x")
    perform(brokers, send("a", "b"), other, send("c"), send("d"))
    headers = [
        (request.partitions[0].index, parse_header(request.partitions[0].records))
        for request in brokers.sent(d.ProduceRequest)
    ]
    assert [(index, header.base_sequence) for index, header in headers] == [
        (1, 0),
        (0, 0),
        (1, 2),
        (1, 3),
    ]
    assert {header.producer_id for _, header in headers} == {1001}


def test_a_batch_that_was_certainly_not_appended_leaves_its_sequence_to_the_next():
    brokers = Brokers()
    brokers.rules.append([d.ProduceRequest, Failure.NOT_SENT, False])
    perform(brokers, send("a"), send("b"))
    sequences = [
        parse_header(request.partitions[0].records).base_sequence
        for request in brokers.sent(d.ProduceRequest)
    ]
    assert sequences == [0, 0]


def share(brokers, *ops, retries=0):
    """Let as many workers as there are operations share a producer, at one time each its own."""

    async def main():
        workload = workload_named("log", {"in_flight": 5, "retries": retries})
        clients = [workload.client(context_of(brokers, worker=n)) for n in range(len(ops))]
        calls = [client.invoke(op) for client, op in zip(clients, ops, strict=True)]
        return await asyncio.gather(*calls)

    return asyncio.run(main())


def sent_sequences(brokers):
    headers = [
        parse_header(request.partitions[0].records) for request in brokers.sent(d.ProduceRequest)
    ]
    return [(header.producer_id, header.base_sequence) for header in headers]


def test_workers_that_share_a_producer_have_its_batches_in_flight():
    brokers = Brokers()
    done = share(brokers, send("a"), send("b", "c"), send("d"))
    assert [each.type for each in done] == [OK, OK, OK]
    assert sorted(each.offset for each in done) == [
        sequence for _, sequence in sent_sequences(brokers)
    ]
    assert len({producer for producer, _ in sent_sequences(brokers)}) == 1


def test_a_producer_sends_no_second_batch_before_its_first_is_acknowledged():
    brokers = Brokers()
    brokers.rules.append([d.ProduceRequest, LOST, False])
    done = share(brokers, send("a"), send("b"))
    assert sorted(each.type for each in done) == sorted([INFO, OK])
    (first, _), (second, sequence) = sent_sequences(brokers)
    assert first != second
    assert sequence == 0


def test_a_producer_that_may_have_left_a_gap_is_done():
    producer = Producer(7, 0)
    at = TopicPartition("d0", 1)
    producer.begin(at, 2)
    assert producer.begin(at, 1) is None
    producer.end(at, 0, 2, OK)
    sequences = [producer.begin(at, 1).base_sequence for _ in range(3)]
    assert sequences == [2, 3, 4]
    producer.end(at, 4, 1, FAIL)
    assert not producer.is_over
    assert producer.begin(at, 1).base_sequence == 4
    producer.end(at, 2, 1, FAIL)
    assert producer.is_over


@pytest.mark.parametrize(
    ("options", "acks", "producer"),
    [({}, -1, 1001), ({"idempotence": 0}, -1, -1), ({"acks": "1"}, 1, -1), ({"acks": "0"}, 0, -1)],
)
def test_acks_and_idempotence_are_what_the_options_say(options, acks, producer):
    brokers = Brokers()
    (done,) = perform(brokers, send("a"), **options)
    (request,) = brokers.sent(d.ProduceRequest)
    assert (request.acks, parse_header(request.partitions[0].records).producer_id) == (
        acks,
        producer,
    )
    assert (done.type, done.offset) == (OK, None if acks == 0 else 0)


def test_a_consumer_goes_on_where_its_last_poll_ended():
    brokers = Brokers()
    done = perform(brokers, send("a"), poll(), send("b"), send("c"), poll(), poll(), poll(0))
    assert [seen(each) for each in done if each.offset is None] == [
        [],
        ["b", "c"],
        [],
        ["a", "b", "c"],
    ]


def test_a_poll_beyond_the_end_is_refused_with_the_epoch_that_refused_it():
    brokers = Brokers()
    brokers.lead(2, 1, epoch=5)
    (done,) = perform(brokers, poll(9))
    assert (done.type, done.error, done.epoch) == (FAIL, "offset_out_of_range", 5)


def test_a_poll_of_a_leader_that_was_replaced_is_refused_and_then_finds_the_next():
    brokers = Brokers()
    done = perform(brokers, poll(0), lambda: brokers.lead(3, 1, epoch=1), poll(0), poll(0))
    assert [(each.type, each.error, each.node) for each in done] == [
        (OK, None, "n1"),
        (FAIL, "not_leader_or_follower", "n1"),
        (OK, None, "n3"),
    ]


def test_a_pinned_consumer_reads_at_its_node_which_may_be_a_follower():
    brokers = Brokers()
    (done,) = perform(brokers, poll(), pinned_to="n3")
    assert (done.type, done.node, done.epoch) == (OK, "n3", None)
    brokers.lead(3, 1, epoch=2)
    (done,) = perform(brokers, poll(), pinned_to="n3")
    assert (done.node, done.epoch) == ("n3", 2)


def test_a_pinned_producer_sends_to_a_deposed_leader_that_still_believes_itself():
    brokers = Brokers()
    brokers.lead(2, 1, epoch=1, known_to=(2, 3))
    brokers.brokers[1].leads[1] = 0
    (done,) = perform(brokers, send("a"), pinned_to="n1")
    assert (done.type, done.node, done.epoch) == (OK, "n1", 0)


def test_a_whole_log_is_read_up_to_its_end_at_its_leader():
    brokers = Brokers()
    done = perform(brokers, *(send(f"v{n}") for n in range(5)), Op("poll-all", KEY))
    assert seen(done[-1]) == [f"v{n}" for n in range(5)]
    assert (done[-1].node, done[-1].epoch) == ("n1", 0)


def test_a_whole_log_is_read_at_a_replica_once_it_has_what_the_leader_had():
    brokers = Brokers()
    read = AtReplica("poll-all", KEY, replica=1)
    lacks, has = perform(
        brokers, lambda: brokers.brokers[1].append(1, batch_of(["a"], 0), 0), read,
        lambda: brokers.replicate(1), read,
    )  # fmt: skip
    assert (lacks.type, lacks.error, lacks.node) == (FAIL, "not-committed-in-time", "n2")
    assert (has.type, seen(has), has.node, has.epoch) == (OK, ["a"], "n2", None)


def test_a_replica_is_read_in_small_pieces_while_there_is_time():
    """Each begins where the replica's index says, which a read of the whole would not use."""
    brokers = Brokers()
    *sent, lead, replica = perform(
        brokers, *(send(f"v{n}") for n in range(9)), Op("poll-all", KEY),
        AtReplica("poll-all", KEY, replica=0),
    )  # fmt: skip
    assert seen(lead) == seen(replica) == [f"v{n}" for n in range(len(sent))]
    sizes = [request.max_bytes for request in brokers.sent(d.FetchRequest)]
    assert sizes[0] > 1_000_000
    assert len(sizes) > 3
    assert {*sizes[1:]} == {256}


def test_a_replica_that_lacks_something_is_read_at_once_when_half_of_the_time_is_over():
    brokers = Brokers()
    brokers.brokers[1].high_watermarks[1] = 0
    perform(brokers, send("a"), AtReplica("poll-all", KEY, replica=0))
    sizes = [request.max_bytes for request in brokers.sent(d.FetchRequest)]
    small = sizes.count(256)
    assert 0 < small < len(sizes)
    assert {*sizes[small:]} == {1024 * 1024}


def test_a_whole_log_is_not_read_where_its_end_is_not_committed():
    brokers = Brokers()
    brokers.brokers[1].high_watermarks[1] = 0
    *_, done = perform(brokers, send("a"), Op("poll-all", KEY))
    assert (done.type, done.error) == (FAIL, "not-committed-in-time")


@pytest.mark.parametrize("known_to", [(2, 3), (2,), (1, 2)])
def test_a_whole_log_is_not_read_while_brokers_disagree_about_its_leader(known_to):
    brokers = Brokers()
    brokers.lead(2, 1, epoch=1, known_to=known_to)
    brokers.brokers[1].leads[1] = 0
    (done,) = perform(brokers, Op("poll-all", KEY))
    assert (done.type, done.error) == (FAIL, "leaders-differ")


def test_a_whole_log_is_not_read_while_a_broker_does_not_answer():
    brokers = Brokers()
    brokers.rules.append([m.MetadataRequest, Failure.NOT_SENT, False])
    (done,) = perform(brokers, Op("poll-all", KEY))
    assert (done.type, done.error) == (FAIL, "not-sent")


def test_a_move_makes_another_replica_the_preferred_one_and_has_it_elected():
    brokers = Brokers()
    (done,) = perform(brokers, Op(MOVE, KEY, 4))
    (asked,) = brokers.sent(m.AlterPartitionReassignmentsRequest)
    assert asked.topics[0].partitions[0].replicas == (2, 3, 1)
    assert len(brokers.sent(m.ElectLeadersRequest)) == 1
    assert (done.type, done.error) == (FAIL, "election_not_needed")


def test_a_topic_gets_a_configuration():
    brokers = Brokers()
    set_to = {"name": "segment.ms", "value": "9"}
    (done,) = perform(brokers, Op(CONFIGURE, KEY, set_to))
    ((resource,),) = (each.resources for each in brokers.sent(m.IncrementalAlterConfigsRequest))
    (config,) = resource.configs
    assert (resource.resource_name, config.name, config.value) == ("d0", "segment.ms", "9")
    assert (done.type, done.value) == (OK, set_to)


def test_a_broker_is_asked_itself_to_change_its_size():
    brokers = Brokers()
    set_to = {"name": "num.io.threads", "value": "4"}
    (done,) = perform(brokers, Op(RESIZE, KEY, set_to), pinned_to="n2")
    ((resource,),) = (each.resources for each in brokers.sent(m.IncrementalAlterConfigsRequest))
    assert (resource.resource_type, resource.resource_name) == (4, "2")
    assert (done.type, done.node, done.value) == (OK, "n2", set_to)


def test_a_wrong_request_is_sent_as_it_is():
    brokers = Brokers()
    (done,) = perform(brokers, Op(ASK_WRONG, KEY, "delete: nowhere"))
    assert brokers.sent(m.DeleteTopicsRequest) == [WRONG["delete: nowhere"].request]
    assert (done.type, done.value) == (OK, "delete: nowhere"), "these brokers refuse nothing"


def test_a_topic_that_is_renewed_is_deleted_made_and_sent_to():
    brokers = Brokers()
    (done,) = perform(brokers, Op(RENEW, KEY), timeout_ms=1_000.0)
    kinds = [name for _, name in brokers.asked]
    order = ("DeleteTopicsRequest", "CreateTopicsRequest", "ProduceRequest")
    assert [kind for kind in kinds if kind in order] == list(order)
    assert done.type is OK


def test_a_topic_is_filled_with_batches_of_one():
    brokers = Brokers()
    brokers.lead(2, 1, epoch=5)
    (done,) = perform(brokers, Op(FILL, KEY, 3))
    assert len(brokers.sent(d.ProduceRequest)) == 3
    assert (done.type, done.node, done.value) == (OK, "n2", 3)


def test_a_broker_is_asked_for_many_producer_ids():
    brokers = Brokers()
    (done,) = perform(brokers, Op(PRODUCERS, KEY, 3), pinned_to="n2")
    assert len(brokers.sent(d.InitProducerIdRequest)) == 3
    assert (done.type, done.node, done.value) == (OK, "n2", 3)


@pytest.mark.parametrize(("offset", "kind"), [(1, OK), (-1, FAIL)])
def test_records_are_deleted_where_the_partition_is_led(offset, kind):
    brokers = Brokers()
    brokers.lead(2, 1, epoch=5)
    (done,) = perform(brokers, Op(DELETE, KEY, offset))
    ((topic,),) = (request.topics for request in brokers.sent(d.DeleteRecordsRequest))
    assert (topic.name, topic.partitions[0].offset) == ("d0", offset)
    assert (done.type, done.node, done.value) == (kind, "n2", offset)


def test_streams_send_each_record_once_over_all_workers():
    workload = workload_named("log", {})
    values = [
        value
        for worker in range(5)
        for op in islice(workload.operations(worker, Random(1), Role.MIXED), 500)
        if op.f == "send"
        for value in (op.value if isinstance(op.value, list) else [op.value])
    ]
    assert len(values) > 1000
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("role", "expected"),
    [(Role.MIXED, {"send", "poll", MOVE}), (Role.READER, {"poll"}), (Role.WRITER, {"send"})],
)
def test_roles_say_who_sends_and_who_polls(role, expected):
    workload = workload_named("log", {"move_fraction": 0.1})
    assert {op.f for op in islice(workload.operations(0, Random(1), role), 300)} == expected


def test_every_partition_is_read_at_its_leader_before_any_is_read_at_its_replicas():
    workload = workload_named("log", {"topics": 2, "partitions": 2, "replication_factor": 2})
    final = [(op.key, getattr(op, "replica", None)) for op in workload.final_operations()]
    keys = ["d0-0", "d0-1", "d1-0", "d1-1"]
    assert final[:4] == [(key, None) for key in keys]
    assert final[4:] == [(key, replica) for key in keys for replica in (0, 1)]


def test_the_check_is_promised_what_the_options_ask_for():
    specs = workload_named("log", {"acks": "1", "retries": 2}).checks()
    assert specs == (
        CheckSpec("log", {"acks": "1", "idempotence": False, "retries": True}),
        CheckSpec("replica-logs", {"acks": "1"}),
        CheckSpec("isr"),
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acks": "2"}, r"unknown acks '2' \(known: 0, 1, all\)"),
        ({"acks": 1}, "unknown acks '1'"),
        ({"idempotence": 2}, "idempotence must be"),
    ],
)
def test_options_that_do_not_exist_are_refused_in_one_line(options, said):
    with pytest.raises(WorkloadError, match=said) as refusal:
        workload_named("log", options)
    assert "\n" not in str(refusal.value)


def test_what_a_client_records_is_what_the_check_judges():
    """A deposed leader that goes on acknowledging what the next one lacks: lost, and named."""
    ops = [send("a"), send("b"), Op("poll-all", KEY)]
    brokers = Brokers()

    def next_leader():
        brokers.brokers[2].logs[1] = brokers.brokers[1].logs[1][:1]
        brokers.lead(2, 1, epoch=1)

    done = perform(brokers, *ops[:2], next_leader, ops[2])
    operations = [
        Operation(
            index=number,
            process=0,
            f=op.f,
            key=op.key,
            input=op.value,
            output=each.value,
            type=each.type,
            invoke_ns=10 * number,
            complete_ns=10 * number + 5,
            node=each.node,
            offset=each.offset,
            epoch=each.epoch,
        )
        for number, (op, each) in enumerate(zip(ops, done, strict=True))
    ]
    spec = workload_named("log", {}).checks()[0]
    result = run_check(spec, RunInput((), operations))
    assert result.statistics["anomalies_by_kind"] == {"lost-write": 1}
    assert "'b' of producer 0" in result.summary

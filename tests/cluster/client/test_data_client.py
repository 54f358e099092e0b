"""The client of the data path: what it asks, what it reads, and what it calls certain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.batches import CODECS, batch_of, read_batches
from cluster.client.caller import Outcome
from cluster.client.data_client import (
    ANY_EPOCH,
    LATEST,
    DataClient,
    Fetched,
    PartitionView,
    TopicPartition,
)
from cluster.client.failures import REFUSES_APPEND
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import (
    CorruptBatchError,
    Record,
    Sequenced,
    encode_batch,
    parse_header,
    with_base_offset,
)
from cluster.node.log.data.data_config import DataLogConfig
from cluster.node.log.data.validation import validate
from cluster.node.ports import Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from tests.cluster.client.test_certainty import NODE, ask
from tests.kio_bytes import filled

P = TopicPartition("d0", 3)
NONE = ErrorCode.none
ERRORS = [e for e in ErrorCode if e is not NONE]
BATCH = batch_of(["a"], 0)


def produced(error=NONE, base_offset=7, topic="d0", index=3):
    return d.ProduceResponse((d.ProduceResult(topic, index, error, base_offset),))


def send(reply, acks=-1):
    return ask(reply, lambda c: DataClient(c).produce(NODE, P, BATCH, acks))


def fetched(records=b"", error=NONE, top=NONE):
    return d.FetchResponse(top, (d.FetchResult("d0", 3, error, 9, 9, 0, records=records),))


def fetch(reply, position=0):
    asked = {"max_wait_ms": 50.0, "max_bytes": 100}
    return ask(reply, lambda c: DataClient(c).fetch(NODE, P, position, 4, **asked))


def test_a_batch_that_was_appended_has_its_offset():
    outcome, request = send(produced())
    assert outcome == Outcome("ok", 7)
    assert (request.acks, request.timeout_ms) == (-1, 500.0)
    assert request.partitions == (d.ProducePartition("d0", 3, BATCH),)


def test_with_acks_0_nothing_is_known_but_that_the_request_left():
    outcome, _ = send(d.UNANSWERED, acks=0)
    assert outcome == Outcome("ok", None)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_without_an_offset_is_certain_only_where_it_comes_before_the_append(error):
    expected = "fail" if error in REFUSES_APPEND else "info"
    assert send(produced(error, -1))[0] == Outcome(expected, error=error.name)


@pytest.mark.parametrize("error", ERRORS)
def test_what_has_an_offset_was_appended_whatever_the_error_says(error):
    assert send(produced(error, 7))[0] == Outcome("info", error=error.name)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_server_error,
        ErrorCode.duplicate_sequence_number,
    ],
)
def test_errors_of_what_may_be_in_the_log_are_never_certain(error):
    assert error not in REFUSES_APPEND


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(Failure.NOT_SENT, "fail"), (Failure.TIMED_OUT, "info"), (Failure.DISCONNECTED, "info")],
)
def test_a_send_without_an_answer_is_as_certain_as_the_network_is(failure, expected):
    assert send(failure)[0] == Outcome(expected, error=failure.value)


@pytest.mark.parametrize(
    "answer",
    [
        d.ProduceResponse(()),
        produced(topic="d1"),
        produced(index=2),
        produced(base_offset=-1),
        d.ProduceResponse(produced().partitions * 2),
    ],
)
def test_an_answer_about_something_else_says_nothing_of_the_send(answer):
    outcome, _ = send(answer)
    assert outcome.type == "info"
    assert outcome.error.startswith("wrong-answer")


def test_a_fetch_names_the_epoch_and_shows_records_with_their_offsets():
    records = with_base_offset(batch_of(["a", "b"], 0), 4)
    outcome, request = fetch(fetched(records), position=4)
    assert outcome == Outcome("ok", Fetched(((4, "a"), (5, "b")), 6, 9, 0, 9))
    (asked,) = request.partitions
    assert (asked.fetch_offset, asked.current_leader_epoch) == (4, 4)
    assert (request.replica_id, request.session_epoch) == (-1, d.FINAL_SESSION_EPOCH)


@pytest.mark.parametrize("error", ERRORS)
def test_a_read_that_is_refused_certainly_had_no_effect(error):
    refused = Outcome("fail", error=error.name)
    assert fetch(fetched(error=error))[0] == refused
    assert fetch(fetched(top=error))[0] == refused


def test_records_that_are_damaged_are_a_wrong_answer():
    records = bytearray(with_base_offset(BATCH, 0))
    records[-1] ^= 1
    outcome, _ = fetch(fetched(bytes(records)))
    assert outcome.type == "info"
    assert "CRC" in outcome.error


def offsets(*, offset, error=NONE):
    result = d.ListOffsetsPartitionResponse(partition_index=3, error_code=error, offset=offset)
    topic = d.ListOffsetsTopicResponse(name="d0", partitions=(result,))
    return d.ListOffsetsResponse(throttle_time=m.NO_THROTTLE, topics=(topic,))


def test_an_end_of_a_log_is_asked_for_in_an_epoch():
    outcome, request = ask(offsets(offset=8), lambda c: DataClient(c).find_end(NODE, P, ANY_EPOCH))
    assert outcome == Outcome("ok", 8)
    (asked,) = request.topics[0].partitions
    assert (asked.timestamp, asked.current_leader_epoch) == (LATEST, ANY_EPOCH)


def test_no_offset_is_a_refusal():
    outcome, _ = ask(offsets(offset=-1), lambda c: DataClient(c).find_end(NODE, P, 1))
    assert outcome == Outcome("fail", error="offset_not_available")


def reign(*, end, error=NONE):
    result = d.EpochEndOffset(partition=3, error_code=error, leader_epoch=4, end_offset=end)
    topic = d.OffsetForLeaderTopicResult(topic="d0", partitions=(result,))
    return d.OffsetForLeaderEpochResponse(throttle_time=m.NO_THROTTLE, topics=(topic,))


def test_the_end_of_a_reign_is_asked_of_the_leader_of_this_very_epoch():
    outcome, request = ask(reign(end=12), lambda c: DataClient(c).end_of_reign(NODE, P, 4))
    assert outcome == Outcome("ok", 12)
    (asked,) = request.topics[0].partitions
    assert (asked.current_leader_epoch, asked.leader_epoch) == (4, 4)


def test_a_leader_of_another_epoch_confirms_nothing():
    refused = reign(end=-1, error=ErrorCode.fenced_leader_epoch)
    outcome, _ = ask(refused, lambda c: DataClient(c).end_of_reign(NODE, P, 4))
    assert outcome == Outcome("fail", error="fenced_leader_epoch")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.offset_out_of_range, "fail"),
        (ErrorCode.policy_violation, "fail"),
        (ErrorCode.request_timed_out, "info"),
        (ErrorCode.not_leader_or_follower, "info"),
    ],
)
def test_records_may_be_deleted_whose_leader_gave_up_waiting_for_its_followers(error, kind):
    result = d.DeleteRecordsPartitionResult(partition_index=3, low_watermark=-1, error_code=error)
    topic = d.DeleteRecordsTopicResult(name="d0", partitions=(result,))
    answer = d.DeleteRecordsResponse(throttle_time=m.NO_THROTTLE, topics=(topic,))
    outcome, _ = ask(answer, lambda c: DataClient(c).delete_records(NODE, P, 5))
    assert outcome == Outcome(kind, error=error.name)


@pytest.mark.parametrize(
    ("error", "producer_id", "expected"),
    [
        (NONE, 4000, Outcome("ok", (4000, 0))),
        (ErrorCode.coordinator_load_in_progress, -1, "coordinator_load_in_progress"),
    ],
)
def test_a_producer_id_is_given_or_refused(error, producer_id, expected):
    given = {"producer_id": producer_id, "producer_epoch": 0}
    answer = filled(d.InitProducerIdResponse, error_code=error, **given)
    outcome, _ = ask(answer, lambda c: DataClient(c).init_producer_id(NODE))
    assert outcome == (Outcome("fail", error=expected) if isinstance(expected, str) else expected)


def metadata(topic_error=NONE):
    partition = m.MetadataResponsePartition(
        error_code=NONE,
        partition_index=3,
        leader_id=2,
        leader_epoch=5,
        replica_nodes=(1, 2),
        isr_nodes=(2,),
    )
    named = {"name": "d0", "partitions": (partition,)}
    topic = filled(m.MetadataResponseTopic, error_code=topic_error, **named)
    return filled(m.MetadataResponse, brokers=(), controller_id=1, topics=(topic,))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NONE, Outcome("ok", {3: PartitionView(2, 5, (1, 2))})),
        (ErrorCode.unknown_topic_or_partition, Outcome("ok", None)),
        (ErrorCode.invalid_topic_exception, Outcome("fail", error="invalid_topic_exception")),
    ],
)
def test_metadata_shows_who_leads_in_which_epoch(error, expected):
    assert ask(metadata(error), lambda c: DataClient(c).describe(NODE, "d0"))[0] == expected


def test_who_leads_another_topic_is_a_wrong_answer():
    outcome, _ = ask(metadata(), lambda c: DataClient(c).describe(NODE, "d1"))
    assert (outcome.type, outcome.error) == (
        "info",
        "wrong-answer: answer to MetadataRequest: name is 'd0', asked was 'd1'",
    )


def log_of(sizes):
    """Return the bytes of a log with batches of these sizes, and its records."""
    data, records = b"", []
    for size in sizes:
        values = [f"v{len(records) + n}" for n in range(size)]
        data += with_base_offset(batch_of(values, 0), len(records))
        records += [(len(records) + n, value) for n, value in enumerate(values)]
    return data, records


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_a_log_that_is_cut_anywhere_is_read_up_to_its_last_whole_batch(sizes, data):
    log, records = log_of(sizes)
    cut = data.draw(st.integers(0, len(log)))
    position = data.draw(st.integers(0, len(records)))
    shown, next_offset = read_batches(log[:cut], position)
    whole = next(
        sum(sizes[:n]) for n in range(len(sizes), -1, -1) if len(log_of(sizes[:n])[0]) <= cut
    )
    assert list(shown) == records[position:whole]
    assert next_offset == max(position, whole)


def test_control_batches_are_passed_over_and_move_the_position():
    control = encode_batch(2, 1, [Record(b"x", b"k")], 0, control=True)
    data = with_base_offset(batch_of(["a", "b"], 0), 0) + control
    assert read_batches(data, 0) == (((0, "a"), (1, "b")), 3)


@pytest.mark.parametrize(
    "data",
    [
        with_base_offset(BATCH, 5) + with_base_offset(BATCH, 5),
        encode_batch(0, 1, [Record(None, b"k")], 0),
        encode_batch(0, 1, [Record(b"\xff")], 0),
    ],
)
def test_what_is_no_log_of_texts_in_order_is_refused(data):
    with pytest.raises(CorruptBatchError):
        read_batches(data, 0)


@pytest.mark.parametrize("compression", CODECS)
def test_a_compressed_batch_is_read_as_it_was_written(compression):
    texts = ["a", "b" * 9_000]
    batch = batch_of(texts, 17, Sequenced(4000, 1, 8), compression)
    assert batch == batch_of(texts, 17, Sequenced(4000, 1, 8), compression)
    assert len(batch) < 9_000
    header, kept = validate(batch, DataLogConfig(), 17)
    assert (header.base_sequence, header.record_count, kept) == (8, 2, batch)
    assert read_batches(batch, 0)[0] == ((0, "a"), (1, "b" * 9_000))


def test_an_idempotent_batch_carries_its_producer_and_sequence():
    header = parse_header(batch_of(["a", "b"], 17, Sequenced(4000, 1, 8)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 1, 8)
    assert (header.max_timestamp_ms, header.record_count) == (17, 2)
    plain = parse_header(BATCH)
    assert (plain.producer_id, plain.base_sequence) == (-1, -1)

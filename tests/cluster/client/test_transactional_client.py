"""A transactional client: in which versions it asks, what is certain, and what readers skip."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.client.batches import batch_of, read_batches
from cluster.client.caller import Outcome
from cluster.client.data_client import DataClient, TopicPartition
from cluster.client.transactional_client import Producer, TransactionalClient, find_coordinator
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import (
    Record,
    Sequenced,
    encode_batch,
    parse_header,
    with_base_offset,
)
from cluster.node.ports import Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.node.protocol import transaction_messages as t
from cluster.node.protocol.apis import ApiKey, ListenerType, VersionRange, response_class
from cluster.node.protocol.codec import (
    api_key_of,
    listener_of,
    read_response,
    spoken_versions,
    write_request,
)
from cluster.node.protocol.data_codecs import FETCH
from tests.cluster.client.test_certainty import NODE, ask
from tests.kio_bytes import body_of

P = TopicPartition("t0", 3)
NONE = ErrorCode.none
ID, PRODUCER = "w1", Producer(4000, 7)


def end(reply, *, bumps_epoch=True, commit=True):
    return ask(
        reply,
        lambda client: TransactionalClient(client).end(
            NODE, ID, PRODUCER, commit=commit, bumps_epoch=bumps_epoch
        ),
    )


def ended(error=NONE, producer_id=4000, epoch=8):
    return t.EndTxnResponse(
        throttle_time=m.NO_THROTTLE, error_code=error, producer_id=producer_id, producer_epoch=epoch
    )


def produce(**options):
    answer = d.ProduceResponse((d.ProduceResult("t0", 3, NONE, 5),))
    batch = batch_of(["1"], 0, Sequenced(4000, 7, 0, transactional=True))
    return ask(answer, lambda c: DataClient(c).produce(NODE, P, batch, -1, **options))[1]


def test_with_transaction_version_2_the_epoch_of_the_next_transaction_is_in_the_answer():
    outcome, request = end(ended())
    assert outcome == Outcome("ok", Producer(4000, 8))
    assert spoken_versions(request) == VersionRange(0, 5)
    assert (request.producer_id, request.producer_epoch, request.committed) == (4000, 7, True)


def test_with_the_first_protocol_an_end_has_no_epoch_and_is_sent_in_its_versions():
    outcome, request = end(ended(producer_id=-1, epoch=-1), bumps_epoch=False, commit=False)
    assert outcome == Outcome("ok", PRODUCER)
    assert spoken_versions(request) == VersionRange(0, 4)
    assert request.committed is False


@pytest.mark.parametrize(("adds", "versions"), [(True, (12, 12)), (False, (3, 11))])
def test_the_version_of_a_produce_says_whether_it_adds_the_partition(adds, versions):
    request = produce(transactional_id=ID, adds_partitions=adds)
    assert spoken_versions(request) == VersionRange(*versions)
    assert parse_header(request.partitions[0].records).is_transactional


def test_a_produce_without_a_transaction_has_the_versions_that_it_had():
    assert spoken_versions(produce()) == VersionRange(3, 12)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.producer_fenced, "fail"),
        (ErrorCode.invalid_producer_epoch, "fail"),
        (ErrorCode.invalid_txn_state, "fail"),
        (ErrorCode.concurrent_transactions, "info"),
        (ErrorCode.not_coordinator, "info"),
        (ErrorCode.coordinator_not_available, "info"),
        (ErrorCode.unknown_server_error, "info"),
        (ErrorCode.request_timed_out, "info"),
    ],
)
def test_an_end_is_refused_for_certain_only_by_what_is_decided_before_its_append(error, kind):
    assert end(ended(error))[0] == Outcome(kind, error=error.name)


def test_an_end_without_an_answer_may_have_happened():
    assert end(Failure.TIMED_OUT)[0].type == "info"
    assert end(ended(producer_id=-1))[0].error.startswith("wrong-answer")


def coordinated(key=ID, error=NONE):
    found = t.Coordinator(
        key=key, node_id=2, host="h", port=1, error_code=error, error_message=None
    )
    return t.FindCoordinatorResponse(throttle_time=m.NO_THROTTLE, coordinators=(found,))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (coordinated(), Outcome("ok", 2)),
        (
            coordinated(error=ErrorCode.coordinator_not_available),
            Outcome("fail", error="coordinator_not_available"),
        ),
    ],
)
def test_a_coordinator_is_found_by_the_transactional_id(answer, expected):
    outcome, request = ask(answer, lambda c: find_coordinator(c, NODE, t.TRANSACTION, ID))
    assert outcome == expected
    assert (request.key_type, request.coordinator_keys) == (1, (ID,))


def test_the_coordinator_of_another_id_is_a_wrong_answer():
    outcome, _ = ask(coordinated("w9"), lambda c: find_coordinator(c, NODE, t.TRANSACTION, ID))
    assert outcome.error.startswith("wrong-answer")


def test_requests_are_written_in_every_version_and_their_answers_read():
    topic = t.AddPartitionsToTxnTopic(name="t0", partitions=(3,))
    requests = [
        t.FindCoordinatorRequest(key_type=1, coordinator_keys=(ID,)),
        t.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=4000,
            v3_and_below_producer_epoch=7,
            v3_and_below_topics=(topic,),
        ),
        *(
            kind(transactional_id=ID, producer_id=4000, producer_epoch=7, committed=True)
            for kind in (t.EndTxnRequest, t.EndTxnRequestV4)
        ),
    ]
    for request in requests:
        versions = spoken_versions(request)
        for version in range(versions.lowest, versions.highest + 1):
            assert ID.encode() in write_request(request, version, 1, "c")
    old = response_class(ApiKey.END_TXN, 2)(throttle_time=m.NO_THROTTLE, error_code=NONE)
    answer = read_response(struct.pack(">i", 1) + body_of(old), ApiKey.END_TXN, 2)
    assert (answer.error_code, answer.producer_epoch) == (NONE, -1)


def test_an_answer_names_aborted_transactions_in_every_version_that_can_be_asked_for():
    aborted = (d.AbortedTransaction(5, 4000), d.AbortedTransaction(9, 4001))
    result = d.FetchResult("t0", 3, NONE, 20, 12, 0, aborted=aborted)
    asked = d.FetchRequest(-1, -1, 0.0, 1, 100, (d.FetchPartition("t0", 3, 0, 100),))
    for version in (4, 11, 12):
        body = FETCH.write_response(d.FetchResponse(NONE, (result,)), version)
        frame = struct.pack(">i", 1) + b"\0" * (version >= 12) + body_of(body)
        read = read_response(frame, api_key_of(asked), version, listener_of(asked))
        assert read.partitions[0].aborted == aborted
        assert read.partitions[0].last_stable_offset == 12
    assert listener_of(asked) is ListenerType.BROKER


# --- what a reader of committed records skips ---


def marker(offset, producer_id, kind):
    """Return a control batch that ends a transaction; kind 0 aborts, 1 commits."""
    record = Record(b"\0" * 6, struct.pack(">hh", 0, kind))
    return encode_batch(
        offset, 0, [record], 0, control=True, sequenced=Sequenced(producer_id, 0, -1)
    )


def appended(offset, values, producer_id, *, transactional=True):
    sequenced = Sequenced(producer_id, 0, 0, transactional=transactional)
    return with_base_offset(batch_of(values, 0, sequenced), offset)


def shown(data, position=0, aborted=()):
    return [value for _, value in read_batches(data, position, aborted)[0]]


def test_a_producers_records_are_hidden_from_its_first_offset_up_to_its_abort_marker():
    data = b"".join(
        (
            appended(0, ["kept"], 7),
            marker(1, 7, 1),
            appended(2, ["gone"], 7),
            appended(3, ["other"], 8),
            appended(4, ["gone too"], 7),
            marker(5, 7, 0),
            appended(6, ["next"], 7),
        )
    )
    assert shown(data, 0, [d.AbortedTransaction(2, 7)]) == ["kept", "other", "next"]
    assert shown(data) == ["kept", "gone", "other", "gone too", "next"]


def test_a_commit_marker_of_the_same_producer_ends_no_aborted_transaction():
    # A marker of before the transaction's first offset, met before that.
    data = marker(0, 7, 1) + appended(1, ["gone"], 7) + marker(2, 7, 0)
    assert shown(data, 0, [d.AbortedTransaction(1, 7)]) == []


def test_what_a_producer_appends_outside_of_transactions_is_shown():
    data = appended(0, ["plain"], 7, transactional=False)
    assert shown(data, 0, [d.AbortedTransaction(0, 7)]) == ["plain"]


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["append", "append", "commit", "abort"])),
    max_size=25,
)


@given(ACTIONS, st.data())
def test_from_every_position_a_reader_shows_what_was_committed_and_nothing_else(actions, data):
    log, open_at, aborted, fate = [], {}, [], {}
    for offset, (producer, what) in enumerate(actions):
        if what == "append":
            open_at.setdefault(producer, []).append(offset)
            log.append(appended(offset, [f"v{offset}"], producer))
            continue
        log.append(marker(offset, producer, int(what == "commit")))
        begun = open_at.pop(producer, [])
        fate |= dict.fromkeys(begun, what)
        if begun and what == "abort":
            aborted.append((begun[0], offset, producer))
    stable = min((begun[0] for begun in open_at.values()), default=len(log))
    position = data.draw(st.integers(0, stable))
    named = [
        d.AbortedTransaction(first, producer)
        for first, last, producer in aborted
        if first < stable and last >= position
    ]
    expected = [f"v{n}" for n in range(position, stable) if fate.get(n) == "commit"]
    assert shown(b"".join(log[position:stable]), position, named[::-1]) == expected

"""What the guard lets through to kio, what it refuses, and what it takes out."""

import datetime as dt
import signal
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.response import RenewDelegationTokenResponse
from kio.schema.request_header.v2 import RequestHeader
from kio.serial import entity_reader

from cluster.node.protocol.apis import SERVED, ApiKey, request_class, response_class
from cluster.node.protocol.codec import MAX_REQUEST_ELEMENTS, read_request
from cluster.node.wire.bounds import MalformedError, bound_frame
from tests.cluster.node.protocol.entities import entities
from tests.cluster.node.protocol.false_lengths import CLASSES, full, header
from tests.cluster.node.protocol.newer import as_newer
from tests.kio_bytes import body_of

FLEXIBLE = [entry for entry in CLASSES if entry[2].__flexible__]
LATEST_MS = 253_402_300_799_999
few = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))


def names(entry):
    return f"{entry[2].__name__}-{entry[1]}"


def check(body, *classes, max_elements=10_000):
    return bound_frame(body, classes, max_elements=max_elements)


@pytest.mark.slow
@pytest.mark.parametrize("entry", CLASSES, ids=names)
def test_the_guard_passes_what_kio_writes_and_refuses_each_beginning_of_it(entry):
    _, _, cls = entry

    @few
    @given(entities(cls))
    def run(entity):
        body = body_of(entity)
        assert check(body, cls) is body
        for size in range(len(body)):
            with pytest.raises(MalformedError):
                check(body[:size], cls)

    run()
    body = body_of(full(cls))
    assert check(body, cls) is body
    for size in range(len(body)):
        with pytest.raises(MalformedError):
            check(body[:size], cls)


@pytest.mark.parametrize("entry", FLEXIBLE, ids=names)
def test_a_newer_peers_tagged_fields_are_skipped_wherever_they_are(entry):
    _, _, cls = entry

    @few
    @given(entities(cls), st.text(min_size=1, max_size=200))
    def run(entity, text):
        assert check(body_of(as_newer(entity, text)), cls) == body_of(entity)

    run()
    # 200 bytes of an inner field's unknown tags make its own size shrink from two bytes to one.
    assert check(body_of(as_newer(full(cls), "x" * 200)), cls) == body_of(full(cls))


def test_a_newer_clients_whole_request_is_read_and_its_headers_tags_are_skipped():
    cls = request_class(ApiKey.FETCH, 18)
    entity = full(cls)
    frame = header(entity)[:-1] + b"\1\x09\3abc" + body_of(as_newer(entity, "new"))
    plain = read_request(header(entity) + body_of(entity), SERVED)
    assert read_request(frame, SERVED) == plain


def test_bytes_behind_the_message_stay_behind_the_copy():
    body = body_of(full(ApiVersionsRequest))
    newer = body_of(as_newer(full(ApiVersionsRequest), "new"))
    assert check(newer + b"behind", ApiVersionsRequest) == body + b"behind"


@pytest.mark.slow
def test_false_array_lengths_kill_no_process():
    run = subprocess.run(  # noqa: PLW1510 - its return code is what is judged
        [sys.executable, "-m", "tests.cluster.node.protocol.false_lengths"],
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) > 1_600, "frames that were refused"


@pytest.mark.slow
def test_the_same_frames_do_kill_a_process_that_reads_them_unguarded():
    run = subprocess.run(  # noqa: PLW1510 - its return code is what is judged
        [sys.executable, "-m", "tests.cluster.node.protocol.false_lengths", "--unguarded"],
        capture_output=True,
    )
    assert run.returncode == -signal.SIGABRT, "kio is bounded now, the guard could go"


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (b"\xff\xff\xff\xff\x0f", "4294967295 elements in 0 bytes"),
        (b"\2\x09\1a\x0a", "cut off"),
        (b"\1\x09\xff\xff\xff\xff\x0f", "cut off"),
        (b"\1\x80\x80\x80\x80\x80\0", "more than 5 bytes"),
    ],
)
def test_tagged_fields_must_fit_the_frame(tags, why):
    with pytest.raises(MalformedError, match=why):
        check(struct.pack(">hhih", 3, 9, 1, -1) + tags, RequestHeader)


def test_a_known_tagged_field_must_have_the_size_that_is_announced():
    cls = request_class(ApiKey.FETCH, 18)
    body = b"\0" * 21 + b"\1\1\1"
    assert check(body + b"\1\0\2\2a", cls)
    for size in (1, 3):
        with pytest.raises(MalformedError, match=f"does not have its {size} bytes"):
            check(body + bytes([1, 0, size]) + b"\2abc", cls)


def test_null_is_refused_where_the_schema_allows_none():
    with pytest.raises(MalformedError, match=r"ApiVersionsRequest\.client_software_name is null"):
        check(b"\0\2a\0", ApiVersionsRequest)
    fetch = request_class(ApiKey.FETCH, 18)
    with pytest.raises(MalformedError, match=r"FetchRequest\.topics has -1 elements"):
        check(b"\0" * 21 + b"\0\1\1\0", fetch)
    assert check(b"\0\1\1\1\0", MetadataRequest)


def test_an_entity_that_may_be_null_is_marked():
    cursor = Cursor(topic_name="t", partition_index=1)
    for found in (None, cursor):
        request = DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=1, cursor=found
        )
        body = body_of(request)
        assert check(body, DescribeTopicPartitionsRequest) is body
        assert entity_reader(DescribeTopicPartitionsRequest)(body, 0) == (request, len(body))
    with pytest.raises(MalformedError, match="neither null nor present"):
        check(b"\1\0\0\0\1\7\0", DescribeTopicPartitionsRequest)


def test_a_frame_holds_no_more_elements_than_are_allowed_all_arrays_together():
    cls = response_class(ApiKey.METADATA, 9)
    entity = full(cls)
    body = body_of(entity)  # broker, topic, partition; replicas, ISR, offline replicas
    assert check(body, cls, max_elements=6) is body
    with pytest.raises(MalformedError, match="too many"):
        check(body, cls, max_elements=5)


def test_a_request_full_of_tiny_elements_is_refused_before_it_is_read():
    head = struct.pack(">hhih", ApiKey.METADATA, 0, 1, -1)
    for count, refused in ((MAX_REQUEST_ELEMENTS, False), (MAX_REQUEST_ELEMENTS + 1, True)):
        frame = head + struct.pack(">i", count) + b"\0\1a" * count
        if refused:
            with pytest.raises(MalformedError, match="too many"):
                read_request(frame, SERVED)
        else:
            assert len(read_request(frame, SERVED).message.topics) == count


@pytest.mark.parametrize(
    ("sent_ms", "read_ms"),
    [(2**63 - 1, LATEST_MS), (-(2**63), -LATEST_MS), (-1, -1), (LATEST_MS, LATEST_MS)],
)
def test_a_duration_that_kio_cannot_hold_is_the_longest_that_it_can(sent_ms, read_ms):
    body = b"\x02x" + struct.pack(">q", sent_ms) + b"\0"
    copy = check(body, RenewDelegationTokenRequest)
    request, size = entity_reader(RenewDelegationTokenRequest)(copy, 0)
    assert size == len(body)
    assert request.hmac == b"x"
    assert request.renew_period == dt.timedelta(milliseconds=read_ms)


@pytest.mark.parametrize(
    ("sent_ms", "read_ms"), [(-1, 0), (5, 5), (LATEST_MS + 1, LATEST_MS), (2**63 - 1, LATEST_MS)]
)
def test_a_time_that_kio_cannot_hold_is_the_nearest_that_it_can(sent_ms, read_ms):
    body = struct.pack(">hqi", 0, sent_ms, 0) + b"\0"
    copy = check(body, RenewDelegationTokenResponse)
    response, _ = entity_reader(RenewDelegationTokenResponse)(copy, 0)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert abs(response.expiry_timestamp - epoch - dt.timedelta(milliseconds=read_ms)) < (
        dt.timedelta(milliseconds=1)
    )

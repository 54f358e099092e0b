"""Produce and Fetch of data in every version: what is written is read, and what a version lacks."""

import dataclasses
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol import data_messages as d
from cluster.node.protocol.data_codecs import FETCH, PRODUCE
from tests.kio_bytes import body_of

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
IDS_FROM = 13
OFFSETS = st.integers(-1, 2**62)
EPOCHS = st.integers(-1, 2**31 - 1)
INDEXES = st.integers(0, 2**31 - 1)
ERRORS = st.sampled_from([ErrorCode.none, ErrorCode.not_leader_or_follower])
BYTES = st.binary(max_size=40)
NAMES = st.text("abc.", min_size=1, max_size=4)
IDS = st.integers(0, 3).map(lambda number: uuid.UUID(int=number))
ENDPOINTS = st.lists(
    st.builds(Endpoint, st.integers(0, 9), st.just("host"), st.integers(1, 65535)), max_size=2
).map(tuple)


def topics(version):
    return IDS if version >= IDS_FROM else NAMES


def lists(rows):
    return st.lists(rows, max_size=5).map(tuple)


def crossed(entity):
    """What arrives of a message that kio writes."""
    data = body_of(entity)
    body, size = entity_reader(type(entity))(data, 0)
    assert size == len(data)
    return body


def without(row, **defaults):
    return dataclasses.replace(row, **defaults)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_produce_request_is_read_as_it_was_written(version, data):
    row = st.builds(d.ProducePartition, topics(version), INDEXES, BYTES)
    timeout = st.integers(0, 60_000).map(float)
    acks = st.sampled_from([-1, 0, 1])
    request = data.draw(st.builds(d.ProduceRequest, acks, timeout, lists(row)))
    assert PRODUCE.read_request(crossed(PRODUCE.write_request(request, version))) == request


@pytest.mark.slow
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_produce_response_loses_what_its_version_lacks(version, data):
    row = st.builds(
        d.ProduceResult,
        topics(version),
        INDEXES,
        ERRORS,
        OFFSETS,
        st.integers(-1, 2**40),
        OFFSETS,
        st.none() | st.just("why"),
        st.integers(-1, 9),
        EPOCHS,
    )
    response = data.draw(st.builds(d.ProduceResponse, lists(row), ENDPOINTS))
    lost = {} if version >= 5 else {"log_start_offset": -1}
    lost |= {} if version >= 8 else {"error_message": None}
    lost |= {} if version >= 10 else {"leader_id": -1, "leader_epoch": -1}
    expected = d.ProduceResponse(
        tuple(without(row, **lost) for row in response.partitions),
        response.endpoints if version >= 10 else (),
    )
    assert PRODUCE.read_response(crossed(PRODUCE.write_response(response, version))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_fetch_request_loses_what_its_version_lacks(version, data):
    row = st.builds(
        d.FetchPartition,
        topics(version),
        INDEXES,
        OFFSETS,
        INDEXES,
        EPOCHS,
        EPOCHS,
        OFFSETS,
        OFFSETS,
    )
    forgotten = st.tuples(topics(version), INDEXES)
    request = data.draw(
        st.builds(
            d.FetchRequest,
            st.integers(-1, 9),
            OFFSETS,
            st.integers(0, 500).map(float),
            INDEXES,
            INDEXES,
            lists(row),
            lists(forgotten),
            st.integers(0, 99),
            EPOCHS,
            st.booleans(),
            st.none() | st.just("cluster"),
            st.sampled_from(["", "rack"]),
        )
    )
    lost = {} if version >= 5 else {"log_start_offset": -1}
    lost |= {} if version >= 9 else {"current_leader_epoch": -1}
    lost |= {} if version >= 12 else {"last_fetched_epoch": -1}
    lost |= {} if version >= 18 else {"high_watermark": 2**63 - 1}
    expected = without(
        request,
        partitions=tuple(without(row, **lost) for row in request.partitions),
        **({} if version >= 7 else {"session_id": 0, "session_epoch": -1, "forgotten": ()}),
        **({} if version >= 11 else {"rack": None}),
        **({} if version >= 12 else {"cluster_id": None}),
        **({} if version >= 15 else {"replica_epoch": -1}),
    )
    assert FETCH.read_request(crossed(FETCH.write_request(request, version))) == expected


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_fetch_response_loses_what_its_version_lacks(version, data):
    row = st.builds(
        d.FetchResult,
        topics(version),
        INDEXES,
        ERRORS,
        OFFSETS,
        OFFSETS,
        OFFSETS,
        st.none() | st.builds(OffsetAndEpoch, st.integers(0, 9), st.integers(0, 9)),
        BYTES,
        st.integers(-1, 9),
        EPOCHS,
    )
    response = data.draw(
        st.builds(d.FetchResponse, ERRORS, lists(row), st.integers(0, 99), ENDPOINTS)
    )
    lost = {} if version >= 5 else {"log_start_offset": -1}
    lost |= {} if version >= 12 else {"diverging": None, "leader_id": -1, "leader_epoch": -1}
    expected = without(
        response,
        partitions=tuple(without(row, **lost) for row in response.partitions),
        **({} if version >= 7 else {"error": ErrorCode.none, "session_id": 0}),
        **({} if version >= 16 else {"endpoints": ()}),
    )
    assert FETCH.read_response(crossed(FETCH.write_response(response, version))) == expected

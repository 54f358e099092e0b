"""What controllers of Apache Kafka said to each other is decoded to the last byte."""

from __future__ import annotations

import io

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from cluster.node.protocol.apis import SERVED, ApiKey
from cluster.node.protocol.codec import read_request, read_response
from tests.conformance.capture import RAFT, load
from tests.kafka_release import VERSION

ROWS = load(VERSION)
IDS = [f"{RAFT[row['api']]}-{number}" for number, row in enumerate(ROWS)]


def test_every_message_of_peers_was_heard():
    assert {row["api"] for row in ROWS} == set(RAFT)


def is_whole(schema, frame: bytes) -> bool:
    """Whether a frame is the same when it was read and written: a field unknown to us is lost."""
    header, offset = entity_reader(schema.__header_schema__)(frame, 0)
    message, _ = entity_reader(schema)(frame, offset)
    out = io.BytesIO()
    entity_writer(schema.__header_schema__)(out, header)
    entity_writer(schema)(out, message)
    return out.getvalue() == frame


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_request_is_read_whole(row):
    frame, api = bytes.fromhex(row["request"]), row["api"]
    assert is_whole(load_request_schema(api, row["version"]), frame)
    assert read_request(frame, {api: SERVED[ApiKey(api)]}).message is not None


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_response_is_read_whole(row):
    frame, api = bytes.fromhex(row["response"]), row["api"]
    assert is_whole(load_response_schema(api, row["version"]), frame)
    assert read_response(frame, ApiKey(api), row["version"]) is not None

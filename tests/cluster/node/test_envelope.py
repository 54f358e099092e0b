"""Envelopes (KIP-590): Kafka's bytes, every refusal, and nodes that pass requests on in them."""

import dataclasses
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.envelope import (
    FORWARDABLE,
    EnvelopeError,
    answer_to,
    seal,
    unseal,
    unseal_response,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import ANONYMOUS, SERVED, ApiKey, Origin
from cluster.node.protocol.codec import write_request
from tests.cluster.node.controller.fakes import alter, create
from tests.harness.sim.quorums import Quorum

ALICE = Origin("User", "alice", "192.0.2.7", "admin-1")

ALICES_BYTES = b"\0\0" + b"\x05User" + b"\x06alice" + b"\0" + b"\0"
"""Version, compact strings, tokenAuthenticated, no tags: DefaultKafkaPrincipalBuilder.serialize."""


def refused(**changes):
    with pytest.raises(EnvelopeError) as caught:
        unseal(dataclasses.replace(seal(create("t"), ALICE), **changes))
    return caught.value.error


def test_an_envelope_has_kafkas_bytes():
    envelope = seal(create("t"), ALICE)
    assert envelope.request_principal == ALICES_BYTES
    assert envelope.client_host_address == bytes([192, 0, 2, 7])
    key, version, _correlation_id, length = struct.unpack_from(">hhih", envelope.request_data)
    assert (key, version, length) == (ApiKey.CREATE_TOPICS, 7, len("admin-1"))


def test_what_is_sealed_is_unsealed():
    request, origin = unseal(seal(create("t"), ALICE))
    assert (request.message, origin) == (create("t"), ALICE)


@pytest.mark.parametrize(
    ("address", "packed"),
    [("::1", bytes(15) + b"\1"), ("fe80::2%eth0", b"\xfe\x80" + bytes(13) + b"\2"), ("", bytes(4))],
)
def test_addresses_are_packed(address, packed):
    assert seal(create("t"), Origin(address=address)).client_host_address == packed


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"request_principal": None}, ErrorCode.principal_deserialization_failure),
        ({"request_principal": b""}, ErrorCode.principal_deserialization_failure),
        ({"request_principal": b"\0\1" + ALICES_BYTES[2:]}, 97),
        ({"request_principal": ALICES_BYTES[:-3]}, 97),
        ({"request_principal": ALICES_BYTES + b"x"}, 97),
        ({"client_host_address": b""}, ErrorCode.invalid_request),
        ({"client_host_address": bytes(5)}, ErrorCode.invalid_request),
        ({"request_data": b""}, ErrorCode.unsupported_version),
        ({"request_data": struct.pack(">hhi", 19, 99, 0)}, ErrorCode.unsupported_version),
        ({"request_data": struct.pack(">hhi", 19, 7, 0)}, ErrorCode.unsupported_version),
        ({"request_data": struct.pack(">hhi", 999, 0, 0)}, ErrorCode.invalid_request),
    ],
)
def test_an_envelope_that_cannot_be_used_is_refused_with_kafkas_code(changes, error):
    assert refused(**changes) == error


@pytest.mark.parametrize(
    "key", [key for key in SERVED if key not in FORWARDABLE], ids=lambda key: key.name
)
def test_what_is_not_forwardable_is_refused_an_envelope_in_an_envelope_too(key):
    assert refused(request_data=struct.pack(">hhi", key, SERVED[key].highest, 0)) == (
        ErrorCode.invalid_request
    )


def test_old_versions_are_answered_in_their_own():
    frame = write_request(create("t"), 2, 7, "c")
    request, _ = unseal(dataclasses.replace(seal(create("t"), ALICE), request_data=frame[4:]))
    answers = []
    answer_to(request, answers.append)(
        m.CreateTopicsResponse(throttle_time=m.NO_THROTTLE, topics=())
    )
    ((response, error),) = [(answer.response_data, answer.error_code) for answer in answers]
    assert (response, error) == (struct.pack(">iii", 7, 0, 0), ErrorCode.none)


def test_a_flat_message_of_raft_is_carried_too():
    request, _ = unseal(seal(DescribeQuorumRequest(), ANONYMOUS))
    answer = DescribeQuorumResponse(ErrorCode.none, 2, 1, 1)
    envelopes = []
    answer_to(request, envelopes.append)(answer)
    assert unseal_response(DescribeQuorumRequest(), envelopes[0]) == answer


@given(st.binary(max_size=64), st.none() | st.binary(max_size=32), st.binary(max_size=17))
def test_any_bytes_in_an_envelope_give_a_request_or_a_refusal(data, principal, address):
    envelope = m.EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )
    with pytest.raises(EnvelopeError):
        unseal(envelope)


@pytest.mark.parametrize("wire", [False, True])
def test_a_follower_passes_a_clients_request_on_in_an_envelope(wire, monkeypatch):
    quorum = Quorum(3, wire=wire)
    leader = quorum.elect()
    follower = next(name for name in quorum.world.names if name != leader)
    envelopes = []
    handle = type(quorum.node(leader)).handle

    def watched(node, listener, message, reply, *more):
        if isinstance(message, m.EnvelopeRequest):
            envelopes.append((node is quorum.node(leader), unseal(message)[1]))
        handle(node, listener, message, reply, *more)

    monkeypatch.setattr(type(quorum.node(leader)), "handle", watched)
    replies = []
    quorum.node(follower).handle("CLIENT", alter("k", "v"), replies.append, ALICE)
    assert quorum.scheduler.run_until(lambda: replies, 10_000)
    assert [response.error_code for response in replies[0].responses] == [ErrorCode.none]
    assert envelopes == [(True, ALICE)]


def test_a_follower_that_gets_an_envelope_is_not_the_controller():
    quorum = Quorum(3)
    leader = quorum.elect()
    follower = next(name for name in quorum.world.names if name != leader)
    replies = []
    quorum.node(follower).handle("CONTROLLER", seal(create("t"), ALICE), replies.append)
    assert [reply.error_code for reply in replies] == [ErrorCode.not_controller]
    bad = dataclasses.replace(seal(create("t"), ALICE), request_principal=None)
    quorum.node(follower).handle("CONTROLLER", bad, replies.append)
    assert replies[1].error_code is ErrorCode.principal_deserialization_failure

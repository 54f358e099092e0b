"""Well-formed requests that no honest peer sends: refused, and the node lives on."""

from __future__ import annotations

import uuid

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    MAX_EPOCH,
    NO_DIRECTORY,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    VoteRequest,
)
from tests.kraft.world import World


def ask(node, request):
    answers = []
    node.client.handle(request, answers.append)
    node.world.settle(50)
    (answer,) = answers
    return answer


def begin(leader_id: int, epoch: int, voter_id: int) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(None, voter_id, NO_DIRECTORY, leader_id, epoch, None)


def vote(epoch: int, voter_id: int) -> VoteRequest:
    return VoteRequest(None, epoch, 9, uuid.UUID(int=9), voter_id, NO_DIRECTORY, 0, 0, False)


@pytest.mark.parametrize("later", [1, 1000])
def test_no_peer_can_make_a_replica_lead(later: int):
    world = World().start()
    node = world.elect()
    epoch = node.state.epoch
    for request in (
        begin(node.node_id, epoch + later, node.node_id),
        EndQuorumEpochRequest(None, node.node_id, epoch + later, (), None),
    ):
        assert ask(node, request).error is ErrorCode.invalid_request
    assert (node.state.epoch, node.fatal) == (epoch, None)


def test_the_last_epoch_of_all_is_refused():
    world = World().start()
    node = world.elect()
    epoch = node.state.epoch
    other = node.node_id % 3 + 1
    assert ask(node, vote(MAX_EPOCH, node.node_id)).error is ErrorCode.invalid_request
    assert ask(node, begin(other, MAX_EPOCH, node.node_id)).error is ErrorCode.invalid_request
    assert (node.state.epoch, node.fatal) == (epoch, None)

"""Quorums with voters in the log, for tests of reconfiguration (KIP-853)."""

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
)
from tests.cluster.node.kraft.world import World, listeners_of


def dynamic_world(count=3, observers=0, **settings):
    """A quorum of `count` that was static and finalized kraft.version 1, and its leader.

    Observers have come to follow it.
    """
    world = World(count, observers=observers, **settings)
    world.dynamic = True
    world.start()
    leader = world.elect()
    upgrade(world)
    if observers:
        world.settle()
    return world, world.leader() or leader


def upgrade(world):
    """Ask until the voters have described themselves."""
    for _ in range(20):
        leader = world.elect()
        answer = []
        leader.client.upgrade_kraft_version(
            1, lambda error, _, answer=answer: answer.append(error), validate_only=False
        )
        world.scheduler.run_until(lambda answer=answer: bool(answer), 5_000)
        if answer == [ErrorCode.none]:
            return
        world.settle(1_000)
    raise AssertionError(f"kraft.version was not finalized: {answer}")


def key(node):
    return ReplicaKey(node.node_id, node.directory_id)


def ask(world, node, request, timeout_ms=10_000):
    """A request to a node and the error of its answer."""
    answer = send(node, request)
    assert world.scheduler.run_until(lambda: bool(answer), timeout_ms), "no answer"
    return answer[0].error


def send(node, request):
    answer = []
    node.client.handle(request, answer.append)
    return answer


def add_request(node, **changes):
    fields = {
        "cluster_id": "cluster",
        "timeout_ms": 5_000,
        "voter_id": node.node_id,
        "voter_directory_id": node.directory_id,
        "listeners": listeners_of(node.node_id),
    }
    return AddVoterRequest(**{**fields, **changes})


def remove_request(node, **changes):
    fields = {
        "cluster_id": "cluster",
        "voter_id": node.node_id,
        "voter_directory_id": node.directory_id,
    }
    return RemoveVoterRequest(**{**fields, **changes})


def update_request(node, epoch, **changes):
    fields = {
        "cluster_id": "cluster",
        "current_leader_epoch": epoch,
        "voter_id": node.node_id,
        "voter_directory_id": node.directory_id,
        "listeners": listeners_of(node.node_id),
        "min_kraft_version": 0,
        "max_kraft_version": 1,
    }
    return UpdateVoterRequest(**{**fields, **changes})


def add(world, node):
    """Make an observer a voter."""
    return ask(world, world.elect(), add_request(node))


def remove(world, node):
    """Make a voter an observer."""
    return ask(world, world.elect(), remove_request(node))


def voter_ids(node):
    return node.client.voters.ids

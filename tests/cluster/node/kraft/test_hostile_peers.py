"""Well-formed messages that no honest peer sends: refused, and the node lives on."""

import dataclasses
import random
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.kraft.messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.batch.records import Record, encode_batch
from cluster.node.ports import Endpoint
from tests.cluster.node.kraft.dynamic import dynamic_world
from tests.cluster.node.kraft.world import World


def ask(node, request):
    answers = []
    node.client.handle(request, answers.append)
    node.world.settle(50)
    (answer,) = answers
    return answer


def begin(leader_id: int, epoch: int, voter_id: int) -> raft.BeginQuorumEpochRequest:
    return raft.BeginQuorumEpochRequest(None, voter_id, raft.NO_DIRECTORY, leader_id, epoch, None)


def vote(epoch: int, voter_id: int) -> raft.VoteRequest:
    return raft.VoteRequest(
        None, epoch, 9, uuid.UUID(int=9), voter_id, raft.NO_DIRECTORY, 0, 0, False
    )


@pytest.mark.slow
@pytest.mark.parametrize("later", [1, 1000])
def test_no_peer_can_make_a_replica_lead(later: int):
    world = World().start()
    node = world.elect()
    epoch = node.state.epoch
    for request in (
        begin(node.node_id, epoch + later, node.node_id),
        raft.EndQuorumEpochRequest(None, node.node_id, epoch + later, (), None),
    ):
        assert ask(node, request).error is ErrorCode.invalid_request
    assert (node.state.epoch, node.fatal) == (epoch, None)


def test_the_last_epoch_of_all_is_refused():
    world = World().start()
    node = world.elect()
    epoch = node.state.epoch
    other = node.node_id % 3 + 1
    assert ask(node, vote(raft.MAX_EPOCH, node.node_id)).error is ErrorCode.invalid_request
    assert ask(node, begin(other, raft.MAX_EPOCH, node.node_id)).error is ErrorCode.invalid_request
    assert (node.state.epoch, node.fatal) == (epoch, None)


def test_no_message_uses_up_the_epochs_that_elections_need():
    world = World().start()
    node = world.elect()
    far = begin(9, raft.MAX_EPOCH - 1, node.node_id)
    assert ask(node, far).error is ErrorCode.invalid_request
    assert ask(node, vote(raft.MAX_EPOCH - 1, node.node_id)).error is ErrorCode.invalid_request
    assert ask(node, vote(raft.ORDINARY_EPOCH_MAX, node.node_id)).error is ErrorCode.none
    assert ask(node, vote(raft.MAX_EPOCH - 1, node.node_id)).error is ErrorCode.invalid_request
    leader = world.elect()
    assert leader.state.epoch > raft.ORDINARY_EPOCH_MAX
    world.commit(leader, "after")


def test_one_fetch_gets_no_more_than_a_batch_may_hold():
    world = World(1).start()
    leader = world.elect()
    asked = []
    read = leader.log.read
    leader.log.read = lambda offset, max_bytes: asked.append(max_bytes) or read(offset, max_bytes)
    greedy = raft.FetchRequest(None, 9, raft.NO_DIRECTORY, leader.state.epoch, 0, 0, 0, 2**31 - 1)
    assert ask(leader, greedy).records
    assert asked == [8 << 20]


def test_no_fetch_waits_for_longer_than_a_replica_would():
    world = World(1).start()
    leader = world.elect()
    end = leader.log.end
    patient = raft.FetchRequest(
        None, 9, raft.NO_DIRECTORY, end.epoch, end.offset, end.epoch, 2**31 - 1, 1, end.offset
    )
    answers = []
    leader.client.handle(patient, answers.append)
    world.settle(1_500)
    assert answers == []
    world.settle(1_000)
    assert [answer.error for answer in answers] == [ErrorCode.none]


# -- any requests, in every role -----------------------------------------------------------------

NEAR = st.integers(-2, 3)
FAR = st.sampled_from(
    [-(2**31), -1, 0, 1_000, raft.ORDINARY_EPOCH_MAX, raft.MAX_EPOCH - 1, raft.MAX_EPOCH]
)
numbers = st.builds(lambda n: (True, n), NEAR) | st.builds(lambda n: (False, n), FAR)
"""An epoch or offset: as a distance from what the node has, or as it is."""
long_numbers = numbers | st.just((False, 2**63 - 1))
node_ids = st.sampled_from([1, 2, 3, 4, 9, 0, -1, -3, 2**31 - 1])
directories = st.sampled_from([raft.NO_DIRECTORY, *(uuid.UUID(int=1000 + i) for i in range(1, 5))])
clusters = st.sampled_from([None, "cluster", "cluster", "other"])
milliseconds = st.sampled_from([0, 0, 1, 500, -1, 2**31 - 1])
sizes = st.sampled_from([1 << 20, 1, 0, -1, 2**31 - 1])
endpoints = st.none() | st.builds(
    Endpoint, node_ids, st.sampled_from(["n", "no host", "\0"]), st.sampled_from([1, 9001, 65535])
)
keys = st.builds(raft.ReplicaKey, node_ids, directories)
listeners = st.lists(
    st.builds(
        VoterListener,
        st.sampled_from(["CONTROLLER", "OTHER", ""]),
        st.sampled_from(["n", "", "\0"]),
        st.sampled_from([0, 9004, 65535]),
    ),
    max_size=2,
).map(tuple)
FIELDS = {
    **dict.fromkeys(("replica_epoch", "leader_epoch", "current_leader_epoch"), numbers),
    **dict.fromkeys(("last_offset_epoch", "last_fetched_epoch"), numbers),
    **dict.fromkeys(("last_offset", "fetch_offset", "high_watermark"), long_numbers),
    **dict.fromkeys(("replica_id", "voter_id", "leader_id"), node_ids),
    **dict.fromkeys(("replica_directory_id", "voter_directory_id"), directories),
    **dict.fromkeys(("timeout_ms", "max_wait_ms"), milliseconds),
    **dict.fromkeys(("pre_vote", "ack_when_committed"), st.booleans()),
    **dict.fromkeys(("min_kraft_version", "max_kraft_version"), st.integers(-1, 2)),
    "cluster_id": clusters,
    "leader_endpoint": endpoints,
    "listeners": listeners,
    "max_bytes": sizes,
    "position": st.sampled_from([0, 1, -1, 2**62]),
    "preferred_candidates": st.lists(keys, max_size=4).map(tuple),
    "snapshot_id": st.builds(raft.OffsetAndEpoch, st.integers(-1, 9), st.integers(-1, 9)),
}
MESSAGES = (
    *(raft.VoteRequest, raft.BeginQuorumEpochRequest, raft.EndQuorumEpochRequest),
    *(raft.FetchRequest, raft.FetchSnapshotRequest, raft.DescribeQuorumRequest),
    *(AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest),
)
requests = st.one_of(
    st.builds(message, **{field.name: FIELDS[field.name] for field in dataclasses.fields(message)})
    for message in MESSAGES
)
EPOCHS = {"replica_epoch", "leader_epoch", "current_leader_epoch"}


def placed(request, node):
    """The request with its distances counted from what the node has now."""
    changes = {}
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], bool):
            is_near, number = value
            last = node.state.epoch if field.name in EPOCHS else node.log.last_fetched_epoch
            if field.name in {"last_offset", "fetch_offset", "high_watermark"}:
                last = node.log.end_offset
            changes[field.name] = last + number if is_near else number
    return dataclasses.replace(request, **changes)


def alone(role):
    world = World(election_timeout_ms=3_000, fetch_timeout_ms=3_000)
    node = world.nodes[3]
    node.start()
    world.settle(50)
    core = node.client._core
    for name, move in (
        ("Prospective", core.become_prospective),
        ("Candidate", core.become_candidate),
    ):
        if role in (name, "Candidate"):
            node.client._submit(move)
            world.settle(50)
    return world, node


def one_of_many(role):
    if role == "Leader":
        world, leader = dynamic_world(observers=1)
    else:
        world = World(3, observers=1).start()
        leader = world.elect()
    world.commit(leader, "a")
    if role == "Resigned":
        world.network.isolate(leader.node_id, tuple(world.nodes))
        leader.client.resign(leader.state.epoch)
        world.scheduler.run_until(lambda: leader.state.name == "Resigned", 1_000)
    follower = next(n for n in world.voter_nodes if n is not leader)
    return world, {"Follower": follower, "Observer": world.nodes[4]}.get(role, leader)


def alone_in_office(role):
    world = World(1).start()
    return world, world.elect()


ROLES = {
    "Unattached": alone,
    "Prospective": alone,
    "Candidate": alone,
    "Leader": one_of_many,
    "Follower": one_of_many,
    "Observer": one_of_many,
    "Resigned": one_of_many,
    "Only voter": alone_in_office,
}
NAMES = {"Observer": "Follower", "Only voter": "Leader"}


def check_epochs(node):
    """Epochs only grow; each has one leader and one vote, as far as this node is concerned."""
    leaders, votes, last = {}, {}, 0
    for state in node.events("state"):
        epoch = state["epoch"]
        assert epoch >= last
        last = epoch
        for known, name in ((leaders, "leader_id"), (votes, "voted_id")):
            if state[name] != -1:
                assert known.setdefault(epoch, state[name]) == state[name]


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
@settings(max_examples=15, deadline=None)
@given(arriving=st.lists(requests, min_size=1, max_size=8))
def test_whatever_requests_arrive_a_node_lives_on_and_keeps_its_epochs(role, arriving):
    world, node = ROLES[role](role)
    assert node.state.name == NAMES.get(role, role)
    for request in arriving:
        answers = []
        node.client.handle(placed(request, node), answers.append)
        world.settle(20)
        waits = isinstance(request, raft.FetchRequest | AddVoterRequest | RemoveVoterRequest)
        assert len(answers) == 1 or (waits and not answers)
        check_epochs(node)
    world.settle(3_000)
    check_epochs(node)
    assert [n.fatal for n in world.nodes.values()] == [None] * len(world.nodes)
    assert node.client.handle(raft.DescribeQuorumRequest(), answers.append) is None
    assert answers


# -- any answers ---------------------------------------------------------------------------------

leaders = st.fixed_dictionaries(
    {"leader_id": node_ids, "leader_epoch": numbers, "leader_endpoint": endpoints}
)
errors = st.fixed_dictionaries({"error": st.sampled_from(ErrorCode)})
STRAY = encode_batch(3, 1, [Record(b"stray")], 0)
contents = st.one_of(
    st.fixed_dictionaries({"high_watermark": st.sampled_from([-1, 0, 1, 2**63 - 1])}),
    st.fixed_dictionaries(
        {"diverging_epoch": st.builds(raft.OffsetAndEpoch, st.integers(-1, 9), st.integers(0, 9))}
    ),
    st.fixed_dictionaries(
        {"snapshot_id": st.builds(raft.OffsetAndEpoch, st.integers(-1, 99), st.integers(0, 9))}
    ),
    st.fixed_dictionaries({"records": st.sampled_from([STRAY, STRAY[:-1], STRAY * 2, b"?"])}),
)
pieces = st.fixed_dictionaries(
    {"size": st.sampled_from([-1, 0, 1, 2**40]), "position": st.sampled_from([-1, 0, 1, 2**40])},
    optional={
        "records": st.sampled_from([b"", b"?"]),
        "snapshot_id": st.just(raft.OffsetAndEpoch(1, 1)),
    },
)


def forged(response, changes, node):
    fields = {field.name for field in dataclasses.fields(response)}
    if "leader_epoch" in changes:
        is_near, number = changes["leader_epoch"]
        changes = {**changes, "leader_epoch": node.state.epoch + number if is_near else number}
    return dataclasses.replace(response, **{k: v for k, v in changes.items() if k in fields})


def forge(world, node_id, change):
    """Let a node's answers be what `change(request, response)` makes of them."""
    handle = world.network.handlers[node_id]
    world.network.handlers[node_id] = lambda request, reply: handle(
        request, lambda response: reply(change(request, response))
    )


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(leaders | errors | contents | pieces, min_size=1, max_size=6), st.integers(0, 9))
def test_whatever_its_peers_answer_a_node_lives_on_and_keeps_its_log(forgeries, seed):
    world = World(seed=seed).start()
    leader = world.elect()
    world.commit(leader, "a", "b")
    follower = next(n for n in world.voter_nodes if n is not leader)
    waiting, chance = list(forgeries), random.Random(seed)

    def disturbed(_, response):
        if waiting and dataclasses.is_dataclass(response) and chance.random() < 0.5:
            return forged(response, waiting.pop(), follower)
        return response

    for node_id in world.ids:
        if node_id != follower.node_id:
            forge(world, node_id, disturbed)
    committed = list(follower.listener.values)
    for value in "cdef":
        if world.leader() is not None:
            world.append(world.leader(), value)
        world.settle(1_000)
        check_epochs(follower)
    assert [n.fatal for n in world.nodes.values()] == [None] * 3
    assert follower.listener.values[: len(committed)] == committed
    assert follower.log.high_watermark >= follower.log.start_offset


@pytest.mark.parametrize(
    "changes",
    [
        {"error": ErrorCode.invalid_request},
        {"leader_id": 9},
        {"leader_id": -3, "leader_epoch": 50},
        {"leader_epoch": raft.MAX_EPOCH - 1},
        {"high_watermark": 0},
        {"diverging_epoch": raft.OffsetAndEpoch(0, 1)},
        {"snapshot_id": raft.OffsetAndEpoch(0, 1)},
        {"snapshot_id": raft.OffsetAndEpoch(1, 1)},
        {"records": STRAY},
    ],
    ids=str,
)
def test_an_answer_that_contradicts_the_log_or_the_epoch_is_dropped_and_written_down(changes):
    world = World(2).start()
    leader = world.elect()
    world.commit(leader, *"abcd")
    (follower,) = (n for n in world.voter_nodes if n is not leader)
    world.settle(1_000)
    before = (follower.log.end, follower.log.high_watermark, follower.durable_file())
    changed = []

    def changed_once(_, response):
        if changed or not isinstance(response, raft.FetchResponse):
            return response
        changed.append(dataclasses.replace(response, **changes))
        return changed[0]

    forge(world, leader.node_id, changed_once)
    assert world.scheduler.run_until(lambda: follower.events("contradiction"), 2_000)
    assert (follower.log.end, follower.log.high_watermark, follower.durable_file()) == before
    world.commit(leader, "e")
    assert len(follower.events("contradiction")) == 1
    assert follower.events("contradiction")[0]["message"] == "FetchResponse"


def test_a_piece_of_another_snapshot_is_dropped_and_written_down():
    world = World(2).start()
    leader = world.elect()
    (follower,) = (n for n in world.voter_nodes if n is not leader)
    core, state = follower.client._core, follower.state
    follower.client._submit(
        lambda: setattr(core, "download", core.log.snapshots.begin(raft.OffsetAndEpoch(50, 1)))
    )
    another = raft.OffsetAndEpoch(51, 1)
    piece = raft.FetchSnapshotResponse(
        ErrorCode.none, leader.node_id, state.epoch, another, 9, 0, b"piece"
    )
    forge(
        world,
        leader.node_id,
        lambda request, answer: piece if isinstance(request, raft.FetchSnapshotRequest) else answer,
    )
    assert world.scheduler.run_until(lambda: follower.events("contradiction"), 2_000)
    assert core.download.size_bytes == 0
    assert follower.events("contradiction")[0]["message"] == "FetchSnapshotResponse"

"""What a replica answers: the order of the checks and the error of each request."""

import uuid

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.kraft.quorum.control_state import VoterSet
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.quorum.states import Follower, Unattached
from cluster.node.ports import Endpoint
from tests.cluster.node.kraft.world import World

NOWHERE = uuid.UUID(int=0)


def directory(node_id):
    return uuid.UUID(int=1000 + node_id)


def ask(world, node, request, wait_ms=100.0):
    answers = []
    node.client.handle(request, answers.append)
    world.scheduler.run_until(lambda: answers, wait_ms)
    return answers[0] if answers else None


def vote(epoch=5, candidate=1, **fields):
    values = {"cluster_id": "cluster", "replica_epoch": epoch, "replica_id": candidate,
              "replica_directory_id": directory(candidate), "voter_id": 3,
              "voter_directory_id": NOWHERE, "last_offset_epoch": 4, "last_offset": 9,
              "pre_vote": False}  # fmt: skip
    return raft.VoteRequest(**{**values, **fields})


def begin(epoch=5, leader=1, **fields):
    values = {"cluster_id": "cluster", "voter_id": 3, "voter_directory_id": NOWHERE,
              "leader_id": leader, "leader_epoch": epoch, "leader_endpoint": None}  # fmt: skip
    return raft.BeginQuorumEpochRequest(**{**values, **fields})


def end(epoch=5, leader=1, candidates=(), **fields):
    keys = tuple(raft.ReplicaKey(c, directory(c)) for c in candidates)
    values = {"cluster_id": "cluster", "leader_id": leader, "leader_epoch": epoch,
              "preferred_candidates": keys, "leader_endpoint": None}  # fmt: skip
    return raft.EndQuorumEpochRequest(**{**values, **fields})


def fetch(epoch, offset=0, last_epoch=0, replica=2, **fields):
    values = {"cluster_id": "cluster", "replica_id": replica,
              "replica_directory_id": directory(replica), "current_leader_epoch": epoch,
              "fetch_offset": offset, "last_fetched_epoch": last_epoch, "max_wait_ms": 0,
              "max_bytes": 1 << 20}  # fmt: skip
    return raft.FetchRequest(**{**values, **fields})


def voter_in_epoch_5():
    """Node 3 of three, alone, in epoch 5 without a leader."""
    world = World(election_timeout_ms=1_000_000, fetch_timeout_ms=1_000_000)
    node = world.nodes[3]
    node.start()
    world.settle(50)
    ask(world, node, vote(5, 1, last_offset_epoch=0, pre_vote=True))
    assert (node.state.name, node.state.epoch) == ("Unattached", 5)
    return world, node


def led():
    world = World().start()
    leader = world.elect()
    world.commit(leader, "a")
    return world, leader


def settled():
    """A leader that all have caught up with, and where its log ends in which epoch."""
    world, leader = led()
    world.settle(200)
    return world, leader, leader.log.end_offset, leader.state.epoch


V = ErrorCode


@pytest.mark.parametrize(
    ("request_", "error", "top_level"),
    [
        (vote(cluster_id="other", last_offset=-1), V.none, V.inconsistent_cluster_id),
        (vote(epoch=4, last_offset=-1), V.invalid_request, V.none),
        (vote(last_offset_epoch=5, pre_vote=True), V.none, V.none),
        (vote(epoch=4, candidate=-1, last_offset_epoch=3), V.fenced_leader_epoch, V.none),
        (vote(epoch=6, candidate=-1), V.invalid_request, V.none),
        (vote(voter_directory_id=directory(3)), V.none, V.none),
        (vote(cluster_id=None, voter_id=-1), V.none, V.none),
        (vote(candidate=77), V.none, V.none),
    ],
)
def test_vote_is_checked_in_kafkas_order(request_, error, top_level):
    world, node = voter_in_epoch_5()
    answer = ask(world, node, request_)
    assert (answer.error, answer.top_level_error) == (error, top_level)
    assert answer.vote_granted == (error is V.none and top_level is V.none)


@pytest.mark.parametrize(
    ("fields", "error", "epoch"),
    [
        ({"last_offset_epoch": 9}, V.invalid_request, 5),
        ({"pre_vote": True}, V.none, 9),
        ({"voter_id": 2}, V.invalid_voter_key, 9),
    ],
)
def test_a_vote_of_a_later_epoch_moves_the_epoch_if_it_is_valid(fields, error, epoch):
    world, node = voter_in_epoch_5()
    answer = ask(world, node, vote(epoch=9, **fields))
    assert (answer.error, answer.leader_epoch, node.state.epoch) == (error, epoch, epoch)
    assert node.state.voted_key is None


def test_a_vote_is_durable_when_it_is_answered():
    world, node = voter_in_epoch_5()
    answers = []
    node.client.handle(vote(), answers.append)
    while not answers:
        assert b'"votedId":1' not in (node.durable_file() or b"") or node.is_busy
        world.scheduler.step()
    assert b'"votedId":1' in node.durable_file()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (begin(epoch=4, leader=-1), V.fenced_leader_epoch),
        (begin(), V.none),
        (begin(epoch=7), V.none),
        (begin(voter_id=2), V.invalid_voter_key),
    ],
)
def test_begin_quorum_epoch_is_checked_in_kafkas_order(request_, error):
    world, node = voter_in_epoch_5()
    assert ask(world, node, request_).error is error
    followed = error in (V.none, V.invalid_voter_key)  # the key is checked after the transition
    assert isinstance(node.state, Follower) == followed


def test_begin_of_another_cluster_changes_nothing():
    world, node = voter_in_epoch_5()
    answer = ask(world, node, begin(epoch=9, cluster_id="other"))
    assert (answer.top_level_error, node.state.epoch) == (V.inconsistent_cluster_id, 5)


@pytest.mark.parametrize("claim", [begin, end])
def test_a_second_leader_of_the_epoch_is_refused_and_written_down(claim):
    world, node = voter_in_epoch_5()
    ask(world, node, begin(leader=1))
    before = node.durable_file()
    answer = ask(world, node, claim(leader=2))
    assert (answer.error, answer.leader_id, answer.leader_epoch) == (V.invalid_request, 1, 5)
    assert (node.state.name, node.state.leader_id, node.durable_file()) == ("Follower", 1, before)
    (event,) = node.events("contradiction")
    assert (event["epoch"], event["leader_id"]) == (5, 1)
    assert (event["claimed_epoch"], event["claimed_id"]) == (5, 2)
    assert event["reason"] == "epoch 5 is led by 1, not by 2"


def test_a_leader_knows_best_where_it_listens():
    """A follower that was restarted knows it by voters, and its own may be out of date."""
    world, node = voter_in_epoch_5()
    ask(world, node, begin())
    assert node.state.leader_endpoint == world.voters.endpoint(1)
    moved = Endpoint(1, "moved", 9001)
    ask(world, node, begin(leader_endpoint=moved))
    assert node.state.leader_endpoint == moved
    ask(world, node, begin())
    assert node.state.leader_endpoint == moved


@pytest.mark.parametrize(
    ("candidates", "backoff_ms"),
    [
        ((3, 2), 0),
        ((3,), 0),
        ((2, 3), 1000),
        ((1, 2), 1000),
        ((), 1000),
        ((2, 3, 4, 5), 125),
        ((2, 4, 3, 5), 250),
        ((2, 4, 5, 3), 1000),
        ((2, 4, 5, 6, 3, 7), 250 // 8 << 3),
        ((9, 3, *range(10, 30)), 0),
    ],
)
def test_the_better_the_successor_the_sooner_it_stands(candidates, backoff_ms):
    world, node = voter_in_epoch_5()
    ask(world, node, begin())
    now_ms = world.scheduler.now_ms
    inbound = node.client._inbound
    keys = tuple(raft.ReplicaKey(c, directory(c)) for c in candidates)
    assert inbound._election_backoff_ms(keys) == backoff_ms
    answers = []
    node.client.handle(end(candidates=candidates), answers.append)
    assert answers[0].error is V.none
    if backoff_ms > 0:
        assert node.state.fetch_deadline_ms == now_ms + backoff_ms


def test_a_replica_that_does_not_lead_names_the_leader():
    world, leader = led()
    follower = next(n for n in world.nodes.values() if n is not leader)
    answer = ask(world, follower, fetch(leader.state.epoch, replica=9))
    assert (answer.error, answer.leader_id) == (V.not_leader_or_follower, leader.node_id)
    assert answer.leader_endpoint == Endpoint(leader.node_id, "n", 9000 + leader.node_id)


def test_a_diverging_fetch_is_no_error_and_moves_nothing():
    world, leader = led()
    world.network.isolate(leader.node_id, world.ids)
    offset = world.append(leader, "b")
    world.settle(50)
    high_watermark, before = leader.state.high_watermark, dict(leader.state.replica_offsets())
    other = min(n for n in world.ids if n != leader.node_id)
    answer = ask(world, leader, fetch(leader.state.epoch, offset + 9, 1, replica=other))
    assert (answer.error, answer.records) == (V.none, b"")
    assert answer.diverging_epoch == raft.OffsetAndEpoch(offset + 1, leader.state.epoch)
    assert (leader.state.high_watermark, leader.state.replica_offsets()) == (high_watermark, before)


def test_a_fetch_at_the_end_is_parked_until_there_is_more():
    world, leader, end_offset, epoch = settled()
    answers = []
    leader.client.handle(
        fetch(epoch, end_offset, epoch, replica=9, max_wait_ms=400), answers.append
    )
    world.settle(100)
    assert answers == []
    world.append(leader, "b")
    world.settle(40)
    assert len(answers) == 1
    assert answers[0].records == leader.log.read(end_offset, 1 << 20)


def test_a_parked_fetch_expires_as_it_was_parked():
    world, leader, end_offset, epoch = settled()
    request = fetch(epoch, end_offset, epoch, replica=9, max_wait_ms=400)
    began_ms = world.scheduler.now_ms
    answer = ask(world, leader, request, wait_ms=1_000)
    assert (answer.error, answer.records, answer.high_watermark) == (V.none, b"", end_offset)
    assert world.scheduler.now_ms == began_ms + 400


def test_a_fetch_that_knows_a_lower_high_watermark_is_answered_at_once():
    world, leader, end_offset, epoch = settled()
    fields = {"replica": 9, "max_wait_ms": 400, "high_watermark": end_offset - 1}
    answer = ask(world, leader, fetch(epoch, end_offset, epoch, **fields), wait_ms=1)
    assert answer.high_watermark == end_offset


def test_parked_fetches_end_with_the_leadership():
    _, leader, end_offset, epoch = settled()
    answers = []
    leader.client.handle(
        fetch(epoch, end_offset, epoch, replica=9, max_wait_ms=400), answers.append
    )
    leader.client.resign(epoch)
    assert [answer.error for answer in answers] == [V.not_leader_or_follower]


@pytest.mark.slow
def test_the_leader_describes_the_quorum():
    world, leader = led()
    world.settle(600)
    answer = ask(world, leader, raft.DescribeQuorumRequest())
    assert (answer.error, answer.leader_id, answer.leader_epoch) == (
        V.none,
        leader.node_id,
        leader.state.epoch,
    )
    assert answer.high_watermark == leader.log.end_offset
    assert [(v.replica_id, v.log_end_offset) for v in answer.voters] == [
        (i, answer.high_watermark) for i in world.ids
    ]
    assert all(v.last_caught_up_timestamp_ms > 0 for v in answer.voters)


@pytest.mark.slow
def test_an_observer_follows_and_asks_around_when_the_leader_is_gone():
    world = World(observers=1).start()
    leader = world.elect()
    observer = world.nodes[4]
    world.commit(leader, "a")
    world.settle(1_000)
    assert [value for _, value in observer.listener.values] == [b"a"]
    leader.crash()
    other = world.elect()
    world.commit(other, "b")
    world.settle(3_000)
    assert [value for _, value in observer.listener.values] == [b"a", b"b"]
    assert not isinstance(observer.state, Unattached | Leader)


def test_an_observer_asks_its_leader_again_that_it_knows_as_no_voter():
    world = World(observers=1).start()
    leader, observer = world.elect(), world.nodes[4]
    observer.crash()
    others = [node.node_id for node in world.voter_nodes if node is not leader]
    world.voters = VoterSet.of(Endpoint(i, "n", 9000 + i) for i in others)
    observer.start()
    world.settle()
    assert observer.state.leader_id == leader.node_id
    world.network.isolate(4, (leader.node_id,))
    world.commit(leader, "a")
    world.settle(10_000)
    world.network.heal()
    world.settle()
    assert [value for _, value in observer.listener.values] == [b"a"]


def test_an_observer_without_a_quorum_does_not_spin():
    world = World(observers=1).start()
    world.elect()
    world.settle(1_000)
    for node in world.voter_nodes:
        node.crash()
    events = world.scheduler.events
    world.settle(10_000)
    assert world.scheduler.events - events < 10_000

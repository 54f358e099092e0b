"""An idle quorum sends few requests and runs few events, whichever node is missing."""

from collections import Counter

import pytest

from cluster.node.kraft.quorum.states import Unattached
from tests.cluster.node.kraft.network import SimNetwork
from tests.cluster.node.kraft.test_requests import vote
from tests.cluster.node.kraft.world import World


@pytest.fixture
def requests(monkeypatch):
    """Requests sent, by message."""
    sent = Counter()
    request = SimNetwork.request

    def counted(self, source, destination, message, *rest):
        sent[type(message).__name__] += 1
        request(self, source, destination, message, *rest)

    monkeypatch.setattr(SimNetwork, "request", counted)
    return sent


def settled():
    world = World().start()
    leader = world.elect()
    world.settle(3_000)
    return world, leader


def observe(world, requests, seconds=30):
    requests.clear()
    events = world.scheduler.events
    world.settle(seconds * 1_000)
    return sum(requests.values()) / seconds, (world.scheduler.events - events) / seconds


def test_an_idle_quorum_only_fetches(requests):
    world, _ = settled()
    sent, events = observe(world, requests)
    assert (set(requests), round(sent)) == ({"FetchRequest"}, 4)
    assert events < 30


@pytest.mark.slow
def test_a_missing_follower_is_reminded_now_and_then(requests):
    world, leader = settled()
    next(n for n in world.nodes.values() if n is not leader).crash()
    sent, events = observe(world, requests)
    assert set(requests) == {"FetchRequest", "BeginQuorumEpochRequest"}
    assert (sent < 5, events < 30) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("survivor_led", [True, False])
def test_a_lone_survivor_asks_around_at_the_pace_of_its_back_off(requests, survivor_led):
    world, leader = settled()
    survivor = leader if survivor_led else next(n for n in world.running if n is not leader)
    for node in list(world.running):
        if node is not survivor:
            node.crash()
    sent, events = observe(world, requests)
    assert sent < 2 * 1000 / 20, "two peers, a back-off of 20 ms each"
    assert events < 500


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_no_node_spins_while_a_disk_is_stalled(requests, role):
    world, leader = settled()
    node = leader if role == "leader" else next(n for n in world.running if n is not leader)
    node.disk.stall()
    world.append(leader, "a")
    sent, events = observe(world, requests)
    assert (sent < 20, events < 150) == (True, True)


def test_a_replica_that_may_not_fetch_yet_does_not_spin():
    world = World().start()
    node = world.elect()
    node.disk.sync_ms = 300.0
    for value in ("a", "b"):  # the second waits for a flush that comes behind the next epoch's file
        world.append(node, value)
        world.settle(50)
    epoch = node.state.epoch + 1
    request = vote(epoch, 9, voter_id=-1, last_offset_epoch=0, pre_vote=True)
    node.client.handle(request, lambda _: None)
    assert world.scheduler.run_until(lambda: node.state.epoch == epoch, 2_000)
    assert isinstance(node.state, Unattached)
    assert node.log.durable_end_offset < node.log.end_offset
    for _ in range(2_000):
        world.scheduler.step()
        if node.log.durable_end_offset == node.log.end_offset:
            return
    raise AssertionError("no time passes")


@pytest.mark.slow
def test_no_request_or_event_piles_up(requests):
    world, leader = settled()
    for _ in range(300):
        world.commit(leader, "a")
    world.settle(3_000)
    for node in world.nodes.values():
        core, client = node.client._core, node.client
        assert (len(core.append_purgatory._waiters), len(core.readers), len(client._events)) == (
            0,
            0,
            0,
        )
        assert len(core.fetch_purgatory._waiters) <= 2
        assert len(core.fetch_purgatory._deadlines) <= 4
    assert len(world.scheduler._queue) < 100

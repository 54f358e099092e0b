"""The client's broker calls against a real controller: registration, heartbeats, blocks of ids."""

import asyncio

import pytest

from cluster.client.admin_client import Client
from cluster.client.broker_client import BrokerClient, FakeBroker
from cluster.client.caller import Peer
from cluster.node.ports import Endpoint, Failure
from tests.cluster.node.controller.fakes import FakeClock, Node, active, create

HERE = Peer(Endpoint(1, "h", 1), 1_000.0)


class Direct:
    """A network with one node, a controller that commits and confirms at once."""

    def __init__(self, node):
        self.node, self.failure = node, None

    def request(self, _destination, message, _timeout_ms, on_reply):
        if self.failure is not None:
            on_reply(self.failure)
            return
        replies = self.node.send(message)
        self.node.raft.commit()
        self.node.raft.confirm()
        on_reply(replies[0])


def perform(node, body, failure=None):
    network = Direct(node)
    network.failure = failure

    async def main():
        return await body(BrokerClient(Client(network, FakeClock())), network)

    return asyncio.run(main())


def test_a_broker_registers_is_unfenced_and_gets_blocks():
    async def body(client, _network):
        broker = FakeBroker(1_000)
        epoch = (await client.register(HERE, broker)).value
        again = (await client.register(HERE, broker)).value
        alive = await client.heartbeat(HERE, broker, epoch, epoch)
        blocks = [await client.allocate_producer_ids(HERE, broker, epoch) for _ in range(2)]
        gone = await client.heartbeat(HERE, broker, epoch, epoch, want_fence=True)
        return epoch == again, alive.value, [block.value for block in blocks], gone.value["fenced"]

    same, alive, blocks, fenced = perform(active(), body)
    assert same
    assert alive == {"caught_up": True, "fenced": False, "shut_down": False}
    assert blocks == [[0, 1_000], [1_000, 1_000]]
    assert fenced


@pytest.mark.parametrize(("release", "level"), [("3.9.2", 21), ("4.4.0", 33)])
def test_a_broker_registers_at_the_level_of_every_release(release, level):
    """With our own node's levels they were refused by releases that are older or newer."""

    async def body(client, network):
        sent = []
        network.node.send = lambda message: sent.append(message) or [Failure.NOT_SENT]
        client._cluster_id = "known"
        await client.register(HERE, FakeBroker(1_000))
        return {feature.name: feature for feature in sent[0].features}

    feature = perform(active(), body)["metadata.version"]
    assert feature.min_supported_version <= level <= feature.max_supported_version, release


def test_refusals_are_definite_and_silence_is_not():
    async def body(client, network):
        broker = FakeBroker(1_000)
        epoch = (await client.register(HERE, broker)).value
        stale = await client.allocate_producer_ids(HERE, broker, epoch + 1)
        other = await client.register(HERE, FakeBroker(1_000, 1))
        network.failure = Failure.TIMED_OUT
        silent = await client.allocate_producer_ids(HERE, broker, epoch)
        return [(outcome.type, outcome.error) for outcome in (stale, other, silent)]

    assert perform(active(), body) == [
        ("fail", "stale_broker_epoch"),
        ("fail", "duplicate_broker_registration"),
        ("info", "timed-out"),
    ]


def test_a_registration_that_was_never_asked_for_is_a_definite_failure():
    async def body(client, _network):
        return await client.register(HERE, FakeBroker(1_000))

    outcome = perform(active(), body, Failure.TIMED_OUT)
    assert (outcome.type, outcome.error) == ("fail", "timed-out")


@pytest.mark.parametrize(
    ("count", "error"), [(1, None), (0, "invalid_partitions"), (2, "invalid_replica_assignment")]
)
def test_a_partition_is_added_only_when_it_is_the_next(count, error):
    node = active()
    node.call(create("a"))

    async def main():
        client = Client(Direct(node), FakeClock())
        return await client.create_partition(HERE, "a", count, (1,))

    outcome = asyncio.run(main())
    assert outcome.error == error
    assert outcome.type == ("ok" if error is None else "fail")


def test_another_node_than_the_active_one_refuses_definitely():
    async def body(client, _network):
        return await client.register(HERE, FakeBroker(1_000))

    outcome = perform(Node(), body)
    assert (outcome.type, outcome.error) == ("fail", "not_controller")

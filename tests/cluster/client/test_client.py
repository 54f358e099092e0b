"""Our own client against three live nodes."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress

import pytest

from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import CallFailed, FinalReadRefused, Outcome, Peer
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.runtime import network as tcp
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.client.nodes import TIMEOUT_S
from tests.play import play

pytestmark = pytest.mark.cluster


def peer(node, port):
    return Peer(Endpoint(node, "127.0.0.1", port), 60_000)


class Session:
    """A client, the endpoints of all nodes, and the leader."""

    def __init__(self, nodes, client):
        self.client = client
        self.clients = {i: peer(i, p) for i, p in nodes.client_ports.items()}
        self.controllers = {i: peer(i, p) for i, p in nodes.controller_ports.items()}

    async def find_leader(self):
        while True:
            for node, endpoint in self.controllers.items():
                with suppress(CallFailed):
                    quorum = await self.client.describe_quorum(endpoint)
                    # A leader that has just been elected is not active before its LeaderChange is
                    # committed.
                    leads = quorum.error is quorum.top_level_error is ErrorCode.none
                    if leads and quorum.high_watermark > 0:
                        return node
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def own(self, *, topics=(), configs=()):
        """Topics and configs that no other test of these nodes finds."""
        try:
            yield
        finally:
            for topic in topics:
                await self.client.delete_topic(self.clients[1], topic)
            for config in configs:
                await self.client.alter_config(
                    self.clients[1], CLUSTER_RESOURCE, config, "delete", None
                )


def with_client(test, nodes):
    async def body():
        network = TcpNetwork()
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                clock = LoopClock(asyncio.get_running_loop())
                session = Session(nodes, Client(network, clock))
                await test(session, await session.find_leader())
        finally:
            network.close()

    with pytest.MonkeyPatch.context() as patience:
        patience.setattr(tcp, "SETUP_TIMEOUT_MS", 60_000.0)
        asyncio.run(body())


@play(with_client, given="nodes")
async def test_the_active_controller_writes_and_reads_what_it_wrote(s, leader):
    c, endpoint = s.client, s.controllers[leader]
    register, providers = "kraftprobe.register.1", "config.providers"
    key, listed = (CLUSTER_RESOURCE, register), (CLUSTER_RESOURCE, providers)
    async with s.own(configs=(register, providers)):
        assert await c.read_config(endpoint, *key) == Outcome("ok", None)
        assert await c.alter_config(endpoint, *key, "set", "v1") == Outcome("ok", "v1")
        assert await c.read_config(endpoint, *key) == Outcome("ok", "v1")
        assert await c.alter_config(endpoint, *key, "delete", None) == Outcome("ok", None)
        assert await c.read_config(endpoint, *key) == Outcome("ok", None)
        for element in ("a", "b"):
            appended = await c.alter_config(endpoint, *listed, "append", element)
            assert appended == Outcome("ok", element)
        assert await c.read_config(endpoint, *listed) == Outcome("ok", "a,b")
        assert await c.alter_config(endpoint, *listed, "delete", None) == Outcome("ok", None)


@play(with_client, given="nodes")
async def test_topics_are_created_described_and_deleted_with_one_id(s, leader):
    c, endpoint = s.client, s.controllers[leader]
    async with s.own(topics=["t"]):
        assert await c.describe_topic(s.clients[leader], "t") == Outcome("ok", None)
        created = await c.create_topic(endpoint, "t", 3)
        assert created.type == "ok"
        assert created.value["partitions"] == 3
        assert await c.describe_topic(s.clients[leader], "t") == created
        again = await c.create_topic(endpoint, "t")
        assert again == Outcome("fail", error="topic_already_exists")
        deleted = await c.delete_topic(endpoint, "t")
        assert deleted == Outcome("ok", {"id": created.value["id"]})
        missing = await c.delete_topic(endpoint, "t")
        assert missing == Outcome("fail", error="unknown_topic_or_partition")
        assert await c.describe_topic(s.clients[leader], "t") == Outcome("ok", None)


@play(with_client, given="nodes")
async def test_final_reads_of_all_nodes_are_equal_once_the_quorum_is_quiet(s, leader):
    c, endpoint = s.client, s.controllers[leader]
    names = [f"final-{i}" for i in range(3)]
    async with s.own(topics=names, configs=["final"]):
        topics = [await c.create_topic(endpoint, name) for name in names]
        await c.alter_config(endpoint, CLUSTER_RESOURCE, "final", "set", "x")
        await c.alter_config(endpoint, (2, "final-1"), "retention.ms", "set", "7")
        expected = {
            "topics": {name: topic.value for name, topic in zip(names, topics, strict=True)},
            "configs": {
                "broker:": {"final": "x", "min.insync.replicas": "1"},  # as every new cluster has
                "topic:final-1": {"retention.ms": "7"},
            },
        }
        for client_endpoint in s.clients.values():
            got, deadline = None, time.monotonic() + TIMEOUT_S
            while got != expected:
                assert time.monotonic() < deadline, got
                with suppress(FinalReadRefused):  # it named a topic of before that goes meanwhile
                    got = await c.final_read(client_endpoint)
                await asyncio.sleep(0.02)

"""Our own client against three live nodes."""

import asyncio
import time

import pytest

from cluster.client.admin_client import CLUSTER_RESOURCE, Client
from cluster.client.caller import Outcome
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ListenerType, listed_apis
from cluster.node.protocol.messages import ApiVersionsRequest
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.client.nodes import TIMEOUT_S
from tests.play import play

pytestmark = pytest.mark.cluster


class Session:
    """A client, the endpoints of all nodes, and the leader."""

    def __init__(self, nodes, client):
        self.client = client
        self.clients = {i: Endpoint(i, "127.0.0.1", p) for i, p in nodes.client_ports.items()}
        self.controllers = {
            i: Endpoint(i, "127.0.0.1", p) for i, p in nodes.controller_ports.items()
        }

    async def find_leader(self):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for node, endpoint in self.controllers.items():
                quorum = await self.client.describe_quorum(endpoint)
                # A leader that has just been elected is not active before its LeaderChange is committed.
                leads = quorum.error is quorum.top_level_error is ErrorCode.none
                if leads and quorum.high_watermark > 0:
                    return node, node % 3 + 1
            await asyncio.sleep(0.05)
        raise AssertionError("no leader")


def with_client(test, nodes):
    async def body():
        network = TcpNetwork()
        try:
            async with asyncio.timeout(60):
                session = Session(nodes, Client(network, LoopClock(asyncio.get_running_loop())))
                await test(session, *await session.find_leader())
        finally:
            network.close()

    asyncio.run(body())


@play(with_client, given="nodes")
async def test_the_active_controller_writes_and_reads_what_it_wrote(s, leader, other):
    c, endpoint = s.client, s.controllers[leader]
    key = (CLUSTER_RESOURCE, "kraftprobe.register.1")
    assert await c.read_config(endpoint, *key) == Outcome("ok", None)
    assert await c.alter_config(endpoint, *key, "set", "v1") == Outcome("ok", "v1")
    assert await c.read_config(endpoint, *key) == Outcome("ok", "v1")
    assert await c.alter_config(endpoint, *key, "delete", None) == Outcome("ok", None)
    assert await c.read_config(endpoint, *key) == Outcome("ok", None)
    listed = (CLUSTER_RESOURCE, "config.providers")
    for element in ("a", "b"):
        appended = await c.alter_config(endpoint, *listed, "append", element)
        assert appended == Outcome("ok", element)
    assert await c.read_config(endpoint, *listed) == Outcome("ok", "a,b")
    assert await c.alter_config(endpoint, *listed, "delete", None) == Outcome("ok", None)


@play(with_client, given="nodes")
async def test_topics_are_created_described_and_deleted_with_one_id(s, leader, other):
    c, endpoint = s.client, s.controllers[leader]
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
async def test_another_node_refuses_on_its_controller_listener(s, leader, other):
    refused = Outcome("fail", error="not_controller")
    c, endpoint = s.client, s.controllers[other]
    assert await c.create_topic(endpoint, "refused") == refused
    assert await c.delete_topic(endpoint, "refused") == refused
    assert await c.alter_config(endpoint, CLUSTER_RESOURCE, "a", "set", "1") == refused
    assert await c.read_config(endpoint, CLUSTER_RESOURCE, "a") == refused
    assert await c.describe_topic(s.clients[other], "refused") == refused
    quorum = await c.describe_quorum(endpoint)
    assert ErrorCode.not_leader_or_follower in (quorum.error, quorum.top_level_error)


@play(with_client, given="nodes")
async def test_another_node_forwards_on_its_client_listener(s, leader, other):
    c, endpoint = s.client, s.clients[other]
    created = await c.create_topic(endpoint, "forwarded", 2)
    assert created.type == "ok"
    assert await c.describe_topic(s.clients[leader], "forwarded") == created
    altered = await c.alter_config(endpoint, CLUSTER_RESOURCE, "f", "set", "1")
    assert altered == Outcome("ok", "1")
    quorum = await c.describe_quorum(endpoint)
    assert quorum.leader_id == leader
    assert quorum.top_level_error is ErrorCode.none
    assert (await c.delete_topic(endpoint, "forwarded")).type == "ok"
    await c.alter_config(endpoint, CLUSTER_RESOURCE, "f", "delete", None)


@play(with_client, given="nodes")
async def test_final_reads_of_all_nodes_are_equal_once_the_quorum_is_quiet(s, leader, other):
    c, endpoint = s.client, s.controllers[leader]
    topics = [await c.create_topic(endpoint, f"final-{i}") for i in range(3)]
    await c.alter_config(endpoint, CLUSTER_RESOURCE, "final", "set", "x")
    await c.alter_config(endpoint, (2, "final-1"), "retention.ms", "set", "7")
    expected = {
        "topics": {f"final-{i}": topic.value for i, topic in enumerate(topics)},
        "configs": {
            "broker:": {"final": "x", "min.insync.replicas": "1"},  # as every new cluster has
            "topic:final-1": {"retention.ms": "7"},
        },
    }
    for client_endpoint in s.clients.values():
        deadline = time.monotonic() + TIMEOUT_S
        while (got := await c.final_read(client_endpoint)) != expected:
            assert time.monotonic() < deadline, got
            await asyncio.sleep(0.02)
    for i in range(3):
        await c.delete_topic(endpoint, f"final-{i}")
    await c.alter_config(endpoint, CLUSTER_RESOURCE, "final", "delete", None)


@play(with_client, given="nodes")
async def test_each_listener_reports_what_it_serves(s, leader, other):
    for endpoint, type_ in (
        (s.clients[other], ListenerType.BROKER),
        (s.controllers[other], ListenerType.CONTROLLER),
    ):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        found = await s.client.ask(endpoint, request, lambda answer: answer.api_keys)
        assert {key.api_key: (key.min_version, key.max_version) for key in found} == {
            key: (v.lowest, v.highest) for key, v in listed_apis(type_).items()
        }

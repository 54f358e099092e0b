"""What a client sees when the leader is killed."""

import asyncio
import signal

import pytest

from cluster.client.admin_client import CLUSTER_RESOURCE, CallFailed, Client
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.client.nodes import Nodes

pytestmark = pytest.mark.cluster


async def leader_of(client, endpoints):
    while True:
        for node, endpoint in endpoints.items():
            quorum = await client.describe_quorum(endpoint)
            if quorum.error is quorum.top_level_error is ErrorCode.none:
                return node
        await asyncio.sleep(0.02)


async def write(client, endpoints, key):
    """Try node after node until one acknowledges."""
    while True:
        for endpoint in endpoints.values():
            done = await client.alter_config(endpoint, CLUSTER_RESOURCE, key, "set", key)
            if done.type == "ok":
                return
        await asyncio.sleep(0.02)


def test_acknowledged_writes_survive_the_leaders_death_and_reach_it_when_it_is_back(tmp_path):
    async def body(nodes):
        network = TcpNetwork()
        client = Client(network, LoopClock(asyncio.get_running_loop()))
        endpoints = {i: Endpoint(i, "127.0.0.1", p) for i, p in nodes.controller_ports.items()}
        leader = await leader_of(client, endpoints)
        for i in range(50):
            await write(client, {leader: endpoints[leader]}, f"before-{i}")
        nodes.processes[leader].send_signal(signal.SIGKILL)
        nodes.processes[leader].wait()
        left = {i: e for i, e in endpoints.items() if i != leader}
        assert await leader_of(client, left) != leader
        await write(client, left, "after")
        nodes.start(leader)
        expected = {f"before-{i}" for i in range(50)} | {"after", "min.insync.replicas"}
        returned = Endpoint(leader, "127.0.0.1", nodes.client_ports[leader])
        while True:
            try:
                read = await client.final_read(returned)
            except CallFailed:  # it is still starting
                await asyncio.sleep(0.05)
                continue
            if set(read["configs"].get("broker:", {})) == expected:
                break
            await asyncio.sleep(0.05)
        network.close()

    with Nodes(tmp_path) as nodes:
        asyncio.run(asyncio.wait_for(body(nodes), 600))
        for node in nodes.processes:
            assert nodes.stop(node) == 0
            assert nodes.stderr(node) == ""

"""FetchSnapshot between real processes: TCP, the wire protocol and files."""

import asyncio
import contextlib
import os
import shutil
import signal

import pytest

from cluster.client.admin_client import Client
from cluster.client.caller import Peer
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from tests.cluster.client.nodes import STEADY, TIMEOUT_S, Nodes, eventually

pytestmark = pytest.mark.cluster


def snapshots(nodes, node):
    folder = nodes.node_folder(node) / "data" / "__cluster_metadata-0"
    return {path.name: path for path in folder.glob("*.checkpoint")}


def since_last_start(nodes, node, event):
    events = nodes.trace(node)
    starts = [index for index, found in enumerate(events) if found["e"] == "start"]
    return [found for found in events[starts[-1] :] if found["e"] == event]


async def create_topics(endpoint):
    """Twenty, each tried until it is there: it is not known when brokers are unfenced."""
    network = TcpNetwork()
    client = Client(network, LoopClock(asyncio.get_running_loop()))
    async with asyncio.timeout(TIMEOUT_S):
        for number in range(20):
            name = f"topic-{number}"
            while True:
                outcome = await client.create_topic(Peer(endpoint, 60_000), name, partitions=3)
                if outcome.type == "ok" or outcome.error == "topic_already_exists":
                    break
                await asyncio.sleep(0.1)
    network.close()


def test_a_wiped_node_fetches_its_leaders_snapshot_piece_by_piece(tmp_path):
    settings = {
        **STEADY,
        "controller.quorum.fetch.snapshot.max.bytes": 256,
        "metadata.log.max.record.bytes.between.snapshots": 1000,
    }
    with Nodes(tmp_path, **settings) as nodes:
        leader = nodes.leader()
        asyncio.run(create_topics(Endpoint(leader, "127.0.0.1", nodes.client_ports[leader])))
        eventually(lambda: snapshots(nodes, leader))
        wiped = leader % 3 + 1
        os.kill(nodes.processes[wiped].pid, signal.SIGKILL)
        nodes.processes[wiped].wait(TIMEOUT_S)
        shutil.rmtree(nodes.node_folder(wiped) / "data")
        nodes.start(wiped)
        of_leader = {}  # it may remove one once it has a newer one

        def loaded():
            with contextlib.suppress(FileNotFoundError):
                for found, path in snapshots(nodes, leader).items():
                    of_leader[found] = path.read_bytes()
            return since_last_start(nodes, wiped, "load-snapshot")

        eventually(loaded)
        asked = since_last_start(nodes, wiped, "fetch-snapshot")
        (fetched,) = [
            found
            for found in since_last_start(nodes, wiped, "snapshot")
            if found["origin"] == "fetched"
        ][:1]
        name = f"{fetched['offset']:020d}-{fetched['epoch']:010d}.checkpoint"
        assert len(asked) >= fetched["size_bytes"] // 256
        assert sorted({request["position"] for request in asked})[:3] == [0, 256, 512]
        assert of_leader[name] == snapshots(nodes, wiped)[name].read_bytes()
        held = eventually(lambda: since_last_start(nodes, wiped, "hw"))
        assert held[-1]["offset"] >= fetched["offset"]

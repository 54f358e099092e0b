"""`python -m tests.conformance.capture VERSION`: what controllers of Apache Kafka say to each other.

Three controllers of a dynamic quorum reach each other through proxies that keep frames. The third
one starts late and empty, so that it needs a snapshot, and under another address than the one that
it is known by, so that it has to be updated. Kept are a few exchanges of each API and version.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.client.admin_client import CLIENT_METRICS_RESOURCE, Client
from cluster.client.caller import CallFailed, Peer
from cluster.node.ports import Endpoint
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.network import TcpNetwork
from cluster.systems.base import Placement
from tests.cluster.client.nodes import free_ports
from tests.conformance.placed import end, start

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kafka"
HOST = "127.0.0.1"
KEPT_EACH = 3
BYTES_MAX = 4096
LATE_S = 150.0
"""When the third node starts: Kafka looks once a minute which segments a snapshot replaces."""
BOUND_S = 420.0
RAFT = {1: "Fetch", 52: "Vote", 53: "BeginQuorumEpoch", 54: "EndQuorumEpoch", 59: "FetchSnapshot"}
RAFT |= {82: "UpdateRaftVoter"}
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": 3000,
    "metadata.max.idle.interval.ms": 200,
    "internal.metadata.log.segment.bytes": 4096,
    "metadata.max.retention.bytes": 8192,
    "metadata.max.retention.ms": 5000,
}


def captured_file(version: str) -> Path:
    """Where the exchanges of a release are kept."""
    return FOLDER / f"peers-{version}.jsonl"


def load(version: str) -> list[dict[str, object]]:
    """Read what was captured: api, version, request and response without their sizes."""
    return [json.loads(line) for line in captured_file(version).read_text().splitlines()]


@dataclass
class Capture:
    """The exchanges so far."""

    rows: list[dict[str, object]] = field(default_factory=list)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    def note(self, request: bytes, response: bytes) -> None:
        key, version = struct.unpack_from(">hh", request)
        small = max(len(request), len(response)) <= BYTES_MAX
        if key in RAFT and small and self.counts[key, version] < KEPT_EACH:
            self.counts[key, version] += 1
            row = {"api": key, "version": version}
            self.rows.append({**row, "request": request.hex(), "response": response.hex()})

    @property
    def is_whole(self) -> bool:
        return {key for key, _ in self.counts} >= set(RAFT)


async def _frames(reader: asyncio.StreamReader) -> object:
    size = await reader.readexactly(4)
    return await reader.readexactly(struct.unpack(">i", size)[0])


async def proxy(port: int, target: int, capture: Capture) -> asyncio.Server:
    """Carry frames between a port and the one behind it."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.close()
            return
        waiting: dict[int, bytes] = {}

        async def there() -> None:
            while True:
                frame = await _frames(reader)
                waiting[struct.unpack_from(">i", frame, 4)[0]] = frame
                outer.write(struct.pack(">i", len(frame)) + frame)

        async def back() -> None:
            while True:
                frame = await _frames(inner)
                request = waiting.pop(struct.unpack_from(">i", frame)[0], None)
                if request is not None:
                    capture.note(request, frame)
                writer.write(struct.pack(">i", len(frame)) + frame)

        ways = [asyncio.ensure_future(way()) for way in (there, back)]
        with contextlib.suppress(asyncio.CancelledError):  # the end of the capture
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        outer.close()
        writer.close()

    return await asyncio.start_server(carry, HOST, port)


def placements(folder: Path) -> Iterator[tuple[Placement, int]]:
    """The nodes, and the port under which each advertises itself."""
    own, front, client, known = (free_ports(3) for _ in range(4))
    # The third voter is known by another port than the one that it advertises.
    voters = tuple(Endpoint(i + 1, HOST, (front[0], front[1], known[2])[i]) for i in range(3))
    brokers = tuple(Endpoint(i + 1, HOST, client[i]) for i in range(3))
    for i in range(3):
        yield (
            Placement(
                name=f"n{i + 1}",
                node_id=i + 1,
                run_id="capture",
                folder=folder / f"n{i + 1}",
                interpreter=sys.executable,
                client=brokers[i],
                controller=Endpoint(i + 1, HOST, own[i]),
                voters=voters,
                brokers=brokers,
                routes=(),
            ),
            front[i],
        )


def begin(version: str, placement: Placement, advertised: int) -> subprocess.Popen[bytes]:
    """Start a node that advertises the address of its proxy."""

    def with_proxy(content: str) -> str:
        pattern = r"(?m)^(advertised\.listeners=.*CONTROLLER://[^:]+:)\d+"
        return re.sub(pattern, rf"\g<1>{advertised}", content)

    return start(placement, SETTINGS, {"version": version, "kinds": "apache-kafka"}, with_proxy)


async def record(version: str, folder: Path) -> Capture:
    """Run the quorum until everything was said, within a bound."""
    capture = Capture()
    nodes = list(placements(folder))
    fronts = [await proxy(port, place.controller.port, capture) for place, port in nodes]
    late = nodes[2][0]
    fronts.append(await proxy(late.voters[2].port, late.controller.port, capture))
    running = [begin(version, *node) for node in nodes[:2]]
    client = Client(TcpNetwork(), LoopClock(asyncio.get_running_loop()))
    try:
        clock = asyncio.get_running_loop().time
        began, number, stopped_s = clock(), 0, 0.0
        while not capture.is_whole and clock() - began < BOUND_S:
            for place, _ in nodes:
                resource = (CLIENT_METRICS_RESOURCE, "m")
                value = f"a{number}"
                peer = Peer(place.controller, 1000)
                done = await client.alter_config(peer, resource, "metrics", "set", value)
                number += done.type == "ok"
            since_s = clock() - began
            if since_s > LATE_S and len(running) == 2:
                running.append(begin(version, *nodes[2]))
            if since_s > LATE_S + 40 and since_s - stopped_s > 60:
                # A leader that stops says so: EndQuorumEpoch.
                stopped_s = since_s
                leader = await _leader(client, nodes)
                if leader is not None:
                    running[leader].send_signal(signal.SIGTERM)
                    running[leader].wait(90)
                    running[leader] = begin(version, *nodes[leader])
            await asyncio.sleep(0.02)
    finally:
        for process in running:
            end(process)
        for front in fronts:
            front.close()
    return capture


async def _leader(client: Client, nodes: list[tuple[Placement, int]]) -> int | None:
    for place, _ in nodes:
        try:
            quorum = await client.describe_quorum(Peer(place.controller, 1000))
        except CallFailed:
            continue
        if quorum.leader_id > 0:
            return quorum.leader_id - 1
    return None


def main() -> int:
    """Capture, and keep the exchanges; exit code 1 when some API was never heard."""
    [version] = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        capture = asyncio.run(record(version, Path(place)))
    rows = sorted(capture.rows, key=lambda row: (row["api"], row["version"]))
    captured_file(version).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for key, name in RAFT.items():
        heard = {version: count for (api, version), count in capture.counts.items() if api == key}
        print(f"{name}: {heard or 'never heard'}")
    return int(not capture.is_whole)


if __name__ == "__main__":
    sys.exit(main())

"""The standings of nodes, read from traces while these are written."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from checkers.evidence.standings import DEAD
from cluster.backends.base import NodeState
from cluster.systems.kafka.kind import KIND as KAFKA
from cluster.systems.kraft import KIND as KRAFT
from harness.run.trace_tail import TraceTail

LOGGED = Path(__file__).parents[1] / "data/kafka/node-4.3.1.log"


class Place:
    """Two nodes whose folders are here."""

    nodes = ("n1", "n2")

    def __init__(self, folder):
        self.folder = folder
        self.states = dict.fromkeys(self.nodes, NodeState.RUNNING)

    def node_folder(self, node):
        (self.folder / node).mkdir(exist_ok=True)
        return self.folder / node

    async def read_trace(self, node, offset):
        path = self.node_folder(node) / "trace.jsonl"
        return path.read_bytes()[offset:] if path.exists() else b""

    async def state(self, node):
        return self.states[node]

    def write(self, node, *events, end="\n"):
        lines = [json.dumps({"t": at, "n": 0, "e": name, **rest}) for at, name, rest in events]
        with (self.node_folder(node) / "trace.jsonl").open("a") as file:
            file.write("\n".join(lines) + end)


class Logged(Place):
    """Its nodes write no trace."""

    async def read_trace(self, node, offset):
        path = self.node_folder(node) / "stdout.log"
        return path.read_bytes()[offset:] if path.exists() else b""


def state(at, name, epoch, leader_id=-1):
    return (at, "state", {"state": name, "epoch": epoch, "leader_id": leader_id, "voted_id": -1})


START = (1, "start", {"node_id": 1})


def test_a_leader_is_known_by_its_trace(tmp_path):
    place = Place(tmp_path)
    tail = TraceTail(place, KRAFT.layout)
    asyncio.run(tail.poll())
    assert tail.leader() is None

    place.write("n1", START, state(2, "Follower", 3, 2))
    place.write("n2", START, state(2, "Leader", 3, 2))
    asyncio.run(tail.poll())

    assert tail.leader() == "n2"
    assert (tail.role("n1"), tail.role("n2")) == ("follower", "leader")
    assert tail.highest_epoch() == 3


def test_events_between_two_polls_come_in_the_order_of_their_times(tmp_path):
    place = Place(tmp_path)
    tail, seen = TraceTail(place, KRAFT.layout), []
    tail.listeners.append(lambda node, event, fields: seen.append((node, event, dict(fields))))

    place.write("n1", state(5, "Candidate", 2), state(9, "Leader", 2))
    place.write("n2", (7, "claim", {"epoch": 2, "offset": 3}))
    asyncio.run(tail.poll())

    assert [(node, event) for node, event, _ in seen] == [
        ("n1", "state"), ("n2", "claim"), ("n1", "state"),
    ]  # fmt: skip
    assert seen[1][2] == {"epoch": 2, "offset": 3}


def test_a_line_is_taken_once_and_only_when_it_is_whole(tmp_path):
    place = Place(tmp_path)
    tail, seen = TraceTail(place, KRAFT.layout), []
    tail.listeners.append(lambda node, event, fields: seen.append(event))

    place.write("n1", START, (2, "hw", {"epoch": 1, "offset": 0, "role": "follower"}), end="")
    asyncio.run(tail.poll())
    assert seen == ["start"]

    place.write("n1", end="\n")
    asyncio.run(tail.poll())
    asyncio.run(tail.poll())
    assert seen == ["start", "hw"]


def test_what_is_no_event_is_passed_over(tmp_path):
    place = Place(tmp_path)
    (place.node_folder("n1") / "trace.jsonl").write_bytes(b"\xff{\n[1]\n{}\n" + b"[" * 5000 + b"\n")
    place.write("n1", state(3, "Leader", 1), (4, "state", {}), (5, "flush", {"end_offset": "x"}))
    tail = TraceTail(place, KRAFT.layout)
    asyncio.run(tail.poll())

    assert tail.leader() == "n1"


def test_a_killed_node_leads_no_more(tmp_path):
    place = Place(tmp_path)
    place.write("n1", START, state(2, "Leader", 1))
    tail = TraceTail(place, KRAFT.layout)

    async def follow():
        following = asyncio.ensure_future(tail.follow())
        async with asyncio.timeout(300):
            while tail.leader() != "n1":  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            place.states["n1"] = NodeState.DEAD
            while tail.leader() is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(follow())
    assert tail.nodes["n1"].state == DEAD


def test_the_standings_of_nodes_of_kafka_follow_what_they_log(tmp_path):
    place = Logged(tmp_path)
    tail, seen = TraceTail(place, KAFKA.layout), []
    tail.listeners.append(lambda node, event, fields: seen.append(event))
    whole = LOGGED.read_bytes()
    for end in (len(whole) // 3, len(whole)):
        (place.node_folder("n2") / "stdout.log").write_bytes(whole[:end])
        asyncio.run(tail.poll())
    assert Counter(seen) == {"start": 3, "state": 16, "epoch-start": 1, "hw": 9}

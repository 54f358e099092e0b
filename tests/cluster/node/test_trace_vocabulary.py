"""docs/evidence.md and the trace agree: every event and every field, described and emitted."""

import ast
import dataclasses
import re
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_DIRECTORY, BeginQuorumEpochRequest, FetchResponse
from cluster.node.kraft.raft_client import RaftClient
from harness.sim.play import play
from harness.sim.swarm.draw import draw
from tests.cluster.node.broker.cluster_of_brokers import Brokers
from tests.harness.sim.quorums import Quorum

ROOT = Path(__file__).resolve().parents[3]
WORD = re.compile(r"`([a-z][a-z_-]*)`")
ONLY_OF_PROCESSES = {"clock"}
"""What `start` says of a real process alone."""
OF_KAFKA = {"release", "log-end"}
ELSEWHERE = {*OF_KAFKA, "stop-timeout"}
"""Read from what Kafka's processes print; and of a process that ends while its disk hangs."""


@cache
def documented():
    """Event -> fields, from the table."""
    found = {}
    lines = (ROOT / "docs/evidence.md").read_text().splitlines()
    start = lines.index("| event | fields | written |")
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        events, fields, _ = (cell.strip() for cell in line.strip("|").split(" | "))
        for event in WORD.findall(events):
            assert event not in found, f"{event} is documented twice"
            found[event] = set(WORD.findall(re.sub(r"\([^()]*\)", "", fields)))
    return found


@cache
def in_source():
    """Event -> names of the fields that any call traces, from the source."""
    found = defaultdict(set)
    for path in sorted((ROOT / "cluster").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            event = node.args[0]
            if name.lstrip("_") == "trace" and isinstance(event, ast.Constant):
                found[event.value] |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return dict(found)


@pytest.mark.slow
def test_every_event_in_the_source_is_documented_and_the_other_way_round():
    assert set(in_source()) | OF_KAFKA == set(documented())
    assert not OF_KAFKA & set(in_source())


@pytest.mark.slow
def test_every_field_of_an_event_is_documented_and_the_other_way_round():
    fields = {event: names for event, names in in_source().items() if event != "hw"}
    assert fields == {event: documented()[event] for event in fields}
    # A leader's high watermark comes with its replicas, by ** of a dictionary.
    assert documented()["hw"] == in_source()["hw"] | {"replicas"}


def is_traced(quorum, event):
    nodes = quorum.world.nodes.values()
    return any(line[2] == event for node in nodes for line in node.trace)


def forge(quorum, monkeypatch):
    """A second leader asks, and batches are damaged on their way."""
    handle = RaftClient.handle

    def damaging(client, request, reply):
        def damaged(response):
            if isinstance(response, FetchResponse) and response.records:
                monkeypatch.setattr(RaftClient, "handle", handle)  # this one alone
                broken = response.records[:-1] + bytes([response.records[-1] ^ 1])
                response = dataclasses.replace(response, records=broken)
            reply(response)

        handle(client, request, damaged)

    monkeypatch.setattr(RaftClient, "handle", damaging)
    leader = quorum.elect()
    epoch = quorum.node(leader).raft.state.epoch
    forged = BeginQuorumEpochRequest(None, -1, NO_DIRECTORY, 9, epoch, None)
    quorum.node(leader).handle("CONTROLLER", forged, lambda _: None)
    assert quorum.scheduler.run_until(lambda: is_traced(quorum, "contradiction"), 60_000)
    assert is_traced(quorum, "corrupt-fetch")


def fall_behind_the_log_start(brokers):
    """A follower comes back when its leader has deleted all that it lacks."""
    brokers.create("deleted")
    brokers.world.kill("n3")
    assert brokers.until(lambda: 3 not in brokers.partition("deleted").isr)
    assert brokers.produce(1, b"a", b"b", name="deleted").error is ErrorCode.none
    assert brokers.delete_records(1, 2, name="deleted").error_code is ErrorCode.none
    brokers.world.start("n3")
    assert brokers.until(lambda: is_traced(brokers.quorum, "replica-begun"))


def played(seed):
    return play(draw(seed)).backend.world


@pytest.mark.slow
def test_every_documented_event_is_emitted_with_its_fields_and_no_others(monkeypatch):
    quorum, brokers = Quorum(), Brokers()
    forge(quorum, monkeypatch)
    fall_behind_the_log_start(brokers)
    wanted = {event: documented()[event] for event in set(documented()) - ELSEWHERE}
    wanted["start"] = wanted["start"] - ONLY_OF_PROCESSES
    emitted = defaultdict(set)
    drawn = map(played, (20, 3, 50, *range(60)))  # the first three have all, as worlds are drawn
    for world in chain((quorum.world, brokers.world), drawn):
        for node in world.nodes.values():
            for _, _, event, fields, _ in node.trace:
                emitted[event] |= set(fields)
        if emitted.keys() == wanted.keys() and all(emitted[e] >= wanted[e] for e in wanted):
            break
    assert emitted == wanted

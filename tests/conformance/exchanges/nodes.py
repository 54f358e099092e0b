"""One controller of either kind, alone in a situation that nothing but requests changes."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kraft import cluster_id_of
from tests.cluster.client.nodes import free_ports
from tests.conformance.exchanges.cases import Case, Facts, Situation, cases
from tests.conformance.exchanges.wire import ask
from tests.conformance.placed import OUTPUT, end, start

HOST = "127.0.0.1"
RUN = "exchanges"
START_S = 600.0
QUIET_S = 2.5
"""How long the log must not have grown."""
SETTINGS = {
    "controller.quorum.append.linger.ms": 0,
    "metadata.max.idle.interval.ms": 0,
    "controller.quorum.request.timeout.ms": 1000,
    "broker.session.timeout.ms": 600_000,
    "broker.heartbeat.interval.ms": 1_000,
}
DESCRIBE_QUORUM = 55


@contextlib.contextmanager
def node(
    kind: str, situation: Situation, folder: Path, options: Mapping[str, str]
) -> Iterator[tuple[Facts, subprocess.Popen[bytes]]]:
    """Start node 1 of the situation's voters; the others exist as addresses where nobody listens."""
    ports = free_ports(2 * situation.voters)
    ends = [Endpoint(i + 1, HOST, port) for i, port in enumerate(ports)]
    controllers, clients = ends[: situation.voters], ends[situation.voters :]
    clients = [Endpoint(end.node_id - situation.voters, HOST, end.port) for end in clients]
    placement = Placement(
        name="n1",
        node_id=1,
        run_id=RUN,
        folder=folder,
        interpreter=sys.executable,
        client=clients[0],
        controller=controllers[0],
        voters=tuple(controllers),
        brokers=tuple(clients),
        routes=(),
    )
    quorum = "dynamic" if situation.dynamic else "static"
    chosen = {**options, "kinds": kind, "quorum": quorum}
    process = start(placement, {**SETTINGS, **situation.settings}, chosen)
    try:
        facts = Facts(
            cluster_id=cluster_id_of(RUN),
            ports={port: f"port of {i + 1}" for i, port in enumerate(ports)},
            address=(HOST, controllers[0].port),
            directories={},
        )
        _wait(process, facts, folder / OUTPUT)
        facts.directories |= {
            i: uuid.uuid5(uuid.NAMESPACE_OID, f"{RUN}/{i}") for i in range(1, situation.voters + 1)
        }
        if situation.leads:
            _settle(facts)
        yield facts, process
    finally:
        end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], facts: Facts, output: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        assert process.poll() is None, output.read_text()[-3000:]
        assert time.monotonic() < deadline, output.read_text()[-3000:]
        with contextlib.suppress(OSError):
            with socket.create_connection(facts.address, timeout=1):
                pass
            described(facts)
            return
        time.sleep(0.1)


def described(facts: Facts) -> Any:
    """What the node says of the quorum: the partition's row, or None while it does not lead."""
    partitions = [{"partition_index": 0}]
    body = {"topics": [{"topic_name": "__cluster_metadata", "partitions": partitions}]}
    answer = ask(facts.address, DESCRIBE_QUORUM, 2, body)
    if not isinstance(answer, dict) or not answer["topics"]:
        return None
    row = answer["topics"][0]["partitions"][0]
    return row if row["error_code"] == "none" else None


def _settle(facts: Facts) -> None:
    """Wait until the node leads and its log has not grown for a while."""
    deadline, seen, since = time.monotonic() + START_S, None, time.monotonic()
    while time.monotonic() < deadline:
        row = described(facts)
        now = None if row is None else (row["leader_epoch"], row["high_watermark"])
        if now != seen:
            seen, since = now, time.monotonic()
        if seen is not None and time.monotonic() - since > QUIET_S:
            facts.epoch, facts.end = seen
            return
        time.sleep(0.1)
    raise AssertionError("the node does not lead a quiet quorum")


def _look(facts: Facts) -> None:
    """Take up how far the log of a leader has grown."""
    if facts.end > 0 and (row := described(facts)) is not None:
        facts.end = row["high_watermark"]


ENDS = "the node ends"
ENDED_S = 3.0
"""How long a node may take to end after an answer that is none."""
OFFSETS = frozenset(
    {"high_watermark", "last_stable_offset", "log_end_offset", "log_start_offset", "end_offset"}
)
WORDS = frozenset({"error_message", "status"})
TIMES = frozenset({"last_fetch_timestamp", "last_caught_up_timestamp"})


def exchange(
    kind: str, situation: Situation, folder: Path, options: Mapping[str, str]
) -> dict[str, Any]:
    """Ask everything of a situation, in order; case -> what was answered, in comparable words.

    A node that ends is followed by a new one, to which the rest is said.
    """
    found: dict[str, Any] = {}
    due = list(cases(situation.name))
    while due:
        with node(kind, situation, folder, options) as (facts, process):
            while due:
                case = due.pop(0)
                _look(facts)  # a busy machine may append after a quiet time
                answer = _answer(facts, process, case)
                found[case.name] = comparable(answer, facts)
                if answer == ENDS:
                    break
    return found


def _answer(facts: Facts, process: subprocess.Popen[bytes], case: Case) -> Any:
    try:
        answer = ask(facts.address, case.key, case.version, case.body(facts))
    except OSError as error:
        answer = type(error).__name__
    if not isinstance(answer, dict):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDED_S)
            return ENDS
    return answer


def comparable(value: Any, facts: Facts, name: str = "") -> Any:
    """Put names in the place of what differs from start to start."""
    if isinstance(value, dict):
        return {key: comparable(each, facts, key) for key, each in value.items()}
    if isinstance(value, list):
        found = [comparable(each, facts, name) for each in value]
        return sorted(found, key=str) if name == "observers" else found
    if name == "port" and value in facts.ports:
        return facts.ports[value]
    if name in WORDS:
        return value if value is None else "words"
    if name in TIMES and value != -1:
        return "a time"
    if name in OFFSETS and value == facts.end > 0:
        return "the end"
    if name == "records" and isinstance(value, str):
        return value if value.startswith("0 ") else "records"
    if isinstance(value, str):
        for number, directory in facts.directories.items():
            if value == str(directory):
                return f"directory of {number}"
        if value == facts.cluster_id:
            return "the cluster"
    return value

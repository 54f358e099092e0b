"""A small run of three nodes with everything in order, to be spoilt by tests."""

from dataclasses import replace
from typing import Any

from checkers.evidence import Evidence, FinalRead, LogRecord, TraceEvent
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from checkers.verdict import Status

NODES = ("n1", "n2", "n3")


def record(
    node: str, offset: int, epoch: int = 1, crc: int | None = None, **fields: Any
) -> LogRecord:
    kind = fields.pop("kind", "TopicRecord")
    return LogRecord(node, offset, epoch, 100 + offset if crc is None else crc, kind, fields)


def leader_change(node: str, offset: int, epoch: int, leader: int) -> LogRecord:
    return record(node, offset, epoch, kind="control:LEADER_CHANGE", leaderId=leader)


def trace(node: str, *events: tuple[Any, ...], begin_ns: int = 0) -> list[TraceEvent]:
    """Events as (name, fields) or (name, fields, incarnation)."""
    return [
        TraceEvent(node, rest[0] if rest else 0, time_ns, name, fields)
        for time_ns, (name, fields, *rest) in enumerate(events, begin_ns)
    ]


def state(
    epoch: int, leader: int = -1, voted: int = -1, name: str = "Follower"
) -> tuple[str, dict[str, Any]]:
    return "state", {"state": name, "epoch": epoch, "leader_id": leader, "voted_id": voted}


def high_watermark(offset: int, *, epoch: int = 1, replicas: dict[str, int] | None = None) -> Any:
    if replicas is None:
        return "hw", {"epoch": epoch, "offset": offset, "role": "follower"}
    return "hw", {"epoch": epoch, "offset": offset, "role": "leader", "replicas": replicas}


def good_log(node: str) -> list[LogRecord]:
    return [leader_change(node, 0, 1, 1), *(record(node, offset) for offset in range(1, 6))]


def append(base_offset: int, last_offset: int, *, epoch: int = 1, role: str = "follower") -> Any:
    place = {"epoch": epoch, "base_offset": base_offset, "last_offset": last_offset}
    return "append", {**place, "role": role}


def opened(node: str) -> list[tuple[str, dict[str, Any]]]:
    """What a node traces before it takes part."""
    voters = {name[1:]: f"d{name[1:]}" for name in NODES}
    return [
        ("start", {"node_id": int(node[1:]), "mutant": None, "directory_id": f"d{node[1:]}"}),
        ("recovered", {"start_offset": 0, "end_offset": 0, "last_epoch": 0}),
        ("voters", {"offset": -1, "kraft_version": 1, "voters": voters}),
    ]


def good_trace(node: str) -> list[TraceEvent]:
    if node == "n1":
        return trace(
            node,
            *opened(node),
            state(1, voted=1, name="Candidate"),
            state(1, leader=1, voted=1, name="Leader"),
            ("epoch-start", {"epoch": 1, "offset": 0}),
            append(0, 5, role="leader"),
            ("flush", {"end_offset": 6}),
            high_watermark(6, replicas={"1": 6, "2": 6, "3": 4}),
            ("claim", {"epoch": 1, "offset": 5}),
            ("ack", {"epoch": 1, "offset": 5, "high_watermark": 6}),
            ("read", {"epoch": 1, "offset": 5, "confirmed": True, "query": True}),
        )
    vote = {"epoch": 1, "candidate_id": 1, "pre_vote": False, "granted": True}
    fetch = {"epoch": 1, "leader_id": 1, "offset": 6, "durable_end_offset": 6}
    return trace(
        node,
        *opened(node),
        ("vote", vote),
        state(1, leader=1, voted=1),
        append(0, 5),
        ("flush", {"end_offset": 6}),
        ("fetch", fetch),
        high_watermark(6),
    )


def good_run(**changes: Any) -> RunInput:
    """A run in order; `changes` replace parts of its evidence, or its events and operations."""
    quorum = {"leaderId": 1, "leaderEpoch": 1, "votedId": 1, "logEndOffset": 6}
    evidence = Evidence(
        NODES,
        {node: good_log(node) for node in NODES},
        {node: {**quorum, "directoryId": f"d{node[1:]}"} for node in NODES},
        {node: good_trace(node) for node in NODES},
        {},
    )
    events, operations = changes.pop("events", []), changes.pop("operations", [])
    return RunInput(events, operations, replace(evidence, **changes))


def with_trace(node: str, *events: tuple[Any, ...]) -> RunInput:
    """A run in order but for what one node's trace goes on to say."""
    traces = {name: good_trace(name) for name in NODES}
    traces[node] = traces[node] + trace(node, *events, begin_ns=len(traces[node]))
    return good_run(traces=traces)


def with_evidence(run: RunInput, **changes: Any) -> RunInput:
    return replace(run, evidence=replace(run.evidence, **changes))


def with_log(node: str, log: list[LogRecord]) -> RunInput:
    return good_run(logs={name: good_log(name) for name in NODES} | {node: log})


def judged(run: RunInput, name: str = "invariants") -> tuple[Status, set[str]]:
    """Verdict of a check, and the kinds of what it found."""
    result = run_check(CheckSpec(name), run)
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


def final_reads(**states: Any) -> dict[str, FinalRead]:
    """Final reads by node, each {"topics": ...} or {"configs": ...}."""
    return {
        node: FinalRead(
            node, read.get("high_watermark", 6), read.get("topics", {}), read.get("configs", {})
        )
        for node, read in states.items()
    }

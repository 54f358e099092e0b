"""Durability: what was acknowledged is in the final state of every node.

Judged is the final read of each node, taken after healing, when everything acknowledged must have
been replayed, by the workload's rule of real time (`checkers.evidence.final_states`). An
indeterminate operation may be there or not, but two nodes at the same committed offset must agree,
unless the log has it behind the sentinel: it came as they were read (check `records` judges each).
Each rule is necessary, not sufficient: it reports no correct system, and what it lets pass because
operations were concurrent is left to linearizability and log agreement.

Options: `workload`; `config_prefix` of the registers' names; `nodes` that serve final reads, all by
default; `functions` and `refusals` (`checkers.run_input.asked_for`), since what a node that lags
shows or refuses proves no presence or absence at that time.

A node without a final read makes the verdict UNKNOWN, and so does what only an operation behind the
end of a journal that was cut off may explain (`evidence.extent`). Complexity: O(operations + nodes
x keys x operations of the key).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from checkers.evidence import Evidence, FinalRead
from checkers.evidence.evidence_result import evidence_result
from checkers.evidence.final_states import (
    counter_anomaly,
    list_anomaly,
    register_anomaly,
    set_anomaly,
    topic_anomaly,
)
from checkers.history import EventType, Operation
from checkers.history.recorded import Recorded, tally
from checkers.nodes.records import changed_since
from checkers.run_input import RunInput, asked_for
from checkers.verdict import Anomaly, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "durability"
REGISTER_RESOURCE = "broker:"
"""Registers and lists are configs of the brokers' cluster-wide default resource."""

_NOT_OF_A_PREFIX = {
    "set": frozenset({"phantom", "wrong-partitions"}),
    "register": frozenset({"phantom"}),
    "topics": frozenset({"phantom", "lost", "wrong-partitions"}),
    "append": frozenset({"phantom"}),
    "partitions": frozenset({"phantom"}),
}
"""By workload: what an operation may explain that the journal of a prefix lacks. Not that a value
is lost of what nothing removes it from: a set, a list, a counter, a register with unique values."""

KeyRule = Callable[[str, Sequence[Operation], Any], Anomaly | None]
"""(key, its operations, final state on one node) -> what is wrong with it."""

WORKLOADS: Mapping[str, KeyRule] = {
    "register": register_anomaly,
    "topics": topic_anomaly,
    "set": set_anomaly,
    "append": list_anomaly,
    "partitions": counter_anomaly,
}


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown workload."""
    if options.get("workload") not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise ValueError(f"unknown workload {options.get('workload')!r}; known: {known}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the final reads of all nodes."""
    evidence = run.required_evidence
    evidence = replace(evidence, nodes=options.get("nodes", evidence.nodes))
    workload = str(options["workload"])
    prefix = str(options.get("config_prefix") or "")
    operations = asked_for(run.operations, options)
    state_of = _state_reader(workload, prefix)
    rule = WORKLOADS[workload]
    read = evidence.final_reads.keys()
    missing = [f"{node} (final read)" for node in evidence.nodes if node not in read]
    missing += [] if evidence.nodes else ["any node"]
    finals = {node: state_of(read) for node, read in _reads(evidence)}
    found: dict[tuple[str, str], Anomaly] = {}
    for key, mine in _by_key(operations, {key for final in finals.values() for key in final}):
        for node, final in finals.items():
            if cancelled():
                return CheckResult(NAME, Status.UNKNOWN, "cancelled", algorithm=workload)
            wrong = rule(key, mine, final.get(key))
            if wrong is not None:
                explanation = f"{node}: {wrong['explanation']}"
                found[node, key] = {**wrong, "node": node, "key": key, "explanation": explanation}
    order = {node: place for place, node in enumerate(finals)}
    anomalies = [found[place] for place in sorted(found, key=lambda at: (order[at[0]], at[1]))]
    anomalies += _disagreements(evidence, state_of, prefix)
    lacking = frozenset[str]() if run.extent.closed else _NOT_OF_A_PREFIX[workload]
    doubts = [anomaly for anomaly in anomalies if anomaly["kind"] in lacking]
    anomalies = [anomaly for anomaly in anomalies if anomaly["kind"] not in lacking]
    return _result(operations, workload, evidence, missing, anomalies, doubts)


def _by_key(
    operations: Sequence[Operation], more: AbstractSet[str]
) -> Iterator[tuple[str, list[Operation]]]:
    """Yield each key with its operations, and `more` keys, which may have none.

    An operation without key has its element as value.
    """
    if isinstance(operations, Recorded) and None not in operations.columns.keys:
        keys = set()
        for part in operations.columns.parts() if len(operations) else ():
            mine = part.operations()
            keys.add(str(mine[0].key))
            yield str(mine[0].key), mine
        yield from ((key, []) for key in more - keys)
        return
    groups: dict[str, list[Operation]] = {key: [] for key in more}
    for operation in operations:
        key = operation.key if operation.key is not None else str(operation.input)
        groups.setdefault(key, []).append(operation)
    yield from groups.items()


def _reads(evidence: Evidence) -> Iterator[tuple[str, FinalRead]]:
    for node in evidence.nodes:
        if node in evidence.final_reads:
            yield node, evidence.final_reads[node]


def _state_reader(workload: str, prefix: str) -> Callable[[FinalRead], dict[str, Any]]:
    """Return what reads one node's final state as {key: state}."""

    def registers(read: FinalRead) -> dict[str, Any]:
        configs = read.configs.get(REGISTER_RESOURCE, {})
        return {n.removeprefix(prefix): v for n, v in configs.items() if n.startswith(prefix)}

    def topics(read: FinalRead) -> dict[str, Any]:
        return dict(read.topics)

    return registers if workload in ("register", "append") else topics


def _disagreements(
    evidence: Evidence, state_of: Callable[[FinalRead], dict[str, Any]], prefix: str
) -> list[Anomaly]:
    """Compare each node with the first one that was read at the same committed offset."""
    first: dict[int, tuple[str, dict[str, Any]]] = {}
    found: list[Anomaly] = []
    for node, read in _reads(evidence):
        state = state_of(read)
        other, other_state = first.setdefault(read.high_watermark, (node, state))
        unlike = {key for key in {*state, *other_state} if state.get(key) != other_state.get(key)}
        changed = changed_since(evidence, read) if unlike else frozenset()
        for key in sorted(unlike):
            if changed.isdisjoint({key, f"{prefix}{key}"}):
                explanation = (
                    f"{key!r} is {_text(other_state.get(key))} on {other} and "
                    f"{_text(state.get(key))} on {node}, both read at committed offset "
                    f"{read.high_watermark}"
                )
                found.append(anomaly("divergent", explanation, key=key, nodes=[other, node]))
    return found


def _text(state: Any) -> str:
    """Return a final state for a person: a value, a topic by its fields, or that there is none."""
    if isinstance(state, Mapping):
        return ", ".join(f"{name} {value}" for name, value in state.items()) or "empty"
    return "not there" if state is None else repr(state)


_NOUNS = {"topics": "topic", "partitions": "topic", "set": "element"}
"""What the keys of a workload are; the others have keys."""


def _describe_count(
    kind: str, anomalies: Sequence[Anomaly], read: Collection[str], workload: str
) -> str:
    """Say of how many keys something is wrong and where: `198 topics lost, on all 3 nodes`."""
    found = [anomaly for anomaly in anomalies if anomaly["kind"] == kind]
    keys = {anomaly["key"] for anomaly in found}
    nodes = {node for anomaly in found for node in anomaly.get("nodes", [anomaly.get("node")])}
    where = f"all {len(nodes)} nodes" if 1 < len(nodes) == len(read) else ", ".join(sorted(nodes))
    noun = _NOUNS.get(workload, "key") + ("" if len(keys) == 1 else "s")
    return f"{len(keys)} {noun} {kind}, on {where}"


def _result(
    operations: Sequence[Operation],
    workload: str,
    evidence: Evidence,
    missing: Sequence[str],
    anomalies: Sequence[Anomaly],
    doubts: Sequence[Anomaly],
) -> CheckResult:
    acknowledged = sum(n for (_, kind), n in tally(operations).items() if kind is EventType.OK)
    result = evidence_result(
        NAME,
        anomalies,
        missing=missing,
        doubts=doubts,
        cancelled=False,
        exercised=acknowledged > 0,
        good=f"{acknowledged} acknowledged operations agree with the final state of "
        f"{', '.join(evidence.nodes)}",
        looked_at=len(operations),
        statistics={"acknowledged": acknowledged},
        idle="no operation was acknowledged",
    )
    if anomalies:
        counted = "; ".join(
            _describe_count(kind, anomalies, evidence.final_reads, workload)
            for kind in result.statistics["anomalies_by_kind"]
        )
        summary = f"{counted}; first: {anomalies[0]['explanation']}"
        result = replace(result, summary=summary)
    return replace(result, algorithm=workload)

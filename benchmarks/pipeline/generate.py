"""Stored runs of any size: registers that are linearizable by construction.

Ten clients take turns; an operation takes effect at a moment between its invocation and its
completion, and reads return what the last effect on their key wrote. A twentieth of the operations
is refused, a thousandth ends in `info`. `hot` is the share of operations on the first key. With
nodes, the run has logs and traces of three (`benchmarks.pipeline.nodes`), and is judged by them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pipeline.nodes import CLOCK, NODES, PREFIX, Effect, write_nodes
from checkers.evidence import FINAL_READS, PHASE
from checkers.evidence.extent import COLLECTED
from checkers.history import NEMESIS, Event, EventType
from checkers.history.json_text import seal
from results.store.journal import encode_event
from results.store.run_store import RunStore

_CLIENTS = 10
_STEP_NS = 1_000_000
_CHECKS = (
    {"name": "linearizable", "options": {"model": "register"}},
    {"name": "monitor", "options": {}},
    {"name": "answers", "options": {}},
    {"name": "exercised", "options": {}},
    {"name": "statistics", "options": {}},
)
_OF_NODES = (
    {"name": "durability", "options": {"workload": "register", "config_prefix": PREFIX}},
    {"name": "log-agreement", "options": {}},
    {"name": "snapshots", "options": {}},
    {
        "name": "records",
        "options": {"workload": "register", "timeout_ms": 800.0, "one_clock": True},
    },
    {"name": "invariants", "options": {}},
)


def make_run(
    root: Path, name: str, operations: int, keys: int, hot: float, seed: int, *, nodes: bool = False
) -> RunStore:
    """Store one run, recorded to its end."""
    plan = {
        "version": 1,
        "campaign": "generated",
        "run": name,
        "nodes": len(NODES) if nodes else 0,
        "workload": "register",
        "rate_per_s": 1000.0,
        "duration_s": operations / 1000,
        "checks": [*_CHECKS, *(_OF_NODES if nodes else ())],
    }
    store = RunStore.create(root, plan)
    lines, effects = _lines(operations, keys, hot, np.random.default_rng(seed), nodes=nodes)
    with store.journal_path.open("wb") as file:
        file.writelines(lines)
    if nodes:
        write_nodes(store, effects)
    store.end_recording()
    return store


def _lines(
    operations: int, keys: int, hot: float, rnd: np.random.Generator, *, nodes: bool
) -> tuple[list[bytes], list[Effect]]:
    """Return the lines of the journal, and what took effect."""
    begin_ns = np.arange(operations) * _STEP_NS + 1_000
    lasts_ns = rnd.integers(10_000, (_CLIENTS - 1) * _STEP_NS, operations)
    effect_ns = begin_ns + (lasts_ns * rnd.random(operations)).astype(np.int64)
    effect = np.argsort(effect_ns)
    key = np.where(rnd.random(operations) < hot, 0, rnd.integers(0, keys, operations))
    writes = rnd.random(operations) < 0.5
    fate = rnd.random(operations)
    kind = np.where(fate < 0.05, "fail", np.where(fate < 0.051, "info", "ok"))
    seen = np.full(operations, -1)
    state = np.full(keys, -1)
    for number in effect.tolist():
        if writes[number] and kind[number] != "fail":
            state[key[number]] = number
        seen[number] = state[key[number]]
    process = np.arange(operations) % _CLIENTS
    for client in range(_CLIENTS):  # one that ended in info is followed by another
        gone = np.cumsum(kind[client::_CLIENTS] == "info")
        process[client::_CLIENTS] += _CLIENTS * np.concatenate([[0], gone[:-1]])
    times = np.concatenate([begin_ns, begin_ns + lasts_ns])
    clock = {"clock": CLOCK, "origin_ns": 0} if nodes else {}
    lines = [_note(0, 0, PHASE, {"name": "faults", **clock})]
    for index, place in enumerate(np.argsort(times, kind="stable").tolist(), 1):
        number = place % operations
        ends = place >= operations
        shown = number if writes[number] else seen[number]
        value = f"v{shown}" if shown >= 0 else None
        fields = {
            "index": index,
            "time_ns": int(times[place]),
            "process": int(process[number]),
            "type": str(kind[number]) if ends else "invoke",
            "f": "write" if writes[number] else "read",
            "key": f"k{key[number]}",
        }
        answered = ends and kind[number] == "ok"
        if value is not None and (answered or writes[number]):
            fields["value"] = value
        if ends and not answered:
            fields["error"] = "NOT_CONTROLLER"
        fields["node"] = NODES[0] if nodes else f"n{number % 3 + 1}"
        lines.append(seal(json.dumps(fields, separators=(",", ":"))))
    end = int(times.max()) + 1
    lines.append(
        _note(2 * operations + 1, end, FINAL_READS, {"read": list(NODES) if nodes else []})
    )
    lines.append(_note(2 * operations + 2, end, PHASE, {"name": "stop"}))
    lines.append(_note(2 * operations + 3, end, COLLECTED, {"problems": []}))
    effects = [
        Effect(
            at_ns=int(effect_ns[number]),
            key=f"k{key[number]}",
            value=f"v{number}" if writes[number] else None,
            answered=bool(kind[number] == "ok"),
        )
        for number in (effect.tolist() if nodes else ())
        if kind[number] != "fail"
    ]
    return lines, effects


def _note(index: int, time_ns: int, f: str, value: dict[str, Any]) -> bytes:
    return encode_event(Event(index, time_ns, NEMESIS, EventType.OK, f, value=value))

"""Synthetic runs: a simulated register workload on three nodes, with faults, stored like a real one.

Five workers write and read registers that a small event simulation keeps, so the history of an
honest run is linearizable by construction. Three faults come and go, leadership moves, operations
under a fault end in `fail` or `info`, every register is read at the end, and the nodes leave logs,
quorum-state files, traces and final reads that agree. The same arguments give the same run.
"""

import copy
import heapq
import json
import random
import zlib
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.evidence import FINAL_READS, FinalRead, LogRecord
from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.history.event_columns import event_of
from checkers.history.json_text import seal
from checkers.runs.exercised import options_of
from results.store.evidence_files import LOG_FILE, QUORUM_STATE_FILE, SNAPSHOTS_FILE, STATE_FILE
from results.store.run_store import RunStore

PREFIX = "kraftprobe.register."
NODES = ("n1", "n2", "n3")
CLOCK = "a kernel since its boot"
SECOND = 1_000_000_000
DEFAULT_CHECKS = (
    {"name": "linearizable", "options": {"model": "register"}},
    {"name": "durability", "options": {"workload": "register", "config_prefix": PREFIX}},
    {"name": "log-agreement", "options": {}},
    {"name": "snapshots", "options": {}},
    {
        "name": "records",
        "options": {"workload": "register", "timeout_ms": 800.0, "one_clock": True},
    },
    {
        "name": "invariants",
        "options": {"pids": True, "starts": {"check_quorum_timeout_ms": 1500.0}},
    },
    {"name": "answers", "options": {}},
    {"name": "exercised", "options": {}},
    {"name": "statistics", "options": {}},
)
# (fault, target, inject at, heal at, parameters) on a run of 60 s; and (time, leader, epoch)
FAULTS = (
    ("kill", "n1", 10.0, 16.0, {"targets": "leader"}),
    ("pause", "n3", 22.0, 27.0, {"targets": "followers"}),
    ("partition", "n2", 34.0, 42.0, {"shape": "isolate", "targets": "leader"}),
)
LATE_FLUSH_S = 22
STARTS = (11.3, 35.4)
LEADERS = ((0.1, "n1", 1), (11.3, "n2", 2), (35.4, "n3", 4))


@dataclass
class Simulation:
    """The cluster as the clients meet it, and the events they journal."""

    random: random.Random
    scale: float
    keys: int
    stale_reads: int = 0
    slower: float = 1.0
    events: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    state: dict[str, str | None] = field(default_factory=dict)
    acknowledged: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    log: list[tuple[int, str, str]] = field(default_factory=list)
    answers: list[tuple[int, str, str]] = field(default_factory=list)
    """When which node answered a read or a write with ok."""
    order: int = 0
    killed: bool = False
    """Whether a fault kills n1."""

    def journal(self, time_ns: int, **fields: Any) -> None:
        self.order += 1
        self.events.append((time_ns, self.order, fields))

    def leader(self, time_ns: int) -> tuple[str, int] | None:
        """The leader that serves at this time; None while there is none."""
        seconds = time_ns / SECOND / self.scale
        for at, lost in ((10.0, 11.3), (34.0, 35.4)):
            if at <= seconds < lost:
                return None
        return next(((n, e) for at, n, e in reversed(LEADERS) if seconds >= at), None)

    def stale_value(self, key: str, time_ns: int) -> str | None:
        """What the register held before the last write that was acknowledged by now."""
        known = [value for at, value in self.acknowledged.get(key, []) if at < time_ns]
        return known[-2] if len(known) >= 2 and self.state.get(key) == known[-1] else None


def simulate(sim: Simulation, duration_ns: int, rate_per_s: float, workers: int) -> None:
    """Let the workers act until `duration_ns`."""
    step_ns = int(workers / rate_per_s * SECOND)
    count = [0] * workers
    process = list(range(workers))
    heap: list[tuple[int, int, str, dict[str, Any]]] = []
    for worker in range(workers):
        heapq.heappush(
            heap, (int(0.2 * sim.scale * SECOND) + worker * 997_331, worker, "invoke", {})
        )
    order = workers
    while heap:
        now, _, action, op = heapq.heappop(heap)
        order += 1
        if action == "invoke":
            worker = op.get("worker", _)
            if now >= duration_ns:
                continue
            key = f"k{sim.random.randrange(sim.keys):02}"
            write = sim.random.random() < 0.5
            value = f"w{worker}.{count[worker]}" if write else None
            count[worker] += write
            node = sim.random.choice(NODES)
            op = {
                "worker": worker,
                "process": process[worker],
                "key": key,
                "value": value,
                "f": "write" if write else "read",
                "invoked": now,
                "node": node,
            }
            sim.journal(
                now,
                process=op["process"],
                type="invoke",
                f=op["f"],
                key=key,
                value=value,
                node=node,
            )
            latency = int(sim.random.lognormvariate(1.6, 0.5) * sim.slower * 1_000_000)
            heapq.heappush(heap, (now + latency // 2, order, "effect", op))
        elif action == "effect":
            leader = sim.leader(now)
            if leader is None:
                lost = sim.random.random() < 0.15
                if lost and op["value"] is not None and sim.random.random() < 0.5:
                    sim.state[op["key"]] = op["value"]
                    sim.log.append((now, op["key"], op["value"]))
                op |= {
                    "type": "info" if lost else "fail",
                    "result": op["value"],
                    "error": "timeout" if lost else "NOT_CONTROLLER",
                }
                wait = 2 * SECOND if lost else 40_000_000
                heapq.heappush(heap, (now + wait, order, "complete", op))
                continue
            op |= {"type": "ok", "result": op["value"], "node": leader[0]}
            sim.answers.append((now, leader[0], "read" if op["value"] is None else "ack"))
            if op["value"] is not None:
                sim.state[op["key"]] = op["value"]
                sim.log.append((now, op["key"], op["value"]))
            else:
                op["result"] = sim.state.get(op["key"])
                late = now / SECOND / sim.scale > 36
                stale = sim.stale_value(op["key"], op["invoked"])
                if sim.stale_reads and late and stale is not None:
                    sim.stale_reads -= 1
                    op["result"] = stale
            heapq.heappush(heap, (now + now - op["invoked"] + 1, order, "complete", op))
        else:
            sim.journal(
                now,
                process=op["process"],
                type=op["type"],
                f=op["f"],
                key=op["key"],
                value=op["result"],
                error=op.get("error"),
                node=op["node"],
            )
            if op["type"] == "ok" and op["value"] is not None:
                sim.acknowledged.setdefault(op["key"], []).append((now, op["value"]))
            if op["type"] == "info":
                process[op["worker"]] += workers
            pause = max(1, int(sim.random.expovariate(1) * step_ns))
            heapq.heappush(heap, (now + pause, order, "invoke", {"worker": op["worker"]}))


def journal_faults(sim: Simulation, faults: Any = FAULTS, **of: Any) -> None:
    """Faults, observed leaders and phases, as the nemesis journals them."""

    def at(seconds: float) -> int:
        return int(seconds * sim.scale * SECOND)

    start = {"name": "start", "clock": CLOCK, "origin_ns": 0, **of}
    sim.journal(at(0.0), process=NEMESIS, type="ok", f="phase", value=start)
    for name, when in (("faults", 0.0), ("heal", 50.0), ("final-reads", 54.0)):
        sim.journal(at(when), process=NEMESIS, type="ok", f="phase", value={"name": name})
    for when, node, epoch in LEADERS:
        value = {"leader": node, "epoch": epoch}
        sim.journal(at(when), process=NEMESIS, type="ok", f="leader", value=value)
    for fault, target, injected, healed, parameters in faults:
        for phase, when in (("inject", injected), ("heal", healed)):
            asked = {"phase": phase, "fault": fault, "parameters": parameters}
            sim.journal(at(when), process=NEMESIS, type="invoke", f=fault, value=asked)
            done = {
                "phase": phase,
                "fault": fault,
                "targets": [target],
                "verified": True,
                "detail": {"how": "asked the operating system"},
            }
            sim.journal(at(when + 0.05), process=NEMESIS, type="ok", f=fault, value=done)


def final_reads(sim: Simulation, begin_ns: int) -> None:
    """Every register once more, by a process of its own."""
    now = begin_ns
    for number in range(sim.keys):
        key = f"k{number:02}"
        sim.journal(now, process=9000, type="invoke", f="read", key=key, node="n3")
        sim.journal(
            now + 2_000_000,
            process=9000,
            type="ok",
            f="read",
            key=key,
            node="n3",
            value=sim.state.get(key),
        )
        sim.answers.append((now + 1_000_000, "n3", "read"))
        now += 5_000_000
    reads = {"read": list(NODES), "missing": {}, "sentinel": PREFIX + next(iter(sorted(sim.state)))}
    sim.journal(now, process=NEMESIS, type="ok", f=FINAL_READS, value=reads)
    sim.journal(now, process=NEMESIS, type="ok", f="phase", value={"name": "stop"})
    sim.journal(now, process=NEMESIS, type="ok", f="phase", value={"name": "evidence"})
    sim.journal(now, process=NEMESIS, type="ok", f="evidence", value={"problems": []})


def make_plan(
    run: str,
    *,
    seed: int,
    mutant: str | None,
    duration_s: float,
    rate_per_s: float = 40.0,
    checks: Any = DEFAULT_CHECKS,
    expectations: Any = None,
    faults: Any = FAULTS,
) -> dict[str, Any]:
    option = f" --mutant {mutant}" if mutant else ""
    plan = {
        "version": 1,
        "campaign": "synthetic",
        "run": run,
        "seed": seed,
        "backend": "local",
        "system": "kraft",
        "nodes": 3,
        "mutant": mutant,
        "workload": "register",
        "duration_s": duration_s,
        "workload_options": {"keys": 8},
        "node_settings": {},
        "rate_per_s": rate_per_s,
        "faults": [fault for fault, *_ in faults],
        "without_faults": not faults,
        "schedule": [
            {
                "at_s": at * duration_s / 60,
                "fault": fault,
                "parameters": parameters,
                "for_s": (healed - at) * duration_s / 60,
            }
            for fault, _, at, healed, parameters in faults
        ],
        "expectations": expectations or {"min_operations": 50},
        "versions": {"kraftprobe": "0.1.0", "python": "3.11.7", "pyspark": "4.3.0"},
        "command": f"kraftprobe run register --duration {duration_s:g} --seed {seed}{option}",
    }
    options = options_of(plan)
    listed = copy.deepcopy([dict(check) for check in checks])
    for check in listed:
        if "starts" in check["options"]:
            check["options"]["starts"]["mutant"] = mutant
    for check in listed:
        if check["name"] == "exercised":
            check["options"] = options
    return {**plan, "expectations": options["expectations"], "checks": listed}


def make_run(
    root: Path,
    *,
    seed: int = 7,
    duration_s: float = 60.0,
    rate_per_s: float = 40.0,
    keys: int = 8,
    stale_reads: int = 0,
    slower: float = 1.0,
    mutant: str | None = None,
    lost_on: str | None = None,
    evidence: bool = True,
    run: str | None = None,
    checks: Any = DEFAULT_CHECKS,
    faults: Any = FAULTS,
    ended: bool = True,
    late_flush: bool = False,
) -> RunStore:
    """Store a run of about `duration_s * rate_per_s` operations.

    `stale_reads`: so many reads after the partition return an overwritten value. `slower`: every
    operation takes so many times as long. `lost_on`: this node's image lacks the last acknowledged
    write of a register. `ended`: the harness recorded it to its end. `late_flush`: a leader commits once what its followers have not yet fsynced.
    """
    name = run or f"20261121T010203Z-seed{seed}"
    plan = make_plan(
        name,
        seed=seed,
        mutant=mutant,
        duration_s=duration_s,
        rate_per_s=rate_per_s,
        checks=checks,
        faults=faults,
    )
    store = RunStore.create(root, plan)
    sim = Simulation(random.Random(seed), duration_s / 60, keys, stale_reads, slower)
    sim.killed = any(fault == "kill" for fault, *_ in faults)
    journal_faults(sim, faults, run=name, seed=seed, at="2026-11-21T01:02:03+00:00")
    simulate(sim, int(duration_s * 50 / 60 * SECOND), rate_per_s, 5)
    last = max(time_ns for time_ns, _, _ in sim.events)
    final_reads(sim, max(last, int(duration_s * 54 / 60 * SECOND)) + 1_000_000)
    write_journal(store, sim)
    if evidence:
        for node in NODES:
            late = late_flush and node != LEADERS[1][1]
            write_evidence(store, sim, node, lost=node == lost_on, mutant=mutant, late_flush=late)
    if ended:
        store.end_recording()
    return store


def write_journal(store: RunStore, sim: Simulation) -> None:
    with store.journal_writer() as writer:
        for index, (time_ns, _, fields) in enumerate(sorted(sim.events, key=lambda e: e[:2])):
            kind = EventType(fields["type"])
            writer.append(Event(index=index, time_ns=time_ns, **{**fields, "type": kind}))


def write_evidence(
    store: RunStore,
    sim: Simulation,
    node: str,
    *,
    lost: bool,
    mutant: str | None = None,
    late_flush: bool = False,
) -> None:
    """What one node left: log, quorum-state, final read and trace."""
    records = _log(sim, node)
    end = records[-1].offset + 1
    store.write_evidence(node, LOG_FILE, records)
    store.write_evidence(node, SNAPSHOTS_FILE, [])
    configs = {PREFIX + key: value for key, value in sorted(sim.state.items())}
    if lost:
        key = next(key for key in sorted(sim.acknowledged) if len(sim.acknowledged[key]) > 1)
        configs[PREFIX + key] = sim.acknowledged[key][-2][1]
    store.write_evidence(node, STATE_FILE, [FinalRead(node, end, {}, {"broker:": configs})])
    _write_trace(store, sim, node, records, mutant, late_flush=late_flush)
    store.write_evidence(
        node,
        QUORUM_STATE_FILE,
        [
            {
                "leaderId": 3,
                "leaderEpoch": 4,
                "votedId": 3,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": n} for n in (1, 2, 3)],
                "data_version": 0,
                "logStartOffset": 0,
                "logEndOffset": end,
                "directoryId": directory_of(node),
                "traceBytes": (store.node_path(node) / "trace.jsonl").stat().st_size,
            }
        ],
    )


def _log(sim: Simulation, node: str) -> list[LogRecord]:
    records: list[LogRecord] = []
    pending = list(LEADERS)
    for time_ns, key, value in sim.log:
        while pending and pending[0][0] * sim.scale * SECOND <= time_ns:
            _, leader, epoch = pending.pop(0)
            fields = {"leaderId": int(leader[1:]), "version": 0}
            records.append(_record(node, len(records), epoch, "control:LEADER_CHANGE", fields))
        epoch = records[-1].epoch
        fields = {"resourceType": 4, "resourceName": "", "name": PREFIX + key, "value": value}
        records.append(_record(node, len(records), epoch, "ConfigRecord", fields))
    return records


def _record(node: str, offset: int, epoch: int, kind: str, value: dict[str, Any]) -> LogRecord:
    return LogRecord(node, offset, epoch, zlib.crc32(repr((kind, value)).encode()), kind, value)


def _times(sim: Simulation, records: list[LogRecord]) -> list[int]:
    """When each record was appended; a LeaderChange when its leader begins."""
    begun = {epoch: int(at * sim.scale * SECOND) for at, _, epoch in LEADERS}
    written = iter(time_ns for time_ns, _, _ in sim.log)
    return [
        next(written) if record.kind == "ConfigRecord" else begun[record.epoch]
        for record in records
    ]


def _write_trace(
    store: RunStore,
    sim: Simulation,
    node: str,
    records: list[LogRecord],
    mutant: str | None,
    *,
    late_flush: bool,
) -> None:
    lines: list[dict[str, Any]] = []
    incarnation = 0

    def say(event: str, **fields: Any) -> None:
        lines.append({"t": time_ns, "n": incarnation, "e": event, **fields})

    def begin(end_offset: int, last_epoch: int) -> None:
        start = {"node_id": me, "directory_id": directory_of(node), "mutant": mutant}
        say("start", pid=100 * (incarnation + 1) + me, clock=CLOCK, **start)
        say("recovered", start_offset=0, end_offset=end_offset, last_epoch=last_epoch)
        say("voters", offset=-1, kraft_version=1, voters=voters)

    def append_until(end: int, epoch_max: int, leader: str) -> int:
        """Append the records of epochs up to this one; returns where the log ends."""
        position = held
        while position < end and records[position].epoch <= epoch_max:
            epoch, base = records[position].epoch, position
            while position < end and records[position].epoch == epoch:
                position += 1
            role = "leader" if (leader, epoch) == (node, epoch_max) else "follower"
            say("append", epoch=epoch, base_offset=base, last_offset=position - 1, role=role)
        return position

    me, time_ns, held = int(node[1:]), 0, 0
    voters = {name[1:]: directory_of(name) for name in NODES}
    times = _times(sim, records)
    down_ns = int(10 * sim.scale * SECOND)
    known = claimed = 0
    begin(0, 0)
    grid = {int(at * sim.scale * SECOND): at for at in (0.1, *range(1, 60, 3), *STARTS, 58.1)}
    answered = {time_ns for time_ns, _, _ in sim.answers}
    own_answers: dict[int, list[str]] = defaultdict(list)
    for at_ns, by, answer in sim.answers:
        if by == node:
            own_answers[at_ns].append(answer)
    before = max((at_ns for at_ns in answered if at_ns < down_ns), default=0)
    held_before_the_kill = bisect_right(times, before)
    for time_ns in sorted({*grid, *answered}):
        second = grid.get(time_ns, time_ns / sim.scale / SECOND)
        if sim.killed and node == "n1" and 10 <= second < 16:
            continue
        was_down = sim.killed and node == "n1" and second >= 16 and not incarnation
        if was_down:
            incarnation = 1
            begin(held, records[held - 1].epoch if held else 0)
        if late_flush and LATE_FLUSH_S - 3 < second < LATE_FLUSH_S:
            continue
        _, leader, epoch = max(each for each in LEADERS if each[0] <= second)
        end = bisect_right(times, time_ns)
        end = len(records) if second > 58 else end
        if epoch != known:
            held = append_until(end, epoch - 1, leader)
            known, led = epoch, int(leader[1:])
            if leader == node:
                say("state", state="Candidate", epoch=epoch, leader_id=-1, voted_id=me)
                say("state", state="Leader", epoch=epoch, leader_id=led, voted_id=me)
                starts = sum(record.epoch < epoch for record in records)
                say("epoch-start", epoch=epoch, offset=starts)
            else:
                if not was_down:
                    say("vote", epoch=epoch, candidate_id=led, pre_vote=False, granted=True)
                voted = -1 if was_down else led
                say("state", state="Follower", epoch=epoch, leader_id=led, voted_id=voted)
        held = append_until(end, epoch, leader)
        if late_flush and second == LATE_FLUSH_S:
            say("hw", epoch=epoch, offset=held, role="follower")
            continue
        say("flush", end_offset=held)
        role: dict[str, Any] = {"role": "follower"}
        if leader == node:
            counted = dict.fromkeys(voters, held)
            if 10 <= second < 16:
                counted["1"] = held_before_the_kill
            role = {"role": "leader", "replicas": counted}
        else:
            asked = {"leader_id": int(leader[1:]), "asked_id": int(leader[1:])}
            say("fetch", epoch=epoch, offset=held, durable_end_offset=held, **asked)
        say("hw", epoch=epoch, offset=held, **role)
        if leader == node and claimed != epoch:
            claimed = epoch
            say("claim", epoch=epoch, offset=held - 1)
        for answer in own_answers.get(time_ns, ()):
            place: dict[str, Any] = {"epoch": epoch, "offset": held - 1}
            more = (
                {"high_watermark": held} if answer == "ack" else {"confirmed": True, "query": True}
            )
            say(answer, **place, **more)
    path = store.node_path(node) / "trace.jsonl"
    path.write_bytes(b"".join(seal(json.dumps(line, separators=(",", ":"))) for line in lines))


def directory_of(node: str) -> str:
    return f"d{node}"


def events_from(table: pa.Table) -> list[Event]:
    """The events of a table, in order of their index."""
    return sorted(map(event_of, table.to_pylist()), key=lambda event: event.index)


def operations_from(table: pa.Table) -> list[Operation]:
    """The operations of a table, in order of invocation."""
    found = []
    for row in table.drop_columns(["campaign", "run"]).to_pylist():
        for name in ("process", "input", "output"):
            row[name] = None if row[name] is None else json.loads(row[name])
        found.append(Operation(**{**row, "type": EventType(row["type"])}))
    return sorted(found, key=lambda operation: operation.index)

"""Records: what was acknowledged is in the logs, and what nodes serve is what the logs add up to.

Three witnesses of one run are compared, each of which could be false or altered alike on all nodes:
the journal (what clients were answered), the nodes' logs, and the final reads.

- *Answers and logs.* Every acknowledged operation left a record that only it can have left, in the
  newest of the final logs; and every committed record of a client's key is of an operation that may
  have had an effect: none that was refused, none that nobody asked for. By workload, in `_RULES`:
  values of registers, elements of lists, counts of partitions, names and ids of topics,
  registrations by their epochs, blocks of producer ids.
- *Logs and final reads.* A node's final read shows each cell and topic as the log has it at some
  offset from the sentinel's on (`harness.final_reads`): what a node serves is the replay of the
  committed log (KIP-631). Cells are those of names that begin with `kraftprobe.`.
- *Answers and traces*, of systems that trace their answers: see `checkers.answered`.

Needs: logs that reach back to offset 0, or to a snapshot that is there: of what such a snapshot
holds, the last values are known only, so that operations before it are not judged, and the result
says so. What it cannot see: effects that leave no record; operations of a workload without a rule;
a change alike in journal, logs, traces and final reads. A record of an operation that the journal
of a prefix lacks is a doubt (`checkers.extent`). Complexity: O(records + operations + keys).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from checkers.answered import untraced
from checkers.evidence import FINAL_READS, Evidence, FinalRead, LogRecord
from checkers.evidence_result import Anomaly, evidence_result, without
from checkers.history import NEMESIS, EventType, Operation
from checkers.in_sync import announced_end
from checkers.run_input import Cancelled, RunInput, never
from checkers.snapshots import Image, image_of
from checkers.verdict import CheckResult

NAME = "records"
_CELLS: Final = "kraftprobe."
_LIST: Final = "kraftprobe.list."
_SENTINEL: Final = "kraftprobe.sentinel."
_REGISTER: Final = "kraftprobe.register."
_NAMED: Final = "broker:"
"""Of the configs of a final read, those that hold cells by their names."""
_FIRST_FAKE_BROKER: Final = 2_000
_ABSENT: Final = object()


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Compare journal, logs and final reads; see `checkers.registry` for the options."""
    assert run.evidence is not None, "the registry asks for evidence first"
    evidence, workload = run.evidence, str(options.get("workload"))
    traced = options.get("traced")
    missing = without(evidence, "log", evidence.logs) + _reads_gone(run)
    notes: list[str] = []
    anomalies: list[Anomaly] = []
    doubts: list[Anomaly] = []
    log = _newest(evidence)
    base = None if log is None else _base(evidence, log)
    rule = _RULES.get(workload)
    if log is None or base is None:
        notes.append("no log reaches back to offset 0 or to a snapshot that is there")
    else:
        if rule is None:
            notes.append(f"no rule says what operations of {workload} leave in a log")
        elif log and log[0].offset > 0:
            notes.append(
                "the logs begin behind a snapshot, so operations are not looked for in them"
            )
        else:
            found = list(rule(_Records(log, announced_end(evidence)), run.operations))
            lost = [a for a in found if a["kind"] == "acknowledged-lost"]
            rest = [a for a in found if a["kind"] != "acknowledged-lost"]
            (anomalies if run.extent.finished else doubts).extend(lost)
            (anomalies if run.extent.closed else doubts).extend(rest)
        if not run.extent.outlived and not cancelled():
            anomalies += _final_reads(evidence, log, base, options.get("nodes"))
    answers = None
    if traced is None or {"ack", "read"} <= {*traced}:
        lacking, judged = untraced(run.operations, evidence, workload)
        missing += lacking
        answers = judged
    if not answers:
        notes.append("that answers were traced is not judged: no events, or no clock in common")
    looked_at = 0 if log is None else len(log)
    good = f"{looked_at} records, the answers and {len(evidence.final_reads)} final reads agree"
    if notes:
        good += f"; {'; '.join(notes)}"
    return evidence_result(
        NAME,
        anomalies,
        missing=missing,
        doubts=doubts,
        cancelled=cancelled(),
        exercised=True,
        good=good,
        looked_at=looked_at,
        statistics={"records": looked_at, "not_judged": notes},
    )


def _newest(evidence: Evidence) -> Sequence[LogRecord] | None:
    """Return the log that an election would prefer; of such that which begins earliest.

    The longest log may be that of a leader that was cut off and wrote what was never committed. One
    that ends in the last epoch has what was committed before it (Raft 5.4.1).
    """
    logs = [log for log in evidence.logs.values() if log]
    return min(logs, key=lambda log: (-log[-1].epoch, -log[-1].offset, log[0].offset), default=None)


def _base(evidence: Evidence, log: Sequence[LogRecord]) -> Image | None:
    """Return what is below a log's first record; None where nothing says."""
    for each in evidence.snapshots.values():
        for snapshot in each:
            if snapshot.offset == log[0].offset:
                return image_of(snapshot.records)
    return Image() if log[0].offset == 0 else None


def cell_of(value: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return name and text of the cell that a ConfigRecord sets; None: it is of no cell.

    A cell is a key of the brokers' default, or a resource of its name (`cluster.systems.cells`).
    """
    name, resource, text = value.get("name"), value.get("resourceName"), value.get("value")
    if isinstance(resource, str) and resource.startswith(_CELLS):
        if resource.startswith(_LIST) and isinstance(text, str):
            text = re.sub(r"(\d+):(\d+)", r"w\1.\2", text)
        return resource, text
    if isinstance(name, str) and name.startswith(_CELLS) and not resource:
        return name, text
    return None


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of the newest log, and which of them were announced as committed."""

    log: Sequence[LogRecord]
    committed_end: int
    """The highest offset that was announced as committed."""

    def cells(self, prefix: str) -> Iterator[tuple[str, str, int]]:
        """Yield key, text and offset of each cell that was set."""
        for record in self.log:
            cell = cell_of(record.value) if record.kind == "ConfigRecord" else None
            if cell is not None and cell[0].startswith(prefix) and cell[1] is not None:
                yield cell[0].removeprefix(prefix), cell[1], record.offset

    def of(self, kind: str) -> Iterator[LogRecord]:
        """Yield all records of a kind."""
        return (record for record in self.log if record.kind == kind)


def _lost(operation: Operation, what: str) -> Anomaly:
    return {
        "kind": "acknowledged-lost",
        "explanation": f"operation {operation.index} ({operation.f} of {operation.key!r}) was "
        f"acknowledged by {operation.node or 'the system'}, but {what}",
        "operations": [operation.index],
    }


def _unasked(offset: int, what: str) -> Anomaly:
    return {
        "kind": "unasked-record",
        "explanation": f"the record at offset {offset} {what}",
        "offset": offset,
    }


def _registers(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    writes = [operation for operation in operations if operation.f == "write"]
    possible = {(o.key, o.input) for o in writes if o.type is not EventType.FAIL}
    found = {(key, text) for key, text, _ in records.cells(_REGISTER)}
    for write in writes:
        if write.type is EventType.OK and (write.key, write.input) not in found:
            yield _lost(write, f"the newest log does not hold its value {write.input!r}")
    for key, text, offset in records.cells(_REGISTER):
        if (key, text) not in possible and offset < records.committed_end:
            yield _unasked(offset, f"sets {key!r} to {text!r}, which no write can have done")


def _lists(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    appends = [operation for operation in operations if operation.f == "append"]
    possible = {(o.key, o.input) for o in appends if o.type is not EventType.FAIL}
    held: dict[str, list[str]] = {}
    for key, text, offset in records.cells(_LIST):
        before, held[key] = held.get(key, []), [part for part in text.split(",") if part]
        if offset >= records.committed_end:
            continue
        if held[key][: len(before)] != before:
            yield _unasked(offset, f"does not go on from the list {key!r} before it")
        if len(held[key]) > len(before) + 1:
            yield _unasked(
                offset, f"adds {len(held[key]) - len(before)} elements to {key!r} at once"
            )
        for element in held[key][len(before) :]:
            if (key, element) not in possible:
                yield _unasked(
                    offset, f"adds {element!r} to {key!r}, which no append can have done"
                )
    for append in appends:
        if append.type is EventType.OK and append.input not in held.get(str(append.key), []):
            yield _lost(append, f"the newest log does not hold its element {append.input!r}")


def _counters(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    names = {r.value.get("topicId"): r.value.get("name") for r in records.of("TopicRecord")}
    counts = Counter(names.get(r.value.get("topicId")) for r in records.of("PartitionRecord"))
    done: Counter[str | None] = Counter()
    possible: Counter[str | None] = Counter()
    last: dict[str | None, Operation] = {}
    for operation in operations:
        if operation.f == "increment" and operation.type is not EventType.FAIL:
            possible[operation.key] += 1
            if operation.type is EventType.OK:
                done[operation.key] += 1
                last[operation.key] = operation
    for key, count in sorted(done.items(), key=str):
        if counts[key] - 1 < count:
            yield _lost(
                last[key], f"the logs hold {counts[key]} partitions, not {count + 1} or more"
            )
    for key in sorted(names.values(), key=str):
        if key in possible and counts[key] - 1 > possible[key]:
            yield {
                "kind": "unasked-record",
                "explanation": f"the logs hold {counts[key]} partitions of {key!r}, though only "
                f"{possible[key]} increments can have had an effect",
            }


def _topics(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    made = [o for o in operations if o.f in ("create", "add")]
    held: defaultdict[object, set[object]] = defaultdict(set)
    for record in records.of("TopicRecord"):
        held[record.value.get("name")].add(record.value.get("topicId"))
    for create in made:
        output = create.output.get("id") if isinstance(create.output, dict) else None
        there = held[create.key]
        if create.type is EventType.OK and (not there or output not in {None, *there}):
            yield _lost(
                create, "the newest log does not hold its topic" + (f" {output}" if output else "")
            )
    keys = {o.key for o in operations}
    possible = {o.key for o in made if o.type is not EventType.FAIL}
    for record in records.of("TopicRecord"):
        name = record.value.get("name")
        if name in keys and name not in possible and record.offset < records.committed_end:
            yield _unasked(
                record.offset, f"makes the topic {name!r}, which no create can have done"
            )


def _registrations(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    held = {(r.value.get("brokerId"), r.offset) for r in records.of("RegisterBrokerRecord")}
    for operation in operations:
        output = operation.output
        if operation.f != "register" or operation.type is not EventType.OK:
            continue
        if isinstance(output, dict) and str(operation.key).isdigit():
            broker_id, epoch = _FIRST_FAKE_BROKER + int(str(operation.key)), output.get("epoch")
            if (broker_id, epoch) not in held:
                yield _lost(
                    operation,
                    f"the newest log does not register broker {broker_id} at its epoch {epoch}",
                )


def _blocks(records: _Records, operations: Sequence[Operation]) -> Iterator[Anomaly]:
    ends = {record.value.get("nextProducerId") for record in records.of("ProducerIdsRecord")}
    for operation in operations:
        match operation.output:
            case {"first": int(first), "length": int(length)} | [int(first), int(length)]:
                if operation.type is EventType.OK and first + length not in ends:
                    yield _lost(
                        operation,
                        f"the newest log does not hold the block that ends at {first + length}",
                    )


_Rule = Callable[[_Records, Sequence[Operation]], Iterable[Anomaly]]
_RULES: Final[Mapping[str, _Rule]] = {
    "register": _registers,
    "reconfig": _registers,
    "append": _lists,
    "partitions": _counters,
    "topics": _topics,
    "set": _topics,
    "brokers": _registrations,
    "unique-ids": _blocks,
}


# -- logs and final reads --------------------------------------------------------------------------


def _final_reads(
    evidence: Evidence, log: Sequence[LogRecord], base: Image, nodes: Sequence[str] | None
) -> Iterator[Anomaly]:
    """Compare each final read with the log at some offset from its sentinel on."""
    end_offset = log[-1].offset + 1
    for node, read in sorted(evidence.final_reads.items()):
        if nodes is not None and node not in nodes:
            continue
        if read.high_watermark > end_offset:
            explanation = (
                f"{node} was read at committed offset {read.high_watermark}, but no log reaches "
                f"further than {end_offset}"
            )
            yield {"kind": "read-beyond-logs", "explanation": explanation, "node": node}
    shown = {node: _shown_by(read) for node, read in evidence.final_reads.items()}
    states = _States(log, base)
    for node, served in sorted(shown.items()):
        begin = _sentinel_offset(log, evidence.final_reads[node])
        names = {name for name in served if name[0] != "cell" or not name[1].startswith(_SENTINEL)}
        possible = states.since(begin)
        for name in sorted({*names, *(n for n in possible if n[0] == "topic")}):
            allowed = possible.get(name, [_ABSENT])
            found = served.get(name, _ABSENT)
            if found not in allowed and not (found is _ABSENT and name[1].startswith("__")):
                yield {
                    "kind": "read-differs",
                    "explanation": f"{node} served {name[0]} {name[1]!r} as {_said(found)} in the "
                    f"end, though by the logs it was {_said(allowed[-1])}",
                    "node": node,
                }


def _reads_gone(run: RunInput) -> list[str]:
    """Name the nodes that were read in the end, by the journal, and of which no read is there."""
    assert run.evidence is not None, "the registry asks for evidence first"
    notes = [e.value for e in run.notes if e.process == NEMESIS and e.f == FINAL_READS]
    read = {str(n) for value in notes if isinstance(value, dict) for n in value.get("read") or ()}
    return [f"{node} (final read)" for node in sorted(read - run.evidence.final_reads.keys())]


def _said(state: object) -> str:
    return "not there" if state is _ABSENT else f"{state!r:.80}"


_Name = tuple[str, str]
"""("cell" or "topic", its name)"""


def _shown_by(read: FinalRead) -> dict[_Name, object]:
    cells = {n: v for n, v in read.configs.get(_NAMED, {}).items() if n.startswith(_CELLS)}
    return {("cell", name): value for name, value in cells.items()} | {
        ("topic", name): (topic.get("id"), topic.get("partitions"))
        for name, topic in read.topics.items()
    }


def _sentinel_offset(log: Sequence[LogRecord], read: FinalRead) -> int:
    """Return where the last sentinel stands that a read shows; it had replayed that."""
    cells = read.configs.get(_NAMED, {})
    found = read.high_watermark
    for record in reversed(log):
        cell = cell_of(record.value) if record.kind == "ConfigRecord" else None
        if cell is not None and cell[0].startswith(_SENTINEL) and cell[0] in cells:
            return min(found, record.offset + 1)
    return found


class _States:
    """Which states cells and topics had from an offset on."""

    def __init__(self, log: Sequence[LogRecord], base: Image) -> None:
        self._log = log
        self._base = base
        self._known: dict[int, dict[_Name, list[object]]] = {}

    def since(self, offset: int) -> dict[_Name, list[object]]:
        """Return all states of each name at `offset` and above."""
        if offset not in self._known:
            image = Image()
            image.keys.update(self._base.keys)
            rest = []
            for record in self._log:
                if record.offset < offset:
                    image.add(record.kind, record.value)
                else:
                    rest.append(record)
            found = {name: [state] for name, state in _states_of(image).items()}
            for record in rest:
                image.add(record.kind, record.value)
                if record.kind in _CHANGING:
                    now = _states_of(image)
                    for name in found.keys() | now.keys():
                        found.setdefault(name, [_ABSENT]).append(now.get(name, _ABSENT))
            self._known[offset] = found
        return self._known[offset]


_CHANGING: Final = frozenset(
    {"ConfigRecord", "TopicRecord", "RemoveTopicRecord", "PartitionRecord", "EndTransactionRecord"}
)


def _states_of(image: Image) -> dict[_Name, object]:
    topics = {
        key[1]: str(value.get("name")) for key, value in image.keys.items() if key[0] == "topic"
    }
    counts = Counter(topics.get(key[1]) for key in image.keys if key[0] == "partition")
    found: dict[_Name, object] = {
        ("topic", name): (topic_id, counts[name]) for topic_id, name in topics.items()
    }
    for key, value in image.keys.items():
        cell = cell_of(value) if key[0] == "config" else None
        if cell is not None:
            found["cell", cell[0]] = cell[1]
    return found

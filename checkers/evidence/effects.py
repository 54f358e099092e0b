"""What operations owe the newest log, and it them, as a hash join by key and value.

Every acknowledged operation left a record that only it can have left (`acknowledged-lost`), and
every committed record of a client's key is of an operation that may have had an effect
(`unasked-record`): none that was refused, none that nobody asked for. By workload, in `RULES`:

| workload | a record's effect (key, value) | of the operation |
|---|---|---|
| register, reconfig | the cell's text | write, by its input |
| append | each element that a list has and the one before it had not | append, by its input |
| topics, set | the topic's name, and its id | create and add, by key, and the id of the answer |
| partitions | of a topic, by its id | increment: no fewer than acknowledged, no more than asked |
| brokers | the registration, and its offset | register, by the epoch of the answer |
| unique-ids | the end of a block | allocate, by the answer |

Both sides are numbers by then: a pair of key and value is looked up among the distinct ones, and no
operation becomes an object but those that are reported. Complexity: O(records + operations).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from checkers.evidence import LogRecord, Snapshot
from checkers.history import Operation
from checkers.history.recorded import columns_of
from checkers.verdict import Anomaly, anomaly
from porcupine_py.columns import FAIL, OK, Columns, Int64s

CELLS: Final = "kraftprobe."
_LIST: Final = "kraftprobe.list."
_REGISTER: Final = "kraftprobe.register."
_FIRST_FAKE_BROKER: Final = 2_000
LOST: Final = "acknowledged-lost"
_IN_SNAPSHOT: Final = -1
"""Offset of what is in a snapshot, whose own is forgotten."""

Effect = tuple[str, str | None]
"""Key and value of what a record did."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What records did, in order of their offsets."""

    keys: Sequence[str]
    values: Sequence[str | None]
    offsets: Int64s


@dataclass(frozen=True, slots=True)
class Places:
    """Operations with records that are theirs alone: the offsets of the first and the last."""

    rows: Int64s
    first: Int64s
    last: Int64s


def audit_effects(
    workload: str, log: Sequence[LogRecord], operations: Sequence[Operation], committed_end: int
) -> list[Anomaly]:
    """Compare operations with a whole log.

    `committed_end`: the highest offset that was announced as committed.
    """
    rule = RULES[workload]
    return list(rule.judge(effects_of(rule, log), columns_of(operations), committed_end))


@dataclass(frozen=True, slots=True)
class Rule:
    """What operations of a workload leave in a log."""

    kinds: frozenset[str]
    """Of the records that have an effect."""
    effect: Callable[[LogRecord], Effect | None]
    judge: Callable[[Effects, Columns, int], Iterable[Anomaly]]
    keeps: bool = False
    """Whether the state shows in the end all that was done: then a snapshot has it as well."""
    places: Callable[[Effects, Columns], Places] | None = None
    """Where operations stand in the log; None where an effect is of no operation by its value."""


def audit_behind(
    workload: str,
    base: Snapshot,
    log: Sequence[LogRecord],
    operations: Sequence[Operation],
    committed_end: int,
) -> Iterator[Anomaly]:
    """Compare operations with a log and the snapshot behind which it begins.

    What a snapshot holds was done by somebody; what was done before it may have been done again.
    """
    held = [
        LogRecord(base.node, _IN_SNAPSHOT, base.epoch, 0, kind, dict(value))
        for kind, value in base.records
    ]
    for found in audit_effects(workload, [*held, *log], operations, committed_end):
        if found["kind"] != LOST or RULES[workload].keeps:
            yield found


def effects_of(rule: Rule, records: Iterable[LogRecord]) -> Effects:
    """Return the effects of records, which are in order of offset."""
    found = [
        (*effect, record.offset)
        for record in records
        if record.kind in rule.kinds and (effect := rule.effect(record)) is not None
    ]
    keys, values, offsets = zip(*found, strict=True) if found else ((), (), ())
    return Effects(keys, values, np.array(offsets, np.int64))


def cell_of(value: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return name and text of the cell that a ConfigRecord sets; None: it is of no cell.

    A cell is a key of the brokers' default, or a resource of its name (`cluster.systems.cells`).
    """
    name, resource, text = value.get("name"), value.get("resourceName"), value.get("value")
    if isinstance(resource, str) and resource.startswith(CELLS):
        if resource.startswith(_LIST) and isinstance(text, str):
            text = re.sub(r"(\d+):(\d+)", r"w\1.\2", text)
        return resource, text
    if isinstance(name, str) and name.startswith(CELLS) and not resource:
        return name, text
    return None


# -- what records do -------------------------------------------------------------------------------


def _cell(prefix: str) -> Callable[[LogRecord], Effect | None]:
    def effect(record: LogRecord) -> Effect | None:
        cell = cell_of(record.value)
        if cell is None or not cell[0].startswith(prefix):
            return None
        text = cell[1] if isinstance(cell[1], str | None) else f"{cell[1]!r}, which is no text"
        return cell[0].removeprefix(prefix), text

    return effect


def _topic(record: LogRecord) -> Effect | None:
    name, topic_id = record.value.get("name"), record.value.get("topicId")
    if not isinstance(name, str):
        return None
    return name, topic_id if isinstance(topic_id, str) else None


def _partition(record: LogRecord) -> Effect | None:
    """Return the topic's id, and its name where it is the topic's own record."""
    topic_id, name = record.value.get("topicId"), record.value.get("name")
    if not isinstance(topic_id, str):
        return None
    if record.kind != "TopicRecord":
        return topic_id, None
    return (topic_id, name) if isinstance(name, str) else None


def _registration(record: LogRecord) -> Effect | None:
    return str(record.value.get("brokerId")), None


def _block(record: LogRecord) -> Effect | None:
    return "", str(record.value.get("nextProducerId"))


# -- what is wrong ---------------------------------------------------------------------------------


def _loss(operations: Columns, row: int, what: str) -> Anomaly:
    operation = operations.operation(row)
    explanation = (
        f"operation {operation.index} ({operation.f} of {operation.key!r}) was "
        f"acknowledged by {operation.node or 'the system'}, but {what}"
    )
    return anomaly(LOST, explanation, operation)


def _surplus(offset: int, what: str) -> Anomaly:
    where = "the snapshot" if offset == _IN_SNAPSHOT else f"the record at offset {offset}"
    return anomaly("unasked-record", f"{where} {what}", offset=offset)


class _Pairs:
    """Numbers of pairs of a key and a value: equal where the pairs are; -1 is of no effect."""

    def __init__(self, keys: Iterable[str], values: Iterable[str | None]) -> None:
        self._keys = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self._values = {value: number for number, value in enumerate(dict.fromkeys(values))}

    def of(self, keys: Iterable[str], values: Iterable[str | None]) -> Int64s:
        """Number pairs that are known."""
        width = len(self._values)
        pairs = zip(keys, values, strict=True)
        return np.array([self._keys[k] * width + self._values[v] for k, v in pairs], np.int64)

    def number(self, operations: Columns) -> Int64s:
        """Number the key and the input of each operation."""
        known = (v if isinstance(v, str) else None for v in operations.values)
        keys = np.array([-1 if k is None else self._keys.get(k, -1) for k in operations.keys])
        values = np.array([-1 if v is None else self._values.get(v, -1) for v in known])
        key, value = keys[operations.key], values[operations.input]
        return np.where((key < 0) | (value < 0), -1, key * len(self._values) + value)


def _places_of(done: Int64s, offsets: Int64s, asked: Int64s, rows: Int64s) -> Places:
    """Look up what these rows asked for among what was done, both as numbers; -1: nothing."""
    order = np.argsort(done, kind="stable")  # and so by offset, of one number
    numbers, wanted = done[order], asked[rows]
    begin, end = (np.searchsorted(numbers, wanted, side) for side in ("left", "right"))
    there = (end > begin) & (wanted >= 0)
    first, last = offsets[order[begin[there]]], offsets[order[end[there] - 1]]
    return Places(rows[there], first, last)


def _places_of_writes(effects: Effects, operations: Columns) -> Places:
    pairs = _Pairs(effects.keys, effects.values)
    done, asked = pairs.of(effects.keys, effects.values), pairs.number(operations)
    rows = np.flatnonzero(operations.calls("write") & (operations.type != FAIL))
    return _places_of(done, effects.offsets, asked, rows)


def _registers(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    pairs = _Pairs(effects.keys, effects.values)
    done, asked = pairs.of(effects.keys, effects.values), pairs.number(operations)
    write = operations.calls("write")
    for row in np.flatnonzero(write & (operations.type == OK) & ~np.isin(asked, done)).tolist():
        text = operations.values[operations.input[row]]
        yield _loss(operations, row, f"the newest log does not hold its value {text!r}")
    possible = asked[write & (operations.type != FAIL)]
    unasked = ~np.isin(done, possible) & (effects.offsets < committed_end)
    for at in np.flatnonzero(unasked).tolist():
        what = f"sets {effects.keys[at]!r} to {effects.values[at]!r}, which no write can have done"
        yield _surplus(int(effects.offsets[at]), what)


def _changes_of_lists(effects: Effects) -> Iterator[tuple[str, int, list[str], list[str]]]:
    """Yield of each record its key, its offset, and the list before and after it."""
    held: dict[str, list[str]] = {}
    for key, text, offset in zip(
        effects.keys, effects.values, effects.offsets.tolist(), strict=True
    ):
        before, held[key] = held.get(key, []), elements_of(text)
        yield key, offset, before, held[key]


def elements_of(text: str | None) -> list[str]:
    """Return the elements of a list's text."""
    return [part for part in (text or "").split(",") if part]


def _places_of_appends(effects: Effects, operations: Columns) -> Places:
    """Of a list's first record only the last element: a snapshot may have held the others."""
    added = [
        (key, element, offset)
        for key, offset, before, after in _changes_of_lists(effects)
        for element in (after[len(before) :] if before else after[-1:])
    ]
    keys, elements, offsets = zip(*added, strict=True) if added else ((), (), ())
    pairs = _Pairs(keys, elements)
    done, asked = pairs.of(keys, elements), pairs.number(operations)
    rows = np.flatnonzero(operations.calls("append") & (operations.type != FAIL))
    return _places_of(done, np.array(offsets, np.int64), asked, rows)


def _lists(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    held: dict[str, list[str]] = {}
    wrong: list[Anomaly] = []
    added: list[tuple[str, str, int]] = []
    for key, offset, before, after in _changes_of_lists(effects):
        held[key] = after
        if offset >= committed_end:
            continue
        if after[: len(before)] != before:
            wrong.append(_surplus(offset, f"does not go on from the list {key!r} before it"))
        new = after[len(before) :]
        if len(new) > 1 and offset != _IN_SNAPSHOT:
            wrong.append(_surplus(offset, f"adds {len(new)} elements to {key!r} at once"))
        added += [(key, element, offset) for element in new]
    there = [(key, element) for key, elements in held.items() for element in elements]
    every = [*there, *((key, element) for key, element, _ in added)]
    pairs = _Pairs((key for key, _ in every), (element for _, element in every))
    append, asked = operations.calls("append"), pairs.number(operations)
    numbers = pairs.of((key for key, _ in every), (element for _, element in every))
    possible = np.isin(numbers[len(there) :], asked[append & (operations.type != FAIL)])
    for (key, element, offset), may_be in zip(added, possible.tolist(), strict=True):
        if not may_be:
            what = f"adds {element!r} to {key!r}, which no append can have done"
            wrong.append(_surplus(offset, what))
    yield from sorted(wrong, key=lambda anomaly: int(anomaly["offset"]))
    lost = append & (operations.type == OK) & ~np.isin(asked, numbers[: len(there)])
    for row in np.flatnonzero(lost).tolist():
        element = operations.values[operations.input[row]]
        yield _loss(operations, row, f"the newest log does not hold its element {element!r}")


def _counters(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    del committed_end
    records = list(zip(effects.keys, effects.values, strict=True))
    names = {topic_id: name for topic_id, name in records if name is not None}
    counts = Counter(names.get(topic_id) for topic_id, name in records if name is None)
    increment = operations.calls("increment")
    possible, done = (
        Counter(operations.key[increment & wanted].tolist())
        for wanted in (operations.type != FAIL, operations.type == OK)
    )
    acknowledged = np.flatnonzero(increment & (operations.type == OK))
    last = dict(zip(operations.key[acknowledged].tolist(), acknowledged.tolist(), strict=True))
    for code, count in sorted(done.items(), key=lambda item: repr(operations.keys[item[0]])):
        there = counts[operations.keys[code]]
        if there - 1 < count:
            what = f"the logs hold {there} partitions, not {count + 1} or more"
            yield _loss(operations, last[code], what)
    asked = {operations.keys[code]: count for code, count in possible.items()}
    for key in sorted(names.values()):
        if key in asked and counts[key] - 1 > asked[key]:
            explanation = (
                f"the logs hold {counts[key]} partitions of {key!r}, though only "
                f"{asked[key]} increments can have had an effect"
            )
            yield anomaly("unasked-record", explanation)


def _topics(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    held: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for key, topic_id in zip(effects.keys, effects.values, strict=True):
        held[key].add(topic_id)
    made = operations.calls("create", "add")
    for row in np.flatnonzero(made & (operations.type == OK)).tolist():
        output = operations.values[operations.output[row]]
        topic_id = output.get("id") if isinstance(output, dict) else None
        there = held.get(operations.keys[operations.key[row]])
        if not there or topic_id not in {None, *there}:
            which = f" {topic_id}" if topic_id else ""
            yield _loss(operations, row, f"the newest log does not hold its topic{which}")
    keys, possible = (
        {operations.keys[code] for code in np.unique(operations.key[wanted]).tolist()}
        for wanted in (slice(None), made & (operations.type != FAIL))
    )
    for name, offset in zip(effects.keys, effects.offsets.tolist(), strict=True):
        if name in keys and name not in possible and offset < committed_end:
            yield _surplus(offset, f"makes the topic {name!r}, which no create can have done")


def _places_of_creates(effects: Effects, operations: Columns) -> Places:
    """Of those alone whose answer names the topic."""
    ids = {topic_id: number for number, topic_id in enumerate(dict.fromkeys(effects.values))}
    made = operations.calls("create", "add") & (operations.type == OK)
    outputs = (value.get("id") if isinstance(value, dict) else None for value in operations.values)
    numbers = [-1 if i is None else ids.get(i, -1) for i in outputs]
    asked = np.array(numbers, np.int64)[operations.output]
    done = np.array([-2 if i is None else ids[i] for i in effects.values], np.int64)
    return _places_of(done, effects.offsets, asked, np.flatnonzero(made))


def _registrations(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    del committed_end
    held = set(zip(effects.keys, effects.offsets.tolist(), strict=True))
    register = operations.calls("register") & (operations.type == OK)
    for row in np.flatnonzero(register).tolist():
        key = str(operations.keys[operations.key[row]])
        output = operations.values[operations.output[row]]
        if isinstance(output, dict) and key.isdigit():
            broker_id, epoch = _FIRST_FAKE_BROKER + int(key), output.get("epoch")
            if (str(broker_id), epoch) not in held:
                what = f"the newest log does not register broker {broker_id} at its epoch {epoch}"
                yield _loss(operations, row, what)


def _ends_of_blocks(operations: Columns) -> Iterator[tuple[int, int]]:
    """Yield of each block that was given away the row and the end."""
    for row in np.flatnonzero(operations.type == OK).tolist():
        match operations.values[operations.output[row]]:
            case {"first": int(first), "length": int(length)} | [int(first), int(length)]:
                yield row, first + length


def _places_of_blocks(effects: Effects, operations: Columns) -> Places:
    given = dict(_ends_of_blocks(operations))
    rows = np.array(list(given), np.int64)
    asked = np.full(len(operations), -1, np.int64)
    asked[rows] = list(given.values())
    done = np.array(
        [int(end) if end is not None and end.isdigit() else -2 for end in effects.values], np.int64
    )
    return _places_of(done, effects.offsets, asked, rows)


def _blocks(effects: Effects, operations: Columns, committed_end: int) -> Iterator[Anomaly]:
    del committed_end
    ends = set(effects.values)
    for row, end in _ends_of_blocks(operations):
        if str(end) not in ends:
            yield _loss(
                operations, row, f"the newest log does not hold the block that ends at {end}"
            )


_REGISTERS = Rule(
    frozenset({"ConfigRecord"}), _cell(_REGISTER), _registers, places=_places_of_writes
)
_TOPICS = Rule(frozenset({"TopicRecord"}), _topic, _topics, places=_places_of_creates)
RULES: Final[Mapping[str, Rule]] = {
    "register": _REGISTERS,
    "reconfig": _REGISTERS,
    "append": Rule(
        *(frozenset({"ConfigRecord"}), _cell(_LIST), _lists), keeps=True, places=_places_of_appends
    ),
    "partitions": Rule(
        *(frozenset({"TopicRecord", "PartitionRecord"}), _partition, _counters), keeps=True
    ),
    "topics": _TOPICS,
    "set": replace(_TOPICS, keeps=True),
    "brokers": Rule(frozenset({"RegisterBrokerRecord"}), _registration, _registrations),
    "unique-ids": Rule(frozenset({"ProducerIdsRecord"}), _block, _blocks, places=_places_of_blocks),
}

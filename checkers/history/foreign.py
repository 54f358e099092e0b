"""Histories of other tools: operation maps of Jepsen, Knossos and Elle, as events and operations.

They differ from our journals in what they promise, so they are read by rules of their own:

- **Order** is that of `:index`, where each event has one of its own, else the position in the
  file; never `:time`, which Jepsen reads from clocks that faults step back. Times are for people:
  an event keeps its own where that is above the one before it, else it gets the next nanosecond.
- **Processes** are numbers, or names of clients. `:nemesis` is the nemesis, and so is any other
  name that only ever writes `:info`. After an `:info` a number may come again: the operation
  before it stays open for ever all the same, and what follows is a process of its own.
- **A completion without invocation** (Elle's tests have only completions) may have begun at any
  time since its process completed something before, and is noted; an event without a process is
  alone. Without `:f` it is a transaction, `txn`.
- **`:fail`** means that it did not happen. Whether the refusal shows something of the state, as
  a compare-and-set's may, no format says: by default it does not.
- **An ok write** has the value that was written, or none; with another the history is refused.
- **A read of nil** is Knossos' way to say that nobody knows what was read; by default it shows
  nothing.
- **`#jepsen.independent/tuple`** is a key and a value; where it has no tag only the caller knows.
- **Sends and polls** of jepsen.tests.kafka are operations of logs (`checkers.history.kafka_log`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeGuard

from checkers.history import (
    INFINITY_NS,
    NEMESIS,
    Event,
    EventType,
    HistoryError,
    Operation,
    operation_of,
    seconds,
)
from checkers.history.edn import IndependentTuple, key_text, write
from checkers.history.json_text import render
from checkers.history.kafka_log import is_kafka, log_operations
from porcupine_py.values import freeze, is_list

NO_INDEXES = "indexes are missing, no whole numbers, or given twice: ordered by position"
READS = frozenset({"read", "get", "read-all"})
"""Functions of which nil may mean that nobody knows what was read."""
ASKING = READS | {"dequeue", "acquire", "release"}
"""Functions whose invocations have no value."""

WRITE, CAS = "write", "cas"
"""What replaces the value of a register."""
QUEUED, ADD = "enqueue", "add"
INPUTS = frozenset({WRITE, CAS, ADD, QUEUED})
"""Functions that do something with the value of their invocation, and answer nothing else."""


@dataclass(frozen=True, slots=True)
class History:
    """A history as it was read."""

    events: Sequence[Event]
    operations: Sequence[Operation]
    """Client operations in order of invocation; nemesis events are left out."""
    notes: tuple[str, ...] = ()
    """What a person should know of how it was read, a line each."""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a caller knows of a file; None: what its format means by default."""

    independent: bool = False
    """Values are `[key value]`, tagged or not."""
    refusals: bool | None = None
    """Whether a `fail` may show something of the state: in journals it does."""
    nil_reads: bool | None = None
    """Whether a read of nil saw that there was no value: in journals it did."""


@dataclass(slots=True)
class _Row:
    """An event on its way."""

    fields: Mapping[str, Any]
    position: int
    process: int | str | None
    kind: EventType
    index: int
    time_ns: int = 0


def history_of(
    forms: Iterable[Any], *, independent: bool = False, notes: Sequence[str] = ()
) -> History:
    """Return the history that operation maps are. Raises HistoryError that names the form.

    `notes`: what a person should know of how the forms were read.
    """
    rows = [_row(form, position) for position, form in enumerate(forms)]
    notes = list(notes)
    rows = _sort_rows(rows, notes)
    _time(rows, notes)
    _name_nemeses(rows)
    tagged = independent or any(isinstance(r.fields.get("value"), IndependentTuple) for r in rows)
    events = [_event(row, tuples=tagged, vectors=independent) for row in rows]
    operations = _pair(rows, events, notes)
    _note_skipped(rows, events, notes)
    if any(map(is_kafka, operations)):
        operations = log_operations(operations, notes)
    return History(events, operations, tuple(notes), is_foreign=True)


def _row(form: Any, position: int) -> _Row:
    if isinstance(form, list) and 3 <= len(form) <= 5 and isinstance(form[1], str):
        form = dict(zip(("process", "type", "f", "value", "error"), form, strict=False))
    if not isinstance(form, dict) or "type" not in form:
        place = f"form {position + 1}"
        raise HistoryError(f"{place}: no operation (a map with :type, :process, :f and :value)")
    kind = _TYPES.get(form["type"]) if isinstance(form["type"], str) else None
    if kind is None:
        raise HistoryError(f"form {position + 1}: type is {render(form['type'])}")
    process = form.get("process")
    if isinstance(process, str):
        process = str(process).removeprefix(":")
    elif process is not None and (not is_whole(process) or process < 0):
        problem = f"process is {render(process)}, not a number from 0 on or a name"
        raise HistoryError(f"form {position + 1}: {problem}")
    index = form.get("index")
    return _Row(form, position, process, kind, index if is_whole(index) else -1)


_TYPES = {colon + kind.value: kind for colon in ("", ":") for kind in EventType}


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that a column holds; the last one stands for "never"."""
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and -INFINITY_NS <= value < INFINITY_NS
    )


def _sort_rows(rows: list[_Row], notes: list[str]) -> list[_Row]:
    """Return the rows in the order in which things happened."""
    indexes = [row.index for row in rows]
    if min(indexes, default=0) >= 0 and len(set(indexes)) == len(indexes):
        if any(after < before for before, after in pairwise(indexes)):
            notes.append("events are not in the order of their indexes: ordered by index")
        return sorted(rows, key=lambda row: row.index)
    if any(row.fields.get("index") is not None for row in rows):
        notes.append(NO_INDEXES)
    for row in rows:
        row.index = row.position
    return rows


def _time(rows: Sequence[_Row], notes: list[str]) -> None:
    """Give each event a time above that of the one before it, its own where that is so."""
    back, most_ns, latest_ns = 0, 0, -1
    own_latest_ns = -1
    for row in rows:
        given = row.fields.get("time")
        own_ns = given if is_whole(given) and given >= 0 else -1
        if 0 <= own_ns < own_latest_ns:
            back, most_ns = back + 1, max(most_ns, own_latest_ns - own_ns)
        own_latest_ns = max(own_latest_ns, own_ns)
        latest_ns = row.time_ns = max(own_ns, latest_ns + 1)
    if latest_ns >= INFINITY_NS:
        raise HistoryError("a time that stands for never")
    if back:
        by = seconds(most_ns)
        notes.append(f"times go back {back} times, by up to {by}: ordered by index or position")


def _name_nemeses(rows: Sequence[_Row]) -> None:
    """Call a name that only ever writes `:info` the nemesis; other names are clients.

    So is one that only ever writes `:info` of what other clients do: it crashed, no more.
    """
    named: dict[int | str | None, list[_Row]] = {}
    for row in rows:
        if isinstance(row.process, str):
            named.setdefault(row.process, []).append(row)
    informers = {n for n, own in named.items() if all(r.kind is EventType.INFO for r in own)}
    done = {_name(row) for row in rows if row.process not in informers}
    nemeses = {n for n in informers if n == NEMESIS or not done & set(map(_name, named[n]))}
    for row in rows:
        if row.process in nemeses:
            row.process = NEMESIS


def _event(row: _Row, *, tuples: bool, vectors: bool) -> Event:
    fields = row.fields
    value, key = fields.get("value"), fields.get("key")
    process = NEMESIS if row.process is None else row.process
    try:
        if tuples and row.process != NEMESIS and value is not None:
            pair = vectors and isinstance(value, list) and len(value) == 2
            if isinstance(value, IndependentTuple) or pair:
                key, value = value
            elif vectors:
                raise HistoryError(f"no [key value] but {render(value)}")  # noqa: TRY301  (the handler below adds the form)
        return Event(
            index=row.index,
            time_ns=row.time_ns,
            process=process,
            type=row.kind,
            f=_function(fields),
            key=None if key is None else key_text(key),
            value=value,
            error=_text(fields.get("error")),
            node=_text(fields.get("node")),
            offset=fields["offset"] if is_whole(fields.get("offset")) else None,
            epoch=fields["epoch"] if is_whole(fields.get("epoch")) else None,
        )
    except HistoryError as error:
        raise HistoryError(f"form {row.position + 1}: {error}") from error


def _name(row: _Row) -> str:
    return str(row.fields.get("f", "txn")).removeprefix(":")


def _function(fields: Mapping[str, Any]) -> str:
    f = fields.get("f", "txn")
    if not isinstance(f, str):
        raise HistoryError(f"f is {render(f)}, not a name")
    return str(f).removeprefix(":")


def _text(value: Any) -> str | None:
    return None if value is None else str(value) if isinstance(value, str) else write(value)


def _pair(rows: Sequence[_Row], events: Sequence[Event], notes: list[str]) -> list[Operation]:
    """Pair invocations with completions, in order of invocation."""
    pairs = _Pairs(max((r.process for r in rows if isinstance(r.process, int)), default=-1) + 1)
    for row, event in zip(rows, events, strict=True):
        if row.process is None:
            pairs.take_alone(event)
        elif event.process == NEMESIS:
            continue
        elif event.type is EventType.INVOKE:
            pairs.begin(event)
        else:
            pairs.end(event)
    if pairs.lonely:
        count = f"{pairs.lonely} completions without an invocation"
        notes.append(f"{count} might have begun whenever their processes did nothing else")
    return pairs.all()


class _Pairs:
    """Operations that are open, and those that are done."""

    def __init__(self, unused: int) -> None:
        self._unused = unused
        """A process number that the history does not have, and none of those above."""
        self._open: dict[int | str, Event] = {}
        self._renamed: dict[int | str, int] = {}
        """Processes that came again after they had ended in `:info`."""
        self._ended_ns: dict[int | str, int] = {}
        """When each process completed something last: it does one thing after another."""
        self._operations: list[Operation] = []
        self.lonely = 0
        """Completions of which there is no invocation."""

    def _number(self) -> int:
        if self._unused >= INFINITY_NS:
            raise HistoryError("processes go on after `info`, and no number above theirs is left")
        self._unused += 1
        return self._unused - 1

    def take_alone(self, event: Event) -> None:
        """Take an event without a process: nothing is known of an invocation."""
        if event.type is not EventType.INVOKE:
            self._take_lonely(replace(event, process=self._number()), 0)

    def begin(self, event: Event) -> None:
        process = event.process
        if process in self._open:
            raise HistoryError(
                f"event {event.index}: process {process!r} invokes while its operation "
                f"{self._open[process].f!r} is open"
            )
        if process in self._renamed:
            event = replace(event, process=self._renamed[process])
        self._open[process] = event

    def end(self, event: Event) -> None:
        process = event.process
        invocation = self._open.pop(process, None)
        if invocation is None:
            since_ns = self._ended_ns.get(process, -1) + 1
            self._take_lonely(replace(event, process=self._renamed.get(process, process)), since_ns)
        elif event.f != invocation.f or event.key not in (None, invocation.key):
            raise HistoryError(
                f"event {event.index}: process {process!r} completes {event.f!r} of "
                f"{event.key!r}, not what it invoked"
            )
        else:
            self._operations.append(operation_of(invocation, event))
        if event.type is EventType.INFO:
            self._renamed[process] = self._number()
        self._ended_ns[process] = event.time_ns

    def _take_lonely(self, completion: Event, since_ns: int) -> None:
        """Take an operation of which only the completion is there: it may have begun before."""
        self.lonely += 1
        begun = replace(completion, type=EventType.INVOKE, time_ns=since_ns)
        self._operations.append(operation_of(begun, completion))

    def all(self) -> list[Operation]:
        """Return the operations; those that are still open are indeterminate."""
        found = [*self._operations, *(operation_of(o, None) for o in self._open.values())]
        return sorted(found, key=lambda operation: (operation.invoke_ns, operation.index))


def _note_skipped(rows: Sequence[_Row], events: Sequence[Event], notes: list[str]) -> None:
    """Say it where the nemesis does what clients do, and what has no process."""
    lonely = sum(row.process is None and row.kind is EventType.INVOKE for row in rows)
    if lonely:
        notes.append(f"{lonely} invocations without a process are not judged")
    clients = {e.f for r, e in zip(rows, events, strict=True) if r.process != NEMESIS}
    faults = [e for r, e in zip(rows, events, strict=True) if r.process == NEMESIS]
    alike = Counter(event.f for event in faults if event.f in clients)
    if alike:
        names = ", ".join(f"{count} {f}" for f, count in sorted(alike.items()))
        notes.append(
            f"operations of the process nemesis are not judged, though clients do: {names}"
        )


def shows_nothing(reading: Reading, *, is_foreign: bool) -> tuple[bool, bool]:
    """Return whether failed operations, and reads of nil, show nothing in such a history."""
    by_format = not is_foreign
    refusals = by_format if reading.refusals is None else reading.refusals
    nil_reads = by_format if reading.nil_reads is None else reading.nil_reads
    return not refusals, not nil_reads


def refuse_pairs(asked: Iterable[Any], got: Iterable[Any], written: Iterable[Any]) -> None:
    """Raise HistoryError where values are pairs that a model would take for single values.

    `asked`: what invocations without a value hold, and `got`, what reads returned; `written`: what
    writes of registers hold. Where nothing is asked for, `[7 nil]` is a key and a value to come,
    and `[nil nil]` a version and a value to come (jepsen.etcd). Where reads have plain invocations
    it is a version if all of them show pairs of a number and of what was written by itself.
    """
    for value in asked:
        if isinstance(value, list) and len(value) == 2 and value[1] is None:
            if value[0] is None:
                raise HistoryError(_VERSIONS)
            raise HistoryError(
                f"an invocation has {render(value)}: if values are [key value], give --independent"
            )
    frozen = set(map(freeze, written))
    pairs = [value for value in got if value is not None]
    if frozen and pairs and all(map(_is_versioned, pairs)):
        if {freeze(value) for _, value in pairs} <= frozen | {None}:
            raise HistoryError(_VERSIONS)


def refuse_other_answer(f: str, asked: Any, got: Any) -> None:
    """Raise HistoryError where an ok answer leaves open what was done.

    A write was answered with another value, a compare-and-set with `false` or another pair, or what
    went in is not in the invocation. A queue of nothing comes out as an empty one.
    """
    is_nothing = asked is None and (f == QUEUED or (f == ADD and got is not None))
    if is_nothing:
        raise HistoryError(f"{f} of nothing: its invocation needs the value that goes in")
    if got is None or freeze(got) == freeze(asked):
        return
    has = ""
    if f == WRITE:
        has = "the value that was written"
    elif f == CAS and (got is False or (is_list(got) and len(got) == 2)):
        has = "the pair that it was asked for"
    if has:
        what = f"a {f} of {render(asked)} was answered with {render(got)}"
        raise HistoryError(f"{what}: an ok {f} has {has}, or none")


_VERSIONS = (
    "values are [version value], as jepsen.etcd has them, and no model here knows versions: "
    "give values alone"
)


def _is_versioned(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) is int


def left_out(failed: int, unknown: int) -> list[str]:
    """Say what was left out."""
    notes = []
    if failed:
        notes.append(f"{failed} failed operations count as never done, and show nothing")
    if unknown:
        notes.append(f"{unknown} reads of nil count as unknown, not as reads of no value")
    return notes

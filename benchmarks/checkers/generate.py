"""Histories that are right by construction, or wrong in one place.

A simulated register does one operation at a time, each at a random moment between its invocation
and its completion; `c` clients invoke one operation after another. An indeterminate operation took
effect within the duration it would have had, or never; its client goes on under a new process
number. A wrong history has one read changed so that no order can explain it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.history import INFINITY_NS, EventType, Operation
from porcupine_py.columns import FAIL, INFO, NO_PAIR, OK, Columns, from_operations

READ, WRITE, CAS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Shape:
    """What a history looks like; `name` is how the table calls it."""

    kind: str
    """r: read/write, c: read/write/cas, kv: get/put/append."""
    clients: int
    operations: int
    values: int | None
    """How many values are written over and over; None: every value once."""
    keys: int = 1
    indeterminate: int = 0
    """Percent."""
    bad: bool = False
    seed: int = 7

    @property
    def name(self) -> str:
        size = self.operations
        size_name = f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k"
        values = "u" if self.values is None else f"d{self.values}"
        parts = [self.kind, f"c{self.clients}", size_name]
        parts += [values if self.keys == 1 else f"{values}k{self.keys}"]
        parts += [f"i{self.indeterminate}"] if self.indeterminate else []
        return "_".join(parts + ["bad"] * self.bad)

    @property
    def model(self) -> str:
        return {"r": "register", "c": "cas-register", "kv": "kv"}[self.kind]


def generate(shape: Shape) -> Columns:
    rng = np.random.default_rng(shape.seed)
    return _strings(shape, rng) if shape.kind == "kv" else _registers(shape, rng)


def intervals(shape, rng):
    """(client, invoke, point, complete), in order of invocation; all times distinct per client."""
    each = -(-shape.operations // shape.clients)
    gaps = rng.integers(1, 1_000, (shape.clients, each))
    lengths = rng.integers(100, 10_000, (shape.clients, each))
    begin = (
        np.cumsum(gaps + lengths, axis=1) - lengths + rng.integers(0, 10_000, (shape.clients, 1))
    )
    client = np.repeat(np.arange(shape.clients), each)
    begin, lengths = begin.ravel(), lengths.ravel()
    order = np.argsort(begin, kind="stable")[: shape.operations]
    begin, lengths, client = begin[order], lengths[order], client[order]
    point = begin + (rng.random(len(begin)) * lengths).astype(np.int64)
    return client, begin, point, begin + lengths


def _registers(shape, rng):
    client, begin, point, end = intervals(shape, rng)
    n = len(begin)
    key = rng.integers(0, shape.keys, n).astype(np.int32)
    f = rng.integers(0, 2 if shape.kind == "r" else 3, n).astype(np.int16)
    made = np.arange(n) if shape.values is None else rng.integers(0, shape.values, n)
    info = (rng.random(n) < shape.indeterminate / 100) & (f != READ)
    lost = info & (rng.random(n) < 0.5)
    expected = np.zeros(n, np.int64) if shape.values is None else rng.integers(0, shape.values, n)
    hit = (rng.random(n) < 0.5) & (shape.values is None)
    seen, expected, done = _run(
        np.lexsort((point, key)), key, f, made, expected, hit, lost, shape.values is None
    )
    kind = np.full(n, OK, np.int8)
    kind[(f == CAS) & ~done] = FAIL
    kind[info] = INFO
    if shape.bad:
        _spoil(f, kind, key, made, seen, begin, end)
    complete = np.where(info, INFINITY_NS, end)
    return Columns(
        index=2 * np.arange(n, dtype=np.int64),
        process=_processes(client, info, shape.clients),
        type=kind,
        f=f,
        key=key,
        input=np.where(f == READ, 0, made + 1).astype(np.int32),
        expected=np.where(f == CAS, expected + 1, NO_PAIR).astype(np.int32),
        output=np.where((kind == OK) & (f == READ), seen + 1, 0).astype(np.int32),
        error=np.zeros(n, np.int32),
        invoke_ns=begin.astype(np.int64),
        complete_ns=complete.astype(np.int64),
        functions=("read", "write", "cas"),
        keys=tuple(f"k{i}" for i in range(shape.keys)) if shape.keys > 1 else (None,),
        values=(None, *range(n + 8)),
    )


def _run(order, key, f, made, expected, hit, lost, unique):
    """Apply in order of the points: what each read saw, what each cas compared with, whether it
    was done. A cas of one of a few values compares with any of them, as Jepsen's does; one of
    values that are all different, with what is there in half of the cases."""
    columns = [column.tolist() for column in (key, f, made, expected, hit, lost)]
    seen, done = [-1] * len(order), [False] * len(order)
    _apply(order.tolist(), *columns, unique, seen, done)
    return np.array(seen), np.array(columns[3]), np.array(done)


def _apply(order, key, f, made, expected, hit, lost, unique, seen, done):
    state, older, at = -1, -1, -1
    for i in order:
        if key[i] != at:
            state, older, at = -1, -1, key[i]
        if f[i] == READ:
            seen[i] = state
            continue
        before = state
        if f[i] == CAS:
            if hit[i]:
                expected[i] = state
            elif unique:
                expected[i] = older
            if state != expected[i]:
                continue
            done[i] = True
        if not lost[i]:
            state, older = made[i], before


def _processes(client, info, clients):
    """A client has a new process number after each of its indeterminate operations."""
    order = np.argsort(client, kind="stable")
    met = np.cumsum(info[order])
    first = np.searchsorted(client[order], np.arange(clients))
    before = met - info[order] - (met - info[order])[np.minimum(first, len(met) - 1)][client[order]]
    process = np.empty(len(client), np.int64)
    process[order] = client[order] + clients * before
    return process


def _spoil(f, kind, key, made, seen, begin, end):
    """Change one read late in the history to a value that had surely been overwritten."""
    n = len(f)
    for i in range(int(0.9 * n), n):
        if f[i] != READ or kind[i] != OK:
            continue
        mine = np.flatnonzero((key == key[i]) & (f != READ) & (kind != FAIL))
        overwriters = mine[(end[mine] < begin[i]) & (kind[mine] == OK) & (f[mine] == WRITE)]
        if not len(overwriters):
            continue
        last = overwriters[np.argmax(begin[overwriters])]
        stale = (end[mine] < begin[last]) & (kind[mine] == OK)
        later = ~stale & (begin[mine] <= end[i])
        free = np.setdiff1d(made[mine[stale]][-50:], made[mine[later]])
        if len(free):
            seen[i] = free[-1]
            return
    reads = np.flatnonzero((f == READ) & (kind == OK))
    seen[reads[int(0.9 * len(reads))]] = n + 5  # never written at all


def _strings(shape, rng):
    client, begin, point, end = intervals(shape, rng)
    n = len(begin)
    key = rng.integers(0, shape.keys, n)
    f = rng.choice(["get", "append", "put"], n, p=[0.5, 0.45, 0.05]).tolist()
    info = (rng.random(n) < shape.indeterminate / 100) & np.array([name != "get" for name in f])
    lost = info & (rng.random(n) < 0.5)
    process = _processes(client, info, shape.clients).tolist()
    states = {}
    values = [""] * n
    for i in np.argsort(point, kind="stable").tolist():
        state = states.get(key[i], "")
        values[i] = state if f[i] == "get" else f"x {process[i]} {i} y"
        if f[i] != "get" and not lost[i]:
            states[key[i]] = values[i] if f[i] == "put" else state + values[i]
    if shape.bad:
        i = next(i for i in range(int(0.9 * n), n) if f[i] == "get" and values[i].count("y") > 2)
        values[i] = values[i][: values[i].rindex("x")] + "x 0 0 y"
    operations = [
        Operation(
            index=2 * i,
            process=process[i],
            f=f[i],
            key=f"k{key[i]}",
            input=None if f[i] == "get" else values[i],
            output=values[i] if f[i] == "get" else None,
            type=EventType.INFO if info[i] else EventType.OK,
            invoke_ns=int(begin[i]),
            complete_ns=INFINITY_NS if info[i] else int(end[i]),
        )
        for i in range(n)
    ]
    return from_operations(operations)

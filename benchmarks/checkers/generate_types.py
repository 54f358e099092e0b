"""Right histories of collections, counters, ids and logs, for the exponents of growth.

As in `benchmarks.checkers.generate`: each operation takes effect at a random moment between its
invocation and its completion. Values are unique. What reads show of sets and lists is as long as
the history, so few operations read those; of a log each read shows the record before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from benchmarks.checkers.generate import intervals
from porcupine_py.columns import NO_PAIR, OK, Columns
from porcupine_py.search.rules.log import LogColumns

FUNCTIONS = {
    "queue": ("enqueue", "dequeue"),
    "counter": ("add", "read"),
    "set": ("add", "read"),
    "list-append": ("append", "read"),
    "log": ("append", "read"),
    "unique-ids": ("generate",),
}
READS = 10
"""Of a set or a list, at any length."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a history looks like; `name` is how the table calls it."""

    model: str
    operations: int
    clients: int = 100
    seed: int = 7

    @property
    def name(self) -> str:
        size = self.operations
        size_name = f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k"
        return f"{self.model}_c{self.clients}_{size_name}"


def generate_typed(shape: Typed) -> Columns | LogColumns:
    rng = np.random.default_rng(shape.seed)
    client, begin, point, end = intervals(shape, rng)
    n = len(begin)
    order = np.argsort(point, kind="stable")
    if shape.model == "log":
        return _log(rng, begin, end, order)
    reading = rng.random(n) < 0.5
    if shape.model in ("set", "list-append"):
        reading[:] = False
        reading[rng.choice(n, READS, replace=False)] = True
    values, output = [None, *range(n)], np.zeros(n, np.int64)
    inputs = np.where(reading, 0, np.arange(n) + 1)
    f = reading.astype(np.int16)
    if shape.model == "unique-ids":
        f[:], inputs[:] = 0, 0
        output[order] = np.arange(n) + 1
    elif shape.model == "counter":
        inputs = np.where(reading, 0, 2)  # the code of the number 1
        output[order] = np.where(reading[order], np.cumsum(~reading[order]) + 1, 0)
    elif shape.model == "queue":
        shown = [0] * n
        _run(order.tolist(), reading.tolist(), shown)
        output[:] = shown
    else:
        added = np.cumsum(~reading[order])
        sequence = order[~reading[order]]
        for place in np.flatnonzero(reading[order]).tolist():
            shown = sequence[: added[place]].copy()
            if shape.model == "set":
                shown.sort()
            output[order[place]] = len(values)
            values.append(shown.tolist())
    return Columns(
        index=2 * np.arange(n, dtype=np.int64),
        process=client.astype(np.int64),
        type=np.full(n, OK, np.int8),
        f=f,
        key=np.zeros(n, np.int32),
        input=inputs.astype(np.int32),
        expected=np.full(n, NO_PAIR, np.int32),
        output=output.astype(np.int32),
        error=np.zeros(n, np.int32),
        invoke_ns=begin.astype(np.int64),
        complete_ns=end.astype(np.int64),
        functions=FUNCTIONS[shape.model],
        keys=(None,),
        values=values,
    )


def _run(order, removing, output):
    """Put in and take out in order; output: the code of what came out, 0 for nothing."""
    values = deque()
    for i in order:
        if not removing[i]:
            values.append(i + 1)
        elif values:
            output[i] = values.popleft()


def _log(rng, begin, end, order):
    """Half appends, half reads of the one record that is there last."""
    n = len(begin)
    append = rng.random(n) < 0.5
    append[order[0]] = True
    rows, reads = np.flatnonzero(append), np.flatnonzero(~append)
    placed = np.cumsum(append[order])  # records there, in order of effect
    there = np.empty(n, np.int64)
    there[order] = placed
    offset = there[rows] - 1
    last = there[reads] - 1
    at = np.empty(len(rows), np.int64)
    at[offset] = np.arange(len(rows))
    return LogColumns(
        offset=offset,
        append_invoke=begin[rows],
        append_complete=end[rows],
        read_from=last,
        read_invoke=begin[reads],
        read_complete=end[reads],
        read_all=rng.random(len(reads)) < 0.5,
        first_record=np.arange(len(reads) + 1, dtype=np.int64),
        shown_offset=last,
        shown_value=at[last],
    )

"""What the chart draws of a whole run, computed from its operations: percentiles, throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from checkers.history import Event, EventType, Operation
from checkers.history.recorded import columns_of, ended_ns
from porcupine_py.columns import KINDS, OK

_NS = 1e9
Floats = npt.NDArray[np.float64]


def percentiles(operations: Sequence[Operation], duration_ns: int) -> Floats:
    """Return p50 and p99 in ms, by time of invocation, of ok operations in each bucket.

    NaN where it has none.
    """
    columns = columns_of(operations)
    done = columns.type == OK
    width_s = bucket_s(duration_ns)
    invoked = columns.invoke_ns[done] / _NS
    took = (columns.complete_ns[done] - columns.invoke_ns[done]) / 1e6
    buckets = (invoked // width_s).astype(int)
    order = np.argsort(buckets, kind="stable")
    names, starts = np.unique(buckets[order], return_index=True)
    count = int(duration_ns / _NS // width_s) + 1
    figures: Floats = np.full((2, count), np.nan)
    for name, part in zip(names, np.split(took[order], starts[1:]), strict=False):
        figures[:, name] = np.percentile(part, (50, 99))
    return figures


def throughput(
    operations: Sequence[Operation], events: Sequence[Event], duration_ns: int
) -> Mapping[EventType, Floats]:
    """Return the completions a second, by type, in each bucket."""
    width_s = bucket_s(duration_ns)
    count = int(duration_ns / _NS // width_s) + 1
    edges = np.arange(count + 1) * width_s
    rate = {}
    columns = columns_of(operations)
    end_ns = ended_ns(operations, events)
    for code, kind in enumerate(KINDS):
        ends = end_ns[(columns.type == code) & (end_ns >= 0)] / _NS
        rate[kind] = np.histogram(ends, edges)[0] / width_s
    return rate


def bucket_s(duration_ns: int) -> float:
    """Return a width that cuts the run into at most 120 buckets: 0.5, 1, 2, 5, 10, 20, ... s."""
    width, steps = 0.5, (2.0, 2.0, 2.5)
    turn = 0
    while duration_ns / _NS / width > 120:
        width *= steps[turn % 3]
        turn += 1
    return width

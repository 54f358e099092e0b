"""`python -m benchmarks.checkers.partitions`: the check `log` on right histories of growing size.

Half sends, half polls that show about as many records as were sent; one read of the whole of each
partition at the end. Times are processor times, medians of three: `gather` makes columns of
operation objects, `judge` is what the rules take on them. Beside them, on one partition: the rule
`log-order` of `linearizable`, which knows no loss, copies or consumers, from the same objects.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from checkers import Status
from checkers.history import EventType, Operation
from checkers.linearizability import linearizable
from checkers.partition_logs import check
from checkers.partition_logs.columns import log_of
from checkers.partition_logs.facts import Facts, Promise
from checkers.partition_logs.rules import anomalies
from checkers.run_input import RunInput
from porcupine_py.models import model_named

SIZES = (10**4, 10**5, 10**6)
CLIENTS = 100
POLLED = 2
"""Records of one poll, at most."""
REPEATS = 3
BASELINE_MAX = 10**5
"""Operations that `log-order` is given; its orders are replayed record by record."""


def history(operations: int, partitions: int, seed: int = 7) -> list[Operation]:
    """Make a right history: each client waits for its answer, each consumer tails one partition."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, partitions, operations).tolist()
    logs: list[list[str]] = [[] for _ in range(partitions)]
    positions = [0] * CLIENTS
    made = []
    for index in range(operations):
        client, begin = index % CLIENTS, 1000 * index
        if client % 2 == 0:
            place, value = chosen[index], f"w{client}.{index}"
            fields = {"f": "send", "input": value, "output": value, "offset": len(logs[place])}
            logs[place].append(value)
        else:
            place, at = client // 2 % partitions, positions[client]
            end = min(len(logs[place]), at + POLLED)
            answer = _answer(logs[place], at, end)
            positions[client] = end
            fields = {"f": "poll", "input": at, "output": answer}
        made.append(_operation(index, client, place, begin, begin + 90_000, fields))
    for place in range(partitions):
        begin = 1000 * operations + 100_000
        answer = _answer(logs[place], 0, len(logs[place]))
        fields = {"f": "poll-all", "input": None, "output": answer}
        made.append(
            _operation(operations + place, CLIENTS + place, place, begin, begin + 1, fields)
        )
    return made


def _answer(log: list[str], begin: int, end: int) -> dict[str, Any]:
    records = [[offset, log[offset]] for offset in range(begin, end)]
    return {"records": records, "high_watermark": len(log), "log_start": 0}


def _operation(
    index: int, client: int, place: int, begin: int, end: int, fields: dict[str, Any]
) -> Operation:
    named = {
        "index": index,
        "process": client,
        "key": f"t0-{place}",
        "type": EventType.OK,
        "epoch": 1,
    }
    return Operation(invoke_ns=begin, complete_ns=end, node="n1", **named, **fields)


def as_log(operations: list[Operation]) -> list[Operation]:
    """Return the same for the model `log` of `linearizable`."""
    names = {"send": "append", "poll": "read", "poll-all": "read-all"}
    return [
        replace(o, f=names[o.f], output=o.offset if o.f == "send" else o.output["records"])
        for o in operations
    ]


def timed(work: Callable[..., object], *given: object) -> float:
    """Return the median of the processor times, in ms."""
    times = []
    for _ in range(REPEATS):
        gc.collect()
        begun = time.process_time()
        work(*given)
        times.append(1e3 * (time.process_time() - begun))
    return median(times)


def rules(log: Any) -> int:
    return sum(len(found) for found, _ in anomalies(Facts(log, Promise())))


def main() -> None:
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| operations | partitions | records read | gather | judge | whole check | log-order |")
    print("|---" * 7 + "|")
    totals = []
    for size, partitions in [*((size, 1) for size in SIZES), (SIZES[-1], 100)]:
        operations = history(size, partitions)
        run = RunInput((), operations)
        result = check(run, {})
        assert result.status is Status.PASS, result.summary
        log = log_of(operations)
        assert rules(log) == 0
        gather, judge = timed(log_of, operations), timed(rules, log)
        total = timed(check, run, {})
        line = f"| {size} | {partitions} | {len(log.shown_offset)} | {gather:.0f} ms "
        line += f"| {judge:.0f} ms | {total:.0f} ms |"
        if partitions == 1:
            totals.append(total)
            line += f" {_baseline(operations, total)} |" if size <= BASELINE_MAX else " |"
        print(line, flush=True)
    exponent = math.log10(totals[-1] / totals[0]) / math.log10(SIZES[-1] / SIZES[0])
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\nexponent {exponent:.2f}; peak {peak_mb} MB, the histories included")


def _baseline(operations: list[Operation], total: float) -> str:
    same = as_log(operations)
    model = model_named("log")
    assert linearizable.judge(same, model, algorithm="log-order").status is Status.PASS
    base = timed(partial(linearizable.judge, same, model, algorithm="log-order"))
    return f"{base:.0f} ms, {base / total:.1f} times ours"


if __name__ == "__main__":
    main()

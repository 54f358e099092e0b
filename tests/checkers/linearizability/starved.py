"""The compiled library where memory runs out at any of its allocations.

    python -m tests.checkers.linearizability.starved LIBRARY

The library was built with `failing.h`. Each case is run with room for 0, 1, 2, ... allocations until
all succeed: what comes out is its true verdict or UNKNOWN (where no search is meant, a MemoryError as
well), and everything was freed.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from ctypes import c_int64
from functools import partial
from pathlib import Path
from random import Random

from checkers.history import Operation
from checkers.linearizability.columnar import judge_columns
from porcupine_py import kernels
from porcupine_py.columns import from_operations
from porcupine_py.models import model_named
from porcupine_py.search.encoding import encode
from porcupine_py.search.outcome import Budget
from porcupine_py.search.race import race
from tests.checkers.histories import INFO, op, read, write

ALLOCATIONS_MAX = 1000


def beside(count: int, shown: int) -> list[Operation]:
    """Writes of 0 to 4, all at the same time, every ninth indeterminate, and reads behind them."""
    writes = [
        op(i, "write", (0, None if i % 9 == 8 else 10), input=i % 5, type=INFO)
        if i % 9 == 8
        else write(i, i % 5, 0, 10)
        for i in range(count)
    ]
    return [*writes, read(count, shown, 5, 20), read(count + 1, shown, 30, 40)]


def compare_and_sets(shown: int) -> list[Operation]:
    """Compare-and-sets, all at the same time, of few values: tables and pools have to grow."""
    rnd = Random(5)
    cas = [
        op(i, "cas", (10, None), input=[rnd.randrange(4), rnd.randrange(4)], type=INFO)
        if i % 5 == 0
        else op(i, "cas", (10, 100 + i), input=[i % 4, (i + 1) % 4])
        for i in range(1, 21)
    ]
    return [write(0, 1, 0, 1), *cas, read(99, shown, 10, 1000)]


def lost(shown: int) -> list[Operation]:
    """Indeterminate compare-and-sets that differ, beside writes: a frontier becomes wide."""
    rnd = Random(7)
    cas = [
        op(i, "cas", (10, None), input=[rnd.randrange(8), rnd.randrange(8)], type=INFO)
        for i in range(1, 19)
    ]
    writes = [write(50 + i, i, 12 + i, 300 + i) for i in range(8)]
    return [write(0, 0, 0, 1), *cas, *writes, read(99, shown, 10, 400)]


def searched(operations: list[Operation], model: str, algorithms: tuple[str, ...]) -> str:
    """Return the verdict of some searches."""
    columns, known = from_operations(operations), kernels.load()
    assert known is not None
    encoded = encode(columns, model_named(model))
    return race(known, encoded, [encoded.initial], Budget(5.0, 1 << 28), algorithms).status


def in_columns(operations: list[Operation], model: str) -> str:
    """Return the verdict on all keys, the worst."""
    found = {r.status for r in judge_columns(from_operations(operations), model_named(model))}
    return next(status for status in ("FAIL", "UNKNOWN", "PASS") if status in found)


def moved(count: int) -> list[Operation]:
    """Values go into a queue, three at a time, and come out, in a right order."""
    first = [op(i, "enqueue", (10 * i, 10 * i + 25), input=i) for i in range(count)]
    begin = 10 * count + 100
    return first + [
        op(count + k, "dequeue", (begin + 10 * k, begin + 10 * k + 5), output=k)
        for k in range(count)
    ]


def keys(count: int) -> list[Operation]:
    """Values that repeat, for many keys."""
    return [
        o
        for k in range(count)
        for o in (
            write(10 * k, 1, 0, 9, key=f"k{k}"),
            write(10 * k + 1, 1, 0, 9, key=f"k{k}"),
            read(10 * k + 2, 1, 3, 12, key=f"k{k}"),
        )
    ]


def counted(count: int) -> list[Operation]:
    """Additions and reads in turns."""
    return [
        op(i, "add", (10 * i, 10 * i + 5), input=1)
        if i % 2 == 0
        else op(i, "read", (10 * i, 10 * i + 5), output=i // 2 + 1)
        for i in range(count)
    ]


def cases() -> Iterator[tuple[str, partial[str], str]]:
    """Every case: its name, what judges it, the truth."""
    for names in (("wgl",), ("frontier",), ("wgl", "frontier")):
        by = " and ".join(names)
        for shown, truth in ((1, "PASS"), (9, "FAIL")):
            for make in (compare_and_sets, lost):
                judged = partial(searched, make(shown), "cas-register", names)
                yield f"{by}: {make.__name__}, {truth}", judged, truth
        for count in (0, 1, 62, 63, 64, 65, 126, 127, 128, 129):
            history = beside(count, 3 if count > 3 else 9)
            truth = "PASS" if count > 3 else "FAIL"
            yield f"{by}: {count} writes", partial(searched, history, "register", names), truth
    yield "many keys", partial(in_columns, keys(40), "register"), "PASS"
    yield "queue", partial(in_columns, moved(120), "queue"), "PASS"
    yield "counter", partial(in_columns, counted(240), "counter"), "PASS"


def main() -> None:
    """Starve every case."""
    kernels.LIBRARY = Path(sys.argv[1])
    known = kernels.load()
    assert known is not None
    left, held = (
        c_int64.in_dll(known._library, f"allocations_{name}") for name in ("left", "held")
    )
    seen = Counter[str]()
    gc.freeze()  # what is collected below is of a case, not of all that was imported
    for name, judged, truth in cases():
        for allocations in range(ALLOCATIONS_MAX):
            left.value = allocations
            try:
                verdict = judged()
            except MemoryError:
                verdict = "MemoryError"
            enough, left.value = left.value >= 0, 1 << 62
            gc.collect()
            may = {truth, "UNKNOWN"} | ({"MemoryError"} if judged.func is in_columns else set())
            assert verdict in may, (name, allocations, verdict)
            assert held.value == 0, (name, allocations, "leaks", held.value)
            seen[verdict] += 1
            if enough:
                assert verdict == truth, (name, verdict)
                break
        else:
            raise AssertionError(f"{name}: {ALLOCATIONS_MAX} allocations are not enough")
        sys.stdout.write(f"{name}: {allocations} allocations\n")
    sys.stdout.write(f"{dict(seen)}\n")


if __name__ == "__main__":
    main()

"""Which histories are judged, the first measurements and the whole range, and how fast."""

from __future__ import annotations

import math
from itertools import product

from benchmarks.checkers.generate import Shape
from benchmarks.checkers.generate_types import FUNCTIONS, Typed

U = None

TABLE = (
    Shape("c", 10, 1_000, 5, indeterminate=1),
    Shape("c", 10, 1_000, 5, indeterminate=20),
    Shape("r", 10, 10_000, 5),
    Shape("c", 10, 10_000, 5, indeterminate=5),
    Shape("r", 10, 10_000, U),
    Shape("r", 10, 10_000, U, bad=True),
    Shape("r", 50, 10_000, U),
    Shape("r", 100, 10_000, U),
    Shape("r", 100, 10_000, 5),
    Shape("c", 50, 10_000, 5),
    Shape("c", 50, 10_000, U),
    Shape("r", 10, 100_000, U),
    Shape("r", 100, 100_000, U, indeterminate=5),
    Shape("c", 100, 100_000, 5, keys=100),
    Shape("c", 100, 100_000, 5, keys=100, indeterminate=20),
    Shape("r", 100, 100_000, 5, keys=10),
    Shape("r", 100, 100_000, 5, keys=10, bad=True),
    Shape("r", 100, 1_000_000, U, keys=1000),
    Shape("r", 100, 1_000_000, 5, keys=1000),
    Shape("r", 100, 1_000_000, U),
    Shape("kv", 10, 1_000, U),
    Shape("kv", 10, 10_000, U, keys=10),
    Shape("kv", 50, 10_000, U, keys=100),
    Shape("r", 10, 20_000, 5, keys=2000),
    Shape("c", 10, 20_000, 5, keys=2000),
    Shape("kv", 10, 20_000, U, keys=2000),
)
"""`--quick`: every row of the first measurements, and many tiny keys."""

POWERS = (4, 5, 6, 7)
GROWTH: dict[str, tuple[Shape | Typed, ...]] = {
    "register": tuple(Shape("r", 100, 10**power, U) for power in POWERS),
    "cas-register": tuple(Shape("c", 100, 10**power, U) for power in POWERS),
} | {model: tuple(Typed(model, 10**power) for power in POWERS) for model in FUNCTIONS}
"""For the exponents."""


def spread() -> list[Shape]:
    """Vary one thing at a time around 10,000 operations of 50 clients on one key."""
    rows: list[Shape] = []
    for kind, values in product(("r", "c"), (U, 5)):
        rows += [Shape(kind, 50, 10_000, values, keys=keys) for keys in (1, 10, 100)]
        rows += [Shape(kind, clients, 10_000, values) for clients in (10, 100)]
        rows += [Shape(kind, 50, size, values) for size in (1_000, 100_000)]
        rows += [Shape(kind, 50, size, values, keys=100) for size in (100_000, 1_000_000)]
        rows += [Shape(kind, 50, 10_000, values, indeterminate=part) for part in (1, 5, 20)]
        rows += [Shape(kind, 50, 10_000, values, keys=10, indeterminate=part) for part in (5, 20)]
        rows += [Shape(kind, 50, 10_000, values, bad=True)]
        rows += [Shape(kind, 10, 1_000, values, indeterminate=i, bad=True) for i in (0, 5)]
    rows += [Shape("kv", clients, 1_000, U) for clients in (10, 50, 100)]
    rows += [Shape("kv", 50, 10_000, U, keys=keys) for keys in (10, 100)]
    rows += [Shape("kv", 10, 1_000, U, indeterminate=part) for part in (1, 5, 20)]
    rows += [Shape("kv", 10, 1_000, U, bad=True)]
    rows += [Shape("r", 100, 10_000_000, U)]
    return list(dict.fromkeys([*TABLE, *rows]))


WANTED_MS: tuple[tuple[Shape, float], ...] = (
    (Shape("r", 100, 10**4, None), 2),
    (Shape("r", 100, 10**6, None), 150),
    (Shape("r", 100, 10**7, None), 2_500),
    (Shape("r", 100, 10**5, 5, keys=10), 500),
    (Shape("c", 50, 10**4, 5), 1_000),
    (Shape("c", 50, 10**4, None), 1_000),
)
WANTED_MB = ((Shape("r", 100, 10**6, None), 250),)
RATIO = 4.0
"""Of every row of the first table that Porcupine judged at all."""
EXPONENT_MAX = 1.1
LOG_MS = 5_000
"""For 10^7 operations on a log."""


def target_lines(rows: dict[str, dict], growth: dict[str, tuple[list[float], float]]) -> list[str]:
    """Return lines of target and measured time. Rows that were not run are left out."""
    lines = []
    for shape, limit in WANTED_MS:
        if shape.name in rows:
            row = rows[shape.name]
            cpu = row["cpu"] if row["known"] else math.inf
            lines.append(_line(f"{shape.name}: < {limit:g} ms cpu", cpu, limit))
    for shape, limit in WANTED_MB:
        if shape.name in rows:
            lines.append(_line(f"{shape.name}: < {limit} MB", rows[shape.name]["peak_mb"], limit))
    ratios = {
        shape.name: rows[shape.name]["ratio"]
        for shape in TABLE
        if rows.get(shape.name, {}).get("ratio") is not None and shape.kind != "kv"
    }
    for name, ratio in ratios.items():
        mark = "yes" if ratio >= RATIO else "NO"
        lines.append(f"| {name}: {RATIO:g} times Porcupine's cpu | {ratio:.1f} | {mark} |")
    for name, (times, exponent) in growth.items():
        lines.append(_line(f"growth of {name}: exponent <= {EXPONENT_MAX}", exponent, EXPONENT_MAX))
        if name == "log" and len(times) == 4:
            lines.append(_line(f"log, 10M: < {LOG_MS} ms cpu", times[-1], LOG_MS))
    return lines


def _line(wanted: str, measured: float, limit: float) -> str:
    return f"| {wanted} | {measured:.4g} | {'yes' if measured <= limit else 'NO'} |"

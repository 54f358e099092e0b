"""The times that the rows should take, and those that they took."""

from __future__ import annotations

import math

from benchmarks.checkers.generate import Shape
from benchmarks.checkers.rows import TABLE

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


def lines(rows: dict[str, dict], growth: dict[str, tuple[list[float], float]]) -> list[str]:
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

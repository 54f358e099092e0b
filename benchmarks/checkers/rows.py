"""Which histories are judged: the table of the first measurements, and the whole range."""

from __future__ import annotations

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

"""Registers, compare-and-set and appended strings as integers: what the compiled searches take.

An operation becomes `code`, `a` (what it needs the state to be) and `b` (what it makes of it); a
state is an integer: the code of a value or, of a string that is appended to, a hash of 62 bits (two
polynomials modulo primes). Two strings with one hash could make a verdict wrong; its certificate,
which knows no hashes, is refused then.

Left out are what `checkers.models.relevant` leaves out and indeterminate operations that can
explain nothing: a cas [a, a]; a write or cas of a value that no read and no cas of the key needs
(where no refused cas is among its operations, which any other value would explain).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from checkers.columns import FAIL, INFO, NO_PAIR, Bools, Columns, Int8s, Int64s
from checkers.models import CasRegister, KeyValue, Model, Register
from checkers.models.registers import CAS_REFUSED

READ, WRITE, CAS, NOT, APPEND = range(5)
"""As in `checkers.kernels.compiled`, which is not imported here since it needs Numba."""

IMPOSSIBLE = -1
"""A state that never is."""

DEAD = -2
"""The state of every string of which no read shows an extension."""

_PRIMES = (2**31 - 1, 2**31 - 19)
_BASES = (1_000_003, 1_500_450_271)


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Relevant operations of all keys, grouped by key, each group in order of invocation."""

    rows: NDArray[np.intp]
    """Rows of the columns."""
    bounds: Int64s
    """Group k holds `bounds[k]:bounds[k + 1]`; it may be empty."""
    code: Int8s
    a: Int64s
    b: Int64s
    info: Bools
    invoke_ns: Int64s
    complete_ns: Int64s
    initial: int
    viable: Int64s
    """States that can still be seen: of appended strings, the prefixes of all that was read."""

    def part(self, k: int) -> Encoded:
        """Return one group as a history of its own."""
        low, high = int(self.bounds[k]), int(self.bounds[k + 1])
        cut = slice(low, high)
        return Encoded(
            self.rows[cut],
            np.array([0, high - low], np.int64),
            self.code[cut],
            self.a[cut],
            self.b[cut],
            self.info[cut],
            self.invoke_ns[cut],
            self.complete_ns[cut],
            self.initial,
            self.viable,
        )

    def select(self, keys: Int64s) -> Encoded:
        """Return some groups, in their order."""
        sizes = np.diff(self.bounds)
        wanted = np.zeros(len(sizes), np.bool_)
        wanted[keys] = True
        kept = np.repeat(wanted, sizes)
        bounds = np.concatenate([[0], np.cumsum(sizes[wanted])]).astype(np.int64)
        return Encoded(
            self.rows[kept],
            bounds,
            self.code[kept],
            self.a[kept],
            self.b[kept],
            self.info[kept],
            self.invoke_ns[kept],
            self.complete_ns[kept],
            self.initial,
            self.viable,
        )


def encodable(model: Model) -> bool:
    """Tell whether histories of this model become integers; a subclass may mean anything."""
    return type(model) in (Register, CasRegister, KeyValue)


def encode(columns: Columns, model: Model) -> Encoded:
    """Encode a history. Raises HistoryError for an operation that the model does not know."""
    assert encodable(model)
    code = _codes(columns, model)
    info = columns.type == INFO
    write, cas = code == WRITE, code == CAS
    a = np.where(code == READ, columns.output, columns.expected).astype(np.int64)
    b = np.where(write | cas, columns.input, IMPOSSIBLE).astype(np.int64)
    viable = np.zeros(0, np.int64)
    if isinstance(model, KeyValue):
        a, b = _hashed(columns, code)
        viable = _prefixes(
            [str(columns.values[c]) for c in np.unique(columns.output[code == READ])]
        )
        b[write & ~np.isin(b, viable)] = DEAD
    else:
        idle = cas & (a == b)
        code[idle & info] = -1
        code[idle & ~info] = READ
        _drop_useless(columns, code, a, b, info)
    order, bounds = columns.by_key()
    kept = code >= 0
    begin, end = columns.invoke_ns, columns.complete_ns
    initial = state_code(columns, model, model.init())
    if order is None and kept.all():
        return Encoded(np.arange(len(code)), bounds, code, a, b, info, begin, end, initial, viable)
    in_order = kept if order is None else kept[order]
    rows = np.flatnonzero(in_order) if order is None else order[in_order]
    bounds = np.concatenate([[0], np.cumsum(in_order)])[bounds].astype(np.int64)
    return Encoded(
        *(rows, bounds, code[rows], a[rows], b[rows], info[rows], begin[rows], end[rows]),
        *(initial, viable),
    )


def state_code(columns: Columns, model: Model, state: Hashable) -> int:
    """Return the integer of a state; one that no operation names is IMPOSSIBLE, and fits none."""
    if isinstance(model, KeyValue):
        assert isinstance(state, str)
        return _hash(state)[0]
    return columns.code(state)


def _codes(columns: Columns, model: Model) -> Int8s:
    """Return what each row is, -1 for what need not be placed."""
    names = {"get": READ, "put": WRITE, "append": APPEND}
    if not isinstance(model, KeyValue):
        names = {"read": READ, "write": WRITE}
        if isinstance(model, CasRegister):
            names["cas"] = CAS
    table = np.array([names.get(name, -2) for name in columns.functions], np.int8)
    code = table[columns.f]
    code[columns.type == FAIL] = -1
    code[(columns.type == INFO) & (code == READ)] = -1
    if CAS in names.values():
        told = [error is None or error in CAS_REFUSED for error in columns.errors]
        refused = (columns.type == FAIL) & (columns.f == columns.function("cas"))
        code[refused & np.array(told, np.bool_)[columns.error]] = NOT
    wrong = code == -2
    if CAS in names.values():
        wrong |= ((code == CAS) | (code == NOT)) & (columns.expected == NO_PAIR)
    if isinstance(model, KeyValue):
        texts = np.array([isinstance(value, str) for value in columns.values], np.bool_)
        wrong |= ((code == WRITE) | (code == APPEND)) & ~texts[columns.input]
    if wrong.any():
        model.step(model.init(), columns.operation(int(np.argmax(wrong))))
        raise AssertionError("the model takes an operation that the encoding does not")
    return code


def _drop_useless(columns: Columns, code: Int8s, a: Int64s, b: Int64s, info: Bools) -> None:
    candidates = np.flatnonzero(info & (code >= 0))
    if not len(candidates) or (code == NOT).any():
        return
    needs = np.flatnonzero((code == READ) | (code == CAS))
    size = len(columns.values)
    key = columns.key.astype(np.int64)
    needed, made = key[needs] * size + a[needs], key[candidates] * size + b[candidates]
    if len(columns.keys) * size <= 4 * len(columns) + 1024:
        seen = np.zeros(len(columns.keys) * size, np.bool_)
        seen[needed] = True
        useful = seen[made]
    else:
        useful = np.isin(made, needed)
    code[candidates[~useful]] = -1


def _hash(text: str) -> tuple[int, int]:
    """Return (hash, base to the power of the length), each two residues in one integer."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    value = factor = 0
    for prime, base in zip(_PRIMES, _BASES, strict=True):
        powers = _powers(prime, base, len(points) + 1)
        hashed = int(((points + 1) * powers[: len(points)][::-1] % prime).sum()) % prime
        value, factor = value << 31 | hashed, factor << 31 | int(powers[len(points)])
    return value, factor


def _prefixes(texts: list[str]) -> Int64s:
    """Return the hashes of all prefixes of the texts, each once."""
    texts = sorted(set(texts))
    longest = [text for text, next_one in pairwise([*texts, ""]) if not next_one.startswith(text)]
    found = [np.zeros(1, np.int64)]
    for text in longest:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(
            np.int64
        )
        hashes = np.zeros(len(points), np.int64)
        for prime, base in zip(_PRIMES, _BASES, strict=True):
            powers = _powers(prime, base, len(points))[: len(points)][::-1]
            inverse = _powers(prime, pow(base, -1, prime), len(points))[: len(points)][::-1]
            sums = np.cumsum((points + 1) * powers % prime) % prime
            hashes = hashes << 31 | sums * inverse % prime
        found.append(hashes)
    return np.unique(np.concatenate(found))


_POWERS: dict[tuple[int, int], Int64s] = {}


def _powers(prime: int, base: int, count: int) -> Int64s:
    known = _POWERS.get((prime, base))
    if known is None or len(known) < count:
        powers = [1]
        for _ in range(max(64, 2 * count)):
            powers.append(powers[-1] * base % prime)
        known = _POWERS[prime, base] = np.array(powers, np.int64)
    return known


def _hashed(columns: Columns, code: Int8s) -> tuple[Int64s, Int64s]:
    values = np.full((len(columns.values), 2), IMPOSSIBLE, np.int64)
    for i, value in enumerate(columns.values):
        if isinstance(value, str):
            values[i] = _hash(value)
    read = code == READ
    a = np.where(read, values[columns.output, 0], values[columns.input, 0])
    b = np.where(code == WRITE, values[columns.input, 0], values[columns.input, 1])
    return a, b

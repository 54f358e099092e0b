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

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from checkers.history.columns import FAIL, INFO, NO_PAIR, Bools, Columns, Int8s, Int64s
from checkers.models import CasRegister, KeyValue, Model, Register
from checkers.models.registers import CAS_REFUSED

READ, WRITE, CAS, NOT, APPEND = range(5)
"""As in operations.h of `linearizability.kernels`."""

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
    """Return whether histories of this model become integers; a subclass may mean anything."""
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
        written = np.flatnonzero(write)
        place = np.minimum(np.searchsorted(viable, b[written]), len(viable) - 1)
        b[written[viable[place] != b[written]]] = DEAD
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
        return _hash(state)
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
        observed = [error is None or error in CAS_REFUSED for error in columns.errors]
        refused = (columns.type == FAIL) & (columns.f == columns.function("cas"))
        code[refused & np.array(observed, np.bool_)[columns.error]] = NOT
    wrong = code == -2
    if CAS in names.values():
        wrong |= ((code == CAS) | (code == NOT)) & (columns.expected == NO_PAIR)
    if isinstance(model, KeyValue):
        effect = np.flatnonzero((code == WRITE) | (code == APPEND))
        given = [columns.values[c] for c in columns.input[effect].tolist()]
        texts = np.array([kind is str for kind in map(type, given)], np.bool_)
        wrong[effect[~texts]] = True
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


_BATCH = 1 << 20
"""Characters that are hashed together; more would take more memory and no less time."""


def _hash(text: str) -> int:
    hashes, _ = _hashes([text])
    return int(hashes[0])


def _hashes(texts: Sequence[str]) -> tuple[Int64s, Int64s]:
    """Return (hash, base to the power of the length) of each, each two residues in one integer.

    h(s) is the sum of (c + 1) * base ** (what is behind c). All texts stand one behind another, so
    that sums up to each place, of (c + 1) / base ** place, give the hash of any part.
    """
    if len(texts) > 1 and sum(map(len, texts)) > _BATCH:
        half = len(texts) // 2
        parts = _hashes(texts[:half]), _hashes(texts[half:])
        return np.concatenate([h for h, _ in parts]), np.concatenate([f for _, f in parts])
    points, ends = _points(texts)
    lengths = np.diff(ends)
    hashes, factors = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    for prime, base in zip(_PRIMES, _BASES, strict=True):
        powers = _powers(prime, base, len(points) + 1)
        sums = _sums(points, prime, base)
        part = (sums[ends[1:]] - sums[ends[:-1]]) % prime * powers[np.maximum(ends[1:] - 1, 0)]
        hashes = hashes << 31 | part % prime
        factors = factors << 31 | powers[lengths]
    return hashes, factors


def _points(texts: Sequence[str]) -> tuple[Int64s, Int64s]:
    """Return (code points of all texts, where each begins; one more than texts)."""
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    return np.frombuffer(joined, np.uint32).astype(np.int64), ends


def _sums(points: Int64s, prime: int, base: int) -> Int64s:
    """Return the sums of (c + 1) / base ** place before each place, modulo the prime."""
    inverse = _powers(prime, pow(base, -1, prime), len(points))[: len(points)]
    sums = np.zeros(len(points) + 1, np.int64)
    np.cumsum((points + 1) * inverse % prime, out=sums[1:])
    return sums % prime


def _prefixes(texts: list[str]) -> Int64s:
    """Return the hashes of all prefixes of the texts, each once."""
    texts = sorted(set(texts))
    longest = [text for text, next_one in pairwise([*texts, ""]) if not next_one.startswith(text)]
    found = [np.zeros(1, np.int64)]
    while longest:
        count = 1 + bisect_right(list(accumulate(map(len, longest))), _BATCH)
        found.append(_all_prefixes(longest[:count]))
        longest = longest[count:]
    return np.unique(np.concatenate(found))


def _all_prefixes(texts: Sequence[str]) -> Int64s:
    points, ends = _points(texts)
    lengths = np.diff(ends)
    begin = np.repeat(ends[:-1], lengths)
    inside = np.arange(len(points)) - begin
    hashes = np.zeros(len(points), np.int64)
    for prime, base in zip(_PRIMES, _BASES, strict=True):
        powers = _powers(prime, base, len(points) + 1)
        sums = _sums(points, prime, base)
        part = (sums[1:] - sums[begin]) % prime * powers[begin + inside] % prime
        hashes = hashes << 31 | part
    return hashes


_POWERS: dict[tuple[int, int], Int64s] = {}


def _powers(prime: int, base: int, count: int) -> Int64s:
    """Return powers from 0 on, at least `count` of them, by doubling what is known."""
    known = _POWERS.get((prime, base), np.ones(1, np.int64))
    while len(known) < count:
        known = np.concatenate([known, known * pow(base, len(known), prime) % prime])
    _POWERS[prime, base] = known
    return known


def _hashed(columns: Columns, code: Int8s) -> tuple[Int64s, Int64s]:
    used = np.zeros(len(columns.values), np.bool_)
    used[columns.input] = True
    used[columns.output] = True
    wanted = np.flatnonzero(used).tolist()
    texts = [columns.values[code] for code in wanted]
    kept = [kind is str for kind in map(type, texts)]
    hashes, factors = _hashes([text for text, kept_ in zip(texts, kept, strict=True) if kept_])
    values = np.full((len(columns.values), 2), IMPOSSIBLE, np.int64)
    at = np.array(wanted, np.int64)[kept]
    values[at, 0], values[at, 1] = hashes, factors
    read = code == READ
    a = np.where(read, values[columns.output, 0], values[columns.input, 0])
    b = np.where(code == WRITE, values[columns.input, 0], values[columns.input, 1])
    return a, b

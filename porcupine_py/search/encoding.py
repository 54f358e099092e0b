"""Registers, compare-and-set and appended strings as integers: what the compiled searches take.

An operation becomes `code`, `a` (what it needs the state to be) and `b` (what it makes of it); a
state is an integer: the code of a value or, of a string that is appended to, a hash of 62 bits
(strings.c of `kernels`). Two strings with one hash could make a verdict wrong; its
certificate, which knows no hashes, is refused then.

Left out are what `porcupine_py.models.relevant` leaves out and indeterminate operations that can
explain nothing: a cas [a, a]; a write or cas of a value that no read and no cas of the key needs
(where no refused cas is among its operations, which any other value would explain).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import FAIL, INFO, NO_PAIR, Bools, Columns, Int8s, Int32s, Int64s
from porcupine_py.kernels import Kernels, load
from porcupine_py.models import CasRegister, KeyValue, Model, Register
from porcupine_py.models.registers import CAS_REFUSED
from porcupine_py.operations import Value

READ, WRITE, CAS, NOT, APPEND = range(5)
"""As in operations.h of `kernels`."""

IMPOSSIBLE = -1
"""A state that never is."""

DEAD = -2
"""The state of every string of which no read shows an extension."""


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
    """Strings that can still be seen, prefixes of what was read, as a table of hashes."""

    def select(self, keys: Int64s) -> Encoded:
        """Return some groups, in their order."""
        sizes = np.diff(self.bounds)
        wanted = np.zeros(len(sizes), np.bool_)
        wanted[keys] = True
        bounds = np.concatenate([[0], np.cumsum(sizes[wanted])]).astype(np.int64)
        places = np.repeat(wanted, sizes)
        names = ("rows", "code", "a", "b", "info", "invoke_ns", "complete_ns")
        arrays = {name: getattr(self, name)[places] for name in names}
        return replace(self, bounds=bounds, **arrays)


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
    viable = np.full(2, -1, np.int64)
    if isinstance(model, KeyValue):
        a, b, viable = _hash_columns(columns, code, model.initial)
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
        refused = (columns.type == FAIL) & columns.calls("cas")
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


def _hash(text: str) -> int:
    hashes, _ = _hashes([text])
    return int(hashes[0])


def _hashes(texts: Sequence[str]) -> tuple[Int64s, Int64s]:
    """Return (hash, factor) of each text; see strings.c."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    hashes, _, begins = _all_prefixes(texts)
    factors = _kernels().factors(1 + int(lengths.max(initial=0)))
    return _of_prefixes(hashes, begins, lengths), factors[lengths]


def _kernels() -> Kernels:
    kernels = load()
    assert kernels is not None, "strings are encoded for the library only, which hashes them"
    return kernels


def _all_prefixes(texts: Sequence[str]) -> tuple[Int64s, NDArray[np.uint32], Int64s]:
    """Return (hashes of what ends with each code point, code points, where each text begins)."""
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    points: NDArray[np.uint32] = np.frombuffer(joined, np.uint32)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    begins = np.concatenate([np.zeros(1, np.int64), ends])[: len(texts)]
    return _kernels().prefix_hashes(points, ends), points, begins


def _of_prefixes(hashes: Int64s, begins: Int64s, lengths: Int64s) -> Int64s:
    """Return the hashes of prefixes of such lengths of texts that begin there; of "" it is 0."""
    if not len(hashes):
        return np.zeros(len(lengths), np.int64)
    return np.where(lengths > 0, hashes[np.maximum(begins + lengths - 1, 0)], 0)


def _hash_prefixes(texts: Sequence[str], endings: set[str]) -> tuple[Int64s, Int64s]:
    """Return (hash of each text, those of all prefixes of them that operations can leave).

    `endings`: the last characters of all that is put or appended; what ends otherwise never is.
    Most texts are prefixes of others, and only the longest are hashed.
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    longest: list[str] = []
    place = np.zeros(len(texts), np.int64)
    behind = None
    for i in reversed(order):
        if behind is None or not behind.startswith(texts[i]):
            longest.append(texts[i])
        behind = texts[i]
        place[i] = len(longest) - 1
    hashes, points, begins = _all_prefixes(longest)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    can_be = np.zeros(1 + int(points.max(initial=0)), np.bool_)
    can_be[[ord(c) for c in endings if c and ord(c) < len(can_be)]] = True
    known = np.append(hashes[can_be[points]], 0)
    return _of_prefixes(hashes, begins[place] if len(begins) else place, lengths), known


def _hash_columns(columns: Columns, code: Int8s, initial: str) -> tuple[Int64s, Int64s, Int64s]:
    """Return `a` and `b` of strings, and the table of those that can still be seen."""
    values = columns.values
    read, effect = code == READ, (code == WRITE) | (code == APPEND)
    shown, given = _codes_in(columns.output[read], values), _codes_in(columns.input[effect], values)
    shown = [c for c in shown if type(values[c]) is str]  # the rest shows no state
    texts = [values[c] for c in given]
    own, seen = _hash_prefixes(
        [values[c] for c in shown], {text[-1:] for text in (*texts, initial)}
    )
    table = _kernels().table_of(seen)
    hashes, factors = _hashes(texts)
    of_value = np.full((len(values), 2), IMPOSSIBLE, np.int64)
    of_value[given, 0], of_value[given, 1] = hashes, factors
    a, b = of_value[columns.input, 0], of_value[columns.input, 1]
    written = np.flatnonzero(code == WRITE)
    put = a[written]
    b[written] = np.where(_kernels().look_up(table, put), put, DEAD)
    of_value[:, 0] = IMPOSSIBLE
    of_value[shown, 0] = own
    a[read] = of_value[columns.output[read], 0]
    b[read] = IMPOSSIBLE
    return a, b, table


def _codes_in(codes: Int32s, values: Sequence[Value]) -> list[int]:
    """Return the codes that are among these, each once."""
    used = np.zeros(len(values), np.bool_)
    used[codes] = True
    found: list[int] = np.flatnonzero(used).tolist()
    return found

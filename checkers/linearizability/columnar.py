"""Linearizability of a history in columns: all keys together where that is possible.

The same dispatch as for operations (`linearizability.dispatch`), but near-linear algorithms run
once over all keys, easy keys are searched in one call of the kernel, and orders are verified in
columns. Only what is hard or wrong becomes objects: a key that fails goes through
`linearizability.linearizable`, which makes its window small and has it verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from checkers.linearizability import linearizable
from checkers.verdict import CheckResult, Status
from porcupine_py.columns import Columns, Int64s
from porcupine_py.kernels import load
from porcupine_py.models import KeyValue, Model, Register, model_named
from porcupine_py.search import chains
from porcupine_py.search.certificate import RefusedError
from porcupine_py.search.clusters import Judged, unique_keys
from porcupine_py.search.compiled import FOUND, search_keys
from porcupine_py.search.encoding import Encoded, encodable, encode
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.search.replay import verify_orders
from porcupine_py.search.rules import RULES

_STEPS_EACH = 8
"""Steps for each operation of a key, before it counts as hard."""
_BATCH_BYTES_MAX = 1 << 26
_ARRAYS_MIN = 200
"""From so many operations of a key on arrays are faster than objects."""


def check_columns(
    columns: Columns,
    options: Mapping[str, Any],
    cancelled: Cancelled = never,
    *,
    certificates: bool = True,
) -> list[CheckResult]:
    """Judge the keys of a history; see `checkers.registry` for the options."""
    return judge_columns(
        columns,
        model_named(options.get("model"), options.get("initial")),
        algorithm=options.get("algorithm"),
        time_limit_s=options.get("time_limit_s") or linearizable.TIME_LIMIT_S,
        memory_limit_mb=options.get("memory_limit_mb") or linearizable.MEMORY_LIMIT_MB,
        cancelled=cancelled,
        certificates=certificates,
    )


def judge_columns(
    columns: Columns,
    model: Model,
    *,
    algorithm: str | None = None,
    time_limit_s: float = linearizable.TIME_LIMIT_S,
    memory_limit_mb: float = linearizable.MEMORY_LIMIT_MB,
    cancelled: Cancelled = never,
    certificates: bool = True,
) -> list[CheckResult]:
    """Judge each key of a history; the limits hold for each key.

    `certificates=False` leaves the orders of right keys out of the results, after they were
    verified: they are long. Windows are always there. Raises HistoryError as `linearizable.judge`.
    """
    limits: dict[str, Any] = {
        "time_limit_s": time_limit_s,
        "memory_limit_mb": memory_limit_mb,
        "cancelled": cancelled,
    }
    unhashed = isinstance(model, KeyValue) and load() is None  # the library makes the hashes
    if algorithm is not None or not encodable(model) or unhashed:
        return [
            _find_order(part, model, algorithm, certificates=certificates)
            or linearizable.judge(part.operations(), model, algorithm=algorithm, **limits)
            for part in columns.parts()
        ]
    run = _Columns(columns, model, certificates=certificates)
    run.unique()
    run.easy()
    run.verify()
    return list(run.results(limits))


def _find_order(
    part: Columns, model: Model, algorithm: str | None, *, certificates: bool
) -> CheckResult | None:
    """Return PASS where a rule in columns finds an order that is accepted, else None."""
    rule = RULES.get(type(model))
    if rule is None or algorithm not in (None, rule.name) or len(part) < _ARRAYS_MIN:
        return None
    order = None if rule.arrange is None else rule.arrange(part)
    if order is None:
        return None
    try:
        verify_orders(part, model, order)
    except RefusedError:
        return None
    key, placed = part.keys[part.key[0]], len(order)
    shown = part.index[order] if certificates else None
    return _pass_result(key, rule.name, len(part), placed, placed, shown)


def _pass_result(
    key: str | None,
    algorithm: str,
    operations: int,
    placed: int,
    explored: int,
    linearization: Int64s | None,
) -> CheckResult:
    """Return the result of a key with an accepted order, which is shown where it is given."""
    proof = None if linearization is None else {"linearization": linearization.tolist()}
    return CheckResult(
        linearizable.NAME,
        Status.PASS,
        f"linearizable: {placed} of {operations} operations placed in order",
        key=key,
        algorithm=algorithm,
        operations=operations,
        certificate=proof,
        statistics={"explored": explored},
    )


class _Columns:
    def __init__(self, columns: Columns, model: Model, *, certificates: bool) -> None:
        self.columns = columns
        self.model = model
        self.certificates = certificates
        self.encoded = encode(columns, model)
        self.keys = len(self.encoded.bounds) - 1
        self.algorithm: list[str | None] = [None] * self.keys
        """Of each key, None: it is not proved right."""
        self.explored = [0] * self.keys
        self.orders: list[Int64s] = []
        """Rows in order, of the keys proved right."""
        self.wrong: set[int] = set()
        self.refused: str | None = None
        """Why the orders are not accepted; everything is judged singly then."""

    def unique(self) -> None:
        """Judge the keys of unique values."""
        if not isinstance(self.model, Register):
            return
        count = len(self.columns.values)
        chosen = np.flatnonzero(unique_keys(self.encoded, count))
        if not len(chosen):
            return
        part = self.encoded.select(chosen) if len(chosen) < self.keys else self.encoded
        judged = chains.judge(part, count)
        if judged is not None:
            self._take(part, chosen, judged)

    def _take(self, part: Encoded, chosen: Int64s, judged: Judged) -> None:
        name = "zones" if type(self.model) is Register else "chains"
        bad = sorted(judged.wrong.keys() | judged.undecided)
        order = judged.order
        if bad:
            right = np.ones(len(chosen), np.bool_)
            right[bad] = False
            order = order[np.repeat(right, np.diff(part.bounds))[order]]
        self.orders.append(part.rows[order])
        self.wrong.update(int(chosen[k]) for k in judged.wrong)
        left_out = set(bad)
        for k, key in enumerate(chosen.tolist()):
            if k not in left_out:
                self.algorithm[key] = name

    def easy(self) -> None:
        """Search what is left for a few steps each, in one call."""
        left = [k for k, name in enumerate(self.algorithm) if name is None and k not in self.wrong]
        kernels = load() if left else None
        if kernels is None:
            return
        part = self.encoded.select(np.array(left)) if len(left) < self.keys else self.encoded
        order, outcomes = search_keys(kernels, part, _STEPS_EACH, _BATCH_BYTES_MAX)
        self.orders.append(part.rows[order[order >= 0]])
        for k, (status, _, explored) in zip(left, outcomes.tolist(), strict=True):
            if status == FOUND:
                self.algorithm[k], self.explored[k] = "wgl", explored

    def results(self, limits: dict[str, Any]) -> Iterator[CheckResult]:
        """Judge what is not proved, and give every key its result."""
        refused = self.refused
        order = np.concatenate(self.orders) if self.orders else np.empty(0, np.int64)
        placed = np.bincount(self.columns.key[order], minlength=self.keys).tolist()
        shown = self._orders_by_key(order) if self.certificates else {}
        rows, bounds = self.columns.by_key()
        keys = zip(self.columns.keys, self.algorithm, pairwise(bounds.tolist()), strict=True)
        for k, (key, name, (low, high)) in enumerate(keys):
            if low == high:
                continue
            if refused is None and name is not None:
                count, explored = high - low, self.explored[k]
                yield _pass_result(key, name, count, placed[k], explored, shown.get(k))
                continue
            cut = slice(low, high)
            part = self.columns.take(cut if rows is None else rows[cut])
            yield linearizable.judge(part.operations(), self.model, **limits)

    def verify(self) -> None:
        """Have the orders verified."""
        if not self.orders:
            return
        order = np.concatenate(self.orders)
        try:
            proved = np.array([name is not None for name in self.algorithm], np.bool_)
            verify_orders(self.columns, self.model, order, proved)
        except RefusedError as error:
            self.refused = str(error)

    def _orders_by_key(self, order: Int64s) -> dict[int, Int64s]:
        """Return the operations of each key that is proved right, in its order."""
        key, index = self.columns.key[order], self.columns.index[order]
        first = np.concatenate([[True], key[1:] != key[:-1]])[: len(key)]
        starts = np.flatnonzero(first)
        parts = np.split(index, starts)[1:]
        found = dict(zip(key[starts].tolist(), parts, strict=True))
        return dict.fromkeys(range(self.keys), index[:0]) | found

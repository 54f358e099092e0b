"""The compiled searches as objects that go on for so many steps and then report where they are."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import Protocol
from weakref import finalize

import numpy as np

from porcupine_py.columns import Int64s
from porcupine_py.kernels.library import History, Kernels, Viable, refuse_beyond_32_bits, right
from porcupine_py.search.encoding import APPEND, Encoded

RUNNING, FOUND, NONE, MEMORY, DIED = range(5)
"""More to do | an order was found | there is none | out of memory | nothing left, but some were
thrown away; as in operations.h."""


class Run(Protocol):
    """One search over one key."""

    @property
    def explored(self) -> int:
        """Configurations entered."""

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on; returns the status."""

    def order(self) -> Int64s:
        """Return positions in the order found; only after FOUND."""

    def blocked_position(self) -> int:
        """Return the position of the operation at which the furthest order ends, -1: none yet."""


class _Encoded:
    """Encoded operations as the library takes them; codes of states may be others than there."""

    def __init__(self, encoded: Encoded, a: Int64s | None = None, b: Int64s | None = None) -> None:
        e = encoded
        self.count = len(e.code)
        refuse_beyond_32_bits(self.count)
        self._arrays = (
            right(e.code, np.int8),
            *(right(e.a if a is None else a), right(e.b if b is None else b)),
            *(right(e.invoke_ns), right(e.complete_ns), right(e.info, np.bool_)),
        )
        self._viable = right(e.viable)
        self.pointer = byref(History(self.count, *(x.ctypes.data for x in self._arrays)))
        self.viable = byref(Viable(self._viable.ctypes.data, len(self._viable)))


def search_keys(
    kernels: Kernels, encoded: Encoded, steps_each: int, bytes_max: int
) -> tuple[Int64s, Int64s]:
    """Search each key first for a few steps for each of its operations, for what is easy (wgl.c).

    Returns positions, of each key that is right in its own place, -1 elsewhere; and of each key
    status, operations placed, configurations entered.
    """
    given = _Encoded(encoded)
    bounds = right(encoded.bounds)
    order = np.empty(len(encoded.code), np.int64)
    outcomes: Int64s = np.empty((len(bounds) - 1, 3), np.int64)
    kernels.call(
        "wgl_run_keys",
        *(given.pointer, bounds, len(bounds) - 1, given.viable, encoded.initial),
        *(steps_each, bytes_max, order, outcomes),
    )
    return order, outcomes


class _Search:
    """A search of the library, which is freed with this object."""

    def __init__(self, kernels: Kernels, kind: str, *arguments: object) -> None:
        self._kernels = kernels
        self._kind = kind
        self._at = kernels.call(f"{kind}_new", *arguments)
        if self._at is None:
            raise MemoryError
        finalize(self, kernels.call, f"{kind}_free", self._at)

    def run(self, *arguments: int) -> int:
        status: int = self._kernels.call(f"{self._kind}_run", self._at, *arguments)
        return status

    def report(self, fields: int) -> list[int]:
        report = np.zeros(fields, np.int64)
        self._kernels.call(f"{self._kind}_report", self._at, report)
        values: list[int] = report.tolist()
        return values

    def order(self, room: int) -> tuple[int, Int64s]:
        """Return (what the library says, where it wrote the order)."""
        order = np.empty(room, np.int64)
        return self._kernels.call(f"{self._kind}_order", self._at, order), order


class WglRun:
    """wgl.c on one key, from one state after another."""

    def __init__(self, kernels: Kernels, encoded: Encoded, states: Sequence[int]) -> None:
        self._kernels = kernels
        self._history = _Encoded(encoded)
        self._states = list(states)
        self._furthest = -1
        self._blocked = -1
        self._explored_before = self._explored_now = self._depth = 0
        self._next_state()

    def _next_state(self) -> None:
        pointers = self._history.pointer, self._history.viable
        self._search = _Search(self._kernels, "wgl", *pointers, self._states.pop(0))

    @property
    def explored(self) -> int:
        return self._explored_before + self._explored_now

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on; a search that found nothing goes on from the next state, if there is one."""
        status = self._search.run(steps, bytes_max)
        self._depth, furthest, blocked, _, self._explored_now = self._search.report(5)
        if furthest > self._furthest:
            self._furthest, self._blocked = furthest, blocked
        if status == NONE and self._states:
            self._explored_before += self._explored_now
            self._explored_now = 0
            self._next_state()
            return RUNNING
        return status

    def order(self) -> Int64s:
        """Return positions in the order found."""
        return self._search.order(self._depth)[1]

    def blocked_position(self) -> int:
        """Return the operation that no order has completed so far."""
        return self._blocked


class FrontierRun:
    """frontier.c on one key of a register or compare-and-set register."""

    def __init__(
        self,
        kernels: Kernels,
        encoded: Encoded,
        states: Sequence[int],
        width_max: int,
        bytes_max: int,
    ) -> None:
        e = encoded
        assert APPEND not in e.code, "the frontier knows no appends"
        self._width_max = width_max
        known, codes = np.unique(np.concatenate([states, e.a, e.b]), return_inverse=True)
        at = len(states)
        a, b = codes[at : at + len(e.a)], codes[at + len(e.a) :]
        self._history = _Encoded(e, a, b)
        initial = np.ascontiguousarray(codes[:at], np.int64)
        begin = self._history.pointer, initial, at, len(known), bytes_max
        self._search = _Search(kernels, "frontier", *begin)

    @property
    def explored(self) -> int:
        """Configurations expanded."""
        return self._search.report(3)[0]

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on for about `steps` configurations."""
        return self._search.run(self._width_max, steps, bytes_max)

    def order(self) -> Int64s:
        """Return positions in the order found; from the first of the initial states only.

        Empty where the library has none, which would be a fault: the verifier refuses it.
        """
        count, order = self._search.order(self._history.count)
        if count == -2:
            raise MemoryError
        return order[: max(0, count)]

    def blocked_position(self) -> int:
        """Return the operation at the return of which no configuration was left, or the next."""
        return self._search.report(3)[2]

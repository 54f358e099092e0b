"""The compiled searches as objects that go on for so many steps and then report where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from checkers.history.columns import Int64s
from checkers.linearizability.encoding import APPEND, Encoded
from checkers.linearizability.kernels import Kernels

RUNNING, FOUND, NONE, MEMORY, DIED = range(5)
"""As in `linearizability.kernels.compiled`, which is not imported here since it needs Numba."""


class Run(Protocol):
    """One search over one key."""

    algorithm: str
    status: int
    blocked_state: int | None
    """State of the furthest order, where the search knows it."""

    @property
    def explored(self) -> int:
        """Configurations entered."""
        ...

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on; returns the status."""
        ...

    def order(self) -> Int64s:
        """Return positions in the order found; only after FOUND."""
        ...

    def blocked(self) -> int:
        """Return the position of the operation at which the furthest order ends, -1: none yet."""
        ...


class WglRun:
    """`linearizability.kernels.wgl` on one key, from one state after another."""

    algorithm = "wgl"

    def __init__(self, kernels: Kernels, encoded: Encoded, states: Sequence[int]) -> None:
        self._kernel = kernels.wgl
        self._encoded = encoded
        self._states = list(states)
        self._viable = kernels.wgl.table_of(encoded.viable)
        self._furthest = -1
        self._blocked = -1
        self._explored_before = 0
        self.blocked_state: int | None = None
        self.status = NONE
        self._next_state()

    def _next_state(self) -> None:
        if not self._states:
            return
        e = self._encoded
        initial = self._states.pop(0)
        self._search = self._kernel.begin(
            e.code, e.a, e.b, e.invoke_ns, e.complete_ns, e.info, initial
        )
        self._memo = self._search[11]
        self.status = RUNNING

    @property
    def explored(self) -> int:
        """Configurations entered."""
        return self._explored_before + int(self._search[9][self._kernel.EXPLORED])

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on; a search that found nothing goes on from the next state, if there is one."""
        e = self._encoded
        self.status, self._memo = self._kernel.run(
            *(e.code, e.a, e.b, e.info, self._viable),
            *(self._search, self._memo, steps, bytes_max),
        )
        self._note_furthest()
        if self.status == NONE and self._states:
            self._explored_before = self.explored
            self._next_state()
        return self.status

    def _note_furthest(self) -> None:
        kernel, control = self._kernel, self._search[9]
        if control[kernel.FURTHEST] > self._furthest:
            self._furthest = int(control[kernel.FURTHEST])
            self._blocked = int(control[kernel.BLOCKED])
            self.blocked_state = int(control[kernel.BLOCKED_STATE])

    def order(self) -> Int64s:
        """Return positions in the order found."""
        stack, control = self._search[8], self._search[9]
        order: Int64s = stack[: control[self._kernel.DEPTH], 0].copy()
        return order

    def blocked(self) -> int:
        """Return the operation that no order has completed so far."""
        return self._blocked


class FrontierRun:
    """`linearizability.kernels.frontier` on one key of a register or compare-and-set register."""

    algorithm = "frontier"

    def __init__(
        self, kernels: Kernels, encoded: Encoded, states: Sequence[int], width_max: int
    ) -> None:
        e = encoded
        assert APPEND not in e.code, "the frontier knows no appends"
        self._kernel = kernels.frontier
        self._encoded = e
        self.width_max = width_max
        self.blocked_state: int | None = None
        self.status = RUNNING
        known, codes = np.unique(np.concatenate([states, e.a, e.b]), return_inverse=True)
        at = len(states)
        self._initial = codes[:at].astype(np.int64)
        self._a = codes[at : at + len(e.a)].astype(np.int64)
        self._b = codes[at + len(e.a) :].astype(np.int64)
        self._fixed, self._moving, self._pools = self._kernel.begin(
            *(e.code, self._a, self._b, e.invoke_ns, e.complete_ns, e.info),
            *(self._initial, len(known)),
        )
        self._control: Any = self._moving[10]

    @property
    def explored(self) -> int:
        """Configurations expanded."""
        return int(self._control[self._kernel.EXPLORED])

    @property
    def truncated(self) -> bool:
        """Whether configurations were thrown away, so that dying out proves nothing."""
        return bool(self._control[self._kernel.TRUNCATED])

    def advance(self, steps: int, bytes_max: int) -> int:
        """Go on for about `steps` configurations."""
        self.status, self._pools = self._kernel.run(
            *(self._encoded.code, self._a, self._b, self._fixed, self._moving, self._pools),
            *(self.width_max, steps, bytes_max),
        )
        return self.status

    def order(self) -> Int64s:
        """Return positions in the order found; from the first of the initial states only."""
        placed, events = self._kernel.placements(self._pools)
        order: Int64s = self._kernel.weave(
            *(self._encoded.code, self._a, self._b, self._encoded.info, self._fixed),
            *(placed, events, self._initial[0]),
        )
        return order

    def blocked(self) -> int:
        """Return the operation at the return of which no configuration was left, or the next."""
        entries, event = self._fixed[10], int(self._control[self._kernel.EVENT])
        count = len(self._encoded.code)
        later = entries[event:]
        returns = later[later >= count]
        return int(returns[0]) - count if len(returns) else -1


def warm(kernels: Kernels, algorithm: str) -> None:
    """Compile a search, or load it from the cache: seconds or a tenth of one, once a process."""
    if algorithm in _WARM:
        return
    none, nothing = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    empty = Encoded(none, none, none.astype(np.int8), none, none, nothing, none, none, 0, none)
    run: Run = WglRun(kernels, empty, [0])
    if algorithm == "frontier":
        run = FrontierRun(kernels, empty, [0], 16)
    run.advance(1, 1 << 20)
    run.order()
    _WARM.add(algorithm)


_WARM: set[str] = set()


def is_warm(algorithm: str) -> bool:
    """Return whether a search is compiled in this process."""
    return algorithm in _WARM

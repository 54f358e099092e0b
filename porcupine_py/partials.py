"""Partial linearizations: how far orders get, for people who look for what is wrong.

Wherever the search cannot go on, what it has placed is a partial linearization. Of those, the
longest is kept for each operation that it holds, as Porcupine does. What is kept is bounded: an
illegal history of 10,000 operations would else keep 10,000 orders of 10,000.
"""

from __future__ import annotations

from collections.abc import Sequence

PLACES_MAX = 2_000_000
"""Places in all orders of one part, beyond which only longer ones than all before are kept."""


class Longest:
    """For each operation the longest partial linearization that holds it."""

    def __init__(self, operations: int) -> None:
        self._operations = operations
        self.begin()

    def begin(self) -> None:
        """Forget everything: the search begins anew."""
        self._best: list[tuple[int, ...]] = [()] * self._operations
        self._places = 0
        self._longest = 0

    def note(self, order: Sequence[int]) -> None:
        """Take an order that does not go on."""
        length = len(order)
        if length <= self._longest and self._places > PLACES_MAX:
            return
        best = self._best
        better = [i for i in order if len(best[i]) < length]
        if better:
            kept = tuple(order)
            for i in better:
                best[i] = kept
            self._places += length
            self._longest = max(self._longest, length)

    def complete(self, order: Sequence[int]) -> None:
        """Take the order that places everything: nothing else matters then."""
        self._best = [tuple(order)]

    def orders(self) -> list[tuple[int, ...]]:
        """Return the different orders, the longest first, else as their numbers sort."""
        return sorted({order for order in self._best if order}, key=lambda o: (-len(o), o))

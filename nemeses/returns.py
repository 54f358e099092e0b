"""Nodes that come back by themselves some time after their disk was lost, before any heal."""

from __future__ import annotations

import asyncio
import contextlib
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend, BackendError
from nemeses.base import View
from nemeses.needs import disks_of


class Return:
    """One node's way back: it waits, then starts with its empty disk."""

    def __init__(self, view: View, node: str, after_ms: float) -> None:
        self.has_begun = False
        """Its lost files are given up: it cannot get them back."""
        self._task: asyncio.Task[None] | None = asyncio.create_task(
            self._come(view, node, after_ms)
        )
        self._task.add_done_callback(self._over)

    def _over(self, _: asyncio.Task[None]) -> None:
        # A task keeps its loop and so the backend, by which this is kept: neither would ever go.
        self._task = None

    async def _come(self, view: View, node: str, after_ms: float) -> None:
        await asyncio.sleep(after_ms / 1000)
        self.has_begun = True
        with contextlib.suppress(BackendError):  # the heal finds the node down
            await disks_of(view).give_up(node)
            await view.backend.join_anew(node)
            await view.backend.start(node)

    async def settle(self) -> bool:
        """Wait for its end if it has begun, else call it off; whether it had begun."""
        if self._task is not None:
            if not self.has_begun:
                self._task.cancel()
            await asyncio.wait((self._task,))
        return self.has_begun


_returns: WeakKeyDictionary[Backend, dict[str, Return]] = WeakKeyDictionary()


def come_back(view: View, node: str, after_ms: float | None) -> None:
    """Let a node whose disk was just lost come back so much later; None: not before the heal."""
    of_nodes = _returns.setdefault(view.backend, {})
    of_nodes.pop(node, None)
    if after_ms is not None:
        of_nodes[node] = Return(view, node, after_ms)


def return_of(backend: Backend, node: str) -> Return | None:
    """Return the way back of a node since its disk was lost last; None when it has none."""
    return _returns.get(backend, {}).get(node)

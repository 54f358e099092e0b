"""Nodes that start again some time after their disk was lost, before the heal."""

from __future__ import annotations

import asyncio
import contextlib
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend, BackendError
from nemeses.base import View
from nemeses.needs import disks_of


class Return:
    """The start of a node with its empty disk, after a delay."""

    def __init__(self, view: View, node: str, after_ms: float) -> None:
        self.has_begun = False
        """Whether its lost files were given up, so that they cannot be restored."""
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
        """Wait for the start if it has begun, else cancel it; return whether it had begun."""
        if self._task is not None:
            if not self.has_begun:
                self._task.cancel()
            await asyncio.wait((self._task,))
        return self.has_begun


_returns: WeakKeyDictionary[Backend, dict[str, Return]] = WeakKeyDictionary()


def come_back(view: View, node: str, after_ms: float | None) -> None:
    """Start a node whose disk was just lost after `after_ms`; None: not before the heal."""
    of_nodes = _returns.setdefault(view.backend, {})
    of_nodes.pop(node, None)
    if after_ms is not None:
        of_nodes[node] = Return(view, node, after_ms)


def return_of(backend: Backend, node: str) -> Return | None:
    """Return the delayed start of a node since it last lost its disk; None where there is none."""
    return _returns.get(backend, {}).get(node)

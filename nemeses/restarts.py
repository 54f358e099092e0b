"""How a node starts again after its disk was lost: by itself after a delay, or by a heal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from uuid import UUID
from weakref import WeakKeyDictionary

from cluster.backends.base import Backend, BackendError
from nemeses.base import View, disks_of


class Return:
    """What becomes of a node after one loss of its disk."""

    def __init__(self, was: frozenset[UUID]) -> None:
        """Describe the return of a node whose lost disk had these directory ids."""
        self._was = was
        self.has_begun = False
        """Whether its lost files were given up, so that they cannot be restored."""
        self._is_anew = False
        self._task: asyncio.Task[None] | None = None

    def begin_later(self, view: View, node: str, after_ms: float) -> None:
        """Start the node with its empty disk after a delay."""
        self._task = asyncio.create_task(self._come(view, node, after_ms))
        self._task.add_done_callback(self._over)

    def _over(self, _: asyncio.Task[None]) -> None:
        # A task keeps its loop and so the backend, by which this is kept: neither would ever go.
        self._task = None

    async def _come(self, view: View, node: str, after_ms: float) -> None:
        await asyncio.sleep(after_ms / 1000)
        with contextlib.suppress(BackendError):  # the heal finds the node down
            await self.begin(view, node)
            await view.backend.start(node)

    async def begin(self, view: View, node: str) -> None:
        """Make the dead node another replica, with an empty disk; only once for one loss.

        A heal that is repeated would otherwise wipe the voter that the node has become meanwhile.
        """
        self.has_begun = True
        _given_up.setdefault(view.backend, set()).update((node, was) for was in self._was)
        if not self._is_anew:
            await disks_of(view).give_up(node)
            await view.backend.join_anew(node)
            self._is_anew = True

    async def settle(self) -> bool:
        """Wait for the start if it has begun, else cancel it; return whether it had begun."""
        if self._task is not None:
            if not self.has_begun:
                self._task.cancel()
            await asyncio.wait((self._task,))
        return self.has_begun


_returns: WeakKeyDictionary[Backend, dict[str, Return]] = WeakKeyDictionary()
_given_up: WeakKeyDictionary[Backend, set[tuple[str, UUID]]] = WeakKeyDictionary()


def lose(view: View, node: str, was: Iterable[UUID]) -> Return:
    """Note that a node just lost its disk, which had these directory ids."""
    way = _returns.setdefault(view.backend, {})[node] = Return(frozenset(was))
    return way


def return_of(backend: Backend, node: str) -> Return | None:
    """Return what becomes of a node since it last lost its disk; None where it never did."""
    return _returns.get(backend, {}).get(node)


def gave_up(backend: Backend, node: str, directory: UUID) -> bool:
    """Whether that directory of the node is lost for good."""
    return (node, directory) in _given_up.get(backend, ())

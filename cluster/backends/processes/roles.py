"""Where each node listens from its next start on, which says what roles it has."""

from __future__ import annotations

from cluster.backends.base import BackendError, NodeState
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.systems.base import Listeners


class NodeRoles:
    """See `cluster.backends.abilities.Roles`."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend

    def listeners(self, node: str) -> Listeners:
        return self._backend.system.listeners(int(node[1:]))

    async def change(self, node: str, listeners: Listeners) -> None:
        if (state := await self._backend.state(node)) is not NodeState.DEAD:
            raise BackendError(f"{node} cannot have other roles: it is {state}")
        change = self._backend.system.change_listeners
        assert change is not None, "it has the ability"
        change(int(node[1:]), listeners)
        await self._backend.configure(node)

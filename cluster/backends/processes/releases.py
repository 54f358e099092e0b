"""The release that each node is started as, the one that it printed, and where it listens."""

from __future__ import annotations

import json

from cluster.backends.base import BackendError, NodeState
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.systems.base import Listeners, TraceReader


class NodeReleases:
    """See `cluster.backends.abilities.Releases`."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        self._outputs = {node: _Output() for node in backend.nodes}

    @property
    def names(self) -> tuple[str, ...]:
        return self._backend.system.releases

    def number(self, node: str) -> int:
        return self._backend.releases[node]

    async def choose(self, node: str, number: int) -> None:
        await self._backend.configure_release(node, number)

    async def measure(self, node: str) -> str | None:
        output = self._outputs[node]
        try:
            while data := await self._backend.read_trace(node, output.position):
                if output.reader is None:
                    folder = self._backend.node_folder(node)
                    output.reader = self._backend.system.trace_reader(folder)
                output.take(data)
        except BackendError:
            return None  # its host cannot be reached now
        return output.release


class _Output:
    """What a node wrote so far, and the release that its last process printed."""

    def __init__(self) -> None:
        self.position = 0
        self.reader: TraceReader | None = None
        self.release: str | None = None

    def take(self, data: bytes) -> None:
        """Read on."""
        self.position += len(data)
        for line in () if self.reader is None else self.reader.take(data).splitlines():
            event = json.loads(line)
            if event["e"] == "start":
                self.release = None
            elif event["e"] == "release":
                self.release = f"{event['version']}, commit {event['commit']}"


class NodeRoles:
    """See `cluster.backends.abilities.Roles`: listeners say what roles a node has."""

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

"""Log directories that are taken away from a node, over a `Host`: renamed, and a file in the place.

So every call by a name in the directory fails (ENOTDIR), and a node that starts meanwhile cannot
make the directory anew. What the node has open it still writes to, as after a lazy unmount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from cluster.backends.base import BackendError, Probe
from cluster.backends.machine.programs import Machine

_AWAY = ".away"
_DETACH = 'test -d "$1" && mv -T "$1" "$1$2" && touch "$1"'
_ATTACH = 'if test -e "$1$2"; then rm -f "$1" && mv -T "$1$2" "$1"; fi'


class HostDetachable:
    """See `cluster.backends.abilities.Detachable`.

    `folders`: of each node what may be in its `log.dirs`, that of the metadata first.
    """

    def __init__(
        self, machines: Mapping[str, Machine], folders: Mapping[str, Sequence[PurePath]]
    ) -> None:
        self._machines = machines
        self._folders = folders

    async def probe(self) -> Probe:
        """See `Detachable.probe`: a rename works everywhere."""
        return Probe(possible=True)

    async def detach(self, node: str) -> str:
        """See `Detachable.detach`."""
        _, *others = self._folders[node]
        for folder in reversed(others):
            if await self._done(node, _DETACH, folder):
                return folder.name
        raise BackendError(f"{node} has one log directory")

    async def attach(self, node: str) -> None:
        """See `Detachable.attach`."""
        _, *others = self._folders[node]
        for folder in others:
            if not await self._done(node, _ATTACH, folder):
                raise BackendError(f"{node}: {folder.name} cannot be given back")

    async def _done(self, node: str, script: str, folder: PurePath) -> bool:
        command = ("sh", "-c", script, "sh", str(folder), _AWAY)
        return (await self._machines[node].run(command)).exit_code == 0

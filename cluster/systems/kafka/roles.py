"""Which node of a run is a controller, a broker or both: the option `roles` of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.names import unknown
from cluster.systems.base import EVERY_LISTENER, Listeners
from cluster.systems.kinds import SettingError

OPTION: Final = "roles"
COMBINED: Final = "combined"
_LISTENERS: Final[Mapping[str, Listeners]] = {
    "controller": ("CONTROLLER",),
    "broker": ("CLIENT",),
    COMBINED: EVERY_LISTENER,
}


class Roles:
    """The roles of n1, n2, ...; the last is that of all further nodes."""

    def __init__(self, words: str = COMBINED) -> None:
        """`words`: joined by commas. Raises SettingError for one that is not known."""
        self._words = tuple(word.strip() for word in words.split(","))
        for word in self._words:
            if word not in _LISTENERS:
                raise SettingError(f"system_options.{OPTION}: {unknown('role', word, _LISTENERS)}")

    def listeners(self, node_id: int) -> Listeners:
        return _LISTENERS[self._words[min(node_id, len(self._words)) - 1]]

    def of_all(self, nodes: int) -> tuple[Listeners, ...]:
        """Say where each node listens. Raises SettingError for too few, or without both roles."""
        if len(self._words) > nodes:
            count = len(self._words)
            raise SettingError(
                f"system_options.{OPTION}: {count} roles are more than {nodes} nodes; "
                f"give --nodes {count}"
            )
        found = tuple(self.listeners(node_id) for node_id in range(1, nodes + 1))
        for listener, role in (("CONTROLLER", "controller"), ("CLIENT", "broker")):
            if not any(listener in listeners for listeners in found):
                raise SettingError(f"system_options.{OPTION}: none of {nodes} nodes is a {role}")
        return found

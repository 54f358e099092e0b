"""What a node says of itself on its standard output, a line each: for people, not for programs.

It is learnt from the node's own trace, which passes through `AnnouncingTrace`. A
healthy node says that it started, when it begins and ends to be the active controller, and when its
broker is fenced and unfenced; no more. One that is not says which log directory went offline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.node.config import NodeConfig
from cluster.node.ports import Trace

_LINES: Final = {
    "claim": "is the active controller, in epoch {epoch}",
    "renounce": "is no longer the active controller of epoch {epoch}",
    "log-directory-offline": (
        "log directory {log_dir} is offline: {reason}; restart the node once the disk is well again"
    ),
    "broker-state fenced": "the broker is registered with epoch {broker_epoch} and fenced",
    "broker-state running": "the broker is unfenced",
    "broker-state shutting-down": "the broker asks to be let go",
    "unregistered": (
        "the broker is no longer registered ({reason} for epoch {broker_epoch}); "
        "restart it to register it anew"
    ),
    "unregistered yet": "the broker is not registered yet, and tries on: {reason}",
}


class AnnouncingTrace:
    """A `Trace` that says some of what it passes on."""

    def __init__(self, trace: Trace, say: Callable[[str], None]) -> None:
        self._trace = trace
        self._say = say

    def __call__(self, event: str, /, **fields: Any) -> None:
        """Pass an event on, then say what it means."""
        self._trace(event, **fields)
        line = _line(event, fields)
        if line is not None:
            self._say(line)


def start_line(config: NodeConfig) -> str:
    """Say what a node is and where it listens."""
    roles = " and ".join(sorted(config.process_roles, reverse=True))
    where = ", ".join(f"{e.name}://{e.host}:{e.port}" for e in config.listeners)
    line = f"{roles} of cluster {config.cluster_id} started, listening on {where}"
    if "broker" in config.process_roles and not config.kraftprobe_registration:
        line += "; the broker does not register (kraftprobe.registration=false)"
    open_to_all = [e.name for e in config.listeners if not config.security[e.name].authenticates]
    if open_to_all:
        line += f"; whoever reaches {', '.join(open_to_all)} is not authenticated"
    return line


def _line(event: str, fields: dict[str, Any]) -> str | None:
    if event == "broker-state":
        event = f"{event} {fields['state']}"
    elif event == "unregistered" and fields["broker_epoch"] < 0:
        event = "unregistered yet"
    line = _LINES.get(event)
    return None if line is None else line.format(**fields)

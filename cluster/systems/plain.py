"""A system of small programs of one's own: what is usual of them, to be changed where it is not."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path, PurePath

from cluster.node.security.connecting import PLAINTEXT, ClientSecurity
from cluster.systems.base import EVERY_LISTENER, Listeners, Names, Placement, Ready, TraceReader

_PROCESSES = frozenset({"kill", "stop", "pause", "restart"})
_DISKS = frozenset({"disk-stall", "disk-slow", "disk-full", "power-loss", "torn-write"})
_LINKS = frozenset({"partition", "loss", "delay", "reorder", "duplicate", "bandwidth"})


def usual_faults(*, announces: bool) -> Mapping[str, frozenset[str]]:
    """Return what any replicated system can be put under, by backend, for `SystemKind.faults`.

    `announces`: its members tell each other, or have to agree on, where each of them listens. Then
    they do not dial what backend `local` has before each link, which carries no fault of links.
    """
    anywhere = _PROCESSES | _DISKS
    local = anywhere if announces else anywhere | _LINKS
    return {"local": local, "netns": anywhere | _LINKS, "docker": anywhere | _LINKS}


class PlainLayout:
    """See `cluster.systems.base.Layout`. A node keeps its data in `data` and writes no trace."""

    def data_folder(self, folder: PurePath) -> PurePath:
        """Locate the folder that faults of disks hit."""
        return folder / "data"

    def log_folder(self, folder: PurePath) -> PurePath:
        """See `data_folder`."""
        return self.data_folder(folder)

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        """See `data_folder`."""
        return (self.data_folder(folder),)

    def trace_file(self, folder: PurePath) -> PurePath:
        """Locate what is never written."""
        return folder / "trace.jsonl"

    def trace_source(self, folder: PurePath) -> PurePath:
        """See `trace_file`."""
        return self.trace_file(folder)

    def trace_reader(self, folder: PurePath) -> TraceReader | None:  # noqa: ARG002  (contract)
        """Nothing is known of a node."""
        return None


class PlainSystem(PlainLayout):
    """See `cluster.systems.base.System`; `name` and `command` are missing.

    A node listens at both of its endpoints without TLS, answers a line with something, and ends
    when it gets SIGTERM.
    """

    name: str
    mutant: str | None = None
    ping = b"?\n"
    client_security: ClientSecurity = PLAINTEXT
    stop_timeout_s = 2.0
    stop_codes = frozenset({0, -signal.SIGTERM})
    releases: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()
    mapped: tuple[str, ...] = ()
    image: str | None = None
    ready_timeout_s = 120.0
    ready_listeners: Listeners = EVERY_LISTENER
    ready: Ready | None = None
    ports: tuple[str, ...] = ()
    names: Names = "with-file"

    def listeners(self, node_id: int) -> Listeners:  # noqa: ARG002  (contract)
        """See `System.listeners`: everywhere."""
        return EVERY_LISTENER

    def files(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        """Render no configuration."""
        return {}

    def environment(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        """Let output reach the log before a kill can lose it, should it be Python's."""
        return {"PYTHONUNBUFFERED": "1"}

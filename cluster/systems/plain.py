"""A system of small programs of one's own: what is usual of them, to be changed where it is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath

from cluster.node.security.tls import PLAINTEXT, ClientSecurity
from cluster.systems.base import Layout, Names, Placement, System

_PROCESSES = frozenset({"kill", "stop", "pause", "restart"})
_DISKS = frozenset({"disk-stall", "disk-slow", "disk-full", "power-loss", "torn-write"})
_LINKS = frozenset({"partition", "loss", "delay", "reorder", "duplicate", "bandwidth"})


def usual_faults(*, announces: bool, damages: Collection[str] = ()) -> Mapping[str, frozenset[str]]:
    """Return what any replicated system can be put under, by backend, for `SystemKind.faults`.

    `announces`: its members tell each other, or have to agree on, where each of them listens. Then
    they do not dial what backend `local` has before each link, which carries no fault of links.
    `damages`: of bit-flip and truncate-file, those of which it says where (`System.damageable`).
    """
    anywhere = _PROCESSES | _DISKS | frozenset(damages)
    local = anywhere if announces else anywhere | _LINKS
    return {"local": local, "netns": anywhere | _LINKS, "docker": anywhere | _LINKS}


class PlainLayout(Layout):
    """See `cluster.systems.base.Layout`. A node keeps its data in `data` and writes no trace."""

    def data_folder(self, folder: PurePath) -> PurePath:
        return folder / "data"

    def log_folder(self, folder: PurePath) -> PurePath:
        return self.data_folder(folder)

    def log_dirs(self, folder: PurePath) -> tuple[PurePath, ...]:
        return (self.data_folder(folder),)


class PlainSystem(PlainLayout, System):
    """See `cluster.systems.base.System`; `name` and `command` are missing.

    A node listens at both of its endpoints without TLS, answers a line with something, and ends
    when it gets SIGTERM.
    """

    ping = b"?\n"
    client_security: ClientSecurity = PLAINTEXT
    stop_timeout_s = 2.0
    stop_codes = frozenset({0, -15, 143})  # the last as JVMs and shells have it
    ready_timeout_s = 120.0
    names: Names = "with-file"

    def files(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        return {}

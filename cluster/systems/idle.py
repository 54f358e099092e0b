"""A node that does nothing but answer: what a throw-away cluster is made of.

Whether a place can be hurt in some way is best found out where the place is up. This system starts
in some 20 ms, imports nothing but the standard library, writes no data and echoes what it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from cluster.node.security.connecting import PLAINTEXT, ClientSecurity
from cluster.systems import echo
from cluster.systems.base import Placement

_PROGRAM = Path(echo.__file__).read_text(encoding="utf-8")


class IdleSystem:
    """See `cluster.systems.base.System`."""

    name = "idle"
    mutant: str | None = None
    ping = b"?"
    stop_timeout_s = 2.0

    def __init__(self, client_security: ClientSecurity = PLAINTEXT) -> None:
        """`client_security`: of the nodes that it stands for; it asks for none itself."""
        self.client_security = client_security

    def files(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        """It needs none."""
        return {}

    def command(self, node: Placement) -> tuple[str, ...]:
        """Listen at both endpoints."""
        listeners = (node.client, node.controller)
        addresses = (part for listener in listeners for part in (listener.host, str(listener.port)))
        return (node.interpreter, "-I", "-S", "-c", _PROGRAM, *addresses)

    def environment(self, node: Placement) -> Mapping[str, str]:  # noqa: ARG002  (contract)
        """It needs none."""
        return {}

    def data_folder(self, folder: PurePath) -> PurePath:
        """It has no data; faults of disks find an empty folder here."""
        return folder / "data"

    def log_folder(self, folder: PurePath) -> PurePath:
        """See `data_folder`."""
        return self.data_folder(folder)

    def trace_file(self, folder: PurePath) -> PurePath | None:  # noqa: ARG002  (contract)
        """It writes none."""
        return None

"""A node that does nothing but answer: what a throw-away cluster is made of.

Whether a place can be hurt in some way is best found out where the place is up. This system starts
in some 20 ms, imports nothing but the standard library, writes no data and echoes what it is sent.
"""

from __future__ import annotations

from pathlib import Path

from cluster.node.security.tls import PLAINTEXT, ClientSecurity
from cluster.systems import echo
from cluster.systems.base import Placement
from cluster.systems.plain import PlainSystem

_PROGRAM = Path(echo.__file__).read_text(encoding="utf-8")


class IdleSystem(PlainSystem):
    """See `cluster.systems.base.System`."""

    name = "idle"
    releases: tuple[str, ...] = ("before", "after")

    def __init__(self, client_security: ClientSecurity = PLAINTEXT) -> None:
        """`client_security`: of the nodes that it stands for; it asks for none itself."""
        self.client_security = client_security

    def command(self, node: Placement) -> tuple[str, ...]:
        listeners = (node.client, node.controller)
        addresses = (part for listener in listeners for part in (listener.host, str(listener.port)))
        return (node.interpreter, "-I", "-S", "-c", _PROGRAM, *addresses)

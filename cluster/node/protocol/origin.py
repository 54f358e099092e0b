"""The origin of a request: its principal and its address, as a listener learned them."""

from __future__ import annotations

from typing import Final

from cluster.values import valueclass


@valueclass
class Origin:
    """A KafkaPrincipal, and where it connects from."""

    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    """The user that SASL proved, with TLS alone the subject of the client's certificate; ANONYMOUS
    where neither is asked for."""
    address: str = ""
    """IPv4 or IPv6, empty where there is none."""
    client_id: str = ""


ANONYMOUS: Final = Origin()

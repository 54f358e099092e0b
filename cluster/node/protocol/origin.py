"""The origin of a request: its principal and its address, as a listener learned them."""

from __future__ import annotations

from typing import Final

from cluster.values import valueclass


@valueclass
class Origin:
    """A KafkaPrincipal, and where it connects from."""

    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    """The user that SASL proved; ANONYMOUS where no proof is asked for, with TLS alone too."""
    address: str = ""
    """IPv4 or IPv6, empty where there is none."""
    client_id: str = ""


ANONYMOUS: Final = Origin()

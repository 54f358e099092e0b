"""How one side connects: with TLS or without, as a user or as none."""

from __future__ import annotations

import ssl
from typing import Final

from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import ClientExchange, client_exchange
from cluster.node.security.settings import ListenerSecurity
from cluster.node.security.tls import client_context
from cluster.values import valueclass


@valueclass
class ClientSecurity:
    """What a connection to a listener needs."""

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    credentials: Credentials | None = None

    def begin(self) -> ClientExchange | None:
        """Begin to authenticate on a new connection; None where nobody asks."""
        if self.mechanism is None:
            return None
        assert self.credentials is not None
        return client_exchange(self.mechanism, self.credentials)


PLAINTEXT: Final = ClientSecurity()


def client_security(listener: ListenerSecurity) -> ClientSecurity:
    """Return how a node connects to its peers' listener of this security.

    Raises SecuritySettingsError for files that cannot be used. A SASL listener that names no
    mechanism for peers cannot be connected to this way.
    """
    sasl = listener.sasl
    assert sasl is None or sasl.client_mechanism is not None, "no mechanism for peers"
    return ClientSecurity(
        None if listener.tls is None else client_context(listener.tls),
        None if sasl is None else sasl.client_mechanism,
        None if sasl is None else sasl.own,
    )

"""How one side connects: with TLS or without, as a user or as none."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from cluster.node.security.jaas import Credentials
from cluster.node.security.mechanisms import ClientExchange, client_exchange
from cluster.node.security.settings import (
    ClientAuth,
    ListenerSecurity,
    SecuritySettingsError,
    TlsSettings,
)
from cluster.values import valueclass

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises SecuritySettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, settings)
    assert settings.key_store is not None, "a listener has a certificate"
    _load_key(context, settings.key_store, settings.key_password)
    if settings.trust_store is not None:
        _load_trusted(context, settings.trust_store)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return how a node connects to peers, certificate shown. Raises SecuritySettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host_name
    _set_versions(context, settings)
    if settings.key_store is not None:
        _load_key(context, settings.key_store, settings.key_password)
    if settings.trust_store is not None:
        _load_trusted(context, settings.trust_store)
    else:
        context.load_default_certs()
    return context


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_key(context: ssl.SSLContext, path: Path, key_password: str | None) -> None:
    def password() -> str:
        return key_password or ""  # without a function OpenSSL asks on the terminal

    try:
        context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        raise SecuritySettingsError(
            f"ssl.keystore: {path}: no usable key and certificate: {_reason(error)}"
        ) from error


def _load_trusted(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise SecuritySettingsError(
            f"ssl.truststore: {path}: no usable certificate: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


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
    """Return how a node connects to peers' listeners. Raises SecuritySettingsError."""
    sasl = listener.sasl
    assert sasl is None or sasl.client_mechanism is not None, "no mechanism for peers"
    return ClientSecurity(
        None if listener.tls is None else client_context(listener.tls),
        None if sasl is None else sasl.client_mechanism,
        None if sasl is None else sasl.own,
    )

"""TLS contexts from settings. Python's `ssl` reads keys from files only."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from cluster.node.security.settings import ClientAuth, Pem, SecuritySettingsError, TlsSettings

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
    _load_key(context, settings)
    if settings.trusted is not None:
        _load_trusted(context, settings.trusted)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context with which a node connects to its peers: it shows its certificate too.

    Raises SecuritySettingsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host_name
    _set_versions(context, settings)
    if settings.certificate_chain is not None:
        _load_key(context, settings)
    if settings.trusted is not None:
        _load_trusted(context, settings.trusted)
    else:
        context.load_default_certs()
    return context


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    chain, key = settings.certificate_chain, settings.private_key
    assert chain is not None

    def password() -> str:
        return settings.key_password or ""  # without a function OpenSSL asks on the terminal

    try:
        if chain.path is not None:
            context.load_cert_chain(chain.path, password=password)
            return
        assert chain.text is not None
        assert key is not None
        assert key.text is not None
        with tempfile.TemporaryDirectory(prefix="kraftprobe-tls-") as folder:  # mode 0700
            path = Path(folder) / "keystore.pem"
            path.write_text(f"{key.text}\n{chain.text}\n", encoding="utf-8")
            context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        name = "ssl.keystore.certificate.chain" if chain.path is None else str(chain.path)
        raise SecuritySettingsError(
            f"ssl.keystore: {name}: no usable key and certificate: {_reason(error)}"
        ) from error


def _load_trusted(context: ssl.SSLContext, trusted: Pem) -> None:
    try:
        if trusted.path is not None:
            context.load_verify_locations(cafile=trusted.path)
        else:
            context.load_verify_locations(cadata=trusted.text)
    except (OSError, ValueError) as error:
        name = "ssl.truststore.certificates" if trusted.path is None else str(trusted.path)
        raise SecuritySettingsError(
            f"ssl.truststore: {name}: no usable certificate: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

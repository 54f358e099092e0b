"""A certificate authority of one run: it lives as long as the run, and nobody else believes it.

Certificates name the hosts that nodes are dialled at, IP addresses or names. Keys are P-256.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_VALID: Final = dt.timedelta(days=30)
"""Longer than any campaign."""
_BEFORE: Final = dt.timedelta(days=1)
"""Clocks of hosts may be behind."""
_COMMON_NAME_CHARACTERS_MAX: Final = 64


class Authority:
    """Makes a key of its own, and certificates that it has signed."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(f"Kraftprobe run {name}")
        unsigned = _builder(subject, self._key, subject, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = unsigned.add_extension(usage, critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def certificate(self) -> str:
        """Its own certificate as PEM, to be trusted."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def key_store(self, name: str, hosts: Iterable[str]) -> str:
        """Return a private key and its certificate for these hosts, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general_name(host) for host in dict.fromkeys(hosts)]
        certificate = (
            _builder(_common_name(name), key, self._certificate.subject, self._key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return (private + certificate.public_bytes(Encoding.PEM)).decode()


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    """Begin a certificate; its key identifiers are what strict clients demand (RFC 5280, 4.2.1.1).

    Python is one of them from 3.13 on (`ssl.VERIFY_X509_STRICT`).
    """
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )


def _common_name(name: str) -> x509.Name:
    common = name[:_COMMON_NAME_CHARACTERS_MAX]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

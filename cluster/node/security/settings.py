"""The security keys of a node's configuration, by Kafka's names.

Every key but `listener.security.protocol.map` may also be given for one listener, as
`listener.name.<listener in lower case>.<key>`, which counts more. `<mechanism>.sasl.jaas.config` is
given for a listener only. Users of SCRAM are `user_NAME="password"` there too, as they are for
PLAIN: an extension, since Kafka finds them in its metadata alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cluster.names import unknown
from cluster.node.security.jaas import Credentials, JaasError, JaasLine, parse_jaas
from cluster.values import whole_number

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
_LOGIN_MODULES: Final[Mapping[str, str]] = {
    PLAIN: "PlainLoginModule",
    SCRAM_SHA_256: "ScramLoginModule",
    SCRAM_SHA_512: "ScramLoginModule",
}
MECHANISMS: Final = tuple(_LOGIN_MODULES)
DEFAULT_MAX_RECEIVE_BYTES: Final = 524_288
"""Kafka's `sasl.server.max.receive.size`: the longest frame before authentication."""


class SecuritySettingsError(ValueError):
    """A security key that cannot be used; one line that begins with the key."""


class SecurityProtocol(enum.Enum):
    """How bytes travel on a listener. The value is Kafka's id of the protocol."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def is_encrypted(self) -> bool:
        """Whether it is TLS."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def is_authenticated(self) -> bool:
        """Whether it asks for SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ClientAuth(enum.Enum):
    """Whether a TLS listener asks for the client's certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What TLS on one listener is made of."""

    key_store: Path | None
    """Private key and certificate chain; None: a client that shows none."""
    key_password: str | None = field(repr=False)
    trust_store: Path | None
    """None: what the operating system trusts."""
    client_auth: ClientAuth
    protocols: tuple[str, ...]
    """Of "TLSv1.2" and "TLSv1.3"."""
    verifies_host_name: bool


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The users of one listener, and the user as which this node connects to its peers'."""

    mechanisms: tuple[str, ...]
    users: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Mechanism -> user -> password."""
    client_mechanism: str | None
    own: Credentials | None
    max_receive_bytes: int


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener."""

    protocol: SecurityProtocol
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def authenticates(self) -> bool:
        """Whether everybody who connects has to prove a name: by SASL, or by a certificate."""
        if self.sasl is not None:
            return True
        return self.tls is not None and self.tls.client_auth is ClientAuth.REQUIRED


PROTOCOL_MAP: Final = "listener.security.protocol.map"
_KEYS: Final = (
    PROTOCOL_MAP,
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.principal.mapping.rules",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.server.max.receive.size",
)
_JAAS_KEYS: Final = tuple(f"{name.lower()}.sasl.jaas.config" for name in MECHANISMS)
_PREFIX: Final = "listener.name."
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
KEYS: Final = _KEYS


def listener_key(key: str) -> tuple[str, str] | None:
    """Split `listener.name.<listener>.<key>` into listener and key; None for other keys."""
    if not key.startswith(_PREFIX):
        return None
    listener, _, rest = key.removeprefix(_PREFIX).partition(".")
    known = rest in _JAAS_KEYS or (rest in _KEYS and rest != PROTOCOL_MAP)
    return (listener, rest) if listener and known else None


def parse_security(
    properties: Mapping[str, str], listeners: Sequence[str], controller_listeners: Sequence[str]
) -> dict[str, ListenerSecurity]:
    """Read each listener's security, by its map or its own name. SecuritySettingsError."""
    protocols = _protocols(properties.get(PROTOCOL_MAP, ""), listeners)
    lowered = {name.lower() for name in listeners}
    for key in properties:
        split = listener_key(key)
        if split is not None and split[0] not in lowered:
            raise SecuritySettingsError(f"{key}: {unknown('listener', split[0], sorted(lowered))}")
    found = {}
    for name in listeners:
        values = _Values(properties, name)
        protocol = protocols[name]
        found[name] = ListenerSecurity(
            protocol,
            _tls(values, with_sasl=protocol.is_authenticated) if protocol.is_encrypted else None,
            _sasl(values, is_controller=name in controller_listeners)
            if protocol.is_authenticated
            else None,
        )
    return found


class _Values:
    """The values that hold for one listener."""

    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._properties = properties
        self._prefix = f"{_PREFIX}{listener.lower()}."

    def get(self, key: str) -> str | None:
        return self._properties.get(self.name(key))

    def name(self, key: str) -> str:
        """Return the key as the file has it, or would have it."""
        own = self._prefix + key
        return own if own in self._properties or key in _JAAS_KEYS else key

    def choice(self, key: str, default: str, choices: Sequence[str]) -> str:
        value = self.get(key)
        value = default if value is None else value
        if value not in choices:
            raise SecuritySettingsError(f"{self.name(key)}: {unknown('value', value, choices)}")
        return value

    def choices(self, key: str, default: str, choices: Sequence[str]) -> tuple[str, ...]:
        value = self.get(key)
        items = tuple(item.strip() for item in (default if value is None else value).split(","))
        for item in items:
            if item not in choices:
                raise SecuritySettingsError(f"{self.name(key)}: {unknown('value', item, choices)}")
        return items

    def path(self, key: str) -> Path | None:
        value = self.get(key)
        return None if value is None else Path(value)


def _protocols(text: str, listeners: Sequence[str]) -> dict[str, SecurityProtocol]:
    protocols = {
        name: SecurityProtocol.__members__.get(name.upper(), SecurityProtocol.PLAINTEXT)
        for name in listeners
    }
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = item.partition(":")
        if not colon:
            raise SecuritySettingsError(f"{PROTOCOL_MAP}: expected LISTENER:PROTOCOL, not {item!r}")
        if protocol not in SecurityProtocol.__members__:
            names = list(SecurityProtocol.__members__)
            raise SecuritySettingsError(
                f"{PROTOCOL_MAP}: {unknown('security protocol', protocol, names)}"
            )
        if name in protocols:  # others' listeners may be in a map that all nodes share
            protocols[name] = SecurityProtocol[protocol]
    return protocols


def _tls(values: _Values, *, with_sasl: bool) -> TlsSettings:
    for store in ("ssl.keystore.type", "ssl.truststore.type"):
        values.choice(store, "PEM", ("PEM",))
    # The subject itself names a client: rules would decide rights, which nobody has here (KIP-371).
    values.choice("ssl.principal.mapping.rules", "DEFAULT", ("DEFAULT",))
    key_store = values.path("ssl.keystore.location")
    if key_store is None:
        location = values.name("ssl.keystore.location")
        raise SecuritySettingsError(f"{location}: is missing, a TLS listener needs a certificate")
    trust_store = values.path("ssl.truststore.location")
    key, choices = "ssl.client.auth", [auth.value for auth in ClientAuth]
    client_auth = ClientAuth(values.choice(key, "none", choices))
    if with_sasl and values.name(key) == key:  # said of all listeners it is for SSL alone (KIP-684)
        client_auth = ClientAuth.NONE
    if client_auth is not ClientAuth.NONE and trust_store is None:
        raise SecuritySettingsError(
            f"{values.name(key)}: {client_auth.value} needs ssl.truststore.location"
        )
    return TlsSettings(
        key_store=key_store,
        key_password=values.get("ssl.key.password"),
        trust_store=trust_store,
        client_auth=client_auth,
        protocols=values.choices("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", _TLS_VERSIONS),
        verifies_host_name=values.choice(
            "ssl.endpoint.identification.algorithm", "https", ("https", "")
        )
        == "https",
    )


def _sasl(values: _Values, *, is_controller: bool) -> SaslSettings:
    key = "sasl.enabled.mechanisms"
    if values.get(key) is None:
        raise SecuritySettingsError(f"{values.name(key)}: is missing, a SASL listener needs it")
    mechanisms = values.choices(key, "", MECHANISMS)
    lines = {name: line for name in mechanisms if (line := _jaas(values, name)) is not None}
    which = "controller" if is_controller else "inter.broker"
    client_key = f"sasl.mechanism.{which}.protocol"
    client = values.get(client_key)
    if client is None and is_controller:
        raise SecuritySettingsError(f"{client_key}: is missing, the controller listener asks SASL")
    if client is not None and (client not in lines or lines[client].own is None):
        jaas = values.name(f"{client.lower()}.sasl.jaas.config")
        raise SecuritySettingsError(
            f"{values.name(client_key)}: {client} needs username and password in {jaas}"
            if client in mechanisms
            else f"{values.name(client_key)}: {unknown('mechanism', client, mechanisms)}"
        )
    return SaslSettings(
        mechanisms=mechanisms,
        users={name: lines[name].users if name in lines else {} for name in mechanisms},
        client_mechanism=client,
        own=None if client is None else lines[client].own,
        max_receive_bytes=_size(values, "sasl.server.max.receive.size"),
    )


def _jaas(values: _Values, mechanism: str) -> JaasLine | None:
    key = f"{mechanism.lower()}.sasl.jaas.config"
    text = values.get(key)
    if text is None:
        return None
    try:
        line = parse_jaas(text)
    except JaasError as error:
        raise SecuritySettingsError(f"{values.name(key)}: {error}") from error
    if line.module != _LOGIN_MODULES[mechanism]:
        wanted = _LOGIN_MODULES[mechanism]
        raise SecuritySettingsError(f"{values.name(key)}: {mechanism} needs a {wanted}")
    return line


def _size(values: _Values, key: str) -> int:
    text = values.get(key)
    if text is None:
        return DEFAULT_MAX_RECEIVE_BYTES
    size = whole_number(text)
    if size is None or not 0 < size < 2**31:
        raise SecuritySettingsError(f"{values.name(key)}: expected a whole number, not {text!r}")
    return size

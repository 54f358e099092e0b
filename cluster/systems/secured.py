"""TLS and SASL for the nodes of a run and for the harness's own clients.

A plan says which protocol, and which mechanism; keys and passwords are made for the run. Nodes read
them in their folders, where `conceal` leaves none once the nodes have ended: what is stored of a
run, digested and passed on, holds no secret.
"""

from __future__ import annotations

import re
import secrets
import ssl
from pathlib import Path, PurePath
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from cluster.names import unknown
from cluster.node.security.jaas import Credentials
from cluster.node.security.settings import MECHANISMS, PLAIN, SCRAM_SHA_512, SecurityProtocol
from cluster.node.security.tls import ClientSecurity
from cluster.schemas import Text, render
from cluster.systems.authority import Authority
from cluster.systems.base import Placement
from cluster.values import valueclass

DEFAULT_MECHANISM: Final = SCRAM_SHA_512
KEY_STORE: Final = "keystore.pem"
TRUST_STORE: Final = "truststore.pem"
LISTENERS: Final = ("CLIENT", "CONTROLLER")
_PASSWORD: Final = re.compile(r"""((?:password|user_\w+)=)"[^"]*\"""")
_NODE: Final = "node"
_HARNESS: Final = "kraftprobe"


def _protocol(name: object) -> object:
    if isinstance(name, SecurityProtocol):
        return name
    if name not in SecurityProtocol.__members__:
        raise ValueError(unknown("protocol", render(name).strip("'"), SecurityProtocol.__members__))
    return SecurityProtocol[str(name)]


def _mechanism(name: str) -> str:
    if name not in MECHANISMS:
        raise ValueError(unknown("mechanism", name, MECHANISMS))
    return name


@valueclass
class SecuritySettings:
    """What both listeners of every node ask for, as a plan says it."""

    protocol: Annotated[SecurityProtocol, BeforeValidator(_protocol)] = SecurityProtocol.PLAINTEXT
    mechanism: Annotated[Text, AfterValidator(_mechanism)] | None = None
    """Of SASL; None without."""

    def __post_init__(self) -> None:
        if self.protocol.is_authenticated:
            object.__setattr__(self, "mechanism", self.mechanism or DEFAULT_MECHANISM)
        elif self.mechanism is not None:
            raise ValueError(f"mechanism: {self.protocol.name} asks for none")

    def to_json(self) -> dict[str, str]:
        """Render it as a plan has it; empty for no security."""
        if self.protocol is SecurityProtocol.PLAINTEXT:
            return {}
        mechanism = {} if self.mechanism is None else {"mechanism": self.mechanism}
        return {"protocol": self.protocol.name, **mechanism}


class RunSecurity:
    """Keys and passwords of one run."""

    def __init__(self, settings: SecuritySettings, run: str) -> None:
        self.settings = settings
        self._authority = Authority(run) if settings.protocol.is_encrypted else None
        self._passwords = {name: secrets.token_hex(16) for name in (_NODE, _HARNESS)}

    def files(self, node: Placement) -> dict[str, str]:
        """Render a node's key store and trust store."""
        if self._authority is None:
            return {}
        hosts = (node.client.host, node.controller.host)
        return {
            KEY_STORE: self._authority.key_store(node.name, hosts),
            TRUST_STORE: self._authority.certificate,
        }

    def properties(self, folder: PurePath) -> dict[str, object]:
        """Render the security of both listeners in a node's configuration."""
        settings = self.settings
        found: dict[str, object] = {
            "listener.security.protocol.map": ",".join(
                f"{listener}:{settings.protocol.name}" for listener in LISTENERS
            )
        }
        if self._authority is not None:
            found["ssl.keystore.type"] = found["ssl.truststore.type"] = "PEM"
            found["ssl.keystore.location"] = folder / KEY_STORE
            found["ssl.truststore.location"] = folder / TRUST_STORE
        if settings.mechanism is not None:
            found["sasl.enabled.mechanisms"] = settings.mechanism
            found["sasl.mechanism.controller.protocol"] = settings.mechanism
            found["sasl.mechanism.inter.broker.protocol"] = settings.mechanism
            for listener in LISTENERS:
                prefix = f"listener.name.{listener.lower()}.{settings.mechanism.lower()}"
                found[f"{prefix}.sasl.jaas.config"] = self._jaas(settings.mechanism)
        return found

    def _jaas(self, mechanism: str) -> str:
        kind = "plain" if mechanism == PLAIN else "scram"
        module = f"org.apache.kafka.common.security.{kind}.{kind.capitalize()}LoginModule"
        own = f'username="{_NODE}" password="{self._passwords[_NODE]}"'
        users = " ".join(f'user_{name}="{word}"' for name, word in self._passwords.items())
        return f"{module} required {own} {users};"

    def client(self) -> ClientSecurity:
        """Return how the harness connects to a node."""
        mechanism, tls = self.settings.mechanism, None
        if self._authority is not None:
            tls = ssl.create_default_context(cadata=self._authority.certificate)
        if mechanism is None:
            return ClientSecurity(tls)
        return ClientSecurity(tls, mechanism, Credentials(_HARNESS, self._passwords[_HARNESS]))

    def ping(self, plain: bytes) -> bytes:
        """Return what a node answers at once, before any authentication.

        With TLS that is the beginning of a handshake, which may be said again and again.
        """
        return plain if self._authority is None else _client_hello()


def conceal(folder: Path) -> None:
    """Remove an ended node's private key, and cover passwords there. Raises OSError."""
    (folder / KEY_STORE).unlink(missing_ok=True)
    for path in folder.glob("*.properties"):
        text = path.read_text()
        covered = _PASSWORD.sub(r'\1"[hidden]"', text)
        if covered != text:
            path.write_text(covered)


def _client_hello() -> bytes:
    sent = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    handshake = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without an answer")

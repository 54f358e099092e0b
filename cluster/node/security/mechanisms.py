"""The SASL mechanisms, both sides: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, 7677).

Tokens are bytes. A server's exchange takes the client's token and gives its own; a client's is the
mirror image. Whatever the other side sends, an exchange gives a token or raises SaslError.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.node.security.jaas import Credentials
from cluster.node.security.settings import PLAIN

if TYPE_CHECKING:  # scramp costs a tenth of a node's start, and most nodes have no SCRAM
    from scramp import ScramMechanism

MAX_ITERATIONS: Final = 16_384
"""Of a SCRAM password, as in Kafka: a server that names more would stall its client."""
SCRAM_BYTES_MAX: Final = 10_000
"""Of one message: to prepare half a megabyte of a name (RFC 4013) takes seconds."""
_WITH_EXTENSIONS: Final = re.compile(
    r"([^,]*,[^,]*,)(n=[^,]*,r=[^,]*)((?:,[A-Za-z]+=[^,\0]+)+)", re.DOTALL
)
"""A client's first message: GS2 header, name and nonce, extensions (ScramMessages)."""
_ITERATIONS: Final = re.compile(r"(?:^|,)i=([0-9]{1,9})(?:,|$)")

ScramCredential = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


class SaslError(Exception):
    """The other side failed to authenticate, or sent what no mechanism sends."""


class PlainServer:
    """PLAIN: `authzid NUL authcid NUL password`, an authzid being empty or the user's own name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.user: str | None = None
        self._users = users

    def answer(self, token: bytes) -> bytes:
        """Take the client's next token and return the server's. Raises SaslError."""
        try:
            authzid, user, password = token.decode().split("\0")
        except ValueError:
            raise SaslError("not three fields of UTF-8") from None
        if authzid not in {"", user}:
            raise SaslError("another authorization id")
        # An unknown user costs what a known one does.
        expected = self._users.get(user, "")
        equal = hmac.compare_digest(password.encode(), expected.encode())
        if not (equal and expected):
            raise SaslError("invalid user name or password")
        self.user = user
        return b""


def _scram(mechanism: str) -> ScramMechanism:
    from scramp import ScramMechanism  # noqa: PLC0415  (see above)

    return ScramMechanism(mechanism)


def _scram_errors() -> tuple[type[Exception], ...]:
    """What scramp raises at what it cannot take."""
    from scramp import ScramException  # noqa: PLC0415  (see above)

    return (ScramException, ValueError, LookupError, TypeError)


def _text(token: bytes) -> str:
    """Return a message of SCRAM. Raises ValueError."""
    if len(token) > SCRAM_BYTES_MAX:
        raise ValueError(f"a message of {len(token)} bytes")
    return token.decode()


class ScramServer:
    """SCRAM without channel binding.

    Extensions of a client's first message are passed by, as in Kafka. Their names may have more
    than the one letter that RFC 5802 allows, so scramp must not see them; the client's proof covers
    them all the same. A client that authenticates with a delegation token (`tokenauth=true`,
    KIP-48) is refused: the name that it gives is a token's, not a user's.
    """

    def __init__(self, mechanism: str, find: Callable[[str], ScramCredential | None]) -> None:
        self.user: str | None = None
        self._name: str | None = None
        self._find = find
        self._exchange = _scram(mechanism).make_server(self._credential)
        self._step = 0

    def answer(self, token: bytes) -> bytes:
        self._step += 1
        try:
            text = _text(token)
            if self._step == 1:
                self._begin(text)
                return str(self._exchange.get_server_first()).encode()
            self._exchange.set_client_final(text)
            final = str(self._exchange.get_server_final()).encode()
        except _scram_errors() as error:
            raise SaslError("invalid credentials") from error
        self.user = self._name
        return final

    def _begin(self, text: str) -> None:
        found = _WITH_EXTENSIONS.fullmatch(text)
        if found is None:
            self._exchange.set_client_first(text)
            return
        header, bare, extensions = found.groups()
        given = dict(extension.split("=", 1) for extension in extensions[1:].split(","))
        if given.get("tokenauth", "").lower() == "true":
            raise SaslError("a delegation token")
        self._exchange.set_client_first(header + bare)
        self._exchange.client_first_bare = bare + extensions

    def _credential(self, name: str) -> ScramCredential | None:
        self._name = name
        return self._find(name)


ServerExchange = PlainServer | ScramServer
"""One client's attempt. `user` is the user's name, once it is proved."""


def scram_credential(mechanism: str, password: str) -> ScramCredential:
    """Return what a server keeps of a password. Raises SaslError at one without a form."""
    try:
        made = _scram(mechanism).make_auth_info(password)
    except _scram_errors() as error:
        raise SaslError("a password has no form in SCRAM") from error
    salt, stored, server, iterations = made
    return bytes(salt), bytes(stored), bytes(server), int(iterations)


class PlainClient:
    """PLAIN, in one token."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def first(self) -> bytes:
        """Return the first token."""
        return f"\0{self._credentials.username}\0{self._credentials.password}".encode()

    def next(self, token: bytes) -> bytes | None:
        """Take the server's token; return the client's next, None at the end. Raises SaslError."""
        del token  # a server that refuses says so in its response's error code
        return None


class ScramClientExchange:
    """SCRAM; the server proves that it knows the password, too."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        from scramp import ScramClient  # noqa: PLC0415  (see above)

        self._client = ScramClient([mechanism], credentials.username, credentials.password)
        self._step = 0

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def next(self, token: bytes) -> bytes | None:
        self._step += 1
        try:
            text = _text(token)
            if self._step > 1:
                self._client.set_server_final(text)
                return None
            found = _ITERATIONS.search(text)
            if found is None or int(found[1]) > MAX_ITERATIONS:
                raise SaslError("a number of iterations out of bounds")
            self._client.set_server_first(text)
            return str(self._client.get_client_final()).encode()
        except _scram_errors() as error:
            raise SaslError("the server did not prove that it knows the password") from error


ClientExchange = PlainClient | ScramClientExchange
"""One attempt at a server."""


def client_exchange(mechanism: str, credentials: Credentials) -> ClientExchange:
    """Begin to authenticate at a server."""
    if mechanism == PLAIN:
        return PlainClient(credentials)
    return ScramClientExchange(mechanism, credentials)

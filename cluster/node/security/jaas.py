"""JAAS lines, as Kafka's `sasl.jaas.config` has them.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="n" password="p";

One login module, one control flag, options, a semicolon. No message repeats the line: it holds
passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from cluster.values import valueclass

USER_PREFIX: Final = "user_"
_TOKEN: Final = re.compile(r'\s*(?:([^\s=;"]+)(?:=("(?:[^"\\]|\\.)*"|[^\s;"]+))?|(;))')
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


class JaasError(ValueError):
    """A JAAS line that cannot be used; the message repeats none of its values."""


@valueclass
class Credentials:
    """A user's name and password; the password stays out of representations."""

    username: str
    password: str = field(repr=False)


@valueclass
class JaasLine:
    """What one line says."""

    module: str
    """The login module's class name, without its package."""
    own: Credentials | None
    """The user that the node itself connects as: `username` and `password`."""
    users: Mapping[str, str] = field(repr=False)
    """The users that may connect: `user_NAME="password"`."""


def parse_jaas(text: str) -> JaasLine:
    """Parse a line. Raises JaasError."""
    words: list[str] = []
    options: dict[str, str] = {}
    position, ended = 0, False
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None or ended:
            raise JaasError('expected MODULE required name="value" ... ;')
        position = match.end()
        word, value, semicolon = match.groups()
        if semicolon:
            ended = True
        elif value is None:
            words.append(word)
        elif word in options:
            raise JaasError(f"option {word} is given twice")
        else:
            options[word] = _unquote(value)
    if not ended:
        raise JaasError("must end with a semicolon")
    if len(words) != 2 or words[1].lower() not in _FLAGS:
        raise JaasError("expected one login module and the flag required")
    return JaasLine(words[0].rpartition(".")[2], _own(options), _users(options))


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _own(options: Mapping[str, str]) -> Credentials | None:
    if ("username" in options) != ("password" in options):
        raise JaasError("username and password must be given together")
    if "username" not in options:
        return None
    if not (options["username"] and options["password"]):
        raise JaasError("username and password must not be empty")
    return Credentials(options["username"], options["password"])


def _users(options: Mapping[str, str]) -> dict[str, str]:
    users = {
        name.removeprefix(USER_PREFIX): password
        for name, password in sorted(options.items())
        if name.startswith(USER_PREFIX)
    }
    for name, password in users.items():
        if not (name and password):
            raise JaasError(f"{USER_PREFIX}{name} must have a name and a password")
    return users

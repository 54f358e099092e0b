"""The values of a node's configuration: how each kind is written, and what it means.

Each function reads the text of one value, and raises PropertyValueError with what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.names import unknown
from cluster.node.ports import Endpoint
from cluster.values import valueclass, whole_number

CONTROLLER_ROLE: Final = "controller"
BROKER_ROLE: Final = "broker"


class PropertyValueError(ValueError):
    """What is wrong with one value, without its key."""


@valueclass
class ListenerAddress:
    """`NAME://host:port`. Without a host it is bound on every interface (`NAME://:port`)."""

    name: str
    host: str
    port: int


def whole(lowest: int, highest: int = 2**31 - 1) -> Callable[[str], int]:
    """Make a reader of whole numbers within limits."""

    def parse(text: str) -> int:
        number = None if whole_number(text.removeprefix("-")) is None else int(text)
        if number is None or not lowest <= number <= highest:
            limit = f"at least {lowest}" if highest == 2**31 - 1 else f"{lowest} to {highest}"
            raise PropertyValueError(f"expected a whole number, {limit}, not {text!r}")
        return number

    return parse


port_of = whole(1, 65535)
node_id_of = whole(0)


def text_of(text: str) -> str:
    """Read what must not be empty."""
    if not text:
        raise PropertyValueError("must not be empty")
    return text


def boolean(text: str) -> bool:
    """Read true or false."""
    if text not in {"true", "false"}:
        raise PropertyValueError(f"expected true or false, not {text!r}")
    return text == "true"


def path_of(text: str) -> Path:
    """Read a path."""
    return Path(text_of(text))


def paths(text: str) -> tuple[Path, ...]:
    """Read paths, separated by commas."""
    return tuple(Path(item) for item in items_of(text))


def items_of(text: str) -> list[str]:
    """Read what is separated by commas."""
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise PropertyValueError(f"expected a comma-separated list, not {text!r}")
    return items


def host_and_port(text: str) -> tuple[str, int]:
    """Read host:port."""
    host, colon, port = text.rpartition(":")
    if not (host and colon):
        raise PropertyValueError(f"expected host:port, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), port_of(port)


def names(text: str) -> tuple[str, ...]:
    """Read names, separated by commas."""
    return tuple(items_of(text))


def roles(text: str) -> frozenset[str]:
    """Read what a node is."""
    given = items_of(text)
    for role in given:
        if role not in {CONTROLLER_ROLE, BROKER_ROLE}:
            raise PropertyValueError(unknown("role", role, (CONTROLLER_ROLE, BROKER_ROLE)))
    if len(set(given)) != len(given):
        raise PropertyValueError("a role is named twice")
    return frozenset(given)


def listeners(text: str) -> tuple[ListenerAddress, ...]:
    """Read where a node listens, or is reached."""
    found = []
    for item in items_of(text):
        name, separator, address = item.partition("://")
        if not (name and separator):
            raise PropertyValueError(f"expected NAME://host:port, not {item!r}")
        if address.startswith(":"):
            found.append(ListenerAddress(name, "", port_of(address[1:])))
        else:
            found.append(ListenerAddress(name, *host_and_port(address)))
    if len({listener.name for listener in found}) != len(found):
        raise PropertyValueError("a listener name is used twice")
    return tuple(found)


def _by_id(text: str, separator: str, form: str) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for item in items_of(text):
        node_id, mark, address = item.partition(separator)
        if not mark:
            raise PropertyValueError(f"expected {form}, not {item!r}")
        key = node_id_of(node_id)
        if key in found:
            raise PropertyValueError(f"node {key} is listed twice")
        found[key] = host_and_port(address)
    return found


def endpoints(text: str) -> tuple[Endpoint, ...]:
    """Read id@host:port of several nodes."""
    found = _by_id(text, "@", "id@host:port")
    return tuple(Endpoint(node_id, *address) for node_id, address in sorted(found.items()))


def routes(text: str) -> dict[int, tuple[str, int]]:
    """Read id=host:port of several nodes, or none."""
    return _by_id(text, "=", "id=host:port") if text else {}


def servers(text: str) -> tuple[Endpoint, ...]:
    """Read host:port of nodes of unknown id."""
    return tuple(
        Endpoint(-2 - index, *host_and_port(item)) for index, item in enumerate(items_of(text))
    )

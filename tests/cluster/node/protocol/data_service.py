"""A broker-type listener that serves the data path, with a handler that says what it is given."""

from typing import Any

from cluster.node.protocol.apis import DATA_APIS, LISTENER_APIS, SERVED, ListenerType
from cluster.node.protocol.server import ListenerService

DATA_TABLE = dict(
    sorted(
        (LISTENER_APIS[ListenerType.BROKER] | {int(key): SERVED[key] for key in DATA_APIS}).items()
    )
)


class Answering:
    """Keeps what it was asked, and gives each request the same answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def handle(self, listener, message, reply, origin=None):
        del listener, origin
        self.asked.append(message)
        reply(self.answer)


def data_listener(monkeypatch, answer: Any) -> tuple[ListenerService, Answering]:
    """A listener and its handler."""
    monkeypatch.setitem(LISTENER_APIS, ListenerType.BROKER, DATA_TABLE)
    handler = Answering(answer)
    return ListenerService("CLIENT", ListenerType.BROKER, handler), handler

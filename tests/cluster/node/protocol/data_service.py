"""A broker-type listener that serves the data path, with a handler that says what it is given."""

from typing import Any

from cluster.node.protocol.apis import ListenerType
from cluster.node.protocol.server import ListenerService


class Answering:
    """Keeps what it was asked, and gives each request the same answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def handle(self, listener, message, reply, origin=None):
        del listener, origin
        self.asked.append(message)
        reply(self.answer)


def data_listener(answer: Any) -> tuple[ListenerService, Answering]:
    """A listener and its handler."""
    handler = Answering(answer)
    return ListenerService("CLIENT", ListenerType.BROKER, handler), handler

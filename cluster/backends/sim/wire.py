"""One listener of a simulated node behind the wire protocol: every message becomes bytes and back.

Simulated messages cross as objects, which is fast and hides nothing but the codec. This way of
serving takes each of them through `cluster.node.protocol`, both ways, as two real nodes would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.node.protocol.apis import LISTENER_APIS, ListenerType
from cluster.node.protocol.codec import api_key_of, read_response, spoken_versions, write_request
from cluster.node.protocol.features import Features
from cluster.node.protocol.server import ListenerService, RequestHandler

_SIZE_BYTES = 4
_CONTROLLER = "CONTROLLER"


class WireService:
    """See the module."""

    def __init__(
        self, listener: str, handler: RequestHandler, features: Callable[[], Features]
    ) -> None:
        kind = ListenerType.CONTROLLER if listener == _CONTROLLER else ListenerType.BROKER
        self._kind = kind
        self._service = ListenerService(listener, kind, handler, features)
        self._apis = LISTENER_APIS[kind]
        self._correlation_id = 0

    def serve(self, message: Any, reply: Callable[[Any], None]) -> None:
        """Encode a request, serve the frame, decode the response and pass it on.

        Raises MalformedError when either side cannot read the other.
        """
        key = api_key_of(message)
        version = spoken_versions(message).highest_common(self._apis[key])
        assert version is not None, f"{key.name}: nodes of ours speak the same versions"
        self._correlation_id += 1
        frame = write_request(message, version, self._correlation_id, "kraftprobe")

        def respond(response: bytes | None) -> None:
            if response:  # else there is none, or the connection ends: silence is what is left here
                reply(read_response(response[_SIZE_BYTES:], key, version, self._kind))

        self._service.serve(frame[_SIZE_BYTES:], respond)

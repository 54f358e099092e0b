"""Messages on the links of a proxy: where each begins in its stream of bytes, and what it is.

A connection carries Kafka's frames: requests from its dialler, responses back. A response says no
more than the correlation id of its request, so the API of each request is noted as it passes. As a
stream can be cut into frames only from the beginning of one, sizes are counted on every connection
from its first byte. That costs a look at each frame's head; no byte is copied or waits for it.

Under a hold a frame waits until it is whole, then it passes or is kept, and those behind it pass.
A frame whose beginning has passed when the hold begins passes whole. What a connection says first
(ApiVersions, SASL) is no message of the protocol's and is never held: without it nothing is sent
that could be.

A stream with a size that no frame has is no Kafka stream: from there on its bytes pass unread, and
a hold on its link has failed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cluster.backends.terms import Link
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.frames import DEFAULT_MAX_FRAME_BYTES, FrameError
from cluster.node.protocol.raft_codec import REQUEST_KEYS
from cluster.systems.base import EVERY_LISTENER, Listener, Listeners
from cluster.values import valueclass

_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">ihhi")
"""Size, API key, API version, correlation id."""
_RESPONSE_HEAD: Final = struct.Struct(">ii")
"""Size, correlation id."""
_UNANSWERED_MAX: Final = 100_000
"""Requests of one connection; more of them come from a client that wants no answers."""
_SETUP: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

Kind = tuple[int, bool]
"""What a message is: its API key, and whether it is a request."""

KINDS: Final[dict[str, Kind]] = {
    name: (int(key), is_request)
    for message, key in REQUEST_KEYS.items()
    for name, is_request in (
        (message.__name__, True),
        (message.__name__.replace("Request", "Response"), False),
    )
}
"""By the names of their classes in `cluster.node.kraft.messages`."""
_RAFT_LISTENERS: Final[Listeners] = ("CONTROLLER",)


@dataclass(slots=True, eq=False)
class Hold:
    """Which messages are kept, and those that are."""

    links: set[Link]
    kinds: frozenset[Kind]
    """Empty: all. Else raft's, which go to controller listeners: a Fetch between brokers has the
    API key of a voter's and is another message."""
    held: list[Held] = field(default_factory=list)
    undecoded: set[Link] = field(default_factory=set)
    """Links with a connection whose messages could not be told apart."""

    @property
    def listeners(self) -> Listeners:
        """Say on connections to which listeners its messages travel."""
        return _RAFT_LISTENERS if self.kinds else EVERY_LISTENER


@valueclass
class Held:
    """One message that was kept, with its size."""

    link: Link
    listener: Listener
    """Where the connection that it was sent on had been dialled."""
    stream: Stream
    frame: bytes


class Sieve:
    """What holds make of the messages of one directed link, on connections to one listener."""

    def __init__(self, link: Link, listener: Listener) -> None:
        self.link = link
        self.listener = listener
        self.holds: list[Hold] = []
        """First match keeps."""
        self.streams: set[Stream] = set()
        """Of all live connections, whichever side dialled."""

    def begin(self, hold: Hold) -> None:
        """Let a hold be in force from now on."""
        self.holds.append(hold)
        if any(stream.undecodable for stream in self.streams):
            hold.undecoded.add(self.link)

    def keep(self, stream: Stream, kind: Kind, frame: bytes) -> bool:
        """Keep the message if a hold wants it."""
        if kind[0] in _SETUP:
            return False
        for hold in self.holds:
            if not hold.kinds or kind in hold.kinds:
                hold.held.append(Held(self.link, self.listener, stream, frame))
                return True
        return False

    def undecodable(self) -> None:
        """Note that a stream of this link is none of Kafka's."""
        for hold in self.holds:
            hold.undecoded.add(self.link)


class Stream:
    """One direction of one connection; `unanswered` is that of both: correlation id -> API key."""

    __slots__ = (
        "_begun",
        "_left_bytes",
        "_partial",
        "_sieve",
        "_unanswered",
        "_write",
        "requests",
        "undecodable",
    )

    def __init__(self, sieve: Sieve, unanswered: dict[int, int], *, requests: bool) -> None:
        self._sieve = sieve
        self._unanswered = unanswered
        self.requests = requests
        self.undecodable = False
        self._write: Callable[[bytes], None] | None = None
        # Of a frame that is passing: either its head is not whole, or some bytes are left.
        self._begun = b""
        self._left_bytes = 0
        self._partial = bytearray()
        """A frame that waits until it is whole; nothing of it has passed."""

    def begin(self, write: Callable[[bytes], None]) -> None:
        """Join the link; `write` sends bytes after all that `take` let pass."""
        self._write = write
        self._sieve.streams.add(self)

    def end(self) -> None:
        """Leave the link: the connection is over. Idempotent."""
        self._write = None
        self._sieve.streams.discard(self)

    @property
    def takes_frames(self) -> bool:
        """Whether `insert` can bring a frame to the other side."""
        return self._write is not None and not self.undecodable

    def take(self, data: memoryview) -> memoryview | bytes:
        """Take what was read, and return what may pass now."""
        if self.undecodable:
            return data
        try:
            if self._sieve.holds or self._partial:
                return self._sift(data)
            self._count(data)
        except FrameError:
            self._give_up()
        return data

    def insert(self, frame: bytes) -> None:
        """Let a held frame go, between two others: only whole ones passed since it was held."""
        assert self._write is not None, "its connection lives"
        assert not self._left_bytes, "no frame is passing"
        assert not self._begun, "no frame is passing"
        self._write(frame)

    def _count(self, data: memoryview) -> None:
        """See where frames end in what passes."""
        stream: memoryview | bytes = self._begun + bytes(data) if self._begun else data
        position = self._left_bytes
        head = _REQUEST_HEAD.size if self.requests else _RESPONSE_HEAD.size
        while len(stream) - position >= head:
            size_bytes = self._size_bytes(stream, position)
            self._kind(stream, position)
            position += size_bytes
        self._left_bytes = max(0, position - len(stream))
        self._begun = bytes(stream[position:])

    def _sift(self, data: memoryview) -> bytes:
        """Return what passes: the rest of a frame that is passing, and whole ones not held."""
        rest = self._rest_bytes(data)
        self._count(data[:rest])
        out = bytearray(data[:rest])
        if self._left_bytes or self._begun:
            return bytes(out)
        stream = self._partial
        stream += data[rest:]
        position = 0
        try:
            while (end := position + self._size_bytes(stream, position)) <= len(stream):
                frame = bytes(stream[position:end])
                if not self._sieve.keep(self, self._kind(frame, 0), frame):
                    out += frame
                position = end
        except FrameError:
            self._give_up()
            out += stream[position:]
            position = len(stream)
        del stream[:position]
        return bytes(out)

    def _rest_bytes(self, data: memoryview) -> int:
        """How much of this belongs to a frame that is passing."""
        rest = self._left_bytes
        if self._begun:
            rest = self._size_bytes(self._begun + bytes(data[: _SIZE.size])) - len(self._begun)
        return min(rest, len(data))

    def _size_bytes(self, stream: memoryview | bytes | bytearray, position: int = 0) -> int:
        """Return how many bytes the frame that begins there has, or needs. Raises FrameError."""
        if len(stream) - position < _SIZE.size:
            return _SIZE.size
        whole = _SIZE.size + int(_SIZE.unpack_from(stream, position)[0])
        head = _REQUEST_HEAD.size if self.requests else _RESPONSE_HEAD.size
        if not head <= whole <= _SIZE.size + DEFAULT_MAX_FRAME_BYTES:
            raise FrameError(f"frame of {whole - _SIZE.size} bytes")
        return whole

    def _kind(self, stream: memoryview | bytes, position: int) -> Kind:
        """Name a frame, once; raises FrameError when too many requests are unanswered."""
        if not self.requests:
            _, correlation_id = _RESPONSE_HEAD.unpack_from(stream, position)
            return self._unanswered.pop(correlation_id, -1), False
        _, key, _, correlation_id = _REQUEST_HEAD.unpack_from(stream, position)
        self._unanswered[correlation_id] = key
        if len(self._unanswered) > _UNANSWERED_MAX:
            raise FrameError(f"{_UNANSWERED_MAX} requests without a response")
        return key, True

    def _give_up(self) -> None:
        self.undecodable = True
        self._sieve.undecodable()

"""Frames of every served API in every version, valid ones and mutated ones, from a seed.

Values are drawn to get far: names from a small pool, so that requests meet what earlier ones made;
ids, epochs and offsets near those of the node that is asked, and at the ends of their types.

Vote, BeginQuorumEpoch and EndQuorumEpoch come from another cluster by default. Peers of the same
cluster are trusted: a false claim that another node leads the epoch stops the node, as a broken
quorum does, and the highest possible epoch leaves none for the next election.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import math
import struct
import uuid
from dataclasses import dataclass
from random import Random
from typing import Any

from kio.serial import entity_writer

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType, request_class
from cluster.node.wire.schema import element, is_array, is_optional

CLUSTER_ID = "wire-benchmark"
NAMES = ("", "a", "b", "kraftprobe.x", "__cluster_metadata", "1", CLUSTER_ID, "é" * 40, "x" * 300)
FOREIGN_ID = "another-cluster"
ELECTIONS = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)
PATIENT = tuple(
    struct.pack(">h", key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DELETE_RECORDS)
)
"""How requests begin whose answers may wait."""
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
VALID_OF_8 = 2
"""How many frames of eight stay as they are."""
EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x0f\x42\x40",
    b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff",
    b"\x00",
)
"""Lengths and numbers at their ends, as int32 and as varints."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is sent to a listener, its size included."""

    listener: ListenerType
    data: bytes

    @property
    def is_whole(self) -> bool:
        """Return whether the announced size is that of the frame: then the node must react."""
        return len(self.data) >= 4 and int.from_bytes(self.data[:4], "big") == len(self.data) - 4

    @property
    def may_be_parked(self) -> bool:
        """Return whether the node may take its time, as for records or replicas to come."""
        return self.data[4:6] in PATIENT


APIS = [
    (listener, key, version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in range(versions.lowest, versions.highest + 1)
]


class Frames:
    """An endless supply; the same seed gives the same frames. Each API comes equally often."""

    def __init__(self, seed: int, *, as_peer: bool = False) -> None:
        self._random = Random(seed)
        self._as_peer = as_peer
        self._next = 0

    def __iter__(self) -> Frames:
        return self

    def __next__(self) -> Frame:
        listener, key, version = APIS[self._next % len(APIS)]
        self._next += 1
        random = self._random
        request = random_entity(request_class(key, version), random)
        if key in ELECTIONS and not self._as_peer:
            request = dataclasses.replace(request, cluster_id=FOREIGN_ID)
        body = encoded(request, random)
        if random.randrange(8) >= VALID_OF_8:
            for _ in range(random.randint(1, 3)):
                body = mutated(body, random)
        size = len(body)
        if random.randrange(50) == 0:
            size = random.choice((-1, 0, 1, size - 1, size + 1, 2**31 - 1))
        return Frame(listener, struct.pack(">i", size) + body)


def encoded(entity: Any, random: Random) -> bytes:
    """Return a request with its header."""
    buffer = io.BytesIO()
    client = random.choice(NAMES).encode()
    buffer.write(struct.pack(">hhih", entity.__api_key__, entity.__version__, 1, len(client)))
    buffer.write(client)
    if entity.__header_schema__.__flexible__:
        buffer.write(b"\0")
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def random_entity(cls: Any, random: Random) -> Any:
    return cls(**{field.name: _value(field, random) for field in dataclasses.fields(cls)})


def _value(field: dataclasses.Field[Any], random: Random) -> Any:
    if is_optional(field.type) and "tag" not in field.metadata and random.randrange(4) == 0:
        return None
    if is_array(field.type):
        return tuple(_item(field, random) for _ in range(random.choice((0, 1, 1, 1, 2))))
    return _item(field, random)


def _item(field: dataclasses.Field[Any], random: Random) -> Any:
    inner = element(field.type)
    if dataclasses.is_dataclass(inner):
        return random_entity(inner, random)
    kafka_type = field.metadata["kafka_type"]
    if field.name == "cluster_id":
        return CLUSTER_ID
    match kafka_type:
        case "string":
            return random.choice(NAMES)
        case "bytes" | "records":
            return random.randbytes(random.randrange(16))
        case "bool":
            return bool(random.getrandbits(1))
        case "uuid":
            return random.choice((uuid.UUID(int=1), uuid.UUID(int=random.getrandbits(128) | 2)))
        case "float64":
            return random.choice((0.0, 1.0, -1.0, 1e308, math.inf, math.nan))
        case "error_code":
            return random.choice(list(ErrorCode))
        case "uint16":
            return random.choice((0, 9092, 65535))
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(milliseconds=random.choice((0, 1, 1000, -1, 2**31 - 1)))
    return _integer(BITS[kafka_type], random)


def _integer(bits: int, random: Random) -> int:
    top = 2 ** (bits - 1)
    near = random.choice((0, 0, 0, 1, 1, 1, 2, 3, -1))
    return random.choice((near, near, near, near, top - 1, -top, random.randrange(-top, top)))


def mutated(body: bytes, random: Random) -> bytes:
    """Change a few bytes, cut, insert, repeat, or put an extreme length somewhere."""
    at = random.randrange(len(body) + 1)
    match random.randrange(6):
        case 0 if at < len(body):
            return body[:at] + bytes([body[at] ^ random.randint(1, 255)]) + body[at + 1 :]
        case 1:
            return body[:at]
        case 2:
            return body[:at] + random.randbytes(random.randint(1, 8)) + body[at:]
        case 3:
            return body[:at] + body[at:] * 2
    value = random.choice(EXTREMES)
    return body[:at] + value + body[at + len(value) :]

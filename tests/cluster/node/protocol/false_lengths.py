"""Frames in which one array announces more elements than there are. Run it to read them all.

`python -m tests.cluster.node.protocol.false_lengths` reads each frame the way a node or a client does; a length
that is believed aborts the process, so that this is a process of its own. With `--unguarded` kio
reads without the guard: the proof that these frames do kill.
"""

import contextlib
import dataclasses
import datetime as dt
import resource
import struct
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from kio.serial import entity_reader

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.control import _ENTITIES, decode_control
from cluster.node.log.batch.records import CorruptBatchError, Record
from cluster.node.protocol.apis import SERVED, request_class, response_class
from cluster.node.protocol.codec import read_request, read_response
from cluster.node.wire.bounds import MalformedError
from cluster.node.wire.schema import element, is_array
from tests.kio_bytes import body_of

INT32_LENGTHS = (2**31 - 1, -2, -(2**31), 10**6)
UVARINT_LENGTHS = (2**31 - 1, 2**32 - 1, 2**32 - 2, 2**35 - 1, 10**6)
MEMORY_BYTES = 2 * 2**30
SENTINEL = 0x7654321
VALUES = {
    "bool": True,
    "string": "a",
    "bytes": b"a",
    "records": b"a",
    "uuid": uuid.UUID(int=1),
    "error_code": ErrorCode.unknown_server_error,
    "datetime_i64": dt.datetime.fromtimestamp(1, dt.UTC),
    "timedelta_i32": dt.timedelta(milliseconds=1),
    "timedelta_i64": dt.timedelta(milliseconds=1),
}


class FalseLength(tuple):
    """An array for which kio's writer announces `SENTINEL` elements."""

    __slots__ = ()

    def __len__(self) -> int:
        return SENTINEL


def full(cls: Any) -> Any:
    """An entity with one element in each array, all tagged fields present."""
    return cls(**{f.name: _value(f) for f in dataclasses.fields(cls)})


def _value(field: dataclasses.Field[Any]) -> Any:
    inner = element(field.type)
    if dataclasses.is_dataclass(inner):
        value = full(inner)
    else:
        value = VALUES.get(field.metadata["kafka_type"], 1)
    return (value,) if is_array(field.type) else value


def falsified(entity: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, the entity with one array of a false length), each array once."""
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        inner = value[0] if isinstance(value, tuple) else value
        if isinstance(value, tuple):
            yield field.name, dataclasses.replace(entity, **{field.name: FalseLength(value)})
        if dataclasses.is_dataclass(inner):
            for path, changed in falsified(inner):
                put = (changed,) if isinstance(value, tuple) else changed
                yield f"{field.name}.{path}", dataclasses.replace(entity, **{field.name: put})


def header(entity: Any) -> bytes:
    flexible = b"\0" if entity.__header_schema__.__flexible__ else b""
    if "Response" in type(entity).__name__:
        return struct.pack(">i", 1) + flexible
    return struct.pack(">hhih", entity.__api_key__, entity.__version__, 1, -1) + flexible


def uvarint(value: int) -> bytes:
    """In 5 bytes, which is the most."""
    low = bytes((value >> shift) & 0x7F | 0x80 for shift in (0, 7, 14, 21))
    return low + bytes([value >> 28])


def bodies(cls: Any) -> Iterator[tuple[str, bytes]]:
    """Yield (what, body) for each array of a class and each false length."""
    for path, entity in falsified(full(cls)):
        body = body_of(entity)
        if cls.__flexible__:
            announced = bytes(
                (SENTINEL + 1) >> s & 0x7F | (0x80 if s < 21 else 0) for s in (0, 7, 14, 21)
            )
            false = {length: uvarint(length) for length in UVARINT_LENGTHS}
        else:
            announced = struct.pack(">i", SENTINEL)
            false = {length: struct.pack(">i", length) for length in INT32_LENGTHS}
        assert body.count(announced) == 1, (cls, path)
        for length, replacement in false.items():
            yield (
                f"{cls.__name__} v{cls.__version__} {path} {length}",
                body.replace(announced, replacement),
            )


CLASSES = [
    (key, version, make(key, version))
    for key, versions in SERVED.items()
    for version in range(versions.lowest, versions.highest + 1)
    for make in (request_class, response_class)
]


def read_all() -> int:
    count = 0
    for key, version, cls in CLASSES:
        for what, body in bodies(cls):
            frame = header(full(cls)) + body
            try:
                if "Request" in cls.__name__:
                    read_request(frame, SERVED)
                else:
                    read_response(frame, key, version)
            except MalformedError:
                count += 1
                continue
            raise AssertionError(f"{what} was read")
    for code, cls in _ENTITIES.items():
        for what, body in bodies(cls):
            try:
                decode_control(Record(body, struct.pack(">hh", 0, code)))
            except CorruptBatchError:
                count += 1
                continue
            raise AssertionError(f"{what} was read")
    return count


def read_unguarded() -> None:
    for _, _, cls in CLASSES:
        for _, body in bodies(cls):
            with contextlib.suppress(Exception):
                entity_reader(cls)(body, 0)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "--unguarded" in sys.argv:
        read_unguarded()
    else:
        sys.stdout.write(f"{read_all()}\n")


if __name__ == "__main__":
    main()

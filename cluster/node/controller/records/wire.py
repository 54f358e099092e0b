"""Kafka's primitive types in flexible messages (KIP-482).

Each `WireType` writes one Python value to a growing buffer and reads it back. Integers are big
endian; lengths of strings and arrays are unsigned varints of length + 1, where 0 means null.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from cluster.values import valueclass

UVARINT_BYTES_MAX = 5
"""Kafka's unsigned varints hold 32 bits."""


class MetadataRecordError(ValueError):
    """Bytes that are no metadata record we know, or a record that its version cannot hold."""


class Reader:
    """A position in immutable bytes. Every read past the end is a MetadataRecordError."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self.position

    def take(self, size: int) -> bytes:
        """Take the next `size` bytes."""
        end = self.position + size
        if end > len(self._data):
            raise MetadataRecordError(f"truncated: {size} bytes wanted, {self.remaining} left")
        chunk = self._data[self.position : end]
        self.position = end
        return chunk

    def uvarint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        if self.position < len(self._data) and self._data[self.position] < 0x80:
            self.position += 1  # as nearly all of them are
            return self._data[self.position - 1]
        value = 0
        for index in range(UVARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value >= 1 << 32:
                    break
                return value
        raise MetadataRecordError("varint has more than 32 bits")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` (0 <= value < 2**32) as an unsigned varint."""
    assert 0 <= value < 1 << 32
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class WireType(Protocol):
    """How one Kafka type is written and read. `default` is what Kafka gives a missing field."""

    default: Any

    def write(self, out: bytearray, value: Any) -> None:
        """Append `value`. Raises MetadataRecordError when the type cannot hold it."""

    def read(self, reader: Reader) -> Any:
        """Read one value. Raises MetadataRecordError."""


class Integer:
    """int8 to int64 and uint16, big endian, by `struct` format character."""

    def __init__(self, name: str, code: str) -> None:
        self.default = 0
        self._name = name
        self._code = code
        self._struct = struct.Struct(">" + code)

    def write(self, out: bytearray, value: Any) -> None:
        try:
            out += self._struct.pack(value)
        except struct.error as error:
            raise MetadataRecordError(f"{value!r} is no {self._name}") from error

    def read(self, reader: Reader) -> int:
        value: int = self._struct.unpack(reader.take(self._struct.size))[0]
        return value

    def read_many(self, reader: Reader, count: int) -> tuple[int, ...]:
        """Read `count` of them at once."""
        return struct.unpack(f">{count}{self._code}", reader.take(count * self._struct.size))


class Float64:
    """An IEEE 754 double, 8 bytes big endian."""

    default = 0.0

    def write(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, float):
            raise MetadataRecordError(f"{value!r} is no float64")
        out += struct.pack(">d", value)

    def read(self, reader: Reader) -> float:
        value: float = struct.unpack(">d", reader.take(8))[0]
        return value


class Boolean:
    """One byte, 0 or 1."""

    default = False

    def write(self, out: bytearray, value: Any) -> None:
        out.append(1 if value else 0)

    def read(self, reader: Reader) -> bool:
        """Read 0 or 1; Kafka never writes another byte."""
        byte = reader.take(1)[0]
        if byte > 1:
            raise MetadataRecordError(f"byte {byte} is no bool")
        return byte == 1


class Uuid:
    """16 bytes."""

    default = uuid.UUID(int=0)

    def write(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, uuid.UUID):
            raise MetadataRecordError(f"{value!r} is no uuid")
        out += value.bytes

    def read(self, reader: Reader) -> uuid.UUID:
        return uuid.UUID(bytes=reader.take(16))


STRING_BYTES_MAX = 2**15 - 1
"""Of one string: Kafka neither writes nor reads a longer one."""


class String:
    """Compact string: length + 1 and UTF-8 bytes."""

    default = ""

    def write(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, str):
            raise MetadataRecordError(f"{value!r} is no string")
        try:
            encoded = value.encode()
        except UnicodeEncodeError as error:
            raise MetadataRecordError(f"{value!r} has no UTF-8 form") from error
        if len(encoded) > STRING_BYTES_MAX:
            raise MetadataRecordError(f"a string of {len(encoded)} bytes is too long for a record")
        write_uvarint(out, len(encoded) + 1)
        out += encoded

    def read(self, reader: Reader) -> str:
        """Read a string; null and invalid UTF-8 are errors."""
        length = reader.uvarint()
        if length == 0:
            raise MetadataRecordError("null for a string that may not be null")
        try:
            return reader.take(length - 1).decode()
        except UnicodeDecodeError as error:
            raise MetadataRecordError("string is not UTF-8") from error


class Bytes:
    """Compact bytes: length + 1 and the bytes."""

    default = b""

    def write(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes):
            raise MetadataRecordError(f"{type(value).__name__} is no bytes")
        write_uvarint(out, len(value) + 1)
        out += value

    def read(self, reader: Reader) -> bytes:
        """Read bytes; null is an error."""
        length = reader.uvarint()
        if length == 0:
            raise MetadataRecordError("null for bytes that may not be null")
        return reader.take(length - 1)


class Array:
    """Compact array of one element type, count + 1 and the elements; a tuple in Python."""

    def __init__(self, element: WireType) -> None:
        self.default: Any = ()
        self._element = element

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            raise MetadataRecordError("null for an array that may not be null")
        write_uvarint(out, len(value) + 1)
        for item in value:
            self._element.write(out, item)

    def read(self, reader: Reader) -> tuple[Any, ...]:
        """Read an array; a count that the remaining bytes cannot hold is refused at once."""
        count = reader.uvarint() - 1
        if count < 0:
            raise MetadataRecordError("null for an array that may not be null")
        if count > reader.remaining:
            raise MetadataRecordError(f"truncated: {count} elements in {reader.remaining} bytes")
        if isinstance(self._element, Integer):
            return self._element.read_many(reader, count)
        return tuple([self._element.read(reader) for _ in range(count)])


class Nullable:
    """A string or an array that may be null (length 0 on the wire)."""

    def __init__(self, inner: String | Array) -> None:
        self.default = None
        self._inner = inner

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            self._inner.write(out, value)

    def read(self, reader: Reader) -> Any:
        start = reader.position
        if reader.uvarint() == 0:
            return None
        reader.position = start
        return self._inner.read(reader)


INT8 = Integer("int8", "b")
INT16 = Integer("int16", "h")
UINT16 = Integer("uint16", "H")
INT32 = Integer("int32", "i")
INT64 = Integer("int64", "q")
FLOAT64 = Float64()
BOOL = Boolean()
UUID = Uuid()
STRING = String()
BYTES = Bytes()
NULLABLE_STRING = Nullable(STRING)
INT32S = Array(INT32)
UUIDS = Array(UUID)
STRINGS = Array(STRING)
NULLABLE_INT32S = Nullable(INT32S)
NULLABLE_UUIDS = Nullable(UUIDS)


@valueclass
class Tagged:
    """A field that is written, when it is not its default, in the tag section of its message."""

    tag: int


def read_tags(reader: Reader, known: Mapping[int, WireType]) -> dict[int, Any]:
    """Read the tag section of a message, by tag.

    Kafka skips tags that it does not know. We refuse them: Kafka's metadata records get a new
    version with each new field, so an unknown tag in a version that we know is damage, and a
    replay that drops data silently would be worse than one that stops.
    """
    values: dict[int, Any] = {}
    previous = -1
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        if tag <= previous:
            raise MetadataRecordError("tags are not in ascending order")
        previous = tag
        wire_type = known.get(tag)
        if wire_type is None:
            raise MetadataRecordError(f"unknown tag {tag}")
        inner = Reader(reader.take(size))
        values[tag] = wire_type.read(inner)
        if inner.remaining:
            raise MetadataRecordError(f"{inner.remaining} bytes too many in tag {tag}")
    return values

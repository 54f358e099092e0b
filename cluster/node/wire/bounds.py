"""A guard before kio's reader: every length in a frame must fit the bytes that follow it.

kio's decoder reserves memory for as many elements as an array announces before it reads the first,
so that one frame of a few bytes aborts the process. The guard walks the same bytes by the same
schema, builds nothing, and believes no length: a string or field has to end inside the frame, an
array's count times the smallest size of an element as well, null has to be allowed. What a frame
may still cost is bounded by its size and by `max_elements`. Walkers are closures compiled once for
each entity class; a run of fields of fixed size is one addition. They nest as deep as the schema
does, whatever a frame says.

The walk also finds the tagged fields that the schema does not know, which kio refuses although
KIP-482 has a reader skip them: if there are any, `bound_frame` returns a copy of it without.
And it finds the durations and times of 64 bits that kio cannot hold, the longest that a client of
Java asks for among them: the copy has the longest and latest that it can, some 8,000 years.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kio.static.constants import EntityType

from cluster.node.wire.schema import element, is_array, is_optional


class MalformedError(Exception):
    """Bytes that are not a message this side can read; the connection has to end."""


@dataclasses.dataclass(slots=True)
class _Scan:
    """What one walk has found so far."""

    size: int
    elements_left: int
    edits: list[tuple[int, int, bytes]]
    """(start, end, what to put there), in rising order: what kio does not read as it is."""


_Walk = Callable[[bytes, int, _Scan], int]
"""Walks from a position to the one behind. What is fixed may end beyond the frame: the next thing
that is read, or the check at the end, notices. Raises MalformedError, IndexError, struct.error."""

_FIXED_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}
_LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, where Python's dates end."""
_HELD_MS: Final = {"timedelta_i64": (-_LATEST_MS, _LATEST_MS), "datetime_i64": (0, _LATEST_MS)}
"""What kio can hold of the values that there are; Kafka's -1 for no time is 0."""
_INT16: Final = struct.Struct(">h").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from
_INT64: Final = struct.Struct(">q")


def bound_frame(frame: bytes, entities: tuple[Any, ...], *, max_elements: int) -> bytes:
    """Return a frame in which kio can read `entities`, one behind the other.

    That is `frame` itself unless it has unknown tagged fields, or times that kio cannot hold. Bytes
    behind the entities are not looked at. Raises MalformedError.
    """
    scan = _Scan(len(frame), max_elements, [])
    end = 0
    try:
        for entity in entities:
            end = _compile(entity).walk(frame, end, scan)
    except (IndexError, struct.error) as error:
        raise MalformedError(f"{entities[-1].__name__} is cut off") from error
    if end > scan.size:
        raise MalformedError(f"{entities[-1].__name__} is cut off")
    return _edit(frame, scan.edits) if scan.edits else frame


def _edit(frame: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    kept = []
    position = 0
    for start, end, replacement in edits:
        kept += [frame[position:start], replacement]
        position = end
    return b"".join([*kept, frame[position:]])


def _uvarint(frame: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and the position behind it; kio, too, reads up to 5 bytes."""
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedError("a varint of more than 5 bytes")


def _to_uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# --- compiling ---


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """How an entity or a field is walked, and the smallest number of bytes that it has."""

    walk: _Walk
    min_bytes: int
    is_fixed: bool = False
    """It always has `min_bytes`."""


@cache
def _compile(entity: Any) -> _Shape:
    steps: list[_Walk] = []
    tagged: dict[int, _Walk] = {}
    min_bytes = skip = 0
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = _field(entity, field, 0).walk
            continue
        shape = _field(entity, field, skip)
        min_bytes += shape.min_bytes
        if shape.is_fixed:
            skip += shape.min_bytes
        else:
            steps.append(shape.walk)
            skip = 0
    if entity.__flexible__:
        steps.append(_tag_section(entity.__name__, tagged, skip))
        return _Shape(_sequence(steps), min_bytes + 1)
    if not steps:
        return _Shape(_walk_fixed(skip), skip, is_fixed=True)
    return _Shape(_sequence([*steps, _walk_fixed(skip)] if skip else steps), min_bytes)


def _field(entity: Any, field: dataclasses.Field[Any], skip: int) -> _Shape:
    """Return the shape of a field; its walker passes `skip` bytes of other fields before it."""
    name = f"{entity.__name__}.{field.name}"
    inner, nullable = element(field.type), is_optional(field.type)
    # A header's client id kept its old form when headers became flexible (KIP-482).
    compact = entity.__flexible__ and entity.__type__ is not EntityType.header
    if dataclasses.is_dataclass(inner):
        nested = _compile(element(field.type))
        if is_array(field.type):
            return _array(name, nested, skip, compact=compact, nullable=nullable)
        if nullable:
            return _Shape(_walk_nullable(name, nested.walk, skip), 1)
        walk = _sequence([_walk_fixed(skip), nested.walk]) if skip else nested.walk
        return _Shape(walk, nested.min_bytes)
    kafka_type = field.metadata["kafka_type"]
    if is_array(field.type):
        primitive = _primitive(f"{name}[]", kafka_type, 0, compact=compact, nullable=False)
        return _array(name, primitive, skip, compact=compact, nullable=nullable)
    return _primitive(name, kafka_type, skip, compact=compact, nullable=nullable)


def _primitive(name: str, kafka_type: str, skip: int, *, compact: bool, nullable: bool) -> _Shape:
    size = _FIXED_SIZES.get(kafka_type)
    if kafka_type in _HELD_MS and not nullable:
        return _Shape(_walk_clamped(skip, *_HELD_MS[kafka_type]), 8)
    if size is not None:
        return _Shape(_walk_fixed(skip + size), size, is_fixed=True)
    assert kafka_type in {"string", "bytes", "records"}, f"{name} is a {kafka_type}"
    if compact:
        return _Shape(_compact_bytes(name, skip, nullable=nullable), 1)
    width = 2 if kafka_type == "string" else 4
    return _Shape(_legacy_bytes(name, skip, width, nullable=nullable), width)


def _walk_fixed(size: int) -> _Walk:
    return lambda _, at, __: at + size


def _walk_clamped(skip: int, lowest: int, highest: int) -> _Walk:
    def walk(frame: bytes, at: int, scan: _Scan) -> int:
        at += skip
        (value,) = _INT64.unpack_from(frame, at)
        if not lowest <= value <= highest:
            held = min(max(value, lowest), highest)
            scan.edits.append((at, at + 8, _INT64.pack(held)))
        return at + 8

    return walk


def _sequence(steps: list[_Walk]) -> _Walk:
    if len(steps) == 1:
        return steps[0]
    in_order = tuple(steps)

    def walk(frame: bytes, at: int, scan: _Scan) -> int:
        for step in in_order:
            at = step(frame, at, scan)
        return at

    return walk


def _walk_nullable(name: str, nested: _Walk, skip: int) -> _Walk:
    """Walk an entity that may be null: an int8 before it says -1 or 1 (KIP-893)."""

    def walk(frame: bytes, at: int, scan: _Scan) -> int:
        mark = frame[at + skip]
        if mark == 1:
            return nested(frame, at + skip + 1, scan)
        if mark != 0xFF:
            raise MalformedError(f"{name} is neither null nor present")
        return at + skip + 1

    return walk


def _compact_bytes(name: str, skip: int, *, nullable: bool) -> _Walk:
    def walk(frame: bytes, at: int, _: _Scan) -> int:
        at += skip
        size_plus_one = frame[at]
        if size_plus_one > 0x7F:
            size_plus_one, at = _uvarint(frame, at)
        else:
            at += 1
        if size_plus_one == 0:
            if nullable:
                return at
            raise MalformedError(f"{name} is null")
        return at + size_plus_one - 1

    return walk


def _legacy_bytes(name: str, skip: int, width: int, *, nullable: bool) -> _Walk:
    read = _INT16 if width == 2 else _INT32

    def walk(frame: bytes, at: int, _: _Scan) -> int:
        at += skip
        (size,) = read(frame, at)
        if size >= 0:
            return at + width + int(size)
        if size == -1 and nullable:
            return at + width
        raise MalformedError(f"{name} has {size} bytes")

    return walk


def _array(name: str, item: _Shape, skip: int, *, compact: bool, nullable: bool) -> _Shape:
    assert item.min_bytes > 0, f"{name}: nothing would bound the number of its elements"
    elements = _elements(name, item, nullable=nullable)

    def walk_compact(frame: bytes, at: int, scan: _Scan) -> int:
        at += skip
        count_plus_one = frame[at]
        if count_plus_one > 0x7F:
            count_plus_one, at = _uvarint(frame, at)
        else:
            at += 1
        return at if count_plus_one == 1 else elements(frame, at, scan, count_plus_one - 1)

    def walk_legacy(frame: bytes, at: int, scan: _Scan) -> int:
        at += skip
        (count,) = _INT32(frame, at)
        return elements(frame, at + 4, scan, count)

    return _Shape(walk_compact, 1) if compact else _Shape(walk_legacy, 4)


def _elements(
    name: str, item: _Shape, *, nullable: bool
) -> Callable[[bytes, int, _Scan, int], int]:
    walk, min_bytes, is_fixed = item.walk, item.min_bytes, item.is_fixed

    def elements(frame: bytes, at: int, scan: _Scan, count: int) -> int:
        if count < 0:
            if count == -1 and nullable:
                return at
            raise MalformedError(f"{name} has {count} elements")
        _claim(name, scan, count, min_bytes, at)
        if is_fixed:
            return at + count * min_bytes
        for _ in range(count):
            at = walk(frame, at, scan)
        return at

    return elements


def _claim(name: str, scan: _Scan, count: int, min_bytes: int, at: int) -> None:
    """Refuse more elements than the rest of the frame has room for, or than are allowed."""
    if count * min_bytes > scan.size - at:
        raise MalformedError(f"{name}: {count} elements in {scan.size - at} bytes")
    scan.elements_left -= count
    if scan.elements_left < 0:
        raise MalformedError(f"{name}: {count} elements are too many for one frame")


def _tag_section(name: str, tagged: dict[int, _Walk], skip: int) -> _Walk:
    def walk(frame: bytes, at: int, scan: _Scan) -> int:
        at += skip
        return at + 1 if frame[at] == 0 else fields(frame, at, scan)

    def fields(frame: bytes, start: int, scan: _Scan) -> int:
        first_edit = len(scan.edits)
        count, at = _uvarint(frame, start)
        first_field = at
        _claim(f"tags of {name}", scan, count, 2, at)
        unknown = 0
        for _ in range(count):
            field_start = at
            tag, at = _uvarint(frame, at)
            known = tagged.get(tag)
            if known is None:
                size, at = _uvarint(frame, at)
                at += size
                unknown += 1
                scan.edits.append((field_start, at, b""))
            else:
                at = _tagged_field(f"tag {tag} of {name}", known, frame, at, scan)
            if at > scan.size:
                raise MalformedError(f"tag {tag} of {name} is cut off")
        if unknown:
            scan.edits.insert(first_edit, (start, first_field, _to_uvarint(count - unknown)))
        return at

    return walk


def _tagged_field(name: str, walk: _Walk, frame: bytes, start: int, scan: _Scan) -> int:
    """Walk a known tagged field from its size on; what shrinks inside shrinks its size."""
    first_edit = len(scan.edits)
    size, at = _uvarint(frame, start)
    if walk(frame, at, scan) != at + size:
        raise MalformedError(f"{name} does not have its {size} bytes")
    inside = scan.edits[first_edit:]
    if inside:
        shrunk = sum(end - begin - len(new) for begin, end, new in inside)
        scan.edits.insert(first_edit, (start, at, _to_uvarint(size - shrunk)))
    return at + size

"""A record's field table, read from the annotations of its dataclass.

    partition_id: Annotated[int, INT32]
    directories: Annotated[tuple[UUID, ...], UUIDS, Since(1)] = ()
    last_known_elr: Annotated[tuple[int, ...] | None, NULLABLE_INT32S, Since(2), Tagged(2)] = None

Fields are written in the order of the class; fields with a tag go to the tag section, ascending. A
field that a version does not have must hold its default there, else writing is refused: data would
be lost.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar, get_type_hints

from cluster.node.controller.records.wire import (
    MetadataRecordError,
    Reader,
    Tagged,
    WireType,
    read_tags,
    write_uvarint,
)
from cluster.values import valueclass

__all__ = ["Message", "MetadataRecord", "MetadataRecordError", "Since", "Struct"]

M = TypeVar("M", bound="Message")
UNTAGGED = -1


@valueclass
class Since:
    """The first version of a record that has the field."""

    version: int


@valueclass
class Field:
    """One row of a field table."""

    name: str
    wire_type: WireType
    since: int
    tag: int
    """-1 for a field in the plain part."""
    default: Any


class Message:
    """A flexible message: a record's body, or a struct nested in it. Subclasses are dataclasses."""

    __slots__ = ()


class MetadataRecord(Message):
    """A record of the metadata log. `api_key` and `max_version` are those of its JSON schema."""

    __slots__ = ()
    api_key: ClassVar[int]
    max_version: ClassVar[int] = 0


def field_table(message_type: type[Message]) -> tuple[Field, ...]:
    """Return the rows of a message type, in the order of the class."""
    hints = get_type_hints(message_type, include_extras=True)
    rows = []
    for item in dataclasses.fields(message_type):  # type: ignore[arg-type]  # all are dataclasses
        annotations = hints[item.name].__metadata__
        wire_type: WireType = annotations[0]
        since = next((a.version for a in annotations if isinstance(a, Since)), 0)
        tag = next((a.tag for a in annotations if isinstance(a, Tagged)), UNTAGGED)
        default = wire_type.default if item.default is dataclasses.MISSING else item.default
        rows.append(Field(item.name, wire_type, since, tag, default))
    return tuple(rows)


@valueclass
class Layout:
    """The fields of one version: in the plain part, in the tag section (ascending), absent."""

    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]


_layouts: dict[tuple[type[Message], int], Layout] = {}


def _layout(message_type: type[Message], version: int) -> Layout:
    layout = _layouts.get((message_type, version))
    if layout is None:
        table = field_table(message_type)
        present = [row for row in table if row.since <= version]
        by_tag = {row.tag: row for row in present if row.tag != UNTAGGED}
        layout = _layouts[message_type, version] = Layout(
            plain=tuple(row for row in present if row.tag == UNTAGGED),
            tagged=tuple(by_tag[tag] for tag in sorted(by_tag)),
            absent=tuple(row for row in table if row.since > version),
        )
    return layout


def lowest_version(record: MetadataRecord) -> int:
    """Return the lowest version that loses nothing of a record."""
    layout = _layout(type(record), record.max_version)
    rows = (*layout.plain, *layout.tagged)
    return max((row.since for row in rows if getattr(record, row.name) != row.default), default=0)


def write_message(out: bytearray, message: Message, version: int) -> None:
    """Append a message. Raises MetadataRecordError when `version` cannot hold it."""
    layout = _layout(type(message), version)
    for row in layout.absent:
        if getattr(message, row.name) != row.default:
            text = f"{type(message).__name__} v{version} has no field {row.name}"
            raise MetadataRecordError(text)
    for row in layout.plain:
        row.wire_type.write(out, getattr(message, row.name))
    section = [row for row in layout.tagged if getattr(message, row.name) != row.default]
    write_uvarint(out, len(section))
    for row in section:
        body = bytearray()
        row.wire_type.write(body, getattr(message, row.name))
        write_uvarint(out, row.tag)
        write_uvarint(out, len(body))
        out += body


def read_message(reader: Reader, message_type: type[M], version: int) -> M:
    """Read a message of a known type and version. Raises MetadataRecordError."""
    layout = _layout(message_type, version)
    values = {row.name: row.wire_type.read(reader) for row in layout.plain}
    by_tag = read_tags(reader, {row.tag: row.wire_type for row in layout.tagged})
    values.update((row.name, by_tag.get(row.tag, row.default)) for row in layout.tagged)
    return message_type(**values)


class Struct:
    """A nested struct as a wire type. The schemas that we have never change one by version."""

    def __init__(self, message_type: type[Message]) -> None:
        self.default = None
        self._type = message_type

    def write(self, out: bytearray, value: Any) -> None:
        write_message(out, value, 0)

    def read(self, reader: Reader) -> Message:
        return read_message(reader, self._type, 0)

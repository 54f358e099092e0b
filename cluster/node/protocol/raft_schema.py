"""How raft's flat messages map to kio's, where both say the same in other shapes.

Kafka's messages carry arrays of topics and partitions although there is one metadata partition. A
flat field is the field of that name of the partition, or of the message around it; a `Mapping` says
what is elsewhere or differs in form. A well-formed request about anything else never reaches the
core: reading it raises `Refused` with the answer that KafkaRaftClient gives. Requests that carry a
leader's endpoints name the listener of each: we send one, that of `CONTROLLER_LISTENER`, and of
those received take it, else the first.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
import uuid
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_DIRECTORY
from cluster.node.log.types import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey
from cluster.node.protocol.convert import ConversionError, schema_default
from cluster.node.wire.schema import element
from cluster.values import valueclass

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The name under which endpoints of controllers travel, by Kafka's custom."""
HOST_NAME_MAX: Final = 255
"""Longest host name (RFC 1035, 2.3.4)."""
_UNKNOWN: Final[dict[Any, Any]] = {int: -1, bool: False, OffsetAndEpoch: OffsetAndEpoch(-1, -1)}
"""By type: what a response with a top-level error says of all else."""

Values = dict[str, Any]


class Refused(Exception):  # noqa: N818 - it carries an answer and is no error of ours
    """A well-formed request that the core must not see. `response`: kio's, highest version."""

    def __init__(self, response: Any) -> None:
        super().__init__("not about the metadata partition")
        self.response = response


@valueclass
class RaftCodec:
    """How one API's flat messages become kio's of the highest version, and back.

    `read_request` raises Refused; both readers raise ConversionError for what Kafka never sends.
    """

    key: ApiKey
    request: type[Any]
    """The flat class."""
    write_request: Callable[[Any], Any]
    read_request: Callable[[Any], Any]
    write_response: Callable[[Any], Any]
    read_response: Callable[[Any], Any]


@valueclass
class Form:
    """How a value is written in kio's classes, and read from them."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def directory(found: uuid.UUID | None) -> uuid.UUID:
    """Return a directory id as the core has it: kio reads zero bits as None."""
    return NO_DIRECTORY if found is None else found


DIRECTORY: Final = Form(lambda value: value, directory)
INTERVAL: Final = Form(
    lambda interval_ms: dt.timedelta(milliseconds=interval_ms),
    lambda found: round(found.total_seconds() * 1000),
)


def position(entity: Any, *, optional: bool = False) -> Form:
    """Return the form of an offset and its epoch; `optional`: a negative epoch stands for None."""

    def write(at: OffsetAndEpoch | None) -> Any:
        at = at or _UNKNOWN[OffsetAndEpoch]
        return entity(end_offset=at.offset, epoch=at.epoch)

    def read(found: Any) -> OffsetAndEpoch | None:
        if optional and found.epoch < 0:
            return None
        return OffsetAndEpoch(found.end_offset, found.epoch)

    return Form(write, read)


def array(entity: Any, write: Callable[[Any], Values], read: Callable[[Any], Any]) -> Form:
    """Return the form of an array. `write`: element -> the fields of kio's, an `entity`."""

    def read_all(found: Any) -> Any:
        if found is None:
            raise ConversionError(f"an array of {entity.__name__} is null")
        return tuple(map(read, found))

    return Form(lambda items: tuple(entity(**write(item)) for item in items), read_all)


def reachable(node_id: int, host: str, port: int) -> Endpoint | None:
    """Return an endpoint that a peer names; None where nobody can listen: it is not known.

    Some messages have a port of 32 bits, which those of 16 bits could not pass on.
    """
    valid = 0 < len(host) <= HOST_NAME_MAX and 0 < port < 65536
    return Endpoint(node_id, host, port) if valid else None


def field_class(entity: Any, name: str) -> Any:
    """Return the class of a field or, of an array, of its elements."""
    return element(entity.__dataclass_fields__[name].type)


def _names(entity: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(entity)]


@cache
def _defaults(entity: Any) -> Values:
    """Return what the fields hold that kio has no default for, where nothing else is said."""
    fields = dataclasses.fields(entity)
    return {f.name: schema_default(f, entity) for f in fields if f.default is dataclasses.MISSING}


def with_defaults(entity: Any, **values: Any) -> Any:
    """Return a message in which all other fields hold their defaults."""
    return entity(**{**_defaults(entity), **values})


class Mapping:
    """One flat class and kio's of its message.

    `places`: the flat fields that have another name, or lie in an entity of the partition or
    message ("current_leader.leader_id"). `forms`: those whose values differ. `derived`: fields of
    kio's -> their values, from the flat message. `refusal`: of a request, the class of its answer.
    """

    def __init__(
        self,
        flat: type[Any],
        entity: Any,
        *,
        places: dict[str, str] | None = None,
        forms: dict[str, Form] | None = None,
        derived: dict[str, Callable[[Any], Any]] | None = None,
        refusal: Any = None,
    ) -> None:
        self.flat, self._entity, self._refusal = flat, entity, refusal
        known = _names(entity)
        self._topics = next((name for name in ("topics", "responses") if name in known), "")
        self._endpoints = next(
            (n for n in ("leader_endpoints", "node_endpoints") if n in known), ""
        )
        self._endpoint_class: Any = (
            field_class(entity, self._endpoints) if self._endpoints else None
        )
        hints = typing.get_type_hints(flat)
        self._has_top_level = "top_level_error" in hints
        names = [name for name in hints if name not in ("top_level_error", "leader_endpoint")]
        self._forms = {n: DIRECTORY for n in names if n.endswith("directory_id")} | (forms or {})
        self._derived = derived or {}
        paths = {"error": "error_code", **(places or {})}
        by_path = {paths.get(name, name): name for name in names} | {n: n for n in self._derived}
        inside: list[str] = []
        if self._topics:
            self._topic = field_class(entity, self._topics)
            partition = field_class(self._topic, "partitions")
            inside = _names(partition)
            self._index = inside[0]
            self._topic_field = _names(self._topic)[0]
            of_id = self._topic_field == "topic_id"
            self._topic_value = METADATA_TOPIC_ID if of_id else METADATA_TOPIC
            own = {path: n for path, n in by_path.items() if path.split(".")[0] in inside}
            self._make_partition = _maker(partition, own)
        own = {path: n for path, n in by_path.items() if path.split(".")[0] not in inside}
        self._make_message = _maker(entity, own)
        self._reads = [
            (name, attrgetter(path), path.split(".")[0] in inside)
            for path, name in by_path.items()
            if name in names
        ]
        no_default = {f.name for f in dataclasses.fields(flat) if f.default is dataclasses.MISSING}
        self._unknown = {n: _UNKNOWN[hints[n]] for n in no_default if hints[n] in _UNKNOWN}

    def write(self, message: Any) -> Any:
        """Return kio's message."""
        if self._has_top_level and (top := message.top_level_error) is not ErrorCode.none:
            known = _names(self._entity)
            more = {"error_message": top.name} if "error_message" in known else {}
            return with_defaults(self._entity, error_code=top, **more)
        values = {name: getattr(message, name) for name, _, _ in self._reads}
        for name, form in self._forms.items():
            values[name] = form.write(values[name])
        for name, derive in self._derived.items():
            values[name] = derive(message)
        around: Values = {}
        if self._topics:
            partition = self._make_partition(values, {self._index: 0})
            named = {self._topic_field: self._topic_value, "partitions": (partition,)}
            around[self._topics] = (self._topic(**named),)
        if self._endpoints and message.leader_endpoint is not None:
            around[self._endpoints] = (self._endpoint(message.leader_endpoint),)
        return self._make_message(values, around)

    def read(self, message: Any) -> Any:
        """Return the flat message. Raises Refused, ConversionError."""
        if self._has_top_level and (top := message.error_code) is not ErrorCode.none:
            return self.flat(**{**self._unknown, "error": top, "top_level_error": top})
        partition = self._partition(getattr(message, self._topics)) if self._topics else None
        values = {
            name: get(partition if is_inside else message) for name, get, is_inside in self._reads
        }
        for name, form in self._forms.items():
            values[name] = form.read(values[name])
        if self._endpoints:
            found = getattr(message, self._endpoints)
            values["leader_endpoint"] = self._leader_endpoint(values["leader_id"], found or ())
        return self.flat(**values)

    def _partition(self, topics: Any) -> Any:
        """Return the only partition, of the metadata topic where it is a request's."""
        if topics is not None and len(topics) == 1:
            partitions = topics[0].partitions
            if partitions is not None and len(partitions) == 1:
                named = (getattr(topics[0], self._topic_field), getattr(partitions[0], self._index))
                if self._refusal is None or named == (self._topic_value, 0):
                    return partitions[0]
        if self._refusal is None:
            raise ConversionError("a response about one partition was expected")
        raise Refused(with_defaults(self._refusal, error_code=ErrorCode.invalid_request))

    def _endpoint(self, at: Endpoint) -> Any:
        named = self._endpoints == "leader_endpoints"
        key = {"name": CONTROLLER_LISTENER} if named else {"node_id": at.node_id}
        return self._endpoint_class(**key, host=at.host, port=at.port)

    def _leader_endpoint(self, leader_id: int, found: Any) -> Endpoint | None:
        """Return where a leader, or a response, says that the leader listens."""
        if self._endpoints == "leader_endpoints":
            named = [at for at in found if at.name == CONTROLLER_LISTENER] or found
        else:
            named = [at for at in found if at.node_id == leader_id]
        return reachable(leader_id, named[0].host, named[0].port) if named else None


def _maker(entity: Any, paths: dict[str, str]) -> Callable[[Values, Values], Any]:
    """Return what makes an entity of values by flat name, and of fields that are given as they are.

    `paths`: fields of the entity, or of entities in it -> flat names.
    """
    plain = {path: name for path, name in paths.items() if "." not in path}
    inner: dict[str, dict[str, str]] = defaultdict(dict)
    for path, name in paths.items():
        if path not in plain:
            head, _, rest = path.partition(".")
            inner[head][rest] = name
    makers = {head: _maker(field_class(entity, head), rest) for head, rest in inner.items()}
    assert plain.keys() <= set(_names(entity)), f"{plain} is not all in {entity.__name__}"
    others = {name: value for name, value in _defaults(entity).items() if name not in paths}

    def make(values: Values, given: Values) -> Any:
        fields = others | given
        for path, name in plain.items():
            fields[path] = values[name]
        for head, maker in makers.items():
            fields[head] = maker(values, {})
        return entity(**fields)

    return make

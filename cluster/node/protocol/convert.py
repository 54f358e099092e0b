"""Structural conversion between the versions of one message.

Kafka's schemas grow by adding and dropping fields, so two versions of a message are trees of the
same shape with some fields missing. `convert` copies what both have, gives the target's defaults
to what the source lacks, and drops what the target lacks. The few places where a version *renamed*
something, or gave null another meaning, are in `_rule`; the few fields that a request cannot lose
without a change of what it asks for are in `_MUST_SURVIVE`.

Converters are compiled once for each pair of classes. Between equal classes conversion is
validation only: kio reads a null array where the schema allows none, which Kafka refuses.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable, Container
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.log.types import METADATA_TOPIC, METADATA_TOPIC_ID
from cluster.node.wire.schema import element, is_array, is_optional

CLIENT_METRICS: Final = 16
"""ConfigResource.Type"""
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
"""FeatureUpdate.UpgradeType"""

Converter = Callable[[Any], Any]


class ConversionError(ValueError):
    """A message that the other version cannot express, or that no version allows."""


_MUST_SURVIVE: Final = frozenset(
    {
        ("VoteRequest", "PartitionData", "pre_vote"),
        ("MetadataRequest", "MetadataRequestTopic", "topic_id"),
        ("DeleteTopicsRequest", "DeleteTopicsRequest", "topics"),
        ("DescribeClusterRequest", "DescribeClusterRequest", "endpoint_type"),
        ("CreateTopicsRequest", "CreateTopicsRequest", "validate_only"),
        ("InitProducerIdRequest", "InitProducerIdRequest", "producer_id"),
        ("InitProducerIdRequest", "InitProducerIdRequest", "producer_epoch"),
        ("ListOffsetsRequest", "ListOffsetsRequest", "isolation_level"),
        ("BrokerRegistrationRequest", "BrokerRegistrationRequest", "is_migrating_zk_broker"),
    }
)
"""(message, class, field): lost only when they hold their default. All else is ignorable."""


def _present(array: Any, name: str) -> Any:
    if array is None:
        raise ConversionError(f"{name} is null")
    return array


def _states_of_names(request: Any, state: type[Any]) -> Any:
    names = _present(request.topic_names, "topic_names")
    return tuple(state(name=name, topic_id=None) for name in names)


def _candidates_of_ids(partition: Any, info: type[Any]) -> Any:
    ids = _present(partition.preferred_successors, "preferred_successors")
    return tuple(info(candidate_id=i, candidate_directory_id=None) for i in ids)


def _rule(root: str, source: type[Any], target: type[Any], name: str) -> Converter | None:
    """Return how to find a target's field where its own name does not say it."""
    if root == "ListConfigResourcesRequest" and source.__version__ == 0:
        return lambda _: (CLIENT_METRICS,)  # there were no other types (KIP-1142)
    return _rename(root, source, target, name)


def _rename(root: str, source: type[Any], target: type[Any], name: str) -> Converter | None:
    has = source.__dataclass_fields__
    match root, target.__name__, name:
        case "MetadataRequest", "MetadataRequest", "topics" if source.__version__ == 0:
            lift = _field_converter(root, _field(source, name), _field(target, name), target)
            # In v0 an empty array asks for all topics, afterwards null does (KIP-4).
            return lambda request: lift(request.topics or None)
        case "DeleteTopicsRequest", "DeleteTopicsRequest", "topics" if "topic_names" in has:
            state = element(_hints(target)["topics"])
            return lambda request: _states_of_names(request, state)
        case "FetchRequest", "FetchRequest", "replica_state" if "replica_id" in has:
            replica_state = _hints(target)["replica_state"]
            return lambda r: replica_state(replica_id=r.replica_id)
        case "FetchRequest", ("FetchTopic" | "ForgottenTopic"), "topic_id" if "topic" in has:
            return lambda t: METADATA_TOPIC_ID if t.topic == METADATA_TOPIC else None
        case "FetchResponse", "FetchableTopicResponse", "topic" if "topic_id" in has:
            return lambda t: METADATA_TOPIC if t.topic_id == METADATA_TOPIC_ID else ""
        case "EndQuorumEpochRequest", "PartitionData", "preferred_candidates" if (
            "preferred_successors" in has
        ):
            info = element(_hints(target)["preferred_candidates"])
            return lambda partition: _candidates_of_ids(partition, info)
        case "EndQuorumEpochRequest", "PartitionData", "preferred_successors" if (
            "preferred_candidates" in has
        ):
            return lambda partition: tuple(c.candidate_id for c in partition.preferred_candidates)
        case "AlterPartitionRequest", "PartitionData", "new_isr_with_epochs" if "new_isr" in has:
            member = element(_hints(target)["new_isr_with_epochs"])
            return lambda p: tuple(member(broker_id=i) for i in _present(p.new_isr, "new_isr"))
        case "AlterPartitionRequest", "PartitionData", "new_isr" if "new_isr_with_epochs" in has:
            return lambda partition: tuple(m.broker_id for m in partition.new_isr_with_epochs)
    return _feature_rule(root, name, has)


def _feature_rule(root: str, name: str, source: Container[str]) -> Converter | None:
    # Version 0 of UpdateFeatures has a flag where later ones name the type of the upgrade.
    match root, name:
        case "UpdateFeaturesRequest", "upgrade_type" if "allow_downgrade" in source:
            return lambda update: SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
        case "UpdateFeaturesRequest", "allow_downgrade" if "upgrade_type" in source:
            return lambda update: update.upgrade_type != UPGRADE
    return None


def convert(message: Any, target: type[Any]) -> Any:
    """Return `message` as an instance of `target`, another version of its class.

    Raises ConversionError when a field that matters would be lost, or a null is not allowed.
    """
    source = type(message)
    return _converter(source.__name__, source, target)(message)


_CONVERTERS: Final[dict[tuple[str, type[Any], type[Any]], Converter]] = {}


def _converter(root: str, source: Any, target: Any) -> Converter:
    key = (root, source, target)
    found = _CONVERTERS.get(key)
    if found is None:
        found = _CONVERTERS[key] = _compile(root, source, target)
    return found


def _compile(root: str, source: type[Any], target: type[Any]) -> Converter:
    assert source.__name__ == target.__name__, (source, target)
    fields = [
        (field.name, _source_of(root, source, target, field))
        for field in dataclasses.fields(target)
    ]
    lost = [
        _loss_check(root, source, field)
        for field in dataclasses.fields(source)
        if field.name not in target.__dataclass_fields__
        and (root, source.__name__, field.name) in _MUST_SURVIVE
    ]
    if source is target:

        def check(entity: Any) -> Any:
            for _, get in fields:
                get(entity)
            return entity

        return check

    def build(entity: Any) -> Any:
        for refuse in lost:
            refuse(entity)
        return target(**{name: get(entity) for name, get in fields})

    return build


def _source_of(
    root: str, source: type[Any], target: type[Any], field: dataclasses.Field[Any]
) -> Converter:
    """Return what computes a target's field from a source entity."""
    rule = None if source is target else _rule(root, source, target, field.name)
    if rule is not None:
        return rule
    if field.name not in source.__dataclass_fields__:
        default = schema_default(field, target)
        return lambda _: default
    convert_value = _field_converter(root, _field(source, field.name), field, target)
    name = field.name
    return lambda entity: convert_value(getattr(entity, name))


def _field_converter(
    root: str, source: dataclasses.Field[Any], target: dataclasses.Field[Any], owner: type[Any]
) -> Converter:
    optional = is_optional(target.type) or "tag" in target.metadata
    inner: Converter | None = None
    source_entity, target_entity = element(source.type), element(target.type)
    if dataclasses.is_dataclass(target_entity):
        inner = _converter(root, source_entity, target_entity)
    many = is_array(target.type)
    name = f"{owner.__name__}.{target.name}"

    def value(found: Any) -> Any:
        if found is None:
            if not optional:
                raise ConversionError(f"{name} is null")
            return None
        if inner is None:
            return found
        return tuple(inner(item) for item in found) if many else inner(found)

    return value


def _loss_check(
    root: str, source: type[Any], field: dataclasses.Field[Any]
) -> Callable[[Any], None]:
    default = schema_default(field, source)

    def refuse(entity: Any) -> None:
        if getattr(entity, field.name) != default:
            raise ConversionError(f"{root}.{field.name} does not exist in the older version")

    return refuse


_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": dt.timedelta(0),
    "timedelta_i64": dt.timedelta(0),
}


def schema_default(field: dataclasses.Field[Any], owner: type[Any]) -> Any:
    """Return the schema's default: the explicit one, else null, empty or zero by type."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if is_optional(field.type):
        return None
    if is_array(field.type):
        return ()
    if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
        nested = dataclasses.fields(field.type)
        return field.type(**{inner.name: schema_default(inner, field.type) for inner in nested})
    kafka_type = field.metadata.get("kafka_type")
    assert kafka_type is not None, f"no default for {owner.__name__}.{field.name}"
    return _ZEROS.get(kafka_type, 0)


def _field(owner: type[Any], name: str) -> dataclasses.Field[Any]:
    return typing.cast("dataclasses.Field[Any]", owner.__dataclass_fields__[name])


def _hints(owner: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(owner)

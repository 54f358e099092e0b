"""Records of brokers and controllers.

Source: Kafka's metadata/src/main/resources/common/metadata/*.json. Names, types, versions and tags
were read there for RegisterBrokerRecord v0-3, UnregisterBrokerRecord, FenceBrokerRecord,
UnfenceBrokerRecord, BrokerRegistrationChangeRecord v0-2 and RegisterControllerRecord. The field
CordonedLogDirs (KIP-1066: RegisterBrokerRecord v4, BrokerRegistrationChangeRecord v3) was read
there with its tags in the branch of its author; that it is nullable in the release comes from a
description of Kafka 4.3.1, not from the schema itself.
"""

from __future__ import annotations

import uuid
from typing import Annotated, ClassVar

from cluster.node.controller.records import wire
from cluster.node.controller.records.schema import Message, MetadataRecord, Since, Struct
from cluster.values import valueclass


@valueclass(kw_only=True)
class RecordEndpoint(Message):
    """A listener of a broker (BrokerEndpoint) or a controller (ControllerEndpoint)."""

    name: Annotated[str, wire.STRING]
    host: Annotated[str, wire.STRING]
    port: Annotated[int, wire.UINT16]
    security_protocol: Annotated[int, wire.INT16] = 0


@valueclass(kw_only=True)
class RecordFeature(Message):
    """A range of levels that a node supports of a feature."""

    name: Annotated[str, wire.STRING]
    min_supported_version: Annotated[int, wire.INT16]
    max_supported_version: Annotated[int, wire.INT16]


ENDPOINTS = wire.Array(Struct(RecordEndpoint))
FEATURES = wire.Array(Struct(RecordFeature))


@valueclass(kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    """A broker registered, with a new epoch."""

    api_key: ClassVar[int] = 0
    max_version: ClassVar[int] = 4

    broker_id: Annotated[int, wire.INT32]
    is_migrating_zk_broker: Annotated[bool, wire.BOOL, Since(2)] = False
    incarnation_id: Annotated[uuid.UUID, wire.UUID]
    broker_epoch: Annotated[int, wire.INT64]
    end_points: Annotated[tuple[RecordEndpoint, ...], ENDPOINTS]
    features: Annotated[tuple[RecordFeature, ...], FEATURES]
    rack: Annotated[str | None, wire.NULLABLE_STRING] = None
    fenced: Annotated[bool, wire.BOOL] = True
    in_controlled_shutdown: Annotated[bool, wire.BOOL, Since(1)] = False
    log_dirs: Annotated[tuple[uuid.UUID, ...], wire.UUIDS, Since(3), wire.Tagged(0)] = ()
    cordoned_log_dirs: Annotated[
        tuple[uuid.UUID, ...] | None, wire.NULLABLE_UUIDS, Since(4), wire.Tagged(1)
    ] = None


@valueclass(kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker was taken out of the cluster."""

    api_key: ClassVar[int] = 1

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class FenceBrokerRecord(MetadataRecord):
    """A broker was fenced (superseded by BrokerRegistrationChangeRecord)."""

    api_key: ClassVar[int] = 7

    id: Annotated[int, wire.INT32]
    epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class UnfenceBrokerRecord(MetadataRecord):
    """A broker was unfenced (superseded by BrokerRegistrationChangeRecord)."""

    api_key: ClassVar[int] = 8

    id: Annotated[int, wire.INT32]
    epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """A part of a registration changed.

    `fenced` is -1 unfenced, 0 no change, 1 fenced; `in_controlled_shutdown` 0 no change, 1 yes;
    empty `log_dirs` and null `cordoned_log_dirs` mean no change.
    """

    api_key: ClassVar[int] = 17
    max_version: ClassVar[int] = 3

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64]
    fenced: Annotated[int, wire.INT8, wire.Tagged(0)] = 0
    in_controlled_shutdown: Annotated[int, wire.INT8, Since(1), wire.Tagged(1)] = 0
    log_dirs: Annotated[tuple[uuid.UUID, ...], wire.UUIDS, Since(2), wire.Tagged(2)] = ()
    cordoned_log_dirs: Annotated[
        tuple[uuid.UUID, ...] | None, wire.NULLABLE_UUIDS, Since(3), wire.Tagged(3)
    ] = None


@valueclass(kw_only=True)
class RegisterControllerRecord(MetadataRecord):
    """A controller reported its listeners and features (KIP-919)."""

    api_key: ClassVar[int] = 27

    controller_id: Annotated[int, wire.INT32]
    incarnation_id: Annotated[uuid.UUID, wire.UUID]
    zk_migration_ready: Annotated[bool, wire.BOOL] = False
    end_points: Annotated[tuple[RecordEndpoint, ...], ENDPOINTS]
    features: Annotated[tuple[RecordFeature, ...], FEATURES]


@valueclass(kw_only=True)
class UnregisterControllerRecord(MetadataRecord):
    """A controller's registration is gone (4.4)."""

    api_key: ClassVar[int] = 29

    controller_id: Annotated[int, wire.INT32]

"""Records of features, producer ids and metadata transactions, and the one that says nothing.

Source: Kafka's metadata/src/main/resources/common/metadata/*.json, where all of them were read. The
bytes of FeatureLevelRecord were compared with a log that a released Kafka wrote.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from cluster.node.controller.records import wire
from cluster.node.controller.records.schema import MetadataRecord
from cluster.values import valueclass


@valueclass(kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """The finalized level of a feature; 0 means that it is not supported.

    The metadata begin with that of `metadata.version`; its version never advances beyond 0.
    """

    api_key: ClassVar[int] = 12

    name: Annotated[str, wire.STRING]
    feature_level: Annotated[int, wire.INT16]


@valueclass(kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    """A block of producer ids was given to a broker; the next begins at `next_producer_id`."""

    api_key: ClassVar[int] = 15

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64] = -1
    next_producer_id: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class NoOpRecord(MetadataRecord):
    """Nothing; keeps the log moving while the cluster is idle (KIP-835)."""

    api_key: ClassVar[int] = 20


@valueclass(kw_only=True)
class BeginTransactionRecord(MetadataRecord):
    """A metadata transaction begins (KIP-868)."""

    api_key: ClassVar[int] = 23

    name: Annotated[str | None, wire.NULLABLE_STRING, wire.Tagged(0)] = None


@valueclass(kw_only=True)
class EndTransactionRecord(MetadataRecord):
    """The metadata transaction takes effect."""

    api_key: ClassVar[int] = 24


@valueclass(kw_only=True)
class AbortTransactionRecord(MetadataRecord):
    """The metadata transaction never happened."""

    api_key: ClassVar[int] = 25

    reason: Annotated[str | None, wire.NULLABLE_STRING, wire.Tagged(0)] = None


TRANSACTION_MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
"""They mark the ends of a metadata transaction (KIP-868), and change nothing themselves."""


@valueclass(kw_only=True)
class ZkMigrationStateRecord(MetadataRecord):
    """How far a migration from ZooKeeper went: of clusters that began before 4.0."""

    api_key: ClassVar[int] = 21

    zk_migration_state: Annotated[int, wire.INT8]

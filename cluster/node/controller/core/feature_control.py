"""Supported and finalized feature levels (FeatureControlManager, QuorumFeatures)."""

from __future__ import annotations

from typing import Final

from cluster.node.controller.core.feature_update import min_isr_of_all_brokers
from cluster.node.controller.metadata import feature_levels
from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.system import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from cluster.node.kraft.quorum.voters import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from cluster.node.protocol.features import Features, FinalizedFeature, SupportedFeature

KRAFT_VERSION = "kraft.version"

SUPPORTED: Final = (
    # Those of coordinators, which are not here, are for the brokers of Kafka that have some.
    *(
        SupportedFeature(name, levels.start, levels.stop - 1)
        for name, levels in feature_levels.OFFERED.items()
    ),
    SupportedFeature(KRAFT_VERSION, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION),
)


def features_of(image: MetadataImage, kraft_version: int = 0) -> Features:
    """Return the features that clients see; finalized is what the committed metadata and raft say.

    As in Kafka a `kraft.version` of 0 is not named among the finalized features.
    """
    features = image.state.features
    levels = [(name, features.get(name)) for name in sorted(features.keys())]
    levels = sorted([*levels, (KRAFT_VERSION, kraft_version)])
    finalized = tuple(FinalizedFeature(name, level) for name, level in levels if level)
    return Features(SUPPORTED, finalized, image.offset if finalized else -1)


def bootstrap_metadata(
    metadata_version: int = feature_levels.METADATA_VERSION_LEVEL,
) -> tuple[MetadataRecord, ...]:
    """Return the features that a cluster begins with (BootstrapMetadata.fromVersions)."""
    levels = {
        feature_levels.METADATA_VERSION: metadata_version,
        **feature_levels.default_levels(metadata_version),
    }
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()
    )


def bootstrap_records(
    committed: MetadataState, formatted: tuple[MetadataRecord, ...], min_insync_replicas: int
) -> tuple[MetadataRecord, ...]:
    """Return what a controller writes first when the log holds no metadata yet.

    They are those that the folder was `formatted` with, if any. With eligible leader replicas all
    brokers are given `min_insync_replicas`, as of this controller's file. As in Kafka they are one
    metadata transaction (KIP-868), so that they may be more than fit into one batch and are seen
    together all the same (ActivationRecordsGenerator.recordsForEmptyLog).

    Decided by the committed image, not by a flag of its own, so that a bootstrap that was appended
    but never committed is written again by the next leader (KAFKA-20839 forgot that).
    """
    if committed.features.get(feature_levels.METADATA_VERSION) is not None:
        return ()
    begin = BeginTransactionRecord(name="Bootstrap records")
    records = formatted or bootstrap_metadata()
    has_elr = any(
        isinstance(record, FeatureLevelRecord)
        and record.name == feature_levels.ELIGIBLE_LEADER_REPLICAS
        and record.feature_level
        for record in records
    )
    fixed = (min_isr_of_all_brokers(min_insync_replicas),) if has_elr else ()
    return (begin, *records, *fixed, EndTransactionRecord())

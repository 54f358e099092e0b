"""Supported and finalized feature levels (FeatureControlManager, QuorumFeatures)."""

from __future__ import annotations

from typing import Final

from cluster.node.controller.feature_levels import (
    COORDINATOR_FEATURES,
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_MAX,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    READABLE,
)
from cluster.node.controller.feature_update import MIN_ISR_OF_ALL_BROKERS
from cluster.node.controller.image import MetadataImage
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.system import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from cluster.node.controller.state import MetadataState
from cluster.node.kraft.voters import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from cluster.node.protocol.features import Features, FinalizedFeature, SupportedFeature

KRAFT_VERSION = "kraft.version"

SUPPORTED: Final = (
    # We write newer records than a lower level allows, and know of no higher one.
    SupportedFeature(METADATA_VERSION, METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    SupportedFeature(ELIGIBLE_LEADER_REPLICAS, 0, ELIGIBLE_LEADER_REPLICAS_MAX),
    SupportedFeature(KRAFT_VERSION, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION),
    # Of coordinators, which are not here. Brokers of Kafka ask a controller for them, and their
    # levels say how records are to be read, which we do.
    *(
        SupportedFeature(name, READABLE[name].start, READABLE[name].stop - 1)
        for name in COORDINATOR_FEATURES
    ),
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


def bootstrap_metadata() -> tuple[MetadataRecord, ...]:
    """Return the metadata that a cluster begins with, as kafka-storage formats one of 4.1 or later.

    With eligible leader replicas, and therefore a minimal ISR that is set for all brokers.
    """
    return (
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(
            name=ELIGIBLE_LEADER_REPLICAS, feature_level=ELIGIBLE_LEADER_REPLICAS_MAX
        ),
        MIN_ISR_OF_ALL_BROKERS,
    )


def bootstrap_records(committed: MetadataState) -> tuple[MetadataRecord, ...]:
    """Return what a controller writes first when the log holds no metadata yet.

    As in Kafka they are one metadata transaction (KIP-868), so that they may be more than fit into
    one batch and are seen together all the same (ActivationRecordsGenerator.recordsForEmptyLog).

    Decided by the committed image, not by a flag of its own, so that a bootstrap that was appended
    but never committed is written again by the next leader (KAFKA-20839 forgot that).
    """
    if committed.features.get(METADATA_VERSION) is not None:
        return ()
    begin = BeginTransactionRecord(name="Bootstrap records")
    return (begin, *bootstrap_metadata(), EndTransactionRecord())

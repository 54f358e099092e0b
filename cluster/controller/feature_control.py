"""Supported and finalized feature levels (FeatureControlManager, QuorumFeatures)."""

from __future__ import annotations

from typing import Final

from cluster.controller.image import MetadataImage
from cluster.controller.records import MetadataRecord
from cluster.controller.records.system import FeatureLevelRecord
from cluster.controller.state import MetadataState
from cluster.protocol.features import Features, FinalizedFeature, SupportedFeature

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30
"""4.3-IV0, the level of Kafka 4.3: the lowest that allows every record version that we write."""

KRAFT_VERSION = "kraft.version"

SUPPORTED: Final = (
    # We write newer records than a lower level allows, and know of no higher one.
    SupportedFeature(METADATA_VERSION, METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    SupportedFeature(KRAFT_VERSION, 0, 0),  # voters are static
)


def features_of(image: MetadataImage) -> Features:
    """Return what clients are told; finalized is what the committed metadata says.

    As in Kafka a `kraft.version` of 0 is not named among the finalized features.
    """
    level = image.state.features.get(METADATA_VERSION)
    if level is None:
        return Features(SUPPORTED)
    return Features(SUPPORTED, (FinalizedFeature(METADATA_VERSION, level),), image.offset)


def bootstrap_records(committed: MetadataState) -> tuple[MetadataRecord, ...]:
    """Return what a controller writes first when the log holds no metadata yet.

    Decided by the committed image, not by a flag of its own, so that a bootstrap that was appended
    but never committed is written again by whoever leads next (KAFKA-20839 forgot that).
    """
    if committed.features.get(METADATA_VERSION) is not None:
        return ()
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),)

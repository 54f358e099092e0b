"""Finalized feature levels (FeatureControlManager)."""

from __future__ import annotations

from cluster.controller.records import MetadataRecord
from cluster.controller.records.system import FeatureLevelRecord
from cluster.controller.state import MetadataState

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30
"""4.3-IV0, the level of Kafka 4.3: the lowest that allows every record version that we write."""


def bootstrap_records(committed: MetadataState) -> tuple[MetadataRecord, ...]:
    """Return what a controller writes first when the log holds no metadata yet.

    Decided by the committed image, not by a flag of its own, so that a bootstrap that was appended
    but never committed is written again by whoever leads next (KAFKA-20839 forgot that).
    """
    if committed.features.get(METADATA_VERSION) is not None:
        return ()
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),)

"""Supported and finalized levels of features, and UpdateFeatures (FeatureControlManager; KIP-584).

All updates of a request happen, or none. What may be chosen is what this node and every registered
broker and controller supports. `kraft.version` belongs to raft and is not changed here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final

from cluster.node.controller.configs.definitions import MIN_INSYNC_REPLICAS
from cluster.node.controller.configs.sources import ALL_BROKERS
from cluster.node.controller.metadata import feature_levels
from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.registrations import ClusterInfo, registered_brokers
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import MetadataState, ResourceType
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import (
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RecordFeature,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.quorum.control_state import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from cluster.node.protocol import messages
from cluster.node.protocol.apis import Features, FinalizedFeature, SupportedFeature

_DISABLED: Final = range(1)
"""QuorumFeatures.DISABLED: the levels of a feature that a node does not know."""


class UpgradeType(enum.IntEnum):
    """FeatureUpdate.UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def min_isr_of_all_brokers(value: int) -> ConfigRecord:
    """Return the record that sets min.insync.replicas for all brokers."""
    return ConfigRecord(
        resource_type=ALL_BROKERS.type,
        resource_name=ALL_BROKERS.name,
        name=MIN_INSYNC_REPLICAS,
        value=str(value),
    )


def update_features(
    request: messages.UpdateFeaturesRequest, state: MetadataState, cluster: ClusterInfo
) -> ControllerResult[messages.UpdateFeaturesResponse]:
    """Return the records of all updates. Raises RequestError."""
    names = [update.feature for update in request.feature_updates]
    if len(set(names)) != len(names):
        raise RequestError(ErrorCode.invalid_request, "A feature is updated twice.")
    records: list[MetadataRecord] = []
    for update in request.feature_updates:
        reason = _why_not(update, state, cluster)
        if reason is not None:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"{reason}"
            )
            raise RequestError(ErrorCode.invalid_update_version, message)
        records += _update(update, state, cluster)
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=messages.UpdateFeaturesResponse(
            throttle_time=messages.NO_THROTTLE, error_code=ErrorCode.none, error_message=None
        ),
    )


def _update(
    update: messages.FeatureUpdateKey, state: MetadataState, cluster: ClusterInfo
) -> list[MetadataRecord]:
    name, level = update.feature, int(update.max_version_level)
    changes: list[MetadataRecord] = []
    if level != (state.features.get(name) or 0):
        changes.append(FeatureLevelRecord(name=name, feature_level=level))
    if name != feature_levels.ELIGIBLE_LEADER_REPLICAS:
        return changes
    # What counts as enough in-sync replicas must not change under the ELR unnoticed.
    if level:
        return [*_elr_safety_records(state, cluster.min_insync_replicas), *changes]
    return [*changes, ClearElrRecord()] if changes else []


def _why_not(
    update: messages.FeatureUpdateKey, state: MetadataState, cluster: ClusterInfo
) -> str | None:
    name, level = update.feature, int(update.max_version_level)
    current = state.features.get(name) or 0
    reason = _why_no_version(name, level, current, int(update.upgrade_type), state, cluster)
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if (
        name == feature_levels.METADATA_VERSION
        and level < current
        and feature_levels.metadata_changed(level, current)
    ):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if int(update.upgrade_type) == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
        return f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    return None


def _why_no_version(
    name: str,
    level: int,
    current: int,
    upgrade_type: int,
    state: MetadataState,
    cluster: ClusterInfo,
) -> str | None:
    if upgrade_type not in [int(known) for known in UpgradeType]:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    for node, levels in _supported_levels(name, state):
        if level not in levels:
            return f"{node} {_offer(levels)}"
    unseen = _unregistered_controller(state, cluster)
    if unseen is not None:
        return f"controller {unseen} has not registered, and may not support this feature"
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _supported_levels(name: str, state: MetadataState) -> Iterator[tuple[str, range]]:
    """Yield every node that must support a feature, and its levels; 0 where it has none."""
    yield "Local controller", feature_levels.OFFERED.get(name, _DISABLED)
    for broker in registered_brokers(state):
        yield f"Broker {broker.id}", _levels(name, broker.features)
    for controller_id in sorted(state.controllers.keys()):
        controller = state.controllers.get(controller_id)
        assert controller is not None
        yield f"Controller {controller_id}", _levels(name, controller.features)


def _unregistered_controller(state: MetadataState, cluster: ClusterInfo) -> int | None:
    """Return a configured voter of which nothing is known, if there is one."""
    if not cluster.registration:
        return None
    known = {cluster.node_id, *state.controllers.keys()}
    return next((each.node_id for each in cluster.controllers if each.node_id not in known), None)


def _levels(name: str, features: Iterable[RecordFeature]) -> range:
    for feature in features:
        if feature.name == name:
            return range(feature.min_supported_version, feature.max_supported_version + 1)
    return _DISABLED


def _offer(levels: range) -> str:
    lowest, highest = levels.start, levels.stop - 1
    if highest == 0:
        return "does not support this feature."
    return f"only supports versions {lowest}" + (f"-{highest}" if highest > lowest else "")


def _elr_safety_records(state: MetadataState, static_value: int) -> list[MetadataRecord]:
    """Return what makes all brokers agree on the minimal ISR (maybeGenerateElrSafetyRecords).

    The `static_value` is set for all brokers, if nothing is; that of a single broker is removed.
    """
    records: list[MetadataRecord] = []
    if state.resource_config(ALL_BROKERS, MIN_INSYNC_REPLICAS) is None:
        records.append(min_isr_of_all_brokers(static_value))
    single = [
        resource
        for resource in list(state.config_names.keys())
        if resource.type == ResourceType.BROKER
        and resource.name
        and state.resource_config(resource, MIN_INSYNC_REPLICAS) is not None
    ]
    records += [
        ConfigRecord(
            resource_type=resource.type,
            resource_name=resource.name,
            name=MIN_INSYNC_REPLICAS,
            value=None,
        )
        for resource in sorted(single, key=lambda resource: int(resource.name))
    ]
    return records


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

"""UpdateFeatures: raise or lower the levels that are in force (FeatureControlManager; KIP-584).

All updates of a request happen, or none. What may be chosen is what this node and every registered
broker supports. `kraft.version` belongs to raft and is not changed here.
"""

from __future__ import annotations

import enum

from cluster.node.controller.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_MAX,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
)
from cluster.node.controller.leadership import DEFAULT_MIN_INSYNC_REPLICAS, MIN_INSYNC_REPLICAS
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.system import FeatureLevelRecord
from cluster.node.controller.records.topic import ClearElrRecord, ConfigRecord
from cluster.node.controller.registrations import registered_brokers
from cluster.node.controller.result import ControllerResult, RequestError
from cluster.node.controller.state import ConfigResource, MetadataState, ResourceType
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

LEVELS = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    ELIGIBLE_LEADER_REPLICAS: (0, ELIGIBLE_LEADER_REPLICAS_MAX),
}
"""Lowest and highest level that a feature can be set to."""
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
MIN_ISR_OF_ALL_BROKERS = ConfigRecord(
    resource_type=ALL_BROKERS.type,
    resource_name=ALL_BROKERS.name,
    name=MIN_INSYNC_REPLICAS,
    value=str(DEFAULT_MIN_INSYNC_REPLICAS),
)


class UpgradeType(enum.IntEnum):
    """FeatureUpdate.UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    request: UpdateFeaturesRequest, state: MetadataState
) -> ControllerResult[UpdateFeaturesResponse]:
    """Return the records of all updates.

    Raises RequestError: INVALID_REQUEST, INVALID_UPDATE_VERSION.
    """
    names = [update.feature for update in request.feature_updates]
    if len(set(names)) != len(names):
        raise RequestError(ErrorCode.invalid_request, "A feature is updated twice.")
    records: list[MetadataRecord] = []
    for update in request.feature_updates:
        records += _update(update, state)
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=UpdateFeaturesResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None
        ),
    )


def _update(update: FeatureUpdateKey, state: MetadataState) -> list[MetadataRecord]:
    name, level = update.feature, int(update.max_version_level)
    if int(update.upgrade_type) not in [int(known) for known in UpgradeType]:
        message = f"The controller does not support upgrade type {update.upgrade_type}"
        raise RequestError(ErrorCode.invalid_request, message)
    current = state.features.get(name) or 0
    reason = _why_not(name, level, current, UpgradeType(update.upgrade_type), state)
    if reason is not None:
        message = f"Invalid update version {level} for feature {name}. {reason}"
        raise RequestError(ErrorCode.invalid_update_version, message)
    changes: list[MetadataRecord] = (
        [] if level == current else [FeatureLevelRecord(name=name, feature_level=level)]
    )
    if name != ELIGIBLE_LEADER_REPLICAS:
        return changes
    # What counts as enough in-sync replicas must not change under the ELR unnoticed.
    if level:
        return [*elr_safety_records(state), *changes]
    return [*changes, ClearElrRecord()] if changes else []


def _why_not(
    name: str, level: int, current: int, upgrade_type: UpgradeType, state: MetadataState
) -> str | None:
    if name not in LEVELS:
        return "This node does not support this feature."
    lowest, highest = LEVELS[name]
    if not lowest <= level <= highest:
        return f"This node only supports versions {lowest} to {highest}."
    for broker in registered_brokers(state):
        found = next((feature for feature in broker.features if feature.name == name), None)
        low, high = (
            (0, 0) if found is None else (found.min_supported_version, found.max_supported_version)
        )
        if not low <= level <= high:
            return f"Broker {broker.id} only supports versions {low} to {high}."
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        return "Can't downgrade without setting the upgrade type to safe or unsafe downgrade."
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def elr_safety_records(state: MetadataState) -> list[MetadataRecord]:
    """Return what makes all brokers agree on the minimal ISR (maybeGenerateElrSafetyRecords).

    One for all brokers is set, if none is; that of a single broker is removed.
    """
    records: list[MetadataRecord] = []
    if state.resource_config(ALL_BROKERS, MIN_INSYNC_REPLICAS) is None:
        records.append(MIN_ISR_OF_ALL_BROKERS)
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

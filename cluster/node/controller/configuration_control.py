"""IncrementalAlterConfigs (ConfigurationControlManager; KIP-339).

Any name that is not empty may be set on a topic, on a broker or on all brokers (the broker named
""), and every value is a string. APPEND and SUBTRACT work on any name as Kafka's do on those of
type LIST: the value is split at commas, empty parts are dropped, an element that is there already
is not appended again.
"""

from __future__ import annotations

import enum

from cluster.node.controller.cluster_info import ClusterInfo
from cluster.node.controller.feature_levels import is_elr_enabled
from cluster.node.controller.leadership import MIN_INSYNC_REPLICAS
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.topic import ClearElrRecord, ConfigRecord
from cluster.node.controller.registrations import broker_ids
from cluster.node.controller.result import NO_ERROR, ApiError, ControllerResult
from cluster.node.controller.state import ConfigResource, MetadataState, ResourceType
from cluster.node.controller.topic_names import invalid_name_reason
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

CLIENT_METRICS = frozenset({"interval.ms", "match", "metrics"})
"""Configurations of a subscription of clients' metrics (KIP-714); stored, pushed to nobody."""


class OpType(enum.IntEnum):
    """AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigError(Exception):
    """One resource of a request is refused."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.api_error = ApiError(error, message)


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, state: MetadataState, cluster: ClusterInfo
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """Return the records of every resource with legal changes only, and the results."""
    items: dict[ConfigResource, list[AlterConfigsResource]] = {}
    for item in request.resources:
        items.setdefault(ConfigResource(item.resource_type, item.resource_name), []).append(item)
    records: list[MetadataRecord] = []
    responses: list[AlterConfigsResourceResponse] = []
    for resource, same in items.items():
        item = same[-1]
        error = NO_ERROR
        try:
            records += _changes(resource, item, len(same), state, cluster)
        except ConfigError as refusal:
            error = refusal.api_error
        responses.append(
            AlterConfigsResourceResponse(
                error_code=error.error,
                error_message=error.message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
        )
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=IncrementalAlterConfigsResponse(
            throttle_time=NO_THROTTLE, responses=tuple(responses)
        ),
    )


def _changes(
    resource: ConfigResource,
    item: AlterConfigsResource,
    occurrences: int,
    state: MetadataState,
    cluster: ClusterInfo,
) -> list[MetadataRecord]:
    if occurrences > 1:
        raise ConfigError(ErrorCode.invalid_request, "Each resource must appear at most once.")
    check_resource(resource, state, cluster)
    names = [config.name for config in item.configs]
    if len(set(names)) < len(names):
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        message = f"Error due to duplicate config keys: {', '.join(repeated)}"
        raise ConfigError(ErrorCode.invalid_request, message)
    records: list[MetadataRecord] = []
    for config in item.configs:
        if resource.type == ResourceType.CLIENT_METRICS and config.name not in CLIENT_METRICS:
            message = f"Unknown client metrics configuration: {config.name}"
            raise ConfigError(ErrorCode.invalid_request, message)
        current = state.configs.get((resource, config.name))
        value = _new_value(config, current)
        if config.name == MIN_INSYNC_REPLICAS and is_elr_enabled(state):
            _check_min_isr(resource, value)
        # As Kafka does: a broker hears of a value that was set again, so that it reloads what the
        # value names (KAFKA-14136); a topic's configuration that stays as it is costs no record.
        if value != current or resource.type == ResourceType.BROKER:
            records.append(
                ConfigRecord(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    name=config.name,
                    value=value,
                )
            )
    return [*records, *_cleared_elr(resource, records, state)]


def _check_min_isr(resource: ConfigResource, value: str | None) -> None:
    """Keep the minimal ISR one that all brokers agree on while there is ELR (KIP-966).

    A single broker's own may not change, not even be removed, and the one for all brokers must
    stay set: else the static configuration of each controller counted. Raises ConfigError.
    """
    if resource.type != ResourceType.BROKER:
        return
    if resource.name:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif value is None:
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    else:
        return
    raise ConfigError(ErrorCode.invalid_config, message)


def _cleared_elr(
    resource: ConfigResource, changes: list[MetadataRecord], state: MetadataState
) -> list[MetadataRecord]:
    """Clear the ELRs that were kept under another min.insync.replicas (KIP-966)."""
    names = {change.name for change in changes if isinstance(change, ConfigRecord)}
    if MIN_INSYNC_REPLICAS not in names or not is_elr_enabled(state):
        return []
    topic = resource.name if resource.type == ResourceType.TOPIC else ""
    return [ClearElrRecord(topic_name=topic)]


def check_resource(resource: ConfigResource, state: MetadataState, cluster: ClusterInfo) -> None:
    """Check that a resource exists. Raises ConfigError."""
    if resource.type == ResourceType.TOPIC:
        reason = invalid_name_reason(resource.name)
        if reason is not None:
            message = f"Topic name is invalid: {reason}"
            raise ConfigError(ErrorCode.invalid_topic_exception, message)
        if state.topic_names.get(resource.name) is None:
            message = f"The topic '{resource.name}' does not exist."
            raise ConfigError(ErrorCode.unknown_topic_or_partition, message)
    elif resource.type == ResourceType.BROKER:
        _check_broker(resource.name, state, cluster)
    elif resource.type == ResourceType.CLIENT_METRICS:
        if not resource.name:
            message = "Default resource names are not allowed for CLIENT_METRICS."
            raise ConfigError(ErrorCode.invalid_request, message)
    else:
        message = f"Unsupported resource type {resource.type}."
        raise ConfigError(ErrorCode.invalid_request, message)


def _check_broker(name: str, state: MetadataState, cluster: ClusterInfo) -> None:
    if name == "":
        return
    if not (name.isascii() and name.isdecimal()):
        message = f"Invalid broker name '{name}'."
        raise ConfigError(ErrorCode.invalid_request, message)
    if name not in {str(broker_id) for broker_id in broker_ids(state, cluster)}:
        message = f"No broker with id {name} found."
        raise ConfigError(ErrorCode.broker_id_not_registered, message)


def _new_value(config: AlterableConfig, current: str | None) -> str | None:
    """Return what the configuration becomes; None when it is deleted. Raises ConfigError."""
    if not config.name:
        raise ConfigError(ErrorCode.invalid_config, "A config name may not be empty.")
    try:
        op_type = OpType(config.config_operation)
    except ValueError as error:
        message = f"Unknown config operation {config.config_operation}."
        raise ConfigError(ErrorCode.invalid_request, message) from error
    if op_type == OpType.DELETE:
        return None
    if config.value is None:
        message = f"Null value not supported for: {config.name}"
        raise ConfigError(ErrorCode.invalid_request, message)
    if op_type == OpType.SET:
        return config.value
    parts = [part for part in (current or "").split(",") if part]
    for operand in _operands(config.value):
        if op_type == OpType.APPEND and operand not in parts:
            parts.append(operand)
        elif op_type == OpType.SUBTRACT and operand in parts:
            parts.remove(operand)  # the first; only a SET can have made a second
    return ",".join(parts)


def _operands(value: str) -> list[str]:
    """Split an argument as Java does: no trailing empty parts, but "" is one part."""
    if value and not value.strip(","):
        return []
    return value.rstrip(",").split(",")

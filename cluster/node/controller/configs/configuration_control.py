"""IncrementalAlterConfigs at the controller (ConfigurationControlManager).

Names and values of topics, groups and subscriptions of clients' metrics are checked here; those of
brokers by the broker that was asked, before it forwards
(`cluster.node.broker.serving.config_admin`): a controller takes any of them, as Kafka's does, and
brokers ignore what they cannot use. APPEND and SUBTRACT are for keys of topics and brokers of type
LIST, and start from the default where nothing is set.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence

from cluster.node.controller.configs.definitions import (
    BROKER,
    MIN_INSYNC_REPLICAS,
    QUOTAS,
    TOPIC,
    Keys,
)
from cluster.node.controller.configs.sources import broker_number, check_own_id
from cluster.node.controller.configs.validation import (
    check_lengths,
    validate_client_metrics,
    validate_group,
    validate_topic,
)
from cluster.node.controller.configs.values import ConfigType
from cluster.node.controller.metadata.feature_levels import is_elr_enabled
from cluster.node.controller.metadata.registrations import ClusterInfo, broker_ids
from cluster.node.controller.metadata.result import NO_ERROR, ControllerResult, ItemError
from cluster.node.controller.metadata.state import (
    ConfigResource,
    MetadataState,
    ResourceType,
    invalid_name_reason,
)
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import ClearElrRecord, ConfigRecord
from cluster.node.errors import ErrorCode
from cluster.node.loggers import LEVELS, ROOT
from cluster.node.protocol import messages

Changes = Mapping[str, str | None]
"""Name -> the value that it is to have; None: none."""


class OpType(enum.IntEnum):
    """AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    request: messages.IncrementalAlterConfigsRequest, state: MetadataState, cluster: ClusterInfo
) -> ControllerResult[messages.IncrementalAlterConfigsResponse]:
    """Return the records of every resource with legal changes only, and the results (KIP-339)."""
    items = request.resources
    by_resource = {ConfigResource(item.resource_type, item.resource_name): item for item in items}
    counts = Counter((item.resource_type, item.resource_name) for item in items)
    records: list[MetadataRecord] = []
    results: list[messages.AlterConfigsResourceResponse] = []
    for resource, item in by_resource.items():
        error = NO_ERROR
        try:
            _check_once(counts[item.resource_type, item.resource_name])
            check_named_once(item)
            check_not_null(item)
            if resource.type == ResourceType.BROKER_LOGGER:
                alter_loggers(item, cluster, validate_only=request.validate_only)
            else:
                current = state.resource_configs(resource)
                changes = incremental_changes(resource, item.configs, current)
                records += _checked_records(resource, current, changes, state, cluster)
        except ItemError as refusal:
            error = refusal.api_error
        results.append(
            messages.AlterConfigsResourceResponse(
                error_code=error.error,
                error_message=error.message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
        )
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=messages.IncrementalAlterConfigsResponse(
            throttle_time=messages.NO_THROTTLE, responses=tuple(results)
        ),
    )


def _checked_records(
    resource: ConfigResource,
    current: Mapping[str, str],
    changes: Changes,
    state: MetadataState,
    cluster: ClusterInfo,
) -> list[MetadataRecord]:
    """Return the records of the changes of what is set on a resource. Raises ItemError."""
    if resource.type not in _CHANGED:
        raise ItemError(ErrorCode.unsupported_version, f"Unknown resource type {resource.type}.")
    check_lengths(changes)
    validate(resource, apply_changes(current, changes))
    if MIN_INSYNC_REPLICAS in changes and is_elr_enabled(state):
        _check_min_isr(resource, changes[MIN_INSYNC_REPLICAS])
    _check_exists(resource, state, cluster)
    return _records(resource, current, changes, state)


def _records(
    resource: ConfigResource, current: Mapping[str, str], changes: Changes, state: MetadataState
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [
        ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=name, value=value
        )
        for name, value in changes.items()
        # As Kafka does: a broker hears of a value that was set again, so that it reloads what the
        # value names (KAFKA-14136); another configuration that stays as it is costs no record.
        if value != current.get(name) or resource.type == ResourceType.BROKER
    ]
    return [*records, *_cleared_elr(resource, records, state)]


def _check_min_isr(resource: ConfigResource, value: str | None) -> None:
    """Keep the minimal ISR one that all brokers agree on while there is ELR (KIP-966).

    A single broker's own may not change, not even be removed, and the one for all brokers must
    stay set: else the static configuration of each controller counted. Raises ItemError.
    """
    if resource.type != ResourceType.BROKER:
        return
    if resource.name:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif value is None:
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    else:
        return
    raise ItemError(ErrorCode.invalid_config, message)


def _cleared_elr(
    resource: ConfigResource, changes: list[MetadataRecord], state: MetadataState
) -> list[MetadataRecord]:
    """Clear the ELRs that were kept under another min.insync.replicas (KIP-966)."""
    names = {change.name for change in changes if isinstance(change, ConfigRecord)}
    if MIN_INSYNC_REPLICAS not in names or not is_elr_enabled(state):
        return []
    topic = resource.name if resource.type == ResourceType.TOPIC else ""
    return [ClearElrRecord(topic_name=topic)]


def apply_changes(current: Mapping[str, str], changes: Changes) -> dict[str, str]:
    """Return what is set once the changes are made."""
    after: dict[str, str | None] = {**current, **changes}
    return {name: value for name, value in after.items() if value is not None}


def _check_once(occurrences: int) -> None:
    if occurrences > 1:
        raise ItemError(ErrorCode.invalid_request, "Duplicate resource.")


def check_named_once(item: messages.AlterConfigsResource) -> None:
    """Refuse a key that is changed twice. Raises ItemError."""
    counts = Counter(config.name for config in item.configs)
    if any(count > 1 for count in counts.values()):
        raise ItemError(ErrorCode.invalid_request, "Error due to duplicate config keys")


def check_not_null(item: messages.AlterConfigsResource) -> None:
    """Refuse values that are missing. Raises ItemError."""
    missing = [
        config.name
        for config in item.configs
        if config.value is None and int(config.config_operation) != OpType.DELETE
    ]
    if missing:
        message = f"Null value not supported for : {', '.join(missing)}"
        raise ItemError(ErrorCode.invalid_request, message)


_CHANGED = frozenset(
    {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}
)


def alter_loggers(
    item: messages.AlterConfigsResource, cluster: ClusterInfo, *, validate_only: bool
) -> None:
    """Change levels of this node's loggers (RuntimeLoggerManager). Raises ItemError: of none."""
    name = item.resource_name
    message = f"Unexpected node id. Expected {cluster.node_id}, but received {name}"
    check_own_id(name, cluster, "Node", message)
    levels = cluster.loggers.levels
    for config in item.configs:
        _check_logger(config, levels)
    if not validate_only:
        levels.update({config.name: config.value for config in item.configs if config.value})


def _check_logger(config: messages.AlterableConfig, levels: Mapping[str, str]) -> None:
    """Raise ItemError for a change of a logger that is none."""
    operation = _op_type(config)
    if operation in {OpType.APPEND, OpType.SUBTRACT}:
        message = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise ItemError(ErrorCode.invalid_request, message)
    if config.name not in levels:
        raise ItemError(ErrorCode.invalid_config, f"Logger {config.name} does not exist!")
    if operation is OpType.DELETE:
        message = f"Removing the log level of the {ROOT} logger is not allowed"
        raise ItemError(ErrorCode.invalid_request, message)
    if config.value not in LEVELS:
        message = (
            f"Cannot set the log level of {config.name} to {config.value} as it is not a supported "
            f"log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        )
        raise ItemError(ErrorCode.invalid_config, message)


def validate(resource: ConfigResource, properties: Mapping[str, str]) -> None:
    """Check a resource's name and all that it is to have set. Raises ItemError."""
    if resource.type == ResourceType.TOPIC:
        _check_topic_name(resource.name)
        validate_topic(properties)
    elif resource.type == ResourceType.BROKER:
        number = broker_number(resource.name) if resource.name else 0
        if number is None or number < 0:
            message = "Invalid negative broker ID."
            if number is None:
                message = "Unable to parse broker name as a base 10 number."
            raise ItemError(ErrorCode.invalid_request, message)
    elif resource.type == ResourceType.CLIENT_METRICS:
        validate_client_metrics(resource.name, properties)
    else:
        validate_group(resource.name, properties)


def _check_topic_name(name: str) -> None:
    if not name:
        raise ItemError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    reason = invalid_name_reason(name)
    if reason is not None:
        raise ItemError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")


def _check_exists(resource: ConfigResource, state: MetadataState, cluster: ClusterInfo) -> None:
    if resource.type == ResourceType.TOPIC and state.topic_names.get(resource.name) is None:
        message = f"The topic '{resource.name}' does not exist."
        raise ItemError(ErrorCode.unknown_topic_or_partition, message)
    if resource.type == ResourceType.BROKER and resource.name:
        controllers = [*state.controllers.keys(), *(c.node_id for c in cluster.live_controllers)]
        if int(resource.name) not in {*broker_ids(state, cluster), *controllers}:
            message = f"No node with id {resource.name} found."
            raise ItemError(ErrorCode.broker_id_not_registered, message)


_WITH_LISTS: Mapping[int, Keys] = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.BROKER: {**BROKER, **QUOTAS},
}


def incremental_changes(
    resource: ConfigResource,
    configs: Sequence[messages.AlterableConfig],
    current: Mapping[str, str],
) -> Changes:
    """Return what changes of single keys come to. Raises ItemError."""
    check_lengths({config.name: config.value for config in configs})
    return {
        config.name: _new_value(resource, config, current.get(config.name)) for config in configs
    }


def _new_value(
    resource: ConfigResource, config: messages.AlterableConfig, current: str | None
) -> str | None:
    op_type = _op_type(config)
    if op_type == OpType.DELETE:
        return None
    if op_type == OpType.SET:
        return config.value
    key = _WITH_LISTS.get(resource.type, {}).get(config.name)
    if key is None or key.type is not ConfigType.LIST:
        message = f"Can't {op_type.name} to key {config.name} because its type is not LIST."
        raise ItemError(ErrorCode.invalid_config, message)
    before = (key.default or "") if current is None else current
    parts = [part for part in before.split(",") if part]
    operands = _operands(config.value or "")
    if op_type == OpType.APPEND:
        known = set(parts)
        return ",".join([*parts, *(each for each in dict.fromkeys(operands) if each not in known)])
    taken = Counter(operands)
    kept = []
    for part in parts:  # the first of equal ones goes; only a SET can have made a second
        if taken[part]:
            taken[part] -= 1
        else:
            kept.append(part)
    return ",".join(kept)


def _op_type(config: messages.AlterableConfig) -> OpType:
    try:
        return OpType(config.config_operation)
    except ValueError as error:
        message = f"Unknown operations type {config.config_operation}"
        raise ItemError(ErrorCode.invalid_request, message) from error


def _operands(value: str) -> list[str]:
    """Split an argument as Java does: no trailing empty parts, but "" is one part."""
    if value and not value.strip(","):
        return []
    return value.rstrip(",").split(",")

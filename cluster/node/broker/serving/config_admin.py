"""What a broker says to changes of configurations before it forwards them (ConfigAdminManager).

It refuses what is malformed, and what a broker could not use: of the cluster, its broker alone
knows what it was started with. Its own loggers it changes itself. The controller sees the rest of
the request; the client is answered in the order of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cluster.node.controller.configs.configuration_control import (
    OpType,
    alter_loggers,
    apply_changes,
    check_named_once,
    check_not_null,
    incremental_changes,
)
from cluster.node.controller.configs.definitions import BROKER, QUOTAS
from cluster.node.controller.configs.sources import check_own_id, in_force
from cluster.node.controller.configs.validation import validate_broker
from cluster.node.controller.configs.values import ConfigType
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.result import NO_ERROR, ApiError, ItemError
from cluster.node.controller.metadata.state import ConfigResource, MetadataState, ResourceType
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages

Reply = Callable[[Any], None]
_FORWARDED = frozenset({ResourceType.TOPIC, ResourceType.CLIENT_METRICS, ResourceType.GROUP})


def preprocess(
    request: messages.IncrementalAlterConfigsRequest,
    reply: Reply,
    state: MetadataState,
    cluster: ClusterInfo,
) -> tuple[messages.IncrementalAlterConfigsRequest, Reply] | None:
    """Return what to ask the controller, and who takes its answer; None: `reply` was called."""
    items: Sequence[messages.AlterConfigsResource] = request.resources
    counts = Counter((item.resource_type, item.resource_name) for item in items)
    settled: dict[int, ApiError] = {}
    for at, item in enumerate(items):
        try:
            _check(item, counts[item.resource_type, item.resource_name], state, cluster)
            if _is_of_loggers(item):
                alter_loggers(item, cluster, validate_only=request.validate_only)
                settled[at] = NO_ERROR
        except ItemError as refusal:
            settled[at] = refusal.api_error
    if not settled:
        return request, reply
    left: Any = tuple(item for at, item in enumerate(items) if at not in settled)
    if not left:
        reply(_response(request, [settled[at] for at in range(len(items))]))
        return None

    def reassemble(response: Any) -> None:
        answered = {
            (each.resource_type, each.resource_name): ApiError(each.error_code, each.error_message)
            for each in response.responses
        }
        found = (
            settled.get(at) or answered.get((item.resource_type, item.resource_name))
            for at, item in enumerate(items)
        )
        reply(_response(request, [each or _UNANSWERED for each in found]))

    return replace(request, resources=left), reassemble


_UNANSWERED = ApiError(ErrorCode.unknown_server_error)


def _response(
    request: messages.IncrementalAlterConfigsRequest, errors: Sequence[ApiError]
) -> messages.IncrementalAlterConfigsResponse:
    return messages.IncrementalAlterConfigsResponse(
        throttle_time=messages.NO_THROTTLE,
        responses=tuple(
            messages.AlterConfigsResourceResponse(
                error_code=error.error,
                error_message=error.message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
            for item, error in zip(request.resources, errors, strict=True)
        ),
    )


def _check(
    item: messages.AlterConfigsResource,
    occurrences: int,
    state: MetadataState,
    cluster: ClusterInfo,
) -> None:
    """Raise ItemError for a resource whose change is not forwarded."""
    if occurrences > 1:
        raise ItemError(ErrorCode.invalid_request, "Each resource must appear at most once.")
    check_named_once(item)
    check_not_null(item)
    resource = ConfigResource(item.resource_type, item.resource_name)
    if resource.type == ResourceType.BROKER:
        if resource.name:
            message = f"Unexpected broker id, expected {cluster.node_id}, but received "
            check_own_id(resource.name, cluster, "Node", message + resource.name)
        _check_broker(resource, item, state, cluster)
    elif not _is_of_loggers(item) and resource.type not in _FORWARDED:
        raise ItemError(ErrorCode.invalid_request, f"Unknown resource type {resource.type}")


def _is_of_loggers(item: messages.AlterConfigsResource) -> bool:
    return int(item.resource_type) == ResourceType.BROKER_LOGGER


def _check_broker(
    resource: ConfigResource,
    item: messages.AlterConfigsResource,
    state: MetadataState,
    cluster: ClusterInfo,
) -> None:
    of_one_broker = bool(resource.name)
    for config in item.configs:
        _check_list(config)
    current = in_force(state.resource_configs(resource), of_one_broker=of_one_broker)
    changes = incremental_changes(resource, item.configs, current)
    validate_broker(
        apply_changes(current, changes), cluster.static_configs, of_one_broker=of_one_broker
    )


def _check_list(config: messages.AlterableConfig) -> None:
    if int(config.config_operation) not in {OpType.APPEND, OpType.SUBTRACT}:
        return
    key = BROKER.get(config.name) or QUOTAS.get(config.name)
    if key is None:
        raise ItemError(ErrorCode.invalid_config, f"Unknown config name: {config.name}")
    if key.type is not ConfigType.LIST:
        operation = OpType(config.config_operation).name.lower()
        message = f"Config value {operation} is not allowed for config key: {config.name}"
        raise ItemError(ErrorCode.invalid_config, message)

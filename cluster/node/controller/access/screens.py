"""What of a request its sender may do, where that is asked for each resource (ControllerApis).

A *screen* divides a request: what is left of it goes on, and what is refused is added to the
answer. Screens of writes work within the controller's event, on its newest state: an inactive
controller has answered NOT_CONTROLLER before, and never refuses by its old entries.

What is wrong with the request itself (a topic named twice, an unknown type) stays in it and has its
own error, as in Kafka. Refused topics come last, whether or not they exist, so that their places
reveal nothing; Kafka shuffles them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from cluster.node.controller.access.codes import AclOperation, AclResourceType
from cluster.node.controller.access.rights import Access
from cluster.node.controller.result import ApiError
from cluster.node.controller.state import MetadataState, ResourceType
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import METADATA_TOPIC
from cluster.node.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    LegacyAlterConfigsResource,
    LegacyAlterConfigsResourceResponse,
    TopicName,
    i8,
    i16,
)
from cluster.values import valueclass

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")
Item = TypeVar("Item", bound="_Resource")

TOPIC_REFUSED = "Topic authorization failed."
CLUSTER_REFUSED = "Cluster authorization failed."
_GROUP_REFUSED = "Group authorization failed."


@valueclass
class Screened(Generic[Q, R]):
    """What is left of a request, and what makes the answer to that one to the whole."""

    request: Q
    complete: Callable[[R], R]


def screen_create_topics(
    request: CreateTopicsRequest, access: Access
) -> Screened[CreateTopicsRequest, CreateTopicsResponse]:
    """CREATE on the cluster, or else on each topic; DESCRIBE_CONFIGS to be shown its configs."""
    counts = Counter(topic.name for topic in request.topics)
    asked = [name for name, count in counts.items() if count == 1 and name != METADATA_TOPIC]
    refused = set[str]()
    if not access.permits_on_cluster(AclOperation.CREATE, log_if_denied=False):
        refused = {
            name
            for name in asked
            if not access.permits(AclOperation.CREATE, AclResourceType.TOPIC, name)
        }
    hidden = {
        name
        for name in asked
        if not access.permits(
            AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name, log_if_denied=False
        )
    }
    rows = tuple(
        CreatableTopicResult(
            name=name,
            topic_id=None,
            error_code=ErrorCode.topic_authorization_failed,
            error_message="Authorization failed.",
            configs=(),
        )
        for name in asked
        if name in refused
    )
    left = tuple(topic for topic in request.topics if topic.name not in refused)

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        shown = (_hide(topic) if topic.name in hidden else topic for topic in response.topics)
        return replace(response, topics=(*shown, *rows))

    return Screened(replace(request, topics=left), complete)


def _hide(topic: CreatableTopicResult) -> CreatableTopicResult:
    """Return the result without what DESCRIBE_CONFIGS shows of a topic that was created."""
    if topic.error_code is not ErrorCode.none:
        return topic
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error_code,
        error_message=topic.error_message,
        topic_config_error_code=i16(ErrorCode.topic_authorization_failed),
        configs=(),
    )


def screen_delete_topics(
    request: DeleteTopicsRequest, access: Access, state: MetadataState
) -> Screened[DeleteTopicsRequest, DeleteTopicsResponse]:
    """DELETE on the cluster, or else on each topic.

    Whoever may not even describe a topic does not learn its name from its id, nor whether there is
    one of a name.
    """
    if access.permits_on_cluster(AclOperation.DELETE, log_if_denied=False):
        return Screened(request, _as_it_is)
    named = Counter((topic.name, topic.topic_id) for topic in request.topics)
    left: list[DeleteTopicState] = []
    rows: list[DeletableTopicResult] = []
    for item in request.topics:
        is_sound = (item.name is None) is not (item.topic_id is None)
        is_named_once = named[item.name, item.topic_id] == 1
        row = _refused_deletion(item, access, state) if is_sound and is_named_once else None
        if row is None:
            left.append(item)
        else:
            rows.append(row)

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        return replace(response, responses=(*response.responses, *rows))

    return Screened(replace(request, topics=tuple(left)), complete)


def _refused_deletion(
    item: DeleteTopicState, access: Access, state: MetadataState
) -> DeletableTopicResult | None:
    """Return the refusal of one topic, None when its deletion, or its own error, may go on."""
    if item.topic_id is not None:
        topic = state.topics.get(item.topic_id)
    else:
        assert item.name is not None
        topic = state.topic_by_name(item.name)
        if topic is None:
            may_see = access.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC, item.name)
            return None if may_see else _deletion_refused(item, item.name)
    if topic is None:
        return None
    may_see = access.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
    may_delete = access.permits(AclOperation.DELETE, AclResourceType.TOPIC, topic.name)
    if may_delete and (may_see or item.name is None):
        return None
    return _deletion_refused(item, TopicName(topic.name) if may_see else item.name)


def _deletion_refused(item: DeleteTopicState, name: TopicName | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=item.topic_id,
        error_code=ErrorCode.topic_authorization_failed,
        error_message=TOPIC_REFUSED,
    )


def _as_it_is(response: R) -> R:
    return response


def screen_create_partitions(
    request: CreatePartitionsRequest, access: Access
) -> Screened[CreatePartitionsRequest, CreatePartitionsResponse]:
    """ALTER on each topic."""
    counts = Counter(topic.name for topic in request.topics)
    refused = [
        name
        for name, count in counts.items()
        if count == 1 and not access.permits(AclOperation.ALTER, AclResourceType.TOPIC, name)
    ]
    rows = tuple(
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.topic_authorization_failed, error_message=None
        )
        for name in refused
    )
    left = tuple(topic for topic in request.topics if topic.name not in refused)

    def complete(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        return replace(response, results=(*response.results, *rows))

    return Screened(replace(request, topics=left), complete)


_CLUSTER_ERROR = ApiError(ErrorCode.cluster_authorization_failed, CLUSTER_REFUSED)
_TOPIC_ERROR = ApiError(ErrorCode.topic_authorization_failed, TOPIC_REFUSED)
_GROUP_ERROR = ApiError(ErrorCode.group_authorization_failed, _GROUP_REFUSED)
_ON_CLUSTER = frozenset(
    {ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS}
)


def _config_refusal(
    resource_type: int, name: str, operation: AclOperation, access: Access
) -> ApiError | None:
    """Return why a resource's configs may not be described or altered, None when they may."""
    if resource_type in _ON_CLUSTER:
        return None if access.permits_on_cluster(operation) else _CLUSTER_ERROR
    if resource_type == ResourceType.TOPIC:
        may = access.permits(operation, AclResourceType.TOPIC, name)
        return None if may else _TOPIC_ERROR
    if resource_type == ResourceType.GROUP:
        may = access.permits(operation, AclResourceType.GROUP, name)
        return None if may else _GROUP_ERROR
    return None  # of no known type, which is an error of its own


class _Resource(Protocol):
    """What the three requests about configs have of a resource."""

    @property
    def resource_type(self) -> i8: ...

    @property
    def resource_name(self) -> str: ...


def _divide(
    items: Sequence[Item],
    access: Access,
    operation_of: Callable[[Item], AclOperation | None],
    row: Callable[..., T],
) -> tuple[tuple[Item, ...], tuple[T, ...]]:
    """Return what is left of the resources, and a row for each that is refused.

    `operation_of`: None leaves a resource to its own error.
    """
    left: list[Item] = []
    rows: list[T] = []
    for item in items:
        kind, name, operation = item.resource_type, item.resource_name, operation_of(item)
        refusal = None
        if operation is not None:
            refusal = _config_refusal(kind, name, operation, access)
        if refusal is None:
            left.append(item)
            continue
        rows.append(
            row(
                error_code=refusal.error,
                error_message=refusal.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    return tuple(left), tuple(rows)


def screen_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, access: Access
) -> Screened[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]:
    """ALTER_CONFIGS on each topic and group, else on the cluster; for loggers CLUSTER_ACTION."""
    counts = Counter((item.resource_type, item.resource_name) for item in request.resources)

    def operation_of(item: AlterConfigsResource) -> AclOperation | None:
        if counts[item.resource_type, item.resource_name] > 1:
            return None
        of_loggers = int(item.resource_type) == ResourceType.BROKER_LOGGER
        return AclOperation.CLUSTER_ACTION if of_loggers else AclOperation.ALTER_CONFIGS

    left, rows = _divide(request.resources, access, operation_of, AlterConfigsResourceResponse)

    def complete(response: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
        return replace(response, responses=(*response.responses, *rows))

    return Screened(replace(request, resources=left), complete)


def screen_alter_configs(
    request: AlterConfigsRequest, access: Access
) -> Screened[AlterConfigsRequest, AlterConfigsResponse]:
    """ALTER_CONFIGS on each topic and group, else on the cluster."""
    counts = Counter((item.resource_type, item.resource_name) for item in request.resources)

    def operation_of(item: LegacyAlterConfigsResource) -> AclOperation | None:
        is_named_once = counts[item.resource_type, item.resource_name] == 1
        return AclOperation.ALTER_CONFIGS if is_named_once else None

    left, rows = _divide(
        request.resources, access, operation_of, LegacyAlterConfigsResourceResponse
    )

    def complete(response: AlterConfigsResponse) -> AlterConfigsResponse:
        return replace(response, responses=(*response.responses, *rows))

    return Screened(replace(request, resources=left), complete)


def screen_describe_configs(
    request: DescribeConfigsRequest, access: Access
) -> Screened[DescribeConfigsRequest, DescribeConfigsResponse]:
    """DESCRIBE_CONFIGS on each topic and group, else on the cluster (ConfigHelper)."""
    left, rows = _divide(
        request.resources,
        access,
        lambda _: AclOperation.DESCRIBE_CONFIGS,
        partial(DescribeConfigsResult, configs=()),
    )

    def complete(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        return replace(response, results=(*response.results, *rows))

    return Screened(replace(request, resources=left), complete)

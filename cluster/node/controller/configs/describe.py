"""DescribeConfigs and ListConfigResources, from a committed state and the node's own file.

What decides a key comes first among its synonyms: what is set on the resource itself, on this
node, on all brokers, in this node's file, and Kafka's default (KIP-226). Keys of topics and groups
take from the brokers' key of the same meaning what is not set on them.

Nodes show themselves alone, by their id: of another node's file nobody knows. A key of brokers that
Kafka does not define may be a plugin's: Kafka keeps it and shows it without its value, here the
value is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from cluster.node.controller.configs import definitions
from cluster.node.controller.configs.sources import (
    ALL_BROKERS,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_DEFAULT_BROKER,
    SOURCE_GROUP,
    SOURCE_LOGGER,
    SOURCE_TOPIC,
    Sources,
    broker_sources,
    check_own_id,
    shown_names,
)
from cluster.node.controller.configs.values import ConfigType
from cluster.node.controller.metadata.registrations import ClusterInfo, broker_ids
from cluster.node.controller.metadata.result import ItemError
from cluster.node.controller.metadata.state import (
    ConfigResource,
    MetadataState,
    ResourceType,
    invalid_name_reason,
)
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import i8

Synonyms = tuple[messages.DescribeConfigsSynonym, ...]
Described = tuple[
    Callable[[], Iterable[str]], Callable[[str], messages.DescribeConfigsResourceResult | None]
]
"""Names all keys of a resource; and shows one, None where the resource does not have it."""
Known = dict[
    tuple[int, str | None, tuple[str, ...], tuple[tuple[str, str], ...]],
    tuple[messages.DescribeConfigsResourceResult, ...],
]
"""By type, name of a node, keys asked for and what is set on the resource: all that decides what is
shown of it in one state. Most topics have nothing set on them and look alike."""

MAX_DESCRIBED: Final = 3_000
"""How many configurations an answer holds before the next resource is refused.

An answer is made and encoded in one piece; all configurations of 20,000 topics, which 120 kB can
name, took 7.2 s and 24 MB.
"""
_TOO_MANY: Final = (
    f"The answer would hold more than {MAX_DESCRIBED} configurations; describe fewer resources, or "
    "fewer keys of each, in a request."
)


def describe_configs(
    request: messages.DescribeConfigsRequest, state: MetadataState, cluster: ClusterInfo
) -> messages.DescribeConfigsResponse:
    """Return all that each resource has, or what was asked for of it; equal ones are made once.

    Those beyond `MAX_DESCRIBED` configurations are refused, each by itself.
    """
    results = []
    described = 0
    known: Known = {}
    for item in request.resources:
        if described < MAX_DESCRIBED:
            result = _describe(item, request, state, cluster, known)
        else:
            result = _refusal(item, ErrorCode.policy_violation, _TOO_MANY)
        described += len(result.configs)
        results.append(result)
    return messages.DescribeConfigsResponse(
        throttle_time=messages.NO_THROTTLE, results=tuple(results)
    )


def _describe(
    item: messages.DescribeConfigsResource,
    request: messages.DescribeConfigsRequest,
    state: MetadataState,
    cluster: ClusterInfo,
    known: Known,
) -> messages.DescribeConfigsResult:
    try:
        resource = ConfigResource(item.resource_type, item.resource_name)
        names, entry = _OF_TYPE.get(resource.type, _describe_unsupported)(resource, state, cluster)
    except ItemError as refusal:
        return _refusal(item, refusal.api_error.error, refusal.api_error.message or "")
    wanted = item.configuration_keys or ()
    is_node = resource.type in _OF_NODES  # on which anything may be set, and any number
    own = () if is_node else tuple(state.resource_configs(resource).items())
    alike = resource.type, resource.name if is_node else None, wanted, own
    configs = known.get(alike)
    if configs is None:
        shown = map(entry, dict.fromkeys(wanted or names()))
        configs = tuple(_as_asked(each, request) for each in shown if each is not None)
        known[alike] = configs
    return messages.DescribeConfigsResult(
        error_code=ErrorCode.none,
        error_message="",
        resource_type=item.resource_type,
        resource_name=item.resource_name,
        configs=configs,
    )


def _refusal(
    item: messages.DescribeConfigsResource, error: ErrorCode, message: str
) -> messages.DescribeConfigsResult:
    return messages.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=item.resource_type,
        resource_name=item.resource_name,
        configs=(),
    )


def _as_asked(
    entry: messages.DescribeConfigsResourceResult, request: messages.DescribeConfigsRequest
) -> messages.DescribeConfigsResourceResult:
    if request.include_synonyms and request.include_documentation:
        return entry
    return messages.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        synonyms=entry.synonyms if request.include_synonyms else (),
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _topic(resource: ConfigResource, state: MetadataState, cluster: ClusterInfo) -> Described:
    reason = invalid_name_reason(resource.name)
    if reason is not None:
        raise ItemError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")
    if state.topic_names.get(resource.name) is None:
        raise ItemError(ErrorCode.unknown_topic_or_partition, "")
    sources = broker_sources(state, cluster)

    def entry(key: definitions.ConfigKey) -> messages.DescribeConfigsResourceResult:
        synonyms = definitions.TOPIC_SYNONYMS.get(key.name)
        brokers = _broker_value(synonyms[0][0], sources) if synonyms else ()
        return _entry(key, state.resource_config(resource, key.name), SOURCE_TOPIC, brokers)

    return _describe_keys(definitions.TOPIC, entry)


def _group(resource: ConfigResource, state: MetadataState, cluster: ClusterInfo) -> Described:
    if not resource.name:
        raise ItemError(ErrorCode.invalid_request, "Group name must not be empty")
    sources = broker_sources(state, cluster)

    def entry(key: definitions.ConfigKey) -> messages.DescribeConfigsResourceResult:
        synonym = definitions.GROUP_SYNONYMS.get(key.name)
        default = _synonym(key, key.name, key.default, SOURCE_DEFAULT)
        brokers = (default,) if synonym is None else _broker_value(synonym, sources)
        return _entry(key, state.resource_config(resource, key.name), SOURCE_GROUP, brokers)

    return _describe_keys(definitions.GROUP, entry)


def _client_metrics(
    resource: ConfigResource, state: MetadataState, _cluster: ClusterInfo
) -> Described:
    if not resource.name:
        message = "Client metrics subscription name must not be empty"
        raise ItemError(ErrorCode.invalid_request, message)

    def entry(key: definitions.ConfigKey) -> messages.DescribeConfigsResourceResult:
        own = state.resource_config(resource, key.name)
        return _entry(key, own, SOURCE_CLIENT_METRICS, ())

    return _describe_keys(definitions.CLIENT_METRICS, entry)


def _describe_keys(
    keys: definitions.Keys,
    entry: Callable[[definitions.ConfigKey], messages.DescribeConfigsResourceResult],
) -> Described:
    """Describe a resource that has the keys which are defined, and no others."""

    def render(name: str) -> messages.DescribeConfigsResourceResult | None:
        key = keys.get(name)
        return None if key is None or key.internal else entry(key)

    return lambda: shown_names(keys), render


def _broker(resource: ConfigResource, state: MetadataState, cluster: ClusterInfo) -> Described:
    sources = broker_sources(state, cluster)
    if not resource.name:
        of_all = tuple(each for each in sources if each[0] == SOURCE_DEFAULT_BROKER)
        return (
            lambda: state.config_names.get(resource) or (),
            lambda name: _broker_entry(name, of_all) if _is_set(name, of_all) else None,
        )
    _check_own_id(resource.name, cluster, " or empty string, but")
    own = ConfigResource(ResourceType.BROKER, str(cluster.node_id))

    def names() -> Iterable[str]:
        set_somewhere = (
            *(state.config_names.get(own) or ()),
            *(state.config_names.get(ALL_BROKERS) or ()),
            *cluster.static_configs,
        )
        return (*shown_names(definitions.BROKER), *set_somewhere)

    def entry(name: str) -> messages.DescribeConfigsResourceResult | None:
        key = definitions.BROKER.get(name)
        known = _is_set(name, sources[:-1]) if key is None else not key.internal
        return _broker_entry(name, sources) if known else None

    return names, entry


def _is_set(name: str, sources: Sources) -> bool:
    return any(lookup(name) is not None for _, lookup in sources)


def _loggers(resource: ConfigResource, _state: MetadataState, cluster: ClusterInfo) -> Described:
    if not resource.name:
        raise ItemError(ErrorCode.invalid_request, "Broker id must not be empty")
    _check_own_id(resource.name, cluster, " but")
    levels = cluster.loggers.levels

    def entry(name: str) -> messages.DescribeConfigsResourceResult | None:
        if name not in levels:
            return None
        return _plain_entry(name, levels[name], SOURCE_LOGGER, (), read_only=False)

    return lambda: levels, entry


def _describe_unsupported(
    _resource: ConfigResource, _state: MetadataState, _cluster: ClusterInfo
) -> Described:
    raise ItemError(ErrorCode.invalid_request, _MALFORMED)


_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_OF_NODES: Final = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})
_OF_TYPE: Final[Mapping[int, Callable[[ConfigResource, MetadataState, ClusterInfo], Described]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _loggers,
    ResourceType.CLIENT_METRICS: _client_metrics,
    ResourceType.GROUP: _group,
}


def _check_own_id(name: str, cluster: ClusterInfo, rest: str) -> None:
    message = f"Unexpected broker id, expected {cluster.node_id}{rest} received {name}"
    check_own_id(name, cluster, "Broker", message)


def _broker_value(name: str, sources: Sources) -> Synonyms:
    """Return what decides a key of brokers: where it is set, and what stands in for it."""
    key, names = definitions.broker_key(name), definitions.broker_synonyms(name)
    found = [
        _synonym(key, other, value, source)
        for source, lookup in sources
        for other in names
        if (value := lookup(other)) is not None
    ]
    # What only stands in for it does not decide: a key that is not set itself has its default.
    first = next((at for at, each in enumerate(found) if each.name == name), len(found))
    return tuple(found[first:])


def _synonym(
    key: definitions.ConfigKey | None, name: str, value: str | None, source: i8
) -> messages.DescribeConfigsSynonym:
    hidden = key is not None and key.is_sensitive
    return messages.DescribeConfigsSynonym(
        name=name, value=None if hidden else value, source=source
    )


def _entry(
    key: definitions.ConfigKey, own: str | None, source: i8, brokers: Synonyms
) -> messages.DescribeConfigsResourceResult:
    """Return the entry of a topic, group or subscription: its own value, or what brokers say."""
    synonyms = brokers
    if own is not None:
        set_here = _synonym(key, key.name, key.render(own), source)
        synonyms = (set_here, *brokers)
    value, decided = _effective_value(key, synonyms)
    return _result(key, value, decided, synonyms)


def _broker_entry(name: str, sources: Sources) -> messages.DescribeConfigsResourceResult:
    key = definitions.broker_key(name)
    synonyms = _broker_value(name, sources)
    if key is None:
        return _plain_entry(name, synonyms[0].value, synonyms[0].source, synonyms, read_only=True)
    value, source = _effective_value(key, synonyms)
    return _result(key, value, source, synonyms, name, read_only=name not in definitions.DYNAMIC)


def _plain_entry(
    name: str, value: str | None, source: i8, synonyms: Synonyms, *, read_only: bool
) -> messages.DescribeConfigsResourceResult:
    """Return the entry of what has no definition."""
    return messages.DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=i8(ConfigType.UNKNOWN),
        documentation=None,
    )


def _effective_value(key: definitions.ConfigKey, synonyms: Synonyms) -> tuple[str | None, i8]:
    """Return a key's value as clients are shown it, and where it comes from."""
    if not synonyms:
        return key.default, SOURCE_DEFAULT
    first = synonyms[0]
    text = first.value
    if text is not None and first.source != SOURCE_DEFAULT:
        text = key.render(text)
    return text, first.source


def _result(
    key: definitions.ConfigKey,
    value: str | None,
    source: i8,
    synonyms: Synonyms,
    name: str | None = None,
    *,
    read_only: bool = False,
) -> messages.DescribeConfigsResourceResult:
    return messages.DescribeConfigsResourceResult(
        name=name or key.name,
        value=None if key.is_sensitive else value,
        read_only=read_only,
        config_source=source,
        is_sensitive=key.is_sensitive,
        synonyms=synonyms,
        config_type=i8(key.type),
        documentation=key.documentation,
    )


def list_config_resources(
    request: messages.ListConfigResourcesRequest, state: MetadataState, cluster: ClusterInfo
) -> messages.ListConfigResourcesResponse:
    """Return the resources of the types asked for, of all types where none is (KIP-1142)."""
    kinds = tuple(dict.fromkeys(map(int, request.resource_types))) or tuple(_OF_TYPE)
    supported = all(kind in _OF_TYPE for kind in kinds)
    return messages.ListConfigResourcesResponse(
        throttle_time=messages.NO_THROTTLE,
        error_code=ErrorCode.none if supported else ErrorCode.unsupported_version,
        config_resources=tuple(
            messages.ListConfigResourcesResource(resource_name=name, resource_type=i8(kind))
            for kind in sorted(kinds, reverse=True)
            for name in _names(kind, state, cluster)
            if supported
        ),
    )


def _names(kind: int, state: MetadataState, cluster: ClusterInfo) -> Iterator[str]:
    if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        yield from map(str, broker_ids(state, cluster))
    elif kind == ResourceType.TOPIC:
        yield from sorted(state.topic_names.keys())
    else:
        yield from sorted(name for of, name in state.config_names.keys() if of == kind)  # noqa: SIM118

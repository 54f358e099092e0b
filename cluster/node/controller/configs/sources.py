"""Where values of brokers' keys come from, and what a new topic takes from them.

The deciding source first: what is set on this node, on all brokers, in this node's file, and
Kafka's default (KIP-226).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cluster.node.controller.configs import definitions
from cluster.node.controller.configs.validation import Properties
from cluster.node.controller.configs.values import InvalidValueError
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.result import ItemError
from cluster.node.controller.metadata.state import ConfigResource, MetadataState, ResourceType
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import CreatableTopicConfigs, i8

SOURCE_TOPIC: Final = i8(1)
SOURCE_BROKER: Final = i8(2)
SOURCE_DEFAULT_BROKER: Final = i8(3)
SOURCE_STATIC: Final = i8(4)
SOURCE_DEFAULT: Final = i8(5)
SOURCE_LOGGER: Final = i8(6)
SOURCE_CLIENT_METRICS: Final = i8(7)
SOURCE_GROUP: Final = i8(8)
ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")
Lookup = Callable[[str], str | None]
"""Key -> the value in force at a source; None: it is not set there."""
Sources = tuple[tuple[i8, Lookup], ...]


def broker_number(name: str) -> int | None:
    """Read the name of a broker as Integer.parseInt does; None: it is no number."""
    digits = name[1:] if name[:1] in {"+", "-"} else name
    number = int(name) if digits.isascii() and digits.isdecimal() and len(name) <= 11 else None
    return number if number is not None and -(2**31) <= number < 2**31 else None


def check_own_id(name: str, cluster: ClusterInfo, kind: str, unexpected: str) -> None:
    """Refuse a name of a node that is not this one's. Raises ItemError."""
    number = broker_number(name)
    if number == cluster.node_id:
        return
    message = f"{kind} id must be an integer, but it is: {name}" if number is None else unexpected
    raise ItemError(ErrorCode.invalid_request, message)


def shown_names(keys: Mapping[str, definitions.ConfigKey]) -> tuple[str, ...]:
    """Return the keys that clients are shown."""
    return tuple(name for name, key in keys.items() if not key.internal)


def broker_sources(state: MetadataState, cluster: ClusterInfo) -> Sources:
    """Return where values of this node's broker come from, the deciding source first.

    Each key is looked up by itself: anybody may have set any number of others.
    """
    own = ConfigResource(ResourceType.BROKER, str(cluster.node_id))

    def of_this(name: str) -> str | None:
        value = state.resource_config(own, name)
        return value if value is not None and _is_used(name, value) else None

    def of_all(name: str) -> str | None:
        value = state.resource_config(ALL_BROKERS, name)
        used = (
            value is not None and _is_used(name, value) and not definitions.is_of_one_broker(name)
        )
        return value if used else None

    return (
        (SOURCE_BROKER, of_this),
        (SOURCE_DEFAULT_BROKER, of_all),
        (SOURCE_STATIC, cluster.static_configs.get),
        (SOURCE_DEFAULT, _DEFAULTS.get),
    )


_DEFAULTS: Final = {
    name: key.default for name, key in definitions.BROKER.items() if key.default is not None
}


def in_force(persistent: Properties, *, of_one_broker: bool) -> dict[str, str]:
    """Leave out what a broker ignores of what the metadata hold (DynamicBrokerConfig).

    A controller takes any key and value of brokers, since brokers check before they forward.
    """
    return {
        name: value
        for name, value in persistent.items()
        if _is_used(name, value) and (of_one_broker or not definitions.is_of_one_broker(name))
    }


def _is_used(name: str, value: str) -> bool:
    return (
        name not in definitions.NOT_DYNAMIC
        and name not in definitions.PER_LISTENER
        and _is_valid(name, value)
    )


def _is_valid(name: str, value: str) -> bool:
    key = definitions.broker_key(name)
    if key is not None:
        try:
            key.parse(value)
        except InvalidValueError:
            return False
    return True


def default_topic_configs(
    state: MetadataState, cluster: ClusterInfo
) -> dict[str, CreatableTopicConfigs]:
    """Return what a topic has that is created with nothing of its own, in the order of names."""
    *sources, _ = broker_sources(state, cluster)
    return {
        name: _creatable(name, *topic_setting(name, {}, sources))
        for name in sorted(shown_names(definitions.TOPIC))
    }


def effective_topic_configs(
    own: Properties, defaults: Mapping[str, CreatableTopicConfigs]
) -> tuple[CreatableTopicConfigs, ...]:
    """Return what a new topic has, by name (KafkaConfigSchema.resolveEffectiveTopicConfigs)."""
    return tuple(
        _creatable(name, own[name], SOURCE_TOPIC) if name in own else default
        for name, default in defaults.items()
    )


def _creatable(name: str, value: str | None, source: i8) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=definitions.TOPIC[name].is_sensitive,
    )


def topic_setting(
    name: str, own: Properties, sources: Iterable[tuple[i8, Lookup]]
) -> tuple[str | None, i8]:
    """Return a topic's value in force and its source. `sources`: of brokers, without defaults."""
    if name in own:
        return own[name], SOURCE_TOPIC
    synonyms = definitions.TOPIC_SYNONYMS.get(name, ())
    for source, lookup in sources:
        for synonym, factor in synonyms:
            value = lookup(synonym)
            if value is not None:
                return value if factor == 1 else str(int(value) * factor), source
    return definitions.TOPIC[name].default, SOURCE_DEFAULT

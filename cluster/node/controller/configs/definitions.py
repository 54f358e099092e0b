"""Every configuration key of Apache Kafka 4.3.1, from its own classes.

`definitions.json` is what they say of themselves, one line for each key; it is made anew by
`python -m tests.conformance.configs VERSION`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cluster.node.controller.configs.values import (
    Check,
    ConfigType,
    InvalidValueError,
    Value,
    checked_by,
    parse,
    text_of,
)
from cluster.values import valueclass


@valueclass
class ConfigKey:
    """The definition of one key (ConfigDef.ConfigKey)."""

    name: str
    type: ConfigType
    default: str | None
    """As clients are shown it; None: there is none, or it is null."""
    check: Check | None
    documentation: str | None
    internal: bool
    """Whether clients are not shown it."""
    deduplicated: bool
    """Whether an element of the list that occurs again is dropped."""
    default_value: Value | None

    @property
    def is_sensitive(self) -> bool:
        """Whether clients are not shown its value."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Read and check a value. Raises InvalidValueError."""
        value = self._read(text)
        if self.check is not None:
            self.check(self.name, value)
        return value

    def render(self, text: str) -> str:
        """Render a value as clients are shown it; what cannot be read is shown as it is."""
        try:
            return text_of(self._read(text))
        except InvalidValueError:
            return text

    def _read(self, text: str) -> Value:
        value = parse(self.name, self.type, text)
        if self.deduplicated:
            assert isinstance(value, tuple)
            return tuple(dict.fromkeys(value))
        return value


MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
Keys = Mapping[str, ConfigKey]

_DATA: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("definitions.json").read_text(encoding="ascii")
)
VERSION: Final[str] = _DATA["version"]
"""Of the release that the definitions were taken from."""


def _key(row: Mapping[str, Any]) -> ConfigKey:
    name, kind, default = row["name"], ConfigType[row["type"]], row.get("default")
    valid = row.get("valid")
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        check=checked_by(valid),
        documentation=row.get("doc"),
        internal=row.get("internal", False),
        deduplicated=valid is not None and valid[0] == "list",
        default_value=None if default is None else parse(name, kind, default),
    )


def _keys(scope: str) -> Keys:
    return {row["name"]: _key(row) for row in _DATA[scope]}


TOPIC: Final = _keys("topic")
BROKER: Final = _keys("broker")
QUOTAS: Final = _keys("dynamic-broker")
"""Keys of brokers that are only ever set dynamically, and defined apart."""
DOCUMENTED: Final = frozenset(
    name for keys in (BROKER, QUOTAS) for name, key in keys.items() if not key.internal
)
"""What a server's file may hold, as `kafka.server.KafkaConfig`, run as a program, lists it."""
GROUP: Final = _keys("group")
CLIENT_METRICS: Final = _keys("client-metrics")

PER_BROKER: Final = frozenset[str](_DATA["per-broker"])
"""Dynamic, but of one broker only."""
DYNAMIC: Final = PER_BROKER | frozenset[str](_DATA["cluster-wide"])
NOT_DYNAMIC: Final = frozenset[str](_DATA["not-dynamic"])
PER_LISTENER: Final = frozenset[str](_DATA["per-listener"])
"""Dynamic only with a listener's prefix."""
_CLUSTER_WIDE_OF_LISTENERS: Final = frozenset[str](_DATA["cluster-wide-of-listeners"])
_PER_MECHANISM: Final[tuple[str, ...]] = tuple(_DATA["per-mechanism"])
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(names) for name, names in _DATA["broker-synonyms"]
}
TOPIC_SYNONYMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    name: tuple((other, factor) for other, factor in others)
    for name, others in _DATA["topic-synonyms"]
}
"""Key of a topic -> keys of brokers that say it for all topics, the deciding one first, each with
the factor from its unit to the topic's."""
GROUP_SYNONYMS: Final[Mapping[str, str]] = dict(_DATA["group-synonyms"])
_REMEMBERED: Final = 4096
"""Names; a client may send any."""
_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def listener_base(name: str) -> str | None:
    """Return a key without its listener's prefix; None: it has none."""
    match = _LISTENER.fullmatch(name)
    return None if match is None else match[1]


@lru_cache(_REMEMBERED)
def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the keys that decide what a key of brokers is worth, the first of them first."""
    base = listener_base(name)
    if base is None:
        return _SYNONYMS.get(name, (name,))
    return (name, next((end for end in _PER_MECHANISM if base.endswith(end)), base))


@lru_cache(_REMEMBERED)
def broker_key(name: str) -> ConfigKey | None:
    """Return the definition of a key of brokers, which may have a listener's prefix."""
    for known in (name, *broker_synonyms(name)):
        found = BROKER.get(known) or QUOTAS.get(known)
        if found is not None:
            return found
    return None


@lru_cache(_REMEMBERED)
def is_of_one_broker(name: str) -> bool:
    """Return whether a key cannot be set for all brokers at once."""
    base = listener_base(name)
    return name in PER_BROKER or (base is not None and base not in _CLUSTER_WIDE_OF_LISTENERS)

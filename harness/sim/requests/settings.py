"""Right changes of settings, and wrong values: what they make, and how they are shown then."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from cluster.node.assembly import Node
from cluster.node.controller.configs import definitions
from cluster.node.controller.configs.describe import describe_configs
from cluster.node.controller.metadata.state import ConfigResource, MetadataState
from cluster.node.protocol import messages
from harness.sim.requests.plain_metadata import (
    ALL_BROKERS,
    BROKER,
    MIN_ISR,
    TOPIC,
    Change,
    Pairs,
    Plain,
    nothing,
)

m: Any = messages
_LOGGER, _METRICS, _GROUP = 8, 16, 32
_THROTTLED: Final = {"*": "*", "0:1,1:2": "0:1,1:2", "0:x": None}
_OTHERS: Final[dict[str, dict[str, str | None]]] = {
    "compression.gzip.level": {"1": "1", "9": "9", "0": None, "10": None},
    "leader.replication.throttled.replicas": {**_THROTTLED},
    "follower.replication.throttled.replicas": {**_THROTTLED},
    "remote.storage.enable": {"true": None, " FALSE ": "false"},
    "min.cleanable.dirty.ratio": {"0": "0.0", "1": "1.0", " 2.5e-1": "0.25"},
    "share.auto.offset.reset": {
        **{text: text for text in ("earliest", "by_duration:PT1H", "by_duration:P1DT0.5S")},
        **dict.fromkeys(("never", "by_duration:-PT1H", "by_duration:P", "by_duration:1H")),
    },
    "match": {
        **{text: text for text in ("client_id=a.*", "client_id=a,client_source_port=1")},
        **dict.fromkeys(("client_id", "nobody=a", "client_id=(")),
    },
}
"""By setting: texts, and how they are shown; None: they are refused."""


def _texts(kind: int, row: dict[str, Any]) -> dict[str, str | None]:
    """Return texts for a setting by its definition, as of `_OTHERS`."""
    rule, *bounds = row.get("valid") or [None]
    default = row.get("default")
    texts: dict[str, str | None] = {} if default is None else {default: default}
    if row["type"] in ("INT", "LONG", "DOUBLE"):
        texts["x"] = None
        if rule == "range" and kind == TOPIC:  # brokers bound those of groups
            (least, *_), most = bounds[0], next(iter(bounds[1]), None)
            texts |= {str(least): str(least), str(least - 1): None}
            texts |= {} if most is None else {str(most): str(most), str(most + 1): None}
    elif row["type"] == "BOOLEAN":
        texts |= {"maybe": None, " FALSE ": "false"}
    elif rule == "one of":
        texts |= {**{text: text for text in bounds[0]}, "x": None}
    elif rule == "list" and bounds[0]:
        every = ",".join(bounds[0])
        texts |= {every: every, f"{every},{bounds[0][0]}": every, f"{every},,x": None, "x": None}
    return texts | _OTHERS.get(row["name"], {})


SETTINGS: Final = tuple(
    (kind, row["name"], text, shown)
    for kind, scope in ((TOPIC, "topic"), (_GROUP, "group"), (_METRICS, "client-metrics"))
    for row in definitions._DATA[scope]
    if not row.get("internal")
    for text, shown in _texts(kind, row).items()
)
"""Kinds of resources, their settings, and texts as of `_OTHERS`."""
SOURCES: Final = {TOPIC: 1, _LOGGER: 6, _METRICS: 7, _GROUP: 8}
"""ConfigSource of what is set on a resource."""
_PLUGIN: Final = "a.plugin"
_OF_BROKERS: Final = (("num.io.threads", "9"), ("log.retention.ms", "7"), (_PLUGIN, "x"))
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def setting_changes(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    """Yield changes of settings of one resource of each kind."""
    names = [topic.name for topic in plain.maps["topics"].values()]
    kind, name, text, shown = random.choice([row for row in SETTINGS if names or row[0] != TOPIC])
    of = ConfigResource(kind, random.choice(names) if kind == TOPIC else "walk")
    yield _change(of, name, text, shown, error="none" if shown is not None else "invalid_config")
    yield _change(of, name, None, way=_DELETE)
    yield _change(of, name, "1", way=9, error="invalid_request")
    if kind == TOPIC:
        yield from _list_changes(plain, of)
        yield _change(of, MIN_ISR, "x", way=_APPEND, error="invalid_config")
    own = ConfigResource(BROKER, str(node.raft.node_id))
    for to in (own, ALL_BROKERS) if node.raft.node_id in plain.brokers else ():
        name, text = random.choice(_OF_BROKERS)
        yield _change(to, name, text, text)
        yield _change(to, name, None, way=_DELETE)
    if plain.has_elr:
        yield _change(own, MIN_ISR, "1", error="invalid_config")
        yield _change(ALL_BROKERS, MIN_ISR, None, way=_DELETE, error="invalid_config")
        yield _change(ALL_BROKERS, MIN_ISR, "2", "2")


def _list_changes(plain: Plain, of: ConfigResource) -> Iterator[Change]:
    name = "cleanup.policy"
    has = [each for each in plain.maps["configs"].get((of, name), "delete").split(",") if each]
    for each in ("compact", "delete") if len({*has}) == len(has) else ():
        yield _change(of, name, each, ",".join([*has, *[each] * (each not in has)]), _APPEND)
        yield _change(of, name, each, ",".join(old for old in has if old != each), _SUBTRACT)


def _change(
    of: ConfigResource,
    name: str,
    text: str | None,
    shown: str | None = None,
    way: int = _SET,
    error: str = "none",
) -> Change:
    """Make a change of one setting. `shown`: as it is shown then."""
    key, value = (of, name), text if way == _SET else shown
    item = m.AlterableConfig(name=name, config_operation=way, value=text)
    asked = m.AlterConfigsResource(resource_type=of.type, resource_name=of.name, configs=(item,))

    def makes(after: Plain, *_: object) -> Pairs:
        configs = after.maps["configs"]
        before = configs.pop(key, None)
        configs |= {} if value is None else {key: value}
        if name == MIN_ISR and after.has_elr and (value != before or of.type == BROKER):
            topics = after.maps["topics"].values()
            after.clear_eligible([t.id for t in topics if of in (ALL_BROKERS, (TOPIC, t.name))])
        return ()

    def sees(state: MetadataState, node: Node) -> Pairs:
        wanted = m.DescribeConfigsResource(
            resource_type=of.type, resource_name=of.name, configuration_keys=(name,)
        )
        request = m.DescribeConfigsRequest(
            resources=(wanted,), include_synonyms=True, include_documentation=True
        )
        (result,) = describe_configs(request, state, node._cluster).results
        source = SOURCES.get(of.type, 2 if of.name else 3)
        if value is None:
            yield source in [row.config_source for row in result.configs], False
            return
        (row,) = result.configs
        first = row.synonyms[0]
        yield (row.name, row.value, row.config_source), (name, shown, source)
        yield (first.name, first.value, first.source), (name, shown, source)
        is_known = name != _PLUGIN
        says = row.is_sensitive, row.read_only, bool(row.documentation)
        yield says, (False, not is_known, is_known)

    what = f"{dict(enumerate(('set', 'delete', 'append', 'subtract'))).get(way, 'treat')} {name}"
    request = m.IncrementalAlterConfigsRequest(resources=(asked,), validate_only=False)
    is_right = error == "none"
    return Change(
        f"{what} of {of.name or 'all brokers'}: {text}",
        request,
        makes,
        error,
        sees if is_right else nothing,
    )

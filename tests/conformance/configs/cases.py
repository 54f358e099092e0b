"""What is asked about configurations, in order: some requests change what later ones show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CREATE_TOPICS, DESCRIBE, INCREMENTAL, LIST = 19, 32, 44, 74
CLIENT, CONTROLLER = "client", "controller"


@dataclass(frozen=True)
class Case:
    """One request in one version, at a listener of the node."""

    name: str
    listener: str
    key: int
    version: int
    body: Mapping[str, Any]


Resource = tuple[int, str]


def describe(*resources: Resource, keys: list[str] | None = None, more: bool = False) -> Any:
    """DescribeConfigs; `more`: with synonyms and documentation."""
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name in resources
        ],
        "include_synonyms": more,
        "include_documentation": more,
    }


def alter(
    resource: Resource, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    """IncrementalAlterConfigs of one resource: name, operation, value."""
    return {
        "resources": [
            {
                "resource_type": resource[0],
                "resource_name": resource[1],
                "configs": [
                    {"name": name, "config_operation": operation, "value": value}
                    for name, operation, value in changes
                ],
            }
        ],
        "validate_only": validate_only,
    }


def create(name: str, *configs: tuple[str, str | None], validate_only: bool = False) -> Any:
    """CreateTopics of one topic."""
    return {
        "topics": [
            {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in configs],
            }
        ],
        "timeout": 10_000,
        "validate_only": validate_only,
    }


T: Resource = (TOPIC, "t")
ALL: Resource = (BROKER, "")
ONE: Resource = (BROKER, "1")
S: Resource = (METRICS, "s")
G: Resource = (GROUP, "g")
THROTTLED = "follower.replication.throttled.replicas"

WRONG_TOPIC_VALUES: tuple[tuple[str, str], ...] = (
    ("nonsense", "1"),
    ("", "1"),
    ("retention.ms", "abc"),
    ("retention.ms", ""),
    ("retention.ms", "-2"),
    ("retention.ms", "9223372036854775808"),
    ("retention.ms", " 5 "),
    ("retention.ms", "1e3"),
    ("retention.ms", "+5"),
    ("segment.bytes", "2147483648"),
    ("segment.bytes", "1"),
    ("segment.bytes", "1048576.0"),
    ("cleanup.policy", "foo"),
    ("cleanup.policy", "compact,foo"),
    ("cleanup.policy", "compact,compact"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "delete, compact"),
    ("compression.type", "none"),
    ("compression.type", "GZIP"),
    ("compression.type", " gzip "),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "10"),
    ("compression.gzip.level", "-1"),
    ("compression.lz4.level", "18"),
    ("compression.zstd.level", "-131073"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("min.cleanable.dirty.ratio", "x"),
    ("min.cleanable.dirty.ratio", "NaN"),
    ("preallocate", "yes"),
    ("preallocate", "TRUE"),
    ("preallocate", ""),
    ("message.timestamp.type", "createtime"),
    ("leader.replication.throttled.replicas", "1:1,x"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "1:1,*"),
    ("leader.replication.throttled.replicas", "none"),
    ("leader.replication.throttled.replicas", ""),
    ("leader.replication.throttled.replicas", "1:1,1:1"),
    ("leader.replication.throttled.replicas", "1:1,"),
    ("min.insync.replicas", "0"),
    ("remote.storage.enable", "true"),
    ("remote.log.copy.disable", "true"),
    ("remote.log.delete.on.disable", "true"),
    ("internal.segment.bytes", "5"),
    ("local.retention.ms", "-3"),
    ("local.retention.ms", "900000000000"),
    ("local.retention.bytes", "5"),
    ("unclean.leader.election.enable", "maybe"),
    ("max.compaction.lag.ms", "0"),
    ("flush.ms", "\t7\n"),
    ("segment.ms", "\u0665"),
)

ALL_BROKERS_VALUES = (("min.insync.replicas", "0"), ("min.insync.replicas", "2"))
BROKER_VALUES: tuple[tuple[str, str], ...] = (
    ("node.id", "7"),
    ("process.roles", "broker"),
    ("nonsense", "1"),
    ("", "1"),
    ("log.retention.ms", "abc"),
    ("log.retention.ms", "1000"),
    ("log.retention.ms", "0"),
    ("log.retention.hours", "5"),
    ("log.cleaner.threads", "0"),
    ("num.io.threads", "100"),
    ("num.io.threads", "1"),
    ("num.io.threads", "9"),
    ("num.network.threads", "4"),
    ("num.replica.fetchers", "2"),
    ("background.threads", "11"),
    ("num.recovery.threads.per.data.dir", "3"),
    ("message.max.bytes", "x"),
    ("message.max.bytes", "1000000"),
    ("compression.type", "foo"),
    ("log.cleanup.policy", "foo"),
    ("log.cleanup.policy", "compact"),
    ("log.cleanup.policy", ""),
    ("max.connections", "5000"),
    ("max.connections.per.ip", "0"),
    ("max.connections.per.ip.overrides", "x"),
    ("max.connections.per.ip.overrides", "127.0.0.1:5"),
    ("max.connection.creation.rate", "10"),
    ("listeners", "x"),
    ("advertised.listeners", "CLIENT://127.0.0.1:9"),
    ("ssl.keystore.location", "/k"),
    ("listener.name.client.ssl.keystore.location", "/k"),
    ("listener.name.client.max.connections", "5"),
    ("listener.name.client.num.network.threads", "5"),
    ("metric.reporters", "x"),
    ("unclean.leader.election.enable", "true"),
    ("log.segment.bytes", "1"),
    ("log.roll.ms", "0"),
    ("log.local.retention.ms", "5"),
    ("log.local.retention.bytes", "5"),
    ("leader.replication.throttled.rate", "1000"),
    ("leader.replication.throttled.rate", "x"),
    ("follower.replication.throttled.rate", "0"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "7"),
    ("producer.id.expiration.ms", "0"),
    ("remote.log.manager.copy.max.bytes.per.second", "0"),
    ("remote.log.manager.thread.pool.size", "100"),
    ("log.cleaner.io.max.bytes.per.second", "inf"),
    ("log.cleaner.io.max.bytes.per.second", "1e3"),
    ("controller.quorum.fetch.timeout.ms", "5"),
    ("sasl.jaas.config", "x"),
    ("listener.name.client.plain.sasl.jaas.config", "x"),
    ("cordoned.log.dirs", "x"),
    ("follower.fetch.last.tiered.offset.enable", "true"),
)

METRICS_VALUES: tuple[tuple[str, str], ...] = (
    ("nonsense", "1"),
    ("interval.ms", "99"),
    ("interval.ms", "x"),
    ("interval.ms", "100"),
    ("interval.ms", "3600001"),
    ("match", "client_id"),
    ("match", "nope=a"),
    ("match", "client_id=["),
    ("match", "client_id=a,client_source_port=1"),
    ("match", ""),
    ("metrics", ""),
    ("metrics", "a,a"),
    ("metrics", "a,b"),
    ("metrics", "a,,b"),
    ("metrics", "w1.5"),
    ("metrics", "*"),
)

GROUP_VALUES: tuple[tuple[str, str], ...] = (
    ("nonsense", "1"),
    ("consumer.session.timeout.ms", "x"),
    ("consumer.session.timeout.ms", "5"),
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("consumer.heartbeat.interval.ms", "100"),
    ("share.isolation.level", "foo"),
    ("share.isolation.level", "read_committed"),
    ("share.auto.offset.reset", "by_duration:x"),
    ("share.auto.offset.reset", "by_duration:P1D"),
    ("share.auto.offset.reset", "earliest"),
    ("share.delivery.count.limit", "1"),
    ("share.delivery.count.limit", "100"),
    ("share.renew.acknowledge.enable", "x"),
    ("streams.num.standby.replicas", "10"),
    ("streams.session.timeout.ms", "10"),
    ("consumer.assignment.interval.ms", "100000"),
)


def _values(
    what: str, resource: Resource, values: tuple[tuple[str, str], ...], listener: str
) -> Iterator[Case]:
    for name, value in values:
        body = alter(resource, (name, SET, value), validate_only=True)
        yield Case(f"{what} {name}={value!r} at the {listener}", listener, INCREMENTAL, 1, body)


def cases() -> Iterator[Case]:
    """All of them, in order."""
    yield from _creations()
    yield from _first_descriptions()
    yield from _values("topic", T, WRONG_TOPIC_VALUES, CLIENT)
    for listener in (CLIENT, CONTROLLER):
        yield from _values("all brokers", ALL, ALL_BROKERS_VALUES + BROKER_VALUES, listener)
        yield from _values("broker 1", ONE, BROKER_VALUES, listener)
    yield from _values("subscription", S, METRICS_VALUES, CLIENT)
    yield from _values("group", G, GROUP_VALUES, CLIENT)
    yield from _refusals()
    yield from _changes()


def _creations() -> Iterator[Case]:
    def made(what: str, body: Any, version: int = 7) -> Case:
        return Case(f"create {what}", CLIENT, CREATE_TOPICS, version, body)

    # As a new cluster of Kafka with eligible leader replicas has it.
    body = alter(ALL, ("min.insync.replicas", SET, "1"))
    yield Case("the cluster's min.insync.replicas", CLIENT, INCREMENTAL, 1, body)
    yield made("t", create("t", ("retention.ms", "7"), ("cleanup.policy", "compact")))
    for version in (2, 4, 5, 7):
        body = create("u", ("retention.ms", " 7 "), validate_only=True)
        yield made(f"u only to validate, version {version}", body, version)
    yield made("with an unknown name", create("v", ("nonsense", "1")))
    yield made("with no name", create("v", ("", "1")))
    yield made("with a null value", create("v", ("retention.ms", None)))
    yield made("with a wrong value", create("v", ("retention.ms", "abc")))
    yield made("with contradicting values", create("v", ("cleanup.policy", "foo")))
    yield made(
        "with a name twice",
        create("v", ("retention.ms", "1"), ("retention.ms", "2"), validate_only=True),
    )


def _asked(what: str, listener: str, body: Any, version: int = 4) -> Case:
    return Case(f"describe {what} at the {listener}", listener, DESCRIBE, version, body)


def _first_descriptions() -> Iterator[Case]:
    yield _asked("t", CLIENT, describe(T, more=True))
    yield _asked("t without synonyms", CLIENT, describe(T))
    yield _asked("t in version 1", CLIENT, describe(T, more=True), 1)
    yield _asked("a topic that is not there", CLIENT, describe((TOPIC, "nope")))
    yield _asked("an illegal topic", CLIENT, describe((TOPIC, "a b")))
    yield _asked("no topic", CLIENT, describe((TOPIC, "")))
    keys = ["retention.ms", "nonsense", "retention.ms"]
    yield _asked("two keys of t", CLIENT, describe(T, keys=keys))
    yield _asked("no keys of t", CLIENT, describe(T, keys=[]))
    yield _asked("t twice", CLIENT, describe(T, T, keys=["retention.ms"]))
    for listener in (CLIENT, CONTROLLER):
        yield _asked("broker 1", listener, describe(ONE, more=True))
        yield _asked("all brokers", listener, describe(ALL, more=True))
        for name in ("2", "x", "-1", "1 ", "01"):
            yield _asked(f"broker {name!r}", listener, describe((BROKER, name), keys=["node.id"]))
        for name in ("", "1", "2", "x"):
            keys = ["no.such.logger"]
            yield _asked(f"loggers of {name!r}", listener, describe((LOGGER, name), keys=keys))
        yield _asked("a subscription that is not there", listener, describe(S, more=True))
        yield _asked("no subscription", listener, describe((METRICS, "")))
        yield _asked("a group", listener, describe(G, more=True))
        yield _asked("no group", listener, describe((GROUP, "")))
        for kind in (0, 1, 3, 64):
            yield _asked(f"type {kind}", listener, describe((kind, "x")))
    yield _asked("t", CONTROLLER, describe(T, more=True))
    yield Case("list at the client", CLIENT, LIST, 1, {"resource_types": []})


def _refusals() -> Iterator[Case]:
    for listener in (CLIENT, CONTROLLER):

        def tried(what: str, body: Any, listener: str = listener) -> Case:
            return Case(f"{what} at the {listener}", listener, INCREMENTAL, 1, body)

        if listener == CLIENT:  # a controller of Kafka gives leadership up over it
            yield tried("unknown operation", alter(ALL, ("log.retention.ms", 9, "1")))
            yield tried("null", alter(T, ("retention.ms", SET, None)))
            yield tried("null on a broker", alter(ALL, ("log.retention.ms", SET, None)))
            yield tried("append null", alter(T, ("cleanup.policy", APPEND, None)))
        yield tried("name twice", alter(T, ("flush.ms", SET, "1"), ("flush.ms", SET, "2")))
        yield tried("append to a number", alter(T, ("retention.ms", APPEND, "1")))
        yield tried("subtract from a number", alter(T, ("retention.ms", SUBTRACT, "1")))
        yield tried("append to nonsense", alter(T, ("nonsense", APPEND, "1")))
        yield tried("append to a number of all brokers", alter(ALL, ("node.id", APPEND, "1")))
        yield tried("append to nonsense of all brokers", alter(ALL, ("nonsense", APPEND, "1")))
        yield tried("append to a subscription", alter(S, ("metrics", APPEND, "1")))
        yield tried("append to a group", alter(G, ("share.isolation.level", APPEND, "1")))
        yield tried("delete nonsense", alter(T, ("nonsense", DELETE, None)))
        yield tried("delete nonsense of all brokers", alter(ALL, ("nonsense", DELETE, None)))
        yield tried("delete node.id", alter(ALL, ("node.id", DELETE, None)))
        for kind, name in (
            *((TOPIC, name) for name in ("nope", "a b", "")),
            *((BROKER, name) for name in ("2", "x", "-1")),
            *((LOGGER, name) for name in ("", "1", "2", "x")),
            (METRICS, ""),
            (GROUP, ""),
            *((kind, "x") for kind in (0, 1, 3, 64)),
        ):
            key = {TOPIC: "flush.ms", METRICS: "metrics", GROUP: "share.isolation.level"}
            change = (key.get(kind, "log.retention.ms"), SET, "5")
            yield tried(f"resource {kind} {name!r}", alter((kind, name), change))
        level = alter((LOGGER, "1"), ("no.such.logger", SET, "INFO"))
        yield tried("a logger that is not there", level)
        both = alter(T, ("flush.ms", SET, "1"))
        yield tried("resource twice", {**both, "resources": [*both["resources"] * 2]})


def _changes() -> Iterator[Case]:
    def changed(what: str, resource: Resource, *changes: Any) -> Case:
        return Case(what, CLIENT, INCREMENTAL, 1, alter(resource, *changes))

    def shown(what: str, resource: Resource, *keys: str, listener: str = CLIENT) -> Case:
        return _asked(what, listener, describe(resource, keys=list(keys) or None, more=True))

    yield changed("delete", T, ("retention.ms", DELETE, None), ("cleanup.policy", DELETE, None))
    yield changed("append to the default", T, ("cleanup.policy", APPEND, "compact"))
    yield shown("the appended", T, "cleanup.policy")
    yield changed("subtract", T, ("cleanup.policy", SUBTRACT, "delete"))
    yield shown("the subtracted", T, "cleanup.policy")
    yield changed("subtract the last", T, ("cleanup.policy", SUBTRACT, "compact"))
    yield changed("append a replica", T, (THROTTLED, APPEND, "0:1"))
    yield changed("append the same replica", T, (THROTTLED, APPEND, "0:1,1:1"))
    yield shown("the replicas", T, THROTTLED)
    yield changed("for all brokers", ALL, ("log.retention.ms", SET, "5000"), ("nonsense", SET, "x"))
    yield changed("for all brokers, hours", ALL, ("log.roll.ms", SET, "7000000"))
    yield changed("for broker 1", ONE, ("log.retention.ms", SET, "6000"))
    yield changed("append to brokers", ALL, ("log.cleanup.policy", APPEND, "compact"))
    for listener in (CLIENT, CONTROLLER):
        yield shown("all brokers then", ALL, listener=listener)
        keys = ("log.retention.ms", "log.roll.ms", "log.roll.hours", "nonsense")
        yield shown("broker 1 then", ONE, *keys, "log.cleanup.policy", listener=listener)
    yield shown("t then", T, "retention.ms", "segment.ms", "cleanup.policy")
    yield Case("create w", CLIENT, CREATE_TOPICS, 7, create("w", ("flush.ms", "9")))
    yield changed("of a subscription", S, ("metrics", SET, "a,b"), ("interval.ms", SET, "1000"))
    yield shown("the subscription", S)
    yield changed("of a group", G, ("share.isolation.level", SET, "read_committed"))
    yield shown("the group", G)
    kinds: tuple[list[int], ...] = ([], [METRICS], [TOPIC, GROUP], [BROKER, LOGGER], [3])
    for listener in (CLIENT, CONTROLLER):
        for listed in kinds:
            body = {"resource_types": listed}
            yield Case(f"list {listed} at the {listener}", listener, LIST, 1, body)
        yield Case(f"list in version 0 at the {listener}", listener, LIST, 0, {})

"""Whether a resource may have the values that a change would leave it with.

What each key allows is in its definition; here is what names are known, and what values must fit
each other: LogConfig.validate, GroupConfig.validate, ClientMetricsConfigs.validate and, for what a
broker checks before it forwards, DynamicBrokerConfig.validate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.node.controller.configs import definitions
from cluster.node.controller.configs.values import InvalidValueError, Value
from cluster.node.controller.metadata.result import ItemError
from cluster.node.controller.records.wire import STRING_BYTES_MAX
from cluster.node.errors import ErrorCode

Properties = Mapping[str, str]


def _parse(
    keys: definitions.Keys, properties: Properties, error: ErrorCode
) -> dict[str, Value | None]:
    """Read every value that is set, and the defaults of the rest. Raises ItemError."""
    values: dict[str, Value | None] = {}
    for name, key in keys.items():  # in Kafka's order: the first that is wrong is named
        text = properties.get(name)
        if text is None:
            values[name] = key.default_value
            continue
        try:
            values[name] = key.parse(text)
        except InvalidValueError as invalid:
            raise ItemError(error, str(invalid)) from invalid
    return values


def check_lengths(properties: Mapping[str, str | None]) -> None:
    """Refuse what no record of Kafka holds: nodes would end over it. Raises ItemError."""
    texts = (*properties, *properties.values())
    if any(len(text.encode()) > STRING_BYTES_MAX for text in texts if text):
        message = (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{STRING_BYTES_MAX} bytes."
        )
        raise ItemError(ErrorCode.invalid_config, message)


def validate_topic(properties: Properties) -> None:
    """Check all that a topic has set. Raises ItemError."""
    for name in properties:
        if name not in definitions.TOPIC:
            raise ItemError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
    values = _parse(definitions.TOPIC, properties, ErrorCode.invalid_config)
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    message: str | None = None
    if _number(least) > _number(most):
        message = (
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
    elif values["remote.storage.enable"]:
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if message is not None:
        raise ItemError(ErrorCode.invalid_config, message)


_GROUP_BOUNDS: Final = (
    ("consumer.heartbeat.interval.ms", "group.consumer", "heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", "group.consumer", "session.timeout.ms"),
    ("consumer.assignment.interval.ms", "group.consumer", "assignment.interval.ms"),
    ("share.heartbeat.interval.ms", "group.share", "heartbeat.interval.ms"),
    ("share.session.timeout.ms", "group.share", "session.timeout.ms"),
    ("share.record.lock.duration.ms", "group.share", "record.lock.duration.ms"),
    ("share.delivery.count.limit", "group.share", "delivery.count.limit"),
    ("share.partition.max.record.locks", "group.share", "partition.max.record.locks"),
    ("share.assignment.interval.ms", "group.share", "assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", "group.streams", "heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "group.streams", "session.timeout.ms"),
    ("streams.num.standby.replicas", "group.streams", "standby.replicas"),
    ("streams.assignment.interval.ms", "group.streams", "assignment.interval.ms"),
)
"""Key of a group, and where brokers' bounds of it are: `<begin>.min.<end>`, `<begin>.max.<end>`."""


def validate_group(name: str, properties: Properties) -> None:
    """Check all that a group has set. Raises ItemError."""
    if not name:
        raise ItemError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    for key in properties:
        if key not in definitions.GROUP:
            raise ItemError(ErrorCode.invalid_config, f"Unknown group config name: {key}")
    values = _parse(definitions.GROUP, properties, ErrorCode.invalid_config)
    for key, begin, end in _GROUP_BOUNDS:
        least, most = (definitions.BROKER.get(f"{begin}.{bound}.{end}") for bound in ("min", "max"))
        value = _number(values[key])
        message: str | None = None
        if least is not None and value < int(least.default or 0):
            message = f"{key} must be greater than or equal to {least.name}"
        elif most is not None and value > int(most.default or 0):
            message = f"{key} must be less than or equal to {most.name}"
        if message is not None:
            raise ItemError(ErrorCode.invalid_config, message)
    for kind in ("consumer", "share", "streams"):
        timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _number(values[timeout]) <= _number(values[interval]):
            message = f"{timeout} must be greater than {interval}"
            raise ItemError(ErrorCode.invalid_config, message)


_INTERVAL_MS_MIN: Final = 100
_INTERVAL_MS_MAX: Final = 3_600_000
_MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_client_metrics(name: str, properties: Properties) -> None:
    """Check all that a subscription has set (KIP-714). Raises ItemError."""
    if not name:
        raise ItemError(ErrorCode.invalid_request, "Subscription name can't be empty")
    for key in properties:
        if key not in definitions.CLIENT_METRICS:
            message = f"Unknown client metrics configuration: {key}"
            raise ItemError(ErrorCode.invalid_request, message)
    values = _parse(definitions.CLIENT_METRICS, properties, ErrorCode.invalid_config)
    interval_ms = _number(values["interval.ms"])
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        message = (
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{_INTERVAL_MS_MIN} and {_INTERVAL_MS_MAX} (1 hour)"
        )
        raise ItemError(ErrorCode.invalid_request, message)
    for pattern in _elements(values["match"]):
        field, equals, expression = pattern.partition("=")
        if not (equals and field.strip() in _MATCHED and _is_expression(expression.strip())):
            message = f"Illegal client matching pattern: {pattern}"
            raise ItemError(ErrorCode.invalid_config, message)


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _number(value: Value | None) -> int | float:
    assert isinstance(value, int | float)
    return value


def _elements(value: Value | None) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


_DYNAMIC: Final = {
    name: k for name, k in definitions.BROKER.items() if name not in definitions.NOT_DYNAMIC
} | dict(definitions.QUOTAS)


def validate_broker(dynamic: Properties, static: Properties, *, of_one_broker: bool) -> None:
    """Check all that one broker, or the default of all, is to have set dynamically.

    `static` is what is in force where `dynamic` says nothing. Unknown keys pass: they may be a
    plugin's. Raises ItemError with INVALID_REQUEST, as brokers of Kafka do (KAFKA-13609).
    """
    _none_of(
        sorted(definitions.NOT_DYNAMIC.intersection(dynamic)),
        "Cannot update these configs dynamically",
    )
    _none_of(
        sorted(definitions.PER_LISTENER.intersection(dynamic)),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
    )
    bases = {definitions.listener_base(name) or name: text for name, text in dynamic.items()}
    values = _parse(_DYNAMIC, {**static, **bases}, ErrorCode.invalid_request)
    if not of_one_broker:
        _none_of(
            [name for name in dynamic if definitions.is_of_one_broker(name)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    message = _contradiction(dynamic, static, values)
    if message is not None:
        raise ItemError(ErrorCode.invalid_request, message)


def _none_of(names: Iterable[str], why: str) -> None:
    listed = list(names)
    if listed:
        raise ItemError(ErrorCode.invalid_request, f"{why}: [{', '.join(listed)}]")


_THREADS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_OVERRIDE: Final = re.compile(r"[^:,]+:\d+")
_LISTENER: Final = re.compile(r"[^:]+://.*:-?\d+")
_MIB: Final = 1 << 20
_REPORTERS: Final = frozenset({"org.apache.kafka.common.metrics.JmxReporter"})


def _contradiction(
    dynamic: Properties, static: Properties, values: Mapping[str, Value | None]
) -> str | None:
    """Return what does not fit the rest of the broker; None: nothing.

    KafkaConfig.validateValues, and what a broker's parts say to a reconfiguration.
    """
    overrides = str(values["max.connections.per.ip.overrides"])
    message = None
    if values["log.retention.ms"] == 0:
        message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    elif "log.roll.ms" in dynamic and _number(values["log.roll.ms"]) < 1:
        message = "log.roll.ms must be greater than or equal to 1"
    elif not _enough_buffer(values):
        message = "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    elif overrides and not all(_OVERRIDE.fullmatch(each.strip()) for each in overrides.split(",")):
        message = "Error parsing configuration property 'max.connections.per.ip.overrides'"
    elif values["max.connections.per.ip"] == 0 and not overrides:
        message = (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )
    if message is not None:
        return f"requirement failed: {message}"
    changed = (_unfit(name, values, static) for name in dynamic)
    return next((message for message in changed if message is not None), None)


def _enough_buffer(values: Mapping[str, Value | None]) -> bool:
    threads = _number(values["log.cleaner.threads"])
    return threads > 0 and _number(values["log.cleaner.dedupe.buffer.size"]) // threads > _MIB


def _unfit(name: str, values: Mapping[str, Value | None], static: Properties) -> str | None:
    """Return why a broker cannot take one changed value; None: it can."""
    if name in _THREADS:
        before = int(static.get(name, definitions.BROKER[name].default or 0))
        return _check_resize(name, int(_number(values[name])), before)
    if name == "listeners":
        wrong = [each for each in _elements(values[name]) if not _LISTENER.fullmatch(each)]
        return (
            f"Error creating broker listeners from '[{', '.join(_elements(values[name]))}]': "
            f"Unable to parse {wrong[0]} to a broker endpoint"
            if wrong
            else None
        )
    if name == "metric.reporters":
        wrong = [each for each in _elements(values[name]) if each not in _REPORTERS]
        return f"Class {wrong[0]} could not be found." if wrong else None
    if name == "cordoned.log.dirs":
        held = (
            static.get("log.dirs")
            or static.get("log.dir")
            or definitions.BROKER["log.dir"].default
            or ""
        )
        wrong = [each for each in _elements(values[name]) if each not in held.split(",")]
        return (
            f"requirement failed: All entries in {name} must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(wrong)}"
            if wrong
            else None
        )
    return None


def _check_resize(name: str, count: int, before: int) -> str | None:
    """Check a pool of threads (DynamicThreadPool): at most twice, at least half as many."""
    reason = f"Dynamic thread count update validation failed for {name}={count}, value should "
    if count != before and count <= 0:
        return reason + "be at least 1"
    if count > 2 * before:
        return reason + f"not be greater than double the current value {before}"
    if count < before // 2:
        return reason + f"be at least half the current value {before}"
    return None

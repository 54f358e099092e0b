"""Definitions of configuration keys, and what they allow."""

import math

import pytest

from cluster.node.controller.configs import definitions as d
from cluster.node.controller.configs.values import (
    ConfigType,
    InvalidValueError,
    parse,
    render,
    text_of,
)

KEYS = [
    pytest.param(key, id=f"{scope}-{key.name}")
    for scope, keys in (
        ("topic", d.TOPIC),
        ("broker", d.BROKER),
        ("quota", d.QUOTAS),
        ("group", d.GROUP),
        ("client-metrics", d.CLIENT_METRICS),
    )
    for key in keys.values()
]
WRONG = {
    ConfigType.BOOLEAN: ["maybe", "", "1"],
    ConfigType.SHORT: ["abc", "", "32768", "-32769", "1.5"],
    ConfigType.INT: ["abc", "", "2147483648", "-2147483649", "1.5", "1_0", "0x1", "- 1"],
    ConfigType.LONG: ["abc", "", "9223372036854775808", "1e3", "9" * 5000],
    ConfigType.DOUBLE: ["abc", "", "inf", "nan", "1_0", "1,5"],
}


def refused(key, text):
    with pytest.raises(InvalidValueError) as caught:
        key.parse(text)
    return str(caught.value)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_takes_its_default_and_shows_it_as_it_is(key):
    if key.default is not None:
        assert key.render(key.default) == key.default
        if key.name not in {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}:
            assert key.parse(key.default) == key.default_value


@pytest.mark.parametrize("key", KEYS)
def test_a_key_refuses_what_is_not_of_its_type(key):
    for text in WRONG.get(key.type, []):
        assert refused(key, text).startswith(f"Invalid value {text} for configuration {key.name}: ")


@pytest.mark.parametrize(
    ("keys", "name", "right", "wrong"),
    [
        (d.TOPIC, "retention.ms", ["-1", "+5", " 7\n", "٥"], ["-2"]),
        (d.TOPIC, "segment.bytes", ["1048576"], ["1048575"]),
        (d.TOPIC, "min.cleanable.dirty.ratio", ["0", "1", ".5", "1e-3", "NaN"], ["1.1", "-0.1"]),
        (d.TOPIC, "compression.zstd.level", ["-131072", "22"], ["-131073", "23"]),
        (d.TOPIC, "compression.gzip.level", ["-1", "1", "9"], ["0", "10", "-2"]),
        (d.TOPIC, "cleanup.policy", ["", "compact", "compact , delete", "compact,compact"], ["x"]),
        (d.TOPIC, "cleanup.policy", ["delete"], ["compact,,delete", "Compact"]),
        (d.TOPIC, "message.timestamp.type", ["CreateTime"], ["createtime", ""]),
        (
            d.TOPIC,
            "leader.replication.throttled.replicas",
            ["", "*", "1:2", "1:2,3:4", "1:2,"],
            ["1", "1:2,*", "a:b", "none"],
        ),
        (d.CLIENT_METRICS, "metrics", ["", "a,b", "*", "a,a"], ["a,,b"]),
        (d.GROUP, "share.isolation.level", ["read_committed"], ["READ_COMMITTED"]),
        (
            d.GROUP,
            "share.auto.offset.reset",
            ["latest", *(f"by_duration:{d}" for d in ("p1d", "PT1H30M", "PT1.5S", "P-1DT25H"))],
            ["Latest", *(f"by_duration:{d}" for d in ("", "P", "PT", "P1Y", "PT.5S", "-PT1S"))],
        ),
        (d.BROKER, "group.consumer.migration.policy", ["upgrade", "DISABLED"], ["x"]),
    ],
)
def test_a_key_takes_what_kafka_takes(keys, name, right, wrong):
    for text in right:
        keys[name].parse(text)
    for text in wrong:
        refused(keys[name], text)


def test_every_key_that_can_be_changed_is_checked_as_kafka_checks_it():
    changed = [*d.TOPIC.values(), *d.GROUP.values(), *d.CLIENT_METRICS.values()]
    changed += [d.BROKER.get(name) or d.QUOTAS[name] for name in sorted(d.DYNAMIC)]
    described = {row["name"]: "valid" in row for scope in SCOPES for row in d._DATA[scope]}
    for key in changed:
        assert (key.check is not None) == described[key.name], key.name


SCOPES = ("broker", "dynamic-broker", "topic", "group", "client-metrics")


def test_keys_are_dynamic_or_not():
    assert not d.DYNAMIC & d.NOT_DYNAMIC
    assert set(d.BROKER) <= d.DYNAMIC | d.NOT_DYNAMIC
    assert (len(d.TOPIC), len(d.BROKER), len(d.GROUP)) == (34, 360, 17)
    for synonyms in d.TOPIC_SYNONYMS.values():
        assert {name for name, _ in synonyms} <= set(d.BROKER)
    assert set(d.GROUP_SYNONYMS.values()) <= set(d.BROKER)


@pytest.mark.parametrize(
    ("name", "synonyms", "known"),
    [
        ("log.roll.hours", ("log.roll.ms", "log.roll.hours"), True),
        ("num.io.threads", ("num.io.threads",), True),
        (
            "listener.name.client.ssl.keystore.type",
            ("listener.name.client.ssl.keystore.type", "ssl.keystore.type"),
            True,
        ),
        (
            "listener.name.client.plain.sasl.jaas.config",
            ("listener.name.client.plain.sasl.jaas.config", "sasl.jaas.config"),
            True,
        ),
        ("nonsense", ("nonsense",), False),
    ],
)
def test_keys_of_listeners_stand_for_those_of_all(name, synonyms, known):
    assert d.broker_synonyms(name) == synonyms
    assert (d.broker_key(name) is not None) == known


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1e-4, "1.0E-4"),
        (1.25e7, "1.25E7"),
        (9999999.0, "9999999.0"),
        (-1.7976931348623157e308, "-1.7976931348623157E308"),
        (123456789.125, "1.23456789125E8"),
        (0.000123, "1.23E-4"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (True, "true"),
        (7, "7"),
        (("a", "b"), "a,b"),
        ((), ""),
    ],
)
def test_values_are_shown_as_java_shows_them(value, text):
    assert text_of(value) == text


def test_a_long_value_is_read_in_linear_time():
    """By a step for each pair of its characters the first took minutes, the second seconds."""
    with pytest.raises(InvalidValueError):
        parse("d", ConfigType.DOUBLE, "1" * 32_000 + "x")
    assert parse("l", ConfigType.LIST, "a" + " " * 300_000 + "b\t,\n c") == (
        "a" + " " * 300_000 + "b",
        "c",
    )


def test_a_list_is_named_in_brackets_in_a_message():
    assert render(("a", "b")) == "[a, b]"


def test_a_password_keeps_its_blanks():
    assert parse("p", ConfigType.PASSWORD, " x ") == " x "
    assert parse("s", ConfigType.STRING, " x ") == "x"

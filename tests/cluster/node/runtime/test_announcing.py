"""What a node says of itself, from its trace."""

import pytest

from cluster.node.config import parse_config
from cluster.node.runtime.trace import AnnouncingTrace, start_line
from tests.cluster.node.test_config import text


def said(event, **fields):
    lines, traced = [], []
    trace = AnnouncingTrace(lambda event, /, **fields: traced.append((event, fields)), lines.append)
    trace(event, **fields)
    assert traced == [(event, fields)]
    return lines


@pytest.mark.parametrize(
    ("event", "fields", "line"),
    [
        ("claim", {"epoch": 3, "offset": 7}, "is the active controller, in epoch 3"),
        ("renounce", {"epoch": 3, "offset": 9}, "is no longer the active controller of epoch 3"),
        (
            "broker-state",
            {"state": "fenced", "broker_epoch": 12},
            "the broker is registered with epoch 12 and fenced",
        ),
        ("broker-state", {"state": "running", "broker_epoch": 12}, "the broker is unfenced"),
        (
            "log-directory-offline",
            {"log_dir": "/data/2", "reason": "No space left on device"},
            (
                "log directory /data/2 is offline: No space left on device; "
                "restart the node once the disk is well again"
            ),
        ),
        (
            "unregistered",
            {"broker_epoch": -1, "reason": "not-sent"},
            "the broker is not registered yet, and tries on: not-sent",
        ),
        (
            "unregistered",
            {"broker_epoch": 12, "reason": "stale_broker_epoch"},
            (
                "the broker is no longer registered (stale_broker_epoch for epoch 12); "
                "restart it to register it anew"
            ),
        ),
    ],
)
def test_what_people_want_to_know_is_a_line(event, fields, line):
    assert said(event, **fields) == [line]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("hw", {"epoch": 1, "offset": 2, "role": "follower"}),
        ("broker-state", {"state": "stopped", "broker_epoch": 12}),
    ],
)
def test_all_else_is_traced_only(event, fields):
    assert said(event, **fields) == []


def test_it_begins_with_what_it_is_and_where_it_listens():
    line = start_line(parse_config(text(), "f"))
    assert line == (
        "controller and broker of cluster c started, listening on "
        "CLIENT://127.0.0.1:9092, CONTROLLER://127.0.0.1:9093; "
        "whoever reaches CLIENT, CONTROLLER is not authenticated"
    )
    line = start_line(parse_config(text(**{"kraftprobe.registration": "false"}), "f"))
    assert "(kraftprobe.registration=false)" in line


def test_it_names_the_listeners_that_authenticate_nobody():
    sasl = {
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="n" password="p" user_n="p";'
        ),
    }
    line = start_line(parse_config(text(**sasl), "f"))
    assert line.endswith("CLIENT is not authenticated")

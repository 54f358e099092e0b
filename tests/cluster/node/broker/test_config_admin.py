"""What a broker refuses of changes of configurations, and what it leaves to the controller."""

import pytest

from cluster.node.broker.serving.config_admin import preprocess
from cluster.node.controller.configs.sources import ALL_BROKERS
from cluster.node.controller.metadata.registrations import ClusterInfo
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import committed_state
from cluster.node.controller.records.kinds import ConfigRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m

CLUSTER = ClusterInfo("c", 1, (), static_configs={"num.io.threads": "4", "log.dirs": "/a,/b"})
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind, name, *configs):
    return m.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            m.AlterableConfig(name=key, config_operation=op, value=value)
            for key, op, value in configs
        ),
    )


def sent(*resources, state=None):
    """The request that is left for the controller, and the list that the client's answer is in."""
    request = m.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    replies = []
    left = preprocess(request, replies.append, state or committed_state(), CLUSTER)
    return left, replies


def error_of(*resources, state=None):
    left, replies = sent(*resources, state=state)
    if left is not None:
        assert left[0].resources == resources
        return None
    [reply] = replies
    return reply.responses[0].error_code, reply.responses[0].error_message


def holding(**configs):
    state = committed_state()
    for name, value in configs.items():
        record = ConfigRecord(
            resource_type=4, resource_name="", name=name.replace("_", "."), value=value
        )
        replay(state, record)
    assert state.resource_configs(ALL_BROKERS)
    return state


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.io.threads", "8"),
        ("num.io.threads", "2"),
        ("cordoned.log.dirs", "/a"),
        ("log.retention.ms", "-1"),
        ("log.roll.ms", "1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:5, host:6"),
    ],
)
def test_what_this_broker_can_use_is_left_to_the_controller(name, value):
    assert error_of(resource(4, "1", (name, SET, value))) is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num.io.threads", "9", "Dynamic thread count update validation failed for num.io.thr"),
        ("num.io.threads", "1", "Dynamic thread count update validation failed for num.io.thr"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "requirement failed: log.cleaner.dedupe"),
        ("cordoned.log.dirs", "/a,/c", "requirement failed: All entries in cordoned.log.dirs"),
    ],
)
def test_what_this_broker_cannot_use_is_refused(name, value, message):
    error, found = error_of(resource(4, "1", (name, SET, value)))
    assert error is ErrorCode.invalid_request
    assert found.startswith(message)


def test_changes_are_checked_with_what_is_set_already():
    overrides = resource(4, "", ("max.connections.per.ip", SET, "0"))
    assert error_of(overrides) is not None
    assert error_of(overrides, state=holding(max_connections_per_ip_overrides="h:1")) is None
    ignored = holding(node_id="7", log_retention_ms="x", nonsense="1")
    assert error_of(resource(4, "", ("log.roll.ms", SET, "5")), state=ignored) is None


def test_a_client_is_answered_in_the_order_of_its_request():
    topic = resource(2, "t", ("nonsense", SET, "1"))
    wrong = resource(4, "", ("node.id", SET, "7"))
    right = resource(4, "1", ("k", SET, "1"))
    (request, answer), replies = sent(topic, wrong, right)
    assert request.resources == (topic, right)
    answer(
        m.IncrementalAlterConfigsResponse(
            throttle_time=m.NO_THROTTLE,
            responses=(
                m.AlterConfigsResourceResponse(
                    error_code=ErrorCode.invalid_config,
                    error_message="unknown",
                    resource_type=2,
                    resource_name="t",
                ),
            ),
        )
    )
    [reply] = replies
    assert [(r.resource_name, r.error_code) for r in reply.responses] == [
        ("t", ErrorCode.invalid_config),
        ("", ErrorCode.invalid_request),
        ("1", ErrorCode.unknown_server_error),
    ]


def test_a_level_of_the_root_logger_is_set_here_and_only_if_it_is_meant():
    cluster = ClusterInfo("c", 1, ())

    def tried(*change, validate_only=False):
        request = m.IncrementalAlterConfigsRequest(
            resources=(resource(8, "1", change),), validate_only=validate_only
        )
        replies = []
        assert preprocess(request, replies.append, committed_state(), cluster) is None
        return replies[0].responses[0].error_code

    assert tried("root", SET, "WARN", validate_only=True) is ErrorCode.none
    assert cluster.loggers.says("INFO")
    assert tried("root", SET, "WARN") is ErrorCode.none
    assert not cluster.loggers.says("INFO")
    assert cluster.loggers.says("WARN")
    assert tried("root", SET, "LOUD") is ErrorCode.invalid_config
    assert tried("root", DELETE, None) is ErrorCode.invalid_request
    assert tried("root", APPEND, "INFO") is ErrorCode.invalid_request
    assert tried("no.such.logger", SET, "INFO") is ErrorCode.invalid_config
    assert cluster.loggers.levels == {"root": "WARN"}

"""IncrementalAlterConfigs, DescribeConfigs and DescribeCluster."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeClusterRequest,
    IncrementalAlterConfigsRequest,
)
from tests.controller.fakes import CLIENT, CONTROLLER, Node, active, alter, create, describe

SET, DELETE, APPEND, SUBTRACT = range(4)


def code_of(reply):
    return (reply.responses if hasattr(reply, "responses") else reply.results)[0].error_code


def values(node, resource=(4, "")):
    """What is set, beside what every new cluster has."""
    (result,) = node.call(describe(resource, keys=None)).results
    found = {config.name: config.value for config in result.configs}
    assert found.pop("min.insync.replicas", "1") == "1"
    return found


@pytest.mark.parametrize(
    ("before", "op", "value", "after"),
    [
        (None, SET, "1", "1"),
        ("1", SET, "2", "2"),
        ("1", SET, "", ""),
        ("1", DELETE, None, None),
        (None, DELETE, None, None),
        (None, APPEND, "a", "a"),
        ("a", APPEND, "b", "a,b"),
        ("a,b", APPEND, "a", "a,b"),
        ("a", APPEND, "b,c,b", "a,b,c"),
        ("", APPEND, "a", "a"),
        ("a,,b", APPEND, "c", "a,b,c"),
        ("a,b,c", SUBTRACT, "b", "a,c"),
        ("a,b", SUBTRACT, "a,b", ""),
        ("a", SUBTRACT, "x", "a"),
        (None, SUBTRACT, "x", ""),
        ("a,b,a", SUBTRACT, "a", "b,a"),
        ("a", APPEND, "", "a,"),
        ("a", APPEND, "b,,", "a,b"),
        ("a", APPEND, ",", "a"),
    ],
)
def test_operations_change_values_as_kafkas_do(before, op, value, after):
    node = active()
    if before is not None:
        node.call(alter("k", before))
    assert code_of(node.call(alter("k", value, op))) == ErrorCode.none
    assert values(node) == ({} if after is None else {"k": after})


def test_appends_that_are_not_committed_yet_are_appended_to():
    node = active()
    for element in "abc":
        node.send(alter("k", element, APPEND))
    node.raft.commit()
    assert values(node) == {"k": "a,b,c"}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (alter("", "1"), ErrorCode.invalid_config),
        (alter("k", None), ErrorCode.invalid_request),
        (alter("k", None, APPEND), ErrorCode.invalid_request),
        (alter("k", "1", 4), ErrorCode.invalid_request),
        (alter("k", "1", -1), ErrorCode.invalid_request),
        (alter("k", "1", resource=(8, "1")), ErrorCode.invalid_request),
        (alter("k", "1", resource=(2, "nope")), ErrorCode.unknown_topic_or_partition),
        (alter("k", "1", resource=(2, "a b")), ErrorCode.invalid_topic_exception),
        (alter("k", "1", resource=(4, "x")), ErrorCode.invalid_request),
        (alter("k", "1", resource=(4, "-1")), ErrorCode.invalid_request),
        (alter("k", "1", resource=(4, "²")), ErrorCode.invalid_request),
        (alter("k", "1", resource=(4, "9")), ErrorCode.broker_id_not_registered),
        (alter("k", "1", resource=(4, "2")), ErrorCode.none),
        (alter("k", "1", resource=(16, "s")), ErrorCode.invalid_request),
        (alter("metrics", "1", resource=(16, "")), ErrorCode.invalid_request),
        (alter("metrics", "1", resource=(16, "s")), ErrorCode.none),
    ],
)
def test_changes_are_checked(request_, error):
    assert code_of(active().call(request_)) == error


def several(*resources, validate_only=False):
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    AlterableConfig(name=key, config_operation=0, value=value)
                    for key, value in configs
                ),
            )
            for kind, name, configs in resources
        ),
        validate_only=validate_only,
    )


def test_one_bad_change_refuses_its_resource_and_no_other():
    node = active()
    reply = node.call(several((4, "", [("k", "1"), ("", "2")]), (4, "1", [("k", "3")])))
    assert [item.error_code for item in reply.responses] == [
        ErrorCode.invalid_config,
        ErrorCode.none,
    ]
    assert values(node) == {}
    assert values(node, (4, "1")) == {"k": "3"}


def test_a_resource_or_a_key_twice_is_refused():
    node = active()
    twice = node.call(several((4, "", [("a", "1")]), (4, "", [("b", "1")])))
    assert [item.error_code for item in twice.responses] == [ErrorCode.invalid_request]
    assert code_of(node.call(several((4, "", [("a", "1"), ("a", "2")])))) == (
        ErrorCode.invalid_request
    )
    assert values(node) == {}


def test_the_changes_of_one_request_are_one_batch():
    node = active()
    before = len(node.raft.log)
    node.call(several((4, "", [("a", "1"), ("b", "2")]), (4, "1", [("c", "3")])))
    (batch,) = node.raft.log[before:]
    assert len(batch.records) == 3


def test_validate_only_changes_nothing():
    node = active()
    assert code_of(node.call(alter("k", "1", validate_only=True))) == ErrorCode.none
    assert values(node) == {}


def test_a_topics_value_that_stays_costs_no_record_but_a_brokers_does():
    node = active()
    node.call(create("a"))
    for resource, records in (((2, "a"), 0), ((4, ""), 1)):
        node.call(alter("k", "1", resource=resource))
        before = node.raft.end_offset
        assert code_of(node.call(alter("k", "1", resource=resource))) == ErrorCode.none
        assert node.raft.end_offset - before == records


def test_describe_names_the_source_and_only_the_wanted_names():
    node = active()
    node.call(alter("a", "1"))
    node.call(alter("b", "2"))
    node.call(alter("a", "3", resource=(4, "1")))
    (result,) = node.call(describe((4, "1"), keys=None, synonyms=True)).results
    assert [(c.name, c.value, c.config_source) for c in result.configs] == [
        ("a", "3", 2),
        ("min.insync.replicas", "1", 3),
        ("b", "2", 3),
    ]
    assert [(s.value, s.source) for s in result.configs[0].synonyms] == [("3", 2), ("1", 3)]
    (result,) = node.call(describe(keys=("b", "nope"))).results
    assert [(c.name, c.config_source, c.synonyms) for c in result.configs] == [("b", 3, ())]
    node.call(create("t"))
    node.call(alter("x", "1", resource=(2, "t")))
    (result,) = node.call(describe((2, "t"), keys=())).results
    assert [(c.name, c.config_source) for c in result.configs] == [("x", 1)]


def test_describe_of_what_does_not_exist_says_so():
    node = active()
    assert code_of(node.call(describe((2, "nope")))) == ErrorCode.unknown_topic_or_partition
    assert code_of(node.call(describe((4, "9")))) == ErrorCode.broker_id_not_registered


def cluster(endpoint_type):
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=False,
    )


def test_describe_cluster_names_brokers_or_controllers_by_listener():
    node = Node()
    node.raft.leader_id = 2
    (reply,) = node.send(cluster(1), CLIENT)
    assert (reply.cluster_id, reply.controller_id) == ("fake-cluster", 2)
    assert [(b.broker_id, b.port) for b in reply.brokers] == [(1, 9091), (2, 9092), (3, 9093)]
    (reply,) = node.send(cluster(2), CONTROLLER)
    assert [(b.broker_id, b.port) for b in reply.brokers] == [(1, 9191), (2, 9192), (3, 9193)]


@pytest.mark.parametrize(
    ("listener", "endpoint_type", "error"),
    [
        (CLIENT, 2, ErrorCode.mismatched_endpoint_type),
        (CONTROLLER, 1, ErrorCode.mismatched_endpoint_type),
        (CLIENT, 3, ErrorCode.unsupported_endpoint_type),
    ],
)
def test_describe_cluster_of_the_wrong_endpoints_is_refused(listener, endpoint_type, error):
    (reply,) = Node().send(cluster(endpoint_type), listener)
    assert reply.error_code == error
    assert reply.brokers == ()


def test_a_subscription_of_clients_metrics_shows_what_was_set_on_it_alone():
    node = active()
    node.call(alter("metrics", "a,b", resource=(16, "s")))
    node.call(alter("k", "1"))
    [result] = node.call(describe((16, "s"), keys=None)).results
    assert [(c.name, c.value, c.config_source) for c in result.configs] == [("metrics", "a,b", 7)]
    [other] = node.call(describe((16, "t"), keys=None)).results
    assert (other.error_code, other.configs) == (ErrorCode.none, ())

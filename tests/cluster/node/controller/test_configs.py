"""AlterConfigs, IncrementalAlterConfigs, DescribeConfigs, ListConfigResources, DescribeCluster."""

import dataclasses

import pytest

from cluster.node.controller.configs.describe import MAX_DESCRIBED
from cluster.node.controller.metadata.state import MetadataState, ResourceType
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from tests.cluster.node.controller.fakes import (
    CLIENT,
    CLUSTER,
    CONTROLLER,
    Node,
    active,
    alter,
    codes,
    creatable,
    create,
    describe,
    describe_cluster,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
LIST = "ssl.cipher.suites"
"""A key of brokers of type LIST, empty by default; the controller takes any value of it."""
T = (2, "t")


def code_of(reply):
    return codes(reply)[0]


def message_of(reply):
    return reply.responses[0].error_message


def values(node, resource=(4, "")):
    """What is set in the committed metadata, beside what every new cluster has."""
    found = dict(node.controller.image.state.resource_configs(resource))
    if resource == (4, ""):
        assert found.pop("min.insync.replicas", "1") == "1"
    return found


def shown(node, resource, *keys, **options):
    """Name -> entry, as clients see them."""
    (result,) = node.call(describe(resource, keys=keys or None, **options)).results
    assert result.error_code is ErrorCode.none
    return {config.name: config for config in result.configs}


def test_a_resource_that_is_named_twice_is_answered_twice_within_the_bound():
    node = active()
    node.call(create(creatable("t")))
    request = describe((2, "t"), keys=None)
    (once,) = node.call(request).results
    many = node.call(dataclasses.replace(request, resources=request.resources * 1_000)).results
    answered = -(-MAX_DESCRIBED // len(once.configs))
    assert list(many[:answered]) == [once] * answered
    assert {(r.error_code, r.configs) for r in many[answered:]} == {
        (ErrorCode.policy_violation, ())
    }
    assert len(many) == 1_000


def test_resources_that_are_described_together_are_as_each_by_itself():
    node = active()
    node.call(create(*(creatable(name) for name in ("t", "u", "v", "w"))))
    for topic, value in (("u", "1"), ("v", "2"), ("w", "1")):
        assert code_of(node.call(alter("flush.ms", value, SET, (2, topic)))) == ErrorCode.none
    asked = [
        dataclasses.replace(describe(resource, keys=keys), include_synonyms=True)
        for resource in ((2, "t"), (2, "u"), (2, "v"), (2, "w"), (4, "1"), (4, ""), (2, "x"))
        for keys in (None, ("flush.ms", "retention.ms"))
    ]
    alone = [result for request in asked for result in node.call(request).results]
    together = tuple(item for request in asked for item in request.resources)

    assert list(node.call(dataclasses.replace(asked[0], resources=together)).results) == alone


def test_an_answer_is_bounded_and_names_each_resource_that_it_leaves_out():
    node = active()
    names = [f"t{i}" for i in range(300)]
    node.call(create(*(creatable(name) for name in names)))
    resources = tuple(describe((2, name), keys=None).resources[0] for name in names)
    results = node.call(
        dataclasses.replace(describe(), resources=resources, include_synonyms=True)
    ).results
    assert [result.resource_name for result in results] == names
    each = len(results[0].configs)
    whole = -(-MAX_DESCRIBED // each)
    assert [len(result.configs) for result in results] == [each] * whole + [0] * (300 - whole)
    assert {result.error_code for result in results[whole:]} == {ErrorCode.policy_violation}


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
        ("a,b,a", SUBTRACT, "a,a", "b"),
        ("a", APPEND, "", "a,"),
        ("a", APPEND, "b,,", "a,b"),
        ("a", APPEND, ",", "a"),
    ],
)
def test_operations_change_values_as_kafkas_do(before, op, value, after):
    node = active()
    if before is not None:
        node.call(alter(LIST, before))
    assert code_of(node.call(alter(LIST, value, op))) == ErrorCode.none
    assert values(node) == ({} if after is None else {LIST: after})


def test_appends_that_are_not_committed_yet_are_appended_to():
    node = active()
    for element in "abc":
        node.send(alter(LIST, element, APPEND))
    node.raft.commit()
    assert values(node) == {LIST: "a,b,c"}


@pytest.mark.parametrize(
    ("op", "value", "after"), [(APPEND, "compact", "delete,compact"), (SUBTRACT, "delete", "")]
)
def test_append_and_subtract_begin_with_the_default(op, value, after):
    node = active()
    node.call(create("t"))
    assert code_of(node.call(alter("cleanup.policy", value, op, T))) == ErrorCode.none
    assert values(node, T) == {"cleanup.policy": after}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (alter("k", None), ErrorCode.invalid_request),
        (alter(LIST, None, APPEND), ErrorCode.invalid_request),
        (alter("k", "1", 4), ErrorCode.invalid_request),
        (alter("k", "1", -1), ErrorCode.invalid_request),
        (alter("min.compaction.lag.ms", "1", resource=T), ErrorCode.none),
        (alter("k", "1", resource=(4, "²")), ErrorCode.invalid_request),
        (alter("k", "1", resource=(4, "2")), ErrorCode.none),
        (alter("k", "ä" * 16_383, resource=(4, "2")), ErrorCode.none),
        (alter("k", "ä" * 16_384, resource=(4, "2")), ErrorCode.invalid_config),
        (alter("k" * 40_000, "1", resource=(4, "2")), ErrorCode.invalid_config),
        (alter("match", "client_id=" + "(" * 3_000, resource=(16, "s")), ErrorCode.invalid_config),
        (alter("match", "client_id=a{99999999999}", resource=(16, "s")), ErrorCode.invalid_config),
        (alter("interval.ms", "100", resource=(16, "s" * 40_000)), ErrorCode.invalid_request),
    ],
)
def test_changes_are_checked(request_, error):
    node = active()
    node.call(create("t"))
    before = node.raft.end_offset
    assert code_of(node.call(request_)) == error
    assert node.raft.end_offset - before == (error == ErrorCode.none)
    assert node.controller.is_active, "no request is a reason to resign"


def test_a_controller_that_is_no_broker_is_a_resource_too():
    node = Node(cluster=dataclasses.replace(CLUSTER, brokers=()))
    node.raft.elect()
    node.raft.commit()
    assert code_of(node.call(alter("k", "1", resource=(4, "2")))) == ErrorCode.none
    assert code_of(node.call(alter("k", "1", resource=(4, "9")))) == (
        ErrorCode.broker_id_not_registered
    )


def test_values_must_fit_those_that_are_set_already():
    node = active()
    node.call(create(creatable("t", configs={"max.compaction.lag.ms": "10"})))
    reply = node.call(alter("min.compaction.lag.ms", "11", resource=T))
    assert code_of(reply) == ErrorCode.invalid_config
    assert message_of(reply) == (
        "conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10)"
    )


def several(*resources, validate_only=False):
    return m.IncrementalAlterConfigsRequest(
        resources=tuple(
            m.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    m.AlterableConfig(name=key, config_operation=0, value=value)
                    for key, value in configs
                ),
            )
            for kind, name, configs in resources
        ),
        validate_only=validate_only,
    )


def test_one_bad_change_refuses_its_resource_and_no_other():
    node = active()
    reply = node.call(several((4, "", [("k", "1"), ("l", None)]), (4, "1", [("k", "3")])))
    assert codes(reply) == [ErrorCode.invalid_request, ErrorCode.none]
    assert values(node) == {}
    assert values(node, (4, "1")) == {"k": "3"}


def test_a_resource_or_a_key_twice_is_refused():
    node = active()
    twice = node.call(several((4, "", [("a", "1")]), (4, "", [("b", "1")])))
    assert codes(twice) == [ErrorCode.invalid_request]
    keys = node.call(several((4, "", [("a", "1"), ("a", "2")])))
    assert codes(keys) == [ErrorCode.invalid_request]
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
    for resource, key, records in (((2, "a"), "flush.ms", 0), ((4, ""), "k", 1)):
        node.call(alter(key, "1", resource=resource))
        before = node.raft.end_offset
        assert code_of(node.call(alter(key, "1", resource=resource))) == ErrorCode.none
        assert node.raft.end_offset - before == records


def test_describe_names_the_source_and_only_the_wanted_names():
    node = active()
    node.call(alter("a", "1"))
    node.call(alter("log.flush.interval.ms", "2"))
    node.call(alter("a", "3", resource=(4, "1")))
    found = shown(node, (4, "1"), "a", "log.flush.interval.ms", "none", synonyms=True)
    assert {name: (c.value, c.config_source) for name, c in found.items()} == {
        "a": ("3", 2),
        "log.flush.interval.ms": ("2", 3),
    }
    assert [(s.value, s.source) for s in found["a"].synonyms] == [("3", 2), ("1", 3)]
    found = shown(node, (4, ""))
    assert {name: (c.value, c.synonyms) for name, c in found.items()} == {
        "a": ("1", ()),
        "min.insync.replicas": ("1", ()),
        "log.flush.interval.ms": ("2", ()),
    }
    node.call(create("t"))
    node.call(alter("segment.ms", " 1 ", resource=T))
    found = shown(node, T)
    assert len(found) == 33
    assert {n: c.value for n, c in found.items() if c.config_source != 5} == {
        "segment.ms": "1",
        "flush.ms": "2",
        "min.insync.replicas": "1",
    }


def test_describe_shows_what_the_nodes_file_says_and_no_passwords():
    static = {"num.io.threads": "16", "ssl.key.password": "secret", "log.roll.hours": "1"}
    node = active(cluster=dataclasses.replace(CLUSTER, static_configs=static))
    found = shown(node, (4, "1"), synonyms=True)
    threads, password = found["num.io.threads"], found["ssl.key.password"]
    assert (threads.value, threads.config_source, threads.config_type) == ("16", 4, 3)
    assert [(s.value, s.source) for s in threads.synonyms] == [("16", 4), ("8", 5)]
    assert (password.value, password.is_sensitive, password.config_source) == (None, True, 4)
    assert [s.value for s in password.synonyms] == [None]
    assert (found["node.id"].read_only, threads.read_only) == (True, False)
    (result,) = node.call(create("t")).topics
    (segment_ms,) = [c for c in result.configs if c.name == "segment.ms"]
    assert (segment_ms.value, segment_ms.config_source) == ("3600000", 4)


def test_what_a_broker_cannot_use_of_what_is_set_is_not_shown():
    node = active()
    for name, value in (("node.id", "7"), ("log.retention.ms", "x"), ("listeners", "x")):
        assert code_of(node.call(alter(name, value))) == ErrorCode.none
    assert shown(node, (4, "")).keys() == {"min.insync.replicas"}


def test_however_much_is_set_on_brokers_a_topic_looks_up_its_own_keys_alone(monkeypatch):
    """A copy of 9,000 keys for each of 1,000 topics held the controller up for 40 s."""
    node, copied = active(), []
    copy = MetadataState.resource_configs

    def record(state, resource):
        copied.append(resource.type)
        return copy(state, resource)

    monkeypatch.setattr(MetadataState, "resource_configs", record)
    node.call(create("t"))
    shown(node, T, "retention.ms")
    shown(node, (4, ""))
    assert set(copied) == {ResourceType.TOPIC}


def test_a_node_that_does_not_lead_describes_itself_and_nothing_else():
    node = Node()
    (reply,) = node.send(describe((4, "1"), keys=("num.io.threads",)))
    assert [config.value for config in reply.results[0].configs] == ["8"]
    (reply,) = node.send(describe((4, "")))
    assert code_of(reply) == ErrorCode.not_controller


def test_describe_cluster_names_brokers_or_controllers_by_listener():
    node = Node()
    node.raft.leader_id = 2
    (reply,) = node.send(describe_cluster(1), CLIENT)
    assert (reply.cluster_id, reply.controller_id) == ("fake-cluster", 2)
    assert [(b.broker_id, b.port) for b in reply.brokers] == [(1, 9091), (2, 9092), (3, 9093)]
    (reply,) = node.send(describe_cluster(2), CONTROLLER)
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
    (reply,) = Node().send(describe_cluster(endpoint_type), listener)
    assert reply.error_code == error
    assert reply.brokers == ()

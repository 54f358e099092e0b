"""Requests that ask for a right on each of their resources (`access.screens`)."""

import pytest

from cluster.node.controller.access.rights import Access
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    LegacyAlterConfigsResource,
    milliseconds,
)
from cluster.node.protocol.origin import Origin
from tests.controller.entries import Published, authorizer_of, entry
from tests.controller.fakes import Node, active, create, delete

ALICE = Origin("User", "alice", "10.0.0.1")
OK = (ErrorCode.none, None)
TOPIC_REFUSED = (ErrorCode.topic_authorization_failed, "Topic authorization failed.")
CLUSTER_REFUSED = (ErrorCode.cluster_authorization_failed, "Cluster authorization failed.")
GROUP_REFUSED = (ErrorCode.group_authorization_failed, "Group authorization failed.")


def alice(*entries):
    """What alice may do by entries like `READ topic:t`."""
    return Access(authorizer_of([entry(f"User:alice {text}", n) for n, text in enumerate(entries)]))


def asked(access):
    return Access(access.authorizer, ALICE)


def outcome(rows):
    return {row.name: (row.error_code, row.error_message) for row in rows}


def created(access, *names, node=None):
    reply = (node or active()).call(create(*names), access=asked(access))
    return outcome(reply.topics)


def test_topics_are_created_where_an_entry_allows_it():
    refused = (ErrorCode.topic_authorization_failed, "Authorization failed.")
    access = alice("CREATE topic:mine...", "DESCRIBE_CONFIGS topic:mine...")
    node = active()
    assert created(access, "mine-1", "other", node=node) == {"mine-1": OK, "other": refused}
    assert node.controller.image.state.topic_by_name("other") is None
    assert created(alice("CREATE cluster"), "any", "other") == {"any": OK, "other": OK}


def test_what_is_wrong_with_a_topic_counts_more_than_a_missing_right():
    outcomes = created(alice(), "twice", "twice", "__cluster_metadata", "t")
    assert {name: error for name, (error, _) in outcomes.items()} == {
        "twice": ErrorCode.invalid_request,
        "__cluster_metadata": ErrorCode.invalid_request,
        "t": ErrorCode.topic_authorization_failed,
    }


def test_whoever_may_not_describe_configs_is_not_shown_those_of_a_new_topic():
    node = active()
    (shown,) = node.call(create("a"), access=asked(alice("CREATE cluster", "ALL topic:a"))).topics
    assert (shown.topic_config_error_code, shown.num_partitions) == (0, 1)
    assert shown.configs
    (hidden,) = node.call(create("b"), access=asked(alice("CREATE cluster"))).topics
    assert hidden.error_code is ErrorCode.none
    assert hidden.topic_config_error_code == ErrorCode.topic_authorization_failed
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, ())
    assert hidden.topic_id is not None


def with_topics(*names):
    node = active()
    reply = node.call(create(*names))
    return node, {row.name: row.topic_id for row in reply.topics}


def test_topics_are_deleted_where_an_entry_allows_it():
    node, _ = with_topics("mine", "seen", "hidden")
    access = alice("DELETE topic:mine", "DESCRIBE topic:seen")
    reply = node.call(delete("mine", "seen", "hidden", "none"), access=asked(access))
    assert outcome(reply.responses) == {
        "mine": OK,
        "seen": TOPIC_REFUSED,
        "hidden": TOPIC_REFUSED,
        "none": TOPIC_REFUSED,
    }
    assert sorted(node.controller.image.state.topic_names.keys()) == ["hidden", "seen"]


def test_that_a_topic_does_not_exist_is_revealed_with_the_right_to_describe_it():
    node, _ = with_topics("t")
    reply = node.call(delete("none"), access=asked(alice("DESCRIBE topic:none")))
    assert [row.error_code for row in reply.responses] == [ErrorCode.unknown_topic_or_partition]


def test_an_id_does_not_reveal_the_name_of_a_topic():
    node, ids = with_topics("seen", "hidden", "mine")
    access = alice("DESCRIBE topic:seen", "DELETE topic:mine")
    reply = node.call(delete(ids=ids.values()), access=asked(access))
    assert [(row.name, row.topic_id, row.error_code) for row in reply.responses] == [
        ("mine", ids["mine"], ErrorCode.none),
        ("seen", ids["seen"], ErrorCode.topic_authorization_failed),
        (None, ids["hidden"], ErrorCode.topic_authorization_failed),
    ]


def test_a_topic_that_is_named_twice_is_an_invalid_request_first():
    node, _ = with_topics("t")
    reply = node.call(delete("t", "t"), access=asked(alice()))
    assert [row.error_code for row in reply.responses] == [ErrorCode.invalid_request]


def test_the_right_on_the_cluster_deletes_every_topic():
    node, _ = with_topics("t")
    reply = node.call(delete("t"), access=asked(alice("DELETE cluster")))
    assert outcome(reply.responses) == {"t": OK}


def grown(access, *names):
    node, _ = with_topics("mine", "other")
    request = CreatePartitionsRequest(
        topics=tuple(CreatePartitionsTopic(name=n, count=2, assignments=None) for n in names),
        timeout=milliseconds(1_000),
        validate_only=False,
    )
    return outcome(node.call(request, access=asked(access)).results)


def test_topics_grow_where_an_entry_allows_it():
    assert grown(alice("ALTER topic:mine"), "mine", "other") == {
        "mine": OK,
        "other": (ErrorCode.topic_authorization_failed, None),
    }
    (error, _) = grown(alice(), "mine", "mine")["mine"]
    assert error is ErrorCode.invalid_request


def outcomes_of(rows):
    return {
        (int(row.resource_type), row.resource_name): (row.error_code, row.error_message or None)
        for row in rows
    }


def incremental(*resources):
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
            for kind, name in resources
        ),
        validate_only=False,
    )


def legacy(*resources):
    return AlterConfigsRequest(
        resources=tuple(
            LegacyAlterConfigsResource(resource_type=kind, resource_name=name, configs=())
            for kind, name in resources
        ),
        validate_only=False,
    )


def described(*resources):
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=("k",)
            )
            for kind, name in resources
        )
    )


def answered(make, access, *resources, node=None):
    node = node or with_topics("mine", "other")[0]
    reply = node.call(make(*resources), access=asked(access))
    return outcomes_of(reply.results if make is described else reply.responses)


@pytest.mark.parametrize(
    ("make", "right"),
    [(incremental, "ALTER_CONFIGS"), (legacy, "ALTER_CONFIGS"), (described, "DESCRIBE_CONFIGS")],
)
def test_configs_are_altered_and_described_where_an_entry_allows_it(make, right):
    ours = [(2, "mine"), (2, "other"), (4, "1"), (16, "m"), (32, "g")]
    assert answered(make, alice(f"{right} topic:mine"), *ours) == {
        (2, "mine"): OK,
        (2, "other"): TOPIC_REFUSED,
        (4, "1"): CLUSTER_REFUSED,
        (16, "m"): CLUSTER_REFUSED,
        (32, "g"): GROUP_REFUSED,
    }
    access = alice(f"{right} cluster", f"{right} group:g")
    outcomes = answered(make, access, *ours[2:])
    assert all(
        error is not ErrorCode.cluster_authorization_failed for error, _ in outcomes.values()
    )
    assert GROUP_REFUSED not in outcomes.values()


@pytest.mark.parametrize("make", [incremental, legacy])
def test_what_is_wrong_with_a_resource_counts_more_than_a_missing_right(make):
    outcomes = answered(make, alice(), (2, "mine"), (2, "mine"), (1, "x"))
    assert {resource: error for resource, (error, _) in outcomes.items()} == {
        (2, "mine"): ErrorCode.invalid_request,
        (1, "x"): ErrorCode.unsupported_version,
    }


def test_loggers_of_a_controller_need_cluster_action():
    access = alice("ALTER_CONFIGS cluster", "DESCRIBE_CONFIGS cluster")
    assert answered(incremental, access, (8, "1")) == {(8, "1"): CLUSTER_REFUSED}
    assert answered(incremental, alice("CLUSTER_ACTION cluster"), (8, "1")) == {(8, "1"): OK}


@pytest.mark.parametrize("make", [create, delete, incremental, legacy])
def test_a_controller_that_is_not_active_says_so_and_nothing_else(make):
    """A broker asks the next one then. What this one would refuse, it might refuse by old entries."""
    node = Node()
    request = make("t") if make in {create, delete} else make((2, "t"))
    reply = node.call(request, access=asked(alice()))
    rows = reply.topics if make is create else reply.responses
    assert [row.error_code for row in rows] == [ErrorCode.not_controller]


@pytest.mark.parametrize("request_", [create("t"), delete("t"), described((2, "t"))])
def test_before_the_entries_are_loaded_requests_fail_whole_and_the_node_goes_on(request_):
    node, _ = with_topics("t")
    access = Access(Published().authorizer, ALICE)
    reply = node.call(request_, access=access)
    rows = next(
        r for r in (getattr(reply, n, None) for n in ("topics", "responses", "results")) if r
    )
    assert [(row.error_code, row.error_message) for row in rows] == [
        (ErrorCode.unknown_server_error, "the access control entries are not loaded yet")
    ]
    assert node.controller.is_active

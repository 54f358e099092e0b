"""StandardAuthorizer: its rule, against brute force and by examples."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.controller.access.authorizer import AuthorizerNotReadyError, host_of
from cluster.node.controller.access.codes import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.access.rights import UNRESTRICTED, Access
from cluster.node.controller.records.security import AccessControlEntryRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol.origin import Origin
from tests.controller.entries import CLUSTER, TOPIC, Published, authorizer_of, entry

ALICE = Origin("User", "alice", "10.0.0.1")
NAMES = st.text("ab*", min_size=1, max_size=3)
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*", "Group:a", "no colon"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
ENTRIES = st.lists(
    st.builds(
        AccessControlEntryRecord,
        id=st.uuids(),
        resource_type=st.sampled_from([2, 3]),
        resource_name=NAMES,
        pattern_type=st.sampled_from([3, 4]),
        principal=PRINCIPALS,
        host=HOSTS,
        operation=st.sampled_from([0, 2, 3, 4, 6, 7, 8, 10, 11]),
        permission_type=st.sampled_from([2, 3]),
    ),
    max_size=8,
    unique_by=lambda record: record.id,
)
QUESTIONS = st.tuples(
    st.sampled_from([("User", "a"), ("User", "b"), ("Group", "a"), ("User", "*")]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]),
    st.sampled_from([AclOperation(code) for code in (3, 4, 6, 7, 8, 9, 10, 11)]),
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP]),
    NAMES,
)
IMPLIED = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}


def brute_force(entries, question, everyone):
    """The rule as it is written down, over all entries."""
    principal, host, operation, resource_type, name = question

    def is_about(record):
        if record.resource_type != resource_type:
            return False
        if record.pattern_type == PatternType.PREFIXED:
            return name.startswith(record.resource_name)
        return record.resource_name in {"*", name}

    def applies(record):
        operations = {"ALL", operation.name}
        if record.permission_type == AclPermissionType.ALLOW:
            operations |= IMPLIED.get(operation.name, set())
        return (
            record.principal in {":".join(principal), "User:*"}
            and record.host in {"*", host}
            and AclOperation(record.operation).name in operations
        )

    about = [record for record in entries if is_about(record)]
    if not about:
        return everyone
    permissions = {record.permission_type for record in about if applies(record)}
    return permissions == {AclPermissionType.ALLOW}


@given(ENTRIES, st.lists(QUESTIONS, min_size=1, max_size=8), st.booleans())
def test_it_decides_as_brute_force_over_all_entries(entries, questions, everyone):
    authorizer = authorizer_of(entries, everyone=everyone)
    for question in questions:
        (kind, name), address, operation, resource_type, resource = question
        origin = Origin(kind, name, address)
        assert authorizer.authorize(origin, operation, resource_type, resource) == brute_force(
            entries, question, everyone
        )


@given(ENTRIES, ENTRIES, QUESTIONS, st.data())
def test_entries_come_and_go_with_the_metadata(first, second, question, data):
    """Whatever was there before: it decides by what is there now, and finds all of it."""
    published = Published()
    held = published.image.state.access_control
    for record in first:
        held.put(record.id, record)
    published.publish()
    for record in data.draw(st.lists(st.sampled_from(first), unique=True)) if first else ():
        held.remove(record.id)
    for record in second:
        if held.get(record.id) is None:
            held.put(record.id, record)
    published.publish()
    entries = [held.get(entry_id) for entry_id in held.keys()]  # noqa: SIM118 - no dict
    (kind, name), address, operation, resource_type, resource = question
    allowed = published.authorizer.authorize(
        Origin(kind, name, address), operation, resource_type, resource
    )
    assert allowed == brute_force(entries, question, everyone=False)


@pytest.mark.parametrize(
    ("entries", "operation", "topic", "allowed"),
    [
        (["User:alice READ topic:t"], "READ", "t", True),
        (["User:alice READ topic:t"], "WRITE", "t", False),
        (["User:alice READ topic:t"], "READ", "tt", False),
        (["User:alice READ topic:t..."], "READ", "tt", True),
        (["User:alice READ topic:*"], "READ", "anything", True),
        (["User:alice READ topic:*..."], "READ", "anything", False),
        (["User:alice READ topic:*"], "READ", "*a", True),
        (["User:alice ALL topic:t"], "ALTER_CONFIGS", "t", True),
        (["User:* READ topic:t"], "READ", "t", True),
        (["Group:* READ topic:t"], "READ", "t", False),
        (["User:bob READ topic:t"], "READ", "t", False),
        (["User:alice READ topic:t from 10.0.0.1"], "READ", "t", True),
        (["User:alice READ topic:t from 10.0.0.2"], "READ", "t", False),
        (["User:alice WRITE topic:t"], "DESCRIBE", "t", True),
        (["User:alice ALTER_CONFIGS topic:t"], "DESCRIBE_CONFIGS", "t", True),
        (["User:alice DESCRIBE topic:t"], "READ", "t", False),
        (["User:alice CREATE topic:t"], "DESCRIBE", "t", False),
        (["User:alice ALL topic:t", "deny User:alice READ topic:*"], "READ", "t", False),
        (["User:alice ALL topic:t", "deny User:* READ topic:t..."], "READ", "t", False),
        (["User:alice ALL topic:t", "deny User:alice READ topic:t"], "DESCRIBE", "t", True),
        (["User:alice ALL topic:t", "deny User:alice ALL topic:t"], "READ", "t", False),
        (["User:alice ALL group:t"], "READ", "t", False),
    ],
)
def test_entries_allow_and_deny(entries, operation, topic, allowed):
    authorizer = authorizer_of([entry(text, number) for number, text in enumerate(entries)])
    assert authorizer.authorize(ALICE, AclOperation[operation], TOPIC, topic) is allowed


def test_a_super_user_may_do_what_entries_deny_and_before_there_are_any():
    published = Published({"User:alice"})
    assert published.authorizer.authorize(ALICE, AclOperation.ALTER, CLUSTER, "kafka-cluster")
    denying = entry("deny User:alice ALL cluster")
    published.image.state.access_control.put(denying.id, denying)
    published.publish()
    assert published.authorizer.authorize(ALICE, AclOperation.ALTER, CLUSTER, "kafka-cluster")


def test_nothing_is_decided_about_others_before_the_metadata_are_loaded():
    published = Published(everyone=True)
    with pytest.raises(AuthorizerNotReadyError) as raised:
        published.authorizer.authorize(ALICE, AclOperation.ALTER, CLUSTER, "kafka-cluster")
    assert raised.value.error is ErrorCode.unknown_server_error
    assert Access(published.authorizer, ALICE).operations(TOPIC, "t") == 0
    published.publish()
    assert published.authorizer.authorize(ALICE, AclOperation.ALTER, CLUSTER, "kafka-cluster")


def test_a_refusal_that_was_asked_for_is_traced():
    published = Published().publish()
    authorizer = published.authorizer
    assert not authorizer.authorize(ALICE, AclOperation.READ, TOPIC, "t", log_if_denied=False)
    assert published.denied == []
    assert not authorizer.authorize(ALICE, AclOperation.READ, TOPIC, "t")
    assert published.denied == [
        {
            "principal": "User:alice",
            "address": "10.0.0.1",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource": "t",
            "reason": "no entry allows it",
        }
    ]


def test_an_image_that_is_replaced_takes_its_entries_with_it():
    published = Published()
    first, second = entry("User:alice READ topic:a..."), entry("User:alice READ topic:b...")
    state = published.image.state
    state.access_control.put(first.id, first)
    published.publish()
    other = type(state.access_control)()
    other.put(uuid.UUID(int=9), second)
    state.access_control.replace_by(other)
    published.publish()
    may = [published.authorizer.authorize(ALICE, AclOperation.READ, TOPIC, t) for t in ("aa", "bb")]
    assert may == [False, True]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0b", "2001:db8:0:0:0:0:0:a0b"),
        ("fe80::2%eth0", "fe80:0:0:0:0:0:0:2%eth0"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", "0.0.0.0"),
    ],
)
def test_hosts_are_written_as_by_java(address, host):
    assert host_of(address) == host


def test_authorized_operations_are_those_that_are_permitted():
    may = Access(authorizer_of([entry("User:alice WRITE topic:t")]), ALICE)
    assert may.operations(TOPIC, "t") == 1 << 4 | 1 << 8  # WRITE, and DESCRIBE with it
    assert may.operations(TOPIC, "other") == 0
    assert may.operations_on_cluster() == 0
    of_cluster = Access(authorizer_of([entry("User:alice ALTER cluster")]), ALICE)
    assert of_cluster.operations_on_cluster() == 1 << 7 | 1 << 8
    hidden = Access(authorizer_of([entry("User:alice CREATE cluster")]), ALICE)
    assert hidden.operations_on_cluster() == 0, "without DESCRIBE nothing is shown"
    assert UNRESTRICTED.operations(TOPIC, "t") == 0b1101_1111_1000
    assert UNRESTRICTED.operations_on_cluster() == 0b1_1111_1010_0000

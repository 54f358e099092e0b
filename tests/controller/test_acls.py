"""DescribeAcls, CreateAcls and DeleteAcls: with an authorizer, and where there is none."""

import dataclasses

import pytest

from cluster.node.controller.access.rights import Access
from cluster.node.controller.records import decode_record, encode_record
from cluster.node.controller.records.security import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from cluster.node.protocol.origin import ANONYMOUS
from tests.controller.entries import authorizer_of, entry
from tests.controller.fakes import CLIENT, CONTROLLER, Node, active

ENTRY = AclCreation(
    resource_type=2,
    resource_name="t",
    resource_pattern_type=3,
    principal="User:a",
    host="*",
    operation=3,
    permission_type=3,
)
FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
DISABLED = (ErrorCode.security_disabled, "No Authorizer is configured.")
CREATED = (ErrorCode.none, None)
NO_COLON = (
    "Could not parse principal from `alice` (no colon is present separating the principal type "
    "from the principal name)"
)


class Acls:
    """An active controller with an authorizer, whose sender may do everything."""

    def __init__(self, *texts):
        self.node = active()
        self.access = Access(authorizer_of_everything(), ANONYMOUS)
        if texts:
            assert self.create(*(creation(text) for text in texts)) == [CREATED] * len(texts)

    def create(self, *creations):
        request = CreateAclsRequest(creations=creations)
        results = self.node.call(request, access=self.access).results
        return [(result.error_code, result.error_message) for result in results]

    def delete(self, *filters):
        request = DeleteAclsRequest(filters=tuple(DeleteAclsFilter(**each) for each in filters))
        return self.node.call(request, access=self.access).filter_results

    def describe(self, **wanted):
        request = DescribeAclsRequest(**{**FILTER, **wanted})
        return self.node.call(request, CLIENT, self.access)

    def selected(self, **wanted):
        """The names of patterns that a filter selects."""
        return [resource.resource_name for resource in self.describe(**wanted).resources]

    def appended(self):
        return [decode_record(value)[0] for value in self.node.raft.log[-1].records]


def authorizer_of_everything():
    return authorizer_of([], {"User:ANONYMOUS"})


def creation(text):
    made = entry(text)
    return AclCreation(
        resource_type=made.resource_type,
        resource_name=made.resource_name,
        resource_pattern_type=made.pattern_type,
        principal=made.principal,
        host=made.host,
        operation=made.operation,
        permission_type=made.permission_type,
    )


def changed(**fields):
    return dataclasses.replace(ENTRY, **fields)


@pytest.mark.parametrize("listener", [CLIENT, CONTROLLER])
def test_security_is_disabled_on_every_node_without_an_authorizer(listener):
    node = Node()
    described = node.call(DescribeAclsRequest(**FILTER), listener)
    assert described.error_code is ErrorCode.security_disabled
    assert described.error_message == "No Authorizer is configured on the broker"
    created = node.call(CreateAclsRequest(creations=(ENTRY, ENTRY)), listener)
    assert [(r.error_code, r.error_message) for r in created.results] == [DISABLED] * 2
    deleted = node.call(DeleteAclsRequest(filters=(DeleteAclsFilter(**FILTER),)), listener)
    assert [(r.error_code, r.error_message) for r in deleted.filter_results] == [DISABLED]


def test_an_entry_is_a_record_and_is_described():
    acls = Acls()
    assert acls.create(ENTRY) == [CREATED]
    (record,) = acls.appended()
    assert record == AccessControlEntryRecord(
        id=record.id,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    assert record.id.version == 4
    described = acls.describe()
    assert described.error_code is ErrorCode.none
    (resource,) = described.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 3)
    (found,) = resource.acls
    assert (found.principal, found.host, found.operation, found.permission_type) == (
        ("User:a", "*", 3, 3)
    )


def test_entries_of_one_pattern_are_described_together():
    acls = Acls("User:a READ topic:t", "deny User:b READ topic:t", "User:a READ topic:t...")
    assert [
        (resource.resource_name, resource.pattern_type, len(resource.acls))
        for resource in acls.describe().resources
    ] == [("t", 3, 2), ("t", 4, 1)]


def test_creation_is_answered_when_it_is_committed():
    acls = Acls()
    request = CreateAclsRequest(creations=(ENTRY,))
    replies = acls.node.send(request, access=acls.access)
    assert replies == []
    assert acls.describe().resources == ()
    acls.node.raft.commit()
    assert len(replies) == 1


def test_what_is_there_already_is_created_without_a_record():
    acls = Acls("User:a READ topic:t")
    batches = len(acls.node.raft.log)
    assert acls.create(ENTRY) == [CREATED]
    assert len(acls.node.raft.log) == batches
    assert acls.create(changed(host="10.0.0.1"), changed(host="10.0.0.1"), ENTRY) == [CREATED] * 3
    assert [record.host for record in acls.appended()] == ["10.0.0.1"]


def test_what_was_appended_and_is_not_committed_is_there_already():
    acls = Acls()
    request = CreateAclsRequest(creations=(ENTRY,))
    first = acls.node.send(request, access=acls.access)
    end = acls.node.raft.end_offset
    second = acls.node.send(request, access=acls.access)
    assert acls.node.raft.end_offset == end
    acls.node.raft.commit()
    acls.node.raft.confirm()
    assert len(first) == len(second) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -1}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, NO_COLON),
    ],
)
def test_an_entry_that_cannot_be_is_refused_and_others_are_created(fields, message):
    acls = Acls()
    outcome = acls.create(changed(**fields), ENTRY)
    assert outcome == [(ErrorCode.invalid_request, message), CREATED]
    assert acls.selected() == ["t"]


def test_an_entry_of_the_cluster_has_its_name():
    acls = Acls("User:a ALTER cluster")
    assert acls.selected(resource_type_filter=4) == ["kafka-cluster"]


def test_more_entries_than_a_batch_holds_are_refused_whole():
    acls = Acls()
    many = [changed(resource_name=f"t{number}") for number in range(10_001)]
    error = (ErrorCode.policy_violation, "Unable to perform excessively large batch operation.")
    assert acls.create(*many) == [error] * 10_001
    assert acls.selected() == []
    assert acls.create(*many[:10_000]) == [CREATED] * 10_000


def test_another_than_the_active_controller_answers_for_each_entry_and_filter():
    node = Node()
    access = Access(authorizer_of_everything(), ANONYMOUS)
    created = node.call(CreateAclsRequest(creations=(ENTRY, ENTRY)), access=access)
    assert [result.error_code for result in created.results] == [ErrorCode.not_controller] * 2
    request = DeleteAclsRequest(filters=(DeleteAclsFilter(**FILTER),))
    deleted = node.call(request, access=access)
    assert [r.error_code for r in deleted.filter_results] == [ErrorCode.not_controller]


TOPICS = (
    "User:a READ topic:foo",
    "User:a READ topic:f...",
    "User:a READ topic:*",
    "deny User:b WRITE topic:foo... from 10.0.0.1",
    "User:a READ group:foo",
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["foo", "f", "*", "foo", "foo"]),
        ({"resource_type_filter": 3}, ["foo"]),
        ({"resource_type_filter": 2, "resource_name_filter": "foo"}, ["foo", "foo"]),
        ({"pattern_type_filter": 3, "resource_name_filter": "foo"}, ["foo", "foo"]),
        ({"pattern_type_filter": 4, "resource_name_filter": "foo"}, ["foo"]),
        ({"pattern_type_filter": 4}, ["f", "foo"]),
        ({"pattern_type_filter": 2, "resource_type_filter": 2}, ["foo", "f", "*", "foo"]),
        (
            {
                "pattern_type_filter": 2,
                "resource_type_filter": 2,
                "resource_name_filter": "foo",
            },
            ["foo", "f", "*", "foo"],
        ),
        (
            {"pattern_type_filter": 2, "resource_type_filter": 2, "resource_name_filter": "fo"},
            ["f", "*"],
        ),
        ({"pattern_type_filter": 3, "resource_name_filter": "*"}, ["*"]),
        ({"principal_filter": "User:b"}, ["foo"]),
        ({"host_filter": "10.0.0.1"}, ["foo"]),
        ({"host_filter": "*", "resource_type_filter": 3}, ["foo"]),
        ({"operation": 4}, ["foo"]),
        ({"permission_type": 2}, ["foo"]),
        ({"resource_type_filter": 99}, []),
        ({"pattern_type_filter": 99}, []),
        ({"operation": 99}, []),
        ({"permission_type": 99}, []),
    ],
)
def test_a_filter_selects(wanted, found):
    assert Acls(*TOPICS).selected(**wanted) == found


@pytest.mark.parametrize(
    "part", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_a_filter_of_no_number_is_an_error_where_kafka_hangs_up(part):
    described = Acls(*TOPICS).describe(**{part: 0})
    assert described.error_code is ErrorCode.invalid_request
    assert described.error_message == "DescribeAclsRequest contains UNKNOWN elements"


def test_every_filter_deletes_what_it_selects_once():
    acls = Acls(*TOPICS)
    groups, everything = {**FILTER, "resource_type_filter": 3}, FILTER
    first, second = acls.delete(groups, everything)
    assert (first.error_code, second.error_code) == (ErrorCode.none, ErrorCode.none)
    assert [acl.resource_name for acl in first.matching_acls] == ["foo"]
    assert [
        (acl.resource_type, acl.resource_name, acl.pattern_type, acl.permission_type, acl.host)
        for acl in second.matching_acls
    ] == [
        (2, "foo", 3, 3, "*"),
        (2, "f", 4, 3, "*"),
        (2, "*", 3, 3, "*"),
        (2, "foo", 4, 2, "10.0.0.1"),
        (3, "foo", 3, 3, "*"),
    ]
    assert all(acl.error_code is ErrorCode.none for acl in second.matching_acls)
    assert [type(record) for record in acls.appended()] == [RemoveAccessControlEntryRecord] * 5
    assert acls.selected() == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"pattern_type_filter": 0}, "Unknown patternFilter."),
        ({"resource_type_filter": 99}, "Unknown patternFilter."),
        ({"operation": 99}, "Unknown entryFilter."),
        ({"permission_type": 0}, "Unknown entryFilter."),
    ],
)
def test_a_filter_with_an_unknown_part_is_refused_and_others_delete(wanted, message):
    acls = Acls("User:a READ topic:t")
    refused, deleted = acls.delete({**FILTER, **wanted}, FILTER)
    assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_request, message)
    assert [acl.resource_name for acl in deleted.matching_acls] == ["t"]


def test_more_entries_than_a_batch_holds_are_not_deleted():
    acls = Acls()
    for part in range(3):
        acls.create(*(changed(resource_name=f"{part}-{n}") for n in range(4_000)))
    (result,) = acls.delete(FILTER)
    assert (result.error_code, result.error_message) == (
        ErrorCode.invalid_request,
        "Cannot remove more than 10000 acls in a single delete operation.",
    )
    assert len(acls.selected()) == 12_000


def test_what_clients_could_not_read_is_not_described():
    """Another controller may have written what this one does not know."""
    acls = Acls("User:a READ topic:t")
    unknown = dataclasses.replace(entry("User:a READ topic:new", number=7), operation=99)
    acls.node.raft.prepare_append(acls.node.raft.epoch, [encode_record(unknown)])
    acls.node.raft.commit()
    assert acls.selected() == ["t"]
    (deleted,) = acls.delete({**FILTER, "resource_name_filter": "t"})
    assert [acl.resource_name for acl in deleted.matching_acls] == ["t"]

"""Access control requests where no authorizer is configured."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.controller.fakes import CLIENT, CONTROLLER, Node

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


@pytest.mark.parametrize("listener", [CLIENT, CONTROLLER])
def test_security_is_disabled_on_every_node(listener):
    node = Node()
    described = node.call(DescribeAclsRequest(**FILTER), listener)
    assert described.error_code is ErrorCode.security_disabled
    assert described.error_message == "No Authorizer is configured on the broker"
    created = node.call(CreateAclsRequest(creations=(ENTRY, ENTRY)), listener)
    assert [(r.error_code, r.error_message) for r in created.results] == [DISABLED] * 2
    deleted = node.call(DeleteAclsRequest(filters=(DeleteAclsFilter(**FILTER),)), listener)
    assert [(r.error_code, r.error_message) for r in deleted.filter_results] == [DISABLED]

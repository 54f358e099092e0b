"""DescribeAcls, CreateAcls and DeleteAcls without an authorizer (AclApis).

Entries of a real controller's authorizer are kept (`state.access_control`), and nothing here acts
on them. So each of these requests gets what Kafka's nodes answer when `authorizer.class.name` is
not set.
"""

from __future__ import annotations

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

_DISABLED = ErrorCode.security_disabled
_NO_AUTHORIZER = "No Authorizer is configured."


def describe_acls(_request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return SECURITY_DISABLED."""
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


def create_acls(
    request: CreateAclsRequest,
    error: ErrorCode = _DISABLED,
    message: str | None = _NO_AUTHORIZER,
) -> CreateAclsResponse:
    """Return an error, SECURITY_DISABLED if nothing else, for every entry."""
    result = AclCreationResult(error_code=error, error_message=message)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(result,) * len(request.creations))


def delete_acls(
    request: DeleteAclsRequest,
    error: ErrorCode = _DISABLED,
    message: str | None = _NO_AUTHORIZER,
) -> DeleteAclsResponse:
    """Return an error, SECURITY_DISABLED if nothing else, for every filter."""
    result = DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=())
    return DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(result,) * len(request.filters)
    )

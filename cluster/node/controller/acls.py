"""DescribeAcls, and what CreateAcls and DeleteAcls are answered when all of them fails (AclApis).

Without an authorizer every node answers SECURITY_DISABLED. Entries are kept all the same
(`state.access_control`): those of other controllers, or of a time with an authorizer.
"""

from __future__ import annotations

from cluster.node.controller.access.codes import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.access.filters import matches, unknown_part
from cluster.node.controller.records.security import AccessControlEntryRecord
from cluster.node.controller.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
    i8,
)

_DISABLED = ErrorCode.security_disabled
_NO_AUTHORIZER = "No Authorizer is configured."


def describe_acls(request: DescribeAclsRequest, state: MetadataState) -> DescribeAclsResponse:
    """Return the entries that the filter selects, by resource pattern, oldest first.

    A filter of a number that Kafka does not know selects nothing; of 0, over which Kafka hangs up,
    it is INVALID_REQUEST.
    """
    numbers = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if 0 in numbers:
        message = "DescribeAclsRequest contains UNKNOWN elements"
        return describe_acls_error(request, ErrorCode.invalid_request, message)
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for entry_id in state.access_control.keys():  # noqa: SIM118 - a StateMap is no dict
        entry = state.access_control.get(entry_id)
        assert entry is not None
        if unknown_part(request) is None and _is_known(entry) and matches(request, entry):
            pattern = (entry.resource_type, entry.resource_name, entry.pattern_type)
            described = found.setdefault(pattern, [])
            description = _description(entry)
            if description not in described:
                described.append(description)
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                resource_type=i8(resource_type),
                resource_name=name,
                pattern_type=i8(pattern_type),
                acls=tuple(described),
            )
            for (resource_type, name, pattern_type), described in found.items()
        ),
    )


def _is_known(entry: AccessControlEntryRecord) -> bool:
    """Return whether clients can read an entry: they refuse the whole answer over an UNKNOWN."""
    return not (
        AclResourceType(entry.resource_type) is AclResourceType.UNKNOWN
        or PatternType(entry.pattern_type) is PatternType.UNKNOWN
        or AclOperation(entry.operation) is AclOperation.UNKNOWN
        or AclPermissionType(entry.permission_type) is AclPermissionType.UNKNOWN
    )


def _description(entry: AccessControlEntryRecord) -> AclDescription:
    return AclDescription(
        principal=entry.principal,
        host=entry.host,
        operation=i8(entry.operation),
        permission_type=i8(entry.permission_type),
    )


def describe_acls_error(
    _request: DescribeAclsRequest,
    error: ErrorCode = _DISABLED,
    message: str | None = "No Authorizer is configured on the broker",
) -> DescribeAclsResponse:
    """Return an error, SECURITY_DISABLED if nothing else."""
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, resources=()
    )


def create_acls_error(
    request: CreateAclsRequest,
    error: ErrorCode = _DISABLED,
    message: str | None = _NO_AUTHORIZER,
) -> CreateAclsResponse:
    """Return an error, SECURITY_DISABLED if nothing else, for every entry."""
    result = AclCreationResult(error_code=error, error_message=message)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(result,) * len(request.creations))


def delete_acls_error(
    request: DeleteAclsRequest,
    error: ErrorCode = _DISABLED,
    message: str | None = _NO_AUTHORIZER,
) -> DeleteAclsResponse:
    """Return an error, SECURITY_DISABLED if nothing else, for every filter."""
    result = DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=())
    return DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(result,) * len(request.filters)
    )

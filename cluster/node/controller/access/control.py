"""CreateAcls and DeleteAcls at the active controller (AclControlManager, AclApis).

Every entry and every filter has a result of its own; what may be done is done as one batch. What is
there already is created without an error and without a record.

Two answers are clearer than Kafka 4.3.1's. A number of no meaning in an entry (0), or one of
filters only (ANY), is INVALID_REQUEST for that entry. Kafka hangs up over the one, and the other
makes every entry of the request UNKNOWN_SERVER_ERROR, because its classes refuse to be made.
"""

from __future__ import annotations

import uuid
from typing import Final

from cluster.node.controller.access.authorizer import parse_principal
from cluster.node.controller.access.codes import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.access.filters import matches, unknown_part
from cluster.node.controller.new_id import new_id
from cluster.node.controller.records.security import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from cluster.node.controller.result import (
    RECORDS_PER_BATCH_MAX,
    ControllerResult,
    RequestError,
)
from cluster.node.controller.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.ports import Random
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    i8,
)

_Content = tuple[int, str, int, str, str, int, int]
_CREATED: Final = AclCreationResult(error_code=ErrorCode.none, error_message=None)


def create_acls(
    request: CreateAclsRequest, state: MetadataState, random: Random
) -> ControllerResult[CreateAclsResponse]:
    """Return a record for each entry that is legal and new. Raises RequestError for too many."""
    held = {_content(entry) for entry in _entries(state)}
    records: list[AccessControlEntryRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        problem = _problem(creation)
        if problem is not None:
            results.append(
                AclCreationResult(error_code=ErrorCode.invalid_request, error_message=problem)
            )
            continue
        results.append(_CREATED)
        record = _record(creation, random, state)
        if _content(record) not in held:
            held.add(_content(record))
            records.append(record)
    if len(records) > RECORDS_PER_BATCH_MAX:
        message = "Unable to perform excessively large batch operation."
        raise RequestError(ErrorCode.policy_violation, message)
    return ControllerResult(
        records=tuple(records),
        response=CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(results)),
    )


def _entries(state: MetadataState) -> list[AccessControlEntryRecord]:
    found = map(state.access_control.get, state.access_control.keys())
    return [entry for entry in found if entry is not None]


def _content(entry: AccessControlEntryRecord) -> _Content:
    """Return all of an entry but its id."""
    return (
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _problem(creation: AclCreation) -> str | None:
    """Return why there can be no such entry, in Kafka's words."""
    resource_type = AclResourceType(creation.resource_type)
    pattern_type = PatternType(creation.resource_pattern_type)
    operation = AclOperation(creation.operation)
    permission = AclPermissionType(creation.permission_type)
    problem = None
    if resource_type is AclResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not creation.resource_name:
        problem = "Invalid empty resource name"
    elif resource_type in {AclResourceType.UNKNOWN, AclResourceType.ANY}:
        problem = f"Invalid resourceType {resource_type.name}"
    elif pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        problem = f"Invalid patternType {pattern_type.name}"
    elif operation in {AclOperation.UNKNOWN, AclOperation.ANY}:
        problem = f"Invalid operation {operation.name}"
    elif permission not in {AclPermissionType.DENY, AclPermissionType.ALLOW}:
        problem = f"Invalid permissionType {permission.name}"
    elif parse_principal(creation.principal) is None:
        problem = (
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return problem


def _record(
    creation: AclCreation, random: Random, state: MetadataState
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=new_id(random, state.access_control),
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def delete_acls(
    request: DeleteAclsRequest, state: MetadataState
) -> ControllerResult[DeleteAclsResponse]:
    """Return a removal for each entry that any filter selects; each filter has its entries.

    Raises RequestError when they are too many: none is removed then.
    """
    entries = _entries(state)
    removed: dict[uuid.UUID, RemoveAccessControlEntryRecord] = {}
    results: list[DeleteAclsFilterResult] = []
    for wanted in request.filters:
        part = unknown_part(wanted)
        if part is not None:
            results.append(_refused(f"Unknown {part}."))
            continue
        found = [entry for entry in entries if matches(wanted, entry)]
        removed |= {entry.id: RemoveAccessControlEntryRecord(id=entry.id) for entry in found}
        if len(removed) > RECORDS_PER_BATCH_MAX:
            message = (
                f"Cannot remove more than {RECORDS_PER_BATCH_MAX} acls in a single delete "
                "operation."
            )
            raise RequestError(ErrorCode.invalid_request, message)
        results.append(_deleted(found))
    return ControllerResult(
        records=tuple(removed.values()),
        response=DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=tuple(results)),
    )


def _refused(message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=ErrorCode.invalid_request, error_message=message, matching_acls=()
    )


def _deleted(found: list[AccessControlEntryRecord]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_code=ErrorCode.none,
                error_message=None,
                resource_type=i8(entry.resource_type),
                resource_name=entry.resource_name,
                pattern_type=i8(entry.pattern_type),
                principal=entry.principal,
                host=entry.host,
                operation=i8(entry.operation),
                permission_type=i8(entry.permission_type),
            )
            for entry in found
        ),
    )

"""Which access control entries a filter selects (AclBindingFilter).

DescribeAcls has one filter in the request itself, DeleteAcls many; both have the same fields.
"""

from __future__ import annotations

from cluster.node.controller.access.codes import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.records.security import AccessControlEntryRecord
from cluster.node.protocol.messages import DeleteAclsFilter, DescribeAclsRequest

AclFilter = DescribeAclsRequest | DeleteAclsFilter


def unknown_part(wanted: AclFilter) -> str | None:
    """Return which part of a filter has a number that Kafka does not know, None when none has."""
    resource_type = AclResourceType(wanted.resource_type_filter)
    pattern_type = PatternType(wanted.pattern_type_filter)
    if resource_type is AclResourceType.UNKNOWN or pattern_type is PatternType.UNKNOWN:
        return "patternFilter"
    operation = AclOperation(wanted.operation)
    permission = AclPermissionType(wanted.permission_type)
    if operation is AclOperation.UNKNOWN or permission is AclPermissionType.UNKNOWN:
        return "entryFilter"
    return None


def matches(wanted: AclFilter, entry: AccessControlEntryRecord) -> bool:
    """Return whether a filter without unknown parts selects an entry.

    ANY and a null string select everything; MATCH selects the patterns that mean the resource of
    this name, prefixes and the wildcard among them.
    """
    if wanted.resource_type_filter not in {AclResourceType.ANY, entry.resource_type}:
        return False
    if wanted.operation not in {AclOperation.ANY, entry.operation}:
        return False
    if wanted.permission_type not in {AclPermissionType.ANY, entry.permission_type}:
        return False
    if wanted.principal_filter not in {None, entry.principal}:
        return False
    return wanted.host_filter in {None, entry.host} and _pattern_matches(wanted, entry)


def _pattern_matches(wanted: AclFilter, entry: AccessControlEntryRecord) -> bool:
    name = wanted.resource_name_filter
    if PatternType(wanted.pattern_type_filter) is not PatternType.MATCH:
        of_type = wanted.pattern_type_filter in {PatternType.ANY, entry.pattern_type}
        return of_type and name in {None, entry.resource_name}
    if name is None:
        return True
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in {name, WILDCARD}

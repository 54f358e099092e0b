"""Access control entries for tests, and authorizers that have them."""

import uuid

from cluster.node.controller.access.authorizer import StandardAuthorizer
from cluster.node.controller.access.codes import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from cluster.node.controller.delta import DeltaReading
from cluster.node.controller.image import MetadataImage
from cluster.node.controller.loader import SnapshotManifest
from cluster.node.controller.records.security import AccessControlEntryRecord

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
_KINDS = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "cluster": CLUSTER,
    "token": AclResourceType.DELEGATION_TOKEN,
    "user": AclResourceType.USER,
}


def entry(text, number=0):
    """`[deny] principal OPERATION type[:name][...] [from host]`; `...`: as a prefix."""
    words = text.split()
    permission = DENY if words[0] == "deny" else ALLOW
    principal, operation, resource, *rest = words[permission is DENY :]
    kind, _, name = resource.partition(":")
    return AccessControlEntryRecord(
        id=uuid.UUID(int=number),
        resource_type=_KINDS[kind],
        resource_name=name.removesuffix("...") or "kafka-cluster",
        pattern_type=PREFIXED if name.endswith("...") else LITERAL,
        principal=principal,
        host=rest[1] if rest else "*",
        operation=AclOperation[operation],
        permission_type=permission,
    )


class Published:
    """An authorizer and the image that it is shown."""

    def __init__(self, super_users=frozenset(), *, everyone=False):
        self.denied = []
        self.authorizer = StandardAuthorizer(
            frozenset(super_users), self._trace, allow_everyone_if_no_acl_found=everyone
        )
        self.image = MetadataImage()
        self._changes = DeltaReading(self.image.state)

    def _trace(self, event, /, **fields):
        assert event == "denied"
        self.denied.append(fields)

    def publish(self):
        manifest = SnapshotManifest(self.image.provenance)
        self.authorizer.on_metadata_update(self._changes.take(), self.image, manifest)
        return self


def authorizer_of(entries, super_users=frozenset(), *, everyone=False):
    """An authorizer that has loaded these entries."""
    published = Published(super_users, everyone=everyone)
    for each in entries:
        published.image.state.access_control.put(each.id, each)
    return published.publish().authorizer

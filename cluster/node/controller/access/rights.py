"""The rights of one request's sender, as handlers ask for them (AuthHelper)."""

from __future__ import annotations

from typing import Final

from cluster.node.controller.access.authorizer import AuthorizerNotReadyError, StandardAuthorizer
from cluster.node.controller.access.codes import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResourceType,
)
from cluster.node.protocol.messages import i32
from cluster.node.protocol.origin import ANONYMOUS, Origin
from cluster.values import valueclass

OPERATIONS_NOT_ASKED_FOR: Final = i32(-(2**31))
"""MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED"""


@valueclass
class Access:
    """Whether a request's sender may do something. All may, where there is no authorizer."""

    authorizer: StandardAuthorizer | None = None
    origin: Origin = ANONYMOUS

    def permits(
        self,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Return whether it may. Raises AuthorizerNotReadyError."""
        return self.authorizer is None or self.authorizer.authorize(
            self.origin, operation, resource_type, name, log_if_denied=log_if_denied
        )

    def permits_on_cluster(self, operation: AclOperation, *, log_if_denied: bool = True) -> bool:
        """Return whether it may do this to the cluster. Raises AuthorizerNotReadyError."""
        return self.permits(
            operation, AclResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied
        )

    def operations(self, resource_type: AclResourceType, name: str) -> i32:
        """Return all that it may do to a resource, a bit for each AclOperation (KIP-430).

        While that is not known nothing.
        """
        try:
            permitted = [
                operation
                for operation in SUPPORTED_OPERATIONS[resource_type]
                if self.permits(operation, resource_type, name, log_if_denied=False)
            ]
        except AuthorizerNotReadyError:
            return i32(0)
        return i32(sum(1 << operation for operation in permitted))

    def operations_on_cluster(self) -> i32:
        """Return all that it may do to the cluster, nothing when it may not even describe it."""
        found = self.operations(AclResourceType.CLUSTER, CLUSTER_NAME)
        return found if found & (1 << AclOperation.DESCRIBE) else i32(0)


UNRESTRICTED: Final = Access()
"""The rights of everybody where there is no authorizer, and of the node itself."""

"""The authorizer of a node, as its requests meet it.

Its entries are those of the metadata that the node has replayed. Authorized are all requests on a
controller listener, and on a client's the administrative ones, those that are forwarded by the
active controller. Envelopes are authorized twice: that the sender may send any, and, once opened,
what the client in it asks for.
"""

from __future__ import annotations

from typing import Any

from cluster.node.config import NodeConfig
from cluster.node.controller.access.authorizer import StandardAuthorizer
from cluster.node.controller.access.rights import UNRESTRICTED, Access
from cluster.node.controller.guard import (
    BROKER_OPERATIONS,
    CLUSTER_OPERATIONS,
    cluster_refusal,
)
from cluster.node.controller.loader import MetadataLoader
from cluster.node.controller.result import RequestError
from cluster.node.forwarding import is_for_controller
from cluster.node.ports import Trace
from cluster.node.protocol.origin import Origin


class Authorization:
    """Without `authorizer.class.name` everything is permitted to everybody."""

    def __init__(self, config: NodeConfig, loader: MetadataLoader, trace: Trace) -> None:
        """Install the authorizer first of all publishers.

        A broker that takes up an image serves clients: the authorizer must know it by then.
        """
        self._controller_listeners = config.controller_listener_names
        self._authorizer: StandardAuthorizer | None = None
        if config.authorizer_class_name:
            self._authorizer = StandardAuthorizer(
                config.super_users,
                trace,
                allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
            )
            loader.install(self._authorizer)

    def access(self, origin: Origin) -> Access:
        """Return the rights of a sender."""
        return UNRESTRICTED if self._authorizer is None else Access(self._authorizer, origin)

    def refusal(self, listener: str, message: Any, access: Access) -> RequestError | None:
        """Return why a request is not served, None when it is, if only in parts."""
        if self._authorizer is None:
            return None
        of_controller = listener in self._controller_listeners or is_for_controller(message)
        operations = CLUSTER_OPERATIONS if of_controller else BROKER_OPERATIONS
        return cluster_refusal(message, access, operations)

"""Access control and paged topics (parts of ControllerApis, KafkaApis).

CreateAcls and DeleteAcls are writes of the active controller. All else is
answered by the node that is asked, from its image; so is access control where there is no
authorizer, with SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.node.controller.access.control import create_acls, delete_acls
from cluster.node.controller.access.rights import Access
from cluster.node.controller.acls import (
    create_acls_error,
    delete_acls_error,
    describe_acls,
    describe_acls_error,
)
from cluster.node.controller.controller import QuorumController
from cluster.node.controller.topic_partitions import describe_topic_partitions
from cluster.node.ports import Random
from cluster.node.protocol.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeTopicPartitionsRequest,
)

TIMEOUT_MS: Final = 30_000.0
"""None of these requests carries a time-out."""

Reply = Callable[[Any], None]
Handler = Callable[[str, Any, Reply, Access], None]


class AdminApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController, random: Random) -> None:
        self._controller = controller
        self._random = random
        self.handlers: dict[type, Handler] = {
            DescribeTopicPartitionsRequest: self._describe_topic_partitions,
            DescribeAclsRequest: self._describe_acls,
            CreateAclsRequest: self._create_acls,
            DeleteAclsRequest: self._delete_acls,
        }

    def _describe_topic_partitions(
        self,
        _listener: str,
        request: DescribeTopicPartitionsRequest,
        reply: Reply,
        access: Access,
    ) -> None:
        reply(describe_topic_partitions(request, self._controller.image.state, access))

    def _describe_acls(
        self, _listener: str, request: DescribeAclsRequest, reply: Reply, access: Access
    ) -> None:
        if access.authorizer is None:
            reply(describe_acls_error(request))
        else:
            reply(describe_acls(request, self._controller.image.state))

    def _create_acls(
        self, _listener: str, request: CreateAclsRequest, reply: Reply, access: Access
    ) -> None:
        if access.authorizer is None:
            reply(create_acls_error(request))
            return
        self._controller.append_write_event(
            lambda state: create_acls(request, state, self._random),
            partial(create_acls_error, request),
            TIMEOUT_MS,
            reply,
        )

    def _delete_acls(
        self, _listener: str, request: DeleteAclsRequest, reply: Reply, access: Access
    ) -> None:
        if access.authorizer is None:
            reply(delete_acls_error(request))
            return
        self._controller.append_write_event(
            lambda state: delete_acls(request, state),
            partial(delete_acls_error, request),
            TIMEOUT_MS,
            reply,
        )

"""Quotas, access control and paged topics (parts of ControllerApis, KafkaApis).

AlterClientQuotas is a write of the active controller. All else is answered by the node that is
asked: what is described from its image, access control by nobody's authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.node.controller.acls import create_acls, delete_acls, describe_acls
from cluster.node.controller.client_quotas import (
    alter_client_quotas,
    alter_client_quotas_error,
    describe_client_quotas,
)
from cluster.node.controller.controller import QuorumController
from cluster.node.controller.state import MetadataState
from cluster.node.controller.topic_partitions import describe_topic_partitions
from cluster.node.protocol.messages import (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeTopicPartitionsRequest,
)

TIMEOUT_MS: Final = 30_000.0
"""None of these requests carries a time-out."""

Reply = Callable[[Any], None]
Handler = Callable[[str, Any, Reply], None]


class AdminApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller
        self.handlers: dict[type, Handler] = {
            AlterClientQuotasRequest: self._alter_client_quotas,
            DescribeClientQuotasRequest: self._from_image(describe_client_quotas),
            DescribeTopicPartitionsRequest: self._from_image(describe_topic_partitions),
            DescribeAclsRequest: lambda _listener, request, reply: reply(describe_acls(request)),
            CreateAclsRequest: lambda _listener, request, reply: reply(create_acls(request)),
            DeleteAclsRequest: lambda _listener, request, reply: reply(delete_acls(request)),
        }

    def _from_image(self, describe: Callable[[Any, MetadataState], object]) -> Handler:
        return lambda _listener, request, reply: reply(
            describe(request, self._controller.image.state)
        )

    def _alter_client_quotas(
        self, _listener: str, request: AlterClientQuotasRequest, reply: Reply
    ) -> None:
        self._controller.append_write_event(
            lambda state: alter_client_quotas(request, state),
            partial(alter_client_quotas_error, request),
            TIMEOUT_MS,
            reply,
        )

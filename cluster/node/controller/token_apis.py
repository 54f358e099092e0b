"""Requests about delegation tokens, at any node (parts of KafkaApis, ControllerApis; KIP-48).

A client must have proved its principal by other means than a token: on a connection in plain text,
with TLS that asked for no certificate, or with a token, everything is
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. A broker looks at that, and at the right to ask for another
owner's token, before it forwards a request; the controller looks again, but believes the broker's
envelope about the connection. DescribeDelegationToken is answered by the node that is asked, from
its image; controllers list it as Kafka's do, and answer it as theirs: UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from cluster.node.controller.access.authorizer import Principal
from cluster.node.controller.access.codes import AclOperation, AclResourceType
from cluster.node.controller.access.rights import Access
from cluster.node.controller.cluster_info import ClusterInfo
from cluster.node.controller.controller import QuorumController
from cluster.node.controller.delegation_tokens import (
    NO_TIME_MS,
    USER,
    change_error,
    create_delegation_token,
    create_token_error,
    creation_refused,
    describe_delegation_tokens,
    description_refused,
    expire_delegation_token,
    owner_of,
    renew_delegation_token,
)
from cluster.node.controller.result import ControllerResult, RequestError
from cluster.node.controller.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.ports import Random
from cluster.node.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from cluster.node.protocol.origin import ANONYMOUS, Origin
from cluster.node.security.settings import SecurityProtocol

TIMEOUT_MS: Final = 30_000.0
"""None of these requests carries a time-out."""

Reply = Callable[[Any], None]
Handler = Callable[[str, Any, Reply, Access], None]


class DelegationTokenApis:
    """Handlers by request class, for `ControllerApis`."""

    def __init__(self, controller: QuorumController, cluster: ClusterInfo, random: Random) -> None:
        self._controller = controller
        self._cluster = cluster
        self._random = random
        self.handlers: dict[type, Handler] = {
            CreateDelegationTokenRequest: self._create,
            RenewDelegationTokenRequest: self._renew,
            ExpireDelegationTokenRequest: self._expire,
            DescribeDelegationTokenRequest: self._describe,
        }

    def refused_by_broker(self, listener: str, request: object, access: Access) -> object | None:
        """Return why a broker does not forward a request; None: it does, whatever it is."""
        refused = self._refused(listener, request, access)
        if refused is None and isinstance(request, CreateDelegationTokenRequest):
            if any(renewer.principal_type != USER for renewer in request.renewers):
                requester = _principal(access.origin)
                error = ErrorCode.invalid_principal_type
                return creation_refused(error, owner_of(request, requester), requester)
        return refused

    def _refused(self, listener: str, request: object, access: Access) -> object | None:
        """Return why a request is not carried out for its sender, None: it may be."""
        not_allowed = ErrorCode.delegation_token_request_not_allowed
        allowed = self._may_ask(listener, access.origin)
        if isinstance(request, CreateDelegationTokenRequest):
            requester = _principal(access.origin)
            owner = owner_of(request, requester)
            if not allowed:
                return creation_refused(not_allowed, owner, requester)
            try:
                permitted = owner == requester or access.permits(
                    AclOperation.CREATE_TOKENS, AclResourceType.USER, ":".join(owner)
                )
            except RequestError as not_ready:
                return create_token_error(request, not_ready.error, not_ready.message)
            if not permitted:
                error = ErrorCode.delegation_token_authorization_failed
                return creation_refused(error, owner, requester)
        elif isinstance(request, RenewDelegationTokenRequest | ExpireDelegationTokenRequest):
            if not allowed:
                return change_error(request, not_allowed, None, NO_TIME_MS)
        return None

    def _may_ask(self, listener: str, origin: Origin) -> bool:
        """Return whether a connection has proved who is behind it (allowTokenRequests)."""
        if origin.token_authenticated or origin.is_forwarded:
            return not origin.token_authenticated
        protocol = self._cluster.protocols.get(listener, SecurityProtocol.PLAINTEXT)
        if protocol is SecurityProtocol.SSL:
            return _principal(origin) != _principal(ANONYMOUS)
        return protocol is not SecurityProtocol.PLAINTEXT

    # --- handlers ---

    def _create(
        self, listener: str, request: CreateDelegationTokenRequest, reply: Reply, access: Access
    ) -> None:
        refused = self._refused(listener, request, access)
        if refused is not None:
            reply(refused)
            return
        self._controller.append_write_event(
            lambda state: self._created(request, state, access),
            partial(create_token_error, request),
            TIMEOUT_MS,
            reply,
        )

    def _created(
        self, request: CreateDelegationTokenRequest, state: MetadataState, access: Access
    ) -> ControllerResult[CreateDelegationTokenResponse]:
        result = create_delegation_token(
            request,
            _principal(access.origin),
            state,
            self._cluster.tokens,
            self._random,
            self._controller.wall_ms(),
        )
        if not result.records:
            return result
        sweep = self._controller.periodic_tasks.start_token_sweep
        return replace(result, appended=lambda _last_offset: sweep())

    def _renew(
        self, listener: str, request: RenewDelegationTokenRequest, reply: Reply, access: Access
    ) -> None:
        self._change(renew_delegation_token, listener, request, reply, access)

    def _expire(
        self, listener: str, request: ExpireDelegationTokenRequest, reply: Reply, access: Access
    ) -> None:
        self._change(expire_delegation_token, listener, request, reply, access)

    def _change(
        self,
        change: Callable[..., Any],
        listener: str,
        request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
        reply: Reply,
        access: Access,
    ) -> None:
        refused = self._refused(listener, request, access)
        if refused is not None:
            reply(refused)
            return
        self._controller.append_write_event(
            lambda state: change(
                request,
                _principal(access.origin),
                state,
                self._cluster.tokens,
                self._controller.wall_ms(),
            ),
            partial(change_error, request),
            TIMEOUT_MS,
            reply,
        )

    def _describe(
        self, listener: str, request: DescribeDelegationTokenRequest, reply: Reply, access: Access
    ) -> None:
        if listener == self._cluster.controller_listener:
            reply(description_refused(ErrorCode.unknown_server_error))
        elif not self._may_ask(listener, access.origin):
            reply(description_refused(ErrorCode.delegation_token_request_not_allowed))
        else:
            state = self._controller.image.state
            try:
                reply(describe_delegation_tokens(request, state, self._cluster.tokens, access))
            except RequestError as not_ready:
                reply(description_refused(not_ready.error))


def _principal(origin: Origin) -> Principal:
    return origin.principal_type, origin.principal_name

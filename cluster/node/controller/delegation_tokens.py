"""Delegation tokens: issued, renewed, expired, described (DelegationTokenControlManager; KIP-48).

A token stands for its owner without the owner's password. Its password is the HMAC of its id under
`delegation.token.secret.key`, which every node has and no metadata hold: a DelegationTokenRecord
says which principal owns a token, which may renew it and how long it is valid (KIP-900). It is used
as a user of SCRAM, its id being the name and its HMAC in Base64 the password.

The owner may be another principal than the one that asks (KIP-373), with CREATE_TOKENS on the user
that the owner is. Owner and renewers may renew a token up to its longest life, and expire it. The
leader removes what has expired: brokers accept a token for as long as the metadata hold it.

Requests find a token by its HMAC in what was appended, committed or not. Kafka's controller looks
in what it has published, so that a token may be renewed there after it was removed.
"""

from __future__ import annotations

import base64
import datetime as dt
import hmac
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Final, TypeVar, cast

from kio.static.primitive import TZAware

from cluster.node.controller.access.authorizer import Principal, parse_principal
from cluster.node.controller.access.codes import AclOperation, AclResourceType
from cluster.node.controller.access.rights import Access
from cluster.node.controller.new_id import new_id_text
from cluster.node.controller.records.security import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from cluster.node.controller.result import ControllerResult
from cluster.node.controller.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.ports import Random
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    i64,
)
from cluster.node.protocol.origin import ANONYMOUS
from cluster.values import valueclass

USER: Final = "User"
_FOREVER_MS: Final = 2**63 - 1
NO_TIME_MS: Final = -1
"""DelegationTokenManager.ErrorTimestamp"""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_LATEST_MS: Final = (dt.datetime(9999, 12, 31, tzinfo=dt.UTC) - _EPOCH) // _MILLISECOND
"""The last time that a response can name here, as kio's fields are dates; records name any."""

C = TypeVar("C", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


@valueclass
class TokenSettings:
    """Kafka's properties of the same names."""

    secret_key: str = field(default="", repr=False)
    """delegation.token.secret.key; empty: there are no tokens."""
    max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    """delegation.token.max.lifetime.ms"""
    expiry_time_ms: int = 24 * 3600 * 1000
    """delegation.token.expiry.time.ms"""

    @property
    def are_enabled(self) -> bool:
        """Whether tokens are issued and accepted."""
        return bool(self.secret_key)

    def hmac(self, token_id: str) -> bytes:
        """Return what proves that its holder was given a token."""
        return hmac.digest(self.secret_key.encode(), token_id.encode(), "sha512")

    def password(self, token_id: str) -> str:
        """Return the HMAC as SCRAM takes it."""
        return base64.b64encode(self.hmac(token_id)).decode()


# --- requests to the active controller ---


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner that a token is asked for."""
    if not request.owner_principal_name:
        return requester
    return request.owner_principal_type or "", request.owner_principal_name


def create_delegation_token(
    request: CreateDelegationTokenRequest,
    requester: Principal,
    state: MetadataState,
    settings: TokenSettings,
    random: Random,
    now_ms: int,
) -> ControllerResult[CreateDelegationTokenResponse]:
    """Return the record of a new token, and the answer that alone has its HMAC."""
    owner = owner_of(request, requester)
    if not settings.are_enabled:
        error = ErrorCode.delegation_token_auth_disabled
        return ControllerResult((), creation_refused(error, owner, requester, 0))
    if any(renewer.principal_type != USER for renewer in request.renewers):
        error = ErrorCode.invalid_principal_type
        return ControllerResult((), creation_refused(error, owner, requester, 0))
    asked_ms = _milliseconds(request.max_lifetime)
    lifetime_ms = settings.max_lifetime_ms
    if asked_ms > 0:
        lifetime_ms = min(lifetime_ms, asked_ms)
    max_timestamp = _sum(now_ms, lifetime_ms)
    record = DelegationTokenRecord(
        owner=":".join(owner),
        requester=":".join(requester),
        renewers=tuple(f"{USER}:{renewer.principal_name}" for renewer in request.renewers),
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, _sum(now_ms, settings.expiry_time_ms)),
        token_id=new_id_text(random, state.delegation_tokens),
    )
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.none,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=_date(record.issue_timestamp),
        expiry_timestamp=_date(record.expiration_timestamp),
        max_timestamp=_date(record.max_timestamp),
        token_id=record.token_id,
        hmac=settings.hmac(record.token_id),
        throttle_time=NO_THROTTLE,
    )
    return ControllerResult((record,), response)


def renew_delegation_token(
    request: RenewDelegationTokenRequest,
    requester: Principal,
    state: MetadataState,
    settings: TokenSettings,
    now_ms: int,
) -> ControllerResult[RenewDelegationTokenResponse]:
    """Return a token's record with a later end, but none beyond its longest life."""
    found = _found(request.hmac, state, settings)
    if isinstance(found, ErrorCode):
        return _unchanged(RenewDelegationTokenResponse, found)
    # Kafka's order: here a stranger learns that a token has expired, of ExpireDelegationToken not.
    if _is_over(found, now_ms):
        return _unchanged(RenewDelegationTokenResponse, ErrorCode.delegation_token_expired)
    if not _may_renew(found, requester):
        return _unchanged(RenewDelegationTokenResponse, ErrorCode.delegation_token_owner_mismatch)
    period_ms, asked_ms = settings.expiry_time_ms, _milliseconds(request.renew_period)
    if asked_ms > 0:
        period_ms = min(period_ms, asked_ms)
    return _ends_at(RenewDelegationTokenResponse, found, _sum(now_ms, period_ms))


def expire_delegation_token(
    request: ExpireDelegationTokenRequest,
    requester: Principal,
    state: MetadataState,
    settings: TokenSettings,
    now_ms: int,
) -> ControllerResult[ExpireDelegationTokenResponse]:
    """Return a token's removal, for a negative period, else its record with another end."""
    found = _found(request.hmac, state, settings)
    if isinstance(found, ErrorCode):
        return _unchanged(ExpireDelegationTokenResponse, found)
    if not _may_renew(found, requester):
        return _unchanged(ExpireDelegationTokenResponse, ErrorCode.delegation_token_owner_mismatch)
    period_ms = _milliseconds(request.expiry_time_period)
    if period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=found.token_id)
        response = _changed(ExpireDelegationTokenResponse, ErrorCode.none, now_ms)
        return ControllerResult((removal,), response)
    if _is_over(found, now_ms):
        return _unchanged(ExpireDelegationTokenResponse, ErrorCode.delegation_token_expired)
    return _ends_at(ExpireDelegationTokenResponse, found, _sum(now_ms, period_ms))


def _ends_at(kind: type[C], token: DelegationTokenRecord, wanted_ms: int) -> ControllerResult[C]:
    end_ms = min(token.max_timestamp, wanted_ms)
    record = replace(token, expiration_timestamp=end_ms)
    return ControllerResult((record,), _changed(kind, ErrorCode.none, end_ms))


def _unchanged(kind: type[C], error: ErrorCode) -> ControllerResult[C]:
    return ControllerResult((), _changed(kind, error, 0))


def _found(
    wanted: bytes, state: MetadataState, settings: TokenSettings
) -> DelegationTokenRecord | ErrorCode:
    """Return the token with this HMAC, or why there is none."""
    if not settings.are_enabled:
        return ErrorCode.delegation_token_auth_disabled
    for token in _tokens(state):
        if hmac.compare_digest(settings.hmac(token.token_id), wanted):
            return token
    return ErrorCode.delegation_token_not_found


def _is_over(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _may_renew(token: DelegationTokenRecord, requester: Principal) -> bool:
    return ":".join(requester) in {token.owner, *token.renewers}


# --- what any node answers ---


def describe_delegation_tokens(
    request: DescribeDelegationTokenRequest,
    state: MetadataState,
    settings: TokenSettings,
    access: Access,
) -> DescribeDelegationTokenResponse:
    """Return the tokens of some owners, or of all, that the sender may see.

    Whoever owns, asked for or may renew a token may see it, and with DESCRIBE on the token or
    DESCRIBE_TOKENS on its owner everybody. Raises AuthorizerNotReadyError.
    """
    if not settings.are_enabled:
        return description_refused(ErrorCode.delegation_token_auth_disabled)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.none,
        tokens=tuple(
            _described(token, settings)
            for token in _tokens(state)
            if (owners is None or owners & _parties(token)) and _may_see(token, access)
        ),
        throttle_time=NO_THROTTLE,
    )


def _parties(token: DelegationTokenRecord) -> set[str]:
    """Return whose token it is in any way (TokenInformation.ownerOrRenewer)."""
    return {token.owner, token.requester, *token.renewers}


def _may_see(token: DelegationTokenRecord, access: Access) -> bool:
    origin = access.origin
    return (
        f"{origin.principal_type}:{origin.principal_name}" in _parties(token)
        or access.permits(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id)
        or access.permits(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)
    )


def _described(token: DelegationTokenRecord, settings: TokenSettings) -> DescribedDelegationToken:
    owner, requester = principal_of(token.owner), principal_of(token.requester)
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=i64(token.issue_timestamp),
        expiry_timestamp=i64(token.expiration_timestamp),
        max_timestamp=i64(token.max_timestamp),
        token_id=token.token_id,
        hmac=settings.hmac(token.token_id),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(principal_of, token.renewers)
        ),
    )


def principal_of(text: str) -> Principal:
    """Return a principal of a record; one without a type is nobody's, as its whole text."""
    return parse_principal(text) or ("", text)


# --- errors ---


def creation_refused(
    error: ErrorCode, owner: Principal, requester: Principal, time_ms: int = NO_TIME_MS
) -> CreateDelegationTokenResponse:
    """Return why there is no token; `time_ms` stands in for its times."""
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=_date(time_ms),
        expiry_timestamp=_date(time_ms),
        max_timestamp=_date(time_ms),
        token_id="",
        hmac=b"",
        throttle_time=NO_THROTTLE,
    )


def _changed(kind: type[C], error: ErrorCode, time_ms: int) -> C:
    return kind(error_code=error, expiry_timestamp=_date(time_ms), throttle_time=NO_THROTTLE)


def change_error(
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    error: ErrorCode,
    _message: str | None,
    time_ms: int = 0,
) -> RenewDelegationTokenResponse | ExpireDelegationTokenResponse:
    """Return why a token is as it was; `time_ms` stands in for its end."""
    if isinstance(request, RenewDelegationTokenRequest):
        return _changed(RenewDelegationTokenResponse, error, time_ms)
    return _changed(ExpireDelegationTokenResponse, error, time_ms)


def description_refused(error: ErrorCode) -> DescribeDelegationTokenResponse:
    """Return why no token is described."""
    return DescribeDelegationTokenResponse(error_code=error, tokens=(), throttle_time=NO_THROTTLE)


def create_token_error(
    _request: CreateDelegationTokenRequest, error: ErrorCode, _message: str | None
) -> CreateDelegationTokenResponse:
    """Return the answer to a request that failed by itself: it is nobody's."""
    nobody = (ANONYMOUS.principal_type, ANONYMOUS.principal_name)
    return creation_refused(error, nobody, nobody)


# --- the end of tokens ---


def expired_tokens(state: MetadataState, now_ms: int) -> Iterator[RemoveDelegationTokenRecord]:
    """Yield a removal for each token whose time, or longest life, was over before `now_ms`."""
    for token in _tokens(state):
        if _is_over(token, now_ms):
            yield RemoveDelegationTokenRecord(token_id=token.token_id)


def has_tokens(state: MetadataState) -> bool:
    """Return whether there is anything that may expire."""
    return next(iter(state.delegation_tokens.keys()), None) is not None


def _tokens(state: MetadataState) -> Iterator[DelegationTokenRecord]:
    for token_id in list(state.delegation_tokens.keys()):
        token = state.delegation_tokens.get(token_id)
        assert token is not None
        yield token


def _milliseconds(interval: dt.timedelta) -> int:
    return interval // _MILLISECOND


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _FOREVER_MS)


def _date(time_ms: int) -> TZAware:
    return cast("TZAware", _EPOCH + min(time_ms, _LATEST_MS) * _MILLISECOND)

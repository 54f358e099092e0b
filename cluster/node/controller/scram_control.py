"""SCRAM credentials in the metadata: AlterUserScramCredentials and its description (KIP-554).

As in ScramControlManager every user has one outcome, and may be named once in a request, whatever
the mechanism: one error leaves all credentials of its user as they were. The client sends a salted
password; what is kept are the two keys that follow from it (RFC 5802), which, once stolen, do not
serve to log in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable
from typing import Final

from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from cluster.node.controller.result import NO_ERROR, ApiError, ControllerResult
from cluster.node.controller.state import MetadataState, ScramKey
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
    i8,
    i32,
)

MECHANISM_NAMES: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""ScramMechanism's types."""
_TYPES: Final = {name: number for number, name in MECHANISM_NAMES.items()}
_HASHES: Final = {1: "sha256", 2: "sha512"}
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384

_Alteration = ScramCredentialDeletion | ScramCredentialUpsertion
_TWICE: Final = "A user credential cannot be altered twice in the same request"


def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, state: MetadataState
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Return the records of all users without an error, as one batch."""
    asked: list[_Alteration] = [*request.deletions, *request.upsertions]
    times = Counter(item.name for item in asked)
    records: list[MetadataRecord] = []
    outcomes: dict[str, ApiError] = {}
    for item in asked:
        if item.name in outcomes:
            continue
        error = _check(item, state)
        if error is NO_ERROR and times[item.name] > 1:
            error = ApiError(ErrorCode.duplicate_resource, _TWICE)
        outcomes[item.name] = error
        if error is NO_ERROR:
            records.append(_record(item))
    return ControllerResult(
        records=tuple(records),
        response=AlterUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                AlterUserScramCredentialsResult(
                    user=user, error_code=outcome.error, error_message=outcome.message
                )
                for user, outcome in outcomes.items()
            ),
        ),
    )


def _check(item: _Alteration, state: MetadataState) -> ApiError:
    if not item.name:
        return ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if item.mechanism not in MECHANISM_NAMES:
        return ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(item, ScramCredentialUpsertion):
        if item.iterations < MIN_ITERATIONS:
            return ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
        if item.iterations > MAX_ITERATIONS:
            return ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
    elif state.scram_credentials.get((item.name, int(item.mechanism))) is None:
        message = "Attempt to delete a user credential that does not exist"
        return ApiError(ErrorCode.resource_not_found, message)
    return NO_ERROR


def _record(item: _Alteration) -> MetadataRecord:
    mechanism = int(item.mechanism)
    if isinstance(item, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=item.name, mechanism=mechanism)
    algorithm = _HASHES[mechanism]
    client_key = hmac.digest(item.salted_password, b"Client Key", algorithm)
    return UserScramCredentialRecord(
        name=item.name,
        mechanism=mechanism,
        salt=item.salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(item.salted_password, b"Server Key", algorithm),
        iterations=item.iterations,
    )


def credential_of(
    state: MetadataState, mechanism: str, user: str
) -> tuple[bytes, bytes, bytes, int] | None:
    """Return salt, stored key, server key and iterations of a user, None when there are none."""
    credential = state.scram_credentials.get((user, _TYPES[mechanism]))
    if credential is None:
        return None
    return credential.salt, credential.stored_key, credential.server_key, credential.iterations


def alter_scram_error(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """Return the error for every user, once."""
    asked: list[_Alteration] = [*request.deletions, *request.upsertions]
    names = dict.fromkeys(item.name for item in asked)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)
            for name in names
        ),
    )


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, state: MetadataState
) -> DescribeUserScramCredentialsResponse:
    """Return which mechanisms the users asked for have, of all users when none is named.

    A user without any is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE.
    """
    found: dict[str, list[ScramKey]] = {}
    for key in state.scram_credentials.keys():  # noqa: SIM118 - a StateMap is no dict
        found.setdefault(key[0], []).append(key)
    asked: Iterable[str] = [item.name for item in request.users or ()]
    times = Counter(asked) or Counter(found.keys())
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            _description(name, count, sorted(found.get(name, ())), state)
            for name, count in times.items()
        ),
    )


def _description(
    name: str, times: int, keys: list[ScramKey], state: MetadataState
) -> DescribeUserScramCredentialsResult:
    error = NO_ERROR
    if times > 1:
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        error = ApiError(ErrorCode.duplicate_resource, message)
    elif not keys:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        error = ApiError(ErrorCode.resource_not_found, message)
    infos = []
    for key in keys if error is NO_ERROR else ():
        credential = state.scram_credentials.get(key)
        assert credential is not None
        infos.append(
            ScramCredentialInfo(mechanism=i8(key[1]), iterations=i32(credential.iterations))
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=error.error,
        error_message=error.message,
        credential_infos=tuple(infos),
    )

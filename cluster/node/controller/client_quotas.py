"""AlterClientQuotas and DescribeClientQuotas (ClientQuotaControlManager; KIP-546).

What a quota is for, its *entity*, is a map from type (user, client-id, ip) to a name, null for the
default of the type. Nothing here throttles: the quotas are kept for the brokers that do.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from typing import Final

from cluster.node.controller.records.security import ClientQuotaRecord, QuotaEntity
from cluster.node.controller.result import NO_ERROR, ApiError, ControllerResult
from cluster.node.controller.state import MetadataState, QuotaKey
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
    f64,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""DescribeClientQuotasRequest.MATCH_TYPE_*: this name, the default, any name or the default."""

_LONG: Final = ("a LONG", float(2**63 - 1))
_INT: Final = ("an INT", float(2**31 - 1))
_DOUBLE: Final = None
_KEYS_OF_USERS: Final[Mapping[str, tuple[str, float] | None]] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _DOUBLE,
    "controller_mutation_rate": _DOUBLE,
}
_KEYS_OF_ADDRESSES: Final[Mapping[str, tuple[str, float] | None]] = {
    "connection_creation_rate": _INT
}
"""QuotaConfig: the type of each key and the largest value, where the type is integral."""
_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)(?:[\w-]{1,63}\.)*(?!\d+\Z)[\w-]{1,63}", re.ASCII)

Entity = tuple[QuotaEntity, ...]
"""Ordered by type, each type once."""


class QuotaFilterError(Exception):
    """A filter of DescribeClientQuotas that selects nothing sensible."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def alter_client_quotas(
    request: AlterClientQuotasRequest, state: MetadataState
) -> ControllerResult[AlterClientQuotasResponse]:
    """Return the records of all entities without an error, as one batch.

    As in Kafka an entity that is named again is INVALID_REQUEST, and what it was first asked for
    happens all the same.
    """
    records: list[ClientQuotaRecord] = []
    outcomes: dict[Entity, ApiError] = {}
    for entry in request.entries:
        entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
        if entity in outcomes or len({op.key for op in entry.ops}) != len(entry.ops):
            outcomes[entity] = _invalid(f"Ignoring duplicate entity {_text(entity)}")
            continue
        made: list[ClientQuotaRecord] = []
        outcomes[entity] = _entity_error(entity) or _alter(entity, entry.ops, state, made)
        if outcomes[entity] is NO_ERROR:
            records += made
    return ControllerResult(
        records=() if request.validate_only else tuple(records),
        response=AlterClientQuotasResponse(
            throttle_time=NO_THROTTLE,
            entries=tuple(
                _outcome(entity, outcome.error, outcome.message)
                for entity, outcome in outcomes.items()
            ),
        ),
    )


def _entity(parts: Mapping[str, str | None]) -> Entity:
    return tuple(QuotaEntity(entity_type=kind, entity_name=parts[kind]) for kind in sorted(parts))


def _text(entity: Entity) -> str:
    names = (f"{p.entity_type}={_null(p.entity_name)}" for p in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(names)}}})"


def _null(name: str | None) -> str:
    return "null" if name is None else name


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)


def _outcome(
    entity: Entity, error: ErrorCode, message: str | None
) -> AlterClientQuotasResponseEntry:
    return AlterClientQuotasResponseEntry(
        error_code=error,
        error_message=message,
        entity=tuple(
            AlterClientQuotasResponseEntity(
                entity_type=part.entity_type, entity_name=part.entity_name
            )
            for part in entity
        ),
    )


def _entity_error(entity: Entity) -> ApiError | None:
    if not entity:
        return _invalid("Invalid empty client quota entity")
    for part in entity:
        if part.entity_type not in {USER, CLIENT_ID, IP}:
            return _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            return _invalid(f"Empty {part.entity_type} not supported")
    address = next((part for part in entity if part.entity_type == IP), None)
    if address is None:
        return None
    if len(entity) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    if address.entity_name is not None and not _is_address(address.entity_name):
        return _invalid(f"{address.entity_name} is not a valid IP or resolvable host.")
    return None


def _is_address(name: str) -> bool:
    """Return whether this is an address or may be a host's name; Kafka resolves it as well."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None
    return True


def _alter(
    entity: Entity,
    ops: tuple[AlterClientQuotasOp, ...],
    state: MetadataState,
    records: list[ClientQuotaRecord],
) -> ApiError:
    """Add the records of one entity's changes; there are none when an error is returned."""
    keys = _KEYS_OF_ADDRESSES if entity[0].entity_type == IP else _KEYS_OF_USERS
    for op in ops:
        current = state.client_quotas.get((entity, op.key))
        if op.remove:
            if current is not None:
                records.append(ClientQuotaRecord(entity=entity, key=op.key, remove=True))
            continue
        reason = _value_error(keys, op.key, op.value)
        if reason is not None:
            return _invalid(reason)
        if current != op.value:
            records.append(ClientQuotaRecord(entity=entity, key=op.key, value=op.value))
    return NO_ERROR


def _value_error(
    keys: Mapping[str, tuple[str, float] | None], key: str, value: float
) -> str | None:
    if key not in keys:
        return f"Invalid configuration key {key}"
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    integral = keys[key]
    if integral is None:
        return None
    type_name, largest = integral
    if value > largest:
        return f"Proposed value for {key} is too large for {type_name}."
    if math.fmod(value, 1.0) > 1e-6:
        return f"{key} cannot be a fractional value."
    return None


def alter_client_quotas_error(
    request: AlterClientQuotasRequest, error: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """Return the error for every entry."""
    return AlterClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        entries=tuple(
            _outcome(
                _entity({part.entity_type: part.entity_name for part in entry.entity}),
                error,
                message,
            )
            for entry in request.entries
        ),
    )


def describe_client_quotas(
    request: DescribeClientQuotasRequest, state: MetadataState
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that a filter selects.

    An entity must have every type that is asked for; a strict filter selects it only when it has no
    other. A filter that contradicts itself is INVALID_REQUEST, one for an unknown type
    UNSUPPORTED_VERSION.
    """
    try:
        filters = _filters(request)
    except QuotaFilterError as refusal:
        return DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE,
            error_code=refusal.error,
            error_message=str(refusal),
            entries=None,
        )
    found: dict[Entity, list[QuotaKey]] = {}
    for key in state.client_quotas.keys():  # noqa: SIM118 - a StateMap is no dict
        if _matches(key[0], filters, strict=request.strict):
            found.setdefault(key[0], []).append(key)
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        entries=tuple(_description(entity, keys, state) for entity, keys in found.items()),
    )


def _filters(request: DescribeClientQuotasRequest) -> dict[str, tuple[int, str | None]]:
    """Return how each type that is asked for must match. Raises QuotaFilterError."""
    filters: dict[str, tuple[int, str | None]] = {}
    for component in request.components:
        kind, how, name = component.entity_type, int(component.match_type), component.match
        error, message = ErrorCode.invalid_request, None
        if not kind:
            message = "Invalid empty entity type."
        elif kind in filters:
            message = f"Entity type {kind} cannot appear more than once in the filter."
        elif kind not in {USER, CLIENT_ID, IP}:
            error, message = ErrorCode.unsupported_version, f"Unsupported entity type {kind}"
        elif how == MATCH_EXACT and name is None:
            message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        elif how in {MATCH_DEFAULT, MATCH_SPECIFIED} and name is not None:
            match = "DEFAULT" if how == MATCH_DEFAULT else "SPECIFIED"
            message = f"Request specified MATCH_TYPE_{match}, but also specified a match string."
        elif how not in {MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED}:
            message = f"Unknown match type {how}"
        if message is not None:
            raise QuotaFilterError(error, message)
        filters[kind] = (how, name)
    if IP in filters and len(filters) > 1:
        raise QuotaFilterError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return filters


def _matches(
    entity: Entity, filters: Mapping[str, tuple[int, str | None]], *, strict: bool
) -> bool:
    names = {part.entity_type: part.entity_name for part in entity}
    if strict and len(names) != len(filters):
        return False
    return all(
        kind in names and (how == MATCH_SPECIFIED or names[kind] == name)
        for kind, (how, name) in filters.items()
    )


def _description(
    entity: Entity, keys: list[QuotaKey], state: MetadataState
) -> DescribeClientQuotasEntry:
    values = []
    for key in keys:
        value = state.client_quotas.get(key)
        assert value is not None
        values.append(DescribeClientQuotasValue(key=key[1], value=f64(value)))
    return DescribeClientQuotasEntry(
        entity=tuple(
            DescribeClientQuotasEntity(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entity
        ),
        values=tuple(values),
    )

"""Registration of brokers and controllers (ClusterControlManager; KIP-631, KIP-919, KIP-966).

A broker's epoch is the offset of the record that registered its incarnation, so it grows with every
new one. A new incarnation begins fenced, in no ISR. The same incarnation may register again, with
the epoch it has, to change what it reported.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION
from cluster.node.controller.metadata.registrations import ClusterInfo, registered_brokers
from cluster.node.controller.metadata.result import ControllerResult, RecordOrMaker, RequestError
from cluster.node.controller.metadata.state import BrokerRegistration, MetadataState
from cluster.node.controller.partitions.leadership import (
    broker_restarted,
    broker_unregistered,
    directories_offline,
)
from cluster.node.controller.records import MetadataRecord
from cluster.node.controller.records.kinds import (
    RecordEndpoint,
    RecordFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from cluster.node.errors import ErrorCode
from cluster.node.ports import Channel, Clock, Random, Trace, backoff_ms
from cluster.node.protocol import messages
from cluster.node.protocol.messages import ControllerRegistrationRequest, i64
from cluster.node.wire.uuid_text import is_reserved

ZERO_UUID = uuid.UUID(int=0)


def register_broker(
    request: messages.BrokerRegistrationRequest,
    state: MetadataState,
    cluster: ClusterInfo,
    heartbeats: BrokerHeartbeatManager,
) -> ControllerResult[messages.BrokerRegistrationResponse]:
    """Register a broker's incarnation; its epoch is the offset of the registration.

    Raises RequestError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REQUEST,
    BROKER_ID_NOT_REGISTERED (ZooKeeper brokers), INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    if request.cluster_id != cluster.cluster_id:
        message = (
            f"Expected cluster ID {cluster.cluster_id}, but got cluster ID {request.cluster_id}"
        )
        raise RequestError(ErrorCode.inconsistent_cluster_id, message)
    incarnation = request.incarnation_id or ZERO_UUID
    existing = state.brokers.get(request.broker_id)
    _check_incarnation(existing, incarnation, heartbeats)
    if request.broker_id < 0:
        raise RequestError(ErrorCode.invalid_request, "A broker id may not be negative.")
    if request.is_migrating_zk_broker:
        message = "Controller does not support registering ZK brokers."
        raise RequestError(ErrorCode.broker_id_not_registered, message)
    directories = _checked_directories(request, state)
    endpoints = _endpoints(request.listeners)
    features = _features(request.features)
    _check_features(f"broker {request.broker_id}", features, state)

    amended = existing is not None and existing.incarnation_id == incarnation
    kept = existing if amended else None

    def registration(offset: int) -> MetadataRecord:
        return RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=incarnation,
            broker_epoch=offset if kept is None else kept.epoch,
            end_points=endpoints,
            features=features,
            rack=request.rack,
            fenced=True if kept is None else kept.fenced,
            in_controlled_shutdown=kept is not None and kept.in_controlled_shutdown,
            log_dirs=directories,
        )

    def records() -> Iterator[RecordOrMaker]:
        if kept is None:
            stored_epoch = -2 if existing is None else existing.epoch
            clean = request.previous_broker_epoch == stored_epoch
            yield from broker_restarted(state, request.broker_id, clean=clean)
        else:
            gone = frozenset(
                directory for directory in kept.log_dirs if directory not in directories
            )
            yield from directories_offline(state, kept, gone)
        yield registration

    def epoch_at(last_offset: int) -> int:
        return last_offset if kept is None else kept.epoch

    def response_at(last_offset: int) -> messages.BrokerRegistrationResponse:
        return messages.BrokerRegistrationResponse(
            throttle_time=messages.NO_THROTTLE,
            error_code=ErrorCode.none,
            broker_epoch=i64(epoch_at(last_offset)),
        )

    return ControllerResult(
        records=records(),
        response=response_at(-1),
        is_atomic=False,
        appended=lambda last_offset: heartbeats.register(request.broker_id, epoch_at(last_offset)),
        response_at=response_at,
    )


def _check_incarnation(
    existing: BrokerRegistration | None, incarnation: uuid.UUID, heartbeats: BrokerHeartbeatManager
) -> None:
    if existing is None or existing.incarnation_id == incarnation:
        return
    if existing.in_controlled_shutdown:
        return
    if heartbeats.has_valid_session(existing.id, existing.epoch):
        message = (
            f"Another broker is registered with that broker id. If the broker was recently "
            f"restarted this should self-resolve once its session of "
            f"{heartbeats.session_timeout_ms:g} ms has expired."
        )
        raise RequestError(ErrorCode.duplicate_broker_registration, message)


def _checked_directories(
    request: messages.BrokerRegistrationRequest, state: MetadataState
) -> tuple[uuid.UUID, ...]:
    directories = tuple(directory or ZERO_UUID for directory in request.log_dirs)
    message = None
    if not directories:
        message = "No directories specified in request"
    elif any(map(is_reserved, directories)):
        message = "Reserved directory ID in request"
    elif len(set(directories)) != len(directories):
        message = "Duplicate directory ID in request"
    else:
        others = [other for other in registered_brokers(state) if other.id != request.broker_id]
        holders = {directory: other.id for other in others for directory in other.log_dirs}
        held = next((directory for directory in directories if directory in holders), None)
        if held is not None:
            message = f"Broker {holders[held]} is already registered with directory {held}"
    if message is not None:
        raise RequestError(ErrorCode.invalid_registration, message)
    return directories


def _endpoints(listeners: Iterable[Any]) -> tuple[RecordEndpoint, ...]:
    endpoints = tuple(
        RecordEndpoint(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in listeners
    )
    names = [endpoint.name for endpoint in endpoints]
    if "" in names or len(set(names)) != len(names):
        message = "A listener name is empty or used twice."
        raise RequestError(ErrorCode.invalid_registration, message)
    return endpoints


def _features(features: Iterable[Any]) -> tuple[RecordFeature, ...]:
    return tuple(
        RecordFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in features
    )


def _check_features(role: str, features: tuple[RecordFeature, ...], state: MetadataState) -> None:
    """Refuse a node without the features in force.

    Raises RequestError: UNSUPPORTED_VERSION; INVALID_REGISTRATION without metadata.version.
    """
    supported = {feature.name: feature for feature in features}
    finalized = list(state.features.keys())
    for name in dict.fromkeys([METADATA_VERSION, *finalized]):
        level = state.features.get(name) or 0
        found = supported.get(name)
        if found is None:
            message = f"Unable to register because {role} does not support {name}"
        elif level and not found.min_supported_version <= level <= found.max_supported_version:
            message = (
                f"Unable to register because {role} does not support finalized version {level} of "
                f"{name}: it supports {found.min_supported_version} to "
                f"{found.max_supported_version}"
            )
        else:
            continue
        nameless = found is None and name == METADATA_VERSION
        error = ErrorCode.invalid_registration if nameless else ErrorCode.unsupported_version
        raise RequestError(error, message)


def unregister_broker(
    request: messages.UnregisterBrokerRequest,
    state: MetadataState,
    heartbeats: BrokerHeartbeatManager,
) -> ControllerResult[messages.UnregisterBrokerResponse]:
    """Take a broker out of the cluster. Raises RequestError, BROKER_ID_NOT_REGISTERED."""
    broker = state.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        raise RequestError(ErrorCode.broker_id_not_registered, message)

    return ControllerResult(
        records=broker_unregistered(state, broker),
        response=messages.UnregisterBrokerResponse(
            throttle_time=messages.NO_THROTTLE, error_code=ErrorCode.none, error_message=None
        ),
        is_atomic=False,
        appended=lambda _last_offset: heartbeats.unregister(request.broker_id),
    )


def register_controller(
    request: messages.ControllerRegistrationRequest, state: MetadataState
) -> ControllerResult[messages.ControllerRegistrationResponse]:
    """Note a controller's listeners and features (KIP-919).

    Raises RequestError: INVALID_REQUEST, INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    if request.controller_id < 0:
        raise RequestError(ErrorCode.invalid_request, "A controller id may not be negative.")
    if request.zk_migration_ready:
        message = "Controller does not support migration from ZooKeeper."
        raise RequestError(ErrorCode.invalid_request, message)
    endpoints = _endpoints(request.listeners)
    features = _features(request.features)
    _check_features(f"controller {request.controller_id}", features, state)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id or ZERO_UUID,
        zk_migration_ready=False,
        end_points=endpoints,
        features=features,
    )
    return ControllerResult(
        records=(record,),
        response=messages.ControllerRegistrationResponse(
            throttle_time=messages.NO_THROTTLE, error_code=ErrorCode.none, error_message=None
        ),
    )


# ControllerRegistrationManager: registers this controller's listeners (KIP-919).
#
# A controller is registered once the committed image says so for this incarnation. Until then it
# asks again, later each time. What fails is tried again whatever the reason: a controller that
# cannot register (another cluster, features that it lacks) still votes, and clients learn of it
# from `controller.quorum.voters`.


RETRY_BACKOFF_MS: Final = 100.0
RETRY_BACKOFF_MAX_MS: Final = 10_000.0
REQUEST_TIMEOUT_MS: Final = 5_000.0


class ControllerRegistrationManager:
    """Registers one incarnation of a controller. Make it, then `start` it."""

    def __init__(
        self,
        request: ControllerRegistrationRequest,
        clock: Clock,
        random: Random,
        trace: Trace,
        channel: Channel,
        state: Callable[[], MetadataState],
    ) -> None:
        """`request`: but for the incarnation. `state`: what this controller's image has now."""
        self.incarnation_id = uuid.UUID(int=random.getrandbits(128), version=4)
        self.stopped = False
        self._request = replace(request, incarnation_id=self.incarnation_id)
        self._clock = clock
        self._random = random
        self._trace = trace
        self._channel = channel
        self._state = state
        self._attempts = 0

    @property
    def is_registered(self) -> bool:
        """Whether the committed metadata holds this incarnation."""
        record = self._state().controllers.get(self._request.controller_id)
        return record is not None and record.incarnation_id == self.incarnation_id

    def start(self) -> None:
        """Begin."""
        self._check_later()

    def stop(self) -> None:
        """Fall silent."""
        self.stopped = True

    def _check_later(self) -> None:
        wait_ms = backoff_ms(self._attempts, RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS, self._random)
        self._clock.call_later(wait_ms, self._check)

    def _check(self) -> None:
        if self.stopped:
            return
        if self.is_registered:
            self._trace("controller-registered", incarnation_id=str(self.incarnation_id))
            return
        self._attempts += 1
        if self._state().features.get(METADATA_VERSION) is not None:
            self._channel(self._request, REQUEST_TIMEOUT_MS, lambda _reply: None)
        # The answer says nothing that the image will not say: that alone decides.
        self._check_later()

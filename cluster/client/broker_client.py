"""What a client does in a broker's name: registration, heartbeats, blocks of producer ids.

Each is one request to one controller, as in `cluster.client.caller`, with the same outcomes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from cluster.client.admin_client import CONTROLLERS
from cluster.client.caller import Caller, Outcome, Peer, WrongAnswerError, metadata_of
from cluster.node.controller.core.feature_control import SUPPORTED
from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, i16, i64, u16
from cluster.values import valueclass

LEVEL_MAX: Final = i16(2**15 - 1)
"""Brokers that do nothing support each level of a feature that any release may finalize."""


@valueclass
class FakeBroker:
    """A broker that is nothing but its registration. It can be reached nowhere."""

    broker_id: int
    incarnation: int | str = 0

    @property
    def incarnation_id(self) -> uuid.UUID:
        """The same for the same id and incarnation: registering again is harmless."""
        return uuid.uuid5(uuid.NAMESPACE_OID, f"broker {self.broker_id} {self.incarnation}")

    @property
    def directory_id(self) -> uuid.UUID:
        """The id of its only log directory, which incarnations share."""
        return uuid.uuid5(uuid.NAMESPACE_OID, f"directory of broker {self.broker_id}")


class BrokerClient:
    """Speaks for fake brokers through a client that never retries."""

    def __init__(self, client: Caller) -> None:
        self._client = client
        self._cluster_id: str | None = None

    async def register(self, peer: Peer, broker: FakeBroker) -> Outcome:
        """Register an incarnation. The value is the broker epoch."""
        if self._cluster_id is None:
            question = messages.DescribeClusterRequest(
                include_cluster_authorized_operations=False,
                endpoint_type=CONTROLLERS,
                include_fenced_brokers=False,
            )
            described = await self._attempt(peer, question, _cluster_id)
            if described.type != "ok":
                return Outcome("fail", error=described.error)  # nothing was asked for yet
            self._cluster_id = described.value
        assert self._cluster_id is not None, "it was just read"
        request = messages.BrokerRegistrationRequest(
            broker_id=BrokerId(broker.broker_id),
            cluster_id=self._cluster_id,
            incarnation_id=broker.incarnation_id,
            listeners=(
                messages.BrokerRegistrationListener(
                    name="CLIENT", host="fake.invalid", port=u16(9092), security_protocol=i16(0)
                ),
            ),
            features=tuple(
                messages.BrokerRegistrationFeature(
                    name=feature.name, min_supported_version=i16(0), max_supported_version=LEVEL_MAX
                )
                for feature in SUPPORTED
            ),
            rack=None,
            log_dirs=(broker.directory_id,),
        )
        return await self._attempt(peer, request, lambda answer: answer.broker_epoch)

    async def heartbeat(
        self,
        peer: Peer,
        broker: FakeBroker,
        epoch: int,
        metadata_offset: int,
        *,
        want_fence: bool = False,
    ) -> Outcome:
        """Send a heartbeat. The value is `{"caught_up", "fenced", "shut_down"}`."""
        request = messages.BrokerHeartbeatRequest(
            broker_id=BrokerId(broker.broker_id),
            broker_epoch=i64(epoch),
            current_metadata_offset=i64(metadata_offset),
            want_fence=want_fence,
            want_shut_down=False,
        )
        return await self._attempt(
            peer,
            request,
            lambda answer: {
                "caught_up": answer.is_caught_up,
                "fenced": answer.is_fenced,
                "shut_down": answer.should_shut_down,
            },
        )

    async def allocate_producer_ids(self, peer: Peer, broker: FakeBroker, epoch: int) -> Outcome:
        """Ask for a block of producer ids. The value is `[first id, length]`."""
        request = messages.AllocateProducerIdsRequest(
            broker_id=BrokerId(broker.broker_id), broker_epoch=i64(epoch)
        )
        return await self._attempt(
            peer, request, lambda answer: [answer.producer_id_start, answer.producer_id_len]
        )

    async def is_alive(self, peer: Peer, broker_id: int, *, lags: bool = False) -> Outcome:
        """Ask whether clients see a broker, on a CLIENT listener.

        As in `Client.describe_topic` only the answer of the active controller counts, which names
        itself; any other is a `fail` with `not_controller`, unless it may lag.
        """

        def read(response: Any) -> Outcome:
            self._client.accept(response.error_code)
            if not lags and response.controller_id != peer.endpoint.node_id:
                return Outcome("fail", error=ErrorCode.not_controller.name)
            return Outcome("ok", any(broker.node_id == broker_id for broker in response.brokers))

        return await self._client.attempt(peer, metadata_of(()), read)

    async def _attempt(self, peer: Peer, request: object, value: Callable[[Any], Any]) -> Outcome:
        """Perform a request; `value` is taken from a response without an error."""

        def read(response: Any) -> Outcome:
            self._client.accept(response.error_code)
            return Outcome("ok", value(response))

        return await self._client.attempt(peer, request, read)


def _cluster_id(response: Any) -> str:
    if not response.cluster_id:
        raise WrongAnswerError("the cluster has no id")
    return str(response.cluster_id)

"""ControllerRegistrationManager: registers this controller's listeners (KIP-919).

A controller is registered once the committed image says so for this incarnation. Until then it asks
again, later each time. What fails is tried again whatever the reason: a controller that cannot
register (another cluster, features that it lacks) still votes, and clients learn of it from
`controller.quorum.voters`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cluster.node.controller.metadata.feature_levels import METADATA_VERSION
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.ports import Channel, Clock, Random, Trace, backoff_ms
from cluster.node.protocol.messages import ControllerRegistrationRequest

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

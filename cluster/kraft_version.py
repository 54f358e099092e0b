"""UpdateFeatures of `kraft.version`, which belongs to raft and not to the metadata (KIP-1022).

Kafka's controller hands this one feature to its raft client. It is taken here before the controller
sees the request, and must be updated alone: raft appends it in a batch of its own, so that it could
not happen together with others or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster.errors import ErrorCode
from cluster.protocol.messages import NO_THROTTLE, UpdateFeaturesRequest, UpdateFeaturesResponse

KRAFT_VERSION = "kraft.version"


class Upgrader(Protocol):
    """The raft client, as far as needed here."""

    def upgrade_kraft_version(
        self, level: int, done: Callable[[ErrorCode, str | None], None], *, validate_only: bool
    ) -> None:
        """See `cluster.kraft.client.RaftClient`."""


def is_kraft_version_update(message: object) -> bool:
    """Tell whether a request updates that feature, among others or not."""
    return isinstance(message, UpdateFeaturesRequest) and any(
        update.feature == KRAFT_VERSION for update in message.feature_updates
    )


def update_kraft_version(
    raft: Upgrader, request: UpdateFeaturesRequest, reply: Callable[[object], None]
) -> None:
    """Let raft finalize the level that was asked for, and answer."""

    def done(error: ErrorCode, message: str | None) -> None:
        reply(
            UpdateFeaturesResponse(
                throttle_time=NO_THROTTLE, error_code=error, error_message=message
            )
        )

    if len(request.feature_updates) != 1:
        done(ErrorCode.invalid_request, f"{KRAFT_VERSION} must be updated alone.")
        return
    level = int(request.feature_updates[0].max_version_level)
    raft.upgrade_kraft_version(level, done, validate_only=bool(request.validate_only))

"""UpdateFeatures of `kraft.version`, which belongs to raft and not to the metadata (KIP-1022).

Kafka's controller hands this one feature to its raft client, which appends it in a batch of its
own; other features of the same request go into the metadata. So that they happen together or not
at all as far as that can be, the others are checked first, then raft finalizes `kraft.version`, and
then the others are updated. What becomes of them when that fails in the end is not what was asked
for, and not nothing: UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from cluster.node.errors import ErrorCode
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

KRAFT_VERSION = "kraft.version"

Reply = Callable[[object], None]
UpdateOthers = Callable[[UpdateFeaturesRequest, Callable[[Any], None]], None]
"""The controller's own UpdateFeatures."""


def is_kraft_version_update(message: object) -> bool:
    """Return whether a request updates that feature, among others or not."""
    return isinstance(message, UpdateFeaturesRequest) and any(
        update.feature == KRAFT_VERSION for update in message.feature_updates
    )


def update_kraft_version(
    raft: RaftClient, update_others: UpdateOthers, request: UpdateFeaturesRequest, reply: Reply
) -> None:
    """Let raft finalize the level that was asked for and the controller the rest, and answer."""
    own = [update for update in request.feature_updates if update.feature == KRAFT_VERSION]
    rest = tuple(update for update in request.feature_updates if update.feature != KRAFT_VERSION)
    others = dataclasses.replace(request, feature_updates=rest)
    level, validate_only = int(own[0].max_version_level), bool(request.validate_only)
    if len(own) > 1:
        reply(_response(ErrorCode.invalid_request, "A feature is updated twice."))
        return

    def upgrade() -> None:
        raft.upgrade_kraft_version(level, on_upgrade, validate_only=validate_only)

    def on_check(response: UpdateFeaturesResponse) -> None:
        if response.error_code is not ErrorCode.none:
            reply(response)
        else:
            upgrade()

    def on_upgrade(error: ErrorCode, message: str | None) -> None:
        if error is not ErrorCode.none or not rest or validate_only:
            reply(_response(error, message))
        else:
            update_others(others, on_update)

    def on_update(response: UpdateFeaturesResponse) -> None:
        if response.error_code is ErrorCode.none:
            reply(response)
            return
        message = f"{KRAFT_VERSION} is {level} now, the other features were not updated: "
        message += f"{response.error_code.name} {response.error_message or ''}".strip()
        reply(_response(ErrorCode.unknown_server_error, message))

    if rest:
        update_others(dataclasses.replace(others, validate_only=True), on_check)
    else:
        upgrade()


def _response(error: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message
    )

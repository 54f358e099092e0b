"""Ids of what is new in the metadata (Uuid.randomUuid)."""

from __future__ import annotations

import uuid
from typing import Any

from cluster.node.controller.metadata.timeline import StateMap
from cluster.node.ports import Random


def new_id(random: Random, taken: StateMap[uuid.UUID, Any]) -> uuid.UUID:
    """Draw a random (version 4) id that is free and, as Kafka's, does not begin with a dash."""
    while True:
        found = _draw(random)
        if taken.get(found) is None:
            return found


def _draw(random: Random) -> uuid.UUID:
    while True:
        found = uuid.UUID(int=random.getrandbits(128), version=4)
        begins_with_dash = found.bytes[0] >> 2 == 62
        if not begins_with_dash:
            return found

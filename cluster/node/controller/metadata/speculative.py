"""What the active controller believes: the committed image plus what it appended and awaits.

Only the generation of new records looks at it. It is empty on every node that is not active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import MetadataState, ReplayError, overlay_state
from cluster.node.controller.metadata.timeline import NOTHING, AppendOffset, TimelineMap
from cluster.node.controller.records import MetadataRecord, MetadataRecordError
from cluster.node.controller.records.system import TRANSACTION_MARKERS


class SpeculativeState:
    """Uncommitted writes over a committed image. The image is never changed through it."""

    def __init__(self, image: MetadataImage) -> None:
        self._offset = AppendOffset()
        self.state: MetadataState = overlay_state(image.state, self._offset)
        self._maps = [getattr(self.state, field.name) for field in fields(self.state)]
        assert all(isinstance(state_map, TimelineMap) for state_map in self._maps)

    def replay(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        """Apply records that were just appended up to `last_offset`. Raises ReplayError."""
        first_offset = last_offset - len(records) + 1
        for offset, record in enumerate(records, first_offset):
            assert offset > self._offset.value, "appended offsets must grow"
            self._offset.value = offset
            if isinstance(record, TRANSACTION_MARKERS):
                # What another leader left open the image held back: there is nothing to undo. Its
                # own transaction this leader sees as it appends it.
                continue
            try:
                replay(self.state, record)
            except (MetadataRecordError, ReplayError) as error:
                raise ReplayError(f"record appended at offset {offset}: {error}") from error

    def drop_through(self, offset: int) -> None:
        """Forget what the image contains now."""
        if self._offset.value == NOTHING:
            return  # as on every node that does not lead
        for state_map in self._maps:
            state_map.drop_through(offset)

    def revert(self) -> None:
        """Forget everything: another leader decides what becomes of it."""
        for state_map in self._maps:
            state_map.revert()
        self._offset.value = NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether it equals the committed image."""
        return not any(len(state_map) for state_map in self._maps)

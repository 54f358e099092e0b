"""What retention deletes from partitions' logs, by time and by size, and what it must not.

It reads events that no node traces (`harness/sim/retention_sight.py`): `segment-deleted`, a segment
that a leader's log has no more; `segment-due`, the first one of a log, which is committed, for how
long it has been due, and how often its broker checks. Each has the age of the segment's newest
record, by the clock of its host, and how large the log is without it.
"""

from __future__ import annotations

from checkers.invariants.fold import Broken, Invariant
from checkers.invariants.sight import Fields
from checkers.invariants.upkeep import SLACK_MS


class RetentionKept(Invariant):
    """A leader deletes a segment unasked when it is old enough, or the others are large enough.

    It deletes no others, and at every replica what is due is gone at the next check.
    """

    name = "retention-kept"
    source = "retention.bytes, retention.ms; UnifiedLog, deleteOldSegments"

    def on_segment_deleted(self, node: str, fields: Fields) -> Broken | None:
        """Judge a deletion, when more may have been appended since; its age may not be known."""
        if is_over_retention(fields) or fields["age_ms"] is None:
            return None
        return Broken(f"{node} leads {fields['name']} and deleted {_segment(fields)}")

    def on_segment_due(self, node: str, fields: Fields) -> Broken | None:
        """Judge the first segment of a log, which is due and committed."""
        for_ms, interval_ms = fields["for_ms"], fields["interval_ms"]
        if for_ms <= interval_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} holds {fields['name']}, checks every {interval_ms:g} ms what is to be deleted "
            f"and for {for_ms:.0f} ms has kept {_segment(fields)}"
        )


def is_over_retention(fields: Fields) -> bool:
    """Whether a segment's log is large enough without it, or all of it is old enough."""
    age_ms, kept_bytes, kept_ms = fields["age_ms"], fields["kept_bytes"], fields["kept_ms"]
    is_old = age_ms is not None and 0 <= kept_ms < age_ms
    return bool(is_old or 0 <= kept_bytes <= fields["left_bytes"])


def _segment(fields: Fields) -> str:
    return (
        f"{fields['path']}, whose newest record is {fields['age_ms']} ms old, with "
        f"{fields['left_bytes']} bytes beside it, where retention.bytes is {fields['kept_bytes']} "
        f"and retention.ms {fields['kept_ms']}"
    )

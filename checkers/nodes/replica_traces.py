"""What brokers traced of the partitions that they lead and follow, against each other.

Brokers of this repository trace when they begin to lead or to follow a partition in an epoch, and
when a follower cuts its log. docs/checkers.md#replica-logs has the kinds. A high watermark that a
broker knows is a lower bound of what is committed, so each is real; times are not compared. A topic
that was deleted and made anew is left out, as its epochs begin anew.
Complexity: O(events x epochs of a partition).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

from checkers.evidence import Evidence, TraceEvent
from checkers.verdict import Anomaly, anomaly

LEADS, FOLLOWS, CUTS = "replica-leader", "replica-follower", "replica-truncated"
Found = tuple[TraceEvent, str]
"""The event that contradicts another, and how."""


def trace_anomalies(
    evidence: Evidence, renewed: Collection[str], lossy: Collection[str]
) -> Iterator[Anomaly]:
    """Find what the traces of all partitions contradict, whose events are well formed.

    `renewed`: topics that were made anew; `lossy`: those that may lose what was committed.
    """
    by_partition: dict[str, list[TraceEvent]] = defaultdict(list)
    for trace in evidence.traces.values():
        for event in trace:
            if event.event in (LEADS, FOLLOWS, CUTS) and event.fields["topic"] not in renewed:
                by_partition[f"{event.fields['topic']}-{event.fields['partition']}"].append(event)
    for partition in sorted(by_partition):
        may_lose = partition.rpartition("-")[0] in lossy
        for kind, contradictions in _RULES.items():
            if may_lose and kind in _OF_COMMITTED:
                continue
            for event, text in islice(contradictions(by_partition[partition], evidence), 1):
                yield anomaly(
                    kind,
                    f"{partition}: {text}",
                    partition=partition,
                    epoch=event.fields["leader_epoch"],
                    **evidence.place(event),
                )


def _two_leaders(events: list[TraceEvent], evidence: Evidence) -> Iterator[Found]:
    leads: dict[int, TraceEvent] = {}
    for event in events:
        if event.event != LEADS:
            continue
        first = leads.setdefault(event.fields["leader_epoch"], event)
        if first.node != event.node:
            text = (
                f"{first.node} and {event.node} both lead epoch "
                f"{event.fields['leader_epoch']}, from {evidence.when(first)} and "
                f"{evidence.when(event)}"
            )
            yield event, text


def _back(events: list[TraceEvent], evidence: Evidence) -> Iterator[Found]:
    highest: dict[tuple[str, int], int] = {}
    for event in events:
        epoch = event.fields["leader_epoch"]
        process = event.node, event.incarnation
        if epoch < highest.get(process, epoch):
            text = (
                f"{event.node} goes back from leader epoch {highest[process]} to "
                f"{epoch} at {evidence.when(event)}"
            )
            yield event, text
        highest[process] = epoch


def _incomplete(events: list[TraceEvent], evidence: Evidence) -> Iterator[Found]:
    leads = [event for event in events if event.event == LEADS]
    for leader in leads:
        epoch, start = leader.fields["leader_epoch"], leader.fields["start_offset"]
        for known in events:
            if known.event == FOLLOWS or known.fields["high_watermark"] <= start:
                continue
            before = known.fields["leader_epoch"]
            if before < epoch:
                mark = known.fields["high_watermark"]
                text = (
                    f"{leader.node} leads epoch {epoch} from offset {start}, at "
                    f"{evidence.when(leader)}, though {known.node} knew {mark} as high watermark, "
                    f"at {evidence.when(known)}, in epoch {before}"
                )
                yield leader, text


def _cut(events: list[TraceEvent], evidence: Evidence) -> Iterator[Found]:
    for event in events:
        if event.event != CUTS:
            continue
        mark, to = event.fields["high_watermark"], event.fields["to_offset"]
        if to < mark:
            text = (
                f"{event.node} cuts its log from offset {event.fields['from_offset']} "
                f"to {to}, below its high watermark {mark}, at {evidence.when(event)}, as it "
                f"follows in epoch {event.fields['leader_epoch']}"
            )
            yield event, text


_RULES: Mapping[str, Callable[[list[TraceEvent], Evidence], Iterator[Found]]] = {
    "two-leaders": _two_leaders,
    "epoch-back": _back,
    "leader-incomplete": _incomplete,
    "truncated-committed": _cut,
}
"""Kind -> what finds it in the events of a partition; the first counts."""
_OF_COMMITTED = ("leader-incomplete", "truncated-committed")

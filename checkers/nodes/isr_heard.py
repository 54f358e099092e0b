"""`isr-not-decided`: what brokers took for a partition's ISR, against the metadata log's.

A broker of this repository traces the ISR that it acts by, with the partition epoch of the decision
that it takes it from: as it begins to lead, and whenever it learns of another. A leader waits for
the maximal ISR, which is this one and whom it has proposed, so that the rule keeps the maximal ISR
above the controller's (ReplicationQuorumSuperset of KIP-966's specification) as long as the
leader knows of the newest decision; an older one's is fenced by the next one's epoch.

Partition epochs that the log does not show, as it begins behind them, are not judged; of a topic
that was deleted and made again, either life's decision will do, and where the log may lack those of
an earlier life, none is judged. Complexity: O(events).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from checkers.evidence import Evidence
from checkers.verdict import Anomaly, anomaly

Decided = Mapping[tuple[str, int, int], Collection[frozenset[int]]]
"""The ISRs by topic name, partition and partition epoch; several where the name had several ids."""

_HEARS = ("replica-leader", "replica-isr")


def not_decided(evidence: Evidence, decided: Decided, apart: Collection[str]) -> Iterator[Anomaly]:
    """Find the first such event of every node, but for topics `apart`; all are well formed."""
    for node, trace in evidence.traces.items():
        for event in trace:
            if event.event not in _HEARS:
                continue
            fields = event.fields
            name, epoch = f"{fields['topic']}-{fields['partition']}", fields["partition_epoch"]
            isrs = decided.get((fields["topic"], fields["partition"], epoch))
            if fields["topic"] in apart:
                continue
            if isrs is None or frozenset(fields["isr"]) in isrs:
                continue
            made = " or ".join(str(sorted(isr)) for isr in isrs)
            text = (
                f"{name}: {node} takes {sorted(fields['isr'])} for the ISR of partition epoch "
                f"{epoch} at {evidence.when(event)}, where the metadata log has {made}"
            )
            yield anomaly("isr-not-decided", text, partition=name, **evidence.place(event))
            break

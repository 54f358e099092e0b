"""How checks of the nodes' evidence turn what they found into a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import Any

from checkers.evidence import Evidence
from checkers.verdict import Anomaly, CheckResult, Status

ANOMALIES_MAX = 50
_NOT_JOURNALED = "the part of the run that the journal lacks"


def without(evidence: Evidence, what: str, kept: Mapping[str, Sized]) -> list[str]:
    """Name the nodes of which a piece of evidence is missing or empty: `n2 (trace)`."""
    return [f"{node} ({what})" for node in evidence.nodes if not kept.get(node)]


def without_log(evidence: Evidence) -> list[str]:
    """Name the nodes of which the log is missing, or empty where no snapshot has replaced all."""

    def is_replaced(node: str) -> bool:
        state, snapshots = evidence.quorum_states.get(node, {}), evidence.snapshots.get(node, ())
        ends = state.get("logStartOffset"), state.get("logEndOffset")
        return any(one.offset > 0 and ends == (one.offset, one.offset) for one in snapshots)

    lacking = without(evidence, "log", evidence.logs)
    replaced = {f"{node} (log)" for node in evidence.logs if is_replaced(node)}
    return [each for each in lacking if each not in replaced]


def evidence_result(
    checker: str,
    anomalies: Sequence[Anomaly],
    *,
    missing: Sequence[str],
    doubts: Sequence[Anomaly] = (),
    cancelled: bool,
    exercised: bool,
    good: str,
    looked_at: int,
    statistics: Mapping[str, Any],
    idle: str = "the evidence shows no leader and no commit",
) -> CheckResult:
    """Anomalies: FAIL. Else doubts, evidence missing, cancelled: UNKNOWN. Else nothing: UNDER.

    `doubts` would be anomalies if the journal were whole (`evidence.extent`), or the traces of the
    nodes that they name as `unseen`. `idle`: what is said where nothing was exercised.
    """
    kinds = Counter(str(anomaly["kind"]) for anomaly in anomalies)
    if anomalies:
        things = Counter(kind for kind, _ in {_thing(anomaly) for anomaly in anomalies})
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(things.items()))
        status, summary = Status.FAIL, f"{counted}; first: {anomalies[0]['explanation']}"
    elif cancelled:
        status, summary = Status.UNKNOWN, "cancelled"
    elif doubts:
        status, summary = Status.UNKNOWN, doubtful(doubts)
    elif missing:
        status, summary = Status.UNKNOWN, f"evidence is missing or malformed: {', '.join(missing)}"
    elif not exercised:
        status, summary = Status.UNDER_EXERCISED, idle
    else:
        status, summary = Status.PASS, good
    return CheckResult(
        checker,
        status,
        summary,
        operations=looked_at,
        anomalies=tuple((anomalies or doubts)[:ANOMALIES_MAX]),
        statistics={
            **statistics,
            "anomalies_by_kind": dict(sorted(kinds.items())),
            "missing": list(missing),
        },
    )


def _thing(anomaly: Anomaly) -> tuple[str, object]:
    """Return the kind and what is wrong, the same however many nodes show it."""
    kind, key = str(anomaly["kind"]), anomaly.get("key")
    if key is None:
        return kind, id(anomaly)
    return kind, (key, anomaly.get("offset"), tuple(anomaly.get("operations", ())))


def doubtful(doubts: Sequence[Anomaly]) -> str:
    """Say what was seen that what the journal or a trace lacks may explain."""
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    first, unseen = doubts[0]["explanation"], doubts[0].get("unseen")
    lacking = f"what the traces of {', '.join(unseen)} lack" if unseen else _NOT_JOURNALED
    return f"{lacking} may explain that {first}{more}"

"""What Kafka promises of consumer groups: commits that are kept and fenced, and nothing skipped.

The history is workload `groups`': members of one group join it, process what they fetch from the
partitions that they are given, and commit how far they are; others send the records.

**Promised.** A commit is answered once it is replicated, and is the last word about its partition
until the next one. A generation is a member's once its assignment is replicated, too, and from then
on the coordinator refuses commits of any older one (KIP-62), of a static member's predecessor
(KIP-345), and of a member that was fenced (KIP-848). So between its commits each record is
processed by one member, as far as the group can know.

**Not promised.** That it is processed once: what a member had processed and not committed the next
owner processes again. That no two members process one partition at one time: a member that does not
know yet that it is fenced goes on, and so do all that ask a coordinator which was deposed and does
not know it; only what they commit is refused. That a committed offset never falls: the next owner
may commit a lower one, if it began before the last commit of the owner before arrived. That a
generation's number is used once: one whose assignment was never replicated may be counted anew.

Kinds of anomalies, and why a correct Kafka never shows them:

- `lost-commit`: the committed offset of a partition, which commits write and joins read, is no
  linearizable register: a join shows an offset before the last one that was acknowledged, or one
  that nobody committed. What is committed is in the log of `__consumer_offsets` with acks=all, and
  a coordinator loads all of that log before it answers. A join reads it with require_stable from
  the coordinator that has just had the new generation replicated, and so was not deposed when the
  join began.
- `fenced-commit`: a commit was acknowledged to a member after somebody, of a later generation, had
  joined; or after another had taken over its group.instance.id.
- `two-owners`: one partition was given to two members of one generation. It has one assignment.
- `generation-back`: a member joined a generation below one that was somebody's before.
- `skipped`: a member committed an offset above a record that was acknowledged to its producer or
  that a `poll-all` shows, and no member had processed it before. Members begin at the committed
  offset, or at the log's start, and commit only what they have processed; so by induction over the
  commits nothing is between.

With the protocol of KIP-848 (option `protocol`, `consumer`) a member's epoch may be behind the
group's, so that only `lost-commit`, `fenced-commit` by another member that was given the partition,
and `skipped` are judged.

A commit that ended in `info` may have been done or not, until somebody of a later generation has
joined. One whose offsets are not known (its client was ended) makes what would be a `lost-commit`
from then on UNKNOWN. So does a history in which nobody joined alone in the end (`join-all`).
Assumes that no offset expires (offsets.retention.minutes), and members as those of this workload:
whoever does not know whether its join was done joins as a new member. What is in the partitions,
and whether members were shown that, is for check `log`.

A group that stands still breaks no rule here. It is no PASS: condition `writes-served` bounds how
long no member is served, and the last join, which is tried for as long as everything else after the
last heal, must be ok (`last-phase`).

Cannot see: offsets that are committed in transactions; a member that is left out of an assignment.
Complexity: that of `linearizable` for each partition, and O(n log n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.groups.facts import JOIN_ALL, ZOMBIE_COMMIT, GroupFacts, facts_of
from checkers.groups.rules import (
    committed_registers,
    fenced_commits,
    generations_back,
    lost_commits,
    skipped_records,
    two_owners,
)
from checkers.history import EventType, HistoryError, Operation, seconds
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, Status
from porcupine_py.search.outcome import Cancelled, never

NAME = "groups"
PROTOCOLS = ("classic", "consumer")
ANOMALIES_MAX = 50


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a protocol that there is not."""
    protocol = options.get("protocol")
    if protocol not in (None, *PROTOCOLS):
        raise ValueError(f"protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the group of a run."""
    operations = run.operations
    try:
        facts = facts_of(operations)
    except HistoryError as error:
        return _unknown(operations, f"nothing can be inferred: {error}")
    classic = options.get("protocol") != "consumer"
    registers = list(committed_registers(facts, cancelled, classic=classic))
    lost = sure = list(lost_commits(registers))
    if facts.unseen:
        known = facts.until(facts.unseen[0].invoke_ns)
        sure = list(lost_commits(committed_registers(known, cancelled, classic=classic)))
    wrong: list[Anomaly] = [
        *sure,
        *fenced_commits(facts, classic=classic),
        *(two_owners(facts) if classic else ()),
        *(generations_back(facts) if classic else ()),
        *skipped_records(facts),
    ]
    if cancelled():
        return _unknown(operations, "cancelled")
    doubts = [result.summary for result in registers if result.status is Status.UNKNOWN]
    if len(lost) > len(sure):
        doubts.append(
            f"{lost[0]['explanation']}; but the offsets of operation {facts.unseen[0].index}, a "
            "commit without an end, are not known"
        )
    return _result(operations, facts, wrong, doubts)


def _result(
    operations: Sequence[Operation],
    facts: GroupFacts,
    wrong: Sequence[Anomaly],
    doubts: Sequence[str],
) -> CheckResult:
    counts = Counter(str(found["kind"]) for found in wrong)
    done = sum(commit.is_ok for commit in facts.commits)
    generations = len({join.member.generation for join in facts.joins})
    zombies = [each for each in facts.refused if each.f == ZOMBIE_COMMIT]
    fenced = sum(each.output is not None for each in zombies)
    if wrong:
        counted = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        status, summary = Status.FAIL, f"{counted}; first: {wrong[0]['explanation']}"
    elif doubts:
        status, summary = Status.UNKNOWN, doubts[0]
    elif facts.last is None:
        status = Status.UNKNOWN
        summary = (
            f"{_standstill(operations)} ({JOIN_ALL}), so whether the last commits are kept is not "
            "known"
        )
    elif not done or generations < 2:
        status = Status.UNDER_EXERCISED
        summary = f"{done} commits were acknowledged in {generations} generations"
    elif facts.sent and not facts.processed_ns:
        status, summary = Status.UNDER_EXERCISED, "records were sent, and no member processed any"
    else:
        status = Status.PASS
        summary = (
            f"{done} commits in {generations} generations of {len(facts.last.partitions)} "
            f"partitions are kept, {len(facts.refused)} were refused ({fenced} of zombies), and "
            f"nothing is skipped ({len(facts.processed_ns)} records processed)"
        )
    return CheckResult(
        NAME,
        status,
        summary,
        algorithm="registers",
        operations=len(operations),
        anomalies=tuple(wrong[:ANOMALIES_MAX]),
        statistics={
            "anomalies_by_kind": dict(counts),
            "commits": done,
            "indeterminate": len(facts.commits) - done + len(facts.unseen),
            "refused": len(facts.refused),
            "zombies_refused": fenced,
            "generations": generations,
            "joins": len(facts.joins),
            "processed": len(facts.processed_ns),
        },
    )


def _standstill(operations: Sequence[Operation]) -> str:
    """Say how the last joins ended, of which none was by one member alone."""
    tried = [operation for operation in operations if operation.f == JOIN_ALL]
    if not tried or tried[-1].type is EventType.OK:
        return "nobody joined the group alone in the end"
    begin, end = seconds(tried[0].invoke_ns, 1), seconds(tried[-1].invoke_ns, 1)
    return (
        f"the group stood still in the end: none of {len(tried)} joins from {begin} to {end} made "
        f"one member its only one, the last ended in {tried[-1].error}"
    )


def _unknown(operations: Sequence[Operation], why: str) -> CheckResult:
    return CheckResult(NAME, Status.UNKNOWN, why, operations=len(operations))

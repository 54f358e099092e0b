"""The rules of check `groups`, which says what is promised, and why."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from checkers.groups.facts import Commit, GroupFacts, Join, Member
from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.linearizability import linearizable
from checkers.verdict import Anomaly, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled
from porcupine_py.values import show

_NONE_COMMITTED = -1


# -- committed offsets -----------------------------------------------------------------------------


def committed_registers(
    facts: GroupFacts, cancelled: Cancelled, *, classic: bool
) -> Iterator[CheckResult]:
    """Judge the committed offset of each partition as a register: commits write, joins read."""
    fences = _fences(facts.joins) if classic else {}
    commits = []
    for commit in facts.commits:
        end_ns = fences.get(commit.member.generation, INFINITY_NS)
        if commit.is_ok or end_ns >= commit.operation.invoke_ns:  # else it was refused
            commits.append((commit, end_ns))
    writers = Counter(each for commit, _ in commits for each in commit.offsets.items())
    shown = {each for join in facts.joins for each in join.committed.items()}
    registers: dict[str, list[Operation]] = {}
    for commit, end_ns in commits:
        operation = commit.operation
        for each in commit.offsets.items():
            access = _access("write", operation, *each)
            is_seen = end_ns < INFINITY_NS and writers[each] == 1 and each in shown
            if commit.is_ok or is_seen:
                done_ns = max(operation.invoke_ns, min(operation.complete_ns, end_ns))
                access = replace(access, type=EventType.OK, complete_ns=done_ns)
            registers.setdefault(each[0], []).append(access)
    for join in facts.joins:
        for partition, offset in join.committed.items():
            access = _access("read", join.operation, partition, offset)
            registers.setdefault(partition, []).append(access)
    options = {"model": "register", "initial": _NONE_COMMITTED}
    for accesses in registers.values():
        accesses.sort(key=lambda access: (access.invoke_ns, access.index))
        yield linearizable.check_key(accesses, options, cancelled)


def _fences(joins: Iterable[Join]) -> dict[int, int]:
    """Return when first somebody of a later generation had joined: no commit is done after that."""
    ends_ns: dict[int, int] = {}
    for join in joins:
        generation = join.member.generation
        end_ns = join.operation.complete_ns
        ends_ns[generation] = min(end_ns, ends_ns.get(generation, end_ns))
    found, soonest_ns = {}, INFINITY_NS
    for generation, end_ns in sorted(ends_ns.items(), reverse=True):
        found[generation] = soonest_ns
        soonest_ns = min(soonest_ns, end_ns)
    return found


def _access(f: str, of: Operation, partition: str, offset: int) -> Operation:
    return Operation(
        of.index,
        of.process,
        f,
        partition,
        offset if f == "write" else None,
        offset,
        of.type,
        of.invoke_ns,
        of.complete_ns,
        node=of.node,
    )


def lost_commits(results: Iterable[CheckResult]) -> Iterator[Anomaly]:
    """Say of each register that is not linearizable what was lost."""
    for result in results:
        for found in result.anomalies if result.status is Status.FAIL else ():
            what = (
                f"the committed offset of {result.key}, which commits write and joins read: "
                f"{found['explanation']}"
            )
            operations = sorted(each["index"] for each in found["window"])
            yield {
                "kind": "lost-commit",
                "explanation": what,
                "operations": operations,
                "key": result.key,
            }


# -- who has a partition ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Latest:
    """Of some joins, that of the highest generation which had ended by a time."""

    ends_ns: Sequence[int]
    highest: Sequence[Join]

    @classmethod
    def of(cls, joins: Iterable[Join]) -> _Latest:
        ordered = sorted(joins, key=lambda join: join.operation.complete_ns)
        highest = accumulate(ordered, partial(max, key=lambda join: join.member.generation))
        return cls([join.operation.complete_ns for join in ordered], list(highest))

    def before(self, time_ns: int) -> Join | None:
        """Return it; None: none had ended."""
        count = bisect_left(self.ends_ns, time_ns)
        return self.highest[count - 1] if count else None


def two_owners(facts: GroupFacts) -> Iterator[Anomaly]:
    """Find partitions that two members of one generation were given."""
    owners: dict[tuple[int, str], Join] = {}
    for join in facts.joins:
        for partition in join.partitions:
            other = owners.setdefault((join.member.generation, partition), join)
            if not other.member.is_same(join.member):
                what = (
                    f"in generation {join.member.generation} {partition} was given to "
                    f"{_name(other.member)} and to {_name(join.member)}"
                )
                yield anomaly("two-owners", what, other.operation, join.operation, key=partition)


def fenced_commits(facts: GroupFacts, *, classic: bool) -> Iterator[Anomaly]:
    """Find commits that were acknowledged in an old generation, or after a takeover."""
    by_partition: dict[str, list[Join]] = {}
    by_instance: dict[tuple[str | None, int], list[Join]] = {}
    for join in facts.joins:
        for partition in join.partitions:
            by_partition.setdefault(partition, []).append(join)
        by_instance.setdefault((join.member.instance_id, join.member.generation), []).append(join)
    latest = {partition: _Latest.of(joins) for partition, joins in by_partition.items()}
    anywhere = _Latest.of(facts.joins)
    for commit in facts.commits:
        if not commit.is_ok:
            continue
        began_ns, member = commit.operation.invoke_ns, commit.member
        successor = _successor(commit, by_instance) if member.instance_id is not None else None
        if classic:  # a generation is of the whole group, and an epoch of one member
            others = [anywhere.before(began_ns)]
        else:
            found = (latest[of].before(began_ns) for of in commit.offsets if of in latest)
            others = [other for other in found if other and not other.member.is_same(member)]
        later = (join for join in others if join and join.member.generation > member.generation)
        successor = successor or next(later, None)
        if successor is not None:
            what = (
                f"{_name(member)} committed {_offsets(commit)} at {seconds(began_ns)} (operation "
                f"{commit.operation.index}) and was acknowledged, after {_name(successor.member)} "
                f"had been given {', '.join(successor.partitions) or 'no partition'} at "
                f"{seconds(successor.operation.complete_ns)}"
            )
            yield anomaly("fenced-commit", what, commit.operation, successor.operation)


def _successor(
    commit: Commit, by_instance: dict[tuple[str | None, int], list[Join]]
) -> Join | None:
    """Return the join by which another took over a static member before it committed."""
    member = commit.member
    joins = by_instance.get((member.instance_id, member.generation), ())
    own_ns = max(
        (j.operation.complete_ns for j in joins if j.member.member_id == member.member_id),
        default=None,
    )
    if own_ns is None:
        return None
    return next(
        (
            join
            for join in joins
            if join.member.member_id != member.member_id
            and join.operation.invoke_ns > own_ns
            and join.operation.complete_ns < commit.operation.invoke_ns
        ),
        None,
    )


def generations_back(facts: GroupFacts) -> Iterator[Anomaly]:
    """Find joins of a generation below one that somebody was in before."""
    latest = _Latest.of(facts.joins)
    for join in facts.joins:
        other = latest.before(join.operation.invoke_ns)
        if other is not None and other.member.generation > join.member.generation:
            what = (
                f"{_name(join.member)} joined at {seconds(join.operation.invoke_ns)} (operation "
                f"{join.operation.index}), after {_name(other.member)} had joined"
            )
            yield anomaly("generation-back", what, other.operation, join.operation)


# -- what was processed ----------------------------------------------------------------------------


def skipped_records(facts: GroupFacts) -> Iterator[Anomaly]:
    """Find commits above a record that no member had processed: one for each partition."""
    found: set[str] = set()
    late = {
        partition: [
            *accumulate(
                (facts.processed_ns.get((partition, value), math.inf) for _, value, _ in records),
                max,
            )
        ]
        for partition, records in facts.sent.items()
    }
    offsets = {key: [offset for offset, _, _ in records] for key, records in facts.sent.items()}
    for commit in facts.commits:
        for partition, offset in commit.offsets.items() if commit.is_ok else ():
            count = bisect_left(offsets.get(partition, ()), offset)
            if partition in found or not count:
                continue
            began_ns = commit.operation.invoke_ns
            if late[partition][count - 1] <= began_ns:
                continue
            found.add(partition)
            at, value, send = next(
                record
                for record in facts.sent[partition]
                if facts.processed_ns.get((partition, record[1]), math.inf) > began_ns
            )
            what = (
                f"{_name(commit.member)} committed {offset} of {partition} (operation "
                f"{commit.operation.index}), and no member had processed {show(value)} at offset "
                f"{at}"
            )
            yield anomaly("skipped", what, send, commit.operation, key=partition)


def _name(member: Member) -> str:
    who = member.member_id if member.instance_id is None else f"static {member.instance_id}"
    return f"member {who} of generation {member.generation}"


def _offsets(commit: Commit) -> str:
    return ", ".join(f"{offset} of {key}" for key, offset in commit.offsets.items())

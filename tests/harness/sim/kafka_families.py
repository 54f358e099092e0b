"""Which finding of docs/findings a red run of Kafka's raft module is, by rules over its traces.

python -m tests.harness.sim.kafka_families runs/sim/.../failures/*.json

A line a plan: digest, verdict's property, family, evidence. Each rule asks for the cause in the
traces, not for the text of the violation alone; what fits none is "none", and has to be read.

| family | the violation is | and the traces show |
|---|---|---|
| removed-voter | `node-died`, "Unexpected acknowledgement from non-voter N" | N is not among the voters of the ended leader's log, and was |
| removed-candidate | `node-died`, "must be in the set of voters" | the node starts with its own vote, and is no voter of its log |
| removed-leader | `node-died`, "Expected to be Follower" | the node starts with a leader that is no voter of its log |
| empty-node | `node-died`, "Unknown leader endpoints" | the leader that it hears of is no voter of its log |
| lost-candidate | `node-died`, "unexpected invalid request" | the node starts as a candidate of an epoch in which it had followed |
| spinning-observer | `busy-poll` | the node is no voter of its log, and follows |
| stale-voters | what a quorum of other voters breaks | the node that leads or commits skipped a VotersRecord: it was appended below an end that the log had before it was cut |
| snapshot-without-voters | the same | that node made a snapshot at the offset of a VotersRecord, which it then cut |
| unsynced-start | `durable-fetch` | the process recovered all up to where it fetches, and appended nothing |
| leads-on | `leads-as-voter` | the node appended the VotersRecord without it as the leader |
| cut-to-snapshot | `node-died`, "have a last fetch epoch" | the node is cut to where its log began in an earlier process |
| deaf-voter | `liveness` | a node that is a voter in others' logs, not in its own, refuses PreVote to the end |
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.sim.play import Played, play
from tests.harness.sim.kafka_runs import digest
from tests.harness.sim.plans import read_plan

Line = tuple[int, str, Mapping[str, Any]]
"""Incarnation, event, fields."""

_OTHER_VOTERS = (
    *("elected-by-majority", "majority-durable", "node-died", "vote-once", "liveness"),
    *("one-voter-change", "leads-as-voter"),
)
_NONE = ("none", "to be read")


def lines(played: Played, node: str, until_ms: float = math.inf) -> list[Line]:
    """The trace of a node, up to a moment of the world."""
    events = played.backend.world.nodes[node].events
    return [(of, event, fields) for _, of, event, fields, now_ms in events if now_ms <= until_ms]


def voters_of(trace: list[Line]) -> Mapping[str, str]:
    """Voters of a node's log in the end."""
    found = [fields["voters"] for _, event, fields in trace if event == "voters"]
    return {f"n{voter}": directory for voter, directory in found[-1].items()} if found else {}


def skips(trace: list[Line]) -> Iterator[str]:
    """VotersRecords that the last incarnation appended below an end that its log once had."""
    incarnation = trace[-1][0] if trace else 0
    end = reached = 0  # of the log now; below which Kafka has looked for control records
    for of, event, fields in trace:
        if of != incarnation:
            continue
        if event == "recovered":
            end = reached = fields["end_offset"]
        elif event == "append":
            reached, end = max(reached, end), fields["last_offset"] + 1
        elif event == "truncate":
            reached, end = max(reached, end), fields["end_offset"]
        elif event == "truncate-fully":
            end = reached = fields["start_offset"]
        elif event == "voters" and 0 <= fields["offset"] < min(reached, end):
            yield f"record at {fields['offset']}, cut from {reached}"


def cuts_behind_snapshots(trace: list[Line]) -> Iterator[str]:
    """Snapshots at the offset of a VotersRecord that was cut later."""
    records: set[int] = set()
    made: set[int] = set()
    for _, event, fields in trace:
        if event == "voters":
            records.add(fields["offset"])
        elif event == "snapshot" and fields["offset"] in records:
            made.add(fields["offset"])
        elif event == "truncate":
            for offset in sorted(made):
                if offset >= fields["end_offset"]:
                    yield f"snapshot at {offset}, cut to {fields['end_offset']}"


def family(played: Played) -> tuple[str, str]:
    """Name the finding, and what shows it."""
    if not played.violations:
        return "-", "no violation"
    violation = played.violations[0]
    said, name = violation.explanation, violation.property
    traces = {node: lines(played, node) for node in played.backend.world.names}
    ended = said.split()[0]
    trace = traces.get(ended, [])
    voters = voters_of(trace)
    if name == "busy-poll":
        spin = max(played.backend.world.program.spins, key=lambda spin: spin.length_ms)
        trace = lines(played, spin.node, spin.began_ms)
        last = next((f for _, e, f in reversed(trace) if e == "state"), {})
        voters = voters_of(trace)
        if spin.node not in voters and last.get("state") == "Follower":
            return "spinning-observer", f"{spin.node} follows, voters {','.join(voters)}"
        return _NONE
    if match := re.search(r"Unexpected acknowledgement from non-voter (\d+)", said):
        other = f"n{match[1]}"
        before = any(e == "voters" and int(match[1]) in f["voters"] for _, e, f in trace)
        if other not in voters and before:
            return "removed-voter", f"{other} was removed, voters {','.join(voters)}"
        return _NONE
    if match := re.search(r"Unknown leader endpoints .* with leader \((\d+)\)", said):
        if f"n{match[1]}" not in voters:
            return "empty-node", f"leader n{match[1]}, voters {','.join(voters)}"
        return _NONE
    started = [f for _, e, f in trace if e == "state"]
    if "unexpected invalid request" in said:
        now = trace[-1][0]
        begun = next(f for of, e, f in trace if (of, e) == (now, "state"))
        before = [f["epoch"] for of, _, f in trace if of < now and f.get("state") == "Follower"]
        if begun["state"] == "Candidate" and begun["epoch"] in before:
            return "lost-candidate", f"{ended} is a candidate again in epoch {begun['epoch']}"
        return _NONE
    if "have a last fetch epoch" in said:
        now = trace[-1][0]
        begins = {f["offset"] for of, e, f in trace if of < now and e == "log-start"}
        cuts = [f["end_offset"] for of, e, f in trace if (of, e) == (now, "truncate")]
        if cuts and cuts[-1] in begins:
            return "cut-to-snapshot", f"{ended} is cut to {cuts[-1]}, where its log began"
        return _NONE
    if name == "leads-as-voter":
        offset = next(f["offset"] for _, e, f in reversed(trace) if e == "voters")
        led = [f["last_offset"] for _, e, f in trace if e == "append" and f["role"] == "leader"]
        if ended not in voters and offset in led:
            return "leads-on", f"{ended} appended its removal at {offset}"
    if "must be in the set of voters" in said and ended not in voters:
        return "removed-candidate", f"voters {','.join(voters)}"
    if "Expected to be Follower" in said:
        leader = started[-1]["leader_id"] if started else -1
        for node, other in traces.items():
            for what in cuts_behind_snapshots(other):
                return "snapshot-without-voters", f"{node}: {what}"
        if f"n{leader}" not in voters:
            return "removed-leader", f"leader n{leader}, voters {','.join(voters)}"
        return _NONE
    if name in _OTHER_VOTERS:
        for kind, signs in (
            ("stale-voters", skips),
            ("snapshot-without-voters", cuts_behind_snapshots),
        ):
            found = [f"{ended}: {what}" for what in signs(trace)]
            if found:
                return kind, "; ".join(found)
    if name == "durable-fetch":
        last = [(e, f) for of, e, f in trace if of == trace[-1][0]]
        end = next(f["end_offset"] for e, f in last if e == "recovered")
        fetched = next((f["offset"] for e, f in reversed(last) if e == "fetch"), None)
        if fetched == end and all(e != "append" for e, _ in last):
            return "unsynced-start", f"{ended} recovered {end}"
        return _NONE
    if name == "liveness":
        for node, other in traces.items():
            refused = [f for _, e, f in other[-200:] if e == "vote" and f["pre_vote"]]
            outside = node not in voters_of(other)
            known = any(node in voters_of(rest) for peer, rest in traces.items() if peer != node)
            if outside and known and refused and not any(f["granted"] for f in refused):
                return "deaf-voter", f"{node} refused {len(refused)} PreVotes"
    return _NONE


def main(paths: list[str]) -> None:
    """Print a line for each plan."""
    for path in paths:
        played = play(read_plan(Path(path)))
        kind, evidence = family(played)
        name = played.violations[0].property if played.violations else "-"
        sys.stdout.write(f"{Path(path).name} {digest(played)[:16]} {name} {kind}: {evidence}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""What is done to traces, and to the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from harness.plan.stored_document import derive
from tests.alterations.runs import NODES, Altered, Change, Row, write_json

LEADER, FOLLOWER, RESTARTED = "leader", "follower", "restarted"
ALL = "all"


def nodes_of(run: Altered, which: str) -> Iterable[str]:
    """Name the nodes that play a part in a run."""
    named = {LEADER: run.leader, FOLLOWER: lambda: run.followers()[-1], RESTARTED: run.restarted}
    return NODES if which == ALL else (named[which](),)


def trace(which: str, change: Callable[[list[Row]], list[Row] | None]) -> Change:
    """Change the traces of the nodes that play a part."""

    def act(run: Altered) -> None:
        for node in nodes_of(run, which):
            run.edit_trace(node, change)

    return act


def last(rows: list[Row], event: str, **fields: object) -> int:
    """Return the place of the last event of a name with these fields."""
    return max(
        i
        for i, row in enumerate(rows)
        if row["e"] == event and all(row.get(name) == value for name, value in fields.items())
    )


def nth(rows: list[Row], event: str, share: float = 0.5) -> int:
    """Return the place of an event of a name: the one behind such a share of them."""
    places = [i for i, row in enumerate(rows) if row["e"] == event]
    return places[int(len(places) * share)]


# -- time and lines --------------------------------------------------------------------------------


def times_swapped(rows: list[Row]) -> None:
    i = len(rows) // 2
    rows[i]["t"], rows[i + 1]["t"] = rows[i + 1]["t"], rows[i]["t"]


def lines_swapped(rows: list[Row]) -> None:
    i = nth(rows, "flush")
    rows[i], rows[i + 1] = rows[i + 1], rows[i]


def incarnation_earlier(rows: list[Row]) -> None:
    """The last process runs by times a minute back."""
    for row in rows:
        if row["n"] == rows[-1]["n"]:
            row["t"] -= 60_000_000_000


def end_gone(rows: list[Row]) -> list[Row]:
    return rows[: int(len(rows) * 0.6)]


def ends_gone_at_one_time(run: Altered) -> None:
    """All traces end where the same 60 % of the run were over."""
    times = [row["t"] for node in NODES for row in run.trace(node)]
    end = min(times) + int((max(times) - min(times)) * 0.6)
    for node in NODES:
        run.edit_trace(node, lambda rows: [row for row in rows if row["t"] < end])


def middle_gone(rows: list[Row]) -> list[Row]:
    third = len(rows) // 3
    return rows[:third] + rows[2 * third :]


def first_incarnation_gone(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["n"] > 0]


def first_incarnation_gone_and_renumbered(rows: list[Row]) -> list[Row]:
    return [{**row, "n": row["n"] - 1} for row in rows if row["n"] > 0]


def last_incarnation_gone(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["n"] < rows[-1]["n"]]


def start_gone(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not (row["e"] == "start" and row["n"] == rows[-1]["n"])]


def incarnations_merged(rows: list[Row]) -> list[Row]:
    """The last process is given out for the one before."""
    n = rows[-1]["n"]
    kept = [row for row in rows if not (row["e"] in ("start", "recovered") and row["n"] == n)]
    return [{**row, "n": min(row["n"], n - 1)} for row in kept]


def line_doubled(rows: list[Row]) -> list[Row]:
    i = nth(rows, "fetch")
    return [*rows[: i + 1], *rows[i:]]


def lines_doubled(rows: list[Row]) -> list[Row]:
    i = len(rows) // 2
    return [*rows[:i], *rows[i - 30 : i], *rows[i:]]


def append_doubled(rows: list[Row]) -> list[Row]:
    i = nth(rows, "append")
    return [*rows[: i + 1], {**rows[i], "t": rows[i]["t"] + 1}, *rows[i + 1 :]]


def without(*events: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [row for row in rows if row["e"] not in events]


def half_a_line(run: Altered) -> None:
    path = run.store.node_path("n1") / "trace.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    i = len(lines) // 2
    lines[i] = lines[i][:40] + b"\n"
    path.write_bytes(b"".join(lines))


def a_digit(run: Altered) -> None:
    path = run.store.node_path("n1") / "trace.jsonl"
    data = path.read_bytes()
    place = data.index(b'"offset":1') + 9
    path.write_bytes(data[:place] + b"2" + data[place + 1 :])


def raw_end_gone(run: Altered) -> None:
    """The end of a trace is gone, though the harness noted how long it was."""
    path = run.store.node_path(run.leader()) / "trace.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: int(len(lines) * 0.6)]))


# -- what events say -------------------------------------------------------------------------------


def restate(event: str, share: float | None = None, **fields: Any) -> Callable[[list[Row]], None]:
    """Let the last event of a name, or the one behind a share of them, say something else.

    Numbers are added to what it says.
    """

    def act(rows: list[Row]) -> None:
        row = rows[last(rows, event) if share is None else nth(rows, event, share)]
        for name, value in fields.items():
            row[name] = row[name] + value if type(value) is int else value

    return act


def ack_beyond_logs(rows: list[Row]) -> None:
    """The mark was announced, too."""
    i = last(rows, "ack")
    hw = {**rows[last(rows, "hw")], "t": rows[i]["t"] - 1}
    hw["offset"] += 100_000
    hw["replicas"] = {name: end + 100_000 for name, end in hw["replicas"].items()}
    rows[i]["offset"], rows[i]["high_watermark"] = hw["offset"] - 1, hw["offset"]
    rows.insert(i, hw)


def lacks_a_voter(rows: list[Row]) -> None:
    for row in rows:
        if row["e"] == "voters":
            row["voters"] = dict(list(row["voters"].items())[:-1])


def knows_one_voter_more(rows: list[Row]) -> None:
    for row in rows:
        if row["e"] == "voters":
            row["voters"] = {**row["voters"], "9": row["voters"]["1"]}


def counts_without_a_voter(rows: list[Row]) -> None:
    replicas = rows[last(rows, "hw", role="leader")]["replicas"]
    del replicas[min(replicas, key=lambda name: replicas[name])]


def counts_too_much(rows: list[Row]) -> None:
    """A follower is counted with more than it ever fetched."""
    replicas = rows[nth(rows, "hw")]["replicas"]
    replicas["2" if "2" in replicas else "3"] += 10_000


def cut_below_the_mark(rows: list[Row]) -> None:
    i = nth(rows, "hw", 0.8)
    cut = {"t": rows[i]["t"] + 1, "n": rows[i]["n"], "e": "truncate"}
    rows.insert(i + 1, {**cut, "end_offset": rows[i]["offset"] - 5, "epoch": rows[i]["epoch"]})


def leads_too(rows: list[Row]) -> None:
    """A follower says that it leads its epoch."""
    i = last(rows, "state", state="Follower")
    rows[i]["state"], rows[i]["leader_id"] = "Leader", rows[i]["leader_id"] % 3 + 1


def went_back_an_epoch(rows: list[Row]) -> None:
    i = len(rows) - 1
    state = {"t": rows[i]["t"] + 1, "n": rows[i]["n"], "e": "state", "state": "Unattached"}
    rows.append({**state, "epoch": 1, "leader_id": -1, "voted_id": -1})


def newer_snapshot(rows: list[Row]) -> None:
    """A snapshot is said to be on the disk that is not."""
    i = last(rows, "hw")
    taken = {**rows[last(rows, "snapshot")], "t": rows[i]["t"] + 1, "n": rows[i]["n"]}
    rows.insert(i + 1, {**taken, "offset": rows[i]["offset"]})


def votes_denied(rows: list[Row]) -> None:
    """Nobody voted in the last epoch, as votes and the states that carry them have it."""
    for row in rows:
        if row["e"] == "vote":
            row["granted"] = False
        if row["e"] == "state" and row["state"] not in ("Candidate", "Leader"):
            row["voted_id"] = -1


def process_without_a_fault(run: Altered) -> None:
    """The faults that ended processes are in neither journal nor plan."""
    rows = [
        row
        for row in run.history()
        if not (row["process"] == "nemesis" and row["f"] in ("kill", "restart"))
    ]
    run.put_history(rows)
    plan = run.store.plan()
    kept = [entry for entry in plan["schedule"] if entry["fault"] == "snapshot"]
    plan |= {"schedule": kept, "faults": ["snapshot"]}
    plan["expectations"] = {**plan["expectations"], "faults": ["snapshot"]}
    write_json(run.store.plan_path, {**plan, **derive(plan)})


def starts_say(**fields: object) -> Callable[[list[Row]], None]:
    """Every start says something else."""

    def act(rows: list[Row]) -> None:
        for row in rows:
            row.update(fields if row["e"] == "start" else {})

    return act


def read_before_the_mark(run: Altered) -> None:
    """A read's line names the last answer before it, though more was committed by then."""
    node = run.leader()
    origin, history = run.history()[0]["value"]["origin_ns"], run.history()
    asked = {}
    reads = []
    for row in history:
        if row["type"] == "invoke":
            asked[row["process"]] = row["time_ns"] + origin
        elif row["type"] == "ok" and row["f"] == "read" and row["node"] == node:
            reads.append((asked[row["process"]], row["time_ns"] + origin))
    rows = run.trace(node)
    times = [row["t"] for row in rows if row["e"] == "read"]
    written = {r["offset"] for r in run.rows(f"nodes/{node}/evidence/log.jsonl") if _is_cell(r)}
    answered, marks = -1, []
    for row in rows:
        if row["e"] == "hw":
            marks.append((row["t"], row["offset"]))
        since = {*range(answered + 1, row["offset"] + 1)} if row["e"] == "read" else written
        if row.get("query") and not written & since:
            during = [(begin, end) for begin, end in reads if begin <= row["t"] <= end]
            alone = len(during) == 1 and sum(during[0][0] <= t <= during[0][1] for t in times) == 1
            if alone and max(m for t, m in marks if t < during[0][0]) - 1 > answered:
                row["offset"] = answered
                break
        if row["e"] in ("read", "ack"):
            answered = max(answered, row["offset"])
    run.put_trace(node, rows)


def _is_cell(record: Row) -> bool:
    return record["kind"] == "ConfigRecord"


def served_while_dead(run: Altered) -> None:
    """A node traces on when the journal has seen it dead."""
    dead = next(
        row
        for row in run.history()
        if row["f"] == "kill" and "targets" in (row["value"] if row["process"] == "nemesis" else {})
    )
    (node,) = dead["value"]["targets"]
    origin = run.history()[0]["value"]["origin_ns"]
    rows = run.trace(node)
    place = next(i for i, row in enumerate(rows) if row["n"] == 1) - 1
    rows[place]["t"] = origin + dead["time_ns"] + 1_000_000
    run.put_trace(node, rows)


# -- the journal -----------------------------------------------------------------------------------


def _acked(rows: list[Row]) -> list[int]:
    """Places of the completions of acknowledged writes."""
    writes = ("write", "append", "increment")
    return [i for i, row in enumerate(rows) if row["f"] in writes and row["type"] == "ok"]


def _invocation(rows: list[Row], place: int) -> int:
    process = rows[place]["process"]
    return max(i for i in range(place) if rows[i]["process"] == process)


def ack_called_a_failure(run: Altered) -> None:
    rows = run.history()
    i = _acked(rows)[len(_acked(rows)) // 2]
    rows[i] |= {"type": "fail", "error": "not_controller"}
    run.put_history(rows)


def write_removed(run: Altered) -> None:
    """A write that nobody read is in no line."""
    rows = run.history()
    read = {json.dumps(r.get("value")) for r in rows if r["f"] == "read" and r["type"] == "ok"}
    places = [i for i in _acked(rows) if json.dumps(rows[i].get("value", -1)) not in read]
    place = places[-1]
    gone = {place, _invocation(rows, place)}
    run.put_history(row for i, row in enumerate(rows) if i not in gone)


def write_invented(run: Altered) -> None:
    """A write that nobody made was acknowledged, and overwritten before anybody read it."""
    rows = run.history()
    place = _acked(rows)[-2]
    pair = [dict(rows[_invocation(rows, place)]), dict(rows[place])]
    for i, row in enumerate(pair):
        row |= {"process": 900, "time_ns": rows[place]["time_ns"] - 2 + i}
        if "value" in row and isinstance(row["value"], str):
            row["value"] = "w8.1"
    run.put_history([*rows[:place], *pair, *rows[place:]])


def read_of_nobody(run: Altered) -> None:
    rows = run.history()
    i = max(
        i for i, r in enumerate(rows) if r["f"] == "read" and r["type"] == "ok" and r.get("value")
    )
    value = rows[i]["value"]
    rows[i]["value"] = {str: "w9.9", int: 10_000, list: ["w9.9"]}[type(value)]
    run.put_history(rows)


def reads_removed(run: Altered) -> None:
    """Nine of ten reads are in no line."""
    rows = run.history()
    reads = [
        i for i, row in enumerate(rows) if row["f"] == "read" and row["type"] in ("ok", "fail")
    ]
    gone = {i for n, i in enumerate(reads) if n % 10}
    gone |= {_invocation(rows, i) for i in gone}
    run.put_history(row for i, row in enumerate(rows) if i not in gone)


def nodes_of_completions_gone(run: Altered) -> None:
    rows = run.history()
    for row in rows:
        row.pop("node", None)
    run.put_history(rows)


def completed_late(run: Altered) -> None:
    """All completions come 12 s later, each operation of a process of its own."""
    rows = run.history()
    faults = [row for row in rows if row["process"] == "nemesis"]
    moved = []
    for i, row in enumerate(rows):
        if row["process"] != "nemesis" and row["type"] != "invoke":
            begun = rows[_invocation(rows, i)]
            moved.append({**begun, "process": 1_000 + i})
            late = row["time_ns"] + 12_000_000_000
            moved.append({**row, "process": 1_000 + i, "time_ns": late})
    last_ns = max(row["time_ns"] for row in moved)
    for row in faults:
        if row["f"] in ("final-reads", "evidence") or row["value"].get("name") in (
            "stop",
            "evidence",
        ):
            row["time_ns"] += max(0, last_ns - row["time_ns"]) + row["index"]
    run.put_history(sorted([*faults, *moved], key=lambda row: row["time_ns"]))


def journal_of_another_clock(run: Altered) -> None:
    rows = run.history()
    rows[0]["value"]["clock"] = "that of another host"
    run.put_history(rows)


def write_invoked_late(run: Altered) -> None:
    """A write that others of its key followed was invoked after the last of these had ended."""
    rows = run.history()
    acked = [i for i in _acked(rows) if rows[i].get("key") is not None]
    place = acked[len(acked) // 2]
    begun = rows.pop(_invocation(rows, place))
    done = rows.pop(place - 1)
    end = next(i for i, row in enumerate(rows) if row.get("value") == {"name": "heal"})
    since = rows[end - 1]["time_ns"]
    pair = [{**row, "process": 900, "time_ns": since + n} for n, row in enumerate((begun, done), 1)]
    run.put_history([*rows[:end], *pair, *rows[end:]])


def read_of_the_value_before(run: Altered) -> None:
    """A read began while the last write of its key was under way, and shows what was before it."""
    rows = run.history()
    by_key: dict[str, list[tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        if row["type"] != "invoke" and row["f"] in ("write", "read") and row.get("key"):
            by_key.setdefault(row["key"], []).append((_invocation(rows, i), i))
    for pairs in by_key.values():
        pairs.sort()
        for (_, a), (b, c), (d, e) in zip(pairs, pairs[1:], pairs[2:], strict=False):
            kinds = [rows[i]["f"] + rows[i]["type"] for i in (a, c, e)]
            apart = a < b and c < d and all(p[0] > e for p in pairs if p[0] > d)
            if kinds == ["writeok", "writeok", "readok"] and apart:
                before = rows[_invocation(rows, a)]["value"]
                begun = {**rows[d], "process": 900, "time_ns": rows[b]["time_ns"]}
                rows[e] |= {"process": 900, "value": before}
                rest = [row for i, row in enumerate(rows) if i != d]
                run.put_history([*rest[: b + 1], begun, *rest[b + 1 :]])
                return


def end_of_journal_gone(run: Altered) -> None:
    rows = run.history()
    run.put_history(rows[: int(len(rows) * 0.7)])


def answered_by_another(run: Altered) -> None:
    """An acknowledgement is said to have come from a follower."""
    rows = run.history()
    i = _acked(rows)[-1]
    rows[i]["node"] = next(node for node in NODES if node != rows[i]["node"])
    run.put_history(rows)


# -- the plan --------------------------------------------------------------------------------------


def plan_without(check: str) -> Change:
    def act(run: Altered) -> None:
        plan = run.store.plan()
        plan["checks"] = [spec for spec in plan["checks"] if spec["name"] != check]
        write_json(run.store.plan_path, plan)

    return act


def plan_of_another_workload(run: Altered) -> None:
    write_json(run.store.plan_path, {**run.store.plan(), "workload": "none-such"})


def plan_traces_nothing(run: Altered) -> None:
    plan = run.store.plan()
    for spec in plan["checks"]:
        if spec["name"] == "invariants":
            spec["options"] = {"traced": []}
    write_json(run.store.plan_path, plan)

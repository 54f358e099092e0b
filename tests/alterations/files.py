"""What is done to logs, snapshots, quorum-state files and final reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import NoOpRecord
from cluster.node.log.batch.control import LeaderChange, decode_control, encode_control
from cluster.node.log.batch.records import (
    Record,
    decode_records,
    encode_batch,
    iter_batches,
    parse_header,
    with_place,
)
from tests.alterations.runs import LOG, NODES, Altered, Change, Row, no_ops, replaced, write_json

# -- raw logs --------------------------------------------------------------------------------------


def flip(path: Path, position: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def start_of(run: Altered, node: str, number: int) -> int:
    """Return the byte at which a batch of a raw log begins."""
    batches = run.batches(node)
    return sum(map(len, batches[: number % len(batches)]))


def middle(run: Altered, node: str) -> int:
    return len(run.batches(node)) // 2


def bit_of_a_record(run: Altered) -> None:
    flip(run.log_file("n1"), start_of(run, "n1", middle(run, "n1")) + 66)


def bit_of_a_length(run: Altered) -> None:
    """The batch seems to reach beyond the end of the log."""
    flip(run.log_file("n2"), start_of(run, "n2", middle(run, "n2")) + 9, bit=4)


def bit_of_the_last_length(run: Altered) -> None:
    flip(run.log_file("n3"), start_of(run, "n3", -1) + 9, bit=4)


def decoded(change: Change, node: str) -> Change:
    """Do something to a raw log and decode it again."""

    def act(run: Altered) -> None:
        change(run)
        run.decode(node)

    return act


def raw_cut_at_a_batch(run: Altered) -> None:
    run.log_file("n1").write_bytes(b"".join(run.batches("n1")[:-5]))


def raw_cut_in_a_batch(run: Altered) -> None:
    path = run.log_file("n2")
    path.write_bytes(path.read_bytes()[:-7])


def raw_log_gone(run: Altered) -> None:
    run.log_file("n1").unlink()


def end_cut(*nodes: str) -> Change:
    """The last batches of logs are gone, as if they had never been written."""

    def act(run: Altered) -> None:
        for node in nodes:
            run.put_batches(node, run.batches(node)[:-8])

    return act


def torn_behind_the_end(run: Altered) -> None:
    """Half a batch stands behind the end, though all that was appended had been flushed."""
    path = run.log_file("n1")
    last = run.batches("n1")[-1]
    header = parse_header(last)
    more = with_place(last, header.next_offset, header.partition_leader_epoch)
    path.write_bytes(path.read_bytes() + more[: len(more) - 9])
    run.decode("n1")


def _text_in(batch: bytes) -> bytes | None:
    import re  # noqa: PLC0415

    found = re.search(rb"w[3-5]\.\d\d?|[3-5]:\d\d?(?![\d.])", batch[61:])
    return found[0] if found else None


def values_changed(*nodes: str, number: int | None = None) -> Change:
    """A value that a client wrote is another one, with the right checksum."""

    def act(run: Altered) -> None:
        batches = run.batches(NODES[0])
        held = [i for i, batch in enumerate(batches) if _text_in(batch)]
        place = held[len(held) // 2 if number is None else number]
        old = _text_in(batches[place])
        assert old is not None
        new = b"w9" + old[2:] if old[:1] == b"w" else b"9" + old[1:]
        for node in nodes:
            mine = run.batches(node)
            mine[place] = replaced(mine[place], old, new)
            run.put_batches(node, mine)

    return act


def made_nothing(*nodes: str) -> Change:
    """A record of a client became one of nothing: an acknowledged write is gone."""

    def act(run: Altered) -> None:
        place = _client_batch(run)
        for node in nodes:
            batches = run.batches(node)
            batches[place] = no_ops(batches[place])
            run.put_batches(node, batches)

    return act


def _client_batch(run: Altered) -> int:
    """Number of a batch that holds an acknowledged write, in the middle of the log."""
    records = run.rows("nodes/n1/evidence/log.jsonl")
    wanted = {"ConfigRecord", "PartitionRecord"}
    offsets = [
        row["offset"]
        for row in records
        if row["kind"] in wanted
        and ("kraftprobe" in json.dumps(row["value"]) or row["value"].get("partitionId", 0) > 0)
    ]
    offset = offsets[len(offsets) // 2]
    headers = [parse_header(batch) for batch in run.batches("n1")]
    return next(i for i, h in enumerate(headers) if h.base_offset <= offset <= h.last_offset)


def writes_swapped(run: Altered) -> None:
    """The last two batches of one register change places in all logs."""
    rows = run.rows("nodes/n1/evidence/log.jsonl")
    config = [row for row in rows if row["kind"] == "ConfigRecord"]
    config = [row for row in config if "register" in row["value"]["name"]]
    alone = {row["batch_crc"]: 0 for row in config}
    for row in rows:
        if row["batch_crc"] in alone:
            alone[row["batch_crc"]] += 1
    single = [row for row in config if alone[row["batch_crc"]] == 1]
    by_name: dict[str, list[int]] = {}
    for row in config:
        by_name.setdefault(row["value"]["name"], []).append(row["offset"])
    singles = {row["offset"] for row in single}
    name = next(n for n, at in sorted(by_name.items()) if {*at[-2:]} <= singles and len(at) > 1)
    first, second = by_name[name][-2:]
    for node in NODES:
        batches = run.batches(node)
        at = {parse_header(batch).base_offset: i for i, batch in enumerate(batches)}
        one, other = batches[at[first]], batches[at[second]]
        epochs = [parse_header(batch).partition_leader_epoch for batch in (one, other)]
        batches[at[first]] = with_place(other, first, epochs[0])
        batches[at[second]] = with_place(one, second, epochs[1])
        run.put_batches(node, batches)


def epoch_changed(run: Altered) -> None:
    batches = run.batches("n1")
    place = len(batches) // 2
    header = parse_header(batches[place])
    epoch = header.partition_leader_epoch + 1
    batches[place] = with_place(batches[place], header.base_offset, epoch)
    run.put_batches("n1", batches)


def vote_named(run: Altered) -> None:
    """A leader names the vote of a voter that gave it to nobody in its epoch."""
    for node in NODES:
        batches = run.batches(node)
        ((header, _),) = iter_batches(batches[0])
        change = decode_control(decode_records(batches[0])[0])
        assert isinstance(change, LeaderChange), "the first record names the first leader"
        more = replace(change, granting_voters=change.voters)
        record = encode_control(more)
        batches[0] = encode_batch(
            header.base_offset,
            header.partition_leader_epoch,
            [record],
            header.base_timestamp_ms,
            control=True,
        )
        run.put_batches(node, batches)


def record_added(*nodes: str) -> Change:
    """A batch that nobody sent stands at the end of logs."""

    def act(run: Altered) -> None:
        for node in nodes:
            batches = run.batches(node)
            header = parse_header(batches[-1])
            nothing = [Record(encode_record(NoOpRecord()))]
            epoch, time_ms = header.partition_leader_epoch, header.max_timestamp_ms
            batches.append(encode_batch(header.next_offset, epoch, nothing, time_ms))
            run.put_batches(node, batches)

    return act


# -- stored decodes --------------------------------------------------------------------------------


def stored_values_changed(run: Altered) -> None:
    for node in NODES:

        def change(rows: list[Row]) -> None:
            held = [r for r in rows if r["kind"] in ("ConfigRecord", "PartitionRecord")]
            value = held[len(held) // 2]["value"]
            name = "value" if "value" in value else "leaderEpoch"
            value[name] = "w9.9" if name == "value" else value[name] + 1

        run.edit_rows(f"nodes/{node}/evidence/log.jsonl", change)


def stored_log_cut(run: Altered) -> None:
    run.edit_rows("nodes/n1/evidence/log.jsonl", lambda rows: rows[:-6])
    end = run.rows("nodes/n1/evidence/log.jsonl")[-1]["offset"] + 1
    run.edit_rows(
        "nodes/n1/evidence/quorum-state.json", lambda rows: [{**rows[0], "logEndOffset": end}]
    )


def gone(name: str) -> Change:
    return lambda run: (run.store.folder / name).unlink()


def read_of_another(run: Altered) -> None:
    """What one node served in the end lies there as what another one did."""
    run.put_rows("nodes/n2/evidence/state.jsonl", run.rows("nodes/n1/evidence/state.jsonl"))


# -- snapshots -------------------------------------------------------------------------------------


def snapshot_gone(run: Altered) -> None:
    run.snapshot_file("n2").unlink()
    run.decode("n2")


def snapshot_changed(run: Altered) -> None:
    path = run.snapshot_file("n1")
    batches = [batch for _, batch in iter_batches(path.read_bytes())]
    place = next(i for i, b in enumerate(batches) if _text_in(b) or (b"p0" in b and i > 0))
    old = _text_in(batches[place]) or b"p0"
    new = bytes([old[0]]) + bytes([old[1] ^ 1]) + old[2:]
    batches[place] = replaced(batches[place], old, new)
    path.write_bytes(b"".join(batches))
    run.decode("n1")


def bit_of_a_snapshot(run: Altered) -> None:
    path = run.snapshot_file("n3")
    flip(path, path.stat().st_size // 2)


def stored_snapshot_record_gone(run: Altered) -> None:
    run.edit_rows(
        "nodes/n1/evidence/snapshots.jsonl",
        lambda rows: [{**row, "records": row["records"][:-2]} for row in rows],
    )


def snapshot_beside(run: Altered) -> None:
    """A snapshot of another node lies there under a name further on."""
    path = run.snapshot_file("n1")
    offset, _, epoch = path.name.partition("-")
    path.with_name(f"{int(offset) + 3:020d}-{epoch}").write_bytes(path.read_bytes())
    run.decode("n1")


# -- final reads -----------------------------------------------------------------------------------


def read_changed(change: Callable[[Row], None], *nodes: str) -> Change:
    def act(run: Altered) -> None:
        for node in nodes:
            read = run.final_read(node)
            change(read)
            run.put_final_read(node, read)

    return act


def cells(read: Row) -> Row:
    return read["configs"]["broker:"]


def a_cell(read: Row) -> str:
    return max(name for name in cells(read) if "register" in name or "list" in name)


def a_topic(read: Row) -> Row:
    return max(
        (t for t in read["topics"].items() if t[0].startswith("p")),
        key=lambda t: t[1]["partitions"],
    )[1]


def element_missing(read: Row) -> None:
    """One acknowledged element less: of a list the last, of a topic a partition."""
    if any("list" in name for name in cells(read)):
        name = a_cell(read)
        cells(read)[name] = cells(read)[name].rpartition(",")[0]
    elif any("register" in name for name in cells(read)):
        del cells(read)[a_cell(read)]
    else:
        a_topic(read)["partitions"] -= 1


def element_in_the_middle_missing(read: Row) -> None:
    name = a_cell(read)
    first, *rest = cells(read)[name].split(",")
    cells(read)[name] = ",".join([first, *rest[1:]])


def elements_swapped(read: Row) -> None:
    name = a_cell(read)
    parts = cells(read)[name].split(",")
    cells(read)[name] = ",".join([parts[1], parts[0], *parts[2:]])


def element_of_nobody(read: Row) -> None:
    if any("list" in name for name in cells(read)):
        cells(read)[a_cell(read)] += ",w9.9"
    elif any("register" in name for name in cells(read)):
        cells(read)[a_cell(read)] = "w9.9"
    else:
        a_topic(read)["partitions"] += 1


def sentinel_gone(read: Row) -> None:
    del cells(read)["kraftprobe.sentinel.1"]


def config_of_nobody(read: Row) -> None:
    cells(read)["log.cleaner.threads"] = "7"


def other_topic_id(read: Row) -> None:
    a_topic(read)["id"] = "11111111-2222-3333-4444-555555555555"


def topic_of_nobody(read: Row) -> None:
    read["topics"]["stranger"] = {"id": "11111111-2222-3333-4444-555555555555", "partitions": 1}


def topic_missing(read: Row) -> None:
    del read["topics"][min(read["topics"])]


def mark_above_all(read: Row) -> None:
    read["high_watermark"] += 10_000


# -- quorum states ---------------------------------------------------------------------------------


def quorum_state(node: str, **changes: object) -> Change:
    """Change a node's quorum-state file, as it lies on its disk, and decode it."""

    def act(run: Altered) -> None:
        path = run.store.node_path(node) / LOG / "quorum-state"
        state = json.loads(path.read_text())
        for name, change in changes.items():
            state[name] = change(state[name]) if callable(change) else change
        write_json(path, state)
        run.decode(node)

    return act


def with_other_vote(run: Altered) -> None:
    """A voter has voted for another candidate than it traced."""
    node, candidate = _voter(run)
    other = next(i for i in (1, 2, 3) if i not in (candidate, int(node[1:])))
    quorum_state(node, votedId=other)(run)


def without_vote(run: Altered) -> None:
    """A voter has forgotten its vote."""
    quorum_state(_voter(run)[0], votedId=-1)(run)


def with_other_leader(run: Altered) -> None:
    """A follower follows the other follower."""
    node, other = run.followers()
    quorum_state(node, leaderId=int(other[1:]))(run)


def _voter(run: Altered) -> tuple[str, int]:
    """Name a voter of the last epoch, and its candidate."""
    for node in NODES:
        votes = [
            r for r in run.trace(node) if r["e"] == "vote" and r["granted"] and not r["pre_vote"]
        ]
        path = run.store.node_path(node) / LOG / "quorum-state"
        if votes and votes[-1]["epoch"] == json.loads(path.read_text())["leaderEpoch"]:
            return node, votes[-1]["candidate_id"]
    raise AssertionError("no voter voted in the last epoch")

"""The node's own trace writer and the pipeline's own reader, on files that kills and bits damaged."""

import random

import pytest

from cluster.node.runtime import trace as trace_module
from cluster.node.runtime.trace import JsonLinesTrace
from results.store.evidence_files import load_evidence


def read(folder):
    """What the pipeline reads of node n1: its events as (incarnation, event), and the problems."""
    loaded = load_evidence(folder, ["n1"])
    events = loaded.evidence.traces.get("n1", ())
    return [(event.incarnation, event.event) for event in events], loaded.problems


def live(path, *events):
    """One process of a node, which ends without a last event."""
    trace = JsonLinesTrace(path)
    trace("start", node_id=1)
    for event in events:
        trace(event, offset=7, epoch=1)
    trace.close()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "n1").mkdir()
    return tmp_path / "n1" / "trace.jsonl"


def tear(path, size):
    path.write_bytes(path.read_bytes()[:size])


def last_line_begins(path):
    return path.read_bytes().rstrip(b"\n").rfind(b"\n") + 1


def test_a_last_line_torn_at_any_byte_costs_that_line_alone(tmp_path, path):
    live(path, "append", "flush")
    whole = path.read_bytes()
    for size in range(last_line_begins(path), len(whole) + 1):
        path.write_bytes(whole[:size])
        kept = [(0, "start"), (0, "append"), (0, "flush")][: 3 if size >= len(whole) - 1 else 2]
        assert read(tmp_path) == (kept, ())
        live(path, "hw")
        assert read(tmp_path) == ([*kept, (1, "start"), (1, "hw")], ())


def test_several_incarnations_may_each_be_torn(tmp_path, path):
    draw = random.Random(4)
    for _ in range(100):
        path.unlink(missing_ok=True)
        for _ in range(4):
            live(path, *["hw"] * draw.randrange(3))
            tear(path, draw.randrange(last_line_begins(path), path.stat().st_size + 1))
        live(path, "hw")
        events, problems = read(tmp_path)
        assert problems == ()
        assert events[-1][1] == "hw"
        assert events == sorted(events, key=lambda event: event[0])


def test_a_start_that_was_torn_is_followed_by_the_next(tmp_path, path):
    live(path, "hw")
    size = path.stat().st_size
    live(path)
    tear(path, size + 9)
    live(path)
    assert read(tmp_path) == ([(0, "start"), (0, "hw"), (1, "start")], ())


def test_a_line_for_which_there_was_no_room_is_ended_before_the_fatal_one(
    tmp_path, path, monkeypatch
):
    trace = JsonLinesTrace(path)
    trace("start", node_id=1)
    write = trace_module.os.write
    monkeypatch.setattr(trace_module.os, "write", lambda fd, data: write(fd, data[:20]))
    with pytest.raises(OSError, match="20 of"):
        trace("append", base_offset=1)
    monkeypatch.undo()
    trace("fatal", reason="OSError: 20 of 80 bytes written")
    assert read(tmp_path) == ([(0, "start"), (0, "fatal")], ())


def test_half_a_line_in_the_middle_is_damage(tmp_path, path):
    live(path, "append", "flush", "hw")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1][:25] + b"\n", *lines[2:]]))
    assert read(tmp_path)[0] == []
    (problem,) = read(tmp_path)[1]
    assert "line 2: half a line" in problem


def test_what_is_no_line_before_a_start_is_damage_unless_a_line_began_so(tmp_path, path):
    live(path, "hw")
    whole = path.read_bytes()
    path.write_bytes(whole + b"garbage\n")
    live(path)
    assert "line 3: " in read(tmp_path)[1][0]


@pytest.mark.slow
def test_no_flipped_bit_changes_what_a_trace_says(tmp_path, path):
    """A flip is damage, or hits the name of a checksum, or what ends a file, and changes nothing."""
    live(path, "append", "flush")
    live(path, "hw")
    whole = path.read_bytes()
    before = load_evidence(tmp_path, ["n1"]).evidence.traces["n1"]
    for position in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            path.write_bytes(changed)
            loaded = load_evidence(tmp_path, ["n1"])
            if not loaded.problems:
                left = loaded.evidence.traces["n1"]
                fields = [{**event.fields, "crc": None} for event in left]
                assert [(e.incarnation, e.time_ns, e.event) for e in left] == [
                    (e.incarnation, e.time_ns, e.event) for e in before
                ]
                assert all(
                    event.fields.items() <= field.items()
                    for event, field in zip(before, fields, strict=True)
                )

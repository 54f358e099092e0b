"""`log dump` and `snapshot dump`."""

import json
import shutil
import uuid

import pytest

from cluster.client.batches import batch_of
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import TopicRecord
from cluster.node.log.batch.control import LeaderChange, encode_control
from cluster.node.log.batch.records import (
    SEQUENCE_MAX,
    Record,
    Sequenced,
    encode_batch,
    with_base_offset,
)
from cluster.node.log.metadata.snapshot import SnapshotEncoder, snapshot_name
from cluster.node.log.types import OffsetAndEpoch
from harness.cli import main

TOPIC = encode_record(TopicRecord(name="a\n\u2028", topic_id=uuid.UUID(int=1)))
ID = OffsetAndEpoch(20, 3)


def ran(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, [json.loads(line) for line in out.splitlines()], err.splitlines()


@pytest.fixture
def folder(tmp_path):
    change = encode_control(LeaderChange(1, (1, 2, 3), (1, 2)))
    first = encode_batch(7, 3, [change], 1_000, control=True)
    (tmp_path / f"{7:020d}.log").write_bytes(first)
    (tmp_path / f"{8:020d}.log").write_bytes(encode_batch(8, 3, [Record(TOPIC)] * 2, 2_000))
    return tmp_path


def test_a_log_that_begins_above_zero_is_printed_record_by_record(folder, capsys):
    code, lines, err = ran(capsys, "log", "dump", folder)
    assert (code, err) == (0, [])
    assert [(line["offset"], line["epoch"]) for line in lines] == [(7, 3), (8, 3), (9, 3)]
    assert lines[0]["kind"] == "control:LEADER_CHANGE"
    assert lines[1]["value"]["name"] == "a\n\u2028"
    assert lines[1]["timestampMs"] == 2_000


def test_damage_is_reported_after_the_intact_records(folder, capsys):
    path = folder / f"{8:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    code, lines, [error] = ran(capsys, "log", "dump", folder)
    assert (code, [line["offset"] for line in lines]) == (2, [7])
    assert f"{path}: byte 0, offset 8: CRC is" in error


def test_a_missing_segment_is_reported(folder, capsys):
    (folder / f"{8:020d}.log").rename(folder / f"{9:020d}.log")
    code, _, [error] = ran(capsys, "log", "dump", folder)
    assert code == 2
    assert "begins at offset 9, not 8" in error


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_a_log_is_one_line(tmp_path, capsys, name):
    code, lines, err = ran(capsys, "log", "dump", tmp_path / name)
    assert (code, lines, len(err)) == (2, [], 1)


def snapshot_bytes():
    encoder = SnapshotEncoder(ID, 5_000)
    return encoder.header() + encoder.records([TOPIC]) + encoder.footer()


def test_a_snapshot_is_printed_with_header_and_footer(tmp_path, capsys):
    path = tmp_path / snapshot_name(ID)
    path.write_bytes(snapshot_bytes())
    code, lines, err = ran(capsys, "snapshot", "dump", path)
    assert (code, err) == (0, [])
    kinds = [line["kind"] for line in lines]
    assert kinds == ["control:SNAPSHOT_HEADER", "TopicRecord", "control:SNAPSHOT_FOOTER"]
    assert lines[0]["value"] == {"lastContainedLogTimestampMs": 5_000}


@pytest.mark.parametrize("cut", [0, 1, 70, -1])
def test_a_snapshot_that_is_cut_off_is_one_line(tmp_path, capsys, cut):
    path = tmp_path / snapshot_name(ID)
    path.write_bytes(snapshot_bytes()[:cut])
    code, lines, [error] = ran(capsys, "snapshot", "dump", path)
    assert (code, lines) == (2, [])
    assert str(path) in error


@pytest.mark.parametrize("name", [snapshot_name(ID), "snapshot"])
def test_what_is_no_snapshot_is_one_line(tmp_path, capsys, name):
    code, _, [error] = ran(capsys, "snapshot", "dump", tmp_path / name)
    assert code == 2
    assert name in error


def test_all_logs_below_a_folder_are_printed_and_each_line_names_its_log(folder, capsys):
    logs = [folder / "run" / node / "log-0" for node in ("n1", "n2")]
    for copy in logs:
        copy.mkdir(parents=True)
        for segment in folder.glob("*.log"):
            shutil.copy(segment, copy)
    code, lines, err = ran(capsys, "log", "dump", folder / "run")
    assert (code, err) == (0, [])
    assert [line["log"] for line in lines] == [str(log) for log in logs for _ in "abc"]
    assert ran(capsys, "log", "dump", *logs)[1] == lines


def test_a_damaged_log_does_not_stop_the_others(folder, capsys):
    other = folder.with_name("zother")
    shutil.copytree(folder, other)
    (folder / f"{8:020d}.log").write_bytes(b"x" * 100)
    code, lines, [error] = ran(capsys, "log", "dump", folder, other)
    assert code == 2
    assert [line["log"] for line in lines] == [str(folder), *[str(other)] * 3]
    assert str(folder) in error


def test_snapshots_are_printed_one_after_the_other(tmp_path, capsys):
    paths = [tmp_path / n / snapshot_name(ID) for n in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(snapshot_bytes())
    code, lines, err = ran(capsys, "snapshot", "dump", *paths, tmp_path / "missing")
    assert (code, len(err)) == (2, 1)
    assert [line["snapshot"] for line in lines] == [str(p) for p in paths for _ in "abc"]


def test_a_log_of_data_is_printed_with_producers_and_texts(tmp_path, capsys):
    log = tmp_path / "d0-3"
    log.mkdir()
    known = batch_of(["a", "b"], 7, Sequenced(4000, 1, SEQUENCE_MAX))
    plain = with_base_offset(encode_batch(0, 2, [Record(b"\xff", b"k")], 8), 2)
    (log / f"{0:020d}.log").write_bytes(known)
    (log / f"{2:020d}.log").write_bytes(plain)
    code, lines, err = ran(capsys, "log", "dump", log)
    assert (code, err) == (0, [])
    first, second, third = lines
    assert (first["value"], first["producerId"], first["producerEpoch"]) == ("a", 4000, 1)
    assert (first["sequence"], second["sequence"]) == (SEQUENCE_MAX, 0)
    assert (third["key"], third["valueHex"], third["epoch"]) == ("k", "ff", 2)
    assert "producerId" not in third


def test_logs_of_data_may_have_gaps_but_never_go_back(tmp_path, capsys):
    log = tmp_path / "d0-3"
    log.mkdir()
    (log / f"{0:020d}.log").write_bytes(
        batch_of(["a"], 0) + with_base_offset(batch_of(["b"], 0), 5)
    )
    code, lines, _ = ran(capsys, "log", "dump", log)
    assert (code, [line["offset"] for line in lines]) == (0, [0, 5])
    (log / f"{3:020d}.log").write_bytes(with_base_offset(batch_of(["b"], 0), 3))
    code, _, [error] = ran(capsys, "log", "dump", log)
    assert (code, "begins at offset 3, not 6" in error) == (2, True)

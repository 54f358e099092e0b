"""The disk of the harness is full: the error says so, no node is blamed, no verdict is made up."""

import errno
import os
import shutil
from importlib import import_module
from types import SimpleNamespace

import pytest

from checkers.history import NEMESIS, Event, EventType
from checkers.verdict import Status
from harness.run import run_to_verdict
from harness.run.recorder import Recorder
from results.store import files, journal
from results.store.journal import JournalWriter, read_journal
from tests.checkers.evidence.run_evidence import NODES, good_run, good_trace, judged, trace
from tests.command_line import kraftprobe
from tests.harness.world import Journal
from tests.results.factory import make_run

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_disk(monkeypatch, module, room_bytes):
    """Give all that a module writes `room_bytes` of room, and then none."""
    left = room_bytes

    def write(fd, data):
        nonlocal left
        taken = min(left, len(data))
        if not taken:
            raise FULL
        left -= taken
        return os.write(fd, data[:taken])

    known = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    monkeypatch.setattr(module, "os", SimpleNamespace(**{**known, "write": write}))


def event(index):
    return Event(index, index, 0, EventType.INVOKE, "read")


def test_a_journal_without_room_says_so_again_and_again(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    full_disk(monkeypatch, journal, 100)
    writer = JournalWriter(path)
    writer.append(event(0))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left") as raised:
            writer.append(event(1))
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == str(path)
    writer.close()
    events, dropped_bytes = read_journal(path)
    assert (len(events), dropped_bytes) == (1, 100 - len(path.read_bytes().splitlines()[0]) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("room_bytes", [0, 60, 40_000, 100_000])
def test_a_run_whose_journal_has_no_room_is_aborted_and_blames_no_node(
    tmp_path, monkeypatch, room_bytes
):
    full_disk(monkeypatch, journal, room_bytes)
    arguments = ["--backend", "sim", "--duration", "12", "--seed", "3", "--faults", "kill"]
    ran = kraftprobe("run", *arguments, "--runs", tmp_path)
    monkeypatch.undo()
    (folder,) = (path.parent for path in tmp_path.glob("*/*/plan.json"))
    error = ran.stderr.splitlines()[-1]
    assert ran.exit_code == 2, ran.output
    assert "Traceback" not in ran.output
    assert f"{folder}/history.jsonl: No space left" in error
    assert "nodes are not to" in error
    assert error.endswith(f"kraftprobe check {folder}")
    assert not (folder / "results.json").exists()
    checked = kraftprobe("check", folder)
    assert checked.exit_code == 3, checked.output
    assert "journal" in checked.output


def unwritable(name):
    """Let the writing of one file fail for want of room."""
    write = files.write_atomically

    def refuse(path, data):
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, data)

    return refuse


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["certificates.jsonl", "results.json", "junit.xml", "report.html", "history.parquet"]
)
def test_a_judgement_that_cannot_be_stored_is_no_verdict(tmp_path, monkeypatch, name):
    store = make_run(tmp_path, duration_s=6)
    if name == "history.parquet":
        monkeypatch.setattr("results.judge.pipeline.write_tables", _no_tables)
    refuse = unwritable(name)
    modules = (
        *("store.files", "store.run_store", "judge.check_results", "judge.pipeline"),
        *("report.junit", "report.page"),
    )
    for module in [import_module(f"results.{name}") for name in modules]:  # all, then patch any
        monkeypatch.setattr(module, "write_atomically", refuse, raising=False)
    checked = kraftprobe("check", store.folder)
    assert (checked.exit_code, checked.stdout) == (2, "")
    (line,) = checked.stderr.splitlines()
    assert "(ENOSPC): the judgement" in line
    assert "there is no verdict" in line
    assert line.endswith(f": kraftprobe check {store.folder}")
    monkeypatch.undo()
    assert not store.results_path.exists()
    again = kraftprobe("check", store.folder)
    assert again.exit_code == 0, again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("stale", "code"), [(0, 2), (3, 1)])
def test_a_gate_without_room_to_judge_again_has_no_verdict_but_a_fail(
    tmp_path, monkeypatch, stale, code
):
    store = make_run(tmp_path, duration_s=6, stale_reads=stale)
    kraftprobe("check", store.folder)
    monkeypatch.setattr("harness.policy.gate.made_anew", _no_tables)
    gated = kraftprobe("gate", "--judge-again", "--no-canary", "--allow-no-faults", store.folder)
    assert gated.exit_code == code, gated.output
    assert "No space left" in gated.output


def _no_tables(*_, **__):
    """Fail as Arrow does."""
    message = "[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"
    raise OSError(errno.ENOSPC, message)


@pytest.mark.parametrize(("free_bytes", "noted"), [(4096, True), (1 << 40, False)])
def test_a_death_on_a_full_disk_is_noted_as_such(tmp_path, monkeypatch, free_bytes, noted):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    written = Journal()
    recorder = Recorder(written, lambda: 1.0)
    recorder.listen(run_to_verdict._NoteNoSpace(recorder, tmp_path))
    recorder.note("crash", {"node": "n2", "exit_code": 1}, EventType.INFO)
    operations = [event.f for event in written.events]
    assert operations == (["crash", "no-space"] if noted else ["crash"])


@pytest.mark.parametrize(
    ("reason", "full", "status"),
    [
        ("OSError: [Errno 28] No space left on device", True, Status.UNKNOWN),
        ("OSError: [Errno 28] No space left on device", False, Status.FAIL),
        ("AssertionError: epoch 3 after 4", True, Status.FAIL),
    ],
)
def test_a_node_that_shares_a_full_disk_with_the_harness_is_not_to_blame(reason, full, status):
    events = [Event(0, 1, NEMESIS, EventType.INFO, "crash", None, {"node": "n2", "exit_code": 1})]
    if full:
        events.append(Event(1, 1, NEMESIS, EventType.INFO, "no-space", None, {"free_bytes": 0}))
    traces = {node: good_trace(node) for node in NODES}
    traces["n2"] += trace("n2", ("fatal", {"reason": reason}))
    assert judged(good_run(events=events, traces=traces), "log-agreement")[0] is status


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--seed", "1", "--duration", "1"), ("--seeds", "0..2", "--duration", "1")]
)
def test_a_simulation_without_room_names_its_folder(tmp_path, monkeypatch, arguments):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as the system's: no file's name

    monkeypatch.setattr("harness.sim.runner.story_of", refuse)
    monkeypatch.setattr("harness.sim.batch.batch.Batch.finish", refuse)
    ran = kraftprobe("sim", *arguments, "--out", tmp_path / "out")
    assert ran.exit_code == 2
    (line,) = ran.stderr.splitlines()[-1:]
    assert f"{tmp_path / 'out'}: No space left" in line


def refuse(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("folder", "code"), [(".", errno.ENOSPC), ("missing", errno.ENOENT)])
def test_a_small_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, folder, code):
    monkeypatch.setattr(files.os, "fsync", refuse)
    path = tmp_path / folder / "a.json"
    with pytest.raises(OSError, match=os.strerror(code)) as raised:
        files.write_atomically(path, b"{}")
    assert raised.value.filename == str(path)


@pytest.mark.parametrize(("load", "starved"), [(2.5, False), (9.0, True)])
def test_a_starved_machine_is_named_with_its_load(monkeypatch, load, starved):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert ("9.0 processes wanted its 2 processors" in run_to_verdict.starvation()) is starved

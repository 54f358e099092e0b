"""Decoding the logs of stopped nodes: a torn tail is cut off, damage is refused."""

import json
import shutil
from contextlib import nullcontext

import pytest

from checkers.verdict import Status
from cluster.node.log.batch.records import Record, encode_batch
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, encode_recovery_point
from cluster.node.log.storage.epoch_cache import EPOCH_FILE, EpochEntry, LeaderEpochCache
from cluster.node.runtime.trace import encode_line
from cluster.systems.kafka.kafka_system import KafkaLayout
from cluster.systems.kraft import KraftSystem
from harness.evidence import node_disks
from harness.evidence.node_disks import EvidenceError, decode_log
from harness.evidence.recomputation import made_anew
from harness.plan.strands import Step, Strand
from harness.sim.runner import run_stored
from results.judge.pipeline import judge
from results.store.run_store import RunStore
from tests.harness.sim.plans import sim_plan

FOLDER = "__cluster_metadata-0"
BATCHES = [encode_batch(0, 1, [Record(b"a")], 5), encode_batch(1, 1, [Record(b"b")] * 2, 5)]
BATCHES.append(encode_batch(3, 2, [Record(b"c" * 9)], 5))
WHOLE = b"".join(BATCHES)


@pytest.fixture
def folder(tmp_path):
    """A log of three batches; the first two lie below the recovery point."""
    path = tmp_path / FOLDER
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(WHOLE)
    (path / RECOVERY_POINT_FILE).write_bytes(encode_recovery_point(FOLDER, 3))
    epochs = LeaderEpochCache((EpochEntry(1, 0), EpochEntry(2, 3)))
    (path / EPOCH_FILE).write_bytes(epochs.encode())
    return path


def decoded(folder, data):
    (folder / f"{0:020d}.log").write_bytes(data)
    log = decode_log("n1", folder)
    return log.end_offset, log.torn_tail_bytes


def test_a_whole_log_is_decoded(folder):
    assert decoded(folder, WHOLE) == (4, 0)


def test_a_cut_of_the_last_batch_is_a_torn_tail_and_any_other_is_damage(folder):
    durable = len(BATCHES[0] + BATCHES[1])
    for size in range(len(WHOLE)):
        if size < durable:
            with pytest.raises(EvidenceError, match="everything below 3 was durable"):
                decoded(folder, WHOLE[:size])
        else:
            assert decoded(folder, WHOLE[:size]) == (3, size - durable)


@pytest.mark.slow
def test_no_flipped_bit_shortens_a_log_but_where_the_last_batch_then_seems_to_go_on(folder):
    length = range(len(WHOLE) - len(BATCHES[2]) + 8, len(WHOLE) - len(BATCHES[2]) + 12)
    for position in range(len(WHOLE)):
        for bit in (0, 4, 7):
            changed = bytearray(WHOLE)
            changed[position] ^= 1 << bit
            try:
                end, torn = decoded(folder, changed)
            except EvidenceError:
                continue
            epoch_of_last = range(length.stop, length.stop + 4)
            assert (end, torn) in {(4, 0), (3, len(BATCHES[2]))}
            assert position in (length if torn else epoch_of_last), (position, bit)


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 5 + b"\1",
        b"\0" * 70,
        BATCHES[2][:30] + BATCHES[2],
        BATCHES[2][:16] + b"\1" + BATCHES[2][17:30],
        BATCHES[2][:-1] + b"x",
    ],
    ids=["no offset", "zeros", "an intact batch behind", "another magic", "a wrong checksum"],
)
def test_what_no_kill_leaves_is_damage(folder, tail):
    with pytest.raises(EvidenceError, match="damaged"):
        decoded(folder, BATCHES[0] + BATCHES[1] + tail)


def test_half_a_batch_before_another_segment_is_damage(folder):
    (folder / f"{3:020d}.log").write_bytes(BATCHES[2])
    with pytest.raises(EvidenceError, match="damaged"):
        decoded(folder, BATCHES[0] + BATCHES[1][:-1])


def test_an_epoch_below_the_recovery_point_must_be_that_of_the_epoch_file(folder):
    changed = bytearray(WHOLE)
    changed[15] ^= 2
    with pytest.raises(EvidenceError, match="of epoch 3, though leader-epoch-checkpoint says 1"):
        decoded(folder, changed)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A simulated run in which the leader is killed, judged PASS."""
    strands = (Strand(2_000.0, (Step("kill", targets="leader"),)),)
    plan = sim_plan(
        seed=5,
        nodes=3,
        duration_s=6.0,
        workload_options={"keys": 4},
        concurrency=4,
        rate_per_s=40.0,
        strands=strands,
    )
    folder = tmp_path_factory.mktemp("stored") / "run"
    assert run_stored(plan, folder) == 0
    return RunStore(folder)


@pytest.mark.slow
def test_what_is_collected_names_the_replica_and_how_long_its_trace_was(stored):
    evidence_of = stored.evidence(stored.plan()).evidence
    for node, state in evidence_of.quorum_states.items():
        start = next(e for e in evidence_of.traces[node] if e.event == "start")
        size_bytes = (stored.node_path(node) / "trace.jsonl").stat().st_size
        assert state["directoryId"] == start.fields["directory_id"]
        assert state["traceBytes"] == size_bytes


def again(store, folder, change):
    """Change the segments of a copy, and collect and judge it anew."""
    shutil.copytree(store.folder, folder)
    copy = RunStore(folder)
    system = KraftSystem()
    for node in ("n1", "n2", "n3"):
        (copy.evidence_path(node) / "log.jsonl").unlink()
        (copy.evidence_path(node) / "quorum-state.json").unlink()
    change(
        {
            node: max(system.log_folder(copy.node_path(node)).glob("*.log"))
            for node in ("n1", "n2", "n3")
        }
    )
    problems = node_disks.collect(copy, ("n1", "n2", "n3"))
    return judge(copy, keep=False), problems  # the chain would find any change; what else does?


@pytest.mark.slow
def test_a_node_that_kept_no_quorum_state_has_forgotten_its_epoch(stored, tmp_path):
    results, problems = again(
        stored, tmp_path / "run", lambda logs: logs["n2"].with_name("quorum-state").unlink()
    )
    found = next(check for check in results.checks if check.checker == "invariants")
    kinds = {anomaly["kind"] for anomaly in found.anomalies}
    assert (found.status, problems) == (Status.FAIL, ["n2: there is no quorum-state file"])
    assert kinds == {"monotonic-epoch", "kept-state"}


def test_a_damaged_segment_is_named_where_it_lies(stored, tmp_path):
    copy = RunStore(shutil.copytree(stored.folder, tmp_path / "run"))
    segment = max(KraftSystem().log_folder(copy.node_path("n1")).glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:100] + b"x" + segment.read_bytes()[101:])
    with made_anew(copy) as (_, problems):
        assert f"cannot be made anew: n1: {segment}: byte " in problems[0].what


def test_a_torn_tail_that_hides_what_was_flushed_is_damage(stored, tmp_path):
    """The recovery point lies below the last flush; the trace does not."""

    def tear(segments):
        path = segments["n2"]
        path.write_bytes(path.read_bytes()[:-7])
        (path.parent / RECOVERY_POINT_FILE).unlink()

    results, problems = again(stored, tmp_path / "run", tear)
    assert (results.status, problems) == (Status.UNKNOWN, [])
    (files,) = [check for check in results.checks if check.checker == "evidence-files"]
    assert "n2: its log" in files.summary
    assert "had flushed everything below" in files.summary


@pytest.mark.parametrize(("epoch", "said"), [(2, ""), (3, "is of epoch 2, though")])
def test_a_log_that_was_left_in_order_is_of_the_epochs_that_its_file_names(folder, epoch, said):
    """Also above the recovery point, which Kafka keeps for no metadata."""
    (folder / f"{0:020d}.log").write_bytes(WHOLE)
    epochs = LeaderEpochCache((EpochEntry(1, 0), EpochEntry(epoch, 3)))
    (folder / EPOCH_FILE).write_bytes(epochs.encode())
    assert decode_log("n1", folder).end_offset == 4
    with pytest.raises(EvidenceError, match=said) if said else nullcontext():
        decode_log("n1", folder, in_order=True)


def test_the_disk_of_another_node_is_no_evidence(stored, tmp_path):
    copy = RunStore(shutil.copytree(stored.folder, tmp_path / "run"))
    mine, other = (copy.node_path(node) / "metadata/meta.properties" for node in ("n2", "n3"))
    mine.write_bytes(other.read_bytes())
    assert "it is of node 3" in node_disks.collect(copy, ("n2",))[0]


def test_a_tail_is_damage_where_only_an_end_in_order_is_known(stored, tmp_path, monkeypatch):
    """Kafka traces no flush, and cuts at a start what a kill tore."""
    copy = RunStore(shutil.copytree(stored.folder, tmp_path / "run"))
    (path,) = KafkaLayout().log_folder(copy.node_path("n2")).glob("*.log")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:7])
    (copy.node_path("n2") / "stdout.log").write_text("")
    monkeypatch.setattr(node_disks, "layout_of", lambda _: KafkaLayout())
    (problem,) = node_disks.collect(copy, ("n2",))
    assert "damaged: " in problem


def test_a_tail_that_a_kill_tore_is_counted_and_named(stored, tmp_path):
    def tear(segments):
        path = segments["n2"]
        end = decode_log("n2", path.parent).end_offset
        path.write_bytes(path.read_bytes() + encode_batch(end, 9, [Record(b"x" * 99)], 5)[:70])
        trace = path.parents[2] / "trace.jsonl"
        line = {**json.loads(trace.read_bytes().splitlines()[-1]), "e": "append"}
        del line["crc"]
        place = {"epoch": 9, "base_offset": end, "last_offset": end, "role": "follower"}
        trace.write_bytes(trace.read_bytes() + encode_line({**line, **place}))

    results, _ = again(stored, tmp_path / "run", tear)
    assert results.status is Status.PASS
    (agreement,) = [check for check in results.checks if check.checker == "log-agreement"]
    assert "70 bytes of n2's" in agreement.summary
    assert agreement.statistics["torn_tail_bytes"] == {"n2": 70}

"""Stored real runs, and what a forger can do to one who knows every format.

`Altered` edits a copy of a run and leaves nothing behind that shows the edit by itself: lines get
their checksums again, batches theirs, what was decoded from a log is decoded from the new one, and
the chain of digests is written anew. So only what the evidence says can show that it is not true.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.history.json_text import FIELD, seal
from checkers.verdict import Status
from cluster.backends import localhost
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import NoOpRecord
from cluster.node.log.batch.records import Record, encode_batch, iter_batches
from cluster.node.log.storage.checkpoint import RECOVERY_POINT_FILE, encode_recovery_point
from cluster.node.runtime.trace import encode_line
from harness.evidence import node_disks
from harness.evidence.recomputation import judge_again
from harness.plan.stored_document import derive
from results.judge.pipeline import judge
from results.store.model import RunResults
from results.store.run_store import RunStore
from tests.gate.bench import forge

DATA = Path(__file__).parents[2] / "tests" / "data" / "runs"
NODES = ("n1", "n2", "n3")
LOG = "metadata/__cluster_metadata-0"
_LEFT_OUT = ("history.parquet", "report.html", "junit.xml", ".hypothesis", "stdout.log", ".lock")

Row = dict[str, Any]
Change = Callable[["Altered"], None]


@dataclass(frozen=True)
class Alteration:
    """Something that is done to a run, and what judging it must then say."""

    name: str
    change: Change
    status: Status
    check: str
    """One that says so."""
    runs: tuple[str, ...]
    """Workloads of the runs to which it is done."""
    alone: str | None = None
    """The only rule that finds it; None: several may."""


def unpack(workload: str, folder: Path) -> RunStore:
    """Unpack a real run of a workload, with the checks that such a plan has today."""
    folder.mkdir(exist_ok=True)
    localhost.unpack(lzma.decompress((DATA / f"{workload}.tar.xz").read_bytes()), folder)
    (run,) = folder.iterdir()
    store = RunStore(run)
    plan = store.plan()
    write_json(store.plan_path, {**plan, **derive(plan)})
    forge(store, rejudge=True)
    return store


def pack(run: Path, workload: str) -> None:
    """Keep a run as the one of its workload: all that judging reads, and the nodes' raw files."""
    DATA.mkdir(exist_ok=True)
    with tarfile.open(DATA / f"{workload}.tar.xz", "w:xz", preset=9) as archive:

        def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if member.name.rpartition("/")[2] in _LEFT_OUT:
                return None
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        archive.add(run, run.name, filter=kept)


def copy_of(store: RunStore, folder: Path) -> Altered:
    """Copy a run into an empty folder."""
    return Altered(RunStore(Path(shutil.copytree(store.folder, folder / store.folder.name))))


def write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document))


class Altered:
    """A copy of a run that is being altered."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def judged(self) -> RunResults:
        """Judge it as `kraftprobe check` does, once all follows from what it holds now."""
        forge(self.store, rejudge=False)
        return judge_again(self.store, judge)

    # -- lines ---------------------------------------------------------------------------------

    def rows(self, name: str) -> list[Row]:
        """Return the JSON lines of a file of the run, without their seals."""
        lines = (self.store.folder / name).read_bytes().splitlines()
        rows = [json.loads(line) for line in lines]
        for row in rows:
            row.pop(FIELD, None)
        return rows

    def put_rows(self, name: str, rows: Iterable[Row]) -> None:
        """Write sealed lines."""
        lines = [seal(json.dumps(row, separators=(",", ":"))) for row in rows]
        (self.store.folder / name).write_bytes(b"".join(lines))

    def edit_rows(self, name: str, change: Callable[[list[Row]], list[Row] | None]) -> None:
        rows = self.rows(name)
        self.put_rows(name, change(rows) or rows)

    def history(self) -> list[Row]:
        return self.rows("history.jsonl")

    def put_history(self, rows: Iterable[Row]) -> None:
        """Write a journal, its lines numbered anew."""
        self.put_rows("history.jsonl", [{**row, "index": i} for i, row in enumerate(rows)])

    def trace(self, node: str) -> list[Row]:
        return self.rows(f"nodes/{node}/trace.jsonl")

    def put_trace(self, node: str, rows: Iterable[Row]) -> None:
        """Write a trace, and that it was as long as that."""
        data = b"".join(encode_line(row) for row in rows)
        (self.store.node_path(node) / "trace.jsonl").write_bytes(data)

        def measure(states: list[Row]) -> None:
            states[0]["traceBytes"] = len(data)

        self.edit_rows(f"nodes/{node}/evidence/quorum-state.json", measure)

    def edit_trace(self, node: str, change: Callable[[list[Row]], list[Row] | None]) -> None:
        rows = self.trace(node)
        self.put_trace(node, change(rows) or rows)

    def final_read(self, node: str) -> Row:
        return self.rows(f"nodes/{node}/evidence/state.jsonl")[-1]

    def put_final_read(self, node: str, read: Row) -> None:
        self.put_rows(f"nodes/{node}/evidence/state.jsonl", [read])

    # -- logs ----------------------------------------------------------------------------------

    def log_file(self, node: str) -> Path:
        (path,) = (self.store.node_path(node) / LOG).glob("*.log")
        return path

    def batches(self, node: str) -> list[bytes]:
        """Return the batches of a node's raw log."""
        return [batch for _, batch in iter_batches(self.log_file(node).read_bytes())]

    def put_batches(self, node: str, batches: Iterable[bytes]) -> None:
        """Write a raw log, its recovery point no further than its end, and decode it."""
        data = b"".join(batches)
        self.log_file(node).write_bytes(data)
        end = max((header.next_offset for header, _ in iter_batches(data)), default=0)
        folder = self.log_file(node).parent
        point = encode_recovery_point(folder.name, end)
        (folder / RECOVERY_POINT_FILE).write_bytes(point)
        self.decode(node)

    def snapshot_file(self, node: str) -> Path:
        """Return the newest snapshot of a node."""
        return max((self.store.node_path(node) / LOG).glob("*.checkpoint"))

    def decode(self, node: str) -> list[str]:
        """Decode what a node left, as the harness does when a run ends."""
        folder = self.store.evidence_path(node)
        for name in ("log.jsonl", "snapshots.jsonl", "quorum-state.json"):
            (folder / name).unlink(missing_ok=True)
        return node_disks.collect(self.store, (node,))

    def leader(self) -> str:
        """Name the last leader."""
        return self._last_state()[0]

    def followers(self) -> list[str]:
        return [node for node in NODES if node != self.leader()]

    def _last_state(self) -> tuple[str, int]:
        found = ("", -1)
        for node in NODES:
            for row in self.trace(node):
                if row["e"] == "epoch-start" and row["epoch"] > found[1]:
                    found = node, row["epoch"]
        return found

    def restarted(self) -> str:
        """Name a node that was started more than once."""
        return next(node for node in NODES if self.trace(node)[-1]["n"] > 0)


def no_ops(batch: bytes) -> bytes:
    """Return a batch of as many records of nothing in the place of a batch."""
    ((header, _),) = iter_batches(batch)
    nothing = Record(encode_record(NoOpRecord()))
    return encode_batch(
        header.base_offset,
        header.partition_leader_epoch,
        [nothing] * header.record_count,
        header.base_timestamp_ms,
    )


def replaced(batch: bytes, old: bytes, new: bytes) -> bytes:
    """Return a batch in which a text of the same length stands, with its checksum."""
    assert len(old) == len(new), "lengths are part of the records"
    return checked(batch.replace(old, new))


def checked(batch: bytes) -> bytes:
    """Return a batch with the checksum of its bytes."""
    from crc32c import crc32c  # noqa: PLC0415

    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def read_text(results: RunResults) -> str:
    """Say what each check said that did not pass."""
    out = io.StringIO()
    for check in results.checks:
        if check.status is not Status.PASS:
            out.write(f"{check.checker}: {check.status.value}: {check.summary}\n")
    return out.getvalue()


def problem_of(results: RunResults, alteration: Alteration) -> str | None:
    """Say what of a judgement is not as an alteration expects it."""
    if results.status is not alteration.status:
        return f"{results.status}, not {alteration.status}"
    said = {check.checker for check in results.checks if check.status is alteration.status}
    if alteration.check not in said:
        return f"{', '.join(sorted(said))} say so alone"
    kinds = {anomaly["kind"] for check in results.checks for anomaly in check.anomalies}
    if alteration.alone is not None and kinds != {alteration.alone}:
        return f"found by {', '.join(sorted(kinds))}, not by {alteration.alone} alone"
    return None


def table(alterations: Iterable[Alteration]) -> list[str]:
    """Return the table of alterations for benchmarks/RESULTS.md."""
    rows = [f"| {a.name} | {', '.join(a.runs)} | {a.status} | `{a.check}` |" for a in alterations]
    return ["| alteration | runs | verdict | check |", "|---|---|---|---|", *rows]

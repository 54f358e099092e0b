"""The run store: where everything of a run lies, and how it is written and read again.

    runs/<campaign>/<run>/
        plan.json         what was asked for; written before anything starts
        history.jsonl     the journal (results/journal.py)
        history.parquet/  the same as tables, for Spark (results/tables.py)
        nodes/<node>/     logs, traces and evidence of a node (results/evidence_files.py)
        results.json      the judgement (results/model.py)
        certificates.jsonl  the proof of every key's verdict (checkers/certificates.py)
        report.html, junit.xml

A run is stored before anything judges it, and the judgement reads the store alone, so judging
again gives the same verdict. A run that was killed in the middle has a plan and a journal only;
it can be judged as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.evidence import FinalRead, LogRecord
from checkers.history import Event
from results import evidence_files
from results.evidence_files import LoadedEvidence
from results.files import StoreError, read_json_object, sha256_of, write_json
from results.journal import JournalWriter, read_journal
from results.model import RunResults

__all__ = ["RunStore", "StoreError", "StoredHistory", "list_runs"]

PLAN_VERSION = 1
_NODES_MAX = 1000


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The events of a run, and how many bytes of a torn last line were dropped."""

    events: list[Event]
    dropped_bytes: int


class RunStore:
    """One run's folder. Making the object touches nothing; see `create` for a new run."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.plan_path = self.folder / "plan.json"
        self.journal_path = self.folder / "history.jsonl"
        self.parquet_path = self.folder / "history.parquet"
        self.nodes_path = self.folder / "nodes"
        self.results_path = self.folder / "results.json"
        self.certificates_path = self.folder / "certificates.jsonl"
        self.report_path = self.folder / "report.html"
        self.junit_path = self.folder / "junit.xml"

    @classmethod
    def create(cls, root: Path, plan: Mapping[str, Any]) -> RunStore:
        """Make the folder of a new run, `root/<campaign>/<run>`, and store its plan there.

        Raises StoreError when the run exists already or the folder cannot be made.
        """
        folder = Path(root) / str(plan["campaign"]) / str(plan["run"])
        store = cls(folder)
        try:
            folder.mkdir(parents=True)
            store.nodes_path.mkdir()
            write_json(store.plan_path, dict(plan))
        except FileExistsError:
            raise StoreError(f"{folder}: there is such a run already") from None
        except OSError as error:
            raise StoreError(f"{folder}: cannot be made ({error.strerror})") from error
        return store

    def node_path(self, node: str) -> Path:
        """Folder of a node's output, trace and evidence."""
        return self.nodes_path / node

    def evidence_path(self, node: str) -> Path:
        """Folder of a node's decoded evidence."""
        return self.node_path(node) / "evidence"

    def has_log(self, node: str) -> bool:
        """Tell whether a node's decoded log is stored."""
        return (self.evidence_path(node) / evidence_files.LOG_FILE).exists()

    def journal_writer(self) -> JournalWriter:
        """Begin the run's journal. Raises FileExistsError when it has one."""
        return JournalWriter(self.journal_path)

    def write_log(self, node: str, records: Iterable[LogRecord]) -> None:
        """Store a node's decoded log, in offset order."""
        evidence_files.write_log(self.evidence_path(node), records)

    def write_quorum_state(self, node: str, state: Mapping[str, Any]) -> None:
        """Store a node's last quorum-state, with logStartOffset and logEndOffset beside it."""
        evidence_files.write_quorum_state(self.evidence_path(node), state)

    def write_final_read(self, read: FinalRead) -> None:
        """Store what a node served after healing."""
        evidence_files.write_final_read(self.evidence_path(read.node), read)

    def plan(self) -> dict[str, Any]:
        """Return the run's plan. Raises StoreError when it is missing or no plan."""
        plan = read_json_object(self.plan_path)
        if plan.get("version") != PLAN_VERSION:
            raise StoreError(f"{self.plan_path}: this is no plan of version {PLAN_VERSION}")
        if not isinstance(plan.get("checks"), list):
            raise StoreError(f"{self.plan_path}: the plan names no checks")
        return plan

    def history(self) -> StoredHistory:
        """Return the run's journal.

        Raises HistoryError when it is damaged, StoreError when there is none.
        """
        try:
            events, dropped_bytes = read_journal(self.journal_path)
        except FileNotFoundError:
            raise StoreError(f"{self.journal_path}: there is no such file") from None
        except OSError as error:
            raise StoreError(f"{self.journal_path}: {error.strerror}") from error
        return StoredHistory(events, dropped_bytes)

    def node_names(self, plan: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the nodes that the plan asked for, and any other that left a folder."""
        count = plan.get("nodes", 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _NODES_MAX:
            raise StoreError(f"{self.plan_path}: nodes must be a number from 0 to {_NODES_MAX}")
        names = [f"n{number}" for number in range(1, count + 1)]
        if self.nodes_path.is_dir():
            found = sorted(entry.name for entry in self.nodes_path.iterdir() if entry.is_dir())
            names.extend(name for name in found if name not in names)
        return tuple(names)

    def evidence(self, plan: Mapping[str, Any]) -> LoadedEvidence:
        """Load what the nodes left behind, as far as it is there and can be read."""
        return evidence_files.load_evidence(self.nodes_path, self.node_names(plan))

    def input_digests(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """SHA-256 of each file that a judgement reads, by its path in the run folder."""
        paths = [self.plan_path, self.journal_path]
        for node in self.node_names(plan):
            paths.append(self.node_path(node) / "trace.jsonl")
            paths.extend(
                self.evidence_path(node) / name
                for name in (
                    evidence_files.LOG_FILE,
                    evidence_files.QUORUM_STATE_FILE,
                    evidence_files.STATE_FILE,
                )
            )
        digests = {path.relative_to(self.folder).as_posix(): sha256_of(path) for path in paths}
        return {name: digest for name, digest in digests.items() if digest is not None}

    def write_results(self, results: RunResults) -> None:
        """Store the judgement, whole or not at all."""
        write_json(self.results_path, results.to_json())

    def read_results(self) -> RunResults:
        """Return the stored judgement. Raises StoreError when there is none or it is damaged."""
        document = read_json_object(self.results_path)
        try:
            return RunResults.from_json(document)
        except StoreError as error:
            raise StoreError(f"{self.results_path}: {error}") from error


def list_runs(root: Path) -> list[RunStore]:
    """Every run below `root`, by campaign and run name: a folder that has a plan or a journal."""
    if not Path(root).is_dir():
        return []
    stores = []
    for campaign in sorted(entry for entry in Path(root).iterdir() if entry.is_dir()):
        for folder in sorted(entry for entry in campaign.iterdir() if entry.is_dir()):
            store = RunStore(folder)
            if store.plan_path.exists() or store.journal_path.exists():
                stores.append(store)
    return stores

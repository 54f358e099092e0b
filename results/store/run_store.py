"""The run store: where everything of a run lies, and how it is written and read again.

    runs/<campaign>/<run>/
        plan.json         what was asked for; written before anything starts
        history.jsonl     the journal (results/store/journal.py)
        nodes/<node>/     logs, traces and evidence of a node (results/store/evidence_files.py)
        digests.jsonl     what each of these was when it was recorded (results/store/digests.py)
        history.parquet/  the journal as tables (results/store/tables.py)
        results.json      the judgement (results/store/model.py)
        certificates.jsonl  the proof of every key's verdict
                          (checkers/linearizability/certificates.py)
        digests.jsonl.sig by ssh-keygen, if it was signed (results/gate/signature.py)
        report.html, junit.xml

A run is stored before anything judges it, and the judgement reads the store alone, so judging
again gives the same verdict. A run that was killed in the middle has a plan and a journal only;
it can be judged as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.evidence import Evidence
from checkers.history import Event
from results.store import digests, evidence_files
from results.store.digests import FileDigest, Step, digest_of, files_below, read_chain
from results.store.evidence_files import Item, LoadedEvidence, write_lines
from results.store.files import (
    JSON_BYTES_MAX,
    StoreError,
    json_object,
    read_bounded,
    read_json_object,
    reading,
    write_json,
)
from results.store.folders import Walk, is_run, walk
from results.store.journal import JournalWriter, read_journal
from results.store.model import Recording, RunResults

if TYPE_CHECKING:
    from results.store.ingest import RunHistory
    from results.store.tables import RunName

PLAN_VERSION = 1
_NODES_MAX = 1000
DERIVED = frozenset(
    {
        digests.FILE,
        digests.SIGNATURE_FILE,
        *("results.json", "certificates.jsonl", "report.html", "junit.xml"),
    }
)
"""What follows from the rest of a run and is made anew by each judgement (and history.parquet)."""


Page = Callable[["RunStore", RunResults], None]
"""Writes a page of a judgement into the run's folder."""


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
        self.digests_path = self.folder / digests.FILE
        self.signature_path = self.folder / digests.SIGNATURE_FILE
        self.read_digests: dict[str, str] = {}
        """By name, SHA-256 of the plan and the results as they were last read from here."""

    @property
    def name(self) -> str:
        """Campaign and run, for a person, however the folder was named to us."""
        folder = Path(os.path.abspath(self.folder))  # noqa: PTH100  (a link keeps its own name)
        return f"{folder.parent.name}/{folder.name}"

    @classmethod
    def create(cls, root: Path, plan: Mapping[str, Any]) -> RunStore:
        """Make the folder of a new run, `root/<campaign>/<run>`, and store its plan there.

        Raises StoreError when the run exists already or the folder cannot be made.
        """
        folder = Path(root) / str(plan["campaign"]) / str(plan["run"])
        store = cls(folder)
        try:
            folder.mkdir(parents=True)
            store.begin(plan)
        except FileExistsError:
            raise StoreError(f"{folder}: there is such a run already") from None
        except OSError as error:
            raise StoreError(f"{folder}: cannot be made ({error.strerror})") from error
        return store

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Store and record the plan of a new run in a folder that is there. Raises OSError."""
        self.nodes_path.mkdir()
        write_json(self.plan_path, dict(plan))
        digests.append(self.digests_path, self._rows(Step.RECORDED, ["plan.json"]), None)

    def end_recording(self) -> None:
        """Record every file of a run that came to its end, and that it did.

        Called once, when no node runs and nothing is written any more. Raises StoreError, OSError.
        """
        with self.lock():
            chain = read_chain(self.digests_path)
            if chain.ended:
                raise StoreError(f"{self.digests_path}: the run is recorded to its end already")
            rows = self._rows(Step.RECORDED, self._recorded_paths() - chain.files.keys())
            end = (Step.ENDED, None, digests.NO_FILE)
            digests.append(self.digests_path, [*rows, end], chain)

    def recording(self, inputs: Mapping[str, str]) -> Recording:
        """Compare files that a judgement reads with what was recorded.

        `inputs`: see `input_digests`. In a run that was not recorded to its end,
        files without a record are recorded now, as found: plan, journal and what nodes left. Others
        may be a user's.
        """
        try:
            with self.lock():
                chain = read_chain(self.digests_path)
                if not chain.ended:
                    names = {
                        name
                        for name in self._recorded_paths() - chain.files.keys()
                        if _is_input(name) or name.startswith(f"{self.nodes_path.name}/")
                    }
                    if names:
                        rows = self._rows(Step.FOUND, names)
                        digests.append(self.digests_path, rows, chain)
                        chain = read_chain(self.digests_path)
        except StoreError as error:
            return Recording(None, ended=False, problems=(str(error),))
        known = {name: found.sha256 for name, found in chain.files.items() if _is_input(name)}
        changed = sorted(
            name
            for name in known.keys() | inputs.keys()
            if known.get(name) != inputs.get(name, "gone")
        )
        problems = tuple(f"{name} is not what was recorded" for name in changed)
        return Recording(chain.head, ended=chain.ended, problems=problems)

    def _rows(self, step: Step, names: Iterable[str]) -> list[tuple[Step, str | None, FileDigest]]:
        return [(step, name, digest_of(self.folder / name)) for name in sorted(names)]

    def _recorded_paths(self) -> set[str]:
        """Name everything in the folder but what follows from it."""
        return {
            name
            for name in files_below(self.folder)
            if not name.startswith((".", f"{self.parquet_path.name}/")) and name not in DERIVED
        }

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one that writes into the folder. Raises OSError."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def node_path(self, node: str) -> Path:
        """Folder of a node's output, trace and evidence."""
        return self.nodes_path / node

    def evidence_path(self, node: str) -> Path:
        """Folder of a node's decoded evidence."""
        return self.node_path(node) / "evidence"

    def has_log(self, node: str) -> bool:
        """Return whether a node's decoded log is stored."""
        return (self.evidence_path(node) / evidence_files.LOG_FILE).exists()

    def journal_writer(self) -> JournalWriter:
        """Begin the run's journal. Raises FileExistsError when it has one."""
        return JournalWriter(self.journal_path)

    def write_evidence(self, node: str, file: str, items: Iterable[Item]) -> None:
        """Store what a node left, as a file of its evidence: of a log or snapshots by offset."""
        write_lines(self.evidence_path(node) / file, items)

    def plan(self) -> dict[str, Any]:
        """Return the run's plan. Raises StoreError when it is missing or no plan."""
        plan = self._document(self.plan_path)
        if plan.get("version") != PLAN_VERSION:
            found = f"{plan.get('version')!r:.50}"
            raise StoreError(f"{self.plan_path}: it is of version {found}, not {PLAN_VERSION}")
        if not isinstance(plan.get("checks"), list):
            raise StoreError(f"{self.plan_path}: the plan names no checks")
        return plan

    def events(self) -> list[Event]:
        """Return the whole events of the run's journal.

        Raises HistoryError when it is damaged, StoreError when there is none.
        """
        with reading(self.journal_path):
            return read_journal(self.journal_path)[0]

    def tables(self, name: RunName) -> RunHistory:
        """Return the run's history in columns and as tables.

        Raises HistoryError when the journal is damaged, StoreError when there is none.
        """
        from results.store.ingest import read_history  # noqa: PLC0415  (imports Arrow)

        with reading(self.journal_path):
            return read_history(self.journal_path, name)

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

    def trace_events(self, plan: Mapping[str, Any], names: frozenset[str]) -> Evidence:
        """Load only the trace events of these names, as far as they can be read."""
        return evidence_files.load_trace_events(self.nodes_path, self.node_names(plan), names)

    def input_digests(self) -> dict[str, str]:
        """SHA-256 of each file that a judgement reads, by its path in the run folder."""
        found = {
            p: digest_of(self.folder / p).sha256 for p in files_below(self.folder) if _is_input(p)
        }
        return {name: sha256 for name, sha256 in found.items() if sha256 is not None}

    def write_results(self, results: RunResults) -> None:
        """Store and record the judgement, whole or not at all. The caller holds the lock."""
        write_json(self.results_path, results.to_json())
        if results.recording.head is not None:
            names = [self.certificates_path.name, self.results_path.name]
            digests.append(
                self.digests_path, self._rows(Step.JUDGED, names), read_chain(self.digests_path)
            )

    def write_pages(self, results: RunResults, write: Iterable[Page]) -> None:
        """Write and record the pages that show a judgement.

        None where another judgement was stored meanwhile, whose pages are for who made it. Raises
        OSError, StoreError, and what is raised in writing.
        """
        with self.lock():
            if read_json_object(self.results_path) != results.to_json():
                return
            for page in write:
                page(self, results)
            try:
                chain = read_chain(self.digests_path)
            except StoreError:  # the judgement said so
                return
            names = [path.name for path in (self.junit_path, self.report_path) if path.is_file()]
            digests.append(self.digests_path, self._rows(Step.JUDGED, names), chain)

    def withdraw_results(self) -> None:
        """Remove a judgement of which it was said that it could not be stored."""
        with contextlib.suppress(OSError):
            self.results_path.unlink()

    def read_results(self) -> RunResults:
        """Return the stored judgement. Raises StoreError when there is none or it is damaged."""
        document = self._document(self.results_path)
        try:
            return RunResults.from_json(document)
        except StoreError as error:
            raise StoreError(f"{self.results_path}: {error}") from error

    def _document(self, path: Path) -> dict[str, Any]:
        data = read_bounded(path, JSON_BYTES_MAX)
        self.read_digests[path.name] = hashlib.sha256(data).hexdigest()
        return json_object(data, path)

    def refuse_other_results(self) -> None:
        """Raise StoreError where a judgement is stored that is not what judging recorded."""
        try:
            recorded = read_chain(self.digests_path).judged.get(self.results_path.name)
        except StoreError:  # the judgement said so
            return
        if recorded != digest_of(self.results_path):
            raise StoreError(
                f"{self.results_path}: is not what judging stored; judge the run again"
            )


def _is_input(name: str) -> bool:
    """Whether a judgement reads the file of this path in a run folder."""
    match name.split("/"):
        case ["plan.json" | "history.jsonl"] | ["nodes", _, "trace.jsonl"]:
            return True
        case ["nodes", _, "evidence", _]:
            return True
    return False


def list_runs(root: Path, found: Walk | None = None) -> list[RunStore]:
    """Every run below `root`, in order of folders, also what remains of a damaged one.

    `found`: what is there, where it was looked into before.
    """
    if not Path(root).is_dir():
        return []
    folders = (walk([Path(root)]) if found is None else found).runs
    return [RunStore(folder) for folder in folders if is_run(folder)]

"""A stored run's evidence, made anew from what the nodes left, and what of it differs.

Logs, snapshots and quorum states are decoded again from the nodes' own files, and traces that were
made from a node's output are made again. What is stored must equal it: a stored decode is no more
than a copy, and who changes it, or the log behind it, changes one of the two.

Where no node's log is kept (a run that was carried elsewhere without them), the stored decode is
all there is, and is taken as it is.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.node.log.storage.segment import segment_base_offset
from cluster.systems.base import Layout
from cluster.systems.kinds import SettingError
from cluster.values import valueclass
from harness.evidence import node_disks
from harness.evidence.partition_logs import segments_in
from harness.plan.stored_document import derive
from results.gate.refusals import lacking_check
from results.store.digests import digest_of, files_below, read_chain
from results.store.files import StoreError, write_json
from results.store.model import RunResults
from results.store.run_store import RunStore


@valueclass
class Difference:
    """Something that is stored and does not follow from what the nodes left."""

    node: str | None
    """The node with a stored decode that is not that of its files; None: it may be."""
    what: str
    """One line."""


def differences(store: RunStore) -> list[Difference]:
    """Say what of a run's stored evidence does not follow from its nodes' files.

    Raises StoreError where the plan is none, SettingError where its system is not known, OSError.
    """
    if not node_disks.kind_of(store).metadata_quorum:
        return []
    layout = node_disks.layout_of(store)
    folders = (Path(layout.log_folder(store.node_path(node))) for node in _nodes(store))
    if not any(map(segments_in, folders)):
        return _missing_logs(store, layout)
    with made_anew(store) as (_, problems):
        return problems


def judge_again(store: RunStore, judge: Callable[..., RunResults]) -> RunResults:
    """Judge a stored run, and whether what is stored follows from what the nodes left.

    `judge` is `results.judge.pipeline.judge`, or does the same. Raises what it raises.
    """
    plan = store.plan()
    try:
        lacking = lacking_check(plan, json.loads(json.dumps(derive(plan))))
    except StoreError as error:
        lacking = str(error)
    try:
        found = differences(store)
    except SettingError:  # then its plan is none that this version runs
        assert lacking is not None, "a plan that can be derived has a system"
        found = []
    problems = [*([] if lacking is None else [lacking]), *(each.what for each in found)]
    return judge(store, problems=problems, untrusted={each.node for each in found if each.node})


@contextlib.contextmanager
def made_anew(store: RunStore) -> Iterator[tuple[RunStore, list[Difference]]]:
    """Make a copy of a run for as long as the block runs, with its evidence made anew.

    Yields it with a line for everything that cannot be made or is not what is stored. Nodes'
    files, plan and journal are linked; final reads exist only as stored.
    """
    with tempfile.TemporaryDirectory(prefix="kraftprobe-again-") as place:
        folder = Path(place) / store.folder.resolve().name
        folder.mkdir()
        copy, plan = RunStore(folder), store.plan()
        write_json(copy.plan_path, plan)
        if store.journal_path.is_file():
            copy.journal_path.symlink_to(store.journal_path.resolve())
        for node in store.node_names(plan):
            _link_node(store.node_path(node), copy.node_path(node))
        nodes = tuple(node for node in _nodes(store) if store.has_log(node))
        layout = node_disks.layout_of(copy)
        for node in nodes:
            trace = Path(layout.trace_file(copy.node_path(node)))
            if layout.trace_reader(copy.node_path(node)) is not None:
                trace.unlink(missing_ok=True)
        found = [  # of the run itself: the copy is gone when this is read
            problem.replace(str(copy.folder), str(store.folder))
            for problem in node_disks.collect(copy, nodes)
        ]
        problems = [Difference(None, f"its evidence cannot be made anew: {each}") for each in found]
        for node in nodes:
            problems += _unlike(store, copy, node)
            if digest_of(Path(layout.trace_file(store.node_path(node)))) != digest_of(
                Path(layout.trace_file(copy.node_path(node))).resolve()
            ):
                what = f"the trace of {node} does not follow from the node's output"
                problems.append(Difference(node, what))
        yield copy, problems


def _nodes(store: RunStore) -> tuple[str, ...]:
    return store.node_names(store.plan())


def _missing_logs(store: RunStore, layout: Layout) -> list[Difference]:
    """Name logs that were recorded, where none is kept."""
    try:
        recorded = read_chain(store.digests_path).files
    except StoreError:
        return []  # judging says what is wrong with it
    for node in _nodes(store):
        folder = Path(layout.log_folder(store.node_path(node))).relative_to(store.folder)
        gone = [name for name in recorded if Path(name).parent == folder]
        if any(segment_base_offset(Path(name).name) is not None for name in gone):
            return [Difference(node, f"the logs of all nodes are gone, such as {min(gone)}")]
    return []


def _link_node(source: Path, target: Path) -> None:
    """Link a node's files into a new folder, its evidence into one that can be written."""
    target.mkdir(parents=True)
    if not source.is_dir():
        return
    for entry in source.iterdir():
        if entry.name != "evidence":
            (target / entry.name).symlink_to(entry.resolve())
    for name in files_below(source / "evidence"):
        (target / "evidence").mkdir(exist_ok=True)
        (target / "evidence" / name).symlink_to((source / "evidence" / name).resolve())


def _unlike(store: RunStore, copy: RunStore, node: str) -> list[Difference]:
    """Name the files of a node's evidence that differ, or are there only once."""
    stored, made = store.evidence_path(node), copy.evidence_path(node)
    return [
        Difference(node, f"nodes/{node}/evidence/{name} does not follow from the node's log")
        for name in sorted({*files_below(stored), *files_below(made)})
        if digest_of(stored / name) != digest_of((made / name).resolve())
    ]

"""A simulated run with a run folder, judged by the ordinary pipeline.

    DIR/plan.json, history.jsonl, nodes/<node>/{trace.jsonl, metadata/, evidence/},
    results.json, report.html, junit.xml     as of every run (results/store/run_store.py)
    DIR/story.txt                            the run's story (harness.sim.story)

Violations during the run are in the journal as `violation` and judged by the check `monitor`, so
the folder's verdict is that of the run. `kraftprobe replay DIR/plan.json` repeats it.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.evidence import node_disks
from harness.judge.verdict_output import judge_and_report
from harness.plan.plan import Plan
from harness.plan.stored_document import plan_document
from harness.plan.system_request import request_of
from harness.sim.findings import SimResult
from harness.sim.play import Played, play
from harness.sim.runner import judge
from harness.sim.story import story_of
from harness.terminal.answers import Shown
from results.judge import pipeline
from results.store.evidence_files import STATE_FILE
from results.store.run_store import RunStore


def run_stored(plan: Plan, folder: Path, shown: Shown = Shown.LINES) -> int:
    """Run a plan into a new folder, judge and report; returns the exit code of the verdict.

    Raises UsageError when the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty")
    store = RunStore(folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = f"kraftprobe replay {folder.name}/plan.json"
    started = plan.kind.versions(request_of(plan))
    store.begin(plan_document(plan, folder.name, command, started))
    played, result = _play(plan, store)
    violation = result.violations[0] if result.violations else None
    story = "\n".join(story_of(played, violation))
    (folder / "story.txt").write_text(story + "\n", encoding="utf-8")
    store.end_recording()
    return judge_and_report(store, pipeline.judge, with_report=True, shown=shown)


def _play(plan: Plan, store: RunStore) -> tuple[Played, SimResult]:
    with store.journal_writer() as journal:
        played = play(plan, journal, store.folder)
    for read in played.reads.reads.values():
        store.write_evidence(read.node, STATE_FILE, [read])
    node_disks.collect(store, plan.node_names)
    return played, judge(played)

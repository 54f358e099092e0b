"""A simulated run with its whole run folder, judged by the ordinary pipeline.

    DIR/plan.json, history.jsonl, nodes/<node>/{trace.jsonl, metadata/, evidence/},
    results.json, report.html, junit.xml     as of every run (results/store.py)
    DIR/scenario.json                         what replays it
    DIR/story.txt                             what happened, in plain English

What the monitor saw while it ran is in the journal as `violation` and is judged by the check
`monitor`; so the verdict of the folder is the verdict of the run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkers import exercised
from checkers.history import Event
from checkers.registry import CheckSpec
from cluster.systems.kraft import KraftSystem
from harness import evidence
from harness.errors import UsageError
from harness.judgement import judge_and_report
from harness.recorder import Journal
from harness.sim.findings import SimResult
from harness.sim.runner import Played, judge, play
from harness.sim.scenario import Scenario
from harness.sim.story import tell
from harness.versions import versions
from results import pipeline
from results.files import write_json
from results.store import RunStore
from workloads.registry import workload_named


class _Both:
    """Journals to the store and keeps the events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.events: list[Event] = []

    def append(self, event: Event) -> None:
        self._journal.append(event)
        self.events.append(event)


def run_stored(scenario: Scenario, folder: Path) -> int:
    """Run into a new folder, judge, report; returns the exit code of the verdict.

    Raises UsageError when the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty")
    store = RunStore(folder)
    folder.mkdir(parents=True, exist_ok=True)
    store.begin(plan_document(scenario, folder.name))
    played, result = _play(scenario, store)
    write_json(folder / "scenario.json", {**scenario.to_json(), "found": _found(result)})
    violation = result.violations[0] if result.violations else None
    story = "\n".join(tell(played, violation))
    (folder / "story.txt").write_text(story + "\n", encoding="utf-8")
    store.end_recording()
    return judge_and_report(store, pipeline.judge, with_report=True)


def _play(scenario: Scenario, store: RunStore) -> tuple[Played, SimResult]:
    with store.journal_writer() as journal:
        both = _Both(journal)
        played = play(scenario, both, both.events, store.folder)
    if played.reads is not None:
        for read in played.reads.reads.values():
            store.write_final_read(read)
    nodes = tuple(node for node in scenario.node_names if node not in played.lost)
    evidence.collect(store, KraftSystem(scenario.settings), nodes)
    return played, judge(played)


def _found(result: SimResult) -> dict[str, Any] | None:
    return result.violations[0].to_json() if result.violations else None


def plan_document(scenario: Scenario, run: str) -> dict[str, Any]:
    """Render plan.json."""
    load = scenario.workload
    exercise = exercised.options_of(scenario.plan_fields)
    checks = [
        *workload_named(load.name, load.options).checks(),
        *(CheckSpec(name) for name in ("monitor", "log-agreement", "invariants", "answers")),
        CheckSpec(exercised.NAME, exercise),
        CheckSpec("statistics"),
    ]
    return {
        "version": 1,
        "campaign": "sim",
        "run": run,
        "seed": scenario.seed,
        "backend": "sim",
        "system": "kraft",
        **scenario.plan_fields,
        "mutant": scenario.mutant,
        "workload": load.name,
        "workload_options": dict(load.options),
        "node_settings": dict(scenario.settings),
        "concurrency": load.concurrency,
        "checks": [{"name": spec.name, "options": spec.options} for spec in checks],
        "expectations": exercise["expectations"],
        "versions": dict(versions()),
        "scenario": json.loads(json.dumps(scenario.to_json())),
        "command": f"kraftprobe replay {run}/scenario.json",
    }

"""Scripts of the simulated world, played on real nodes as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from one_run import run_once

from checkers.verdict import Status
from tests.harness.sim.plans import script


@pytest.mark.cluster
def test_votes_are_held_and_released_on_local(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script("vote_forgotten")))
    results = run_once(path, "local", None, tmp_path, 1)
    assert results.status is not Status.FAIL, [check.summary for check in results.checks]
    (history,) = tmp_path.rglob("history.jsonl")
    events = [json.loads(line) for line in history.read_text().splitlines()]
    began, ended = (event for event in events if event["f"] == "hold")
    assert (began["value"]["phase"], began["type"]) == ("inject", "ok")
    assert (ended["value"]["phase"], ended["type"]) == ("heal", "ok")
    assert ended["value"]["detail"]["delivered"] > 0

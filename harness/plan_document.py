"""What a run stores as `plan.json`: its plan, its checks, and the versions that it ran with."""

from __future__ import annotations

from typing import Any

from checkers import answers, exercised
from checkers.registry import CheckSpec, find_check
from harness.plan import Plan
from harness.versions import versions


def checks_for(plan: Plan) -> tuple[CheckSpec, ...]:
    """List the checks of a run of this plan. Raises CheckError."""
    specs = (
        *plan.make_workload().checks(),
        *([CheckSpec("monitor")] if plan.strands else []),
        CheckSpec("log-agreement"),
        CheckSpec("invariants"),
        CheckSpec(answers.NAME),
        CheckSpec(exercised.NAME, exercised.options_of(plan.to_json())),
        CheckSpec("statistics"),
    )
    for spec in specs:
        find_check(spec)
    return specs


def plan_document(plan: Plan, run: str, command: str) -> dict[str, Any]:
    """Render everything that `plan.json` holds."""
    document = plan.to_json()
    return {
        **document,
        "run": run,
        "expectations": exercised.options_of(document)["expectations"],
        "checks": [{"name": spec.name, "options": spec.options} for spec in checks_for(plan)],
        "versions": versions(),
        "command": command,
    }

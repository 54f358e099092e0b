"""The summary of a batch: its verdict, groups of failures, coverage and figures, from its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from checkers.runs import exercised
from checkers.verdict import Status, worst
from harness.plan.system_request import system_unlike_real
from harness.sim.batch.chunks import VERSION, BatchPlan, Row, plan_of
from harness.sim.findings import Violation, generalise, group
from harness.sim.swarm import coverage


def summarise(plan: BatchPlan, code: str, by_seed: Mapping[int, Row]) -> Row:
    """Make the content of `summary.json` from the rows of the finished seeds."""
    rows = [row for _, row in sorted(by_seed.items())]
    first = plan_of(plan, plan.first, {})
    figures = [json.loads(row["statistics"]) for row in rows]
    failures = [
        (row["seed"], Violation(row["property"], row["explanation"], tuple(row["causes"])))
        for row in rows
        if row["verdict"] == Status.FAIL.value
    ]
    undecided = [
        (row["seed"], Violation(row["verdict"], reason, (generalise(reason),)))
        for row in rows
        if row["verdict"] in (Status.UNKNOWN.value, Status.UNDER_EXERCISED.value)
        for reason in row["causes"]
    ]
    covered = coverage.merge(json.loads(row["coverage"]) for row in rows)
    tried = exercised.total(filter(None, (json.loads(row["exercise"]) for row in rows)))
    short = [anomaly["explanation"] for anomaly in exercised.shortfalls(tried)]
    quiet = [row["seed"] for row in rows if row["verdict"] == Status.UNDER_EXERCISED.value]
    return {
        "version": VERSION,
        "code": code,
        "seeds": [plan.first, plan.last],
        "mutant": first.mutant,
        "unlike_real": system_unlike_real(first),
        "finished": len(rows),
        "left": plan.last - plan.first - len(rows),
        "verdict": _verdict(rows, short).value,
        "verdicts": {
            status.value: sum(row["verdict"] == status.value for row in rows) for status in Status
        },
        "first_failure": failures[0][0] if failures else None,
        "groups": [asdict(each) for each in group(failures)],
        "undecided": [asdict(each) for each in group(undecided)],
        "simulated_s": round(sum(figure.get("simulated_s", 0.0) for figure in figures), 1),
        "cpu_s": round(sum(figure.get("cpu_s", 0.0) for figure in figures), 1),
        "operations": sum(figure.get("operations", 0) for figure in figures),
        "faults": sum(figure.get("faults", 0) for figure in figures),
        "exercise": tried,
        "too_little": short,
        "quiet": quiet,
        "coverage": covered,
        "cells_empty": ["/".join(cell) for cell in coverage.empty(covered)],
    }


def _verdict(rows: Sequence[Row], short: Sequence[str]) -> Status:
    """Apply the rule of `harness.sim.batch.batch`. `short`: shortfalls of the totals."""
    found = {Status(row["verdict"]) for row in rows} - {Status.UNDER_EXERCISED}
    if rows:
        found.add(Status.UNDER_EXERCISED if short else Status.PASS)
    return worst(found)


def found_in(row: Row) -> Row:
    """Return the recorded violation of a failure file, which `replay` compares with."""
    return {key: row[key] for key in ("property", "explanation", "causes")}


def lines_of(summary: Row) -> list[str]:
    """Render a summary for a terminal."""
    counts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items() if count)
    lines = [
        (
            f"{summary['finished']} seeds ({counts or 'none'}), {summary['left']} left; "
            f"{summary['simulated_s']:g} simulated seconds in {summary['cpu_s']:g} CPU seconds; "
            f"{summary['operations']} operations, {summary['faults']} faults"
        )
    ]
    if summary.get("unlike_real"):
        lines.append(f"of system {summary['unlike_real']}")
    if summary["quiet"]:
        lines.append(
            f"tried too little by themselves: {len(summary['quiet'])} of {summary['finished']} "
            f"seeds ({_seeds(summary['quiet'])})"
        )
    lines += [
        f"    {found['property']}: {len(found['seeds'])} seeds ({_seeds(found['seeds'])}), e.g. "
        f"{found['explanation']}"
        for found in summary["undecided"]
    ]
    lines += [f"tried too little by all seeds together: {short}" for short in summary["too_little"]]
    for found in summary["groups"]:
        count, listed = len(found["seeds"]), _seeds(found["seeds"])
        lines.append(f"{found['property']}: {count} seeds ({listed})")
        lines += [f"    {depth * '  '}{cause}" for depth, cause in enumerate(found["causes"][1:])]
        lines.append(f"    e.g. {found['explanation']}")
    lines.append("coverage (fault: role/phase times):")
    lines += [f"    {line}" for line in coverage.table(summary["coverage"])]
    if summary["cells_empty"]:
        shown = ", ".join(summary["cells_empty"][:12])
        lines.append(f"    never: {shown}{' ...' if len(summary['cells_empty']) > 12 else ''}")
    return lines


def _seeds(seeds: Sequence[int]) -> str:
    more = f" and {len(seeds) - 8} more" if len(seeds) > 8 else ""
    return ", ".join(str(seed) for seed in seeds[:8]) + more

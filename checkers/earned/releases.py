"""Condition of a PASS: nodes ran what the plan names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checkers.earned.base import HOLDS, Judged, Outcome, not_applicable, under_exercised, unknown
from checkers.evidence import Evidence

RELEASE = "release"
"""Event of a trace: what a process says of itself once it has started."""
PRINTED = "printed"
"""Key of this condition's row: what processes printed, in order of their first lines."""
_BUILD = re.compile(r"([^\s,]+), commit ([^\s,]+)")


def releases_run(judged: Judged) -> Outcome:
    """Every process printed a release that the plan names, and each of these was run.

    The plan's is that of the files from which nodes were to be started; a process prints what it
    was started from. Only Kafka's print it, once they have started: a process that ended before
    that says nothing, and no true run ends without such a line of each node that Kafka runs on, as
    the final reads wait for what comes behind it. Of an upgrade, a release that no process printed
    was not tried.
    """
    versions = judged.required_plan.get("versions")
    said = versions.get("apache-kafka") if isinstance(versions, dict) else None
    planned = _BUILD.findall(str(said or ""))
    evidence = judged.run.evidence
    if not planned or evidence is None:
        return not_applicable("no node prints its release")
    printed = _builds(evidence)
    facts = {PRINTED: [", commit ".join(build) for build in printed]}
    return replace(_compare(planned, printed, judged.required_plan, evidence), facts=facts)


def _compare(
    planned: list[tuple[str, str]],
    printed: Mapping[tuple[str, str], set[str]],
    plan: Mapping[str, Any],
    evidence: Evidence,
) -> Outcome:
    names = " and ".join(map(_name, planned))
    for build in sorted(printed.keys() - set(planned)):
        node = min(printed[build])
        return unknown(f"a process of {node} printed {_name(build)}; the plan has {names}")
    silent = sorted(evidence.traces.keys() - set().union(*printed.values()))
    if silent and plan.get("system") == "apache-kafka":
        return unknown(f"no process of {silent[0]} printed its release; the plan has {names}")
    if idle := [build for build in planned if build not in printed]:
        return under_exercised(f"no process printed {_name(idle[0])}, which the plan has")
    return HOLDS


def _builds(evidence: Evidence) -> dict[tuple[str, str], set[str]]:
    """Return version and commit that processes printed -> their nodes, the first printed first."""
    builds: dict[tuple[str, str], set[str]] = defaultdict(set)
    lines = ((event, node) for node, trace in evidence.traces.items() for event in trace)
    found = [(event, node) for event, node in lines if event.event == RELEASE]
    for event, node in sorted(found, key=lambda line: evidence.run_ns(line[0]) or 0):
        builds[str(event.fields.get("version")), str(event.fields.get("commit"))].add(node)
    return builds


def _name(build: tuple[str, str]) -> str:
    return f"Apache Kafka {build[0]}, commit {build[1]}"

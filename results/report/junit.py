"""junit.xml: a run as a test suite, a check as a test case, so that any CI system shows it.

A check that FAILs is a failure. UNKNOWN and UNDER-EXERCISED are errors: no system takes a test
case for passed that has an error, which is what they must never be taken for. A run without any
check has one test case, in error. Each fault that was left out as impossible is a skipped test
case, and the suite's name says so.

A CI system follows a test from build to build by its class name and its name: the class is
`<campaign>.check`, the same in every run, and what is a run's own (its name, seed, build) is among
the suite's properties. A time is how long the check took to judge, in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree as ET

from checkers.earned import EARNED
from checkers.earned.releases import PRINTED
from checkers.verdict import CheckResult, Status
from results.store.facts import builds_of
from results.store.files import write_atomically
from results.store.model import RunResults
from results.store.run_store import RunStore

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT_MAX = 10_000
_LONG_S = 1e9


def write_junit(store: RunStore, results: RunResults) -> None:
    """Put the run's junit.xml into its folder."""
    write_atomically(store.junit_path, render_junit(results))


def render_junit(results: RunResults) -> bytes:
    """Return the document."""
    checks = results.checks or (
        CheckResult("checks", Status.UNKNOWN, "nothing was checked: the plan names no checks"),
    )
    mutant = results.plan.get("mutant")
    campaign = str(results.plan.get("campaign", "history"))
    name = f"{campaign}/{results.run}"
    counts = counts_of([check.status for check in checks], len(results.skipped))
    title = f"mutant {mutant}: {name}" if mutant else name
    title += f" WITHOUT {', '.join(results.skipped)}" if results.skipped else ""
    duration_s = f"{_seconds(results.judging.get('duration_s')):.3f}"
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(
        suites,
        "testsuite",
        {"name": clean(title), **counts},
        skipped=str(len(results.skipped)),
        time=duration_s,
        timestamp=clean(str(results.judging.get("at", "")).removesuffix("Z")),
    )
    properties = ET.SubElement(suite, "properties")
    for field, value in _properties(results):
        ET.SubElement(properties, "property", name=field, value=clean(value))
    for check, time_s in zip(checks, times_s(results, len(checks)), strict=True):
        _add_check(suite, check, f"{campaign}.check", time_s)
    for row, fault in zip(results.plan.get("skipped") or (), results.skipped, strict=False):
        reason = row.get("reason") if isinstance(row, dict) else ""
        case = add_case(suite, f"{campaign}.fault", fault)
        ET.SubElement(case, "skipped", message=clean(f"it cannot work there: {reason}"))
    ET.indent(suites, " ")
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _build(results: RunResults) -> str:
    """Name what ran: as its processes printed it where they do, not as the plan has it."""
    planned = next(iter(builds_of(results.plan)), "")
    rows = (
        row
        for check in results.checks
        if check.checker == EARNED
        for row in check.statistics.get("conditions", ())
    )
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get(PRINTED), list):
            # Image and --build, which no process prints, stand behind the plan's releases.
            more = re.split(r", commit [^\s,]+", planned)[-1]
            return (", to ".join(map(str, row[PRINTED])) or "none was printed") + more
    return planned


def _properties(results: RunResults) -> Iterator[tuple[str, str]]:
    """Name what is this run's own, and what it takes to repeat it."""
    plan = results.plan
    yield "run", results.run
    for field in ("system", "seed", "workload", "backend", "nodes", "mutant", "command"):
        if plan.get(field) is not None:
            yield field, str(plan[field])
    if build := _build(results):
        yield "build", build
    if plan.get("made_of"):
        yield "made_of", str(plan["made_of"])
    versions = plan.get("versions")
    version = versions.get("kraftprobe") if isinstance(versions, dict) else None
    if version is not None:
        yield "toolkit", f"kraftprobe {version}"


def times_s(results: RunResults, count: int) -> list[float]:
    """Return how long each check took; 0 where results.json, which is a file, has no such time."""
    times = results.judging.get("checks_s")
    given = [*(times if isinstance(times, list) else ()), *[0.0] * count][:count]
    return [_seconds(time) for time in given]


def _seconds(time: object) -> float:
    return time if isinstance(time, float) and 0 <= time < _LONG_S else 0.0


def counts_of(statuses: Sequence[Status], skipped: int = 0) -> dict[str, str]:
    """Count test cases as a suite's attributes do."""
    failures, passed = statuses.count(Status.FAIL), statuses.count(Status.PASS)
    errors = len(statuses) - failures - passed
    tests = len(statuses) + skipped
    return {"tests": str(tests), "failures": str(failures), "errors": str(errors)}


def add_case(suite: ET.Element, class_name: str, name: str, **more: str) -> ET.Element:
    """Add a test case."""
    attributes = {"classname": clean(class_name), "name": clean(name), **more}
    return ET.SubElement(suite, "testcase", attributes)


def add_problem(case: ET.Element, status: Status, summary: str, lines: Iterable[str]) -> None:
    """Say of a test case why it is no PASS."""
    tag = "failure" if status is Status.FAIL else "error"
    problem = ET.SubElement(case, tag, type=str(status), message=clean(f"{status}: {summary}"))
    problem.text = clean("\n".join(lines) or summary)


def _add_check(suite: ET.Element, check: CheckResult, class_name: str, time_s: float) -> None:
    case = add_case(suite, class_name, check.checker, time=f"{time_s:.6f}")
    if check.allowed:
        notes = (f"{note.get('kind')}: {note.get('explanation')}" for note in check.allowed)
        text = "\n".join(["Not promised, so no violation:", *notes])
        ET.SubElement(case, "system-out").text = clean(text)
    if check.status is not Status.PASS:
        found = check.anomalies
        lines = (f"{a.get('kind', 'anomaly')}: {a.get('explanation', '')}" for a in found)
        add_problem(case, check.status, check.summary, lines)


def clean(text: str) -> str:
    """Return the text without what XML cannot hold, cut where it is very long."""
    return _NOT_XML.sub("\ufffd", text[:_TEXT_MAX])

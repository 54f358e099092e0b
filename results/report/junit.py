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
from collections.abc import Iterator
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
    failures = sum(check.status is Status.FAIL for check in checks)
    errors = sum(check.status not in (Status.FAIL, Status.PASS) for check in checks)
    mutant = results.plan.get("mutant")
    campaign = str(results.plan.get("campaign", "history"))
    name = f"{campaign}/{results.run}"
    tests = len(checks) + len(results.skipped)
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors)}
    title = f"mutant {mutant}: {name}" if mutant else name
    title += f" WITHOUT {', '.join(results.skipped)}" if results.skipped else ""
    duration_s = f"{float(results.judging.get('duration_s', 0.0)):.3f}"
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(
        suites,
        "testsuite",
        {
            "name": clean(title),
            **counts,
            "skipped": str(len(results.skipped)),
            "time": duration_s,
            "timestamp": str(results.judging.get("at", "")).removesuffix("Z"),
        },
    )
    properties = ET.SubElement(suite, "properties")
    for field, value in _properties(results):
        ET.SubElement(properties, "property", {"name": field, "value": clean(value)})
    for check, time_s in zip(checks, times_s(results, len(checks)), strict=True):
        _add_case(suite, check, f"{campaign}.check", time_s)
    for row, fault in zip(results.plan.get("skipped") or (), results.skipped, strict=False):
        _add_skipped(suite, fault, row, f"{campaign}.fault")
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
    return [time if isinstance(time, float) and 0 <= time < _LONG_S else 0.0 for time in given]


def _add_case(suite: ET.Element, check: CheckResult, class_name: str, time_s: float) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": clean(class_name), "name": clean(check.checker), "time": f"{time_s:.6f}"},
    )
    if check.allowed:
        notes = (f"{note.get('kind')}: {note.get('explanation')}" for note in check.allowed)
        text = "\n".join(["Not promised, so no violation:", *notes])
        ET.SubElement(case, "system-out").text = clean(text)
    if check.status is Status.PASS:
        return
    tag = "failure" if check.status is Status.FAIL else "error"
    attributes = {"type": str(check.status), "message": clean(f"{check.status}: {check.summary}")}
    element = ET.SubElement(case, tag, attributes)
    lines = [
        f"{anomaly.get('kind', 'anomaly')}: {anomaly.get('explanation', '')}"
        for anomaly in check.anomalies
    ]
    element.text = clean("\n".join(lines) or check.summary)


def _add_skipped(suite: ET.Element, fault: str, row: object, class_name: str) -> None:
    attributes = {"classname": clean(class_name), "name": clean(fault)}
    case = ET.SubElement(suite, "testcase", attributes)
    reason = row.get("reason") if isinstance(row, dict) else ""
    ET.SubElement(case, "skipped", {"message": clean(f"it cannot work there: {reason}")})


def clean(text: str) -> str:
    """Return the text without what XML cannot hold, cut where it is very long."""
    return _NOT_XML.sub("\ufffd", text[:_TEXT_MAX])

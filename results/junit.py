"""junit.xml: a run as a test suite, a check as a test case, so that any CI system shows it.

A check that FAILs is a failure. UNKNOWN and UNDER-EXERCISED are errors: no system takes a test
case for passed that has an error, which is what they must never be taken for. A run without any
check has one test case, in error. Each fault that was left out as impossible is a skipped test
case, and the suite's name says so.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from checkers.verdict import CheckResult, Status
from results.files import write_atomically
from results.model import RunResults
from results.store import RunStore

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT_MAX = 10_000


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
    name = f"{results.plan.get('campaign', 'history')}/{results.run}"
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
            "name": _clean(title),
            **counts,
            "skipped": str(len(results.skipped)),
            "time": duration_s,
            "timestamp": str(results.judging.get("at", "")).removesuffix("Z"),
        },
    )
    properties = ET.SubElement(suite, "properties")
    for field in ("seed", "workload", "backend", "nodes", "mutant", "command"):
        if results.plan.get(field) is not None:
            value = _clean(str(results.plan[field]))
            ET.SubElement(properties, "property", {"name": field, "value": value})
    for check in checks:
        _add_case(suite, check, name)
    for row, fault in zip(results.plan.get("skipped") or (), results.skipped, strict=False):
        _add_skipped(suite, fault, row, name)
    ET.indent(suites, " ")
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_case(suite: ET.Element, check: CheckResult, class_name: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": _clean(class_name), "name": _clean(check.checker), "time": "0"},
    )
    if check.status is Status.PASS:
        return
    tag = "failure" if check.status is Status.FAIL else "error"
    attributes = {"type": str(check.status), "message": _clean(f"{check.status}: {check.summary}")}
    told = ET.SubElement(case, tag, attributes)
    lines = [
        f"{anomaly.get('kind', 'anomaly')}: {anomaly.get('explanation', '')}"
        for anomaly in check.anomalies
    ]
    told.text = _clean("\n".join(lines) or check.summary)


def _add_skipped(suite: ET.Element, fault: str, row: object, class_name: str) -> None:
    attributes = {"classname": _clean(class_name), "name": _clean(f"fault {fault}"), "time": "0"}
    case = ET.SubElement(suite, "testcase", attributes)
    reason = row.get("reason") if isinstance(row, dict) else ""
    ET.SubElement(case, "skipped", {"message": _clean(f"it cannot work there: {reason}")})


def _clean(text: str) -> str:
    """Return the text without what XML cannot hold, cut where it is very long."""
    return _NOT_XML.sub("\ufffd", text[:_TEXT_MAX])

"""One JUnit document over all runs of a gate, with test cases that have the same name every time.

A CI system follows a test from build to build by class and name. Runs have names, seeds and a
number of their own, so a case stands for all runs of a campaign:

| class | name | time | fails |
|---|---|---|---|
| `<campaign>.check` | a check | of its judging, over all runs | where that of any run did |
| `<campaign>.gate` | `runs` | of clients acting, over all runs | where any run does not pass |
| `gate.policy` | a requirement, or `canary` | 0 | where it is not met |

Its text names each run and what was found there. A check of a canary, which must FAIL, is no case;
whether it did is one of `gate.policy`. As in a run's own junit.xml, FAIL is a failure, and
UNKNOWN and UNDER-EXERCISED are errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from checkers.verdict import Status, worst
from results.gate.policy_gate import GateDecision, GateEntry
from results.report.junit import add_case, add_problem, clean, counts_of, times_s

_NO_CAMPAIGN = "unreadable"


@dataclass(slots=True)
class _Case:
    """What all runs of a campaign say of one thing."""

    time_s: float = 0.0
    statuses: list[Status] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, status: Status, time_s: float, line: str) -> None:
        self.time_s += time_s
        self.statuses.append(status)
        if status is not Status.PASS:
            self.lines.append(line)


def render(decision: GateDecision) -> bytes:
    """Return the document."""
    root = ET.Element("testsuites")
    for campaign, entries in _by_campaign(decision.entries).items():
        _add_suite(root, campaign, f"{campaign}.check", _checks(entries))
        _add_suite(root, f"{campaign} (gate)", f"{campaign}.gate", {"runs": _runs(entries)})
    if decision.all_requirements:
        cases: dict[str, _Case] = {}
        for found in decision.all_requirements:
            cases.setdefault(found.name, _Case()).add(found.status, 0.0, found.sentence)
        _add_suite(root, "policy", "gate.policy", cases)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ET.indent(root, " ")
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _by_campaign(entries: Iterable[GateEntry]) -> dict[str, list[GateEntry]]:
    found: dict[str, list[GateEntry]] = {}
    for entry in entries:
        campaign = _NO_CAMPAIGN if entry.facts is None else entry.facts.campaign
        found.setdefault(campaign, []).append(entry)
    return dict(sorted(found.items()))


def _runs(entries: Iterable[GateEntry]) -> _Case:
    case = _Case()
    for entry in entries:
        time_s = 0.0 if entry.facts is None else entry.facts.duration_s
        case.add(entry.status, time_s, entry.line)
    return case


def _checks(entries: Iterable[GateEntry]) -> dict[str, _Case]:
    cases: dict[str, _Case] = {}
    for entry in entries:
        if entry.results is None or (entry.facts is not None and entry.facts.mutant is not None):
            continue
        checks = entry.results.checks
        for check, time_s in zip(checks, times_s(entry.results, len(checks)), strict=True):
            line = f"{entry.run}: {check.status}: {check.summary}"
            cases.setdefault(check.checker, _Case()).add(check.status, time_s, line)
    return cases


def _add_suite(root: ET.Element, name: str, class_name: str, cases: dict[str, _Case]) -> None:
    if not cases:
        return
    statuses = [worst(case.statuses) for case in cases.values()]
    suite = ET.SubElement(
        root,
        "testsuite",
        {"name": clean(name), **counts_of(statuses)},
        time=f"{sum(case.time_s for case in cases.values()):.3f}",
    )
    for (case_name, case), status in zip(cases.items(), statuses, strict=True):
        element = add_case(suite, class_name, case_name, time=f"{case.time_s:.6f}")
        if status is not Status.PASS:
            add_problem(element, status, case.lines[0], case.lines)

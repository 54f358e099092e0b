"""What the gate says, for programs and for the pages of a CI system.

Names and reasons come from files of unknown origin. In a terminal they are one printable line
(`results.gate.refusals.one_line`); here they are also escaped for what reads them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

from checkers.verdict import Status, worst
from results.gate.policy_gate import GateDecision, GateEntry
from results.report.junit import add_case, add_problem, clean, counts_of, times_s
from results.store.facts import Facts
from results.store.model import one_line

VERSION = 1
"""Of the JSON document. A key may come; none goes or changes its meaning without a new version."""
_CELL_CHARACTERS_MAX = 1000
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~-])")


def to_document(decision: GateDecision) -> dict[str, Any]:
    """Return the decision as a document: what each run is, and why it passes or not."""
    return {
        "version": VERSION,
        "status": str(decision.status),
        "exit_code": decision.exit_code,
        "summary": decision.summary,
        "runs": [_run_json(entry) for entry in decision.entries],
        "requirements": [asdict(found) for found in decision.requirements],
        "canary": None if decision.canary is None else asdict(decision.canary),
    }


def to_markdown(decision: GateDecision) -> str:
    """Return the decision as a section of a page in Markdown, all that is foreign escaped."""
    rows = ["| verdict | run | build | why |", "|---|---|---|---|"]
    for entry in decision.entries:
        build = entry.facts.build if entry.facts is not None else ""
        why = entry.line.removeprefix(f"{entry.run}: ")
        rows.append(f"| {entry.status} | {_md(entry.run)} | {_md(build)} | {_md(why)} |")
    parts = [f"## Kraftprobe: {_md(decision.summary)}", "\n".join(rows)]
    if decision.all_requirements:
        rows = ["| verdict | requirement | found |", "|---|---|---|"]
        for found in decision.all_requirements:
            rows.append(f"| {found.status} | {_md(found.name)} | {_md(found.sentence)} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def to_annotations(decision: GateDecision) -> Iterator[str]:
    """Yield workflow commands that GitHub shows beside a commit: one for what does not pass."""
    for entry in decision.entries:
        if not entry.passed:
            yield _annotation(entry.status, entry.run, entry.line)
    for found in decision.all_requirements:
        if found.status is not Status.PASS:
            yield _annotation(found.status, found.name, found.sentence)
    if decision.exit_code == 0:
        yield f"::notice title=Kraftprobe::{_escape(decision.summary)}"


def _annotation(status: Status, name: str, text: str) -> str:
    title = _escape(f"Kraftprobe {status}: {name}").replace(":", "%3A").replace(",", "%2C")
    return f"::error title={title}::{_escape(text)}"


def _escape(text: str) -> str:
    """Escape as GitHub's own toolkit does, so that no text ends the command and begins another."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _md(text: str) -> str:
    """Escape a text so that Markdown, and HTML within it, shows it as it is."""
    flat = html.escape(one_line(text, _CELL_CHARACTERS_MAX), quote=False)
    return _MARKDOWN.sub(r"\\\1", flat).replace("@", "@\u200b")  # nobody is notified


def _run_json(entry: GateEntry) -> dict[str, Any]:
    return {
        "run": entry.run,
        "status": str(entry.status),
        "line": entry.line,
        "verdict": None if entry.results is None else entry.results.verdict,
        "facts": None if entry.facts is None else _facts_json(entry.facts),
    }


def _facts_json(facts: Facts) -> dict[str, Any]:
    return {
        "campaign": facts.campaign,
        "workload": facts.workload,
        "system": facts.system,
        "build": facts.build,
        "build_names": list(facts.builds),
        "backend": facts.backend,
        "nodes": facts.nodes,
        "mutant": facts.mutant,
        "seeds": list(facts.seeds),
        "started": None if facts.started is None else f"{facts.started:%Y-%m-%dT%H:%M:%SZ}",
        "duration_s": facts.duration_s,
        "operations_ok": facts.ok,
        "leader_changes": facts.leader_changes,
        "faults": dict(facts.faults),
        "figures": dict(facts.figures),
        "signed_by": facts.signer,
    }


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


def to_junit(decision: GateDecision) -> bytes:
    """Return one JUnit document over all runs, with test cases that are named alike every time.

    A CI system follows a test from build to build by class and name. Runs have names, seeds and a
    number of their own, so a case stands for all runs of a campaign:

    | class | name | time | fails |
    |---|---|---|---|
    | `<campaign>.check` | a check | of its judging, over all runs | where that of any run did |
    | `<campaign>.gate` | `runs` | of clients acting, over all runs | where any does not pass |
    | `gate.policy` | a requirement, or `canary` | 0 | where it is not met |

    Its text names each run and what was found there. A check of a canary, which must FAIL, is no
    case; whether it did is one of `gate.policy`. As in a run's own junit.xml, FAIL is a failure,
    and UNKNOWN and UNDER-EXERCISED are errors.
    """
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

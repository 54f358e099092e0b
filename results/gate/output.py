"""What the gate says, for programs and for the pages of a CI system.

Names and reasons come from files of unknown origin. In a terminal they are one printable line
(`results.gate.refusals.one_line`); here they are also escaped for what reads them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from checkers.verdict import Status
from results.gate.policy_gate import GateDecision, GateEntry
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

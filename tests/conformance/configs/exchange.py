"""One combined node of either kind is asked everything about configurations."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.configs.cases import CLIENT, DESCRIBE, LIST, Case, cases
from tests.conformance.exchanges.cases import Situation
from tests.conformance.exchanges.nodes import HOST, node
from tests.conformance.exchanges.table import FOLDER
from tests.conformance.exchanges.wire import ask

ALONE = Situation("configs", voters=1, dynamic=True)
APPLIED_S = 1.0
"""How long a broker may take to show what the controller has committed."""
Answers = dict[str, Any]
"""Name of a case -> its answer."""


def exchange(kind: str, folder: Path, options: Mapping[str, str]) -> Answers:
    """Ask all cases in order."""
    found: Answers = {}
    with node(kind, ALONE, folder, options) as (facts, _):
        controller, client = facts.ports
        _wait_for_broker(client)
        is_altered = True
        for case in cases():
            reads = case.key in {DESCRIBE, LIST}
            if reads and is_altered:
                time.sleep(APPLIED_S)
            is_altered = not reads
            port = client if case.listener == CLIENT else controller
            found[case.name] = comparable(_answer(port, case), folder, facts.ports)
    return found


def _wait_for_broker(port: int) -> None:
    """Wait until the broker is unfenced, so that topics can be created."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            answer = ask((HOST, port), 60, 0, {})
        except OSError:
            answer = None
        if isinstance(answer, dict) and answer["brokers"]:
            return
        time.sleep(0.1)
    raise AssertionError("the broker does not serve")


def _answer(port: int, case: Case) -> Any:
    return ask((HOST, port), case.key, case.version, case.body)


def comparable(value: Any, folder: Path, ports: Mapping[int, str], name: str = "") -> Any:
    """Order what has no order, and put names in the place of what differs from start to start."""
    if isinstance(value, dict):
        return {key: comparable(each, folder, ports, key) for key, each in value.items()}
    if isinstance(value, list):
        found = [comparable(each, folder, ports, name) for each in value]
        if name == "configs":
            return {each.pop("name"): each for each in found}
        return sorted(found, key=json.dumps) if name == "config_resources" else found
    if name == "documentation" and value:
        return hashlib.sha256(value.encode()).hexdigest()[:8]
    if name == "topic_id" and value is not None:
        return "an id"
    if isinstance(value, str):
        value = value.replace(str(folder), "FOLDER")
        return re.sub(r":(\d+)", lambda m: f":{ports.get(int(m[1]), m[1])}", value)
    return value


def stored_file(version: str) -> Path:
    """Where the answers of a release are kept."""
    return FOLDER / f"configs-{version}.jsonl"


def store(version: str, answers: Answers) -> None:
    """One line for each answer, in order."""
    lines = (json.dumps([name, answer], separators=(",", ":")) for name, answer in answers.items())
    stored_file(version).write_text("".join(f"{line}\n" for line in lines))


def load(version: str) -> Answers:
    """Read what was stored."""
    return dict(json.loads(line) for line in stored_file(version).read_text().splitlines())

"""Workloads and faults that a system cannot have are refused before anything starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.doctor import impossible_faults
from harness.errors import PlanError
from harness.plan.schedule import STRAND
from harness.plan.strands import check_strand

EXAMPLE = Path(__file__).parents[2] / "docs/own-system"
_SCRIPT = """
import json, sys
from click.testing import CliRunner
from harness.cli import main
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, ["run", *arguments], prog_name="kraftprobe")
    print(json.dumps([done.exit_code, done.stderr]))
"""
CASES = {
    "own workload, default system": (["--workload", "shared-cells"], "shared-cells"),
    "own workload, Kafka": (
        ["--workload", "shared-cells", "--system", "apache-kafka", "--kafka-version", "4.3.1"],
        "--system shared-cells",
    ),
    "Kafka's workload": (["--system", "shared-cells", "--workload", "log"], "shared-cells"),
    "no workload named": (["--system", "shared-cells"], "shared-cells"),
    "resign without a leader": (
        ["--system", "shared-cells", "--workload", "shared-cells", "--faults", "resign"],
        "resign cannot work",
    ),
    "voters without a quorum": (
        ["--system", "shared-cells", "--workload", "shared-cells", "--faults", "kill,voters"],
        "voters cannot work",
    ),
    "damage to files of a format that nobody knows": (
        ["--system", "shared-cells", "--workload", "shared-cells", "--faults", "kill,bit-flip"],
        "bit-flip cannot work",
    ),
    "addresses that no quorum names": (
        ["--system", "shared-cells", "--workload", "shared-cells", "--faults", "address-change"],
        "address-change cannot work",
    ),
    "security that its nodes would leave out": (
        ["--campaign", "tls.toml"],
        "security: system shared-cells cannot secure its listeners",
    ),
    "roles of nodes that have one": (["--faults", "role-change"], "no roles of their own"),
    "open system, Kafka's workload": (["--system", "open", "--workload", "log"], "log"),
    "open system, another's workload": (
        ["--system", "open", "--workload", "shared-cells"],
        "shared-cells",
    ),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    (folder / "open_system.py").write_text(
        "from dataclasses import replace\nimport shared_cells\n"
        "SYSTEM = replace(shared_cells.SYSTEM, name='open', workloads=None, backends=None)\n"
    )
    (folder / "tls.toml").write_text(
        "system = 'shared-cells'\nfaults = ['kill']\nsecurity = { protocol = 'SSL' }\n"
    )
    for name, rows in {
        "shared-cells": "[kraftprobe.systems]\nshared-cells = shared_cells:SYSTEM\n"
        "[kraftprobe.workloads]\nshared-cells = shared_cells:WORKLOAD\n",
        "open": "[kraftprobe.systems]\nopen = open_system:SYSTEM\n",
    }.items():
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(rows)
    path = os.pathsep.join([str(folder), str(EXAMPLE), str(EXAMPLE.parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps([typed for typed, _ in CASES.values()])],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (folder / "runs").exists()
    return dict(zip(CASES, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_by_its_name(refusals, case):
    code, said = refusals[case]
    assert code == 2, said
    assert CASES[case][1] in said
    assert "Traceback" not in said


def test_a_system_that_is_no_metadata_quorum_can_list_damage_and_nothing_else_of_one():
    listed = frozenset({"kill", "bit-flip", "disk-wipe"})
    kind = SimpleNamespace(can_describe=False, faults={"local": listed})
    plan = SimpleNamespace(kind=kind, system="other", backend="local")
    refused = impossible_faults._unfit(plan, ("kill", "bit-flip", "truncate-file", "disk-wipe"))
    assert sorted(refused) == ["disk-wipe", "truncate-file"]


@pytest.mark.parametrize(
    "step",
    [
        {"kind": "kill", "until": {"state": "Leader"}},
        {"kind": "kill", "until": {"at": "leader", "ok": "x"}},
        {"kind": "wait", "until": {"epoch": "later"}},
        {"kind": "cast", "names": {"A": "follower"}},
        {"kind": "expect", "that": {"established": True}},
    ],
)
def test_strands_of_a_system_without_traces_look_at_no_state(step):
    waits = STRAND.read({"steps": [{"kind": "kill", "targets": "leader", "until": {"ok": "x"}}]})
    check_strand(waits, ("n1", "n2"), frozenset(), ("x",), ("schedule", 0))
    read = STRAND.read({"steps": [step]})
    with pytest.raises(PlanError, match="does not trace state; it traces nothing"):
        check_strand(read, ("n1", "n2"), frozenset(), ("x",), ("schedule", 0))

"""A policy file, from its page to the gate: what docs/gate.md shows is what the gate takes."""

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.policy.document import (
    Baseline,
    Canary,
    Each,
    Policy,
    PolicyError,
    Require,
    read_policy,
)
from tests.command_line import kraftprobe
from tests.gate.bench import Bench
from tests.gate.policies import TRUST, sign, trust

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
EXAMPLE = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]
WHOLE = re.sub(
    r"^# (?=signed_by|allowed_signers|\[baseline\]|runs =|figures|level|tolerance)",
    "",
    EXAMPLE,
    flags=re.MULTILINE,
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("policy"))


def run(*arguments):
    result = kraftprobe("gate", *arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize("text", [EXAMPLE, WHOLE])
def test_the_policy_of_the_page_is_one(tmp_path, text):
    path = tmp_path / "release.toml"
    path.write_text(text)
    policy = read_policy(path)
    assert policy.canaries == {"M15"}
    assert policy.require[0].faults == ("kill", "pause", "partition")
    assert (policy.baseline is None) is (text == EXAMPLE)


def test_the_page_shows_every_key():
    document = tomllib.loads(WHOLE)
    shown = {
        Each: document["each"].keys(),
        Baseline: document["baseline"].keys(),
        Require: {*document["require"][0], "system", "build", "nodes"},
        Canary: {*document["canary"][0], "campaign"},
        Policy: {*document, "allow_skipped", "allow_no_faults", "no_canary", "about"},
    }
    assert {kind: {field.name for field in fields(kind)} for kind in shown} == shown


def test_paths_are_those_beside_the_policy(tmp_path):
    (tmp_path / "release.toml").write_text(
        'version = 1\n[each]\nsigned_by = ["a"]\nallowed_signers = "keys"\n[baseline]\nruns = ["earlier"]\n'
    )
    policy = read_policy(tmp_path / "release.toml")
    assert policy.each.allowed_signers == str(tmp_path / "keys")
    assert policy.baseline is not None
    assert policy.baseline.runs == (str(tmp_path / "earlier"),)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[baseline]\nruns = []", "baseline.runs must be a list of folders, not []"),
        ('[baseline]\nruns = ["x"]\nfigures = ["p99"]', "unknown figure 'p99'"),
        ("[each]\nage_max_h = 0", "each.age_max_h must be a number from 0.001 to "),
        ("[each]\nage_max_h = '1'", "each.age_max_h must be a number from 0.001 to "),
        (
            '[[canary]]\nmutant = "M15"\ncheck = "linearisable"',
            "unknown check 'linearisable'; did you mean 'linearizable'?",
        ),
        ('[each]\nbackends = ["dokcer"]', "unknown backend 'dokcer'; did you mean 'docker'?"),
        ('[[require]]\nworkload = "registr"', "unknown workload 'registr'"),
        ("[[require]]\nseeds = 0", "require 1: seeds must be a whole number from 1 to "),
        ("[[canary]]", "canary 1: mutant is missing"),
        (
            '[each]\nsigned_by = ["a\\u0000"]',
            "each.signed_by 1 must be a string of at most 10000 characters, not 'a\\x00'",
        ),
        ("judge_again = 1", "judge_again must be true or false, not 1"),
        ('version = 1\n[each]\nsigned_by = ["a"]', "signed_by and allowed_signers go together"),
        ('version = 1\n[each]\nallowed_signers = "a"', "signed_by and allowed_signers go together"),
    ],
)
def test_a_wrong_policy_is_a_line_with_file_and_place(tmp_path, text, line):
    path = tmp_path / "release.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as refused:
        read_policy(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_policy_that_is_not_there_is_usage(tmp_path, bench):
    code, output = run("--policy", tmp_path / "absent.toml", bench.copy("good").folder)
    assert code == 2
    assert output == f"kraftprobe: {tmp_path / 'absent.toml'}: No such file or directory\n"


def test_quiet_prints_the_decision_alone(bench):
    code, output = run("--quiet", bench.copy("good").folder)
    assert (code, output) == (0, "gate open: 1 of 1 run passes; under test: kraft 0.1.0\n")


@pytest.mark.slow
def test_json_is_a_document_and_nothing_else(bench):
    code, output = run("--json", bench.copy("bad").folder)
    assert code == 1
    assert json.loads(output)["runs"][0]["status"] == "FAIL"
    code, output = run("--json", "--quiet", bench.copy("good").folder)
    assert (code, output.count("\n")) == (2, 1)


def test_files_for_a_ci_system_are_written_whatever_the_verdict(tmp_path, bench):
    junit, summary = tmp_path / "gate.xml", tmp_path / "summary.md"
    summary.write_text("# Before\n")
    options = ("--junit", junit, "--summary", summary, "--github")
    code, output = run(*options, bench.copy("bad").folder)
    assert code == 1
    assert ET.parse(junit).getroot().get("failures") == "3"  # two checks, and the gate
    assert summary.read_text().startswith("# Before\n## Kraftprobe: gate closed")
    assert output.splitlines()[-1].startswith("::error title=Kraftprobe FAIL%3A synthetic/bad::")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, bench):
    for option in ("--junit", "--summary"):
        code, output = run(option, tmp_path / "no" / "gate.xml", bench.copy("good").folder)
        assert (code, output.count("\n")) == (2, 1)
    code, output = run("--summary", "/dev/full", bench.copy("good").folder)
    assert (code, output.count("\n"), "/dev/full: No space left" in output) == (2, 1, True)


def test_a_policy_trusts_the_signers_that_its_file_names(tmp_path, bench):
    store = bench.copy("good")
    trust(tmp_path)
    (tmp_path / "release.toml").write_text(f"version = 1\n{TRUST}")
    sign(store.digests_path, tmp_path / "release")
    assert run("--policy", tmp_path / "release.toml", store.folder)[0] == 0


def test_signatures_without_ssh_keygen_are_one_line(tmp_path, bench, monkeypatch):
    trust(tmp_path)
    (tmp_path / "release.toml").write_text(f"version = 1\n{TRUST}")
    store = bench.copy("good")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, output = run("--policy", tmp_path / "release.toml", store.folder)
    assert (code, output.count("\n")) == (2, 1)
    assert "ssh-keygen" in output

"""The ladder: its table, what a rung's runs come to, and the pages that repeat it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import page
from checkers.verdict import Status
from harness.commands import ladder as command
from harness.ladder import climb as climbing
from harness.ladder.climb import Outcome, climb, other_outcomes, rows_of, run_side, write
from harness.ladder.rungs import Rung, label, rungs
from harness.plan.document import from_document, in_simulation
from tests.command_line import kraftprobe
from tests.kafka_release import raft_jars

README = Path(__file__).parents[2] / "README.md"
SIMULATED = [rung for rung in rungs().values() if rung.backend == "sim"]
OWN = [rung for rung in rungs().values() if not rung.plan.startswith("packages/")]
RUNG = Rung(
    "example", "what", "plans/stale-voters.toml", {"seed": 1}, {"seed": 2}, "log", 1, "a record"
)


def outcome(status: Status, **failed: str) -> Outcome:
    return Outcome(status, failed, 2.0)


FOUND = outcome(Status.FAIL, log="n1 lost a record")
PASSED = outcome(Status.PASS)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch):
    """Let runs come to these, one after the other; returns the documents that were run."""

    def come(*found: Outcome) -> list[dict]:
        documents: list[dict] = []
        left = iter(found)

        def run(document: dict, _: Path) -> Outcome:
            documents.append(document)
            return next(left)

        monkeypatch.setattr(climbing, "run_side", run)
        return documents

    return come


@pytest.mark.parametrize("rung", OWN, ids=[rung.id for rung in OWN])
def test_both_sides_of_a_rung_are_plans(rung):
    read = in_simulation if rung.backend == "sim" else from_document
    fails, passes = (read(rung.document(side, 3)) for side in (rung.fails, rung.passes))

    assert (fails.seed, passes.seed) == (3, 3)
    assert fails != passes


@pytest.mark.parametrize(
    ("fails", "passes", "status"),
    [
        (FOUND, PASSED, Status.PASS),
        (PASSED, PASSED, Status.UNKNOWN),
        (outcome(Status.FAIL, log="another reason"), PASSED, Status.UNKNOWN),
        (outcome(Status.FAIL, durability="n1 lost a record"), PASSED, Status.UNKNOWN),
        (outcome(Status.UNKNOWN), PASSED, Status.UNKNOWN),
        (FOUND, outcome(Status.UNDER_EXERCISED), Status.UNKNOWN),
        (FOUND, FOUND, Status.FAIL),
        (FOUND, outcome(Status.FAIL, durability="another"), Status.FAIL),
        (PASSED, FOUND, Status.FAIL),
    ],
)
def test_a_rung_holds_where_one_side_fails_by_its_check_and_the_other_passes(
    outcomes, tmp_path, fails, passes, status
):
    outcomes(fails, passes)
    assert climb(RUNG, 1, tmp_path, lambda _: None).status is status


def test_another_check_does_not_name_a_bug_that_needs_no_cause(outcomes, tmp_path):
    outcomes(outcome(Status.FAIL, durability="n1 lost a record"), PASSED)
    plain = replace(RUNG, cause="")
    assert climb(plain, 1, tmp_path, lambda _: None).found == 0


def test_one_run_of_several_finds_a_bug_and_one_accuses(outcomes, tmp_path):
    outcomes(PASSED, PASSED, FOUND, PASSED, PASSED, FOUND)
    climbed = climb(RUNG, 3, tmp_path, lambda _: None)

    assert (climbed.found, climbed.passed, climbed.status) == (1, 2, Status.FAIL)
    assert other_outcomes(climbed) == [
        "example, must FAIL, seed 1: PASS",
        "example, must FAIL, seed 3: PASS",
        "example, must PASS, seed 3: FAIL by log: n1 lost a record",
    ]


def test_a_run_is_not_told_what_is_expected_of_it(outcomes, tmp_path):
    """A side's document is its plan: no key of it tells one from the other but what it changes."""
    documents = outcomes(FOUND, PASSED)
    climb(RUNG, 1, tmp_path, lambda _: None)

    assert documents[0] | {"seed": 2} == documents[1]


@pytest.mark.parametrize(
    ("fails", "passes", "code"), [(FOUND, PASSED, 0), (FOUND, FOUND, 1), (PASSED, PASSED, 3)]
)
def test_the_exit_code_tells_an_accusation_from_a_lost_detection(
    outcomes, tmp_path, monkeypatch, fails, passes, code
):
    monkeypatch.setattr(command, "rungs", lambda: {"example": RUNG})
    outcomes(fails, passes)

    done = kraftprobe("ladder", "--quiet", "--runs", tmp_path)

    assert done.exit_code == code, done.output


def test_a_rung_that_cannot_be_run_here_is_named_and_proves_nothing(monkeypatch, tmp_path):
    broken = Rung("example", "what", "packages/none.toml", {"seed": 1}, {"seed": 2}, "log", 1)
    monkeypatch.setattr(command, "rungs", lambda: {"example": broken})
    arguments = ["ladder", "--runs", str(tmp_path)]

    done = kraftprobe(*arguments)
    asked = kraftprobe(*arguments, "--rung", "example")

    assert (done.exit_code, asked.exit_code) == (3, 2)
    assert "not run: example: packages/none.toml lies in a clone " in done.stdout


def test_rows_are_written_into_a_page_and_others_stay(outcomes, tmp_path):
    first, second = list(rungs().values())[:2]
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- begin ladder -->\n<!-- end ladder -->\nafter\n")
    for rung in (second, first):
        outcomes(FOUND, PASSED)
        write(file, [climb(rung, 1, tmp_path, lambda _: None)])

    rows = rows_of(file.read_text())
    assert list(rows) == list(rungs())
    assert "| 0 of 1 (0% to 79%) |" in rows[first.id], "its check is another one"
    assert "| 1 of 1 |" in rows[second.id]
    assert file.read_text().startswith("before\n")
    assert file.read_text().endswith("-->\nafter\n")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def test_the_results_have_each_rung_as_the_table_has_it():
    rows = rows_of(page.section("ladder"))

    assert list(rows) == list(rungs())
    for name, rung in rungs().items():
        _, about, fails, _, passes, _, check, backend, _ = cells(rows[name])
        expected = [rung.about, label(rung.fails), label(rung.passes), rung.check, rung.backend]
        assert [about, fails, passes, check.strip("`"), backend] == expected


def test_the_readme_states_what_the_rungs_came_to():
    """Each row of the track record that names a rung has its releases and how often it was found."""
    rows = rows_of(page.section("ladder"))
    found = re.findall(r"^\|.*`ladder --rung ([a-z0-9-]+)` \|$", README.read_text(), re.MULTILINE)

    assert len(found) >= 4
    for line in README.read_text().splitlines():
        if name := re.search(r"`ladder --rung ([a-z0-9-]+)` \|$", line):
            _, fails, passes, often, _ = cells(line)
            row = cells(rows[name[1]])
            assert row[2].split(",")[0].split(" to ")[0] in fails
            assert row[4].split(",")[0].split(" to ")[0].replace("raft", "node") in passes
            assert often == row[3].partition(" (")[0]


@pytest.mark.slow
@pytest.mark.parametrize("rung", SIMULATED, ids=[rung.id for rung in SIMULATED])
def test_a_simulated_bug_is_found_again(rung, tmp_path):
    document = rung.document(rung.fails, 1)
    raft_jars(document["system_options"]["version"])

    found = run_side(document, tmp_path)

    assert found.status is Status.FAIL
    assert rung.cause in found.failed[rung.check]

"""Calibrations: trials are blind, stored and continued; the score says what was found and lost."""

import json
import re
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from cluster.mutants import find
from cluster.mutants.equivalents import EQUIVALENT
from harness.page_sections import read_section
from harness.sim.calibration import calibration as module
from harness.sim.calibration import score
from harness.sim.calibration.calibration import (
    Calibration,
    CalibrationPlan,
    CleanTrial,
    Finding,
    Search,
    Trial,
    read_calibration,
    try_clean,
    try_mutant,
)
from harness.sim.swarm.draw import draw
from tests.command_line import kraftprobe

ROOT = Path(__file__).parents[3]
SHORT_S = 1.0
CONSTRUCTOR = "X:kraft.quorum.control_state:VoterSet.__init__"
FOUND = Trial(
    "M15",
    "counts | twice",
    "consensus",
    Finding("majority-durable", 2, 3, 1.5),
    None,
    3,
    1.5,
    None,
    0,
)
MISSED = Trial("X:kraft.core:f:sum:0", "+ for -", "consensus", None, None, 9, 60.5, False, 2)  # fmt: skip
PLAN = CalibrationPlan(("M15", "X:kraft.core:f:sum:0"), 2, 0, 60.0)


LAST = ROOT / "benchmarks/calibration.json"
QUICKLY = [
    row for row in read_calibration(LAST)["trials"] if row["found"] and row["found"]["cpu_s"] < 2
]


@pytest.mark.slow
@pytest.mark.parametrize("row", QUICKLY, ids=[row["mutant"] for row in QUICKLY])
def test_what_the_last_calibration_found_quickly_is_found_again(row):
    again = Search(row["mutant"], 0, 30.0).run(is_blackbox=False)
    assert again is not None, f"it was found by {row['found']}"


@pytest.mark.nightly
def test_what_the_last_calibration_found_is_found_again(tmp_path):
    out = tmp_path / "calibration"
    arguments = ("--mechanical", 10, "--clean", 300, "--against", LAST, "--out", out)
    result = calibrate(*arguments)
    assert result.exit_code == 0, result.stdout


@pytest.fixture
def short_worlds(monkeypatch):
    monkeypatch.setattr(module, "draw", partial(draw, duration_ms=1000))


@pytest.mark.slow
@pytest.mark.usefixtures("short_worlds")
def test_a_mutant_is_found_in_the_world_that_the_true_node_passes():
    tried = try_mutant("M15", 0, SHORT_S)
    assert (tried.found.property, tried.layer) == ("majority-durable", "consensus")
    assert try_clean(tried.found.seed).verdict in {"PASS", "UNDER-EXERCISED"}


@pytest.mark.usefixtures("short_worlds")
def test_what_clients_see_is_heeded_alone(monkeypatch):
    asked = frozenset().union(*(module._blackbox(draw(seed)) for seed in range(20)))
    assert {"linearizable", "durability", "log", "metadata-answered"} <= asked
    assert not asked & {"majority-durable", "isr", "replica-logs", "records"}
    monkeypatch.setattr(module, "_blackbox", lambda _: frozenset({"majority-durable"}))
    both = try_mutant("M15", 0, SHORT_S)
    assert both.found == both.alone
    monkeypatch.setattr(module, "_blackbox", lambda _: frozenset({"majority-counted"}))
    other = try_mutant("M15", 0, SHORT_S)
    assert other.found == replace(both.found, cpu_s=other.found.cpu_s)
    assert other.alone.property == "majority-counted"


@pytest.mark.slow
@pytest.mark.usefixtures("short_worlds")
def test_a_mechanical_mutant_says_whether_it_was_reached():
    reached = try_mutant(f"{CONSTRUCTOR}:number:1", 0, SHORT_S)
    assert reached.is_reached
    controller = "X:controller.metadata.scram_users:credential_of:always:0"
    assert try_mutant(controller, 0, 0.1).is_reached is False


@pytest.fixture
def tried(monkeypatch):
    """What was tried, with results that take no time."""
    log = []

    def mutant(mutant_id, first_seed, budget_s):
        log.append((mutant_id, first_seed, budget_s))
        return replace(FOUND if mutant_id == "M15" else MISSED, mutant=mutant_id)

    def clean(seed):
        log.append(seed)
        return CleanTrial(seed, "PASS", None)

    monkeypatch.setattr(module, "try_mutant", mutant)
    monkeypatch.setattr(module, "try_clean", clean)
    return log


def test_an_interrupted_calibration_goes_on_where_it_was(tmp_path, tried):
    first = Calibration(tmp_path, PLAN).run()
    for _ in range(3):
        next(first)
    first.close()
    assert tried == [0, 1]
    again = Calibration(tmp_path, PLAN)
    assert list(again.run()) == list(PLAN.mutants)
    assert tried == [0, 1, ("M15", 0, 60.0), ("X:kraft.core:f:sum:0", 0, 60.0)]
    assert read_calibration(tmp_path / "calibration.json") == again.document


@pytest.mark.parametrize("other", [{"budget_s": 61.0}, {"mutants": ("M15",)}, {"first_seed": 1}])
@pytest.mark.usefixtures("tried")
def test_a_folder_holds_one_calibration(tmp_path, other):
    list(Calibration(tmp_path, PLAN).run())
    with pytest.raises(module.BatchError, match="another calibration"):
        Calibration(tmp_path, replace(PLAN, **other))


@pytest.mark.usefixtures("tried")
def test_the_page_has_the_score_and_a_row_for_each_mutant(tmp_path):
    list(Calibration(tmp_path, PLAN).run())
    page = (tmp_path / "calibration.md").read_text().splitlines()
    assert page[0].startswith("**58 bugs per CPU hour**: 1 of 2 faulty nodes found")
    assert page[1].startswith("Of 2 worlds ")
    assert any(line.startswith("| catalogue | 1 of 1 | 100 % (21 to 100) |") for line in page)
    assert any(
        line.startswith("| mechanical, consensus | 0 of 1 | 0 % (0 to 79) |") for line in page
    )
    rows = [line for line in page if line.startswith("| `")]
    assert "counts \\| twice | majority-durable | 2 | 1.5 | - |" in rows[0]
    assert "never reached, in 2 the harness failed" in rows[1]


@pytest.mark.parametrize(
    ("found", "of", "low", "high"),
    [(0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (10, 10, 0.722, 1.0), (0, 0, 0.0, 1.0)],
)
def test_intervals_are_wilsons(found, of, low, high):
    assert score.interval(found, of) == pytest.approx((low, high), abs=0.001)


def test_no_alarm_among_n_worlds_bounds_them_by_three_of_n():
    assert score.alarms_max(0, 300) == pytest.approx(0.01)
    assert score.alarms_max(3, 300) > 0.02
    assert score.alarms_max(0, 0) == 1.0


def calibrate(*arguments):
    return kraftprobe("calibrate", *arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("tried")
def test_a_mutant_that_was_found_before_and_is_not_now_is_unknown(tmp_path):
    earlier = tmp_path / "earlier.json"
    rows = [asdict(replace(FOUND, mutant=MISSED.mutant.replace("f:", "g:"))), asdict(FOUND)]
    rows[0]["mutant"] = "M34"
    earlier.write_text(json.dumps({"trials": rows, "clean": []}))
    arguments = ("--mutants", "M15,M34", "--clean", 1, "--against", earlier, "--json")
    result = calibrate(*arguments, "--out", tmp_path / "out")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["lost"]) == (3, ["M34"])
    again = calibrate(*arguments, "--budget", 2, "--out", tmp_path / "short")
    assert (again.exit_code, json.loads(again.stdout)["lost"]) == (0, [])


def test_a_world_that_accuses_the_true_node_is_a_fail(tmp_path, tried, monkeypatch):
    monkeypatch.setattr(module, "try_clean", lambda seed: CleanTrial(seed, "FAIL", "liveness"))
    result = calibrate("--mutants", "m15", "--clean", 1, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "kraftprobe sim --seed 0" in result.stdout
    assert [each[0] for each in tried] == ["M15"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"trials": [{}], "clean": []}', '{"trials": [], "clean": [1]}']
)
def test_what_is_no_calibration_is_refused_in_one_line(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_text(content)
    result = calibrate("--mutants", "M15", "--against", file, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{file}: this is no calibration" in result.stderr


def test_an_unknown_mutant_is_refused(tmp_path):
    result = calibrate("--mutants", "M15,M999", "--out", tmp_path)
    assert result.exit_code == 2
    assert "--mutants: unknown mutant 'M999'" in result.stderr


def test_the_page_of_docs_has_the_stored_calibration():
    rows = read_section(ROOT / "docs/calibration.md", score.SECTION).strip().splitlines()
    assert rows == list(score.section(read_calibration(LAST)))


def test_each_mechanical_mutant_is_the_change_that_was_measured_or_argued():
    last = read_calibration(LAST)
    titles = last["equivalent"] | {row["mutant"]: row["title"] for row in last["trials"]}
    moved = [m for m in titles if text_of(find(m).title) != text_of(titles[m])]
    assert moved == [], "rename these to where their changes are now, or measure them again"
    assert {*EQUIVALENT} - {*titles} == set()


def text_of(title):
    return re.sub(r", line \d+\)", ")", title)


EARLIER = {"budget_s": 15.0, "first_seed": 0, "clean": [asdict(CleanTrial(0, "PASS", None))]}


@pytest.mark.usefixtures("tried")
def test_results_go_into_the_earlier_calibration_and_the_page(tmp_path):
    file, page = tmp_path / "earlier.json", tmp_path / "page.md"
    rows = [asdict(replace(FOUND, mutant="I01")), asdict(replace(MISSED, mutant="M15"))]
    file.write_text(json.dumps({**EARLIER, "trials": rows}))
    page.write_text("before\n<!-- begin calibration -->\n<!-- end calibration -->\nafter\n")
    arguments = ("--mutants", "M15,M34", "--clean", 0, "--against", file, "--write", page)
    result = calibrate(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    merged = read_calibration(file)
    found = {row["mutant"]: row["found"] is not None for row in merged["trials"]}
    assert found == {"I01": True, "M15": True, "M34": False}
    assert (merged["budget_s"], len(merged["clean"])) == (60.0, 1)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end calibration -->\nafter\n")
    assert "| majority-durable | `I01`, `M15` |" in text.splitlines()
    missed = "Missed of the catalogue, with the worlds that were tried: `M34` 9."
    assert missed in text.splitlines()


def test_results_need_the_calibration_that_they_go_into(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- begin calibration -->\n<!-- end calibration -->\n")
    result = calibrate("--mutants", "M15", "--write", page, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--write: needs --against" in result.stderr


def test_a_section_names_what_was_missed_and_leaves_out_what_is_equivalent(monkeypatch):
    reached = replace(MISSED, mutant="X:kraft.core:f:sum:1", is_reached=True)
    same = replace(MISSED, mutant="X:kraft.core:f:sum:2", is_reached=True)
    monkeypatch.setattr(score, "EQUIVALENT", {same.mutant: "nobody asks"})
    trials = [asdict(trial) for trial in (FOUND, MISSED, reached, same)]
    lines = list(score.section({**EARLIER, "trials": trials}))
    assert "| mechanical, consensus | 0 of 2 | 0 % (0 to 66) | 0 | 1 | 1 | - | - |" in lines
    assert "Mechanical ones missed though reached: `X:kraft.core:f:sum:1`." in lines
    assert "Mechanical ones never reached: `X:kraft.core:f:sum:0`." in lines
    argued = "Equivalent, as `cluster/mutants/equivalents.py` argues: `X:kraft.core:f:sum:2`."
    assert argued in lines

"""From a red plan to the releases of Kafka's raft module that have its violation."""

import json
import math
from pathlib import Path

import pytest

from cluster.systems.kafka_raft import VERSION as RELEASE
from harness.campaigns import read_document
from harness.commands import shrink as bisect_command
from harness.sim.findings import Violation
from harness.sim.shrink import bisect
from harness.sim.shrink.bisect import HITS, Bisection, finding, rate_bound, seeds_needed
from tests.command_line import kraftprobe
from tests.harness.sim.kafka_runs import plan_of
from tests.harness.test_scripts import KEYS
from tests.kafka_release import VERSION, raft_jars

ROOT = Path(__file__).parents[3]
PLAN = ROOT / "harness/ladder/plans/stale-voters.toml"
RELEASES = ["3.9.2", "4.0.0", "4.1.2", "4.2.2", "4.3.1", "4.4.0"]
WANTED = ("one-vote", "")


@pytest.fixture
def played(monkeypatch):
    """Each run of a search, as (release, seed); red are those of `red`, by release."""

    def of(red):
        runs = []

        def is_red(plan, wanted, *, brief):
            del wanted, brief
            runs.append((plan.system_options[RELEASE], plan.seed))
            return red(*runs[-1])

        monkeypatch.setattr(bisect, "is_red", is_red)
        return runs

    return of


def searched(spent=lambda: 0.0, error=0.01, releases=RELEASES):
    state = Bisection(plan_of("4.1.2", 7), WANTED, releases, error)
    state.search(spent, lambda _: None)
    return state


def answer(state):
    return state.last_without, state.first_with, state.first_without, state.is_sure


def test_the_search_goes_both_ways_to_the_first_release_without(played):
    runs = played(lambda release, _: release in {"4.0.0", "4.1.2", "4.2.2"})
    state = searched()

    assert answer(state) == ("3.9.2", "4.0.0", "4.3.1", True)
    assert state.needed == 7
    seeds = {release: [s for r, s in runs if r == release] for release in RELEASES}
    assert seeds["4.1.2"] == list(range(8, 18)), "not the seed of the plan, which was chosen"
    assert seeds["4.0.0"] == seeds["4.2.2"] == [7]
    assert seeds["3.9.2"] == seeds["4.3.1"] == list(range(7, 14))
    assert seeds["4.4.0"] == []


@pytest.mark.parametrize(
    ("have", "expected"),
    [
        (RELEASES, (None, "3.9.2", None, True)),
        (["4.1.2"], ("4.0.0", "4.1.2", "4.2.2", True)),
        (RELEASES[2:], ("4.0.0", "4.1.2", None, True)),
        (RELEASES[:3], (None, "3.9.2", "4.2.2", True)),
    ],
)
def test_the_answer_may_lack_a_release_without(played, have, expected):
    played(lambda release, _: release in have)
    assert answer(searched()) == expected


def test_a_rare_finding_needs_more_seeds(played):
    played(lambda release, seed: release != "4.4.0" and seed % 10 == 0)
    state = searched()

    assert answer(state) == (None, "3.9.2", "4.4.0", True)
    assert state.tried["4.1.2"].red == HITS
    assert 0.03 < state.rate < 0.1
    assert state.tried["4.4.0"].seeds == state.needed == seeds_needed(state.rate, 0.01 / 3)


def test_without_another_red_seed_nothing_is_said_of_other_releases(played):
    times = iter(range(100))
    runs = played(lambda release, seed: (release, seed) == ("4.2.2", 7))
    state = searched(lambda: next(times) / 10)

    assert answer(state) == (None, "4.1.2", None, False)
    assert state.tried["4.2.2"].has is True
    assert state.tried["4.0.0"].has is None
    assert state.needed is None
    assert runs.count(("4.0.0", 7)) == 1


def test_time_that_is_over_leaves_the_answer_open(played):
    times = iter(range(100))
    played(lambda release, _: release in {"4.0.0", "4.1.2"})
    state = searched(lambda: next(times) / 15)

    assert state.tried["3.9.2"].has is None
    assert answer(state)[1:] == ("4.0.0", None, False)


@pytest.mark.parametrize(("hits", "seeds"), [(10, 10), (10, 100), (1, 1), (3, 40)])
def test_the_bound_of_the_rate_is_that_of_clopper_and_pearson(hits, seeds):
    rate = rate_bound(hits, seeds, 0.01)
    as_many = sum(
        math.comb(seeds, n) * rate**n * (1 - rate) ** (seeds - n) for n in range(hits, seeds + 1)
    )
    assert as_many == pytest.approx(0.01)


def test_the_stated_error_bounds_the_share_of_wrong_answers():
    """Of all samples of the red release, at most a third of the error has its bound too high."""
    rate, share = 0.3, 0.05
    seeds = HITS
    chance = {HITS: rate**HITS}
    while seeds < 400:
        # of the next seed being the tenth red: negative binomial
        chance[seeds + 1] = chance[seeds] * (1 - rate) * seeds / (seeds - HITS + 1)
        seeds += 1
    too_high = sum(p for m, p in chance.items() if rate_bound(HITS, m, share) > rate)
    assert too_high <= share


def test_no_seed_shows_what_has_no_rate():
    assert rate_bound(0, 10, 0.01) == 0.0
    assert seeds_needed(0.0, 0.01) is None
    assert seeds_needed(1.0 - 1e-12, 0.01) == 1


def test_a_thread_that_ended_is_the_same_finding_wherever_the_release_has_the_line():
    def death(text):
        return Violation("node-died", "", ("node-died", text))

    old = death("fatal: java.lang.IllegalStateException: Unexpected vote (LeaderState.a(L.java:#))")
    new = death("fatal: java.lang.IllegalStateException: Unexpected vote (Leader.b(L.java:#))")
    other = death("fatal: java.lang.NullPointerException: null (Leader.b(L.java:#))")
    assert finding(old) == finding(new) != finding(other)


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ("4.3.1", "--kafka-versions: give a release beside that of the plan"),
        ("4.3.1,3.8.0", "give a release of 3.9 to 4.4"),
        ("4.3.1,", "'' is no version of Apache Kafka"),
        ("4.1.2,kraft", "bisect is for releases of Kafka, and kraft is none"),
        ("four", "'four' is no version of Apache Kafka"),
    ],
)
def test_releases_that_do_not_run_are_refused(versions, message):
    result = kraftprobe("bisect", PLAN, "--kafka-versions", versions)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_plan_of_another_system_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"campaign": "ours", "backend": "sim", "faults": []}))
    result = kraftprobe("bisect", path, "--kafka-versions", "4.3.1,4.4.0")
    assert result.exit_code == 2
    assert "kafka-raft, not kraft" in result.stderr


def test_a_plan_of_several_releases_is_refused(tmp_path):
    document = read_document(PLAN)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**document, "system_options": {"version": "4.1.2,4.3.1"}}))
    result = kraftprobe("bisect", path, "--kafka-versions", "4.3.1,4.4.0")
    assert result.exit_code == 2
    assert "several in one quorum" in result.stderr


@pytest.mark.slow
def test_the_answer_of_the_command(played, monkeypatch):
    raft_jars(VERSION)
    monkeypatch.setattr(bisect_command, "java_command", lambda *_, **__: ())
    played(lambda release, _: release != "3.9.2")

    result = kraftprobe("bisect", PLAN, "--kafka-versions", "3.9.2,4.4.0", "--json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found.keys() == KEYS["bisect"]
    assert found["property"] == "elected-by-majority"
    assert (found["last_without"], found["first_with"], found["first_without"]) == (
        "3.9.2",
        "4.3.1",
        None,
    )
    assert [row["release"] for row in found["releases"]] == ["3.9.2", "4.3.1", "4.4.0"]
    quiet = kraftprobe("bisect", PLAN, "--kafka-versions", "3.9.2,4.4.0", "--quiet")
    assert (quiet.exit_code, quiet.stdout) == (0, "4.3.1\n")


@pytest.mark.slow
def test_a_build_is_newer_than_the_release_whose_version_it_has(played, monkeypatch, tmp_path):
    raft_jars(VERSION)
    (tmp_path / "libs").mkdir()
    for jar in raft_jars(VERSION):
        (tmp_path / "libs" / jar.name).symlink_to(jar)
    monkeypatch.setattr(bisect_command, "java_command", lambda *_, **__: ())
    played(lambda release, _: True)

    named = f"4.4.0,{tmp_path},4.0.0"
    found = json.loads(kraftprobe("bisect", PLAN, "--kafka-versions", named, "--json").stdout)

    releases = [row["release"] for row in found["releases"]]
    assert releases == ["4.0.0", "4.3.1", str(tmp_path), "4.4.0"]

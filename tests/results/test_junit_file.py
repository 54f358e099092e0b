"""junit.xml turns a CI system red for everything but PASS."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from checkers.verdict import CheckResult, Status
from results.report.junit import render_junit
from results.store.model import RunResults, system_shown

HOSTILE = '<script>alert("x")</script> & \' \u2028 \x00 \x1b[31m ]]> ' + "long " * 10_000


def results_of(*checks, plan=None, run="run-1", checks_s=()):
    statuses = [check.status for check in checks] or [Status.UNKNOWN]
    plan = plan if plan is not None else {"campaign": "smoke", "seed": 7, "mutant": None}
    judging = {"at": "2026-11-21T01:02:03Z", "duration_s": 1.25, "checks_s": list(checks_s)}
    return RunResults(statuses[0], checks, {}, run, plan, {}, judging=judging)


def suite_of(results):
    root = ET.fromstring(render_junit(results))
    assert root.tag == "testsuites"
    (suite,) = root.findall("testsuite")
    return root, suite


def test_each_check_is_a_test_case():
    results = results_of(
        CheckResult(
            "a",
            Status.FAIL,
            "two leaders",
            anomalies=({"kind": "split", "explanation": "n1 and n2"},),
        ),
        CheckResult("b", Status.PASS, "fine"),
        CheckResult("c", Status.UNKNOWN, "out of time"),
        CheckResult("d", Status.UNDER_EXERCISED, "no fault bit"),
    )
    root, suite = suite_of(results)
    for counted in (root, suite):
        assert {name: counted.get(name) for name in ("tests", "failures", "errors")} == {
            "tests": "4",
            "failures": "1",
            "errors": "2",
        }
    found = {
        case.get("name"): [(child.tag, child.get("type")) for child in case]
        for case in suite.findall("testcase")
    }
    assert found == {
        "a": [("failure", "FAIL")],
        "b": [],
        "c": [("error", "UNKNOWN")],
        "d": [("error", "UNDER-EXERCISED")],
    }
    failure = suite.find("testcase/failure")
    assert failure.get("message") == "FAIL: two leaders"
    assert failure.text == "split: n1 and n2"
    assert (suite.get("name"), suite.get("time")) == ("smoke/run-1", "1.250")
    assert suite.get("timestamp") == "2026-11-21T01:02:03"


def cases_of(results):
    _, suite = suite_of(results)
    return [tuple(case.get(name) for name in ("classname", "name", "time")) for case in suite]


def test_a_test_case_has_the_same_name_in_every_run():
    check = CheckResult("durability", Status.PASS, "fine")
    skipped = [{"fault": "disk-full", "reason": "no FUSE"}]
    plans = [{"campaign": "smoke", "seed": seed, "skipped": skipped} for seed in (1, 2)]
    first, second = (
        [case[:2] for case in cases_of(results_of(check, plan=plan, run=f"run-{plan['seed']}"))]
        for plan in plans
    )
    assert first == second
    assert first[1:] == [("smoke.check", "durability"), ("smoke.fault", "disk-full")]


def test_a_test_case_says_how_long_its_check_took():
    checks = [CheckResult(name, Status.PASS, "fine") for name in ("a", "b", "c")]
    results = results_of(*checks, checks_s=(0.25, "damaged"))
    assert [case[1:] for case in cases_of(results)[1:]] == [
        ("a", "0.250000"),
        ("b", "0.000000"),
        ("c", "0.000000"),
    ]


@pytest.mark.parametrize(
    ("printed", "build"),
    [
        (["4.3.1, commit 26b2"], "4.3.1, commit 26b2, image kafka:9 sha256:01"),
        (["4.4.0, commit 1156"], "4.4.0, commit 1156, image kafka:9 sha256:01"),
        (
            ["4.3.1, commit 26b2", "4.4.0, commit 1156"],
            "4.3.1, commit 26b2, to 4.4.0, commit 1156, image kafka:9 sha256:01",
        ),
        ([], "none was printed, image kafka:9 sha256:01"),
    ],
)
def test_the_build_is_what_the_processes_printed(printed, build):
    conditions = {"conditions": [{"name": "releases-run", "printed": printed}]}
    earned = CheckResult("earned", Status.UNKNOWN, "", statistics=conditions)
    versions = {"apache-kafka": "4.3.1, commit 26b2, image kafka:9 sha256:01"}
    plan = {"campaign": "smoke", "system": "apache-kafka", "versions": versions}
    _, suite = suite_of(results_of(earned, plan=plan))
    assert suite.find("properties/property[@name='build']").get("value") == build


def test_the_suite_says_which_run_seed_and_build_it_is_of():
    plan = {"campaign": "smoke", "seed": 7, "versions": {"kraftprobe": "0.1.0"}}
    plan |= {"system": "kraft"}
    _, suite = suite_of(results_of(CheckResult("a", Status.PASS, ""), plan=plan))
    found = {entry.get("name"): entry.get("value") for entry in suite.iter("property")}
    assert found == {
        "run": "run-1",
        "system": "kraft",
        "seed": "7",
        "build": "0.1.0",
        "toolkit": "kraftprobe 0.1.0",
    }


def test_the_suite_and_the_system_say_what_of_the_nodes_is_not_their_own():
    plan = {"system": "other", "versions": {"other": "1.2"}, "made_of": "its core on our disks"}
    results = results_of(CheckResult("a", Status.PASS, ""), plan=plan)
    _, suite = suite_of(results)
    found = {entry.get("name"): entry.get("value") for entry in suite.iter("property")}
    assert found["made_of"] == "its core on our disks"
    assert system_shown(results.plan) == "other 1.2 (its core on our disks)"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASS])
def test_nothing_but_pass_is_green(status):
    _, suite = suite_of(results_of(CheckResult("a", status, "said")))
    assert int(suite.get("failures")) + int(suite.get("errors")) == 1
    assert suite.get("skipped") == "0"


def test_a_run_without_checks_is_an_error_not_an_empty_green_suite():
    _, suite = suite_of(results_of())
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert suite.find("testcase/error") is not None


def test_a_mutant_is_named_in_the_suite():
    plan = {"campaign": "smoke", "mutant": "M15"}
    _, suite = suite_of(results_of(CheckResult("a", Status.PASS, ""), plan=plan))
    assert suite.get("name") == "mutant M15: smoke/run-1"


def test_hostile_text_stays_text():
    anomaly = {"kind": HOSTILE, "explanation": HOSTILE}
    check = CheckResult(HOSTILE, Status.FAIL, HOSTILE, anomalies=(anomaly,))
    document = render_junit(results_of(check, plan={"campaign": HOSTILE, "command": HOSTILE}))
    assert len(document) < 200_000
    root = ET.fromstring(document)
    assert root.find(".//script") is None
    assert '<script>alert("x")</script>' in root.find(".//failure").get("message")


@pytest.mark.parametrize("judging", [{"at": "\0"}, {"duration_s": "nan"}, {"duration_s": []}])
def test_hostile_times_are_no_times(judging):
    results = replace(results_of(CheckResult("a", Status.PASS, "fine")), judging=judging)
    assert suite_of(results)[1].get("time") == "0.000"


def test_what_was_not_promised_is_output_of_a_test_case_that_passes():
    note = {"kind": "allowed-loss", "explanation": "d0-3: 'w1.7' is gone"}
    check = CheckResult("log", Status.PASS, "kept", statistics={"allowed": [note]})
    _, suite = suite_of(results_of(check))
    assert suite.find("testcase/failure") is None
    assert suite.find("testcase/system-out").text == (
        "Not promised, so no violation:\nallowed-loss: d0-3: 'w1.7' is gone"
    )

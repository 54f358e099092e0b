"""What the gate says reaches programs and pages whole, and nothing in it is taken for markup."""

import datetime as dt
from xml.etree import ElementTree as ET

import pytest

from checkers.verdict import CheckResult, Status
from results.gate.output import to_annotations, to_document, to_junit, to_markdown
from results.gate.policy_gate import GateEntry, Requirement, decide
from results.store.facts import Facts
from results.store.model import RunResults

HOSTILE = "<script>alert(1)</script> | [x](http://e) `c` **b** @all %0A::error::\x00\ud800"


def entry(
    run="quick/a", status=Status.PASS, *, mutant=None, seed=7, check="linearizable", time=0.5
):
    facts = Facts(
        campaign="quick",
        workload="register",
        system="kraft",
        builds=("0.1.0, code ab", "0.1.0"),
        backend="local",
        nodes=3,
        mutant=mutant,
        seeds=(seed,),
        started=dt.datetime(2026, 11, 21, 1, 2, 3, tzinfo=dt.UTC),
        duration_s=18.0,
        ok=100,
        leader_changes=2,
        faults={"kill": 1},
    )
    results = RunResults(
        status=status,
        checks=(CheckResult(check, status, "a summary"),),
        statistics={},
        run=run,
        plan={"campaign": "quick"},
        inputs={},
        judging={"checks_s": [time]},
    )
    return GateEntry(run, status, f"{run}: {status}: {check}", run, facts, results)


def test_a_document_says_what_each_run_is_and_why_it_passes():
    requirement = Requirement("require any run", Status.UNDER_EXERCISED, "there is none")
    document = to_document(decide([entry()], [requirement]))
    assert (document["version"], document["status"], document["exit_code"]) == (
        1,
        "UNDER-EXERCISED",
        4,
    )
    assert document["summary"] == (
        "gate closed: 1 of 1 run passes, 0 of 1 requirement is met; without a canary; "
        "under test: kraft 0.1.0, code ab"
    )
    (run,) = document["runs"]
    assert (run["run"], run["status"], run["verdict"]) == ("quick/a", "PASS", "PASS")
    assert run["facts"]["build_names"] == ["0.1.0, code ab", "0.1.0"]
    assert run["facts"]["started"] == "2026-11-21T01:02:03Z"
    assert document["requirements"] == [
        {"name": "require any run", "status": "UNDER-EXERCISED", "sentence": "there is none"}
    ]


def test_a_run_that_cannot_be_read_is_in_every_form():
    decision = decide([GateEntry("quick/x", Status.UNKNOWN, "quick/x: not judged: no results")])
    assert to_document(decision)["runs"][0]["facts"] is None
    assert "| UNKNOWN | quick/x |" in to_markdown(decision)
    case = ET.fromstring(to_junit(decision)).find(".//testcase")
    assert case.get("classname") == "unreadable.gate"
    assert case.find("error").get("message") == "UNKNOWN: quick/x: not judged: no results"


def cases(document):
    return {
        (case.get("classname"), case.get("name")): case
        for case in ET.fromstring(document).iter("testcase")
    }


def test_test_cases_have_the_same_names_whatever_runs_there_are():
    few = to_junit(decide([entry()], [Requirement("canary M15", Status.PASS, "rang")]))
    many = to_junit(
        decide(
            [entry(f"quick/{n}", seed=n) for n in range(9)],
            [Requirement("canary M15", Status.UNKNOWN, "did not ring")],
        )
    )
    names = [("quick.check", "linearizable"), ("quick.gate", "runs"), ("gate.policy", "canary M15")]
    assert [*cases(few)] == [*cases(many)] == names


def test_the_canary_of_the_gate_is_a_requirement_in_every_form():
    silent = decide([entry()], canary=Requirement("canary", Status.UNKNOWN, "it is silent"))
    assert silent.exit_code == 3
    assert silent.lines[1] == "canary: UNKNOWN: it is silent"
    assert "| UNKNOWN | canary | it is silent |" in to_markdown(silent)
    assert any("UNKNOWN%3A canary" in line for line in to_annotations(silent))
    assert ("gate.policy", "canary") in cases(to_junit(silent))


def test_times_are_those_of_judging_and_of_running():
    found = cases(to_junit(decide([entry(time=0.25), entry("quick/b", time=0.5)])))
    assert found["quick.check", "linearizable"].get("time") == "0.750000"
    assert found["quick.gate", "runs"].get("time") == "36.000000"


def test_a_failed_check_is_a_failure_that_names_its_run():
    root = ET.fromstring(to_junit(decide([entry(), entry("quick/b", Status.FAIL)])))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "2", "0")
    failure = root.find(".//testcase[@classname='quick.check']/failure")
    assert failure.text == "quick/b: FAIL: a summary"


def test_the_failed_check_of_a_canary_is_no_failure():
    canary = entry("quick/c", Status.FAIL, mutant="M15")
    rang = GateEntry(
        "quick/c", Status.PASS, "quick/c: FAIL, as it must", "c", canary.facts, canary.results
    )
    root = ET.fromstring(to_junit(decide([entry(), rang])))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


@pytest.fixture
def hostile():
    return decide(
        [GateEntry(HOSTILE, Status.FAIL, f"{HOSTILE}: FAIL: {HOSTILE}")],
        [Requirement(HOSTILE, Status.UNKNOWN, f"{HOSTILE}\nsecond line")],
    )


def test_hostile_text_stays_text_in_markdown(hostile):
    page = to_markdown(hostile)
    assert "<script>" not in page
    assert "[x](" not in page
    assert "**b**" not in page
    assert "@all" not in page
    assert all(c.isprintable() or c in "\n\u200b" for c in page)
    assert all(line.count("|") - line.count("\\|") in {0, 4, 5} for line in page.splitlines())


def test_hostile_text_ends_no_annotation_and_begins_none(hostile):
    lines = [*to_annotations(hostile)]
    assert len(lines) == 2
    for line in lines:
        assert "\n" not in line
        assert line.startswith("::error title=Kraftprobe ")
        title = line.removeprefix("::error title=").partition("::")[0]
        assert "," not in title
        assert ":" not in title


def test_hostile_text_is_well_formed_xml(hostile):
    (failure,) = ET.fromstring(to_junit(hostile)).iter("failure")
    assert "<script>alert(1)</script>" in failure.text


def test_an_open_gate_is_a_notice():
    canary = Requirement("canary", Status.PASS, "rang")
    assert [*to_annotations(decide([entry()], canary=canary))] == [
        "::notice title=Kraftprobe::gate open: 1 of 1 run passes; under test: kraft 0.1.0, code ab"
    ]

"""What nodes printed of themselves, held against the releases that the plan names."""

import pytest

from checkers.earned.base import Judged
from checkers.earned.releases import releases_run
from checkers.evidence import Evidence, TraceEvent
from checkers.run_input import RunInput
from checkers.verdict import Status

OLD, NEW = ("4.3.1", "26b2"), ("4.4.0", "1156")
BOTH = "4.3.1, commit 26b2, to 4.4.0, commit 1156"


def printed(**nodes):
    traces = {
        node: [
            TraceEvent(node, number, 0, "release", {"version": version, "commit": commit})
            for number, (version, commit) in enumerate(builds)
        ]
        for node, builds in nodes.items()
    }
    return Evidence(list(nodes), {}, {}, traces, {})


def outcome(evidence, said="4.3.1, commit 26b2", system="apache-kafka"):
    plan = {"system": system, "versions": {"apache-kafka": said, "python": "3.12.1"}}
    return releases_run(Judged(RunInput([], [], evidence), [], [], plan))


@pytest.mark.parametrize(
    "said",
    ["4.3.1, commit 26b2", "4.3.1, commit 26b2, image apache/kafka:4.3.1 sha256:0123456789ab"],
)
def test_nodes_that_print_the_release_of_the_plan_pass(said):
    assert outcome(printed(n1=[OLD], n2=[OLD, OLD]), said).status is Status.PASS


@pytest.mark.parametrize("other", [NEW, ("4.3.1", "9999"), ("4.3.1-SNAPSHOT", "26b2")])
def test_a_process_of_another_release_is_unknown_with_both_named(other):
    found = outcome(printed(n1=[OLD], n2=[OLD, other]))
    assert found.status is Status.UNKNOWN
    assert found.facts["printed"] == ["4.3.1, commit 26b2", ", commit ".join(other)]
    for name in ("n2", f"{other[0]}, commit {other[1]}", "4.3.1, commit 26b2"):
        assert name in found.sentence


def test_a_node_that_printed_nothing_is_unknown():
    found = outcome(printed(n1=[OLD], n2=[]))
    assert (found.status, "n2" in found.sentence) == (Status.UNKNOWN, True)


def test_nodes_of_ours_print_none_beside_kafkas():
    said = outcome(printed(n1=[], n2=[OLD]), system="mixed")
    assert said.status is Status.PASS


def test_both_releases_of_an_upgrade_must_have_run():
    assert outcome(printed(n1=[OLD, NEW]), BOTH).status is Status.PASS
    found = outcome(printed(n1=[OLD, OLD]), BOTH)
    assert found.status is Status.UNDER_EXERCISED
    assert "4.4.0, commit 1156" in found.sentence


def test_it_says_nothing_of_builds_without_a_version_or_of_other_systems():
    assert outcome(printed(n1=[OLD]), "unknown").status is None
    assert outcome(printed(n1=[]), None, "kraft").status is None

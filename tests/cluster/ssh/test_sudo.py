"""Hosts on which the harness's user has no privilege but what sudo lends."""

from pathlib import Path

import pytest

from tests.cluster.ssh.test_campaigns import faults_verified, passed
from tests.cluster.ssh.test_hosts import refusal
from tests.cluster.ssh.unprivileged import ALLOWED, USER, user_of_hosts, why_no_sudo

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def _sudo():
    before = {name: (Path("/etc") / name).read_bytes() for name in ("passwd", "shadow", "group")}
    if reason := why_no_sudo():
        pytest.skip(reason)
    yield
    assert before == {name: (Path("/etc") / name).read_bytes() for name in before}


def test_a_campaign_runs_as_a_user_that_may_use_sudo(lab):
    with user_of_hosts(lab, ALLOWED) as changes:
        run = passed(lab, "sudo", lab.inventory("by_sudo.toml", **changes))
        assert faults_verified(run) == {"kill": 1, "partition": 1}
        for node in lab.nodes:
            assert (run / "nodes" / node / "trace.jsonl").stat().st_size > 0
            assert (run / "nodes" / node / "stdout.log").exists()
        assert not (run / "hosts.json").exists()
        assert lab.traces() == []


def test_a_user_without_the_right_gets_the_way_to_it(lab):
    with user_of_hosts(lab, "") as changes:
        line = refusal(lab, lab.inventory("no_right.toml", **changes))
    assert f"({USER}@10.0.0.1:2200): sudo: " in line
    assert f"{USER} ALL=(root) NOPASSWD: ALL" in line
    assert "/etc/sudoers.d/kraftprobe" in line

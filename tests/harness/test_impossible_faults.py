"""A plan whose faults cannot work is refused, or runs without them and never hides it."""

import json

import pytest

from checkers.registry import CheckSpec
from checkers.runs.exercised import options_of
from cluster.backends.base import Ability, BackendError, Probe
from cluster.backends.local import local_backend
from cluster.backends.processes.labelled import labelled_processes
from cluster.backends.processes.records import TRIAL, own_identity
from cluster.backends.terms import NoPlaceError
from harness.doctor import fault_probes
from harness.doctor.fault_probes import try_backend, try_faults
from harness.doctor.impossible_faults import settle
from harness.errors import ImpossibleError, UsageError
from harness.evidence import node_disks
from harness.plan import stored_document
from harness.plan.document import from_document
from harness.terminal import progress
from harness.terminal.answers import Shown
from harness.terminal.progress import Steps
from nemeses.registry import FAULTS
from tests.command_line import kraftprobe
from tests.harness.fake_cluster import FakeCluster

pytestmark = pytest.mark.slow

NO_NFT = Probe(possible=False, reason="nft not found", remedy="apt install nftables")


class Crippled(FakeCluster):
    """Cannot cut links before it is up, nor later unless `later`."""

    later = False

    def __init__(self, *_, **options):
        super().__init__(**options)
        self.was_up = False

    async def up(self):
        await super().up()
        self.was_up = True

    async def probe(self, ability):
        if ability is Ability.LINKS and not (self.was_up and self.later):
            return NO_NFT
        return Probe(possible=True)


class CutsWhenUp(Crippled):
    later = True


class Broken(Crippled):
    async def probe(self, ability):
        raise ZeroDivisionError("oops")


def on(monkeypatch, cluster):
    monkeypatch.setattr(local_backend, "LocalBackend", cluster)
    monkeypatch.setattr(node_disks, "collect", lambda *_: [])  # fake nodes leave no files


def document(**changes):
    return {"campaign": "c", "seed": 1, "duration_s": 60, **changes}


def test_a_plan_that_can_run_is_left_as_it_is(monkeypatch):
    on(monkeypatch, lambda *_, **__: FakeCluster())
    asked = document(faults=["kill", "partition"])
    assert settle(asked, skip=False) == from_document(asked)


def test_what_only_shows_when_the_place_is_up_is_tried_there(monkeypatch):
    on(monkeypatch, CutsWhenUp)
    assert try_faults(from_document(document()), ["partition"], Steps())["partition"].possible


def test_an_impossible_fault_is_reported_with_reason_and_remedy(monkeypatch):
    on(monkeypatch, Crippled)
    with pytest.raises(ImpossibleError) as refused:
        settle(document(faults=["kill", "partition"]), skip=False)
    assert refused.value.lines == (
        "partition cannot work on backend local: nft not found (remedy: apt install nftables)",
        "nothing was started; --skip-impossible runs the rest",
    )


def test_a_probe_that_fails_counts_as_impossible(monkeypatch):
    on(monkeypatch, Broken)
    with pytest.raises(ImpossibleError, match=r"kill cannot work .*: oops"):
        settle(document(faults=["kill"]), skip=False)


def test_skipping_draws_a_schedule_of_what_is_left(monkeypatch, capfd):
    on(monkeypatch, Crippled)
    monkeypatch.setattr(progress, "_STEP_EVERY_S", 0.0)
    plan = settle(document(faults=["kill", "partition"]), skip=True)
    assert "probing 2 faults" in capfd.readouterr().err
    assert plan == settle(document(faults=["kill", "partition"]), skip=True, shown=Shown.QUIET)
    assert capfd.readouterr().err == ""
    assert plan.faults == ("kill",)
    assert {entry.fault for entry in plan.schedule} == {"kill"}
    assert plan.expectations["faults"] == ["kill"]
    assert [(one.fault, one.reason) for one in plan.skipped] == [("partition", "nft not found")]


def test_skipping_takes_single_entries_out_of_a_script(monkeypatch):
    on(monkeypatch, Crippled)
    script = [
        {"at_s": 1, "fault": "partition", "for_s": 2},
        {"at_s": 5, "fault": "kill", "for_s": 2},
    ]
    plan = settle(document(schedule=script), skip=True)
    assert [(entry.at_s, entry.fault) for entry in plan.schedule] == [(5, "kill")]


def test_a_stored_plan_remembers_what_was_skipped(monkeypatch):
    on(monkeypatch, Crippled)
    plan = settle(document(faults=["kill", "partition"]), skip=True)
    again = from_document(json.loads(json.dumps(plan.to_json())))
    assert again.skipped == plan.skipped


def test_a_backend_where_no_node_can_run_carries_no_fault(monkeypatch):
    class Down(Crippled):
        async def up(self):
            raise BackendError("no room here")

    on(monkeypatch, Down)
    tried = try_backend(from_document(document()), ["kill", "partition"], Steps())
    assert tried.backend == tried.faults["kill"] == tried.faults["partition"]
    assert tried.backend.reason == "no room here"


class NoDisks(FakeCluster):
    """Does not come up with disks that can fail, though a probe of them alone may work."""

    def __init__(self, *_, needs=(), **__):
        super().__init__()
        self.needs = needs

    async def up(self):
        if "disks" in self.needs:
            raise BackendError("n1: the container cannot use the filesystem")
        await super().up()


def test_surroundings_that_keep_a_cluster_down_cost_only_the_faults_that_need_them(monkeypatch):
    on(monkeypatch, NoDisks)
    monkeypatch.setattr(FAULTS["disk-full"].__class__, "probe", works)
    plan = settle(document(faults=["kill", "disk-full"]), skip=True)
    assert plan.faults == ("kill",)
    assert [(one.fault, one.reason) for one in plan.skipped] == [
        ("disk-full", "n1: the container cannot use the filesystem")
    ]


def test_a_place_that_is_not_there_is_tried_once(monkeypatch):
    tries = []

    class Nowhere(FakeCluster):
        async def up(self):
            tries.append(self)
            raise NoPlaceError("KRAFTPROBE_DOCKER_BASE names no image")

    on(monkeypatch, lambda *_, **__: Nowhere())
    with pytest.raises(BackendError, match="KRAFTPROBE_DOCKER_BASE names no image"):
        settle(document(faults=["kill", "disk-full", "clock-jump"]), skip=True)
    assert len(tries) == 1


async def works(*_):
    return Probe(possible=True)


def test_doctor_and_the_refusal_know_how_many_files_may_be_open(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    with pytest.raises(UsageError, match="may open 100 files, and a run needs 128"):
        settle({"faults": [], "seed": 1}, skip=False)
    done = kraftprobe("doctor", "--backend", "local")
    assert done.exit_code == 2
    assert "backend local: this process may open 100 files" in done.stdout


def test_doctor_and_the_refusal_of_a_plan_say_the_same(monkeypatch):
    on(monkeypatch, NoDisks)
    plan = from_document(document())
    found = try_backend(plan, tuple(FAULTS), Steps())
    assert found.faults == try_faults(plan, tuple(FAULTS), Steps())
    assert not found.faults["disk-full"].possible
    assert found.faults["kill"].possible


def test_what_is_impossible_has_a_remedy_or_says_that_there_is_none(monkeypatch):
    on(monkeypatch, NoDisks)
    found = try_faults(from_document(document()), tuple(FAULTS), Steps())
    impossible = [probe for probe in found.values() if not probe.possible]
    assert impossible
    assert [probe for probe in impossible if not probe.remedy] == []


@pytest.mark.cluster
def test_a_throw_away_cluster_really_runs_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    seen = []

    async def look(backend):
        seen.extend([await backend.state(node) for node in backend.nodes])
        assert (await backend.measure_link(("n1", "n2"), 300)).works

    fault_probes._on_trial(from_document(document()), (), look, Steps())
    assert seen == ["running"] * 3
    assert list(tmp_path.iterdir()) == []
    trials = [one for one in labelled_processes() if one.run_id.startswith(TRIAL)]
    assert [one for one in trials if one.harness == own_identity()] == []


def test_the_command_line_refuses_before_anything_starts(monkeypatch, tmp_path):
    on(monkeypatch, Crippled)
    result = kraftprobe("run", "--faults", "kill,partition", "--runs", tmp_path / "runs")
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("kraftprobe: partition cannot work")
    assert not (tmp_path / "runs").exists()


def test_skipping_what_deposes_leaders_expects_no_change(monkeypatch):
    on(monkeypatch, Crippled)
    wanted = {"leader_changes": 2}
    changes = {"faults": ["partition", "clock-jump"], "expectations": wanted}
    assert settle(document(**changes), skip=True).expectations["leader_changes"] == 0
    changes = {"faults": ["partition", "kill"], "expectations": wanted}
    assert settle(document(**changes), skip=True).expectations["leader_changes"] == 2


def test_the_shortest_run_without_faults_is_no_pass(monkeypatch, tmp_path):
    """Eight operations, no fault, no leader change: this was a PASS that opened the gate."""
    monkeypatch.setattr(stored_document, "checks_for", fast_checks)
    on(monkeypatch, lambda *_, **__: FakeCluster())
    options = ("--duration", 1, "--faults", "none", "--rate", 0.5, "--runs", tmp_path)
    result = kraftprobe("run", "--no-report", *options)
    assert result.exit_code == 4, result.output
    expected = " operations were ok, 50 were expected"
    assert expected in result.stdout
    (folder,) = (tmp_path / "smoke").iterdir()
    assert kraftprobe("check", folder).exit_code == 4
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(
        json.dumps({**plan, "expectations": {}, "checks": [{"name": "statistics"}]})
    )
    again = kraftprobe("check", folder)
    assert (again.exit_code, expected in again.stdout) == (3, True)
    assert "plan.json is not" in again.stdout


@pytest.fixture(scope="module")
def partial_run(tmp_path_factory):
    """A whole short run of fake nodes in which partitions were skipped."""
    runs = tmp_path_factory.mktemp("partial")
    with pytest.MonkeyPatch.context() as patch:
        on(patch, Crippled)
        patch.setattr(stored_document, "checks_for", fast_checks)
        plan = runs / "plan.toml"
        plan.write_text(
            'faults = ["partition"]\nduration_s = 3\n[[schedule]]\nat_s = 0.5\nfault = "kill"\n'
            'parameters = { targets = "leader" }\nfor_s = 1\n'
            '[[schedule]]\nat_s = 2\nfault = "partition"\nfor_s = 0.5\n'
            "[expectations]\nmin_operations = 60\n"
        )
        result = kraftprobe("run", "--campaign", plan, "--runs", runs, "--skip-impossible")
    (folder,) = (runs / "plan").iterdir()
    return result, folder


def fast_checks(plan):
    """Fake nodes leave no logs: judge by the journal alone."""
    return (
        CheckSpec("linearizable", {"model": "register"}),
        CheckSpec("exercised", options_of(plan.to_json())),
    )


def test_a_pass_names_what_was_skipped(partial_run):
    result, folder = partial_run
    assert result.exit_code == 0, result.stderr
    expected = "nft not found (remedy: apt install nftables)"
    assert f": {expected}" in result.stderr
    verdict = result.stdout.splitlines()[-2]
    assert verdict.startswith(f"PASS WITHOUT partition {folder.name}")
    assert "impossible there: partition" in result.stdout


def test_the_stored_results_name_what_was_skipped(partial_run):
    results = json.loads((partial_run[1] / "results.json").read_text())
    assert results["verdict"] == "PASS WITHOUT partition"
    assert [row["fault"] for row in results["plan"]["skipped"]] == ["partition"]


def test_the_report_names_what_was_skipped_beside_the_verdict(partial_run):
    page = (partial_run[1] / "report.html").read_text()
    assert '<header class="verdict pass partial">' in page
    assert "WITHOUT partition" in page
    assert "nft not found (remedy: apt install nftables)" in page


def test_the_junit_file_has_a_skipped_test_case(partial_run):
    text = (partial_run[1] / "junit.xml").read_text()
    assert 'skipped="1"' in text
    assert ': nft not found" />' in text
    assert "WITHOUT partition" in text


def test_the_gate_opens_for_it_only_with_the_option(partial_run, monkeypatch):
    monkeypatch.setattr(stored_document, "checks_for", fast_checks)
    folder = partial_run[1]
    closed = kraftprobe("gate", folder)
    assert closed.exit_code == 4, closed.output
    assert "PASS WITHOUT partition: " in closed.stdout
    assert "(--allow-skipped)" in closed.stdout
    opened = kraftprobe("gate", "--allow-skipped", folder)
    assert opened.exit_code == 0
    assert "PASS WITHOUT partition" in opened.stdout


def test_a_run_of_which_nothing_is_left_is_under_exercised(monkeypatch, tmp_path):
    monkeypatch.setattr(stored_document, "checks_for", fast_checks)
    on(monkeypatch, Crippled)
    plan = tmp_path / "plan.toml"
    plan.write_text('duration_s = 1\n[[schedule]]\nat_s = 0.5\nfault = "partition"\n')
    result = kraftprobe(
        *("run", "--campaign", plan, "--runs", tmp_path, "--skip-impossible", "--no-report")
    )
    assert result.exit_code == 4, result.stderr
    assert "was skipped: partition" in result.stdout

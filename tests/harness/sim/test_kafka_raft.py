"""Released KafkaRaftClients in the simulated world: the same run every time, findings again."""

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.verdict import Status
from cluster.backends.sim.kafka.program import SPIN_MS_MAX
from cluster.backends.sim.kafka.steps import Spin
from cluster.backends.sim.programs import program_of
from cluster.backends.sim.world import SimWorld
from cluster.backends.terms import BackendError
from cluster.node.protocol.apis import SPOKEN, ApiKey, VersionRange
from cluster.systems import kafka_raft
from cluster.systems.kafka_raft import TRACED
from harness.campaigns import read_document
from harness.commands import sim
from harness.errors import PlanError
from harness.plan.document import in_simulation
from harness.plan.stored_document import checks_for, plan_document
from harness.plan.system_request import request_of, system_unlike_real
from harness.sim.batch.batch import lines_of, summarise
from harness.sim.batch.chunks import BatchPlan
from harness.sim.runner import run, run_plan
from harness.sim.swarm.draw import draw
from results.store.model import system_shown
from tests.command_line import kraftprobe
from tests.harness.sim.kafka_families import family
from tests.harness.sim.kafka_runs import plan_of
from tests.harness.sim.plans import read_plan
from tests.kafka_patches import patched_build
from tests.kafka_release import VERSION, raft_jars

ROOT = Path(__file__).parents[3]
OTHER = "4.1.2"
MIXED = f"{OTHER},{VERSION},kraft"
"""Two releases and this repository's raft module."""
ONE_PLAN = Path(__file__).parents[1] / "one-plan.toml"
PLANS = ROOT / "harness/ladder/plans"
FOUND = sorted(
    path for path in PLANS.glob("*.toml") if read_document(path)["system"] == "kafka-raft"
)


@pytest.fixture(autouse=True)
def _release():
    raft_jars(VERSION)


def digests(seeds, hash_seed, version=VERSION):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.harness.sim.kafka_runs", version, *map(str, seeds)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def in_two_processes(seeds, version=VERSION):
    upwards = digests(seeds, hash_seed=1, version=version)
    assert len(set(upwards.values())) == len(seeds), "other seeds are other runs"
    assert digests(seeds[::-1], hash_seed=2, version=version) == upwards


@pytest.mark.nightly
def test_each_finding_is_the_same_run_in_two_jvms():
    in_two_processes([str(path) for path in FOUND])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "path", sorted(set(FOUND) - {PLANS / "stable-leader.toml"}), ids=lambda path: path.stem
)
def test_the_traces_of_each_finding_show_its_cause(path):
    played, _ = run(read_plan(path))

    assert family(played)[0] == path.stem


@pytest.mark.nightly  # for every commit two releases and ours run so, below
def test_fifty_seeds_of_five_voters_run_the_same_runs_in_two_jvms():
    in_two_processes(range(50))


@pytest.mark.slow
def test_a_run_under_faults_is_judged():
    played, result = run(plan_of(VERSION, 3, nodes=3))

    assert (result.verdict, result.violations) == (Status.PASS, ())
    assert played.watch.changes_of_leader >= 1
    assert result.statistics["faults"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        {"system": "kraft"},
        {"system": kafka_raft.NAME, "system_options": {kafka_raft.VERSION: VERSION}},
    ],
    ids=["ours", "kafka"],
)
def test_one_plan_is_played_by_kafka_and_by_our_node(system):
    """On real Kafka: tests/runs/test_real_kafka.py."""
    document = read_document(ONE_PLAN)

    played, result = run(in_simulation({**document, **system, "seed": 1}))

    assert (result.verdict, result.violations) == (Status.PASS, ())
    assert [act.kind for act in played.acts if not act.undone] == ["kill", "partition", "pause"]
    assert played.watch.changes_of_leader >= 2


def test_a_leader_that_resigns_before_its_listener_knows_it_does_so_then():
    world = SimWorld(3, 1, program=program_of(kafka_raft.NAME, request_of(plan_of(VERSION, 1))))
    for name in world.names:
        world.start(name)

    def leader():
        for node in world.nodes.values():
            if any(line[2] == "state" and line[3]["state"] == "Leader" for line in node.trace):
                return node
        return None

    assert world.scheduler.run_until(lambda: leader() is not None, 20_000)
    first = leader()
    assert [line[2] for line in first.trace].count("claim") == 0
    first.process.signal("resign")
    world.scheduler.run_for(3_000)

    states = [line[3]["state"] for line in first.trace if line[2] == "state"]
    assert "Resigned" in states[states.index("Leader") :]


@pytest.mark.slow
@pytest.mark.parametrize(("quorum", "seed"), [("static", 3), ("dynamic", 4)])
def test_a_quorum_of_two_releases_and_our_raft_is_led_by_each_and_judged(quorum, seed):
    raft_jars(OTHER)
    options = {"version": MIXED, "quorum": quorum}

    played, result = run(plan_of(MIXED, seed, nodes=3, system_options=options))

    assert (result.verdict, result.violations) == (Status.PASS, ())
    hosts = played.backend.world.nodes.items()
    leaders = {name for name, host in hosts for line in host.trace if line[2] == "claim"}
    assert leaders == {"n1", "n2", "n3"}
    acknowledging = {name for name, host in hosts for line in host.trace if line[2] == "ack"}
    assert acknowledging == leaders


@pytest.mark.slow
def test_snapshots_of_releases_and_our_raft_are_loaded_by_each_other():
    raft_jars(OTHER)
    system = {"system": "kafka-raft", "system_options": {"version": MIXED}}
    drawn = draw(69, system=system)

    played, _ = run(drawn)

    assert family(played)[0] == "unsynced-start"  # in the end, when they have been loaded
    runs = dict(zip(drawn.node_names, drawn.system_options["version"].split(","), strict=True))
    hosts = played.backend.world.nodes.items()
    loading = {
        runs[name] for name, host in hosts for line in host.trace if line[2] == "load-snapshot"
    }
    assert loading == set(MIXED.split(","))


def test_our_leader_adds_a_released_node_to_the_voters():
    """It asks what the node serves, which the server around Kafka's raft client answers."""
    mixed = f"kraft,kraft,kraft,{VERSION}"
    step = {"kind": "voters", "targets": "node:n4", "change": "add"}
    plan = plan_of(
        mixed,
        1,
        nodes=4,
        duration_s=8,
        system_options={"version": mixed, "quorum": "dynamic"},
        world={"observers": 1},
        faults=["voters"],
        schedule=[{"at_ms": 2000, "steps": [step]}],
    )

    played, _ = run(plan)

    added = next(event.value for event in played.events if event.f == "voters")
    assert (added["verified"], added["detail"]["voters_after"]) == (True, ["n1", "n2", "n3", "n4"])


@pytest.mark.slow
def test_a_mixed_quorum_runs_the_same_runs_in_two_processes():
    raft_jars(OTHER)
    in_two_processes(range(1), MIXED)


def test_two_nodes_without_a_common_version_are_refused(monkeypatch):
    spoken = {**SPOKEN, ApiKey.FETCH: VersionRange(99, 99)}
    monkeypatch.setattr("cluster.backends.sim.kafka.program.SPOKEN", spoken)
    mixed = f"{VERSION},kraft"

    with pytest.raises(BackendError, match=f"n2 .kraft. and Kafka {VERSION} .* of FETCH"):
        run_plan(plan_of(mixed, 1, nodes=3))


def test_the_swarm_draws_which_node_has_which_release():
    system = {"system": "kafka-raft", "system_options": {"version": MIXED}}
    alone = {"system": "kafka-raft", "system_options": {"version": VERSION}}
    seen = set()
    for seed in range(20):
        plan = draw(seed, system=system)
        drawn = plan.system_options["version"].split(",")
        assert len(drawn) == plan.nodes
        assert set(drawn) == set(MIXED.split(","))
        seen.add(drawn[0])
        options = {**plan.system_options, "version": VERSION}
        assert replace(plan, system_options=options) == draw(seed, system=alone)
    assert seen == set(MIXED.split(","))


def test_a_batch_fetches_each_release_before_its_workers_want_them(monkeypatch, tmp_path):
    fetched = []
    monkeypatch.setattr(sim, "java_command", lambda release, say: fetched.append((release, say)))
    monkeypatch.setattr(sim, "_run_batch", lambda *_: len(fetched))
    releases = "3.9.2,4.0.0,4.1.2,4.2.2,4.3.1,4.4.0,kraft"

    batch = ("--seeds", "0..1", "--kafka-version", releases, "--out", str(tmp_path))
    result = kraftprobe("sim", "--system", "kafka-raft", *batch)

    assert (result.exit_code, [release for release, _ in fetched]) == (6, releases.split(",")[:6])


def test_a_node_that_polls_without_waiting_for_long_is_reported():
    request = request_of(plan_of(VERSION, 1))
    program = SimWorld(3, 1, program=program_of("kafka-raft", request)).program
    program.spins[:] = [Spin("n1", 5.0), Spin("n2", 1000.0)]
    program.spins[0].until_ms = 5.0 + SPIN_MS_MAX - 1.0
    assert list(program.complaints()) == []
    program.spins[1].until_ms = 1000.0 + SPIN_MS_MAX
    assert [name for name, _ in program.complaints()] == ["busy-poll"]


@pytest.mark.slow
def test_polls_without_waiting_count_from_the_last_wait():
    """The observer follows a dead leader twice, each time for less than is reported."""
    document = read_document(PLANS / "spinning-observer.toml") | {"duration_s": 25.0}
    (_, step) = document["schedule"][0]["steps"]
    step["for_ms"] = 8000.0
    document["schedule"][0]["steps"] = [step, step | {"after_ms": 12_000.0}]
    played, result = run(in_simulation(document))

    assert result.violations == ()
    longest = sorted(spin.length_ms for spin in played.backend.world.program.spins)[-2:]
    assert all(5000.0 < length_ms < SPIN_MS_MAX for length_ms in longest)


def test_each_report_names_the_release_and_what_is_not_its_own():
    plan = plan_of(VERSION, 1)
    shown = system_unlike_real(plan)
    assert VERSION in shown
    assert plan.kind.made_of in shown
    assert (
        system_shown(plan_document(plan, "run", "", plan.kind.versions(request_of(plan)))) == shown
    )

    system = {"system": plan.system, "system_options": dict(plan.system_options)}
    batch = summarise(BatchPlan(0, 1, system=system), "", {})
    assert any(shown in line for line in lines_of(batch))


def test_the_traces_of_a_stored_run_are_judged():
    checks = {spec.name: spec.options for spec in checks_for(plan_of(VERSION, 1))}
    assert checks["invariants"] == {"traced": sorted(TRACED), "files": False}


@pytest.mark.slow
def test_the_swarm_draws_what_kafka_takes():
    system = {"system": "kafka-raft", "system_options": {"version": VERSION}}
    for seed in range(40):
        plan = draw(seed, system=system)
        assert in_simulation(plan.to_json()).to_json() == plan.to_json()
        # A leader keeps a Fetch for 500 ms: voters with less patience would lose every leader.
        own = kafka_raft.SETTINGS | plan.node_settings
        assert min(own["controller.quorum.fetch.timeout.ms"], own[kafka_raft.REQUEST_TIMEOUT]) > 500
        kinds = {step.kind for strand in plan.strands for step in strand.steps}
        drawn = {"metadata.max.retention.bytes", "controller.quorum.fetch.snapshot.max.bytes"}
        assert (drawn <= plan.node_settings.keys()) is ("snapshot" in kinds)


def test_some_seeds_end_with_the_loss_of_a_leader_and_a_quorum_that_must_elect():
    system = {"system": "kafka-raft", "system_options": {"version": VERSION}}
    last = [draw(seed, system=system).strands[-1:] for seed in range(60)]
    losses = [strand for (strand,) in last if strand.steps[-1].kind == "expect"]
    kinds = [step.kind for step in losses[0].steps]
    assert (len(losses) >= 3, kinds) == (True, ["heal", "cast", "voters", "kill", "expect"])


OTHER_JARS = ("kafka-clients-4.jar", "kafka-server-common-4.jar", "slf4j-api-1.jar")


def batch_of(build, folder):
    asked = ("--system", "kafka-raft", "--kafka-version", os.path.relpath(build))
    return kraftprobe("sim", *asked, "--seeds", "0..2", "--duration", "20", "--out", folder)


@pytest.mark.slow
def test_a_patched_build_fails_where_the_release_passes(tmp_path):
    build, batch = patched_build("high watermark of one voter", tmp_path / "build"), tmp_path / "b"

    result = batch_of(build, batch)

    assert result.exit_code == 1, result.output
    (ran,) = json.loads((batch / "batch.json").read_text())["builds"].values()
    assert re.fullmatch(VERSION + r", jars [0-9a-f]{16}", ran)
    assert f"of system kafka-raft {ran} (" in result.stdout
    plans = sorted(batch.glob("failures/majority-durable-*.json"))
    assert len(plans) == 2
    plan = read_plan(plans[0])
    assert run_plan(
        replace(plan, system_options={**plan.system_options, "version": VERSION})
    ).verdict is (Status.PASS)
    assert kraftprobe("gate", batch).exit_code == 1
    with zipfile.ZipFile(build / "libs" / f"kafka-raft-{VERSION}.jar", "a") as jar:
        jar.writestr("compiled", "anew")
    again, gated = batch_of(build, batch), kraftprobe("gate", batch)
    assert (again.exit_code, gated.exit_code) == (2, 3)
    assert "holds another batch" in again.stderr
    assert f"its seeds ran {{'kafka-raft': '{ran}'}}, and here is" in gated.stdout


def test_a_build_with_a_torn_jar_is_refused_before_its_batch_begins(tmp_path):
    (tmp_path / "libs").mkdir()
    for jar in raft_jars(VERSION):
        (tmp_path / "libs" / jar.name).write_bytes(jar.read_bytes()[:10_000])

    result = batch_of(tmp_path, tmp_path / "batch")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "no whole jar file" in result.stderr
    assert not (tmp_path / "batch").exists()


@pytest.mark.parametrize(
    ("jars", "message"),
    [
        (None, "there is no folder libs in it"),
        ((), "libs has no kafka-clients-*.jar"),
        ((*OTHER_JARS, "kafka-raft-4.5.0-SNAPSHOT.jar"), "4.5.0-SNAPSHOT has another interface"),
        (
            (*OTHER_JARS, "kafka-raft-ours.jar"),
            "the name of this file has no version of Apache Kafka",
        ),
    ],
)
def test_a_folder_that_is_no_build_is_refused(tmp_path, jars, message):
    if jars is not None:
        (tmp_path / "libs").mkdir()
    for name in jars or ():
        (tmp_path / "libs" / name).touch()

    result = batch_of(tmp_path, tmp_path / "batch")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"system_options": {}}, "give --kafka-version V"),
        ({"system_options": {"version": "3.8.1"}}, "give a release of 3.9 to 4.4"),
        ({"system_options": {"version": "4.3.1,3.8.1"}}, "3.8.1 has another interface"),
        ({"system_options": {"version": "4.3.1,ours"}}, "ours"),
        ({"system": "kraft", "system_options": {}}, "it is of system kafka-raft"),
        ({"faults": ["disk-wipe"]}, "cannot be put under disk-wipe in the simulated world"),
        ({"faults": ["bit-flip"]}, "cannot be put under bit-flip"),
        ({"faults": ["duplicate"]}, "cannot be put under duplicate"),
        ({"world": {"duplication": 0.1}}, "cannot be put under duplicate"),
        ({"node_settings": {"kraftprobe.log.clean.interval.ms": 1}}, "unknown node setting"),
        ({"workload": "register"}, "system kafka-raft carries workload appends"),
        ({"node_settings": {"broker.session.timeout.ms": 1}}, "unknown node setting"),
        ({"node_settings": {"controller.quorum.retry.backoff.ms": -1}}, "must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    with pytest.raises(PlanError, match=message):
        plan_of(VERSION, 1, **changed)

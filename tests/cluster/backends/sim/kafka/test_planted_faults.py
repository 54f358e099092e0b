"""Faults that are put into a quorum of Kafka's raft module, each reported by the check it breaks.

A fault lies between this process and the JVM (frames and effects are altered on their way), on the
disk of a node that was killed, in the network, or in a class of Kafka's that is compiled with
another line. The same plans without a fault pass.
"""

import struct
from dataclasses import replace

import pytest

from checkers.verdict import Status
from cluster.backends.sim.kafka import classes, program
from cluster.backends.sim.kafka.frames import Effect
from cluster.backends.sim.kafka.host import KafkaProcess
from cluster.backends.sim.kafka.jvm import Jvm, jvm_of
from cluster.backends.sim.kafka.program import KafkaProgram
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import VoteResponse
from cluster.node.protocol.apis import ApiKey
from harness.plan.document import in_simulation
from harness.sim.runner import run_plan
from tests.kafka_patches import patched_classes
from tests.kafka_release import VERSION, raft_jars

START, APPEND, KILL, SPOIL = 1, 3, 4, 13
LOG, STATE = 0, 1
NODE = 2


@pytest.fixture(autouse=True)
def _release():
    raft_jars(VERSION)


def plan(*steps, **more):
    return in_simulation(
        {
            "campaign": "planted",
            "system": "kafka-raft",
            "system_options": {"version": VERSION},
            "workload": "appends",
            "nodes": 3,
            "node_settings": {
                "controller.quorum.election.timeout.ms": 150,
                "controller.quorum.election.backoff.max.ms": 100,
                "controller.quorum.fetch.timeout.ms": 200,
                "controller.quorum.append.linger.ms": 5,
            },
            "duration_s": 1.5,
            "rate_per_s": 80,
            "concurrency": 4,
            "operation_timeout_ms": 500.0,
            "faults": [],
            "schedule": [{"at_ms": 500.0, "steps": list(steps)}] if steps else [],
            "seed": 1,
            **more,
        }
    )


def kill(targets, keep="nothing"):
    return plan({"kind": "kill", "targets": targets, "for_ms": 200.0, "keep": keep})


PLANS = {
    "no fault": plan(),
    "a follower is killed": kill("follower"),
    "the leader is killed": kill("leader"),
    "five candidates": plan(
        nodes=5,
        seed=0,
        world={"latency_ms": [20.0, 60.0]},
        node_settings={
            "controller.quorum.election.timeout.ms": 100,
            "controller.quorum.election.backoff.max.ms": 50,
            "controller.quorum.fetch.timeout.ms": 300,
        },
    ),
    "slow network": plan(world={"latency_ms": [10.0, 20.0]}),
    "the leader is cut off": plan(
        {"kind": "partition", "targets": "leader", "shape": "isolate", "for_ms": 500.0}
    ),
    "both followers are killed": plan(
        {"kind": "cast", "names": {"F": "follower", "G": "follower"}},
        {"kind": "kill", "targets": "@F", "for_ms": 1200.0},
        {"kind": "kill", "targets": "@G", "for_ms": 1200.0},
        duration_s=2.5,
        operation_timeout_ms=100.0,
    ),
    "a new leader is cut off, and asked to remove a voter": plan(
        {"kind": "resign", "targets": "leader"},
        {
            "kind": "partition",
            "targets": "leader",
            "until": {"event": "epoch-start"},
            "for_ms": 200.0,
            "shape": "isolate",
        },
        {"kind": "voters", "targets": "follower", "change": "remove"},
        duration_s=2.5,
        system_options={"version": VERSION, "quorum": "dynamic"},
    ),
}


def fetch_of_snapshot():
    """A follower comes back behind the beginning of both other logs, which were just cleaned."""
    steps = [
        {"kind": "cast", "names": {"L": "leader", "F": "follower", "G": "follower"}},
        {"kind": "kill", "targets": "@F", "for_ms": 1200.0},
    ]
    for _ in range(2):  # the newest is never cleaned
        steps.append({"kind": "snapshot", "after_ms": 300.0, "targets": "@L"})
        steps.append({"kind": "snapshot", "targets": "@G"})
    for node in "@L", "@G":  # Kafka cleans once a minute
        jump = {"kind": "clock-jump", "after_ms": 20.0, "targets": node, "jump_ms": 61_000}
        steps.append(jump)
    found = plan(*steps, duration_s=2.5)
    log = {
        "metadata.log.segment.bytes": 300,
        "metadata.max.retention.bytes": 0,
        "controller.quorum.fetch.snapshot.max.bytes": 100,
    }
    return replace(found, node_settings={**found.node_settings, **log})


PLANS["a follower fetches a snapshot"] = fetch_of_snapshot()


class Altered:
    """A JVM whose answers are altered; `n` counts what the alteration wants counted."""

    def __init__(self, jvm, alter):
        self.jvm, self.alter, self.n = jvm, alter, 0
        self.release = jvm.release

    def call(self, frame):
        self.kind = frame[0]
        self.node, self.now = struct.unpack_from(">iq", frame.ljust(13, b"\0"), 1)
        return self.alter(self, self.jvm.call(frame))

    def nth(self, n):
        self.n += 1
        return self.n == n


def delayed(kind, what):
    """Do a write of the disk after all else that its step does."""

    def alter(_, effects):
        late = [each for each in effects if each[0] == kind or each[:2] == (Effect.IN_FLUSH, what)]
        rest = [each for each in effects if each not in late]
        return rest[:-1] + late + rest[-1:] if rest and rest[-1][0] == Effect.END else effects

    return alter


def each_effect(change):
    """Replace effects: `change` returns what takes the place of each."""

    def alter(altered, effects):
        return [other for effect in effects for other in change(altered, *effect)]

    return alter


def damage(what, n=2):
    """Damage the disk of each node that is killed."""

    def alter(altered, effects):
        if altered.kind == KILL:
            altered.jvm.call(struct.pack(">biii", SPOIL, altered.node, what, n))
        return effects

    return alter


@each_effect
def lose_commit(altered, kind, *fields):
    lost = kind == Effect.COMMIT and altered.node == NODE and altered.nth(8)
    return [] if lost else [(kind, *fields)]


@each_effect
def alter_commit(altered, kind, *fields):
    if kind == Effect.COMMIT and altered.node == NODE and altered.nth(8):
        return [(kind, *fields[:2], b"another")]
    return [(kind, *fields)]


@each_effect
def take_back(altered, kind, *fields):
    if kind == Effect.HW and altered.nth(20):
        return [(kind, fields[0] - 3)]
    return [(kind, *fields)]


@each_effect
def commit_at_append(altered, kind, *fields):
    """Announce all that a node appends as committed, from its tenth batch on."""
    found = [(kind, *fields)]
    if kind == Effect.APPEND and altered.nth(10):
        altered.n -= 1
        found.append((Effect.HW, fields[1] + 1))
    return found


@each_effect
def end_thread(altered, kind, *fields):
    if kind == Effect.END and altered.nth(300):
        return [(Effect.FAULT, "java.lang.IllegalStateException", "put in", "A.a(A.java:1)")]
    return [(kind, *fields)]


@each_effect
def alter_snapshot(altered, kind, *fields):
    """Let a node load a snapshot of other values."""
    del altered
    return [(kind, *fields[:3], fields[3] ^ 1) if kind == Effect.LOADED else (kind, *fields)]


def poll_at_once(altered, effects):
    if altered.kind in {1, 2, 3} and altered.node == NODE:
        (*rest, (_, alive, _, *ends)) = effects
        return [*rest, (Effect.END, alive, altered.now, *ends)]
    return effects


SEAM = {
    "vote forgotten by the state file": (damage(2), "a follower is killed", "recovery"),
    "state file lost": (damage(1), "a follower is killed", "recovery"),
    "state file of the leader lost": (damage(1), "the leader is killed", "recovery"),
    "log with a hole": (damage(3), "a follower is killed", "log-matching"),
    "flushed batches lost": (damage(4), "a follower is killed", "recovery"),
    "batches in another order": (damage(5), "a follower is killed", "log-matching"),
    "flushed batch torn": (damage(6), "a follower is killed", "recovery"),
    "log flushed after its Fetch": (delayed(Effect.FLUSH, LOG), "no fault", "durable-fetch"),
    "vote stored after its answer": (delayed(Effect.STATE, STATE), "no fault", "durable-vote"),
    "commit lost": (lose_commit, "no fault", "log"),
    "commit altered": (alter_commit, "no fault", "log"),
    "high watermark taken back": (take_back, "no fault", "committed-prefix"),
    "high watermark at the append": (commit_at_append, "no fault", "majority-durable"),
    "snapshot of other values": (alter_snapshot, "a follower fetches a snapshot", "node-died"),
    "raft thread ended": (end_thread, "no fault", "node-died"),
}
"""Fault -> alteration, plan, the property that it breaks."""


def violation(plan):
    found = run_plan(plan)
    assert found.verdict is Status.FAIL
    return found.violations[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_without_a_fault_the_plan_passes(name):
    assert run_plan(PLANS[name]).verdict is Status.PASS


@pytest.mark.slow
@pytest.mark.parametrize("fault", SEAM)
def test_a_fault_of_disk_or_listener_is_reported(monkeypatch, fault):
    alter, name, expected = SEAM[fault]
    monkeypatch.setattr(program, "jvm_of", lambda release: Altered(jvm_of(release), alter))

    assert violation(PLANS[name]).property == expected


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "disk-error"])
def test_a_node_that_acknowledges_what_only_the_kernel_has_is_reported(end):
    """No planted fault: docs/findings/unsynced-start.md."""
    steps = [{"kind": "disk-error", "targets": "follower", "for_ms": 300.0}]
    if end == "kill":
        steps = [
            {"kind": "cast", "names": {"F": "follower"}},
            {"kind": "disk-stall", "targets": "@F"},
            {"kind": "kill", "targets": "@F", "keep": "everything", "after_ms": 100.0},
            {"kind": "heal", "fault": "disk-stall", "targets": "@F"},
            {"kind": "heal", "fault": "kill", "targets": "@F"},
        ]

    assert violation(plan(*steps)).property == "durable-fetch"


@pytest.mark.slow
def test_a_lone_voter_that_commits_what_it_has_not_synced_is_reported():
    """No planted fault: docs/findings/lone-controller.md."""
    own = {"version": "kraft"}

    assert violation(plan(nodes=1)).property == "majority-durable"
    assert run_plan(plan(nodes=1, system_options=own)).verdict is Status.PASS


@pytest.mark.slow
def test_a_snapshot_is_fetched_in_pieces(monkeypatch):
    pieces = []

    def count(_, effects):
        pieces.extend(e for e in effects if e[0] == Effect.SEND and e[5] == ApiKey.FETCH_SNAPSHOT)
        return effects

    monkeypatch.setattr(program, "jvm_of", lambda release: Altered(jvm_of(release), count))

    assert run_plan(PLANS["a follower fetches a snapshot"]).verdict is Status.PASS
    assert len(pieces) >= 3


@pytest.mark.slow
def test_a_thread_that_polls_without_waiting_is_reported(monkeypatch):
    monkeypatch.setattr(program, "jvm_of", lambda release: Altered(jvm_of(release), poll_at_once))

    assert violation(plan(duration_s=12)).property == "busy-poll"


def test_a_node_of_another_voter_set_is_reported(monkeypatch):
    start = KafkaProgram._start

    def alone(self, node, now_ms, seed):
        found = start(self, node, now_ms, seed)
        if node.node_id != NODE:
            return found
        return replace(found, voters=[each for each in found.voters if each.node_id == NODE])

    monkeypatch.setattr(KafkaProgram, "_start", alone)

    found = violation(PLANS["no fault"])
    assert found.property == "elected-by-majority"
    assert "of n2 among n1, n2, n3" in found.explanation


def test_a_network_that_grants_votes_for_others_is_reported(monkeypatch):
    take = KafkaProcess._take

    def grant(self, message, reply):
        if message.api != ApiKey.VOTE:
            take(self, message, reply)
            return
        epoch = message.replica_epoch
        reply(VoteResponse(ErrorCode.none, -1, epoch, vote_granted=True))

    monkeypatch.setattr(KafkaProcess, "_take", grant)

    assert violation(PLANS["no fault"]).property == "elected-by-majority"


def test_a_network_that_acknowledges_for_others_is_reported(monkeypatch):
    take = KafkaProcess._take

    def claim(self, message, reply):
        if message.api == ApiKey.FETCH and message.body[43:47] == message.body[55:59]:
            # It has something of the leader's epoch: let it have all.
            end = self.replica.end_offset.to_bytes(8)
            body = message.body[:47] + end + message.body[55:]
            message = type(message)(message.api, message.version, body)
        take(self, message, reply)

    monkeypatch.setattr(KafkaProcess, "_take", claim)

    assert violation(PLANS["slow network"]).property == "majority-durable"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "name", "expected"),
    [
        ("high watermark of one voter", "no fault", "majority-durable"),
        ("election won by any vote", "no fault", "elected-by-majority"),
        ("vote granted twice in an epoch", "five candidates", "one-vote"),
        ("leader that goes on alone", "both followers are killed", "led-alone"),
        (
            "removal before anything is committed",
            "a new leader is cut off, and asked to remove a voter",
            "change-after-commit",
        ),
    ],
)
def test_a_class_of_kafka_with_another_line_is_reported(
    monkeypatch, tmp_path, fault, name, expected
):
    folder = patched_classes(fault, tmp_path / "patched")
    jvm = Jvm(classes.java_command(VERSION, patched=folder), VERSION)
    monkeypatch.setattr(program, "jvm_of", lambda _: jvm)
    try:
        assert violation(PLANS[name]).property == expected
    finally:
        jvm.close()

"""Plans with strands as data: drawn ones survive storing, wrong ones are refused in one line."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.partition_logs.columns import CONFIGURE, RENEW, UNCLEAN
from cluster.client.batches import CODECS
from cluster.node.controller.metadata.feature_levels import METADATA_VERSION_LEVEL
from cluster.systems.kraft import LOG_DIRS, METADATA_VERSION
from harness.errors import PlanError
from harness.plan.document import from_document
from harness.plan.step_verbs import is_fault
from harness.sim.runner import run, run_plan
from harness.sim.swarm.coverage import cell, empty, steer_for, universe
from harness.sim.swarm.draw import Steer, draw
from harness.sim.swarm.logs import ends_process
from harness.sim.swarm.topics import LED_UNCLEANLY, RETAINED
from tests.harness.sim.plans import read_plan
from workloads.data.log_client import (
    ASK_WRONG,
    DELETE,
    DESCRIBE,
    FILL,
    GROW,
    MOVE,
    PRODUCERS,
    RESIZE,
)
from workloads.data.wrong_requests import WRONG as WRONG_REQUESTS

LOGS = (1178, 94, 111, 5019, 392, 40_002, 41_148, 611_165)
"""Short worlds, one of them with a single replica; an idle leader moves; all nodes are killed; a
broker that stops is asked for the end of an epoch; a follower serves what it has not written; a
leader that stops is paused."""
LOSING = (RETAINED, LED_UNCLEANLY)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31))
def test_a_drawn_plan_is_the_same_after_it_was_stored(seed):
    plan = draw(seed)

    stored = json.loads(json.dumps(plan.to_json()))

    assert from_document(stored).to_json() == stored
    assert from_document(stored).strands == plan.strands


@pytest.mark.parametrize("seed", [47, 112])
def test_a_plan_of_a_short_world_holds_nothing_behind_its_end(seed):
    plan = draw(seed, duration_ms=500.0)
    assert from_document(plan.to_json()).strands == plan.strands


def test_seeds_visit_different_worlds():
    plans = [draw(seed) for seed in range(60)]

    assert {3, 4, 5, 7} <= {plan.nodes for plan in plans}  # and observers
    assert len({str(plan.node_settings) for plan in plans}) > 50
    drawn = {plan.workload for plan in plans}
    assert {"register", "log", "topics", "set", "brokers"} <= drawn


def test_worlds_of_brokers_may_wait_for_an_answer_of_the_controller_that_was_lost():
    """Seed 9000006 of 120 s: nobody came back into an ISR until the request was sent again."""
    seen = set()
    for seed in range(60):
        plan = draw(seed)
        given = plan.node_settings
        registers = bool(given["kraftprobe.registration"])
        seen.add(registers)
        unit_ms = (
            given["controller.quorum.fetch.timeout.ms"]
            + 1.5 * given["controller.quorum.election.timeout.ms"]
        )
        more_ms = given["controller.socket.timeout.ms"] if registers else 0
        assert plan.bounds.liveness_ms == round(20_000 + 40 * unit_ms) + more_ms
    assert seen == {False, True}


def test_followers_fetch_faster_than_brokers_are_fenced_and_unfenced():
    """Seed 60320: each session took more batches than followers fetched, one by one."""
    bytes_max = Counter[int]()
    for plan in map(draw, (*range(200), 60_320)):
        given, world = plan.node_settings, plan.world
        turn_ms = 2 * world.latency_ms[1] + world.sync_ms[1]
        if given["kraftprobe.registration"]:
            at_once = given["controller.quorum.fetch.max.bytes"]
            bytes_max[at_once] += 1
            fetched = given["broker.session.timeout.ms"] / turn_ms
            assert at_once > 300 or 0.8 * fetched >= 2 * plan.nodes, plan.seed
    assert {1, 300} <= set(bytes_max), "few bytes are fetched where that is enough"


def test_a_registration_can_be_answered_within_half_a_session():
    """Seed 5030: a broker whose controller was another node registered for ever."""
    registering = [p for p in map(draw, range(400)) if p.node_settings["kraftprobe.registration"]]
    for plan in (*registering, draw(1019), draw(5030)):
        given, world = plan.node_settings, plan.world
        linger_ms = given["controller.quorum.append.linger.ms"]
        commit_ms = 4 * world.latency_ms[1] + 2 * world.sync_ms[1] + linger_ms
        assert given["broker.session.timeout.ms"] / 2 > commit_ms, plan.seed


def test_clients_of_strands_do_what_the_workload_does_with_values_of_their_own():
    plans = [draw(seed) for seed in range(60)]
    known = {"register": {"read", "write"}, "log": {"send"}, "topics": {"create", "delete"}}
    for plan in plans:
        beside = (
            *(MOVE, CONFIGURE, RENEW, DELETE, DESCRIBE, FILL, GROW, PRODUCERS, RESIZE),
            ASK_WRONG,
        )
        scripted = [
            step for step in steps_of(plan) if step.kind == "op" and step.options["f"] not in beside
        ]
        functions = {step.options["f"] for step in scripted}
        assert functions <= known.get(plan.workload, functions)
        if plan.workload in ("register", "log"):
            values = [
                str(step.options["value"]) for step in scripted if step.options["f"] != "read"
            ]
            assert len(values) == len(set(values))
            assert plan.concurrency < 999, "the worker that writes them"


def steps_of(plan):
    return [step for strand in plan.strands for step in strand.steps]


def test_some_quorums_begin_with_a_single_voter_and_grow():
    plans = [plan for seed in range(120) if (plan := draw(seed)).world.observers > 2]
    assert plans, "others have two observers at most"
    for plan in plans:
        assert plan.world.observers == plan.nodes - 1
        assert any(step.options.get("change") == "upgrade" for step in steps_of(plan))


def test_snapshots_in_small_pieces_are_held_up_while_newer_ones_are_made():
    name = "controller.quorum.fetch.snapshot.max.bytes"
    plans = [plan for seed in range(120) if (plan := draw(seed)).node_settings[name] <= 500]
    assert 10 < len(plans) < 40
    held = [step for plan in plans for step in steps_of(plan) if step.kind == "hold"]
    kinds = {step.options.get("types") for step in held}
    assert {"FetchSnapshotRequest", "FetchSnapshotResponse"} <= kinds
    assert {"deliver", "drop"} <= {step.options.get("then") for step in held}


def test_a_large_snapshot_is_loaded_before_the_next_one_is_made():
    plan = draw(29000009, duration_ms=120_000)
    settings = plan.node_settings
    piece_bytes = settings["controller.quorum.fetch.snapshot.max.bytes"]
    load_ms = 250_000 / piece_bytes * 2 * plan.world.latency_ms[1]  # as large as it was in the end
    idle_records = settings["metadata.log.max.record.bytes.between.snapshots"] / 80
    assert plan.workload == "set"
    assert load_ms < idle_records * settings["metadata.max.idle.interval.ms"]


def test_metadata_logs_are_damaged_and_logs_of_partitions_only_where_another_replica_has_all():
    of_metadata, of_partitions = set(), set()
    for plan in map(draw, range(120)):
        damage = {
            (step.kind, step.options["file"])
            for step in steps_of(plan)
            if step.kind in ("bit-flip", "truncate-file")
        }
        of_metadata |= {kind for kind, file in damage if file == "log"}
        of_partitions |= {one for one in damage if one[1] in ("partition", "index")}
        if any(file == "partition" for _, file in damage):
            assert plan.workload_options["min_insync_replicas"] > 1
            kinds = [step.kind for step in steps_of(plan)]
            files = [step.options.get("file") for step in steps_of(plan)]
            assert files.count("partition") == 1
            assert {"kill", "stop", "disk-error", "log-dir-loss"}.isdisjoint(kinds)
    assert of_metadata == {"bit-flip", "truncate-file"}
    torn = {("truncate-file", "partition"), ("bit-flip", "partition")}
    assert of_partitions == {*torn, ("bit-flip", "index")}


def test_replicas_move_between_the_log_directories_of_brokers_that_have_several():
    plans = [plan for seed in range(120) if (plan := draw(seed)).workload == "log"]
    several = [plan for plan in plans if plan.node_settings.get(LOG_DIRS, 1) > 1]
    assert 5 < len(several) < len(plans) - 5
    kinds = [{step.kind for step in steps_of(plan)} for plan in several]
    assert sum("log-dir-move" in each for each in kinds) > len(several) // 2
    assert sum("log-dir-loss" in each for each in kinds) > len(several) // 3
    assert not any(
        "log-dir-move" in {s.kind for s in steps_of(p)} for p in plans if p not in several
    )


def test_some_clusters_begin_evenly_and_some_lose_their_first_leaders():
    plans = [draw(seed) for seed in range(120)]
    even = [p for p in plans if p.world.latency_ms[0] == p.world.latency_ms[1]]
    assert 2 < len(even) < 20
    assert {(p.world.loss, p.world.drift_ppm, p.world.slow_probability) for p in even} == {
        (0, 0, 0)
    }
    lost = [p for p in plans if not p.world.waits_for_leader]
    assert 2 < len(lost) < 20
    for plan in lost:
        claims = [s for s in plan.strands[0].steps if s.until and s.until.event == "claim"]
        assert len(claims) >= plan.nodes - plan.world.observers > 2


def test_topics_change_beside_the_workload():
    plans = [plan for seed in range(240) if (plan := draw(seed)).workload == "log"]
    steps = [(plan, step) for plan in plans for step in steps_of(plan) if step.kind == "op"]
    by_f = {
        f: [(p, s) for p, s in steps if s.options["f"] == f] for f in (RENEW, DELETE, CONFIGURE)
    }
    assert all(len(found) > 20 for found in by_f.values())
    assert {s.options["key"] for _, s in by_f[RENEW] + by_f[DELETE]} == {"e0-0"}
    names = set()
    for plan, step in by_f[CONFIGURE]:
        if step.options["key"] in LOSING:
            continue
        set_to = step.options["value"]
        names.add(set_to["name"])
        if set_to["name"] == "min.insync.replicas":
            assert 1 <= int(set_to["value"]) <= plan.workload_options["replication_factor"]
            assert step.options["key"] == "e0-0", "without a leader it may stay so"
    assert names == {"min.insync.replicas", "segment.ms", "flush.messages", "flush.ms"}


def settings_of(plan, key):
    """A plan with the configurations that the topic of a partition gets; None: it gets none."""
    steps = [step.options for step in steps_of(plan) if step.options.get("f") == CONFIGURE]
    names = {options["value"]["name"] for options in steps if options["key"] == key}
    return (plan, names) if names else None


def test_topics_that_nothing_else_uses_lose_records_by_retention_and_unclean_elections():
    plans = [draw(seed) for seed in range(60)]
    retained, unclean = ([found for p in plans if (found := settings_of(p, k))] for k in LOSING)
    assert min(len(retained), len(unclean)) >= 4
    assert {plan.workload for plan, _ in retained + unclean} == {"log"}
    names = set().union(*(own for _, own in retained))
    assert names == {
        *("retention.bytes", "retention.ms", "segment.ms", "segment.index.bytes"),
        "file.delete.delay.ms",
    }
    for plan, _ in retained:
        assert plan.node_settings["log.retention.check.interval.ms"] < 30_000
    short = {"segment.ms", "index.interval.bytes"}
    assert 2 <= sum(short <= own for _, own in unclean) < len(unclean)
    for plan, own in unclean:
        assert own - short == {UNCLEAN, "min.insync.replicas"}
        assert plan.workload_options["replication_factor"] == 2


def test_administrators_change_features_and_brokers_beside_the_workload():
    plans = [draw(seed) for seed in range(120)]
    with_levels = [p for p in plans if any(s.kind == "finalize" for s in steps_of(p))]
    assert 20 < len(with_levels) < 60
    earlier = [p for p in plans if p.node_settings[METADATA_VERSION] < METADATA_VERSION_LEVEL]
    goes_up = [any(s.kind == "finalize" and not s.options for s in steps_of(p)) for p in earlier]
    assert 2 < sum(goes_up) < len(earlier) < 40
    for plan in plans:  # seed 330216: four levels were asked for, 60 s long, with no majority
        waits_s = 60.0 * (plan in with_levels)
        assert plan.bounds.events_max == 1_000_000 + round(30_000 * (plan.duration_s + waits_s))
    asked = {
        f: [p for p in plans if any(s.options.get("f") == f for s in steps_of(p))]
        for f in (RESIZE, DESCRIBE, GROW, PRODUCERS, ASK_WRONG)
    }
    assert 5 < len(asked[ASK_WRONG]) < 25
    for plan in asked[ASK_WRONG]:
        wrong = [s.options["value"] for s in steps_of(plan) if s.options.get("f") == ASK_WRONG]
        assert sorted(wrong) == sorted(WRONG_REQUESTS)
    assert 2 < len(asked[PRODUCERS]) < 20
    assert all(len(asked[f]) > 20 for f in (RESIZE, DESCRIBE, GROW))
    assert {p.workload for found in asked.values() for p in found} == {"log"}
    codecs = {p.workload_options["compression"] for p in plans if p.workload == "log"}
    assert codecs == {"none", *CODECS}


def test_a_fault_that_is_drawn_seldom_is_tried_again():
    again = 0
    for plan in map(draw, range(60)):
        faults = [s for s in steps_of(plan) if is_fault(s.kind)]
        counts = Counter(s.kind for s in faults)
        once = [s for s in faults if counts[s.kind] == 1]
        assert {s.options["file"] for s in once} <= {"partition"}
        again += sum(s.within_ms == plan.duration_ms for s in faults)
    assert again > 100


def test_some_replicas_take_over_in_another_directory_as_their_broker_dies():
    plans = [draw(seed) for seed in range(120)]
    strands = [[s.kind for s in strand.steps] for p in plans for strand in p.strands]
    assert strands.count(["log-dir-move", "wait", *["op"] * 3, "kill"]) > 10


def test_some_replicas_move_back_while_a_disk_stalls_or_their_broker_hears_of_no_other():
    plans = [draw(seed) for seed in range(120)]
    strands = [[s.kind for s in strand.steps] for p in plans for strand in p.strands]
    for hindrance in ("disk-stall", "partition"):
        assert strands.count([hindrance, *["log-dir-move"] * 3]) > 3


def test_some_log_directories_go_before_a_broker_that_starts_has_opened_them():
    plans = [draw(seed) for seed in range(120)]
    steps = [s.steps for p in plans for s in p.strands]
    lost = [each for each in steps if [step.kind for step in each] == ["kill", "log-dir-loss"]]
    assert len(lost) > 5
    for kill, loss in lost:
        assert kill.targets == loss.targets == loss.until.at
        assert (loss.until.event, loss.until.where) == ("broker-state", {"state": "fenced"})


def test_a_leader_that_is_to_be_lost_is_made_the_leader_first():
    plans = [plan for seed in range(60) if (plan := draw(seed)).workload == "log"]
    moves = [
        (plan, step)
        for plan in plans
        for step in steps_of(plan)
        if step.options.get("f") == MOVE and step.options["key"] != LED_UNCLEANLY
    ]
    assert len(moves) > 20
    for plan, step in moves:
        topic, _, number = step.options["key"].partition("-")
        assert int(topic.removeprefix("d")) < plan.workload_options["topics"]
        assert int(number) < plan.workload_options["partitions"]
        assert 0 <= step.options["value"] < plan.nodes


def test_logs_are_sent_to_with_one_replica_and_several_and_lose_no_written_byte():
    plans = [plan for seed in range(120) if (plan := draw(seed)).workload == "log"]
    options = [plan.workload_options for plan in plans]
    assert 50 < len(plans) < 85
    assert {1, 2, 3} == {one["replication_factor"] for one in options}
    assert {"all", "1", "0"} == {one["acks"] for one in options}
    kept = [plan for plan in plans if plan.world.power_loss == "written"]
    steps = [step for plan in kept for step in steps_of(plan)]
    assert {"disk-wipe", "disk-error"}.isdisjoint(step.kind for step in steps)
    assert not any("keep" in step.options for step in steps)


def test_one_node_alone_loses_what_it_has_written_where_no_replica_acknowledges_alone():
    losing = [p for s in range(120) if (p := draw(s)).workload == "log" and _loses_power(p)]
    assert 5 < len(losing) < 20
    kinds = set()
    for plan in losing:
        assert plan.workload_options["min_insync_replicas"] > 1
        ending = [step for strand in plan.strands if ends_process(strand) for step in strand.steps]
        assert len({step.targets for step in ending}) == 1
        kinds |= {step.kind for step in ending}
        least = [
            int(step.options["value"]["value"])
            for step in steps_of(plan)
            if step.options.get("f") == CONFIGURE
            and step.options["key"] not in LOSING
            and step.options["value"]["name"] == "min.insync.replicas"
        ]
        assert all(number > 1 for number in least)
    assert kinds == {"kill", "disk-error"}


def _loses_power(plan):
    return plan.world.power_loss != "written"


@pytest.mark.slow
@pytest.mark.parametrize("seed", LOGS)
def test_drawn_worlds_with_logs_are_silent(seed):
    plan = draw(seed)
    assert plan.workload == "log"
    assert run_plan(plan).violations == ()


_SNAPSHOTS = "X:controller.metadata.snapshot_generator:SnapshotGenerator"
_MOVES = "X:broker.replication.alter_log_dirs:ReplicaAlterLogDirsManager"
_LIFECYCLE = "X:broker.lifecycle.registration:BrokerLifecycleManager"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seed", "expected"),
    [
        ("M34", 43, "producers-in-log"),
        ("M36A", 25, "acks-awaited"),
        ("M36B", 276, "held-in-sync"),
        ("M36C", 17, "enough-in-sync"),
        ("X:broker.replication.partition:Partition._adopt:left-out:3", 9, "enough-in-sync"),
        ("M37", 1, "log"),
        ("M39A", 1, "isr"),
        ("M40I", 75, "log"),
        ("K13091", 36, "held-committed"),
        ("K14857", 0, "published-new"),
        ("K14145P", 1, "fetch-answered"),
        ("K7128", 19, "joins-in-epoch"),
        ("M26I", 20, "image-agreement"),
        ("M25F", 11, "remembered-in-log"),
        ("K14616", 94, "own-topic"),
        pytest.param("M34B", 11, "sequences", marks=pytest.mark.nightly),
        ("V02", 9, "change-awaited"),
        ("M40C", 6, "mark-removed"),
        ("M41F", 11, "caught-up-first"),
        ("M34G", 12, "sequences"),
        ("M34K", 25, "remembered-in-log"),
        ("M34O", 11, "sequences"),
        pytest.param(
            f"{_MOVES}.directory_to_report:always:0", 19, "placement", marks=pytest.mark.nightly
        ),
        ("X:broker.serving.fetch:_Delayed.wake:truth:0", 0, "fetch-answered"),
        (f"{_SNAPSHOTS}.is_due:connector:1", 0, "snapshot-made"),
        ("M39C", 43, "newest-changed"),
        ("X:log.storage.index:OffsetIndex.truncate:never:0", 1, "segment-indexed"),
        ("X:broker.replication.partition:Follower.is_caught_up:connector:0", 4, "lag-allowed"),
        ("X:broker.replication.replica_manager:ReplicaManager._shrink:left-out:0", 1, "lag-ends"),
        (f"{_MOVES}._advance:connector:0", 6, "moved-as-assigned"),
        (f"{_LIFECYCLE}.report_offline:left-out:0", 12, "offline-reported"),
        ("X:broker.serving.produce:_Delayed._outcome:always:5", 0, "acks-awaited"),
        ("X:broker.replication.fetch_sessions:FetchSessions._drop:left-out:1", 3, "watches-end"),
        (
            "X:broker.lifecycle.producer_ids:ProducerIdManager._serve:number:0",
            4,
            "producer-ids-once",
        ),
    ],
)
def test_drawn_worlds_with_logs_find_faulty_brokers(mutant, seed, expected):
    assert run(draw(seed, mutant=mutant), frozenset({expected}))[1].property == expected


@pytest.mark.slow
def test_a_log_is_cut_within_a_later_segment_after_an_unclean_election():
    mutant = "X:log.data.data_times:check_cut:sum:3"
    plan, wanted = draw(69, mutant=mutant, duration_ms=20_000.0), "node-died"
    assert run(plan, frozenset({wanted}))[1].property == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seed", "expected"),
    [
        ("K14145", 0, "fetch-answered"),
        ("K18345", 34, "liveness"),
        ("K20839", 37, "bootstrap-first"),
        ("M26C", 9, "valid-brokers"),
        ("X:broker.serving.offsets:_delete_records:always:1", 29, "deletes-asked"),
        ("L06", 0, "leaves-leader"),
        ("L10", 33, "silent-fenced"),
        ("M10C", 0, "pre-elected"),
        ("M29V", 22, "voters-known"),
        ("X:kraft.quorum.control_state:LogHistory.truncate_new:relation:0", 0, "voters-known"),
        ("M30U", 0, "committed-voters"),
        ("M39F", 1, "isr"),
        (
            "X:controller.metadata.timeline:IndexedTimelineMap.keys_with:always:0",
            0,
            "partitions-found",
        ),
    ],
)
def test_drawn_worlds_find_faulty_controllers(mutant, seed, expected):
    assert run(draw(seed, mutant=mutant), frozenset({expected}))[1].property == expected


def test_steering_asks_for_empty_cells():
    covered = {cell(*one): 1 for one in universe()}
    missing = ("kill", "leader", "establishing")
    del covered[cell(*missing)]

    assert empty(covered) == (missing,)
    steered = draw(3, steer=steer_for(3, covered)).strands[0].steps[0]
    assert (steered.kind, steered.targets, steered.until.event) == (
        "kill", "leader", "epoch-start",
    )  # fmt: skip
    assert draw(3, steer=Steer()) == draw(3)


def strand(*steps):
    return {"schedule": [{"steps": list(steps)}]}


def step(kind, **options):
    return strand({"kind": "heal"}, {"kind": kind, **options})


WRONG = [
    ({"version": 2}, "version must be 1"),
    ({"nodes": 0}, "nodes must be a whole number from 1 to 15"),
    ({"nods": 3}, "nods"),
    ({"mutant": "M99"}, "unknown mutant"),
    ({"node_settings": {"controller.quorum.lingr": 1}}, "lingr"),
    ({"world": {"latency": 1}}, "world: unknown key 'latency'"),
    ({"strands": []}, "strands are rows of schedule, with steps"),
    ({"workload": "bank"}, "bank"),
    ({"schedule": [{"at_ms": 1, "steps": [{"kind": "kil"}]}]}, "did you mean"),
    ({"schedule": [{"at_ms": 1, "steps": [{"kind": "kill", "targets": "@A"}]}]}, "@A"),
    ({"schedule": [{"at_ms": 1, "steps": [{"kind": "kill", "targets": "node:n4"}]}]}, "node:n4"),
    ({"schedule": [{"at_ms": -1, "steps": []}]}, "schedule 1: at_ms must be a number from 0"),
    (step("partition", shape="links", links="node:n1"), "a link is written"),
    (step("release", links="node:n1"), "a link is written"),
    (step("wait", for_ms=5), "a wait takes no for_ms"),
    (
        step("kill", targets="all", keeep=1),
        "schedule 1: steps 2: unknown parameter of kill 'keeep'",
    ),
    (step("kill", targets="all", keep="al"), "schedule 1: steps 2: unknown keep of kill 'al'"),
    (step("kill", targets="all", for_ms=True), "steps 2: for_ms must be a number from 0 to 8640"),
    (step("loss", percent=150), "schedule 1: steps 2: percent of loss must be"),
    (step("hold", types="FetchReq"), "'FetchReq'; did you mean 'FetchRequest'?"),
    (step("heal", fault="kil"), "unknown fault 'kil'; did you mean 'kill'?"),
    (step("cast"), "schedule 1: steps 2: names is missing"),
    (step("cast", names={"A": "leadr"}), "unknown target 'leadr'; did you mean 'leader'"),
    (step("cast", names={}), "names must be names of nodes, such as {A = 'leader'}, not {}"),
    (step("expect"), "schedule 1: steps 2: that is missing"),
    (step("expect", that={}), "that must be a condition that says something, not {}"),
    (step("expect", that={"stat": "Leader"}), "that: unknown key 'stat'; did you mean 'state'?"),
    (
        step("expect", that={"at": "@B", "state": "Leader"}),
        "schedule 1: steps 2: unknown target '@B'",
    ),
    (
        step("wait", until={"event": "vote", "where": {"candidate_id": "@B"}}),
        "schedule 1: steps 2: unknown target '@B'",
    ),
    (step("wait", until={}), "steps 2: until must say something of nodes or of an operation"),
    (step("wait", until={"epoch": "late"}), "until: unknown epoch 'late'; did you mean 'later'?"),
    (step("wait", until={"synced": 1}), "steps 2: until.synced must be true or false, not 1"),
    (step("wait", until={"at": "all"}), "steps 2: until must say something of nodes or of an op"),
    (step("wait", until={"event": ""}), "steps 2: until.event must be a string of"),
    (step("wait", until={"ok": ""}), "steps 2: unknown id ''"),
    (
        step("expect", that={"state": "Leader", "established": False}),
        "steps 2: that.established must be true, or left out",
    ),
    (
        strand(
            {"kind": "cast", "names": {"A": "leader"}}, {"kind": "expect", "that": {"at": "@A"}}
        ),
        "steps 2: that must say something of nodes or of an operation",
    ),
    (
        step("expect", targets="leader", that={"state": "Leader"}),
        "steps 2: targets would mean nothing to expect: leave them out",
    ),
    (
        step("expect", that={"at": "majority", "state": "Leader"}),
        "steps 2: at: majority nodes are drawn, and those",
    ),
    (step("wait", until={"where": {"epoch": 1}}), "until: where needs an event, of which it names"),
    (step("wait", until={"state": "leader"}), "unknown state 'leader'; did you mean 'Leader'?"),
    (strand({"kind": "op", "id": "a"}, {"kind": "wait", "until": {"ok": "b"}}), "unknown id 'b'"),
    (step("op", value={"a": float("nan")}), "steps 2: value must be what JSON has, not {'a': nan}"),
    (
        {"schedule": [{"at_ms": 6e4, "steps": [{"kind": "resign"}]}]},
        "schedule 1: at_ms must be below 60000, where the plan's duration_s ends, not 60000",
    ),
    ({"operations": [{"f": "write", "at_ms": 6e4}]}, "operations 1: at_ms must be below 60000"),
    ({"operations": [{"f": "write", "worker": 15}]}, "operations 1: worker must be below 15, the"),
    (
        {"workload": "log", "operations": [{"f": "poll", "node": "n1"}]},
        "operations 1: node: clients of workload log find brokers by themselves: leave it out",
    ),
    (step("op", value=1.5), "value must be a string, a whole number or a table, not 1.5"),
    ({"operations": [{"f": "write", "node": "n9"}]}, "operations 1: unknown node 'n9'"),
    ({"operations": [{"key": "k"}]}, "operations 1: f is missing"),
    (
        {"bounds": {"events_max": 0}},
        "bounds.events_max must be a whole number from 1 to 1000000000000",
    ),
]


@pytest.mark.parametrize(("part", "line"), WRONG, ids=[line for _, line in WRONG])
def test_a_wrong_strand_is_reported_in_one_line(part, line):
    with pytest.raises(PlanError) as caught:
        from_document({"version": 1, **part})

    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_plan_is_named(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{")

    with pytest.raises(PlanError, match=r"broken\.json: cannot be read"):
        read_plan(path)

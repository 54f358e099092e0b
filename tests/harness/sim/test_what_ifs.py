"""What an active controller would do, asked in a cluster at rest: of the true node, and others."""

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace

import pytest

from checkers.invariants.answers import ClusterDescribed, state_decides, wrong_refused
from checkers.invariants.watcher import Watcher
from cluster.mutants import apply_mutant
from harness.sim.requests.batches import judged_batches
from harness.sim.requests.metadata_walk import walk
from harness.sim.requests.what_ifs import WhatIfs
from harness.sim.sights.broker_view import differences
from harness.sim.sights.replicas import _knows_epoch
from tests.cluster.node.broker.cluster_of_brokers import TWO_DIRECTORIES, Brokers
from tests.cluster.node.controller.fakes import alter
from workloads.data.wrong_requests import WRONG

JUDGES = (ClusterDescribed, wrong_refused, state_decides)
TIMES = 60
IDLE = SimpleNamespace(call_later=lambda *_: None)
"""A scheduler of a world in which no time passes."""


@pytest.fixture(scope="module")
def brokers():
    """Three brokers, of which one is gone, and one was and leads no more what it should."""
    made = Brokers(settings=TWO_DIRECTORIES)
    leads = int(made.quorum.elect()[1:])
    gone, back = {1, 2, 3} - {leads}
    made.create("t", min_insync_replicas=2)
    made.create("u", replicas=(gone, leads), partitions=2)
    made.create("v", replicas=(back, leads))
    made.world.kill(f"n{back}")
    assert made.until(lambda: made.partition("v").leader == leads)
    made.world.start(f"n{back}")
    assert made.until(lambda: len(made.partition("v").isr) == 2)
    made.world.kill(f"n{gone}")
    assert made.until(lambda: gone not in made.unfenced())
    return made


def mutated(mutant):
    return apply_mutant(mutant) if mutant else nullcontext()


def judged(brokers, mutant):
    """Ask a controller, which is faulty from now on, until it is accused, and return by what."""
    watcher, name = Watcher(among=JUDGES), brokers.quorum.elect()
    asking = WhatIfs(SimpleNamespace(scheduler=IDLE, seed=3), watcher)
    with mutated(mutant):
        for _ in range(TIMES):
            try:
                asking._ask(name, brokers.quorum.node(name))
            except AttributeError:  # in a world it ends the node
                return "raised"
            if watcher.violations:
                return watcher.violations[0].property
    return None


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("apis.topic_partitions:_unknown:always:0", "wrong-refused"),
        ("configs.configuration_control:_check_logger:relation:0", "wrong-refused"),
        ("configs.validation:_check_resize:relation:3", "wrong-refused"),
        ("configs.validation:_enough_buffer:connector:0", "wrong-refused"),
        ("configs.values:_throttled_replicas:connector:0", "wrong-refused"),
        ("configs.values:_gzip_level:never:0", "wrong-refused"),
        ("metadata.state:invalid_name_reason:relation:1", "state-decides"),
        ("partitions.alter_partition:validate:relation:3", "state-decides"),
        ("partitions.reassignment:_reassign:relation:0", "state-decides"),
        ("topics.topic_changes:_partitions:relation:0", "state-decides"),
        ("topics.topic_creation:check_manual_placements:relation:1", "state-decides"),
        (None, None),
    ],
)
def test_a_controller_would_do_what_its_state_decides(brokers, place, found):
    assert judged(brokers, place and f"X:controller.{place}") in (found, found and "raised")


@pytest.mark.parametrize("what", WRONG)
def test_a_request_that_is_wrong_anywhere_is_refused_as_kafka_refuses_it(brokers, what):
    watcher, name, wrong = Watcher(among=JUDGES), brokers.quorum.elect(), WRONG[what]
    node = brokers.quorum.node(name)
    by = node, node.controller.image.state, wrong.is_of_broker
    asking = WhatIfs(SimpleNamespace(scheduler=IDLE, seed=3), watcher)
    asking._decide(name, "refusal", (what, wrong.request, wrong.errors), by)
    assert watcher.violations == []


@pytest.mark.parametrize(
    "place",
    [
        "configs.configuration_control:_new_value:never:1",
        "configs.values:parse:relation:0",
        "core.feature_control:_why_no_version:relation:5",
        "metadata.image:local_changes:relation:1",
        "metadata.replay:_delegation_token:left-out:0",
        "metadata.timeline:IndexedMap.put:never:1",
        "partitions.elections:_elect:relation:0",
        "partitions.reassignment:_cancel:never:0",
        "topics.topic_creation:partition_records:left-out:1",
        None,
    ],
)
def test_right_requests_make_what_they_say_and_nothing_else(brokers, place):
    node = brokers.quorum.node(brokers.quorum.elect())
    watcher = Watcher(among=(state_decides,))
    raised = False
    with mutated(place and f"X:controller.{place}"):
        for seed in range(TIMES):
            try:
                for what, errors, right in walk(node, Random(seed)):
                    shown = {"what": what, "errors": errors, "right": right}
                    watcher.take("n1", "decision", shown)
            except Exception:  # noqa: BLE001  (in a world it ends the node)
                raised = True
            if raised or watcher.violations:
                break
    assert (raised or bool(watcher.violations)) is (place is not None)


@pytest.mark.parametrize(
    ("mutant", "says"),
    [
        ("X:broker.replication.replica_manager:ReplicaManager._configure:left-out:1", "segment.ms"),
        ("X:broker.replication.partition:Partition._adopt:left-out:2", "partition epoch"),
        (None, None),
    ],
)
def test_a_broker_goes_by_the_metadata_that_it_was_given(mutant, says):
    brokers = Brokers()
    with mutated(mutant):
        brokers.create()
        request, replies = alter("segment.ms", "7", resource=(2, "t")), []
        brokers.quorum.node(brokers.quorum.elect()).handle("CONTROLLER", request, replies.append)
        assert brokers.until(lambda: replies)
        brokers.run(1_000)
    seen = [differences(node, node.controller.image.state) for node in map(brokers.node, (1, 2, 3))]
    assert [says is not None and says in each if each else None for each in seen] == [
        *[says and True] * 3
    ]


@pytest.mark.parametrize(
    ("mutant", "known"),
    [("X:broker.replication.partition:Partition.make_leader:always:1", False), (None, True)],
)
def test_a_leader_epoch_begins_where_its_log_says(mutant, known):
    brokers = Brokers()
    brokers.create(min_insync_replicas=1)
    brokers.produce(1, b"a")
    with mutated(mutant):
        brokers.world.kill("n3")
        assert brokers.until(lambda: 3 not in brokers.partition().isr)
        brokers.run(1_000)
    replica = brokers.replica(1)
    assert _knows_epoch(replica, replica.partition.leader_epoch) is known


@pytest.mark.parametrize(
    ("place", "is_faulty"),
    [("_wrong_time:relation:0", True), ("_check_header:never:2", True), (None, False)],
)
def test_a_leader_takes_right_batches_and_refuses_others(place, is_faulty):
    with mutated(place and f"X:log.data.validation:{place}"):
        asked = [each for seed in range(20) for each in judged_batches(Random(seed))]
    assert any(errors[0] not in right[0] for _, errors, right in asked) is is_faulty

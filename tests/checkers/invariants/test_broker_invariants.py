"""Each invariant of brokers is broken by hand-made images, and not by their correct neighbours."""

from dataclasses import replace

import pytest

from checkers.invariants.brokers import BROKER_INVARIANTS, Image, Partition, faults
from tests.checkers.invariants.watching import QUIET, broken_by, found_in

LED = Partition(
    name="t-0",
    topic_exists=True,
    leader=1,
    replicas=(1, 2, 3),
    isr=(1, 2),
    elr=(),
    leader_epoch=4,
    partition_epoch=7,
    is_recovering=False,
    isr_min=1,
    active=frozenset({1, 2, 3}),
    online=frozenset({1, 2, 3}),
)


def image(offset, partition=LED, *, broker=(5, "a"), content="same", view=None):
    partitions = {"t-0": partition}
    return Image(offset, False, {1: broker}, partitions, partitions, content, view)


CASES = {
    "valid-brokers": (
        [("n1", image(1, replace(LED, leader=3)))],
        [("n1", image(1, replace(LED, leader=2)))],
    ),
    "image-agreement": (
        [("n1", image(1)), ("n2", image(1, content="other"))],
        [("n1", image(1)), ("n2", image(2, content="other"))],
    ),
    "broker-view": ([("n1", image(1, view="it lacks t-0"))], [("n1", image(1))]),
    "broker-epoch": (
        [("n1", image(1)), ("n1", image(2, broker=(5, "b")))],
        [("n1", image(1)), ("n1", image(2, broker=(6, "b")))],
    ),
    "partition-epochs": (
        [("n1", image(1)), ("n1", image(2, replace(LED, leader_epoch=5)))],
        [("n1", image(1)), ("n1", image(2, replace(LED, leader_epoch=5, partition_epoch=8)))],
    ),
}


def broken(*events):
    return broken_by(*events, among=BROKER_INVARIANTS)


def broken_images(seen):
    return set(broken(*((node, "image", {"image": shown}) for node, shown in seen)))


NEW = replace(LED, partition_epoch=0)


@pytest.mark.parametrize(
    ("partition", "found"),
    [
        (NEW, set()),
        (replace(NEW, unplaced=frozenset({2})), {"valid-brokers"}),
        (replace(LED, unplaced=frozenset({2})), set()),
    ],
    ids=["all are placed", "a broker has one directory", "it was created before"],
)
def test_new_replicas_are_placed_where_there_is_no_choice(partition, found):
    assert broken_images([("n1", image(1, partition))]) == found


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_an_invariant_is_reported_and_its_neighbour_is_not(name):
    violated, correct = CASES[name]
    assert broken_images(violated) == {name}
    assert broken_images(correct) == set()


def test_an_older_image_of_another_node_breaks_no_epoch():
    newer = image(2, replace(LED, leader_epoch=5, partition_epoch=8), broker=(6, "b"))
    assert broken_images([("n1", newer), ("n2", image(1))]) == set()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"isr": (1, 2, 2)}, "has members in sync that are not its replicas, or twice"),
        ({"isr": (1, 2, 4), "active": frozenset({1, 2, 3, 4})}, "has members in sync that are not"),
        ({"elr": (2,), "isr_min": 3}, "has a member of the ISR in the ELR"),
        ({"elr": (3,), "isr_min": 2}, "keeps an ELR although its ISR is large enough"),
        ({"last_known": (2,)}, "remembers the last leader although it has one"),
        ({"leader": 3}, "is led by a broker that is not in sync, or not alive"),
        ({"online": frozenset({2, 3})}, "is led from a log directory that is offline"),
        ({"active": frozenset({1, 3})}, "has a fenced broker in its ISR"),
        ({"leader": -1}, "has no leader although brokers in sync are alive"),
        (
            {"leader": -1, "isr": (), "elr": (2,), "isr_min": 2},
            "has no leader although one is alive that is eligible",
        ),
        (
            {"leader": -1, "isr": (), "takers": frozenset({3})},
            "has no leader although its topic allows any, and a replica is alive",
        ),
        ({"is_recovering": True}, "is recovering, and more than its leader is in sync"),
        ({"topic_exists": False}, "is of no topic"),
    ],
)
def test_every_fault_of_a_partition_is_named(changed, reason):
    (fault,) = faults(replace(LED, **changed), has_elr=True)
    assert f"t-0 {reason}" in fault


def test_without_a_leader_the_last_one_is_known():
    lost = replace(LED, leader=-1, isr=(), elr=(2,), last_known=(1,), isr_min=2)
    for usable in ({"active": frozenset({1, 3})}, {"online": frozenset({1, 3})}):
        assert list(faults(replace(lost, **usable), has_elr=True)) == []


@pytest.mark.parametrize(
    ("replicas", "epoch", "found"),
    [((1, 2), 4, {"partition-epochs"}), ((1, 2), 5, set()), ((1, 2, 3, 4), 4, set())],
    ids=["taken away", "with a new epoch", "added"],
)
def test_a_replica_is_taken_away_with_a_new_leader_epoch(replicas, epoch, found):
    changed = replace(LED, replicas=replicas, leader_epoch=epoch, partition_epoch=8)
    assert broken_images([("n1", image(1)), ("n1", image(2, changed))]) == found


def test_without_elr_the_last_member_of_an_isr_may_be_fenced_and_lead_nothing():
    last = replace(LED, leader=-1, isr=(1,), active=frozenset({2, 3}))
    assert list(faults(last, has_elr=False)) == []
    assert len(list(faults(last, has_elr=True))) == 1


def test_what_a_client_takes_back_uncleanly_leaves_the_first_replica():
    first = replace(LED, leader=-1, isr=(1,), active=frozenset({2, 3}), is_recovering=True)
    assert list(faults(first, has_elr=True)) == []
    second = replace(first, isr=(2,), active=frozenset({1, 3}))
    assert len(list(faults(second, has_elr=True))) == 1


def test_every_invariant_of_brokers_has_a_case():
    names = [invariant.name for invariant in BROKER_INVARIANTS]
    assert sorted(names) == sorted((*CASES, "published-new", "bootstrap-first", "partitions-found"))


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({}, ["bootstrap-first"]),
        ({"offset": 7}, []),
        ({"in_transaction": True}, []),
        ({"has_version": True}, []),
    ],
    ids=["nothing", "its claim alone is committed", "a part of it", "a metadata.version"],
)
def test_what_a_controller_commits_first_is_what_a_cluster_begins_with(now, found):
    looked = {"claimed": 7, "offset": 8, "in_transaction": False, "has_version": False}
    assert broken(("n1", "controller-image", looked | now)) == found


def test_configurations_go_with_their_topic():
    shown = replace(image(1), stray_configs=("t",))
    assert broken(("n1", "image", {"image": shown})) == ["valid-brokers"]


@pytest.mark.parametrize(
    ("high_watermark", "found"),
    [(None, ["published-new"]), (8, ["published-new"]), (7, []), (0, [])],
    ids=["no leader told it", "it lacks a record", "it has all", "there is nothing"],
)
def test_nothing_is_published_before_all_that_is_committed_is_known(high_watermark, found):
    published = {"offset": 6, "high_watermark": high_watermark}
    assert broken(("n1", "published", published)) == found


@pytest.mark.parametrize(
    ("found_by", "found"),
    [
        ({1: ["t-0"], "leaderless": ["t-1"]}, []),
        ({1: ["t-0"], "leaderless": ["t-1"], 2: []}, []),
        ({1: ["t-0"], "leaderless": []}, ["partitions-found"]),
        ({1: ["t-0", "t-1"], "leaderless": ["t-1"]}, ["partitions-found"]),
        ({1: ["t-0"], "leaderless": ["t-1"], 2: ["t-0"]}, ["partitions-found"]),
    ],
    ids=["all", "none of a broker that holds none", "one too few", "one too many", "one anew"],
)
def test_partitions_are_found_by_who_holds_them_and_what_is_due(found_by, found):
    having = {1: ["t-0"], "leaderless": ["t-1"]}
    assert broken(("n1", "partitions-found", {"found": found_by, "having": having})) == found


def op(f, value, after_ms=100):
    return {"kind": "op", "f": f, "key": "u0-0", "value": value, "after_ms": after_ms}


CHANGES = "X:controller.partitions.partition_change:PartitionChangeBuilder"
LED_UNCLEANLY = {
    **QUIET,
    "duration_s": 9,
    "rate_per_s": 10,
    "workload": "log",
    "workload_options": {"replication_factor": 2, "min_insync_replicas": 1},
    "node_settings": {"kraftprobe.registration": 1, "broker.session.timeout.ms": 1_000},
    "schedule": [
        {
            "at_ms": 500,
            "steps": [
                op("fill-topic", 1),
                op("configure-topic", {"name": "unclean.leader.election.enable", "value": "true"}),
                op("move-leader", 0, 500),
                op("move-leader", 0, 1_000),
                {"kind": "pause", "targets": "node:n2", "for_ms": 3_000},
                op("fill-topic", 1, 2_000),
                {"kind": "pause", "targets": "node:n1", "for_ms": 4_000},
            ],
        }
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "found"), [(f"{CHANGES}._unclean_candidates:never:1", "valid-brokers"), (None, None)]
)
def test_who_is_alive_leads_where_any_may(mutant, found):
    assert found_in(LED_UNCLEANLY, mutant, found) == found

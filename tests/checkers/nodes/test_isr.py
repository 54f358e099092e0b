"""ISR and ELR as the metadata log decides on them: right logs pass, each wrong decision is found."""

import uuid
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from checkers import Status
from checkers.evidence import Snapshot
from checkers.partition_logs.columns import RENEW
from checkers.registry import CheckSpec, run_check
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import committed_state
from cluster.node.controller.partitions.partition_change import Election, PartitionChangeBuilder
from cluster.node.controller.records import record_to_json
from cluster.node.controller.records.kinds import PartitionRecord, TopicRecord
from tests.checkers.evidence.run_evidence import NODES, good_run, record, trace

FEATURE = ("FeatureLevelRecord", {"name": "eligible.leader.replicas.version", "featureLevel": 1})
TOPIC = ("TopicRecord", {"name": "t0", "topicId": "T"})
MIN_2 = (
    "ConfigRecord",
    {"resourceType": 2, "resourceName": "t0", "name": "min.insync.replicas", "value": "2"},
)
UNCLEAN = (
    "ConfigRecord",
    {
        "resourceType": 4,
        "resourceName": "",
        "name": "unclean.leader.election.enable",
        "value": "true",
    },
)


def broker(number, fenced=False):
    return "RegisterBrokerRecord", {"brokerId": number, "brokerEpoch": 5, "fenced": fenced}


def partition(**fields):
    made = {"topicId": "T", "partitionId": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1}
    return "PartitionRecord", made | {"leaderEpoch": 0, "partitionEpoch": 0} | fields


def change(**fields):
    return "PartitionChangeRecord", {"topicId": "T", "partitionId": 0} | fields


START = [FEATURE, TOPIC, MIN_2, *map(broker, (1, 2, 3)), partition()]


def logs(records, start=0, crc=None):
    return {
        node: [
            record(node, start + at, crc=(crc or {}).get(at), kind=kind, **value)
            for at, (kind, value) in enumerate(records)
        ]
        for node in NODES
    }


def judged(*changes, start=START, crc=None):
    return run_check(CheckSpec("isr"), good_run(logs=logs([*start, *changes], crc=crc)))


SHUTS_DOWN = "BrokerRegistrationChangeRecord", {"brokerId": 3, "inControlledShutdown": 1}
FENCED = "FenceBrokerRecord", {"id": 3, "epoch": 5}
UNFENCED = "BrokerRegistrationChangeRecord", {"brokerId": 3, "fenced": -1}
SHRUNK = change(isr=[1], eligibleLeaderReplicas=[2, 3])
ADDING = change(replicas=[1, 2, 3, 4, 5], addingReplicas=[4, 5])
ALONE = [change(isr=[3], leader=3, eligibleLeaderReplicas=[1, 2]), FENCED, change(leader=-1)]
EMPTY = change(isr=[], leader=-1, eligibleLeaderReplicas=[1, 2, 3], lastKnownElr=[1])


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [SHRUNK, change(isr=[1, 2], eligibleLeaderReplicas=[])],
        [change(isr=[1, 2]), change(isr=[2, 3], leader=2)],
        [SHRUNK, EMPTY, change(isr=[2], leader=2, eligibleLeaderReplicas=[1, 3])],
        [change(addingReplicas=[4]), change(isr=[4], leader=4, replicas=[4], addingReplicas=[])],
        [SHRUNK, change(isr=[1], leader=1, replicas=[1], eligibleLeaderReplicas=[2, 3])],
        [ADDING, change(isr=[1, 4, 5], leader=1, replicas=[1, 4, 5], addingReplicas=[])],
        [
            change(isr=[2, 3], leader=2),
            change(removingReplicas=[2, 3]),
            change(isr=[1], leader=1, replicas=[1], removingReplicas=[]),
        ],
        [ADDING, change(isr=[1, 2, 3, 4])],
        [ADDING, change(leader=1, replicas=[1, 2, 3], addingReplicas=[])],
        [ADDING, change(addingReplicas=[], removingReplicas=[4, 5])],
        [UNCLEAN, change(isr=[1]), change(isr=[2], leader=2, leaderRecoveryState=1)],
        [("RemoveTopicRecord", {"topicId": "T"})],
        [change(isr=[1, 2]), FENCED],
        ALONE,
        [*ALONE, UNFENCED, change(leader=3)],
        [UNFENCED],
    ],
    ids=[
        "nothing changes",
        "shrunk and grown",
        "another leader",
        "out of the ELR",
        "reassigned",
        "removed replicas stay in the ELR, as Kafka leaves them",
        "all that are added are in sync",
        "the one that stays comes into the ISR as the others leave it",
        "one that is added is in sync, and the reassignment goes on",
        "a reassignment is given up",
        "another one takes away again what the first one added",
        "unclean, as configured",
        "removed",
        "fenced, and out of the ISR before",
        "fenced as the last member of the ISR",
        "and elected again when it is there again",
        "unfenced",
    ],
)
def test_a_right_log_passes(changes):
    if UNCLEAN in changes:  # without ELR nobody is remembered
        changes, start = [UNCLEAN, *changes[1:]], [r for r in START if r is not FEATURE]
    else:
        start = START
    assert judged(*changes, start=start).status is Status.PASS


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("not-a-replica", [change(isr=[1, 2, 7])]),
        ("not-a-replica", [change(isr=[1, 1, 2])]),
        ("not-a-replica", [change(isr=[1], eligibleLeaderReplicas=[2, 3, 7])]),
        ("isr-elr-overlap", [change(isr=[1], eligibleLeaderReplicas=[1, 2, 3])]),
        ("leader-not-in-sync", [change(isr=[2, 3])]),
        ("leader-not-in-sync", [change(isr=[1, 2], leader=3)]),
        ("elr-kept", [change(isr=[1, 2], eligibleLeaderReplicas=[3])]),
        ("left-in-epoch", [change(isr=[1, 2], replicas=[1, 2])]),
        (
            "reassigned-early",
            [ADDING, change(isr=[1, 4], leader=1, replicas=[1, 4, 5], addingReplicas=[])],
        ),
        ("elr-forgotten", [change(isr=[1], eligibleLeaderReplicas=[2])]),
        ("elr-forgotten", [change(isr=[1])]),
        ("elr-forgotten", [SHRUNK, change(eligibleLeaderReplicas=[])]),
        ("change-of-nothing", [change(partitionId=9, isr=[1])]),
        ("fenced-into-isr", [change(isr=[1, 2]), broker(3, fenced=True), change(isr=[1, 2, 3])]),
        ("fenced-into-isr", [change(isr=[1, 2]), SHUTS_DOWN, change(isr=[1, 2, 3])]),
        ("fenced-leader", [*ALONE, change(isr=[3], leader=3)]),
        ("fenced-in-isr", [FENCED]),
        ("fenced-in-isr", [change(isr=[1, 3], eligibleLeaderReplicas=[]), FENCED]),
    ],
)
def test_each_wrong_decision_is_found(kind, changes):
    result = judged(*changes)
    assert [anomaly["kind"] for anomaly in result.anomalies] == [kind], result.anomalies
    assert result.anomalies[0]["offset"] == len(START) + len(changes) - 1


def test_a_fenced_leader_is_found_with_the_record_that_fenced_it():
    (anomaly,) = judged(*ALONE, change(isr=[3], leader=3)).anomalies
    at = len(START) + ALONE.index(FENCED)
    assert (
        f"elects broker 3 while it is fenced ({FENCED[0]} at offset {at})" in anomaly["explanation"]
    )


LONE = [*(TOPIC, *map(broker, (1, 2, 3))), partition(), change(isr=[1])]


@pytest.mark.parametrize("recovering", [{}, {"leaderRecoveryState": 1}])
def test_an_election_of_a_replica_that_was_not_in_sync_is_found(recovering):
    stolen = change(isr=[2], leader=2, **recovering)
    result = judged(stolen, start=LONE)
    (anomaly,) = result.anomalies
    assert (anomaly["kind"], anomaly["partition"]) == ("unclean-election", "t0-0")
    assert (anomaly["offset"], anomaly["epoch"], anomaly["node"]) == (6, 1, "n1")
    configured = judged(stolen, start=[UNCLEAN, *LONE]).status
    assert configured is (Status.PASS if recovering else Status.FAIL), "it must be marked"


def test_a_leader_comes_into_the_isr_with_others_only_as_a_reassignment_ends():
    shrunk = change(isr=[1, 2])
    found = judged(shrunk, change(isr=[1, 3], leader=3), start=LONE[:-1]).anomalies
    assert [anomaly["kind"] for anomaly in found] == ["unclean-election"]
    moving = change(replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[1])
    end = change(isr=[3, 2, 4], replicas=[3, 2, 4], addingReplicas=[], removingReplicas=[])
    end[1]["leader"] = 3  # it was behind, and has come in sync with the last that was added
    assert judged(shrunk, moving, end).status is Status.PASS


@pytest.mark.parametrize("isr", [[3, 2], [4], [4, 2]])
@pytest.mark.parametrize("replicas", [{}, {"replicas": [2, 1, 3, 4], "addingReplicas": [4]}])
def test_no_leader_comes_into_the_isr_while_a_reassignment_begins_or_goes_on(isr, replicas):
    begins = change(replicas=[1, 2, 3, 4], addingReplicas=[4])
    found = judged(begins, change(isr=isr, leader=isr[0], **replicas), start=LONE).anomalies
    assert [anomaly["kind"] for anomaly in found] == ["unclean-election"]
    if replicas and 4 not in isr:
        found = judged(change(isr=isr, leader=isr[0], **replicas), start=LONE).anomalies
        assert [anomaly["kind"] for anomaly in found] == ["unclean-election"]


GIVEN_UP = {"isr": [1], "replicas": [1, 2, 3], "addingReplicas": [], "removingReplicas": []}


@pytest.mark.parametrize("leads", [{"leader": 1}, {"leader": -1}])
def test_giving_up_a_reassignment_takes_the_first_replica_where_unclean_elections_are_on(leads):
    moving = change(replicas=[4, 1, 2, 3], addingReplicas=[4], removingReplicas=[1, 2, 3])
    start = [*LONE[:-1], broker(4), moving, change(isr=[1, 4]), change(isr=[4], leader=4)]
    gone = [broker(1, fenced=True)] if leads["leader"] < 0 else []
    given_up = change(**GIVEN_UP, **leads)
    assert judged(*gone, given_up, start=[UNCLEAN, *start]).status is Status.PASS
    kind = "unclean-election" if leads["leader"] > 0 else "fenced-into-isr"
    found = judged(*gone, given_up, start=start).anomalies
    assert [anomaly["kind"] for anomaly in found] == [kind]
    other = change(**{**GIVEN_UP, "isr": [2], "leader": 2})
    assert judged(other, start=[UNCLEAN, *start]).status is Status.FAIL, "2 is not the first"


def test_the_last_known_leader_may_return_and_no_other():
    nobody = [*START, EMPTY, change(eligibleLeaderReplicas=[])]
    crc = {len(nobody) - 1: 7, len(nobody): 7, len(nobody) + 1: 7, len(nobody) + 2: 7}
    left = [broker(1), broker(2), broker(3)]  # all registered anew in the batch of the change
    again = change(isr=[1], leader=1, leaderRecoveryState=1, lastKnownElr=[])
    assert judged(*left, again, start=nobody, crc=crc).status is Status.PASS
    other = change(isr=[2], leader=2, leaderRecoveryState=1, lastKnownElr=[])
    found = judged(*left, other, start=nobody, crc=crc).anomalies
    assert [anomaly["kind"] for anomaly in found] == ["unclean-election"]


def test_the_last_known_leader_may_return_in_the_batch_that_empties_the_elr():
    waiting = [*START, SHRUNK, EMPTY, broker(1), change(eligibleLeaderReplicas=[2, 3])]
    waiting += [broker(3), change(eligibleLeaderReplicas=[2])]
    again = change(
        isr=[1], leader=1, leaderRecoveryState=1, lastKnownElr=[], eligibleLeaderReplicas=[]
    )
    at = len(waiting)
    crc = {len(START) + n: 90 + n // 2 for n in range(2, at - len(START))}
    both = {**crc, at: 7, at + 1: 7}
    assert judged(again, broker(2), start=waiting, crc=both).status is Status.PASS
    found = judged(again, start=waiting, crc=crc).anomalies
    assert "unclean-election" in [anomaly["kind"] for anomaly in found], "2 was still eligible"


def test_an_unclean_shutdown_may_be_forgotten_only_in_its_batch():
    forgets = change(isr=[1], eligibleLeaderReplicas=[2])
    at = len(START)
    assert judged(forgets, broker(3), crc={at: 7, at + 1: 7}).status is Status.PASS
    assert judged(forgets, broker(3)).status is Status.FAIL


@pytest.mark.slow
@pytest.mark.parametrize(("size", "status"), [(1_000, Status.PASS), (999, Status.FAIL)])
def test_the_registration_of_a_broker_with_many_partitions_may_be_split(size, status):
    forgets = change(isr=[1], eligibleLeaderReplicas=[2])
    others = [("NoOpRecord", {})] * (size - 1)
    at = len(START)
    one_batch = dict.fromkeys(range(at, at + size), 7)
    assert judged(forgets, *others, broker(3), crc=one_batch).status is status
    assert judged(forgets, *others, broker(2), crc=one_batch).status is Status.FAIL


def test_a_broker_that_is_unfenced_in_the_same_batch_may_join():
    joins = [change(isr=[1, 2]), broker(3, fenced=True), change(isr=[1, 2, 3])]
    at = len(START) + 2
    unfenced = ("UnfenceBrokerRecord", {"id": 3})
    assert judged(*joins, unfenced, crc={at: 7, at + 1: 7}).status is Status.PASS


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (change(leader=-1), Status.PASS),
        (change(leader=3), Status.FAIL),
        (change(leader=-1, isr=[2, 3], eligibleLeaderReplicas=[1]), Status.FAIL),
    ],
    ids=["it leads no more", "it leads on", "it is in sync beside another"],
)
def test_a_broker_may_be_elected_and_fenced_in_one_batch(last, status):
    """Kafka 3.9.2: a new leader's first look at sessions fences one broker after another."""
    fenced = "BrokerRegistrationChangeRecord", {"brokerId": 3, "fenced": 1}
    batch = [change(isr=[3], leader=3, eligibleLeaderReplicas=[1, 2]), last, fenced]
    at = len(START)
    assert judged(*batch, crc=dict.fromkeys(range(at, at + 3), 7)).status is status


def heard(isr, epoch, event="replica-isr", **fields):
    said = {"topic": "t0", "partition": 0, "partition_epoch": epoch, "isr": isr}
    led = dict.fromkeys(("leader_epoch", "start_offset", "high_watermark"), 0)
    return event, led | said | fields


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([heard([3, 2, 1], 0, "replica-leader"), heard([1], 1)], []),
        ([heard([1, 2], 1)], ["isr-not-decided"]),
        ([heard([], 1)], ["isr-not-decided"]),
        ([heard([1], 0, "replica-leader")], ["isr-not-decided"]),
        ([heard([9], 7), heard([9], 0, partition=1), heard([9], 0, topic="t1")], []),
    ],
)
def test_a_broker_acts_by_the_isr_that_was_decided(events, kinds):
    run = good_run(logs=logs([*START, SHRUNK]), traces={"n1": trace("n1", *events)})
    result = run_check(CheckSpec("isr", {}), run)
    assert [anomaly["kind"] for anomaly in result.anomalies] == kinds


@pytest.mark.parametrize("isr", [None, ["1"], {"1": 1}, 1])
def test_an_event_that_names_no_isr_is_unknown_in_one_line(isr):
    run = good_run(logs=logs(START), traces={"n1": trace("n1", heard(isr, 0))})
    result = run_check(CheckSpec("isr", {}), run)
    assert (result.status, "line 1 of its trace: 'replica-isr' with isr" in result.summary) == (
        Status.UNKNOWN,
        True,
    )


def test_a_topic_that_was_made_again_has_the_decisions_of_both_lives():
    again = ("TopicRecord", {"name": "t0", "topicId": "U"})
    gone = ("RemoveTopicRecord", {"topicId": "T"})
    anew = partition(topicId="U", isr=[1, 2], replicas=[1, 2])
    events = [heard([1, 2, 3], 0), heard([1, 2], 0), heard([2, 3], 0)]
    run = good_run(logs=logs([*START, gone, again, anew]), traces={"n1": trace("n1", *events)})
    (anomaly,) = run_check(CheckSpec("isr", {}), run).anomalies
    assert (anomaly["kind"], anomaly["partition"]) == ("isr-not-decided", "t0-0")
    assert (anomaly["node"], anomaly["t_ns"]) == ("n1", 2), "[2, 3] was never the ISR"

    right = replace(run, evidence=replace(run.evidence, traces={"n1": trace("n1", *events[:2])}))
    for more in range(len(START) + 3):
        calls = iter([False] * more)
        result = run_check(CheckSpec("isr", {}), right, lambda calls=calls: next(calls, True))
        assert result.status is Status.UNKNOWN, "cancelled, it has read the first life alone"


def test_a_log_that_begins_behind_a_snapshot_needs_it():
    wrong = logs([change(isr=[2, 3])], start=40)
    assert run_check(CheckSpec("isr"), good_run(logs=wrong)).status is Status.UNKNOWN
    held = {node: [Snapshot(node, 40, 1, START)] for node in NODES}
    result = run_check(CheckSpec("isr"), good_run(logs=wrong, snapshots=held))
    assert [anomaly["kind"] for anomaly in result.anomalies] == ["leader-not-in-sync"]


@pytest.mark.parametrize(
    "odd",
    [
        ("PartitionChangeRecord", {}),
        change(isr=7),
        change(isr=[[]]),
        partition(leader=None, isr=None, replicas=[{}]),
        ("RegisterBrokerRecord", {"brokerId": "x"}),
    ],
)
def test_a_malformed_record_is_unknown_in_one_line(odd):
    result = judged(odd)
    assert result.status is Status.UNKNOWN
    assert f"a malformed {odd[0]} at offset {len(START)}" in result.summary
    assert "\n" not in result.summary


def test_what_the_builder_decides_passes():
    """Random brokers come and go; every change that PartitionChangeBuilder makes keeps the rules."""
    topic = uuid.UUID(int=5)
    for seed in range(150):
        rnd = Random(seed)
        elr, least = rnd.random() < 0.7, rnd.randint(1, 3)
        state = committed_state()
        records = [
            TopicRecord(name="t0", topic_id=topic),
            PartitionRecord(
                partition_id=0,
                topic_id=topic,
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            ),
        ]
        for one in records:
            replay(state, one)
        found = [FEATURE] if elr else []
        found += [("ConfigRecord", {**MIN_2[1], "value": str(least)})]
        found += [(type(one).__name__, record_to_json(one)) for one in records]
        registration = state.partitions.get((topic, 0))
        alive = {1, 2, 3}
        for _ in range(12):
            alive ^= {rnd.choice([1, 2, 3])}
            in_sync = tuple(b for b in registration.isr if b in alive)
            if rnd.random() < 0.5 and registration.leader in alive:
                in_sync = tuple(sorted({*in_sync, rnd.choice(sorted(alive))}))
            built = PartitionChangeBuilder(
                topic_id=topic,
                index=0,
                partition=registration,
                is_acceptable=alive.__contains__,
                min_isr=least,
                elr_enabled=elr,
                election=Election.ONLINE,
                isr=in_sync,
            ).build()
            if built is not None:
                found.append(("PartitionChangeRecord", record_to_json(built)))
                replay(state, built)
                registration = state.partitions.get((topic, 0))
        result = run_check(CheckSpec("isr"), good_run(logs=logs(found)))
        assert result.status is Status.PASS, (seed, result.summary)


@pytest.mark.parametrize(("key", "kinds"), [("t0-0", []), ("t1-0", ["isr-not-decided"])])
def test_of_a_topic_that_was_made_anew_a_log_may_lack_what_was_decided(key, kinds):
    """Seed 31000034: an earlier life had this partition epoch, and only a snapshot was left."""
    held = {node: [Snapshot(node, 40, 1, START)] for node in NODES}
    run = good_run(
        logs=logs([SHRUNK], start=40),
        snapshots=held,
        traces={"n1": trace("n1", heard([2, 3], 1))},
        operations=[SimpleNamespace(f=RENEW, key=key)],
    )
    result = run_check(CheckSpec("isr"), run)
    assert [anomaly["kind"] for anomaly in result.anomalies] == kinds


def test_an_elr_that_is_cleared_leaves_the_isr_in_a_later_partition_epoch():
    cleared = ("ClearElrRecord", {"topicName": "t0"})
    elr = change(isr=[1], eligibleLeaderReplicas=[2, 3])
    run = good_run(
        logs=logs([*START, elr, cleared]), traces={"n1": trace("n1", heard([1], 2), heard([1], 1))}
    )
    assert "isr-not-decided" not in kinds_of(run)
    wrong = good_run(logs=logs([*START, elr, cleared]), traces={"n1": trace("n1", heard([2], 2))})
    assert "isr-not-decided" in kinds_of(wrong)


def kinds_of(run):
    return {anomaly["kind"] for anomaly in run_check(CheckSpec("isr", {}), run).anomalies}

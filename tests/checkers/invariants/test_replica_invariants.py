"""Each invariant of replicas is broken by hand-made looks, and not by the closest right ones."""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

from checkers.invariants.replicas import REPLICATION, Lead, Led, Proposal
from cluster.node.log.types import OffsetAndEpoch
from harness.sim.sights import replicas as replica_sight
from harness.sim.sights.replicas import ReplicaWatch
from tests.checkers.invariants.watching import broken_by

LED = Led(
    key="t-0",
    name="t-0",
    incarnation=0,
    high_watermark=10,
    leader_epoch=4,
    partition_epoch=7,
    decided=(4, 7),
    isr=(1, 2),
    isr_min=2,
    ends={2: 10, 3: 6},
)
LAGS = replace(LED, ends={2: 9, 3: 6})
SMALL = replace(LED, isr=(1,))


LEAD = Lead(
    name="t-0", leader_epoch=4, counted=frozenset({2}), heard=frozenset({2}), has_epoch=True
)


def broken(event, *seen):
    return broken_by(*(("n1", event, fields) for fields in seen), among=REPLICATION)


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([LED], []),
        ([LAGS], ["held-in-sync"]),
        ([replace(LAGS, decided=(4, 8))], ["held-in-sync"]),
        ([replace(LAGS, decided=(4, 6))], []),
        ([replace(LAGS, decided=(5, 8))], []),
        ([replace(LAGS, ends={3: 6})], []),
        ([replace(LAGS, isr=(1,))], []),
    ],
    ids=[
        "a replica outside of the ISR lags",
        "a member lags",
        "a member of whom the leader does not know yet lags",
        "the leader knows of a later change, which took the member out",
        "the next leader's ISR",
        "a member that is down, or registers anew, has lost what was not written",
        "the member that lags has left",
    ],
)
def test_a_member_of_the_isr_holds_what_is_committed(looks, found):
    assert broken("high-watermark", *({"partition": look} for look in looks)) == found


MOVED = replace(SMALL, high_watermark=11)


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([SMALL, MOVED], ["enough-in-sync"]),
        ([SMALL, SMALL], []),
        ([LED, replace(LED, high_watermark=11, ends={})], []),
        ([LED, replace(MOVED, partition_epoch=8, decided=(4, 8))], []),
        ([SMALL, replace(MOVED, decided=(4, 8))], []),
        ([SMALL, replace(MOVED, incarnation=1)], []),
        ([SMALL, replace(MOVED, isr_min=1)], []),
        ([replace(SMALL, key="t-1"), MOVED], []),
    ],
    ids=[
        "it moves",
        "it stands still",
        "enough are in sync",
        "it may have moved before the leader knew of the shrink",
        "the controller has decided on a change of which the leader does not know",
        "another process, which read what it had saved",
        "one replica is enough by now",
        "another partition",
    ],
)
def test_nothing_is_committed_by_too_few(looks, found):
    assert broken("high-watermark", *({"partition": look} for look in looks)) == found


@pytest.mark.parametrize(
    ("ago_ms", "found"), [({2: 300.0}, ["lag-allowed"]), ({2: 300.1}, []), ({}, [])]
)
def test_a_member_leaves_once_it_has_lagged_for_as_long_as_is_allowed(ago_ms, found):
    proposal = Proposal("t-0", 4, ago_ms, 300.0, epoch_start=0, reached={})
    assert broken("isr-proposal", {"proposal": proposal}) == found


@pytest.mark.parametrize(("for_ms", "found"), [(451.1, ["lag-ends"]), (451.0, [])])
def test_a_member_that_lags_is_asked_to_leave_by_the_second_look_of_its_leader(for_ms, found):
    lag = {"name": "t-0", "leader_epoch": 4, "follower": 2, "for_ms": for_ms, "lag_max_ms": 300.0}
    assert broken("isr-lag", lag) == found


@pytest.mark.parametrize(
    ("reached", "found"),
    [
        ({3: 9}, ["joins-in-epoch"]),
        ({3: -1}, ["joins-in-epoch"]),
        ({3: 10}, []),
        ({2: 12, 3: 10}, []),
        ({}, []),
    ],
    ids=["it has less", "it has not fetched", "it has just that", "two join", "nobody joins"],
)
def test_a_replica_joins_an_isr_that_has_reached_the_epoch(reached, found):
    proposal = Proposal("t-0", 4, {}, 300.0, epoch_start=10, reached=reached)
    assert broken("isr-proposal", {"proposal": proposal}) == found


@pytest.mark.parametrize(
    ("known", "found"),
    [((4, 7), ["change-awaited"]), ((4, 8), []), ((5, 7), [])],
    ids=["nothing has changed", "the metadata have decided", "another leader epoch has begun"],
)
def test_a_leader_waits_for_what_becomes_of_a_change_of_its_isr(known, found):
    assert broken("isr-change", {"name": "t-0", "asked": (4, 7), "known": known}) == found


@pytest.mark.parametrize(
    ("lead", "found"),
    [
        (LEAD, []),
        (replace(LEAD, heard=frozenset()), ["counted-by-fetch"]),
        (replace(LEAD, heard=frozenset(), counted=frozenset()), []),
        (replace(LEAD, has_epoch=False), ["own-epoch-known"]),
    ],
    ids=[
        "a follower fetched and is counted",
        "it has not fetched since",
        "it has not, and counts for nothing",
        "its log lacks its epoch",
    ],
)
def test_a_leader_goes_by_what_it_was_asked(lead, found):
    assert broken("led", {"lead": lead}) == found


def test_a_late_fetch_of_an_earlier_session_does_not_change_what_the_session_names():
    mesh = SimpleNamespace(**{f"on_{at}": defaultdict(list) for at in ("ask", "answer", "serve")})
    shown = []
    watcher = SimpleNamespace(take=lambda _node, _event, fields: shown.append(fields["lead"].heard))
    watch = ReplicaWatch(SimpleNamespace(nodes={}, observe=lambda *_: None, mesh=mesh), watcher)
    leader = SimpleNamespace(name="n3", incarnation=1)
    follower = SimpleNamespace(broker_id=1, end_offset=3)
    led = SimpleNamespace(
        key=("T", 0),
        topic="t",
        index=0,
        partition=SimpleNamespace(leader_epoch=10, followers={1: follower}),
        log=SimpleNamespace(
            end_offset_for_epoch=lambda _: OffsetAndEpoch(4, 8), epochs=SimpleNamespace(entries=())
        ),
    )

    def fetch(*epochs):
        rows = [
            SimpleNamespace(
                topic="T", index=0, current_leader_epoch=epoch, fetch_offset=3, last_fetched_epoch=8
            )
            for epoch in epochs
        ]
        return SimpleNamespace(replica_id=1, partitions=rows)

    watch._note_fetch(leader, [], fetch(10))
    watch._note_fetch(leader, [], fetch(8))
    watch._look_at_followers(leader, led)
    assert shown == [{1}], "what waits for a leader of its epoch is heard as soon as there is one"
    watch._note_fetch(leader, [led], fetch())
    assert watch._heard == {(("n3", 1), "t", 0): {1}}


@pytest.mark.parametrize(("epoch", "found"), [(7, [100.0]), (9, [])])
def test_a_member_that_left_and_came_again_lags_anew(epoch, found):
    """Seed 310079: two changes of the ISR between two looks."""
    mesh = SimpleNamespace(**{f"on_{at}": defaultdict(list) for at in ("ask", "answer", "serve")})
    shown = []
    watcher = SimpleNamespace(take=lambda _node, _event, fields: shown.append(fields["for_ms"]))
    watch = ReplicaWatch(SimpleNamespace(nodes={}, observe=lambda *_: None, mesh=mesh), watcher)
    partition = SimpleNamespace(
        leader_epoch=4,
        partition_epoch=7,
        change_in_flight=False,
        isr=(1, 2),
        followers={2: SimpleNamespace(end_offset=3)},
        lag_time_max_ms=75.0,
    )
    log = SimpleNamespace(end_offset=5)
    led = SimpleNamespace(key=("T", 0), topic="t", index=0, partition=partition, log=log, at="t-0")
    for now_ms in (0.0, 100.0, 130.0):
        partition.partition_epoch = epoch if now_ms else 7
        watch._look_at_lag(
            SimpleNamespace(
                name="n1", incarnation=1, keeps_time=True, monotonic_ms=lambda now_ms=now_ms: now_ms
            ),
            led,
        )
    assert shown == found


@pytest.mark.parametrize(("own", "newest", "found"), [(1, 2, 1), (2, 1, 1), (2, 2, 2)])
def test_a_minimum_counts_once_the_leader_knows_of_it(monkeypatch, own, newest, found):
    """It may know of the ISR that its controller has, and not of the minimum that was raised."""
    monkeypatch.setattr(replica_sight, "min_insync_replicas", lambda state, _: state.isr_min)
    monkeypatch.setattr(replica_sight, "registered_brokers", lambda _: ())
    mesh = SimpleNamespace(**{f"on_{at}": defaultdict(list) for at in ("ask", "answer", "serve")})
    shown = []
    watcher = SimpleNamespace(take=lambda _node, _event, fields: shown.append(fields["partition"]))
    watch = ReplicaWatch(SimpleNamespace(nodes={}, observe=lambda *_: None, mesh=mesh), watcher)
    registration = SimpleNamespace(leader_epoch=4, partition_epoch=7, isr=(1,), replicas=(1, 2))
    watch._newest = lambda _: (SimpleNamespace(isr_min=newest), registration)
    image = SimpleNamespace(state=SimpleNamespace(isr_min=own))
    node = SimpleNamespace(controller=SimpleNamespace(image=image))
    leader = SimpleNamespace(name="n1", incarnation=1, node=node)
    partition = SimpleNamespace(high_watermark=3, leader_epoch=4, partition_epoch=7)
    led = SimpleNamespace(key=("T", 0), topic="t", index=0, partition=partition)
    watch._look_at(leader, led, [])
    assert [found] == [each.isr_min for each in shown]

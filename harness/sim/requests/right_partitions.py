"""Right requests about partitions, and what they make of the metadata."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from cluster.node.assembly import Node
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    PartitionKey,
    PartitionRegistration,
)
from cluster.node.controller.partitions.leadership import preferred_elections, unclean_elections
from cluster.node.protocol import messages
from harness.sim.requests.decided import TIMEOUT, isr_change
from harness.sim.requests.plain_metadata import (
    NOBODY,
    NOWHERE,
    UNCLEAN,
    Change,
    Maps,
    Pairs,
    Plain,
)

m: Any = messages


def _put(partitions: dict[PartitionKey, PartitionRegistration], after: Plain, *_: object) -> Pairs:
    after.partitions.update(partitions)
    return ()


def changes_of_partitions(plain: Plain, _: Node, random: Random) -> Iterator[Change]:
    """Yield elections, reassignments, changes of an ISR and of directories."""
    if not plain.partitions:
        return
    key = random.choice(list(plain.partitions))
    found, name = plain.partitions[key], plain.maps["topics"][key[0]].name
    yield from _elections(plain, key, found, name)
    yield from _reassignments(plain, key, name, random)
    if plain.is_active(found.leader):
        yield _isr(plain, key, found, random)
    numbers = [each for each in found.replicas if each in plain.brokers]
    if numbers:
        yield _assignment(plain, key, plain.brokers[random.choice(numbers)], random)


def _elections(
    plain: Plain, key: PartitionKey, found: PartitionRegistration, name: str
) -> Iterator[Change]:
    for number, way in enumerate(("preferred", "unclean")):
        after = plain.change(key, election=way)
        wanted = found.replicas[:1] if number == 0 else found.replicas
        lacks = ("preferred_leader", "eligible_leaders")[number]
        error = "none" if after.leader in wanted else f"{lacks}_not_available"
        of = m.ElectLeadersTopicPartitions(topic=name, partitions=(key[1],))
        request = m.ElectLeadersRequest(
            election_type=number, topic_partitions=(of,), timeout=TIMEOUT
        )
        has = found.leader in found.replicas[: 1 if number == 0 else None]
        error = "election_not_needed" if has else error
        what = f"elect the {way} leader of {name}-{key[1]}"
        yield Change(what, request, partial(_put, {key: after}), error)
    led = {
        at: plain.change(at, election="preferred")
        for at, has in plain.partitions.items()
        if has.leader != has.replicas[0] in has.isr and plain.is_active(has.replicas[0])
    }
    yield Change("balance", None, partial(_put, led), decide=lambda s, _: preferred_elections(s))
    led = {at: plain.change(at) for at, has in plain.partitions.items() if has.leader == NOBODY}
    yield Change("elect", None, partial(_put, led), decide=lambda s, _: unclean_elections(s))


def _reassignments(plain: Plain, key: PartitionKey, name: str, random: Random) -> Iterator[Change]:
    found = plain.partitions[key]
    size = random.randint(1, min(4, len(plain.brokers)))
    target = tuple(random.sample(sorted(plain.brokers), size))
    left = tuple(each for each in found.replicas if each not in found.adding_replicas)
    removing = tuple(sorted({*found.replicas} - {*target}))
    adding = tuple(sorted({*target} - {*left}))
    isr = tuple(each for each in found.isr if each in left)
    error = "none" if isr else "invalid_replica_assignment"
    if not (found.adding_replicas or found.removing_replicas):
        error = "no_reassignment_in_progress"
    ways = [
        (target, (*target, *removing), adding, removing, found.isr, "none"),
        (None, left, (), (), isr, error),
    ]
    if not isr and plain.setting(key[0], UNCLEAN, "false") == "true":
        ways.pop()  # it may lose records, in ways of its own
    for to, replicas, added, removed, in_sync, outcome in ways:
        item = m.ReassignablePartition(partition_index=key[1], replicas=to)
        of = m.ReassignableTopic(name=name, partitions=(item,))
        request = m.AlterPartitionReassignmentsRequest(
            timeout=TIMEOUT, topics=(of,), allow_replication_factor_change=True
        )
        after = plain.change(
            key,
            partial(lambda stay, each: each in stay and plain.is_active(each), {*replicas}),
            isr=in_sync,
            replicas=replicas,
            adding_replicas=added,
            removing_replicas=removed,
        )
        what = f"reassign {name}-{key[1]} to {to}"
        yield Change(what, request, partial(_put, {key: after}), outcome)


def _isr(plain: Plain, key: PartitionKey, found: PartitionRegistration, random: Random) -> Change:
    others = [each for each in found.replicas if each != found.leader and plain.is_active(each)]
    isr = (found.leader, *(each for each in others if random.random() < 0.6))
    leader = plain.brokers[found.leader]
    request = isr_change(plain.brokers, key, found, leader, isr)
    after = plain.change(key, isr=isr, recovery=0)
    goes_on = after.leader == leader.id

    def makes(then: Plain, answer: Any, _: Maps) -> Pairs:
        _put({key: after}, then)
        (row,) = answer.topics[0].partitions
        says = row.leader_id, row.leader_epoch, row.partition_epoch, tuple(row.isr or ())
        right = after.leader, after.leader_epoch, after.partition_epoch, after.isr
        yield says, right if goes_on else (0, 0, 0, ())

    what = f"change the ISR of {key} to {isr}"
    return Change(what, request, makes, "none" if goes_on else "new_leader_elected")


def _assignment(
    plain: Plain, key: PartitionKey, broker: BrokerRegistration, random: Random
) -> Change:
    found, number = plain.partitions[key], broker.id
    to = random.choice((*broker.log_dirs, *broker.log_dirs, NOWHERE))
    item = m.AssignReplicasToDirsRequestPartition(partition_index=key[1])
    topic = m.AssignReplicasToDirsRequestTopic(topic_id=key[0], partitions=(item,))
    of = m.AssignReplicasToDirsRequestDirectory(id_=to, topics=(topic,))
    request = m.AssignReplicasToDirsRequest(
        broker_id=number, broker_epoch=broker.epoch, directories=(of,)
    )
    places = tuple(to if r == number else plain.directory(found, r) for r in found.replicas)
    isr = tuple(r for r in found.isr if r != number or plain.is_online(r, to))
    after = plain.change(key, directories=places, isr=isr)
    return Change(f"assign {key} of {number} to {to}", request, partial(_put, {key: after}))

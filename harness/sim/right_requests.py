"""Right requests about what metadata have, and what they make of it (`plain_metadata`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from random import Random
from typing import Any, Final

from cluster.node.assembly import Node
from cluster.node.controller.brokers.broker_lifecycle import broker_heartbeat
from cluster.node.controller.brokers.cluster_control import register_broker, unregister_broker
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    ConfigResource,
    PartitionKey,
    PartitionRegistration,
    TopicImage,
)
from cluster.node.controller.partitions.leadership import preferred_elections, unclean_elections
from cluster.node.controller.records import kinds
from cluster.node.protocol import messages
from harness.sim.decided_requests import TIMEOUT, isr_change
from harness.sim.plain_metadata import (
    ALL_BROKERS,
    BROKER,
    ELR,
    MIN_ISR,
    NOBODY,
    TOPIC,
    UNCLEAN,
    Change,
    Maps,
    Pairs,
    Plain,
)
from harness.sim.setting_changes import SETTINGS, setting_changes

m: Any = messages
_NEW, _END = 9_000, 1_000_000
"""Numbers of brokers and topics that no world has."""
_NOWHERE: Final = uuid.UUID(int=99)
Places = Sequence[tuple[int, ...]]


def changes(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    """Yield requests of one kind."""
    of = (setting_changes, _of_topics, _of_brokers, _of_partitions, _of_nodes, _of_features)
    weights = (2, 2, 4, 4, 1, 1)
    yield from random.choices(of, weights)[0](plain, node, random)


def _put(partitions: dict[PartitionKey, PartitionRegistration], after: Plain, *_: object) -> Pairs:
    after.partitions.update(partitions)
    return ()


def _like(kind: Any, rows: Any) -> tuple[Any, ...]:
    names = [field.name for field in fields(kind)]
    return tuple(kind(**{name: getattr(row, name) for name in names}) for row in rows)


# -- topics ---------------------------------------------------------------------------------------


def _of_topics(plain: Plain, _: Node, random: Random) -> Iterator[Change]:
    usable = [broker for broker in plain.brokers.values() if not broker.in_controlled_shutdown]
    count, factor = random.randint(1, 4), random.randint(1, max(1, len(usable)))
    lives = any(not broker.fenced for broker in usable)
    setting = random.choice([None, random.choice([row for row in SETTINGS if row[0] == TOPIC])])
    name = f"walk.{random.randrange(_NEW, _END)}"
    yield _creation(plain, name, count, factor, setting, "none" if lives else "replication_factor")
    placed = [tuple(random.sample(sorted(plain.brokers), factor)) for _ in range(count)]
    other = random.choice((placed[0][0], _NEW))
    for places in (placed, [(*placed[0], other)]):
        yield _creation(plain, name, -1, -1, None, placed=places)
    for topic in plain.maps["topics"].values():
        has = len(plain.partitions[topic.id, 0].replicas)
        error = "none" if lives and has <= len(usable) else "replication_factor"
        yield _growth(plain, topic, count, has, error)
        fits = has == factor
        yield _growth(plain, topic, count, has, "none" if fits else "replica_assignment", placed)
        names = [{"name": topic.name, "topic_id": None}, {"name": None, "topic_id": topic.id}]
        item = m.DeleteTopicState(**random.choice(names))
        request = m.DeleteTopicsRequest(topics=(item,), timeout=TIMEOUT)
        yield Change(f"delete {topic.name}", request, partial(_remove, topic))


def _creation(
    plain: Plain,
    name: str,
    count: int,
    factor: int,
    setting: tuple[int, str, str, str | None] | None,
    error: str = "none",
    placed: Places = (),
) -> Change:
    given = {} if setting is None else {setting[1]: setting[2]}
    if not _are_usable(plain, placed):
        error = "replica_assignment"
    if setting is not None and setting[3] is None:
        error = "config"
    topic = m.CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=tuple(
            m.CreatableReplicaAssignment(partition_index=index, broker_ids=each)
            for index, each in enumerate(placed)
        ),
        configs=tuple(m.CreatableTopicConfig(name=key, value=given[key]) for key in given),
    )

    def makes(after: Plain, answer: Any, seen: Maps) -> Pairs:
        (row,) = answer.topics
        of = ConfigResource(TOPIC, name)
        after.maps["configs"] |= {(of, key): value for key, value in given.items()}
        after.maps["topics"][row.topic_id] = TopicImage(name, row.topic_id)
        places = placed or _places(after, seen, (row.topic_id, 0), count, factor)
        _place(after, row.topic_id, places)
        yield (row.num_partitions, row.replication_factor), (len(places), len(places[0]))
        shown = {each.name: (each.value, each.config_source) for each in row.configs}
        yield {key: shown[key] for key in given}, {key: (given[key], 1) for key in given}

    request = m.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)
    what = f"create {count} of {factor} at {placed} with {given}"
    return Change(what, request, makes, error if error == "none" else f"invalid_{error}")


def _growth(
    plain: Plain, topic: TopicImage, count: int, factor: int, error: str, placed: Places = ()
) -> Change:
    if not _are_usable(plain, placed):
        error = "replica_assignment"
    chosen = tuple(m.CreatePartitionsAssignment(broker_ids=each) for each in placed)
    has = topic.partition_count
    item = m.CreatePartitionsTopic(name=topic.name, count=has + count, assignments=chosen or None)

    def makes(after: Plain, _: object, seen: Maps) -> Pairs:
        _place(after, topic.id, placed or _places(after, seen, (topic.id, has), count, factor))
        return ()

    request = m.CreatePartitionsRequest(topics=(item,), timeout=TIMEOUT, validate_only=False)
    what = f"grow {topic.name} by {count} at {placed}"
    return Change(what, request, makes, error if error == "none" else f"invalid_{error}")


def _remove(topic: TopicImage, after: Plain, *_: object) -> Pairs:
    del after.maps["topics"][topic.id]
    for name, at in (("partitions", topic.id), ("configs", (TOPIC, topic.name))):
        after.maps[name] = {key: each for key, each in after.maps[name].items() if key[0] != at}
    return ()


def _are_usable(plain: Plain, placed: Places) -> bool:
    return all(
        {*replicas} <= {*plain.brokers}
        and len({*replicas}) == len(replicas)
        and any(map(plain.is_active, replicas))
        for replicas in placed
    )


def _place(after: Plain, topic_id: uuid.UUID, placed: Places) -> None:
    """Add partitions to a topic."""
    topics = after.maps["topics"]
    for replicas in placed:
        count = topics[topic_id].partition_count
        isr = tuple(filter(after.is_active, replicas))
        topics[topic_id] = replace(topics[topic_id], partition_count=count + 1)
        directories = tuple(map(after.new_directory, replicas))
        after.partitions[topic_id, count] = PartitionRegistration(
            replicas, isr, (*isr, NOBODY)[0], 0, 0, directories=directories
        )


def _places(after: Plain, seen: Maps, first: PartitionKey, count: int, factor: int) -> Places:
    """Return where a node puts new partitions, if it may: on all racks, with one that leads."""
    usable = {each.id: each for each in after.brokers.values() if not each.in_controlled_shutdown}
    made = seen["partitions"]
    found = [made[first[0], index].replicas for index in range(first[1], first[1] + count)]
    racks = min(factor, len({broker.rack for broker in usable.values()}))
    are_right = all(
        len(each) == len({*each} & {*usable}) == factor
        and len({usable[number].rack for number in each}) >= racks
        and after.is_active(each[0])
        for each in found
    )
    return found if are_right else [()] * count


# -- brokers --------------------------------------------------------------------------------------


def _of_brokers(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    broker = random.choice(list(plain.brokers.values()))
    yield _heartbeat(plain, broker, random)
    if node.lifecycle is not None:
        for number in (broker.id, random.randrange(_NEW, _END)):
            yield _registration(plain, number, node, random)
    if len(plain.brokers) == 1:
        return

    def makes(after: Plain, *_: object) -> Pairs:
        after.lose(broker.id, and_eligible=True)
        del after.brokers[broker.id]
        return ()

    gone = m.UnregisterBrokerRequest(broker_id=broker.id)
    what = f"unregister broker {broker.id}"
    yield Change(what, gone, makes, decide=lambda s, heard: unregister_broker(gone, s, heard))


def _heartbeat(plain: Plain, broker: BrokerRegistration, random: Random) -> Change:
    fence, stop = random.choices((False, False, True), k=2)
    offset = broker.epoch + random.choice((-1, 0, 1))
    offline = tuple(each for each in broker.log_dirs if random.random() < 0.15)
    left = tuple(each for each in broker.log_dirs if each not in offline)
    request = m.BrokerHeartbeatRequest(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        current_metadata_offset=offset,
        want_fence=fence,
        want_shut_down=stop,
        offline_log_dirs=offline,
    )
    fences = fence or bool(offline and not left)
    leads = any(found.leader == broker.id for found in plain.partitions.values())
    stays = fences or offset < broker.epoch or broker.in_controlled_shutdown or bool(offline)
    if broker.fenced:
        becomes = "stopped" if stop else "fenced" if stays else "unfenced"
    elif broker.in_controlled_shutdown:
        becomes = "stopping" if leads else "stopped"
    elif fences:
        becomes = "stopped" if stop else "fenced"
    else:
        becomes = ("stopping" if leads else "stopped") if stop else "active"

    def makes(after: Plain, answer: Any, _: Maps) -> Pairs:
        is_fenced, stops = becomes in ("fenced", "stopped"), becomes == "stopping"
        if stops or (is_fenced and not broker.fenced):
            after.lose(broker.id)
        elif left:
            after.lose(broker.id, directories=offline)
        if becomes == "unfenced":
            _lead_again(after, broker.id)
        after.brokers[broker.id] = replace(
            broker,
            fenced=is_fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or stops,
            log_dirs=left or broker.log_dirs,
        )
        yield (answer.is_fenced, answer.should_shut_down), (is_fenced, becomes == "stopped")
        yield answer.is_caught_up, offset >= broker.epoch

    what = f"heartbeat of broker {broker.id} at {offset}, {fence}, {stop}, {offline}"
    return Change(what, request, makes, decide=lambda s, heard: broker_heartbeat(request, s, heard))


def _lead_again(after: Plain, number: int) -> None:
    """Let a broker that is about to be unfenced lead what nobody leads."""
    for key, found in after.partitions.items():
        if found.leader == NOBODY:
            may_lead = partial(lambda plain, each: each == number or plain.is_active(each), after)
            after.partitions[key] = after.change(key, may_lead)


def _registration(plain: Plain, number: int, node: Node, random: Random) -> Change:
    assert node.lifecycle is not None, "its broker registers"
    like: Any = node.lifecycle._registration
    known = plain.brokers.get(number)
    is_clean, is_again = random.random() < 0.5, known is not None and random.random() < 0.5
    has = (uuid.uuid5(_NOWHERE, str(number)),) if known is None else known.log_dirs
    directories = tuple(random.sample(has, random.randint(1, len(has))))
    new = uuid.UUID(int=random.getrandbits(128), version=4)
    request = replace(
        like,
        broker_id=number,
        incarnation_id=known.incarnation_id if known is not None and is_again else new,
        rack=random.choice((None, "a", "b")),
        log_dirs=directories,
        previous_broker_epoch=(-2 if known is None else known.epoch) - (not is_clean),
    )

    def makes(after: Plain, answer: Any, _: Maps) -> Pairs:
        kept = known if is_again else None
        is_unclean = not is_clean and after.has_elr
        if kept is not None:
            after.lose(number, directories={*kept.log_dirs} - {*directories})
        else:
            after.lose(number, is_unclean=is_unclean, and_eligible=is_unclean)
        epoch = after.end if kept is None else kept.epoch
        after.brokers[number] = BrokerRegistration(
            id=number,
            epoch=epoch,
            incarnation_id=request.incarnation_id,
            listeners=_like(kinds.RecordEndpoint, like.listeners),
            features=_like(kinds.RecordFeature, like.features),
            rack=request.rack,
            fenced=kept is None or kept.fenced,
            in_controlled_shutdown=kept is not None and kept.in_controlled_shutdown,
            log_dirs=directories,
            cordoned_log_dirs=(),
        )
        yield answer.broker_epoch, epoch

    return Change(
        f"register broker {number}, again {is_again}, clean {is_clean}, {directories}",
        request,
        makes,
        decide=lambda s, heard: register_broker(request, s, node._cluster, heard),
    )


# -- partitions -----------------------------------------------------------------------------------


def _of_partitions(plain: Plain, _: Node, random: Random) -> Iterator[Change]:
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
    to = random.choice((*broker.log_dirs, *broker.log_dirs, _NOWHERE))
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


# -- the rest -------------------------------------------------------------------------------------

_USER: Final = kinds.UserScramCredentialRecord(
    name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
_TOKEN: Final = kinds.DelegationTokenRecord(
    owner="u",
    requester="v",
    renewers=("w", ""),
    issue_timestamp=1,
    max_timestamp=1 << 40,
    expiration_timestamp=-1,
    token_id="t",  # noqa: S106  (an id)
)
_ACCESS: Final = kinds.AccessControlEntryRecord(
    id=_NOWHERE,
    resource_type=2,
    resource_name="r",
    pattern_type=3,
    principal="User:u",
    host="*",
    operation=2,
    permission_type=3,
)
_ENTITY: Final = (kinds.QuotaEntity(entity_type="user"),)
_QUOTA: Final = kinds.ClientQuotaRecord(entity=_ENTITY, key="rate", value=0.5)
_OF_USERS: Final = (
    ("scram_credentials", ("u", 1), _USER, _USER),
    ("delegation_tokens", "t", _TOKEN, _TOKEN),
    ("access_control", _NOWHERE, _ACCESS, _ACCESS),
    ("client_quotas", (_ENTITY, "rate"), 0.5, _QUOTA),
)
"""Maps that no world has anything in, a key and a value, and the record that puts it there."""
_GONE: Final = (
    kinds.RemoveUserScramCredentialRecord(name="u", mechanism=1),
    kinds.RemoveDelegationTokenRecord(token_id="t"),  # noqa: S106  (an id)
    kinds.RemoveAccessControlEntryRecord(id=_NOWHERE),
    replace(_QUOTA, remove=True),
)


def _of_nodes(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    has_users = bool(plain.maps["scram_credentials"])
    records = _GONE if has_users else [row[3] for row in _OF_USERS]

    def makes_users(after: Plain, *_: object) -> Pairs:
        for name, key, value, _record in _OF_USERS:
            after.maps[name] = {} if has_users else {key: value}
        return ()

    yield Change(f"have users, no more {has_users}", None, makes_users, decide=lambda *_: records)
    broker = random.choice(list(plain.brokers.values()))
    request = m.AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)

    def gives(after: Plain, answer: Any, _: Maps) -> Pairs:
        first = after.maps["producer_ids"].get("next", 0)
        after.maps["producer_ids"]["next"] = first + 1_000
        yield (answer.producer_id_start, answer.producer_id_len), (first, 1_000)

    yield Change("allocate producer ids", request, gives)
    if node.registration is None:
        return
    number = random.randrange(_NEW, _END)
    asked: Any = replace(node.registration._request, controller_id=m.i32(number))

    def registers(after: Plain, *_: object) -> Pairs:
        after.maps["controllers"][number] = kinds.RegisterControllerRecord(
            controller_id=number,
            incarnation_id=asked.incarnation_id,
            zk_migration_ready=False,
            end_points=_like(kinds.RecordEndpoint, asked.listeners),
            features=_like(kinds.RecordFeature, asked.features),
        )
        return ()

    yield Change("register a controller", asked, registers)


def _of_features(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    known = {node.raft.node_id, *plain.maps["controllers"]}
    cluster = node._cluster
    voters = {each.node_id for each in cluster.controllers} if cluster.registration else set()
    name, most = random.choice(
        ((ELR, 1), (ELR, 1), ("group.version", 1), ("transaction.version", 2))
    )
    level, to, kind = (
        plain.maps["features"].get(name, 0),
        random.randint(0, most),
        random.randint(1, 3),
    )
    is_right = voters <= known and (to == level or (to > level) == (kind == 1))
    update = m.FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=kind)
    request = m.UpdateFeaturesRequest(
        timeout=TIMEOUT, feature_updates=(update,), validate_only=False
    )

    def makes(after: Plain, *_: object) -> Pairs:
        after.maps["features"].pop(name, 0)
        after.maps["features"] |= {name: to} if to else {}
        configs = after.maps["configs"]
        if name == ELR and to:
            configs.setdefault((ALL_BROKERS, MIN_ISR), str(cluster.min_insync_replicas))
            for of, key in [*configs]:
                if of.type == BROKER and of.name and key == MIN_ISR:
                    del configs[of, key]
        elif name == ELR and level:
            after.clear_eligible(after.maps["topics"])
        return ()

    error = "none" if is_right else "invalid_update_version"
    yield Change(f"finalize {name} {to} by {kind}", request, makes, error)

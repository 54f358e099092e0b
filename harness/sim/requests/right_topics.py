"""Right requests about topics, and what they make of the metadata."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from cluster.node.assembly import Node
from cluster.node.controller.metadata.state import (
    ConfigResource,
    PartitionKey,
    PartitionRegistration,
    TopicImage,
)
from cluster.node.protocol import messages
from harness.sim.requests.decided import TIMEOUT
from harness.sim.requests.plain_metadata import (
    END,
    NEW,
    NOBODY,
    TOPIC,
    Change,
    Maps,
    Pairs,
    Plain,
)
from harness.sim.requests.settings import SETTINGS

m: Any = messages
Places = Sequence[tuple[int, ...]]


def changes_of_topics(plain: Plain, _: Node, random: Random) -> Iterator[Change]:
    """Yield creations, growths and deletions of topics."""
    usable = [broker for broker in plain.brokers.values() if not broker.in_controlled_shutdown]
    count, factor = random.randint(1, 4), random.randint(1, max(1, len(usable)))
    lives = any(not broker.fenced for broker in usable)
    setting = random.choice([None, random.choice([row for row in SETTINGS if row[0] == TOPIC])])
    name = f"walk.{random.randrange(NEW, END)}"
    yield _creation(plain, name, count, factor, setting, "none" if lives else "replication_factor")
    placed = [tuple(random.sample(sorted(plain.brokers), factor)) for _ in range(count)]
    other = random.choice((placed[0][0], NEW))
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

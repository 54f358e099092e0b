"""Right requests of and about brokers, and what they make of the metadata."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from cluster.node.assembly import Node
from cluster.node.controller.brokers.broker_lifecycle import broker_heartbeat
from cluster.node.controller.brokers.cluster_control import register_broker, unregister_broker
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
)
from cluster.node.controller.records import kinds
from cluster.node.protocol import messages
from harness.sim.requests.plain_metadata import (
    END,
    NEW,
    NOBODY,
    NOWHERE,
    Change,
    Maps,
    Pairs,
    Plain,
    rows_as,
)

m: Any = messages


def changes_of_brokers(plain: Plain, node: Node, random: Random) -> Iterator[Change]:
    """Yield heartbeats, registrations and removals of a broker."""
    broker = random.choice(list(plain.brokers.values()))
    yield _heartbeat(plain, broker, random)
    if node.lifecycle is not None:
        for number in (broker.id, random.randrange(NEW, END)):
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
    has = (uuid.uuid5(NOWHERE, str(number)),) if known is None else known.log_dirs
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
            listeners=rows_as(kinds.RecordEndpoint, like.listeners),
            features=rows_as(kinds.RecordFeature, like.features),
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

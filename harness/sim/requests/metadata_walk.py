"""Walks on from the metadata of a controller by right requests, which nobody sends.

`walk(node, random)` has an active controller decide some requests of `right_requests` in a copy of
its image, one after the other: so it comes to states that no world comes to. After each it yields
what was answered, and how what became of the metadata differs from what the request says: as they
are replayed by an image, by an overlay until they are committed, from a snapshot, and as publishers
are shown the changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from cluster.node.assembly import Node
from cluster.node.controller.apis.write_apis import error_response
from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.metadata.feature_levels import metadata_version
from cluster.node.controller.metadata.image import (
    MetadataImage,
    SpeculativeState,
    local_changes,
    take_delta,
)
from cluster.node.controller.metadata.image_writer import frozen_copy, image_records, read_image
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import (
    LEADERLESS,
    MetadataState,
)
from cluster.node.controller.records import MetadataRecord, decode_record, encode_record
from cluster.node.controller.records.frame import record_version
from harness.sim.requests.decided import Decision, result_of
from harness.sim.requests.plain_metadata import Change, Plain, maps_of
from harness.sim.requests.right import changes
from workloads.data.wrong_requests import errors_of

_STEPS: Final = 12
_MAKING: Final = ("none", "new_leader_elected")
"""Errors of what is done all the same."""
_SAYS: Final = "all else as it says"


def walk(node: Node, random: Random) -> Iterator[Decision]:
    """Yield what was asked, the errors and the difference, and the right ones."""
    image = node.controller.image
    state, end = frozen_copy(image.state), image.offset
    for _ in range(_STEPS):
        plain = Plain(maps_of(state), end)
        among = list(changes(plain, node, random))
        if among:
            change = random.choice(among)
            errors, text = _take(change, plain, node, state)
            end = plain.end
            yield change.what, [*errors, text], (*[(change.error,)] * len(errors), (_SAYS,))


def _take(change: Change, plain: Plain, node: Node, state: MetadataState) -> tuple[list[str], str]:
    """Carry out a request; returns the errors of the answer, and what is wrong with the rest."""
    state.partitions.keys_with(LEADERLESS)  # from now on there is an index, and it is kept
    take_delta(state)
    image = MetadataImage()
    image.state = state
    overlay = SpeculativeState(image)
    response, records = _decide(change, plain.end, node, state)
    plain.end += len(records)
    if records:
        overlay.replay(records, plain.end)
    errors = [] if response is None else errors_of(response)
    found = []
    if errors in ([], [change.error]) and change.error in _MAKING:
        pairs = change.makes(plain, response, maps_of(overlay.state))
        found += [_difference("it answers", *pair) for pair in pairs]
    plain.index()
    found.append(_differences("an overlay", overlay.state, plain))
    if records and not any(found):
        found += _effects(state, overlay, records, plain)
    if not any(found):
        found += [_difference("it shows", *pair) for pair in change.sees(state, node)]
    return errors, next(filter(None, found), _SAYS)


def _effects(
    state: MetadataState, overlay: SpeculativeState, records: list[MetadataRecord], plain: Plain
) -> Iterator[str]:
    """Commit records, and say what is wrong of that, and of what publishers are shown."""
    before, after = state.partitions.entries(), plain.partitions
    for record in records:
        replay(state, record)
    yield _differences("an image", state, plain)
    overlay.drop_through(plain.end)
    yield "" if overlay.is_empty else "an overlay keeps what is committed"
    yield _differences("an overlay of what is committed", overlay.state, plain)
    stored = read_image(encode_record(record) for record in image_records(state))
    yield _differences("a snapshot", stored, plain)
    delta = take_delta(state)
    moved = {key for key in {**before, **after} if before.get(key) != after.get(key)}
    yield _difference("publishers are shown changes of", set(delta.partitions.keys()), moved)
    for number in plain.brokers:
        found = local_changes(delta, number, moved)
        held = {key: after[key] for key in moved if key in after and number in after[key].replicas}
        leads = {key: each for key, each in held.items() if each.leader == number}
        follows = {key: each for key, each in held.items() if each.leader != number}
        left = {k for k in moved - {*held} if k in before and number in before[k].replicas}
        says = {*found.deletes}, found.leaders, found.followers
        yield _difference(f"broker {number} is shown", says, (left, leads, follows))


def _decide(
    change: Change, end: int, node: Node, state: MetadataState
) -> tuple[Any, list[MetadataRecord]]:
    """Return the answer, and the records as they are read again."""
    heartbeats = BrokerHeartbeatManager(node.controller.heartbeats._clock, 1_000.0)
    try:
        if change.decide is None:
            result = result_of(change.request, node, state)
        else:
            result = change.decide(state, heartbeats)
    except RequestError as refusal:
        return error_response(change.request, refusal.error, refusal.message), []
    if not isinstance(result, ControllerResult):
        result = ControllerResult(records=result, response=None)
    drawn = enumerate(result.records, end + 1)
    made = [record if isinstance(record, MetadataRecord) else record(at) for at, record in drawn]
    level = metadata_version(state)
    values = [encode_record(record, record_version(record, level)) for record in made]
    response_at = result.response_at
    response = result.response if response_at is None else response_at(end + len(made))
    return response, [decode_record(value)[0] for value in values]


def _difference(what: str, found: object, right: object) -> str:
    return "" if found == right else f"{what} {found}, where {right} is right"


def _differences(what: str, state: MetadataState, plain: Plain) -> str:
    """Say what a state has otherwise."""
    found = maps_of(state)
    for name, right in plain.maps.items():
        for key in {**right, **found[name]} if right != found[name] else ():
            pair = found[name].get(key), right.get(key)
            if pair[0] != pair[1]:
                return _difference(f"{what} has in {name} of {key}:", *pair)
    finds = {mark: set(state.partitions.keys_with(mark)) for mark in plain.marks}
    return _difference(f"{what} finds", finds, plain.marks)

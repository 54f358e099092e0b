"""What three nodes leave behind of a generated run: logs, traces, final reads, quorum states.

The first node leads one epoch and answers every client. Writes commit `_TOGETHER` at a time: the
leader appends, the followers append, flush and fetch, and the high watermark moves, before the
first of them is answered; each answer has its `ack` or `read`. All is in order, so that the checks
of evidence have to read everything and find nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from checkers.evidence import FinalRead
from checkers.history.json_text import seal
from results.store.evidence_files import QUORUM_STATE_FILE, SNAPSHOTS_FILE, STATE_FILE
from results.store.run_store import RunStore

NODES = ("n1", "n2", "n3")
CLOCK = "generated"
PREFIX = "kraftprobe.register."
_TOGETHER = 50


@dataclass(frozen=True, slots=True)
class Effect:
    """An operation that took effect, or was refused, at a moment of the run."""

    at_ns: int
    key: str
    value: str | None
    """That was written; None of a read."""
    answered: bool
    """With ok."""


def write_nodes(store: RunStore, effects: Sequence[Effect]) -> None:
    """Write the files of all nodes. `effects`: in order of time, without what was refused."""
    written = [effect for effect in effects if effect.value is not None]
    end = len(written) + 1
    state = {PREFIX + effect.key: effect.value for effect in written}
    for node in NODES:
        _write_log(store, node, written)
        trace = store.node_path(node) / "trace.jsonl"
        with trace.open("wb") as file:
            file.writelines(_leads(effects) if node == NODES[0] else _follows(node, effects))
        store.write_evidence(node, SNAPSHOTS_FILE, [])
        store.write_evidence(
            node, STATE_FILE, [FinalRead(node, end, {}, {"broker:": dict(sorted(state.items()))})]
        )
        store.write_evidence(
            node,
            QUORUM_STATE_FILE,
            [
                {
                    "leaderId": 1,
                    "leaderEpoch": 1,
                    "votedId": 1,
                    "appliedOffset": 0,
                    "currentVoters": [{"voterId": int(each[1:])} for each in NODES],
                    "data_version": 0,
                    "logStartOffset": 0,
                    "logEndOffset": end,
                    "tornTailBytes": 0,
                    "directoryId": f"d{node}",
                    "traceBytes": trace.stat().st_size,
                }
            ],
        )


def _write_log(store: RunStore, node: str, written: Sequence[Effect]) -> None:
    path = store.evidence_path(node) / "log.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.write(_record(node, 0, "control:LEADER_CHANGE", '{"leaderId":1,"version":0}'))
        for offset, effect in enumerate(written, 1):
            fields = f'"name":"{PREFIX}{effect.key}","value":"{effect.value}"'
            value = f'{{"resourceType":4,"resourceName":"",{fields}}}'
            file.write(_record(node, offset, "ConfigRecord", value))


def _record(node: str, offset: int, kind: str, value: str) -> bytes:
    crc = zlib.crc32(f"{kind}{value}".encode())
    place = f'"node":"{node}","offset":{offset},"epoch":1,"batch_crc":{crc}'
    return seal(f'{{{place},"kind":"{kind}","value":{value}}}')


def _event(time_ns: int, event: str, fields: str) -> bytes:
    return seal(f'{{"t":{time_ns},"n":0,"e":"{event}",{fields}}}')


def _opened(node: str) -> list[bytes]:
    voters = json.dumps({each[1:]: f"d{each}" for each in NODES})
    start = f'"node_id":{node[1:]},"directory_id":"d{node}","mutant":null,"pid":1'
    return [
        _event(0, "start", f'{start},"clock":"{CLOCK}"'),
        _event(1, "recovered", '"start_offset":0,"end_offset":0,"last_epoch":0'),
        _event(2, "voters", f'"offset":-1,"kraft_version":1,"voters":{voters}'),
    ]


def _commits(effects: Sequence[Effect]) -> dict[int, tuple[list[int], int, int]]:
    """Return place of an effect -> times of the steps of a commit before it, first and last offset.

    The first commit has the LeaderChange; times lie behind the effect before.
    """
    places = [place for place, effect in enumerate(effects) if effect.value is not None]
    found = {}
    for number in range(0, max(1, len(places)), _TOGETHER):
        place = places[number] if number else 0
        before_ns = effects[place - 1].at_ns if place else 100
        until_ns = effects[place].at_ns if effects else before_ns
        times = [before_ns + (until_ns - before_ns) * step // 6 for step in range(1, 6)]
        last = min(number + _TOGETHER, len(places))
        found[place] = times, number + 1 if number else 0, last
    return found


def _leads(effects: Sequence[Effect]) -> list[bytes]:
    state = '"epoch":1,"voted_id":1'
    lines = [
        *_opened(NODES[0]),
        _event(10, "state", f'"state":"Candidate","leader_id":-1,{state}'),
        _event(30, "state", f'"state":"Leader","leader_id":1,{state}'),
        _event(31, "epoch-start", '"epoch":1,"offset":0'),
    ]
    commits = _commits(effects)
    offset = 0
    mark = 0
    for place, effect in enumerate(effects):
        if place in commits:
            times, first, last = commits[place]
            mark = last + 1
            span = f'"epoch":1,"base_offset":{first},"last_offset":{last}'
            held = json.dumps({each[1:]: mark for each in NODES})
            lines += [
                _event(times[0], "append", f'{span},"role":"leader"'),
                _event(times[0], "flush", f'"end_offset":{mark}'),
                _event(
                    times[3], "hw", f'"epoch":1,"offset":{mark},"role":"leader","replicas":{held}'
                ),
            ]
            if not first:
                lines.append(_event(times[4], "claim", f'"epoch":1,"offset":{last}'))
        offset += effect.value is not None
        if effect.answered and effect.value is not None:
            fields = f'"epoch":1,"offset":{offset},"high_watermark":{mark}'
            lines.append(_event(effect.at_ns, "ack", fields))
        elif effect.answered:
            fields = f'"epoch":1,"offset":{mark - 1},"confirmed":true,"query":true'
            lines.append(_event(effect.at_ns, "read", fields))
    return lines


def _follows(node: str, effects: Sequence[Effect]) -> list[bytes]:
    lines = [
        *_opened(node),
        _event(20, "vote", '"epoch":1,"candidate_id":1,"pre_vote":false,"granted":true'),
        _event(40, "state", '"state":"Follower","epoch":1,"leader_id":1,"voted_id":1'),
    ]
    for times, first, last in _commits(effects).values():
        end = last + 1
        span = f'"epoch":1,"base_offset":{first},"last_offset":{last}'
        asked = f'"offset":{end},"durable_end_offset":{end},"leader_id":1,"asked_id":1'
        lines += [
            _event(times[1], "append", f'{span},"role":"follower"'),
            _event(times[1], "flush", f'"end_offset":{end}'),
            _event(times[2], "fetch", f'"epoch":1,{asked}'),
            _event(times[4], "hw", f'"epoch":1,"offset":{end},"role":"follower"'),
        ]
    return lines

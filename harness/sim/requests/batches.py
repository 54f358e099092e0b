"""Batches that a leader takes or refuses, and which of both is right.

The settings of a topic, the leader's clock and the batch alone decide (LogValidator).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from crc32c import crc32c

from cluster.node.log.batch.records import (
    HEADER_BYTES,
    NOBODY,
    Record,
    Sequenced,
    check_batch,
    encode_batch,
    with_place,
)
from cluster.node.log.data.data_config import AppendError, DataLogConfig
from cluster.node.log.data.validation import validate
from harness.sim.requests.decided import Decision

_NOW_MS: Final = 1 << 40
_SPAN_MS: Final = 1_000
_BYTES_MAX: Final = 500
_INVALID: Final = "invalid_record"


def reseal(batch: bytes, position: int, value: bytes) -> bytes:
    """Change bytes of a batch, and make its CRC right again."""
    made = bytearray(batch)
    made[position : position + len(value)] = value
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)


def topic(random: Random) -> dict[str, Any]:
    """Draw the settings of a topic by which batches are judged."""
    return {
        "message_timestamp_type": random.choice(("CreateTime", "LogAppendTime")),
        "message_timestamp_before_max_ms": _SPAN_MS,
        "message_timestamp_after_max_ms": _SPAN_MS,
        "cleanup_policy": (random.choice(("delete", "compact")),),
        "max_message_bytes": _BYTES_MAX,
    }


def batches(config: DataLogConfig, now_ms: int, random: Random) -> Iterator[tuple[str, bytes, str]]:
    """Yield batches of the same records, right but for one thing at most, with the right error."""
    key, count = random.choice((None, b"k")), random.randint(1, 3)
    at_ms = now_ms + random.choice((0, -_SPAN_MS, _SPAN_MS, -_SPAN_MS - 1, _SPAN_MS + 1))

    def make(of: Sequenced = NOBODY, value: bytes = b"v") -> bytes:
        return encode_batch(0, -1, [Record(value, key)] * count, at_ms, sequenced=of)

    good, own_time = make(), "invalid_timestamp"
    right = own_time if abs(at_ms - now_ms) > _SPAN_MS and not config.log_append_time else "none"
    if config.compact and key is None:
        right = own_time = _INVALID
    yield "as it is", good, right
    yield "of a producer", make(Sequenced(5, 0, 7)), right
    yield "with a later largest time", reseal(good, 35, (at_ms + 5).to_bytes(8, "big")), right
    yield (
        "with a time of its own",
        reseal(good, 21, b"\0\x08"),
        own_time if config.log_append_time else right,
    )
    yield "of nothing", b"", _INVALID
    yield "cut off", good[:-1], _INVALID
    yield "twice", good * 2, _INVALID
    yield "of magic 1", good[:16] + b"\1" + good[17:], _INVALID
    yield "at offset 5", with_place(good, 5, -1), _INVALID
    yield "with a flipped bit", good[:-1] + bytes([good[-1] ^ 1]), "corrupt_message"
    yield "too short for a header", b"\0" * 11 + b"\1" + good[12:13], "corrupt_message"
    yield "too large", make(value=b"v" * _BYTES_MAX), "message_too_large"
    for more in (-count, 1):
        number = (count + more).to_bytes(4, "big")
        yield f"of {more} records more", reseal(good, 57, number), _INVALID
    longer = reseal(good, 23, count.to_bytes(4, "big"))
    yield "to a later offset", longer, _INVALID
    yield (
        "of a record that it lacks",
        reseal(longer, 57, (count + 1).to_bytes(4, "big")),
        _INVALID,
    )
    yield "of records with gaps", reseal(good, 64, b"\2"), _INVALID
    yield "of control", reseal(good, 21, b"\0\x20"), _INVALID
    yield "of a transaction", make(Sequenced(5, 0, 0, transactional=True)), "invalid_txn_state"
    yield "without a sequence", make(Sequenced(5, 0, -1)), _INVALID
    yield "of no codec", reseal(good, 21, b"\0\7"), "unknown_server_error"
    codec = random.randint(1, 4)
    yield f"that codec {codec} inflates not", reseal(good, 21, bytes([0, codec])), _INVALID


def judged_batches(random: Random) -> Iterator[Decision]:
    """Yield what a leader is sent, its errors, and the right ones."""
    config = DataLogConfig(**topic(random))
    for what, sent, error in batches(config, _NOW_MS, random):
        yield f"take a batch {what}", [_error_of(sent, config)], ((error,),)


def _error_of(sent: bytes, config: DataLogConfig) -> str:
    try:
        header, taken = validate(sent, config, _NOW_MS)
    except AppendError as refusal:
        return refusal.error.name
    of_client = int.from_bytes(sent[27:35], "big")
    times = header.is_log_append_time, header.max_timestamp_ms
    right = (True, _NOW_MS) if config.log_append_time else (False, of_client)
    is_kept = check_batch(taken) == header and taken[HEADER_BYTES:] == sent[HEADER_BYTES:]
    return "none" if is_kept and times == right else f"none, and makes of it {header}"

"""The recovery point: everything below this offset was durable once and must be found again.

File `recovery-point-offset-checkpoint`, in Kafka's format: a line `0` (version), a line `1` (one
entry), a line `<topic> <partition> <offset>`. It is shorter than a disk sector and replaced in
place, so a crash leaves the old content or the new one; anything else counts as 0, which only
makes recovery more lenient.
"""

from __future__ import annotations

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"


def encode_recovery_point(directory: str, offset: int) -> bytes:
    """Encode the file for the log in `directory`, named `<topic>-<partition>`."""
    topic, _, partition = directory.rpartition("/")[2].rpartition("-")
    return f"0\n1\n{topic} {partition} {offset}\n".encode()


_DIGITS_MAX = 19
"""Of an offset, which has 64 bits."""


def decode_recovery_point(data: bytes) -> int:
    """Read the offset; 0 when the content is not what `encode_recovery_point` writes."""
    lines = data.split(b"\n")
    if len(lines) != 4 or lines[:2] != [b"0", b"1"] or lines[3]:
        return 0
    offset = lines[2].rpartition(b" ")[2]
    return int(offset) if offset.isdigit() and len(offset) <= _DIGITS_MAX else 0

"""Lines that show when they were changed: JSON objects that end in their own checksum.

    {"index":0,"time_ns":5,...,"crc":1234567890}

`crc` is the CRC-32 (that of zlib, RFC 1952) of all bytes of the line before `,"crc":`. JSON alone
cannot distinguish a flipped bit from a value: `16` and `17` are both offsets, and a journal, a
trace or a decoded log with one such bit would accuse, or acquit, a node of what never happened. A
line that was changed is refused, whatever it says.

A line without `crc` is taken as it is: histories come from elsewhere, too. A flipped bit cannot
make one of a sealed line without breaking the name `crc` itself, which leaves all else intact.
"""

from __future__ import annotations

import json
import re
import zlib

FIELD = "crc"
_SEAL = re.compile(rb',"crc":(\d{1,10})\}\Z')
_WHOLE = re.compile(rb"crc.?:.?\d+\D")
"""A seal with what ends it; one bit of it may be wrong."""
_CUT_OFF = re.compile(rb"(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|-|[.eE][-+]?|\\?u?[0-9a-fA-F]{0,4})?")
"""What the decoder may stop at in a text that is all right but for its missing end."""


def seal(text: str) -> bytes:
    """Return the line of an ASCII JSON object that is not empty: sealed, with its newline."""
    body = text[:-1].encode("ascii")
    return b'%s,"crc":%d}\n' % (body, zlib.crc32(body))


def is_changed(line: bytes) -> bool:
    """Whether a line (without its newline) has a seal, and it is that of other bytes."""
    found = _SEAL.search(line)
    return found is not None and zlib.crc32(line[: found.start()]) != int(found[1])


def may_be_torn(line: bytes, beginning: bytes) -> bool:
    """Whether a line that is no JSON can be what a kill left of one that began with `beginning`.

    The part that a `write` got done is a proper prefix of a sealed line: the decoder finds nothing
    wrong with it but that it ends, and it holds no whole seal. One that is wrong elsewhere was
    changed afterwards.
    """
    if not beginning.startswith(line[: len(beginning)]) or _WHOLE.search(line):
        return False
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        rest = line[error.pos :]  # the text is ASCII, or the decoder stops before what is not
        return error.msg.startswith("Unterminated string") or _CUT_OFF.fullmatch(rest) is not None
    except (ValueError, RecursionError):
        return False
    return False

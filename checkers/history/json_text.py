"""JSON of files that nobody vouches for.

Python's reader takes more than JSON has (NaN, half surrogate pairs), keeps the last value of a key
that is given twice, makes infinity of what is too large, and raises errors of four kinds; and
values may nest deeper than the recursion of whatever reads them next. `parse` gives a plain value
that can be hashed, compared and written again, or one kind of error.
"""

from __future__ import annotations

import json
import math
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from extensions.plain_files import no_repeats

DEPTH_MAX = 100
"""Lists and objects nested deeper than this are no value of a history."""
_SHOWN_MAX = 80
_BLANK = " \t\n\r"
_PLAIN = frozenset({type(None), bool, int, str, list, dict})
_NAMES = frozenset({str})
_INT64 = 1 << 63
_NOT_WHOLE = "not whole JSON, or cut off"
_TOO_DEEP = f"nested more than {DEPTH_MAX} deep"


class JsonError(ValueError):
    """It is no JSON value; the message says in a few words why."""


def parse(text: str) -> Any:
    """Return the value that a JSON text holds. Raises JsonError."""
    begin = len(text) - len(text.lstrip(_BLANK))
    value, end = _value(text, begin)
    if text[end:].strip(_BLANK):
        raise JsonError(_NOT_WHOLE)
    return value


def parse_all(text: str, between: str) -> Iterator[Any]:
    """Yield the JSON values of a text, each on lines of its own, with `between` around them.

    Raises JsonError that names the line.
    """
    gap = re.compile(f"[{re.escape(between)}]*")
    end = 0
    while True:
        found = gap.match(text, end)
        assert found is not None, "a gap may be empty"
        begin = found.end()
        if begin == len(text):
            return
        try:
            if end and "\n" not in found[0]:
                raise JsonError(_NOT_WHOLE)  # noqa: TRY301  (one place adds the line)
            value, end = _value(text, begin)
        except JsonError as error:
            cause = error.__cause__
            place = cause.pos if isinstance(cause, json.JSONDecodeError) else begin
            line = text.count("\n", 0, place) + 1
            raise JsonError(f"line {line}: {error}") from error
        yield value


def _value(text: str, begin: int) -> tuple[Any, int]:
    """Return the value that begins there, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except JsonError:
        raise
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise JsonError(_NOT_WHOLE) from error
    except ValueError as error:  # all that is left: `int` takes no more digits
        raise JsonError(too_long()) from error
    opened = text.count("[", begin, end) + text.count("{", begin, end)
    if opened > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise JsonError(_TOO_DEEP)
    if text.find("\\u", begin, end) >= 0:
        _check_pairs(value)
    return value, end


def is_json(value: object) -> bool:
    """Return whether `parse` reads the value again once it is written."""
    if _is_plain(value):
        return True
    try:
        parse(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_plain(value: object) -> bool:
    """Whether it is JSON at sight: lists and objects of ASCII texts and integers of 64 bits.

    Most answers are, and to write and read one of many records takes longer than it took to get it.
    """
    level = [value]
    for _ in range(DEPTH_MAX):
        if not _PLAIN.issuperset(map(type, level)):
            return False
        if not "".join([item for item in level if type(item) is str]).isascii():
            return False
        numbers = [item for item in level if type(item) is int]
        if numbers and not -_INT64 <= min(numbers) <= max(numbers) < _INT64:
            return False
        inner: list[object] = []
        for item in level:
            if type(item) is list:
                inner += item
            elif type(item) is dict:
                if not _NAMES.issuperset(map(type, item)):
                    return False
                inner += item
                inner += item.values()
        if not inner:
            return True
        level = inner
    return False


def finite(text: str) -> float:
    """Return the number that a text holds. Raises JsonError where it is too large."""
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"a number that is too large: {render(text)}")
    return number


def too_long() -> str:
    """Say what is wrong about an integer that Python refuses to read."""
    return f"an integer of more than {sys.get_int_max_str_digits()} digits"


def render(value: object) -> str:
    """Return a value for a message, cut to a line."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        return no_repeats(pairs)
    except ValueError as error:
        raise JsonError(str(error)) from None


def _no_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=finite, object_pairs_hook=_no_repeats
)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _check_pairs(value: Any) -> None:
    """Refuse half a surrogate pair, which no UTF-8 can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonError("half a surrogate pair") from None


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

"""Values of configurations as Kafka reads them: types, allowed values, texts (ConfigDef).

A value is a text in the metadata log; its type decides what the text may be. A list's elements
stand between commas; an element that occurs again is dropped where the allowed elements are known.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

Value = bool | int | float | str | tuple[str, ...]
"""BOOLEAN; INT, SHORT, LONG; DOUBLE; STRING, CLASS, PASSWORD; LIST."""
Check = Callable[[str, Value], None]
"""(name, parsed value) -> nothing; raises InvalidValueError."""


class ConfigType(enum.IntEnum):
    """DescribeConfigsResponse.ConfigType."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValueError(Exception):
    """A value is not one that its key may have; the message is Kafka's ConfigException's."""

    @classmethod
    def of(cls, name: str, value: Value, message: str) -> InvalidValueError:
        """Name the key and the value."""
        return cls(f"Invalid value {render(value)} for configuration {name}: {message}")


_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_NUMBER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII
)
"""In one way only, so that what is none is found in linear time: anybody may send it."""
_BLANKS: Final = "".join(map(chr, range(33)))
"""What String.trim() removes."""
_SPACES: Final = " \t\n\x0b\f\r"
"""What stands for nothing beside a comma."""
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?"
    r"(T(?=[+-]?\d)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
"""What Duration.parse reads: sign, days, time with hours, minutes, seconds."""


def parse(name: str, kind: ConfigType, text: str) -> Value:
    """Read a text as a value of a type. Raises InvalidValueError."""
    trimmed = text.strip(_BLANKS)
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in {"true", "false"}:
            raise InvalidValueError.of(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        number = int(trimmed) if _NUMBER.fullmatch(trimmed) and len(trimmed) <= 20 else limit
        if not -limit <= number < limit:
            raise InvalidValueError.of(name, text, f"Not a number of type {kind.name}")
        return number
    if kind is ConfigType.DOUBLE:
        if not _DECIMAL.fullmatch(trimmed):
            raise InvalidValueError.of(name, text, f"Not a number of type {kind.name}")
        return float(trimmed.rstrip("fFdD") if trimmed[-1:] in "fFdD" else trimmed)
    if kind is ConfigType.LIST:
        return tuple(part.strip(_SPACES) for part in trimmed.split(",")) if trimmed else ()
    return text if kind is ConfigType.PASSWORD else trimmed


def render(value: Value) -> str:
    """Render a value as Java does in a message."""
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else text_of(value)


def text_of(value: Value) -> str:
    """Render a value as clients are shown it (ConfigDef.convertToString)."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _decimal(value) if isinstance(value, float) else str(value)


def _decimal(value: float) -> str:
    """Render as Double.toString: an exponent below a thousandth and from ten million on."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - not a number
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign = "-" if value < 0 else ""
    shortest = Decimal(repr(abs(value))).normalize()
    digits = "".join(map(str, shortest.as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{shortest.adjusted()}"


def checked_by(valid: Sequence[Any] | None) -> Check | None:
    """Return the check that a row of definitions.json describes; None: every value will do.

    Kafka's classes without one here are those of keys that only a node's own file can set.
    """
    if valid is None:
        return None
    kind, *rest = valid
    if kind == "range":
        lowest, highest = ([*bound, None][0] for bound in rest)
        return _range(lowest, highest)
    if kind == "one of":
        return _one_of(rest[0])
    if kind == "one of, in any case":
        return _one_of_in_any_case(rest[0])
    if kind == "list":
        return _list(*rest)
    return _NAMED.get(rest[0])


def _range(lowest: float | None, highest: float | None) -> Check:
    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if lowest is not None and value < lowest:
            raise InvalidValueError.of(name, value, f"Value must be at least {lowest}")
        if highest is not None and value > highest:
            raise InvalidValueError.of(name, value, f"Value must be no more than {highest}")

    return check


def _one_of(allowed: Sequence[str]) -> Check:
    def check(name: str, value: Value) -> None:
        if value not in allowed:
            raise InvalidValueError.of(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def _one_of_in_any_case(allowed: Sequence[str]) -> Check:
    def check(name: str, value: Value) -> None:
        if str(value).upper() not in allowed:
            message = f"String must be one of (case insensitive): {', '.join(allowed)}"
            raise InvalidValueError.of(name, value, message)

    return check


def _list(allowed: Sequence[str], may_be_empty: bool, _may_be_null: bool) -> Check:  # noqa: FBT001
    check_element = _one_of(allowed) if allowed else None

    def check(name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        if not (value or may_be_empty):
            valid = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            message = f"Configuration '{name}' must not be empty. Valid values include: {valid}"
            raise InvalidValueError(message)
        for element in value:
            if not element:
                raise InvalidValueError(f"Configuration '{name}' values must not be empty.")
            if check_element is not None:
                check_element(name, element)

    return check


def _gzip_level(name: str, value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        raise InvalidValueError.of(name, value, "Value must be between 1 and 9 or equal to -1")


def _throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value != ("*",) and not all(map(_REPLICA.fullmatch, value)):
        message = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise InvalidValueError.of(name, value, message)


def _share_offset_reset(name: str, value: Value) -> None:
    prefix, _, duration = str(value).partition(":")
    if value in {"earliest", "latest"} or (prefix == "by_duration" and _is_duration(duration)):
        return
    message = (
        f"Invalid value `{value}` for configuration {name}. The value must be either "
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )
    raise InvalidValueError.of(name, value, message)


def _is_duration(text: str) -> bool:
    """Return whether a text is a duration of ISO 8601 that is not negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return False
    parts = zip(match.group(2, 4, 5, 6), (86_400, 3_600, 60, 1), strict=True)
    duration_s = sum(float((part or "0").replace(",", ".")) * unit for part, unit in parts)
    return (-duration_s if match[1] == "-" else duration_s) >= 0


_NAMED: Final[dict[str, Check]] = {
    "[1,...,9] or -1": _gzip_level,
    "org.apache.kafka.storage.internals.log.ThrottledReplicaListValidator": _throttled_replicas,
    "org.apache.kafka.coordinator.group.ShareGroupAutoOffsetResetStrategy$Validator": (
        _share_offset_reset
    ),
}

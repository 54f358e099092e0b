"""Values of operations as they can be compared and counted.

JSON has null, booleans, numbers, texts, lists and objects. EDN, in which Jepsen's histories are
written, distinguishes more; its other values are subclasses of Python's, so that what only shows or
stores them need not know: Clojure holds `:a` and "a", `1` and `1.0`, `#{1 2}` and `[1 2]` for
different, and `#{1 2}` and `#{2 1}` for equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, TypeGuard


class Keyword(str):
    """A keyword of EDN, without its colon."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f":{self}"


class Symbol(str):
    """A symbol of EDN; and what has no other form here, as it was written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


CHARACTERS = {
    "newline": "\n",
    "space": " ",
    "tab": "\t",
    "return": "\r",
    "backspace": "\b",
    "formfeed": "\f",
}
"""Names of characters of EDN that are not written as themselves."""
_NAMES_OF_CHARACTERS = {character: name for name, character in CHARACTERS.items()}


class Character(str):
    """A character of EDN."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = str(self) if self.isprintable() else f"u{ord(self):04x}"
        return "\\" + _NAMES_OF_CHARACTERS.get(self, shown)


class EdnSet(tuple[Any, ...]):
    """A set of EDN, its elements in the order in which they were written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "#{" + " ".join(map(repr, self)) + "}"


class Double(float):
    """A number of EDN with a decimal point: 1.0 is not 1, though 1.5 is JSON's 1.5."""

    __slots__ = ()


class BigDecimal(float):
    """A decimal of EDN: 1.0M is not 1.0."""

    __slots__ = ()


class Ratio(float):
    """A ratio of EDN: 1/2 is not 0.5."""

    __slots__ = ()


RATIO_MAX = 1 << 25
"""Two ratios of numbers up to this differ by more than the distance of two floats."""


def is_list(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list: its elements have an order, as those of an EDN set have not."""
    return isinstance(value, list | tuple) and not isinstance(value, EdnSet)


def decimal(value: float | Fraction) -> Fraction:
    """Return a number as it is written, so that 0.1 and 0.2 add up to 0.3.

    So is a ratio: 1/3 and 2/3 add up to 1. `float` of a subclass, since those show themselves.
    Raises ValueError for what is no number or beyond all numbers.
    """
    if isinstance(value, Ratio):
        return Fraction(value).limit_denominator(RATIO_MAX)
    return Fraction(value) if isinstance(value, int | Fraction) else Fraction(repr(float(value)))


_SINGLE = (Keyword, Symbol, Character, Double, BigDecimal, Ratio)
_NAMES = frozenset({"bool", *(kind.__name__ for kind in _SINGLE)})
"""How `freeze` marks single values that Python would take for others."""
_BARE = frozenset({type(None), str, int})
"""Values of these types, and of no subclass, are frozen as they are."""


def freeze(value: Any) -> Hashable:
    """Return a value as a hashable one; different values stay different, equal ones are equal.

    Booleans are distinguished from the integers that Python holds equal to them.
    """
    kind = type(value)
    if kind in _BARE:
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return ("bool", value)
    if kind is Double and not value.is_integer():
        return float(value)  # as JSON has it, in which an option may be given
    if kind in _SINGLE:
        return (kind.__name__, float(value) if isinstance(value, float) else str(value))
    if isinstance(value, EdnSet):
        return ("set", frozenset(map(freeze, value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        bare = _BARE.issuperset(map(type, value))  # records come by the thousand
        return ("list", tuple(value if bare else map(freeze, value)))
    if isinstance(value, dict):
        return ("dict", frozenset((freeze(name), freeze(item)) for name, item in value.items()))
    assert isinstance(value, Hashable)
    return value


def show(frozen: Hashable) -> str:
    """Return a frozen value for a person, as Python or, what only EDN has, as EDN shows it."""
    if not isinstance(frozen, tuple) or len(frozen) != 2 or not isinstance(frozen[0], str):
        return repr(frozen)
    kind, inner = frozen
    if kind == "list":
        return "[" + ", ".join(map(show, inner)) + "]"
    if kind == "set":
        return "#{" + " ".join(sorted(map(show, inner))) + "}"
    if kind == "dict":
        return "{" + ", ".join(sorted(f"{show(name)}: {show(item)}" for name, item in inner)) + "}"
    if kind not in _NAMES:
        return repr(frozen)
    if kind == Character.__name__:
        return repr(Character(inner))
    return (":" if kind == Keyword.__name__ else "") + str(inner)

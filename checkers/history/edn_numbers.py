"""Numbers of EDN: whole ones in any base, doubles, decimals and ratios."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from checkers.history.json_text import too_long
from porcupine_py.values import RATIO_MAX, BigDecimal, Double, Ratio, Symbol

_INTEGER = re.compile(r"[+-]?\d+N?")
_BASED = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|(\d{1,2})[rR]([0-9a-zA-Z]+))N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")


def number(text: str) -> int | float | Symbol | None:
    """Return the number that an atom is, None where it is none.

    One that no float distinguishes from another keeps its text. Raises ValueError for an integer of
    too many digits and a ratio to zero.
    """
    if _INTEGER.fullmatch(text):
        return _decimal(text.rstrip("N"))
    if _BASED.fullmatch(text):
        return _read_radix(text)
    if _FLOAT.fullmatch(text):
        return _float(text)
    return _ratio(text) if _RATIO.fullmatch(text) else None


def _decimal(digits: str) -> int | None:
    """Return a whole number; one that begins with 0 is octal."""
    bare = digits.lstrip("+-")
    if len(bare) > 1 and bare[0] == "0":
        return _whole(int(digits, 8)) if not set(bare) & {"8", "9"} else None
    return _whole(digits)


def _read_radix(text: str) -> int | None:
    match = _BASED.fullmatch(text)
    assert match is not None
    base = 16 if match[2] else int(match[3])
    try:
        found = int(match[2] or match[4], base)
    except ValueError:
        return None
    return _whole(-found if match[1] == "-" else found)


def _float(text: str) -> float | Symbol:
    found = float(text.rstrip("M"))
    if not math.isfinite(found):
        return Symbol(text if text.endswith("M") else "##Inf" if found > 0 else "##-Inf")
    if not text.endswith("M"):
        return Double(found)
    try:
        exact = Decimal(text[:-1]) == Decimal(repr(found))
    except InvalidOperation:  # an exponent that no decimal has
        exact = False
    return BigDecimal(found) if exact else Symbol(text)


def _ratio(text: str) -> int | Ratio | Symbol:
    above, below = map(_whole, text.split("/"))
    if below == 0:
        raise ValueError("a ratio to zero")
    exactly = Fraction(above, below)
    if exactly.denominator == 1:
        return exactly.numerator
    if max(abs(exactly.numerator), exactly.denominator) > RATIO_MAX:
        return Symbol(f"{exactly.numerator}/{exactly.denominator}")
    return Ratio(exactly)


def _whole(number: int | str) -> int:
    """Return a whole number that can be shown: one in a base of 2**n is read at any length."""
    try:
        return int(str(number))
    except ValueError:
        raise ValueError(too_long()) from None

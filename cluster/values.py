"""Values: what is never changed once it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
@dataclass_transform(frozen_default=True)
def valueclass(cls: type[T]) -> type[T]: ...


@overload
def valueclass(*, kw_only: bool = False, order: bool = False) -> Callable[[type[T]], type[T]]: ...


def valueclass(
    cls: type[T] | None = None, *, kw_only: bool = False, order: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a dataclass of unchanging instances with slots, equality and a hash.

    mypy proves that they do not. A dataclass that also refuses it while it runs sets each field of
    a new instance by a call, which is most of what an instance costs, and a node makes some for
    every message and every record: a tenth of a simulated run.
    """

    def make(plain_class: type[T]) -> type[T]:
        return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only, order=order)(plain_class)

    return make if cls is None else make(cls)


DIGITS_MAX = 19
"""Of a whole number that is read: as many as the largest of 64 bits has."""


def whole_number(text: str) -> int | None:
    """Read a whole number of plain ASCII digits, at most `DIGITS_MAX`; None when it is not one.

    `int` takes more: "1_000", " 1", digits of other scripts. Of very many digits it raises.
    """
    plain = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    return int(text) if plain else None

"""A strict reader and writer for the part of EDN that Jepsen's histories use.

EDN (github.com/edn-format/edn) is Clojure's data notation. Read are nil, booleans, integers,
decimals and ratios as floats (where a float distinguishes them), strings, characters,
keywords, symbols, lists, vectors, maps, sets, comments, `#_` discards, and the tags that Jepsen
prints around plain data. Any other tag is an error: nothing is ever evaluated or constructed by
name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from checkers.history import HistoryError
from checkers.history.json_text import finite, too_long

DEPTH_MAX = 100
"""Nesting beyond this is no history."""

PLAIN_TAGS = frozenset(
    {"jepsen.history.Op", "jepsen.independent/tuple", "jepsen.independent.Tuple", "inst", "uuid"}
)
"""Tags that may be taken off: what they hold is plain data."""

_TOKEN = re.compile(
    r"""[\s,]+ | ;[^\n]*
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<open>\#\{|[\[({])
      | (?P<close>[\])}])
      | (?P<discard>\#_)
      | (?P<tag>\#[A-Za-z][^\s,()\[\]{}";]*)
      | (?P<char>\\(?:[A-Za-z0-9]+|.))
      | (?P<atom>[^\s,()\[\]{}";\\\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_RATIO_MAX = 1 << 25
"""Two ratios of numbers up to this differ by more than the distance of two floats."""
_CLOSE = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_KEYWORD = re.compile(r"[A-Za-z*!_?$%&=<>+-][A-Za-z0-9*!_?$%&=<>+.#/'-]*")


class Keyword(str):
    """A keyword, without its colon."""

    __slots__ = ()


class EdnSet(tuple[Any, ...]):
    """A set, its elements in the order in which they were written."""

    __slots__ = ()


_END = object()
_Token = tuple[str, str, int]


def read_all(text: str) -> Iterator[Any]:
    """Read every form of a text; vectors and lists become lists.

    Raises HistoryError that names the line.
    """
    return _Reader(text).forms()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenize()

    def forms(self) -> Iterator[Any]:
        for token in self._tokens:
            form = self._form(token, 0)
            if form is not _END:
                yield form

    def _tokenize(self) -> Iterator[_Token]:
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self._error("cannot be read", position)
            if match.lastgroup is not None:
                yield match.lastgroup, match[0], position
            position = match.end()

    def _error(self, what: str, position: int) -> HistoryError:
        line = self._text.count("\n", 0, position) + 1
        shown = self._text[position : position + 20].split("\n")[0]
        return HistoryError(f"line {line}: EDN {what} at {shown!r}")

    def _next(self, position: int) -> _Token:
        token = next(self._tokens, None)
        if token is None:
            raise self._error("ends inside the form", position)
        return token

    def _form(self, token: _Token, depth: int) -> Any:
        """Read the form that begins with `token`; `_END` for what is discarded."""
        kind, text, position = token
        if depth > DEPTH_MAX:
            raise self._error("is nested too deeply", position)
        if kind == "open":
            return self._collection(text, position, depth)
        if kind == "close":
            raise self._error("closes what is not open", position)
        if kind == "discard":
            self._whole(position, depth)
            return _END
        if kind == "tag":
            if text[1:] not in PLAIN_TAGS:
                raise self._error("has an unknown tag", position)
            return self._whole(position, depth)
        if kind == "string":
            return self._string(text, position)
        if kind == "char":
            return _CHARACTERS.get(text[1:], text[1:])
        return self._atom(text, position)

    def _whole(self, position: int, depth: int) -> Any:
        """Read the next form that is not discarded."""
        form = _END
        while form is _END:
            form = self._form(self._next(position), depth + 1)
        return form

    def _collection(self, opening: str, position: int, depth: int) -> Any:
        items: list[Any] = []
        while True:
            token = self._next(position)
            if token[0] == "close":
                break
            form = self._form(token, depth + 1)
            if form is not _END:
                items.append(form)
        if token[1] != _CLOSE[opening]:
            raise self._error("closes with the wrong bracket", token[2])
        if opening == "#{":
            return EdnSet(items)
        return self._map(items, position) if opening == "{" else items

    def _map(self, items: list[Any], position: int) -> dict[Any, Any]:
        if len(items) % 2:
            raise self._error("has a map with a key without value", position)
        pairs = dict(zip(map(_hashable, items[::2]), items[1::2], strict=True))
        if len(pairs) * 2 != len(items):
            raise self._error("has a map with a key twice", position)
        return pairs

    def _string(self, text: str, position: int) -> str:
        def replaced(match: re.Match[str]) -> str:
            code = match[1]
            if len(code) == 5:
                return chr(int(code[1:], 16))
            if code not in _ESCAPES:
                raise self._error("has an unknown escape", position)
            return _ESCAPES[code]

        plain = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replaced, text[1:-1], flags=re.DOTALL)
        try:  # Java writes a character beyond 16 bits as two
            return plain.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._error("has half a surrogate pair", position) from None

    def _atom(self, text: str, position: int) -> Any:
        if text in ("nil", "true", "false"):
            return {"nil": None, "true": True, "false": False}[text]
        if text[0] == ":":
            if len(text) == 1:
                raise self._error("has an empty keyword", position)
            return Keyword(text[1:])
        try:
            number = _number(text)
        except ValueError as error:
            raise self._error(f"has {error}", position) from error
        if number is not None:
            return number
        if _KEYWORD.fullmatch(text):
            return text
        raise self._error("has an unknown atom", position)


def _number(text: str) -> int | float | None:
    """Return the number that an atom is, None where it is none.

    Raises ValueError where it cannot be held, or could not be distinguished from another number.
    """
    if _INTEGER.fullmatch(text):
        return _whole(text.rstrip("N"))
    if _FLOAT.fullmatch(text):
        number = finite(text.rstrip("M"))
        if text.endswith("M") and Decimal(text[:-1]) != Decimal(repr(number)):
            raise ValueError("a decimal with more digits than a float holds")
        return number
    ratio = _RATIO.fullmatch(text)
    if ratio is None:
        return None
    above, below = _whole(ratio[1]), _whole(ratio[2])
    if below == 0:
        raise ValueError("a ratio to zero")
    if max(abs(above), below) > _RATIO_MAX:
        raise ValueError(f"a ratio of numbers above {_RATIO_MAX}")
    return above / below


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(too_long()) from None


def _hashable(key: Any) -> Any:
    """Return a map key: collections as their text."""
    return write(key) if isinstance(key, list | dict | EdnSet) else key


def write(value: Any) -> str:
    """Write a JSON value, Keyword or EdnSet as EDN on one line.

    Raises HistoryError for what EDN cannot hold.
    """
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case Keyword() if _KEYWORD.fullmatch(value):
            return f":{value}"
        case str() if not isinstance(value, Keyword):
            return _quoted(value)
        case int():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case EdnSet():
            return "#{" + " ".join(map(write, value)) + "}"
        case list() | tuple():
            return "[" + " ".join(map(write, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{write(k)} {write(v)}" for k, v in value.items()) + "}"
        case _:
            raise HistoryError(f"{value!r} cannot be written as EDN")


def _quoted(text: str) -> str:
    escapes = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'

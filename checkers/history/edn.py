"""A strict reader and writer of EDN, Clojure's data notation, as Jepsen's histories use it.

Read is what github.com/edn-format/edn lists, and what Clojure prints beyond it into the fields of
an operation that no checker reads: tagged values and records (`#error {...}`, `#object[...]`) as
maps from the tag to what it holds, `#:ns{...}`, regular expressions, metadata (left out), `##NaN`,
numbers in other bases. Nothing is ever evaluated or constructed by name: `#=(...)` and `#(...)` are
errors. What Python has no value for keeps its text, as a `Symbol`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from checkers.history import HistoryError
from checkers.history.edn_numbers import RATIO_MAX
from checkers.history.edn_numbers import number as read_number
from checkers.history.values import BigDecimal, EdnSet, Keyword, Ratio, Symbol

__all__ = ["EdnSet", "IndependentTuple", "Keyword", "Symbol", "read_all", "write"]

DEPTH_MAX = 100
"""Nesting beyond this is no history."""

_PLAIN_TAGS = frozenset({"jepsen.history.Op", "knossos.op.Op"})
"""Records that are maps of an operation, and are read as such."""
_TUPLE_TAGS = frozenset({"jepsen.independent/tuple", "jepsen.independent.Tuple"})

_TOKEN = re.compile(
    r"""[\s,\uFEFF]+ | ;[^\n]*
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<open>\#\{|[\[({])
      | (?P<close>[\])}])
      | (?P<discard>\#_)
      | (?P<meta>\#?\^)
      | (?P<regex>\#"(?:[^"\\]|\\.)*")
      | (?P<names>\#::?[^\s,()\[\]{}";]+(?=[\s,]*\{))
      | (?P<text>\#\#[A-Za-z]+|\#'[^\s,()\[\]{}";]+|\#<[^>\n]*>)
      | (?P<tag>\#[A-Za-z][^\s,()\[\]{}";]*)
      | (?P<quote>'(?=[\[({\#]))
      | (?P<char>\\(?:[A-Za-z0-9]+|.))
      | (?P<atom>[^\s,()\[\]{}";\\\#][^\s,()\[\]{}";\\]*)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSE = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS = {
    "newline": "\n",
    "space": " ",
    "tab": "\t",
    "return": "\r",
    "backspace": "\b",
    "formfeed": "\f",
}
_KEYWORD = re.compile(r"[A-Za-z*!_?$%&=<>+-][A-Za-z0-9*!_?$%&=<>+.#/:'-]*")
_SYMBOL = re.compile(r"[^\s\d:@`~][^\s@`~]*")


class IndependentTuple(list[Any]):
    """A `[key value]` that jepsen.independent tagged as such."""

    __slots__ = ()


_PREFIXES = frozenset({"discard", "meta", "names", "tag", "quote"})
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
        if kind in _PREFIXES:
            return self._prefixed(token, depth)
        return self._single(token)

    def _single(self, token: _Token) -> Any:
        """Read a form that is one token."""
        kind, text, position = token
        if kind == "string":
            return self._string(text, position)
        if kind == "regex":
            return {"#regex": text[2:-1]}
        if kind == "char":
            return _character(text[1:])
        return Symbol(text) if kind == "text" else self._atom(text, position)

    def _prefixed(self, token: _Token, depth: int) -> Any:
        """Read the form behind a prefix that says something of it."""
        kind, text, position = token
        form = self._whole(position, depth)
        if kind == "discard":
            return _END
        if kind == "meta":
            return self._whole(position, depth)
        if kind == "names":
            return _named(text.lstrip("#:"), form)
        return _tagged(text, form) if kind == "tag" else form

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
            number = read_number(text)
        except ValueError as error:
            raise self._error(f"has {error}", position) from error
        if number is not None:
            return number
        if _SYMBOL.fullmatch(text) and not re.match(r"[+-]\d", text):
            return Symbol(text)
        raise self._error("has an unknown atom", position)


def _tagged(tag: str, form: Any) -> Any:
    if tag[1:] in _PLAIN_TAGS:
        return form
    if tag[1:] in _TUPLE_TAGS and isinstance(form, list) and len(form) == 2:
        return IndependentTuple(form)
    return {tag: form}


def _named(namespace: str, form: Any) -> Any:
    """Return a map with its keywords in a namespace, as `#:ns{:a 1}` has them."""
    if not isinstance(form, dict):
        return form
    return {
        Keyword(f"{namespace}/{key}") if isinstance(key, Keyword) and "/" not in key else key: v
        for key, v in form.items()
    }


def _character(name: str) -> str:
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        code = int(name[1:], 16)
        return chr(code) if not 0xD800 <= code < 0xE000 else Symbol("\\" + name)
    if re.fullmatch(r"o[0-7]{1,3}", name):
        return chr(int(name[1:], 8))
    return _CHARACTERS.get(name, name)


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
        case EdnSet():
            return "#{" + " ".join(map(write, value)) + "}"
        case list() | tuple():
            return "[" + " ".join(map(write, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{write(k)} {write(v)}" for k, v in value.items()) + "}"
        case bool():
            return "true" if value else "false"
        case str():
            return _written_text(value)
        case int() | float() if math.isfinite(value):
            return _written_number(value)
        case _:
            raise HistoryError(f"{value!r} cannot be written as EDN")


def _written_text(text: str) -> str:
    if isinstance(text, Symbol):
        return str(text)
    if not isinstance(text, Keyword):
        return _quoted(text)
    if not _KEYWORD.fullmatch(text):
        raise HistoryError(f"the keyword {text!r} cannot be written as EDN")
    return f":{text}"


def _written_number(number: float) -> str:
    if isinstance(number, int):
        return repr(number)
    if isinstance(number, Ratio):
        exactly = Fraction(number).limit_denominator(RATIO_MAX)
        return f"{exactly.numerator}/{exactly.denominator}"
    return f"{float(number)!r}M" if isinstance(number, BigDecimal) else repr(float(number))


def _quoted(text: str) -> str:
    escapes = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'

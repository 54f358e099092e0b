"""A strict reader and writer of EDN, Clojure's data notation, as Jepsen's histories use it.

Read is what github.com/edn-format/edn lists, and what Clojure prints beyond it into the fields of
an operation that no checker reads: tagged values and records (`#error {...}`, `#object[...]`) as
maps from the tag to what it holds, `#:ns{...}`, regular expressions, metadata (left out), `##NaN`,
numbers in other bases. Nothing is ever evaluated or constructed by name: `#=(...)` and `#(...)` are
errors. What Python has no value for keeps its text, as a `Symbol`; so does a map of which Python
would hold two keys for one (`{:a 1, "a" 2}`), and a collection that is the key of a map.

The reader is a loop with a stack, not a recursion: nesting costs no calls, and most tokens of a
history are one look-up in the table of atoms that were read before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from checkers.history import HistoryError
from checkers.history.edn_numbers import number as read_number
from porcupine_py.values import (
    CHARACTERS,
    BigDecimal,
    Character,
    EdnSet,
    Keyword,
    Ratio,
    Symbol,
    decimal,
    freeze,
)

__all__ = ["EdnSet", "IndependentTuple", "Keyword", "Symbol", "key_text", "read_all", "write"]

DEPTH_MAX = 100
"""Nesting beyond this is no history."""

_PLAIN_TAGS = frozenset({"jepsen.history.Op", "knossos.op.Op"})
"""Records that are maps of an operation, and are read as such."""
_TUPLE_TAGS = frozenset({"jepsen.independent/tuple", "jepsen.independent.Tuple"})

_TOKEN = re.compile(
    r"""(?:[\s,\uFEFF]|;[^\r\n]*)*+ (?:
        (?P<atom>[^\s,()\[\]{}";\\\#^'\0][^\s,()\[\]{}";\\\0]*)
      | (?P<open>\#\{|[\[({])
      | (?P<close>[\])}])
      | (?P<string>"(?:[^"\\]|\\.)*+")
      | (?P<discard>\#_)
      | (?P<meta>\#?\^)
      | (?P<regex>\#"(?:[^"\\]|\\.)*+")
      | (?P<names>\#::?[^\s,()\[\]{}";\\]+(?=[\s,]*\{))
      | (?P<text>\#\#-?[A-Za-z]+|\#'[^\s,()\[\]{}";]+|\#<[^>\n]*>)
      | (?P<tag>\#[A-Za-z][^\s,()\[\]{}";]*)
      | (?P<quote>'(?=[\[({\#]))
      | (?P<char>\\(?:[A-Za-z0-9]+|.))
      | (?P<other>'[^\s,()\[\]{}";\\]*)
      | (?P<wrong>.)
      | \Z)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSE = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_KEYWORD = re.compile(r"[^\s,()\[\]{}\";\\\uFEFF]+")
_TAG = re.compile(r"#[A-Za-z][^\s,()\[\]{}\";]*")
_SYMBOL = re.compile(r"[^\s\d:@`~][^\s@`~]*")
_ATOMS_MAX = 1 << 16


class IndependentTuple(list[Any]):
    """A `[key value]` that jepsen.independent tagged as such."""

    __slots__ = ()


_NOTHING = object()


@dataclass(slots=True)
class _Frame:
    """A form that is not whole yet: a collection, or what stands behind a prefix."""

    kind: str
    text: str
    position: int
    items: list[Any] = field(default_factory=list)


_OPENING = frozenset({"open", "discard", "meta", "names", "tag", "quote"})
"""Tokens that begin a form which others make whole."""


def read_all(text: str) -> Iterator[Any]:
    """Read every form of a text; vectors and lists become lists.

    Raises HistoryError that names the line.
    """
    return _Reader(text).forms()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._atoms: dict[str, Any] = {"nil": None, "true": True, "false": False}
        """Atoms that were read, by their texts: most come again."""

    def forms(self) -> Iterator[Any]:
        frames: list[_Frame] = []
        atoms = self._atoms
        for found in _TOKEN.finditer(self._text):
            kind = found.lastgroup
            if kind == "atom":
                form = atoms.get(found[1], _NOTHING)
                if form is _NOTHING:
                    form = self._atom(found[1], found.start(1))
            elif kind is None:
                break
            else:
                form = self._other(frames, kind, found[kind], found.start(kind))
                if form is _NOTHING:
                    continue
            if frames and frames[-1].kind == "open":
                frames[-1].items.append(form)
                continue
            form = self._into(frames, form)
            if form is not _NOTHING:
                yield form
        if frames:
            raise self._error("ends inside the form", frames[-1].position)

    def _other(self, frames: list[_Frame], kind: str, token: str, position: int) -> Any:
        """Read a token that is no atom; `_NOTHING` where it begins a form."""
        if kind in _OPENING:
            self._open(frames, _Frame(kind, token, position))
            return _NOTHING
        if kind == "close":
            return self._close(frames, token, position)
        if kind == "wrong":
            raise self._error("cannot be read", position)
        return self._single(kind, token, position)

    def _open(self, frames: list[_Frame], frame: _Frame) -> None:
        if len(frames) > DEPTH_MAX:
            raise self._error("is nested too deeply", frame.position)
        frames.append(frame)

    def _into(self, frames: list[_Frame], form: Any) -> Any:
        """Put a whole form into what it belongs to; returns it where it belongs to nothing."""
        while frames:
            frame = frames[-1]
            frame.items.append(form)
            if frame.kind == "open" or (frame.kind == "meta" and len(frame.items) == 1):
                return _NOTHING
            frames.pop()
            if frame.kind == "discard":
                return _NOTHING
            if frame.kind == "names":
                form = _in_namespace(frame.text.lstrip("#:"), form)
            elif frame.kind == "tag":
                form = _read_tagged(frame.text, form)
        return form

    def _close(self, frames: list[_Frame], bracket: str, position: int) -> Any:
        """Return the collection that a bracket closes."""
        if not frames or frames[-1].kind != "open":
            raise self._error("closes what is not open", position)
        frame = frames.pop()
        if bracket != _CLOSE[frame.text]:
            raise self._error("closes with the wrong bracket", position)
        if frame.text == "#{":
            return EdnSet(frame.items)
        return self._map(frame.items, frame.position) if frame.text == "{" else frame.items

    def _error(self, what: str, position: int) -> HistoryError:
        line = self._text.count("\n", 0, position) + 1
        rest = self._text[position : position + 200].lstrip(" ,\t\r\ufeff")
        return HistoryError(f"line {line}: EDN {what} at {rest[:20].split(chr(10))[0]!r}")

    def _single(self, kind: str, text: str, position: int) -> Any:
        """Read a form that is one token."""
        if kind == "string":
            return text[1:-1] if "\\" not in text else self._string(text, position)
        if kind == "regex":
            return {Symbol("#regex"): text[2:-1]}
        if kind == "char":
            return _character(text[1:])
        return Symbol(text) if kind == "text" else self._atom(text, position)

    def _map(self, items: list[Any], position: int) -> Any:
        if len(items) % 2:
            raise self._error("has a map with a key without value", position)
        keys = [key if type(key) is Keyword else _hashable(key) for key in items[::2]]
        pairs = dict(zip(keys, items[1::2], strict=True))
        if len(pairs) == len(keys):
            return pairs
        if len(set(map(freeze, keys))) < len(keys):
            raise self._error("has a map with a key twice", position)
        return Symbol(_written_map(zip(keys, items[1::2], strict=True), ordered=True))

    def _string(self, text: str, position: int) -> str:
        def replacement(match: re.Match[str]) -> str:
            code = match[1]
            if len(code) == 5:
                return chr(int(code[1:], 16))
            if code not in _ESCAPES:
                raise self._error("has an unknown escape", position)
            return _ESCAPES[code]

        plain = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replacement, text[1:-1], flags=re.DOTALL)
        try:  # Java writes a character beyond 16 bits as two
            return plain.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._error("has half a surrogate pair", position) from None

    def _atom(self, text: str, position: int) -> Any:
        if len(self._atoms) > _ATOMS_MAX:
            return self._read_atom(text, position)
        return self._atoms.setdefault(text, self._read_atom(text, position))

    def _read_atom(self, text: str, position: int) -> Any:
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


def _read_tagged(tag: str, form: Any) -> Any:
    if tag[1:] in _PLAIN_TAGS:
        return form
    if tag[1:] in _TUPLE_TAGS and isinstance(form, list) and len(form) == 2:
        return IndependentTuple(form)
    if tag == "#inst" and type(form) is str:
        form = _instant(form)
    elif tag == "#uuid" and type(form) is str:
        form = form.lower()
    return {Symbol(tag): form}


def _instant(text: str) -> str:
    """Return an instant as Clojure prints it, to the millisecond, whatever zone it is given in."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):  # none, or one that no other zone has a year for
        return text
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}-00:00"


def _in_namespace(namespace: str, form: Any) -> Any:
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
        return Character(chr(code)) if not 0xD800 <= code < 0xE000 else Symbol("\\" + name)
    if re.fullmatch(r"o[0-7]{1,3}", name):
        return Character(chr(int(name[1:], 8)))
    return Character(CHARACTERS.get(name, name))


def _hashable(key: Any) -> Any:
    """Return a map key: collections as their text."""
    return Symbol(_write(key, ordered=True)) if isinstance(key, list | dict | EdnSet) else key


_READS_OTHERWISE = re.compile(r"""[\s:'\[({\#"\\;^@~`0-9+-]|(?:nil|true|false)?\Z""")


def key_text(key: Any) -> str:
    """Return what names the key of an operation: different keys have different names.

    A text is its own name, unless it would be read as something else: then it is quoted.
    """
    if type(key) is int:
        return str(key)
    if type(key) is str:
        return key if _READS_OTHERWISE.match(key) is None else _quote(key)
    text = _write(key, ordered=True)
    return f"'{text}" if isinstance(key, Symbol) else text


def write(value: Any) -> str:
    """Write a JSON value, or what `read_all` returns, as EDN on one line.

    Raises HistoryError for what EDN cannot hold.
    """
    return _write(value, ordered=False)


def _write(value: Any, *, ordered: bool) -> str:
    """Write a value; `ordered`: equal values as equal texts, whatever order they were made in."""
    match value:
        case None:
            return "nil"
        case EdnSet():
            items = [_write(item, ordered=ordered) for item in value]
            return "#{" + " ".join(sorted(items) if ordered else items) + "}"
        case list() | tuple():
            return "[" + " ".join(_write(item, ordered=ordered) for item in value) + "]"
        case dict():
            return _written_map(value.items(), ordered=ordered)
        case bool():
            return "true" if value else "false"
        case str():
            return _written_text(value)
        case int() | float() if math.isfinite(value):
            return _written_number(value)
        case _:
            raise HistoryError(f"{value!r} cannot be written as EDN")


def _written_map(pairs: Iterable[tuple[Any, Any]], *, ordered: bool) -> str:
    items = [(_write(k, ordered=ordered), _write(v, ordered=ordered)) for k, v in pairs]
    if len(items) == 1 and _TAG.fullmatch(items[0][0]):
        return " ".join(items[0])  # a tag and what it is of
    return "{" + ", ".join(map(" ".join, sorted(items) if ordered else items)) + "}"


def _written_text(text: str) -> str:
    if isinstance(text, Symbol):
        return str(text)
    if isinstance(text, Character):
        return repr(text)
    if not isinstance(text, Keyword):
        return _quote(text)
    if not _KEYWORD.fullmatch(text):
        raise HistoryError(f"the keyword {str(text)!r} cannot be written as EDN")
    return f":{text}"


def _written_number(number: float) -> str:
    if isinstance(number, int):
        return repr(number)
    if isinstance(number, Ratio):
        exactly = decimal(number)
        return f"{exactly.numerator}/{exactly.denominator}"
    return f"{float(number)!r}M" if isinstance(number, BigDecimal) else repr(float(number))


def _quote(text: str) -> str:
    escapes = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
    # A file with NUL bytes is taken for no text.
    return '"' + "".join(escapes.get(c, c) for c in text).replace("\0", "\\u0000") + '"'

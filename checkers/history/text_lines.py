r"""Lines of operations as Jepsen prints them for people: `history.txt`, and its logs.

    0\t:invoke\t:write\t1
    INFO [2015-05-22 21:00:13,456] jepsen worker 3 - jepsen.util 3 :ok :read 1

Process, type and function, then a value and perhaps an error, with tabs or (as people paste it)
blanks between them. With tabs each field is one value, or text; with blanks forms of EDN are read
one after another, the first of which is the value. Before the process a log has what its logger
writes; lines of a log that hold no operation are left out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from checkers.history import HistoryError
from checkers.history.edn import read_all

_TYPES = "invoke|ok|fail|info"
_OPERATION = (
    r"(?P<process>[0-9]+|:?[A-Za-z][^\s:\"]*)[ \t]+:?(?P<type>%s)[ \t]+"
    r"(?P<f>:?[^\s:,\"\[\](){}]+)(?P<rest>[ \t].*)?"
)
_PLAIN = re.compile(_OPERATION % _TYPES)
_OF_A_LOG = _OPERATION.replace(":?(?P<type>", ":(?P<type>") % _TYPES
_LOGGED = re.compile(r".{0,400}?\bjepsen\.[\w.$-]{1,80}(?:[ \t]{0,9}[-:])?[ \t]{1,9}" + _OF_A_LOG)
_LINES_LOOKED_AT = 50
"""A log may begin with lines of others."""
_LOGGER = re.compile(r"\bjepsen\.")
_ENDED = re.compile(rf"[0-9]\s{{1,99}}:(?:{_TYPES})\s")
_LOST = re.compile(_OF_A_LOG)
_LINE_MAX = 1 << 20


def are_text_lines(start: str) -> bool:
    """Return whether a text begins with lines of operations, or of a log."""
    lines = [line.strip() for line in start.split("\n") if line.strip()]
    if not lines or lines[0][0] in "{[(#;":
        return False
    logged = any(re.search(r"\bjepsen\.\w", line) for line in lines[:_LINES_LOOKED_AT])
    return logged or _PLAIN.fullmatch(lines[0]) is not None


def operations_of(text: str, notes: list[str]) -> Iterator[list[Any]]:
    """Yield `[process, type, f, value, error]` of each line. Raises HistoryError with the line."""
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text)]
    first = next(filter(None, lines))
    is_log = _PLAIN.fullmatch(first) is None  # a text of an operation may look like a log's line
    other = 0
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        if len(line) > _LINE_MAX:
            raise HistoryError(f"line {number}: more than {_LINE_MAX:,} characters")
        found = (_LOGGED if is_log else _PLAIN).fullmatch(line)
        if found is not None:
            yield _operation(found, number)
        elif is_log and not _is_lost(line):
            other += 1
        else:
            raise HistoryError(f"line {number}: no operation (process, type, f, value)")
    if other:
        notes.append(f"{other} lines of the log hold no operation")


def _is_lost(line: str) -> bool:
    """Return whether an operation is on a line of Jepsen's in whatever form, or has no logger."""
    logger = _LOGGER.search(line)
    ended = logger is not None and _ENDED.search(line, logger.end())
    return bool(ended) or _LOST.fullmatch(line) is not None


def _operation(found: re.Match[str], number: int) -> list[Any]:
    rest = found["rest"] or ""
    try:
        (process,) = read_all(found["process"])
        value, *error = _value_and_error(rest, ended_well=found["type"] in ("invoke", "ok"))
    except HistoryError as problem:
        what = str(problem).removeprefix("line 1: ")
        raise HistoryError(f"line {number}: {what}") from problem
    if len(error) > 1:
        error = [" ".join(map(str, error))]
    return [process, found["type"], found["f"], value, *error]


def _value_and_error(rest: str, *, ended_well: bool) -> list[Any]:
    if rest.startswith("\t"):
        fields = enumerate(rest[1:].split("\t"))
        return [_field(field, whole=ended_well and not i) for i, field in fields]
    forms = _forms(rest, whole=ended_well) or [None]
    if ended_well and len(forms) > 1:
        raise HistoryError("more than one value; put tabs between process, type, f and value")
    return forms


def _forms(text: str, *, whole: bool) -> list[Any]:
    """Read all forms; a text that is none, which an error may be, stays text behind no value."""
    try:
        return list(read_all(text))
    except HistoryError:
        if whole:
            raise
        return [None, text.strip()]


def _field(text: str, *, whole: bool) -> Any:
    """Read what stands between two tabs: one form, or text."""
    forms = _forms(text, whole=whole)
    return forms[0] if len(forms) == 1 else text.strip() or None

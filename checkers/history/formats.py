"""History files: ours, the public Porcupine corpus, and those of Jepsen, Knossos and Elle.

| format | how it is recognised |
|---|---|
| journal: one JSON object of `Event` fields a line, null ones left out | `time_ns` in line 1 |
| corpus: the same, but with `time` (order of events, no unit) for `time_ns` | `time` |
| EDN: operation maps or `[process type f value]`, one by one or in one collection | `{ [ ( #` |
| `history.txt`: process, type, function, value in EDN, between tabs | a tab, and a type behind it |
| a JSON array of operation maps | `[{"` |

The first two are journals of clients that write by the rules of `checkers.history`. The others are
foreign: `checkers.history.foreign` says how they are read.

Whatever is not whole or not one of these raises HistoryError with one line that names file and
line. (A journal that a killed run left with a torn last line is read by `results.journal`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISBLK, S_ISCHR
from typing import Any, TypeGuard

from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, HistoryError, pair
from checkers.history.edn import EdnSet, Keyword, read_all, write
from checkers.history.foreign import History, history_of
from checkers.history.json_text import JsonError, parse, shown
from checkers.history.sealed import FIELD, is_changed

_JOURNAL_FIELDS = frozenset(Event.__slots__)
_CORPUS_FIELDS = frozenset(
    {"index", "process", "type", "f", "key", "value", "time", "error", "node"}
)
_BLANK = " \t\r\n,\ufeff"
_TABBED = re.compile(r"[^\t\n]*\t\s*:?(?:invoke|ok|fail|info)\s*(?:\t|$)", re.MULTILINE)


def load_history(path: str | Path, *, independent: bool = False) -> list[Event]:
    """Read the events of a history file, whichever of the formats it has.

    `independent`: values are `[key value]` tuples of jepsen.independent; EDN often prints them as
    plain vectors, so that only the caller can know. Raises HistoryError.
    """
    return list(_read(path, independent=independent)[0])


def load(path: str | Path, *, independent: bool = False) -> History:
    """Read a history file and pair its events. Raises HistoryError; see `load_history`."""
    events, history = _read(path, independent=independent)
    if history is not None:
        return history
    try:
        return History(events, pair(events))
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def _read(path: str | Path, *, independent: bool) -> tuple[Sequence[Event], History | None]:
    """Return the events of a file; of a foreign one also the whole history."""
    try:
        refuse_device(path)
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path}: no history: not UTF-8 text") from error
    try:
        forms = _foreign_forms(text)
        if forms is None:
            return _from_json_lines(text), None
        history = history_of(forms, independent=independent)
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error
    return history.events, history


def refuse_device(path: str | Path) -> None:
    """Raise HistoryError for /dev/zero and its like, OSError where there is nothing."""
    mode = Path(path).stat().st_mode
    if S_ISCHR(mode) or S_ISBLK(mode):
        raise HistoryError(f"{path}: a device, which may have no end; give a file or a pipe")


def _foreign_forms(text: str) -> Iterable[Any] | None:
    """Return the operation maps of a foreign file; None for JSON lines."""
    start = text[:4096].lstrip(_BLANK) or text.lstrip(_BLANK)[:4096]
    if not start:
        raise HistoryError("empty: there is no history in it")
    if start[0] == "{" and not re.match(r"\{\s*[:#;^]", start):
        return None
    if re.match(r'\[\s*\{\s*"', start):
        return _json_array(text)
    if _TABBED.match(start):
        return _tabbed(text)
    if start[0] in "{[(#;^'":
        return _edn_forms(text)
    raise HistoryError("not a history: neither JSON lines nor EDN")


def _json_array(text: str) -> list[Any]:
    try:
        forms = parse(text.strip(_BLANK))
    except JsonError as error:
        raise HistoryError(str(error)) from error
    assert isinstance(forms, list)
    return forms


def _edn_forms(text: str) -> Iterable[Any]:
    forms = list(read_all(text))
    if len(forms) == 1 and isinstance(forms[0], list | EdnSet):
        inside = forms[0]
        if not (len(inside) >= 2 and isinstance(inside[1], Keyword)):
            return inside
    return forms


def _tabbed(text: str) -> Iterator[list[Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        try:
            read = [list(read_all(field)) for field in fields]
        except HistoryError as error:
            problem = str(error).removeprefix("line 1: ")
            raise HistoryError(f"line {number}: {problem}") from error
        yield [
            forms[0] if len(forms) == 1 else field or None
            for forms, field in zip(read, fields, strict=True)
        ]


def event_from_json(fields: Mapping[str, Any]) -> Event:
    """Return the event of one journal line.

    Raises HistoryError when a field is unknown, missing or of the wrong type.
    """
    unknown = sorted(set(fields) - _JOURNAL_FIELDS)
    if unknown:
        raise HistoryError(f"unknown field {shown(unknown[0])}")
    process = fields.get("process")
    if not isinstance(process, str) and not (_whole(process) and process >= 0):
        raise HistoryError(f"process is {shown(process)}, not a number from 0 on or a name")
    for name in ("f", "key", "error", "node"):
        value = fields.get(name)
        if not isinstance(value, str) and (name == "f" or value is not None):
            raise HistoryError(f"{name} is {shown(value)}, not a text")
    for name in ("index", "time_ns", "offset", "epoch"):
        value = fields.get(name)
        needed = name in ("index", "time_ns")
        if (value is not None or needed) and not _whole(value):
            raise HistoryError(f"{name} is {shown(value)}, not a whole number of 64 bits")
    try:
        kind = EventType(str(fields.get("type")))
    except ValueError:
        raise HistoryError(f"type is {shown(fields.get('type'))}") from None
    return Event(**{**fields, "type": kind})


def _whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that a column holds; the last one stands for "never"."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return -INFINITY_NS <= value < INFINITY_NS


def _from_json_lines(text: str) -> list[Event]:
    events: list[Event] = []
    corpus: bool | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = parse(line)
            if not isinstance(fields, dict):
                raise HistoryError("not a JSON object")  # noqa: TRY301  (one place adds the line)
            if is_changed(line.rstrip("\r").encode("utf-8", "surrogatepass")):
                raise HistoryError("its checksum is that of another line")  # noqa: TRY301  (as above)
            fields.pop(FIELD, None)
            if corpus is None:
                corpus = _is_corpus(fields)
            events.append(event_from_json(_corpus_fields(fields) if corpus else fields))
        except (JsonError, HistoryError) as error:
            raise HistoryError(f"line {number}: {error}") from error
    return events


def _is_corpus(fields: Mapping[str, Any]) -> bool:
    if "time_ns" in fields:
        return False
    if {"index", "process", "type", "f", "time"} <= set(fields):
        return True
    raise HistoryError("a JSON file, but not a history (no time_ns, no time)")


def _corpus_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(fields) - _CORPUS_FIELDS)
    if unknown:
        raise HistoryError(f"unknown field {shown(unknown[0])}")
    if "time" not in fields:
        raise HistoryError("no time")
    known = {name: value for name, value in fields.items() if name != "time"}
    return {**known, "time_ns": fields["time"]}


def to_edn(events: Iterable[Event]) -> str:
    """Return a history as Jepsen's `history.edn`: one operation map a line.

    Fields that Jepsen does not have (key, node, offset, epoch) are written when they are set;
    `load_history` reads them back, as a foreign history's. Raises HistoryError for what EDN cannot
    hold.
    """
    return "".join(f"{write(_edn_map(event))}\n" for event in events)


def _edn_map(event: Event) -> dict[Keyword, Any]:
    process = Keyword(NEMESIS) if event.process == NEMESIS else event.process
    fields: dict[str, Any] = {
        "index": event.index,
        "time": event.time_ns,
        "process": process,
        "type": Keyword(event.type.value),
        "f": Keyword(event.f),
        "value": event.value,
    }
    for name in ("key", "error", "node", "offset", "epoch"):
        value = getattr(event, name)
        if value is not None:
            fields[name] = value
    return {Keyword(name): value for name, value in fields.items()}

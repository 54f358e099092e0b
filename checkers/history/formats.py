"""History files: journals of ours, and what other tools and people write.

| form | how it is recognised |
|---|---|
| JSON: one object a line, or objects, an array of them, or `{"history": [...]}` | `{"` or `[{"` |
| EDN: the same, or `[process type f value]` for a map, in any collection | `{ [ ( #` |
| `history.txt` and logs of Jepsen | process, type and f on a line (`checkers.history.text_lines`) |

A JSON history whose events have `time_ns` is a journal, written by the rules of `checkers.history`.
Whatever else is foreign, in all forms alike: `checkers.history.foreign` says how it is read. The
form says nothing of how it is to be judged.

Whatever is not whole or not one of these raises HistoryError with one line that names file and
line. (A journal that a killed run left with a torn last line is read by `results.store.journal`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from checkers.history import NEMESIS, Event, EventType, HistoryError, pair
from checkers.history.edn import EdnSet, Keyword, read_all, write
from checkers.history.foreign import History, history_of, is_whole
from checkers.history.json_text import FIELD, JsonError, is_changed, parse, parse_all, render
from checkers.history.sources import TEXT_BYTES_MAX, open_history
from checkers.history.text_lines import are_text_lines, operations_of
from extensions.plain_files import read_bounded

_JOURNAL_FIELDS = frozenset(Event.__slots__)
_START_BYTES = 4096
_BLANK = " \t\r\n,\ufeff"
_NAME = r'"[^"\n]*"'
_BEGINS_JSON = re.compile(rf'\[?\s*\{{\s*({_NAME}\s*:|\}}|$)|\[\s*(\[\s*)?({_NAME}|[0-9]+)\s*,\s*"')


def load_history(path: str | Path, *, independent: bool = False) -> list[Event]:
    """Read the events of a history file, whichever of the forms it has; `-` is standard input.

    `independent`: values are `[key value]` tuples of jepsen.independent; EDN often prints them as
    plain vectors, so that only the caller can know. Raises HistoryError.
    """
    return list(_load(path, independent=independent, paired=False).events)


def load(path: str | Path, *, independent: bool = False) -> History:
    """Read a history file and pair its events. Raises HistoryError; see `load_history`."""
    return _load(path, independent=independent, paired=True)


def _load(path: str | Path, *, independent: bool, paired: bool) -> History:
    with open_history(path) as file:
        return read_text(file, path, independent=independent, paired=paired)


def read_text(
    file: BinaryIO, name: str | Path, *, independent: bool, paired: bool = True
) -> History:
    """Read a history from an open file; `paired`: whether a journal's operations are wanted.

    Raises HistoryError in one line, which begins with the name.
    """
    try:
        if b"\0" in file.read(_START_BYTES):  # binary: not worth reading to its end
            raise HistoryError("no history: not UTF-8 text")  # noqa: TRY301  (the name is added below)
        file.seek(0)
        text = read_bounded(file, name, bytes_max=TEXT_BYTES_MAX).decode("utf-8")
        return _history(text, independent=independent, paired=paired)
    except OSError as error:
        raise HistoryError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HistoryError(f"{name}: no history: not UTF-8 text") from error
    except HistoryError as error:
        raise HistoryError(f"{name}: {error}") from error


def _history(text: str, *, independent: bool, paired: bool) -> History:
    start = text[:_START_BYTES].lstrip(_BLANK) or text.lstrip(_BLANK)[:_START_BYTES]
    if not start:
        raise HistoryError("empty: there is no history in it")
    notes: list[str] = []
    forms = _json_forms(text, start)
    if forms is not None:
        if any(isinstance(form, dict) and "time_ns" in form for _, form in forms):
            return _journal(forms, independent=independent, paired=paired)
        values = [form for _, form in forms]
        _refuse_others(values)
        return history_of(values, independent=independent, notes=notes)
    if are_text_lines(start):
        lines = operations_of(text.removeprefix("\ufeff"), notes)
        return history_of(lines, independent=independent, notes=notes)
    if start[0] in "{[(#;^'":
        return history_of(_unwrap(list(read_all(text))), independent=independent, notes=notes)
    raise HistoryError("not a history: neither JSON, EDN nor lines of process, type, f and value")


def _json_forms(text: str, start: str) -> list[tuple[str, Any]] | None:
    """Return the values of JSON with their places; None for what is not JSON.

    EDN has vectors, too, but no colon behind a name. It has commas, though Clojure prints none in a
    vector, and `null` as a symbol: read as EDN, broken JSON would hold other values.
    """
    is_json = _BEGINS_JSON.match(start) is not None
    if not is_json and start[0] != "[":
        return None
    try:
        first = parse(text.lstrip(_BLANK).partition("\n")[0].strip(_BLANK))
    except JsonError:
        first = []
    if not isinstance(first, list) and _unwrap([first]) == [first]:
        return [*_json_lines(text)]
    try:
        values = _unwrap(list(parse_all(text, _BLANK)))
    except JsonError as error:
        if not is_json:
            return None
        raise HistoryError(str(error)) from error
    return [(f"form {i}", value) for i, value in enumerate(values, 1)]


def _json_lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip(_BLANK)
        if not bare:
            continue
        try:
            form = parse(bare)
        except JsonError as error:
            raise HistoryError(f"line {number}: {error}") from error
        if is_changed(line.rstrip("\r").encode("utf-8", "surrogatepass")):
            raise HistoryError(f"line {number}: its checksum is that of another line")
        yield f"line {number}", form


def _unwrap(forms: list[Any]) -> Sequence[Any]:
    """Return the operations of one collection of them, or of the history in one map."""
    if len(forms) != 1:
        return forms
    (inside,) = forms
    if isinstance(inside, dict) and isinstance(inside.get("history"), list | EdnSet):
        history: Sequence[Any] = inside["history"]
        return history
    is_operation = isinstance(inside, list) and len(inside) >= 2 and isinstance(inside[1], str)
    return inside if isinstance(inside, list | EdnSet) and not is_operation else forms


def _refuse_others(forms: Sequence[Any]) -> None:
    first = forms[0] if forms else None
    if not isinstance(first, dict) or "type" in first:
        return
    if {name.lower() for name in first} & {"clientid", "client_id"}:
        raise HistoryError(
            "operations of Porcupine, whose Input and Output only its model understands: give two "
            'events for each, {"process": ClientId, "type": "invoke", "f": ..., "value": ...} at '
            'Call and the same with "ok" at Return, in order of time'
        )
    raise HistoryError("a JSON file, but not a history: its first object has no type")


def _journal(forms: Sequence[tuple[str, Any]], *, independent: bool, paired: bool) -> History:
    """Return the history of a journal of ours."""
    if independent:
        raise HistoryError("a journal, whose events name their keys: --independent is for others")
    events: list[Event] = []
    for place, fields in forms:
        try:
            if not isinstance(fields, dict):
                raise HistoryError("not a JSON object")  # noqa: TRY301  (one place adds the line)
            fields.pop(FIELD, None)
            events.append(event_from_json(fields))
        except HistoryError as error:
            raise HistoryError(f"{place}: {error}") from error
    return History(events, pair(events) if paired else [])


def event_from_json(fields: Mapping[str, Any]) -> Event:
    """Return the event of one journal line.

    Raises HistoryError when a field is unknown, missing or of the wrong type.
    """
    unknown = sorted(set(fields) - _JOURNAL_FIELDS)
    if unknown:
        raise HistoryError(f"unknown field {render(unknown[0])}")
    process = fields.get("process")
    if not isinstance(process, str) and not (is_whole(process) and process >= 0):
        raise HistoryError(f"process is {render(process)}, not a number from 0 on or a name")
    for name in ("f", "key", "error", "node"):
        value = fields.get(name)
        if not isinstance(value, str) and (name == "f" or value is not None):
            raise HistoryError(f"{name} is {render(value)}, not a text")
    for name in ("index", "time_ns", "offset", "epoch"):
        value = fields.get(name)
        needed = name in ("index", "time_ns")
        if (value is not None or needed) and not is_whole(value):
            raise HistoryError(f"{name} is {render(value)}, not a whole number of 64 bits")
    try:
        kind = EventType(str(fields.get("type")))
    except ValueError:
        raise HistoryError(f"type is {render(fields.get('type'))}") from None
    return Event(**{**fields, "type": kind})


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

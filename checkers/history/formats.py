"""History files: ours, the public Porcupine corpus, and Jepsen's EDN.

| format | how it is recognised |
|---|---|
| journal: one JSON object of `Event` fields a line, null ones left out | `time_ns` in line 1 |
| corpus: the same, but with `time` (order of events, no unit) for `time_ns` | `time` |
| Jepsen `history.edn`: one map a line, or all in one vector | begins with `{:`, `[` or `#jepsen` |

Whatever is not whole or not one of these raises HistoryError with one line that names file and
line. (A journal that a killed run left with a torn last line is read by `results.journal`.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, HistoryError
from checkers.history.edn import EdnSet, Keyword, read_all, write
from checkers.history.json_text import JsonError, parse, shown
from checkers.history.sealed import FIELD, is_changed

_JOURNAL_FIELDS = frozenset(Event.__slots__)
_CORPUS_FIELDS = frozenset(
    {"index", "process", "type", "f", "key", "value", "time", "error", "node"}
)


def load_history(path: str | Path, *, independent: bool = False) -> list[Event]:
    """Read a history file, whichever of the formats it has.

    `independent`: values are `[key value]` tuples of jepsen.independent (EDN prints them as plain
    vectors, so that only the caller can know). Raises HistoryError.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path}: no history: not UTF-8 text") from error
    try:
        return _parse(text, independent=independent)
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error


def _parse(text: str, *, independent: bool) -> list[Event]:
    start = text.lstrip()[:7]
    if not start:
        raise HistoryError("empty: there is no history in it")
    if start.startswith(("{:", "[", "#jepsen", ";")):
        return _from_edn(text, independent=independent)
    if start.startswith("{"):
        return _from_json_lines(text)
    raise HistoryError("not a history: neither JSON lines nor EDN")


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


def _from_edn(text: str, *, independent: bool) -> list[Event]:
    forms = list(read_all(text))
    if len(forms) == 1 and isinstance(forms[0], list):
        forms = forms[0]
    events: list[Event] = []
    for position, form in enumerate(forms):
        try:
            events.append(_edn_event(form, position, independent=independent))
        except HistoryError as problem:
            raise HistoryError(f"form {position + 1}: {problem}") from problem
    return events


def _edn_event(form: Any, position: int, *, independent: bool) -> Event:
    """Return the event of one Jepsen operation map; its index and time may be missing."""
    if not isinstance(form, dict) or not {"process", "type", "f"} <= set(form):
        raise HistoryError("no operation (:process, :type and :f)")
    value = _plain(form.get("value"))
    key = _plain(form.get("key"))
    client = _whole(form["process"])
    if independent and client and value is not None:
        if not isinstance(value, list) or len(value) != 2:
            raise HistoryError(f"no [key value] but {shown(value)}")
        key, value = value
    error = _plain(form.get("error"))
    node = _plain(form.get("node"))
    fields = {
        "index": form.get("index", position),
        "time_ns": form.get("time", form.get("index", position)),
        "process": form["process"] if client else _process_name(form["process"]),
        "type": str(form["type"]),
        "f": _plain(form["f"]),
        "key": None if key is None else key if isinstance(key, str) else json.dumps(key),
        "value": value,
        "error": error if error is None or isinstance(error, str) else json.dumps(error),
        "node": node,
        "offset": form.get("offset"),
        "epoch": form.get("epoch"),
    }
    return event_from_json(fields)


def _process_name(process: Any) -> Any:
    """Jepsen's clients have numbers; every named process is its nemesis."""
    return NEMESIS if isinstance(process, Keyword) else process


def _plain(value: Any) -> Any:
    """Return an EDN value as a JSON value: keywords as names, sets as lists."""
    if isinstance(value, Keyword):
        return str(value)
    if isinstance(value, EdnSet | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        named = {str(name): _plain(item) for name, item in value.items()}
        if len(named) < len(value):
            raise HistoryError("a map has two keys that are the same as texts")
        return named
    return value


def to_edn(events: Iterable[Event]) -> str:
    """Return a history as Jepsen's `history.edn`: one operation map a line.

    Fields that Jepsen does not have (key, node, offset, epoch) are written when they are set;
    `load_history` reads them back. Raises HistoryError for what EDN cannot hold.
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

"""Histories of jepsen.tests.kafka as those of logs, which the model `log` judges key by key.

There an operation is `send`, `poll` or `txn`, and its value a list of steps: `[:send k v]`, which
completes as `[:send k [offset v]]`, and `[:poll {k [[offset v] ...]}]`. Each step becomes an
operation of its key: a send an `append` that returned its offset, a poll a `read` of each key that
it shows, from the first offset that it shows. Nothing more is known of a poll: where the consumer
stood before, and whether there was more. So one that shows nothing of a key says nothing of it.

The steps of a transaction have its invocation and its completion, so they are concurrent: their
order in it is not judged, nor is what it shows of several keys at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

from checkers.history import EventType, HistoryError, Operation
from checkers.history.edn import key_text
from checkers.history.json_text import render
from porcupine_py.values import freeze

_STEPS = ("send", "poll")
_FUNCTIONS = frozenset({*_STEPS, "txn"})
_CONTROL = frozenset({"assign", "subscribe", "crash", "debug-topic-partitions"})
"""Functions of which clients' logs show nothing that is judged."""


def are_steps(value: Any) -> bool:
    """Return whether a value is a list of sends and polls."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(step, list) and step and step[0] in _STEPS for step in value)
    )


def is_kafka(operation: Operation) -> bool:
    """Return whether an operation is a list of sends and polls."""
    return operation.f in _FUNCTIONS and are_steps(operation.input)


def log_operations(operations: Sequence[Operation], notes: list[str]) -> list[Operation]:
    """Return the appends and reads of such a history. Raises HistoryError for another shape."""
    kafka = [operation for operation in operations if is_kafka(operation)]
    other = Counter(operation.f for operation in operations if not is_kafka(operation))
    for operation in operations:
        if operation.f not in _CONTROL and not is_kafka(operation) and _shows(operation):
            raise _unlike(operation, operation.output)
    if other:
        listed = ", ".join(f"{count} {f}" for f, count in sorted(other.items()))
        notes.append(f"neither sends nor polls, and not judged: {listed}")
    sent = {key_text(s[1]) for o in kafka for s in o.input if s[0] == "send" and len(s) == 3}
    done = [(o, *step) for o in kafka for step in _steps(o, sent)]
    notes.append(f"{len(done)} sends and polls of one key each are read as those of the model log")
    own = len({o.index for o, *_ in done}) == len(done)
    return [
        replace(o, index=o.index if own else i, f=f, key=k, input=given, output=output, offset=None)
        for i, (o, f, k, given, output) in enumerate(done)
    ]


def _shows(operation: Operation) -> bool:
    return operation.type is EventType.OK and operation.output not in (None, [])


_Step = tuple[str, str, Any, Any]
"""f, key, input and output of an operation on one key."""


def _steps(operation: Operation, sent: Container[str]) -> Iterator[_Step]:
    asked = operation.input
    ended = operation.output if operation.type is EventType.OK else asked
    if not isinstance(ended, list) or len(ended) != len(asked):
        raise _unlike(operation, ended)
    for before, step in zip(asked, ended, strict=True):
        if not isinstance(step, list) or step[:1] != before[:1]:
            raise _unlike(operation, step)
        if step[0] == "send":
            yield _send(operation, before, step)
        elif operation.type is EventType.OK:
            yield from _poll_steps(operation, step, sent)


def _send(operation: Operation, before: list[Any], step: list[Any]) -> _Step:
    if len(before) != 3 or len(step) != 3 or freeze(before[1]) != freeze(step[1]):
        raise _unlike(operation, step)
    _, key, value = before
    result, offset = step[2], None
    if freeze(result) != freeze(value) and isinstance(result, list) and len(result) == 2:
        offset, result = result
    if freeze(result) != freeze(value) or type(offset) not in (int, type(None)):
        raise _unlike(operation, step)
    return "append", key_text(key), value, offset


def _poll_steps(operation: Operation, step: list[Any], sent: Container[str]) -> Iterator[_Step]:
    """Yield a read of each key. In JSON all keys of a map are texts, whatever was sent to."""
    found = step[1] if len(step) > 1 else {}
    if not isinstance(found, dict | None):
        raise _unlike(operation, step)
    for key, records in (found or {}).items():
        pairs = isinstance(records, list) and all(
            isinstance(record, list) and len(record) == 2 and type(record[0]) is int
            for record in records
        )
        if not pairs:
            raise _unlike(operation, step)
        name = key_text(key)
        if type(key) is str and name not in sent and key in sent:
            name = key
        if records:
            yield "read", name, records[0][0], records


def _unlike(operation: Operation, what: Any) -> HistoryError:
    return HistoryError(
        f"event {operation.index}: {render(what)} is no completion of {render(operation.input)}, "
        "whose steps are [:send key value] and [:poll]"
    )

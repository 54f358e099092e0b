"""Certificates as JSON lines: the proof of every key's verdict, to be kept and verified again.

One object a line: `check`, `key`, `status`, `algorithm`, `operations` (how many), and
`certificate`: `{"linearization": [operation index, ...]}`, or
`{"window": [...], "from_ns": .., "horizon_ns": ..}`, or null where nothing was proved. An
operation's index is that of its invocation in the history, so a certificate means something only
together with its history. (`sessions` has proofs of its own.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from checkers.history import HistoryError, Operation
from checkers.verdict import CheckResult, Status
from porcupine_py.models.base import Model
from porcupine_py.search.certificate import RefusedError, verify_order, verify_window
from porcupine_py.search.outcome import Window


def certificate_lines(results: Iterable[CheckResult]) -> Iterator[str]:
    """Write the results of single keys, in order of key, each as one line."""
    for result in sorted(results, key=lambda r: (r.checker, r.key is not None, r.key or "")):
        line = {
            "check": result.checker,
            "key": result.key,
            "status": result.status.value,
            "algorithm": result.algorithm,
            "operations": result.operations,
            "certificate": result.certificate,
        }
        yield json.dumps(line, allow_nan=False) + "\n"


def verify_lines(lines: Iterable[str], operations: Sequence[Operation], model: Model) -> list[str]:
    """Verify stored certificates against the history: one line for each that is refused.

    A key without a line is reported too, and a verdict other than PASS or FAIL: it proves nothing.
    """
    by_key: dict[str | None, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    problems = []
    seen: set[str | None] = set()
    for number, line in enumerate(lines, 1):
        try:
            stored = json.loads(line)
            if stored["check"] != "linearizable":
                continue
            key, status = stored["key"], Status(stored["status"])
            proof = dict(stored["certificate"] or {})
            seen.add(key)
            verify(by_key.get(key, []), model, status, proof)
        except RefusedError as refusal:
            problems.append(f"line {number}, key {stored['key']!r}: {refusal}")
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"line {number}: no certificate ({type(error).__name__})")
    missing = [key for key in by_key if key not in seen]
    return problems + [f"key {key!r}: there is no certificate" for key in missing]


def verify(
    operations: Sequence[Operation], model: Model, status: Status, proof: dict[str, object]
) -> None:
    """Verify the proof of one key's verdict. Raises RefusedError when it proves nothing."""
    prepared = model.prepare(operations)
    if status is Status.PASS and isinstance(proof.get("linearization"), list | tuple):
        verify_order(operations, prepared, proof["linearization"])  # type: ignore[arg-type]  # refused if not indexes
    elif status is Status.FAIL and isinstance(proof.get("window"), list | tuple):
        window = Window(tuple(proof["window"]), proof.get("from_ns"), proof.get("horizon_ns"))  # type: ignore[arg-type]  # refused if not indexes
        try:
            verify_window(operations, prepared, window)
        except HistoryError as error:
            raise RefusedError(str(error)) from error
    else:
        raise RefusedError(f"a {status.value} without a certificate")
